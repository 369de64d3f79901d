//! Messages that are longer than their receive: the receive fails, the message stays.

use treepie::{ANY_SOURCE, ANY_TAG, Comm, Error, wait_all};

use crate::check::{Outcome, check_eq};
use crate::meeting::{Role, be_told, hear, neighbours, tell};
use crate::payload::{bytes, check_bytes};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("truncation/of-a-message-that-waits", 1, that_waits),
    Case::new("truncation/of-a-message-that-is-waited-for", 2, that_is_waited_for),
    Case::new("truncation/of-a-posted-receive", 2, posted),
    Case::new("truncation/the-next-posted-receive-gets-it", 2, next_posted_gets_it),
    Case::new("truncation/the-message-keeps-its-place", 1, keeps_its_place),
    Case::new("truncation/to-oneself", 1, to_oneself),
    Case::new("truncation/in-sendrecv", 2, in_sendrecv),
    Case::new("truncation/to-nothing", 1, to_nothing),
];

const LENS: [usize; 4] = [11, 8000, 100_000, 1_000_000];

fn error(got: usize, room: usize) -> Option<Error> {
    Some(Error::Truncated { got: got as u64, room: room as u64 })
}

/// Looks at the message that stayed, and receives it.
fn receive_whole(comm: &Comm, from: usize, tag: u32, len: usize) -> Outcome {
    let status = comm.probe(from, tag)?;
    check_eq!((status.source, status.tag, status.bytes), (from, tag, len as u64), "the message that stayed");
    let mut into = vec![0; len];
    comm.recv(&mut into, from, tag)?;
    check_bytes(&into, u64::from(tag), len)
}

fn that_waits(comm: &Comm) -> Outcome {
    let (left, right) = neighbours(comm);
    for len in LENS {
        let send = comm.isend(bytes(1, len), right, 1)?;
        comm.probe(left, 1)?;
        let mut into = vec![0u8; len - 1];
        check_eq!(comm.recv(&mut into, left, 1).err(), error(len, len - 1), "recv");
        check_eq!(comm.recv(&mut into[..4], ANY_SOURCE, ANY_TAG).err(), error(len, 4), "recv from anybody");
        check_eq!(comm.irecv(into, left, 1)?.wait().err(), error(len, len - 1), "irecv");
        receive_whole(comm, left, 1, len)?;
        send.wait()?;
    }
    Ok(())
}

fn that_is_waited_for(comm: &Comm) -> Outcome {
    for len in LENS {
        match Role::of(comm) {
            Role::First(to) => {
                be_told(comm, to)?;
                // So that the receive is likely to wait already.
                std::thread::sleep(std::time::Duration::from_millis(2));
                comm.send(&bytes(1, len), to, 1)?;
            }
            Role::Second(from) => {
                tell(comm, from)?;
                check_eq!(comm.recv(&mut [0u8; 10], from, 1).err(), error(len, 10), "recv");
                receive_whole(comm, from, 1, len)?;
            }
            Role::Nobody => {}
        }
    }
    Ok(())
}

fn posted(comm: &Comm) -> Outcome {
    for len in LENS {
        match Role::of(comm) {
            Role::First(to) => {
                be_told(comm, to)?;
                let sends = [comm.isend(bytes(1, len), to, 1)?, comm.isend(bytes(2, len), to, 2)?];
                wait_all(sends)?;
            }
            Role::Second(from) => {
                let short = [comm.irecv(vec![0u8; len - 1], from, 1)?, comm.irecv(vec![0u8; 3], ANY_SOURCE, 2)?];
                tell(comm, from)?;
                let [first, second] = short.map(|receive| receive.wait().err());
                check_eq!(first, error(len, len - 1), "posted receive");
                check_eq!(second, error(len, 3), "posted receive from anybody");
                receive_whole(comm, from, 2, len)?;
                receive_whole(comm, from, 1, len)?;
            }
            Role::Nobody => {}
        }
    }
    Ok(())
}

fn next_posted_gets_it(comm: &Comm) -> Outcome {
    for len in LENS {
        match Role::of(comm) {
            Role::First(to) => {
                be_told(comm, to)?;
                comm.send(&bytes(1, len), to, 1)?;
            }
            Role::Second(from) => {
                let short = [comm.irecv(vec![0u8; 2], from, 1)?, comm.irecv(vec![0u8; 7], ANY_SOURCE, ANY_TAG)?];
                let enough = comm.irecv(vec![0u8; len], from, 1)?;
                let unused = comm.irecv(vec![0u8; len], from, 1)?;
                tell(comm, from)?;
                let [first, second] = short.map(|receive| receive.wait().err());
                check_eq!((first, second), (error(len, 2), error(len, 7)), "posted receives that are too small");
                check_bytes(&enough.wait()?.0, 1, len)?;
                check_eq!(unused.cancel().is_ok(), true, "whether a receive behind the message is still without one");
            }
            Role::Nobody => {}
        }
    }
    Ok(())
}

fn keeps_its_place(comm: &Comm) -> Outcome {
    let (left, right) = neighbours(comm);
    for len in LENS {
        let sends = [comm.isend(bytes(5, len), right, 5)?, comm.isend(bytes(6, 4), right, 5)?];
        tell(comm, right)?;
        hear(comm, left)?;
        // The second message would fit, but the first is older.
        for _ in 0..3 {
            check_eq!(comm.recv(&mut [0u8; 4], left, 5).err(), error(len, 4), "recv");
        }
        receive_whole(comm, left, 5, len)?;
        check_bytes(&comm.recv_vec(left, 5)?.0, 6, 4)?;
        be_told(comm, left)?;
        wait_all(sends)?;
    }
    Ok(())
}

fn to_oneself(comm: &Comm) -> Outcome {
    let me = comm.rank();
    for len in LENS {
        let short = comm.irecv(vec![0u8; len - 1], me, 1)?;
        comm.send(&bytes(1, len), me, 1)?;
        check_eq!(short.wait().err(), error(len, len - 1), "posted receive");
        check_eq!(comm.recv(&mut [0u8; 1], me, 1).err(), error(len, 1), "recv");
        receive_whole(comm, me, 1, len)?;
    }
    Ok(())
}

/// The other one receives what the failing call sends: it cannot return before that.
fn in_sendrecv(comm: &Comm) -> Outcome {
    for len in LENS {
        match Role::of(comm) {
            Role::First(partner) => {
                let send = comm.isend(bytes(1, len), partner, 1)?;
                check_bytes(&comm.recv_vec(partner, 2)?.0, 2, len)?;
                send.wait()?;
            }
            Role::Second(partner) => {
                let result = comm.sendrecv(&bytes(2, len), partner, 2, &mut [0u8; 5], partner, 1);
                check_eq!(result.err(), error(len, 5), "sendrecv");
                receive_whole(comm, partner, 1, len)?;
            }
            Role::Nobody => {}
        }
    }
    Ok(())
}

fn to_nothing(comm: &Comm) -> Outcome {
    let (left, right) = neighbours(comm);
    let sends = [comm.isend(vec![9u8], right, 1)?, comm.isend(Vec::<u8>::new(), right, 1)?];
    check_eq!(comm.recv(&mut [0u8; 0], left, 1).err(), error(1, 0), "recv into nothing");
    check_eq!(comm.recv_vec::<u8>(left, 1)?.0, [9], "the message that stayed");
    check_eq!(comm.recv(&mut [0u8; 0], left, 1)?.bytes, 0, "a message of nothing into nothing");
    wait_all(sends)?;
    Ok(())
}
