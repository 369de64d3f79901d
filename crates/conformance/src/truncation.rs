//! Messages that are longer than their receive: the receive fails, and the message stays in the queue.

use treepie::{ANY_SOURCE, ANY_TAG, Comm, Error, wait_all};

use crate::check::{Outcome, check_eq};
use crate::payload::{bytes, check_bytes};
use crate::signals::{Role, probe_signal, recv_signal, ring_neighbors, send_signal};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("truncation/of-an-unexpected-message", 1, unexpected),
    Case::new("truncation/of-a-blocking-receive", 2, blocking),
    Case::new("truncation/of-a-posted-receive", 2, posted),
    Case::new("truncation/the-next-posted-receive-gets-it", 2, next_posted_gets_it),
    Case::new("truncation/the-message-keeps-its-order", 1, keeps_its_order),
    Case::new("truncation/to-oneself", 1, to_oneself),
    Case::new("truncation/in-sendrecv", 2, in_sendrecv),
    Case::new("truncation/to-an-empty-buffer", 1, to_an_empty_buffer),
];

const LENS: [usize; 4] = [11, 8000, 100_000, 1_000_000];

fn error(got: usize, room: usize) -> Option<Error> {
    Some(Error::Truncated { got: got as u64, room: room as u64 })
}

/// Probes the message that stayed, and receives it.
fn receive_whole(comm: &Comm, from: usize, tag: u32, len: usize) -> Outcome {
    let status = comm.probe(from, tag)?;
    check_eq!((status.source, status.tag, status.bytes), (from, tag, len as u64), "the message that stayed");
    let mut into = vec![0; len];
    comm.recv(&mut into, from, tag)?;
    check_bytes(&into, u64::from(tag), len)
}

fn unexpected(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    for len in LENS {
        let send = comm.isend(bytes(1, len), right, 1)?;
        comm.probe(left, 1)?;
        let mut into = vec![0u8; len - 1];
        check_eq!(comm.recv(&mut into, left, 1).err(), error(len, len - 1), "recv");
        check_eq!(comm.recv(&mut into[..4], ANY_SOURCE, ANY_TAG).err(), error(len, 4), "recv from any source");
        check_eq!(comm.irecv(into, left, 1)?.wait().err(), error(len, len - 1), "irecv");
        receive_whole(comm, left, 1, len)?;
        send.wait()?;
    }
    Ok(())
}

fn blocking(comm: &Comm) -> Outcome {
    for len in LENS {
        match Role::new(comm) {
            Role::First(to) => {
                recv_signal(comm, to)?;
                // So that the receiver is likely to be waiting already.
                std::thread::sleep(std::time::Duration::from_millis(2));
                comm.send(&bytes(1, len), to, 1)?;
            }
            Role::Second(from) => {
                send_signal(comm, from)?;
                check_eq!(comm.recv(&mut [0u8; 10], from, 1).err(), error(len, 10), "recv");
                receive_whole(comm, from, 1, len)?;
            }
            Role::Idle => {}
        }
    }
    Ok(())
}

fn posted(comm: &Comm) -> Outcome {
    for len in LENS {
        match Role::new(comm) {
            Role::First(to) => {
                recv_signal(comm, to)?;
                let sends = [comm.isend(bytes(1, len), to, 1)?, comm.isend(bytes(2, len), to, 2)?];
                wait_all(sends)?;
            }
            Role::Second(from) => {
                let short = [comm.irecv(vec![0u8; len - 1], from, 1)?, comm.irecv(vec![0u8; 3], ANY_SOURCE, 2)?];
                send_signal(comm, from)?;
                let [first, second] = short.map(|receive| receive.wait().err());
                check_eq!(first, error(len, len - 1), "posted receive");
                check_eq!(second, error(len, 3), "posted receive from any source");
                receive_whole(comm, from, 2, len)?;
                receive_whole(comm, from, 1, len)?;
            }
            Role::Idle => {}
        }
    }
    Ok(())
}

fn next_posted_gets_it(comm: &Comm) -> Outcome {
    for len in LENS {
        match Role::new(comm) {
            Role::First(to) => {
                recv_signal(comm, to)?;
                comm.send(&bytes(1, len), to, 1)?;
            }
            Role::Second(from) => {
                let short = [comm.irecv(vec![0u8; 2], from, 1)?, comm.irecv(vec![0u8; 7], ANY_SOURCE, ANY_TAG)?];
                let enough = comm.irecv(vec![0u8; len], from, 1)?;
                let unused = comm.irecv(vec![0u8; len], from, 1)?;
                send_signal(comm, from)?;
                let [first, second] = short.map(|receive| receive.wait().err());
                check_eq!((first, second), (error(len, 2), error(len, 7)), "posted receives that are too small");
                check_bytes(&enough.wait()?.0, 1, len)?;
                check_eq!(unused.cancel().is_ok(), true, "whether a receive posted later is still unmatched");
            }
            Role::Idle => {}
        }
    }
    Ok(())
}

fn keeps_its_order(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    for len in LENS {
        let sends = [comm.isend(bytes(5, len), right, 5)?, comm.isend(bytes(6, 4), right, 5)?];
        send_signal(comm, right)?;
        probe_signal(comm, left)?;
        // The second message would fit, but the first is older.
        for _ in 0..3 {
            check_eq!(comm.recv(&mut [0u8; 4], left, 5).err(), error(len, 4), "recv");
        }
        receive_whole(comm, left, 5, len)?;
        check_bytes(&comm.recv_vec(left, 5)?.0, 6, 4)?;
        recv_signal(comm, left)?;
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

/// The partner receives what the failing call sends, which cannot return before.
fn in_sendrecv(comm: &Comm) -> Outcome {
    for len in LENS {
        match Role::new(comm) {
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
            Role::Idle => {}
        }
    }
    Ok(())
}

fn to_an_empty_buffer(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let sends = [comm.isend(vec![9u8], right, 1)?, comm.isend(Vec::<u8>::new(), right, 1)?];
    check_eq!(comm.recv(&mut [0u8; 0], left, 1).err(), error(1, 0), "recv into an empty buffer");
    check_eq!(comm.recv_vec::<u8>(left, 1)?.0, [9], "the message that stayed");
    check_eq!(comm.recv(&mut [0u8; 0], left, 1)?.bytes, 0, "an empty message into an empty buffer");
    wait_all(sends)?;
    Ok(())
}
