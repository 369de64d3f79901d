//! Probes and matched probes.

use treepie::{ANY_SOURCE, ANY_TAG, Comm, Error, wait_all};

use crate::check::{Outcome, check, check_eq};
use crate::payload::{bytes, check_bytes, seed};
use crate::signals::{Role, probe_signal, recv_signal, ring_neighbors, send_signal};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("probes/return-source-tag-and-length", 1, return_source_tag_and_length),
    Case::new("probes/leave-the-message", 1, leave_the_message),
    Case::new("probes/nothing-there", 1, nothing_there),
    Case::new("probes/find-the-first-of-several", 2, find_the_first_of_several),
    Case::new("probes/a-matched-message-is-removed-from-matching", 2, matched_is_removed),
    Case::new("probes/a-dropped-message-returns-to-the-queue", 2, dropped_returns),
    Case::new("probes/a-dropped-message-matches-a-receive-posted-meanwhile", 2, dropped_matches_a_receive),
    Case::new("probes/a-truncated-message-returns-to-the-queue", 2, does_not_fit),
    Case::new("probes/several-matched-and-received-in-any-order", 1, several_matched),
    Case::new("probes/wildcards", 1, wildcards),
    Case::new("probes/do-not-see-what-a-posted-receive-matched", 2, posted_receive_comes_first),
];

const LENS: [usize; 4] = [0, 12, 9000, 300_000];

fn return_source_tag_and_length(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    for (i, len) in LENS.into_iter().enumerate() {
        let tag = 10 + i as u32;
        let send = comm.isend(bytes(1, len), right, tag)?;
        let want = (left, tag, len as u64);
        let status = comm.probe(left, tag)?;
        check_eq!((status.source, status.tag, status.bytes), want, "status of probe");
        let seen = comm.iprobe(left, tag)?.map(|status| (status.source, status.tag, status.bytes));
        check_eq!(seen, Some(want), "status of iprobe");
        let message = comm.mprobe(ANY_SOURCE, tag)?;
        let status = message.status();
        check_eq!((status.source, status.tag, status.bytes), want, "status of mprobe");
        check_bytes(&message.recv_vec::<u8>()?, 1, len)?;
        send.wait()?;
    }
    Ok(())
}

fn leave_the_message(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    for (tag, len) in (1..).zip(LENS) {
        let send = comm.isend(bytes(2, len), right, tag)?;
        for _ in 0..10 {
            check_eq!(comm.probe(left, tag)?.bytes, len as u64, "length by probe");
            check!(comm.iprobe(ANY_SOURCE, ANY_TAG)?.is_some(), "iprobe finds nothing after probe has found it");
        }
        let mut into = vec![0; len];
        comm.recv(&mut into, left, tag)?;
        check_bytes(&into, 2, len)?;
        check!(comm.iprobe(left, tag)?.is_none(), "a message is found although it was received");
        send.wait()?;
    }
    Ok(())
}

fn nothing_there(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let send = comm.isend(vec![1u8], right, 1)?;
    comm.probe(left, 1)?;
    check!(comm.iprobe(left, 2)?.is_none(), "iprobe finds a tag that was not sent");
    check!(comm.improbe(left, 2)?.is_none(), "improbe finds a tag that was not sent");
    check!(comm.improbe(ANY_SOURCE, 0)?.is_none(), "improbe finds a tag that was not sent");
    comm.recv_vec::<u8>(left, 1)?;
    send.wait()?;
    check!(comm.iprobe(ANY_SOURCE, ANY_TAG)?.is_none(), "iprobe finds a message where none is left");
    check!(comm.improbe(ANY_SOURCE, ANY_TAG)?.is_none(), "improbe finds a message where none is left");
    Ok(())
}

/// Sends numbers on these tags; the partner calls `look` when all have arrived.
fn with_queue(comm: &Comm, tags: &[u32], look: impl Fn(usize) -> Outcome) -> Outcome {
    match Role::new(comm) {
        Role::First(to) => {
            let mut sends = Vec::new();
            for (i, &tag) in tags.iter().enumerate() {
                // Eager and rendezvous messages, alternating.
                sends.push(comm.isend(vec![i as u32; if i % 2 == 0 { 1 } else { 40_000 }], to, tag)?);
            }
            send_signal(comm, to)?;
            wait_all(sends)?;
        }
        Role::Second(from) => {
            probe_signal(comm, from)?;
            look(from)?;
            recv_signal(comm, from)?;
            check!(comm.iprobe(ANY_SOURCE, ANY_TAG)?.is_none(), "a message is left over");
        }
        Role::Idle => {}
    }
    Ok(())
}

fn find_the_first_of_several(comm: &Comm) -> Outcome {
    with_queue(comm, &[3, 4, 3, 5, 4], |from| {
        for (i, tag) in [3, 4, 3, 5, 4].into_iter().enumerate() {
            let status = comm.probe(ANY_SOURCE, ANY_TAG)?;
            check_eq!((status.source, status.tag), (from, tag), "first message in turn {i}");
            let (got, _) = comm.recv_vec::<u32>(status.source, status.tag)?;
            check_eq!(got[0], i as u32, "number of the message that a probe has found");
        }
        Ok(())
    })
}

fn matched_is_removed(comm: &Comm) -> Outcome {
    with_queue(comm, &[1, 1, 1], |from| {
        let first = comm.mprobe(from, 1)?;
        let second = comm.mprobe(ANY_SOURCE, 1)?;
        check_eq!(comm.recv_vec::<u32>(from, 1)?.0[0], 2, "the message after two that were matched");
        check!(comm.iprobe(from, 1)?.is_none(), "a message is found although the only two left were matched");
        check_eq!(second.recv_vec::<u32>()?[0], 1, "second message");
        check_eq!(first.recv_vec::<u32>()?[0], 0, "first message");
        Ok(())
    })
}

fn dropped_returns(comm: &Comm) -> Outcome {
    with_queue(comm, &[1, 1, 2, 1], |from| {
        let first = comm.mprobe(from, 1)?;
        let second = comm.mprobe(from, ANY_TAG)?;
        check_eq!(comm.probe(ANY_SOURCE, ANY_TAG)?.tag, 2, "tag of the third while two are matched");
        drop(second);
        drop(first);
        for want in [0, 1] {
            check_eq!(comm.recv_vec::<u32>(from, 1)?.0[0], want, "message that returned to the queue");
        }
        drop(comm.mprobe(from, 1)?);
        check_eq!(comm.recv_vec::<u32>(ANY_SOURCE, ANY_TAG)?.0[0], 2, "message before one that returned to the queue");
        check_eq!(comm.recv_vec::<u32>(ANY_SOURCE, ANY_TAG)?.0[0], 3, "message that returned to the queue");
        Ok(())
    })
}

fn dropped_matches_a_receive(comm: &Comm) -> Outcome {
    with_queue(comm, &[1, 2], |from| {
        for (tag, number) in [(1, 0), (2, 1)] {
            let message = comm.mprobe(from, tag)?;
            let mut receive = comm.irecv_vec::<u32>(ANY_SOURCE, tag)?;
            check!(receive.test().is_none(), "a receive gets a message that was matched by a probe");
            drop(message);
            check_eq!(receive.wait()?.0[0], number, "message that returned to the queue");
        }
        Ok(())
    })
}

fn does_not_fit(comm: &Comm) -> Outcome {
    with_queue(comm, &[1, 1, 1], |from| {
        for (i, len) in [1u64, 40_000, 1].into_iter().enumerate() {
            let mut into = vec![0u32; len as usize - 1];
            let want = Some(Error::Truncated { got: len * 4, room: len * 4 - 4 });
            check_eq!(comm.mprobe(from, 1)?.recv(&mut into).err(), want, "a matched message that is truncated");
            // 4 and 160000 bytes are no multiples of 3.
            let result = comm.mprobe(from, 1)?.recv_vec::<[u8; 3]>();
            check_eq!(result.err(), Some(Error::PartialElement { bytes: len * 4, element: 3 }), "partial elements");
            let mut into = vec![0u32; len as usize];
            comm.mprobe(from, 1)?.recv(&mut into)?;
            check_eq!(into, vec![i as u32; len as usize], "message {i} after it returned to the queue");
        }
        Ok(())
    })
}

fn several_matched(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let me = comm.rank();
    let len = |i: usize| [5, 50_000, 700][i % 3] + i;
    let sends: Result<Vec<_>, _> = (0..60).map(|i| comm.isend(bytes(seed(me, right, i), len(i)), right, 1)).collect();
    let mut matched: Vec<_> = (0..60).map(|_| comm.mprobe(left, 1)).collect::<Result<_, _>>()?;
    let mut numbers: Vec<usize> = (0..60).collect();
    while !matched.is_empty() {
        let index = matched.len() * 3 / 5;
        let (message, i) = (matched.remove(index), numbers.remove(index));
        check_bytes(&message.recv_vec::<u8>()?, seed(left, me, i), len(i))?;
    }
    wait_all(sends?)?;
    Ok(())
}

fn wildcards(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    let mut sends = Vec::new();
    for to in 0..size {
        sends.push(comm.isend(bytes(seed(me, to, 0), 10 + me), to, me as u32)?);
    }
    let mut seen = vec![0; size];
    for _ in 0..size {
        let status = comm.probe(ANY_SOURCE, ANY_TAG)?;
        check_eq!((status.tag as usize, status.bytes as usize), (status.source, 10 + status.source), "tag and length");
        let mut into = vec![0; status.bytes as usize];
        comm.recv(&mut into, status.source, status.tag)?;
        check_bytes(&into, seed(status.source, me, 0), 10 + status.source)?;
        seen[status.source] += 1;
    }
    check!(seen.iter().all(|times| *times == 1), "messages from each rank: {seen:?}");
    wait_all(sends)?;
    Ok(())
}

fn posted_receive_comes_first(comm: &Comm) -> Outcome {
    match Role::new(comm) {
        Role::First(to) => {
            recv_signal(comm, to)?;
            comm.send(&[1u8], to, 1)?;
            comm.send(&[2u8], to, 1)?;
        }
        Role::Second(from) => {
            let receive = comm.irecv_vec::<u8>(from, 1)?;
            send_signal(comm, from)?;
            check_eq!(
                comm.mprobe(from, 1)?.recv_vec::<u8>()?,
                [2],
                "the message that a probe finds after a posted receive"
            );
            check_eq!(receive.wait()?.0, [1], "the message of a posted receive");
        }
        Role::Idle => {}
    }
    Ok(())
}
