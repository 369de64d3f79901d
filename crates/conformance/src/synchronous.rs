//! Synchronous sends, which complete only when their receive has matched.

use treepie::{Comm, Error, Request, wait_all};

use crate::check::{Outcome, check, check_eq};
use crate::payload::{bytes, check_bytes, seed};
use crate::signals::{Role, probe_signal, recv_signal, ring_neighbors, send_signal};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("synchronous/not-complete-before-the-receive", 2, not_complete_before_the_receive),
    Case::new("synchronous/not-completed-by-a-probe", 2, not_completed_by_a_probe),
    Case::new("synchronous/not-completed-by-a-receive-that-is-too-small", 2, not_completed_by_a_small_receive),
    Case::new("synchronous/not-completed-by-another-tag", 2, not_completed_by_another_tag),
    Case::new("synchronous/completed-by-a-posted-receive", 2, completed_by_a_posted_receive),
    Case::new("synchronous/both-ways-with-full-channels", 2, both_ways_with_full_channels),
    Case::new("synchronous/blocking-both-ways-with-full-channels", 2, blocking_both_ways),
    Case::new("synchronous/thousands-outstanding", 1, thousands_outstanding),
    Case::new("synchronous/alltoall", 1, alltoall),
    Case::new("synchronous/issend-to-oneself", 1, issend_to_oneself),
    Case::new("synchronous/ssend-to-oneself-into-a-posted-receive", 1, ssend_to_oneself),
    Case::new("synchronous/ssend-to-oneself-without-receive-is-a-deadlock", 1, ssend_to_oneself_alone),
    Case::new("synchronous/ssend-to-oneself-too-long-for-its-receive-is-a-deadlock", 1, ssend_to_oneself_too_long),
];

const LENS: [usize; 6] = [0, 1, 100, 8000, 70_000, 600_000];

#[track_caller]
fn check_pending(request: &mut Request<'_, Vec<u8>>, why: &str) -> Outcome {
    for _ in 0..50 {
        check!(request.test().is_none(), "an issend completed {why}");
        std::thread::yield_now();
    }
    Ok(())
}

fn not_complete_before_the_receive(comm: &Comm) -> Outcome {
    for len in LENS {
        match Role::new(comm) {
            Role::First(to) => {
                let mut send = comm.issend(bytes(1, len), to, 1)?;
                check_pending(&mut send, "before the receiver's probe")?;
                send_signal(comm, to)?;
                // The receiver has probed it, and received what was sent after it.
                recv_signal(comm, to)?;
                check_pending(&mut send, "before its receive")?;
                send_signal(comm, to)?;
                check_eq!(send.wait()?.len(), len, "length of the buffer that issend returns");
            }
            Role::Second(from) => {
                recv_signal(comm, from)?;
                check_eq!(
                    comm.iprobe(from, 1)?.map(|status| status.bytes),
                    Some(len as u64),
                    "the message that has arrived"
                );
                send_signal(comm, from)?;
                recv_signal(comm, from)?;
                check_bytes(&comm.recv_vec(from, 1)?.0, 1, len)?;
            }
            Role::Idle => {}
        }
    }
    Ok(())
}

fn not_completed_by_a_probe(comm: &Comm) -> Outcome {
    for len in LENS {
        match Role::new(comm) {
            Role::First(to) => {
                let mut send = comm.issend(bytes(2, len), to, 1)?;
                recv_signal(comm, to)?;
                check_pending(&mut send, "by a matched probe")?;
                send_signal(comm, to)?;
                send.wait()?;
            }
            Role::Second(from) => {
                let message = comm.mprobe(from, 1)?;
                send_signal(comm, from)?;
                recv_signal(comm, from)?;
                check_bytes(&message.recv_vec::<u8>()?, 2, len)?;
            }
            Role::Idle => {}
        }
    }
    Ok(())
}

fn not_completed_by_a_small_receive(comm: &Comm) -> Outcome {
    for len in [1, 100, 8000, 70_000] {
        for posted in [false, true] {
            match Role::new(comm) {
                Role::First(to) => {
                    if posted {
                        recv_signal(comm, to)?;
                    }
                    let mut send = comm.issend(bytes(3, len), to, 1)?;
                    recv_signal(comm, to)?;
                    check_pending(&mut send, "by a receive that is too small")?;
                    send_signal(comm, to)?;
                    send.wait()?;
                }
                Role::Second(from) => {
                    if !posted {
                        comm.probe(from, 1)?;
                    }
                    let receive = comm.irecv(vec![0u8; len - 1], from, 1)?;
                    if posted {
                        send_signal(comm, from)?;
                    }
                    let want = Error::Truncated { got: len as u64, room: len as u64 - 1 };
                    check_eq!(receive.wait().err(), Some(want), "result of a receive that is too small");
                    send_signal(comm, from)?;
                    recv_signal(comm, from)?;
                    check_bytes(&comm.recv_vec(from, 1)?.0, 3, len)?;
                }
                Role::Idle => {}
            }
        }
    }
    Ok(())
}

fn not_completed_by_another_tag(comm: &Comm) -> Outcome {
    match Role::new(comm) {
        Role::First(to) => {
            let mut first = comm.issend(vec![1u8], to, 1)?;
            let second = comm.issend(vec![2u8], to, 2)?;
            second.wait()?;
            check_pending(&mut first, "by the receive of another message")?;
            send_signal(comm, to)?;
            first.wait()?;
        }
        Role::Second(from) => {
            check_eq!(comm.recv_vec::<u8>(from, 2)?.0, [2], "message of tag 2");
            recv_signal(comm, from)?;
            check_eq!(comm.recv_vec::<u8>(from, 1)?.0, [1], "message of tag 1");
        }
        Role::Idle => {}
    }
    Ok(())
}

/// The receive is posted before the send, so the receiver only has to make progress.
fn completed_by_a_posted_receive(comm: &Comm) -> Outcome {
    for len in LENS {
        match Role::new(comm) {
            Role::First(to) => {
                recv_signal(comm, to)?;
                comm.ssend(&bytes(4, len), to, 1)?;
                send_signal(comm, to)?;
            }
            Role::Second(from) => {
                let receive = comm.irecv(vec![0u8; len], from, 1)?;
                send_signal(comm, from)?;
                recv_signal(comm, from)?;
                check_bytes(&receive.wait()?.0, 4, len)?;
            }
            Role::Idle => {}
        }
    }
    Ok(())
}

const FILL: usize = 4000;

/// Both overfill the channel to the other, then send synchronously, and only then receive.
fn both_ways_with_full_channels(comm: &Comm) -> Outcome {
    let (me, partner) = match Role::new(comm) {
        Role::First(partner) | Role::Second(partner) => (comm.rank(), partner),
        Role::Idle => return Ok(()),
    };
    let mut sends = Vec::new();
    for i in 0..FILL {
        sends.push(comm.isend(bytes(seed(me, partner, i), 250), partner, 1)?);
    }
    for (i, len) in LENS.into_iter().enumerate() {
        sends.push(comm.issend(bytes(seed(me, partner, FILL + i), len), partner, 2)?);
    }
    for (i, len) in LENS.into_iter().enumerate() {
        check_bytes(&comm.recv_vec(partner, 2)?.0, seed(partner, me, FILL + i), len)?;
    }
    let mut into = [0; 250];
    for i in 0..FILL {
        comm.recv(&mut into, partner, 1)?;
        check_bytes(&into, seed(partner, me, i), 250)?;
    }
    wait_all(sends)?;
    Ok(())
}

/// As above, but each waits inside ssend, which must make progress on its posted receives.
fn blocking_both_ways(comm: &Comm) -> Outcome {
    let (me, partner) = match Role::new(comm) {
        Role::First(partner) | Role::Second(partner) => (comm.rank(), partner),
        Role::Idle => return Ok(()),
    };
    let mut receives = Vec::new();
    for len in LENS {
        receives.push(comm.irecv(vec![0u8; len], partner, 2)?);
    }
    let mut sends = Vec::new();
    for i in 0..FILL {
        sends.push(comm.isend(bytes(seed(me, partner, i), 250), partner, 1)?);
    }
    for (i, len) in LENS.into_iter().enumerate() {
        comm.ssend(&bytes(seed(me, partner, FILL + i), len), partner, 2)?;
    }
    for (i, (got, _)) in wait_all(receives)?.into_iter().enumerate() {
        check_bytes(&got, seed(partner, me, FILL + i), LENS[i])?;
    }
    for i in 0..FILL {
        check_bytes(&comm.recv_vec(partner, 1)?.0, seed(partner, me, i), 250)?;
    }
    wait_all(sends)?;
    Ok(())
}

fn thousands_outstanding(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let mut sends = Vec::new();
    for i in 0..3000u64 {
        sends.push(comm.issend(vec![i], right, (i % 2) as u32)?);
    }
    send_signal(comm, right)?;
    probe_signal(comm, left)?;
    // First those of tag 1, so that acknowledgements arrive in another order than the sends.
    for tag in [1, 0] {
        for i in 0..1500 {
            let mut got = [0u64];
            comm.recv(&mut got, left, tag)?;
            check_eq!(got[0], i * 2 + u64::from(tag), "message {i} of tag {tag}");
        }
    }
    recv_signal(comm, left)?;
    wait_all(sends)?;
    Ok(())
}

fn alltoall(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    for len in [0, 50, 20_000] {
        let sends: Result<Vec<_>, _> = (0..size).map(|to| comm.issend(bytes(seed(me, to, len), len), to, 1)).collect();
        for i in 0..size {
            let from = (me + i) % size;
            check_bytes(&comm.recv_vec(from, 1)?.0, seed(from, me, len), len)?;
        }
        wait_all(sends?)?;
    }
    Ok(())
}

fn issend_to_oneself(comm: &Comm) -> Outcome {
    let me = comm.rank();
    for len in LENS {
        let mut send = comm.issend(bytes(5, len), me, 1)?;
        check_pending(&mut send, "to oneself before its receive")?;
        if len > 0 {
            let short = comm.irecv(vec![0u8; len - 1], me, 1)?.wait().err();
            let want = Error::Truncated { got: len as u64, room: len as u64 - 1 };
            check_eq!(short, Some(want), "result of a receive that is too small");
            check_pending(&mut send, "to oneself by a receive that is too small")?;
        }
        check_bytes(&comm.recv_vec(me, 1)?.0, 5, len)?;
        check_eq!(send.wait()?.len(), len, "length of the buffer that issend returns");
    }
    Ok(())
}

fn ssend_to_oneself(comm: &Comm) -> Outcome {
    let me = comm.rank();
    for len in LENS {
        let receive = comm.irecv(vec![0u8; len], me, 1)?;
        comm.ssend(&bytes(6, len), me, 1)?;
        check_bytes(&receive.wait()?.0, 6, len)?;
    }
    Ok(())
}

fn ssend_to_oneself_alone(comm: &Comm) -> Outcome {
    let me = comm.rank();
    for len in [0, 8, 100_000] {
        let result = comm.ssend(&vec![1u8; len], me, 1);
        check!(matches!(result, Err(Error::Deadlock { .. })), "ssend to oneself returns {result:?}");
        check!(comm.iprobe(me, 1)?.is_none(), "a message that was refused can be received");
    }
    // A receive of another tag does not help.
    let other = comm.irecv_vec::<u8>(me, 2)?;
    let result = comm.ssend(&[1u8], me, 1);
    check!(matches!(result, Err(Error::Deadlock { .. })), "ssend to oneself returns {result:?}");
    comm.ssend(&[2u8], me, 2)?;
    check_eq!(other.wait()?.0, [2], "message to oneself");
    Ok(())
}

fn ssend_to_oneself_too_long(comm: &Comm) -> Outcome {
    let me = comm.rank();
    for len in [8, 100_000] {
        let short = comm.irecv(vec![0u8; 4], me, 1)?;
        let result = comm.ssend(&vec![1u8; len], me, 1);
        check!(
            matches!(result, Err(Error::Deadlock { .. })),
            "ssend to oneself into a short receive returns {result:?}"
        );
        // The receive may have failed or be posted still; it is no longer needed.
        drop(short);
        drop(comm.improbe(me, 1)?.map(|message| message.recv_vec::<u8>()));
    }
    Ok(())
}
