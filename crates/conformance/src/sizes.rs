//! Lengths around every threshold of the protocols and transports.

use treepie::{Comm, wait_all};

use crate::check::{Outcome, check_eq};
use crate::payload::{bytes, check_bytes, seed};
use crate::signals::{Role, probe_signal, ring_neighbors, send_signal};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("sizes/blocking", 2, blocking),
    Case::new("sizes/synchronous", 2, synchronous),
    Case::new("sizes/posted-first", 1, posted_first),
    Case::new("sizes/unexpected", 1, unexpected),
    Case::new("sizes/to-oneself", 1, to_oneself),
    Case::new("sizes/borrowed-both-ways", 1, borrowed_both_ways),
    Case::new("sizes/every-length-up-to-300", 1, every_length_up_to_300),
    Case::new("sizes/the-rest-of-a-longer-buffer-is-not-written", 1, rest_of_the_buffer_untouched),
    Case::new("sizes/five-mebibytes", 2, five_mebibytes),
];

const SIZES: &[usize] = &[
    0, 1, 7, 8, 9, 23, 24, 25, 31, 32, 33, 63, 64, 65, 1000, 1023, 1024, 1025, 4071, 4072, 4073, 4095, 4096, 4097,
    8159, 8160, 8161, 8191, 8192, 8193, 16383, 16384, 16385, 65535, 65536, 65537, 131_071, 262_145, 1_048_577,
];

fn blocking(comm: &Comm) -> Outcome {
    ping_pong(comm, |data, to| Ok(comm.send(data, to, 1)?))
}

fn synchronous(comm: &Comm) -> Outcome {
    ping_pong(comm, |data, to| Ok(comm.ssend(data, to, 1)?))
}

/// A ping-pong between pairs of ranks.
fn ping_pong(comm: &Comm, send: impl Fn(&[u8], usize) -> Outcome) -> Outcome {
    let me = comm.rank();
    let (partner, begins) = match Role::new(comm) {
        Role::First(partner) => (partner, true),
        Role::Second(partner) => (partner, false),
        Role::Idle => return Ok(()),
    };
    for (i, &len) in SIZES.iter().enumerate() {
        let data = bytes(seed(me, partner, i), len);
        let mut into = vec![0; len];
        if begins {
            send(&data, partner)?;
        }
        let status = comm.recv(&mut into, partner, 1)?;
        check_eq!(status.bytes, len as u64, "bytes in the status");
        check_bytes(&into, seed(partner, me, i), len)?;
        if !begins {
            send(&data, partner)?;
        }
    }
    Ok(())
}

fn posted_first(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let me = comm.rank();
    let mut receives = Vec::new();
    for (i, &len) in SIZES.iter().enumerate() {
        receives.push(comm.irecv(vec![0u8; len], left, i as u32)?);
    }
    comm.barrier()?;
    for (i, &len) in SIZES.iter().enumerate() {
        comm.send(&bytes(seed(me, right, i), len), right, i as u32)?;
    }
    for (i, (got, status)) in wait_all(receives)?.into_iter().enumerate() {
        check_eq!(status.bytes, SIZES[i] as u64, "bytes in the status");
        check_bytes(&got, seed(left, me, i), SIZES[i])?;
    }
    Ok(())
}

fn unexpected(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let me = comm.rank();
    let mut sends = Vec::new();
    for (i, &len) in SIZES.iter().enumerate() {
        sends.push(comm.isend(bytes(seed(me, right, i), len), right, 1)?);
    }
    send_signal(comm, right)?;
    // When the signal arrives, all of them have arrived.
    probe_signal(comm, left)?;
    for (i, &len) in SIZES.iter().enumerate() {
        let (got, status) = comm.recv_vec::<u8>(left, 1)?;
        check_eq!(status.bytes, len as u64, "bytes in the status");
        check_bytes(&got, seed(left, me, i), len)?;
    }
    crate::signals::recv_signal(comm, left)?;
    wait_all(sends)?;
    Ok(())
}

fn to_oneself(comm: &Comm) -> Outcome {
    let me = comm.rank();
    for (i, &len) in SIZES.iter().enumerate() {
        comm.send(&bytes(seed(me, me, i), len), me, 1)?;
        let mut into = vec![0; len];
        let status = comm.recv(&mut into, me, 1)?;
        check_eq!((status.source, status.bytes), (me, len as u64), "status");
        check_bytes(&into, seed(me, me, i), len)?;
    }
    Ok(())
}

fn borrowed_both_ways(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let me = comm.rank();
    let data: Vec<_> = SIZES
        .iter()
        .enumerate()
        .map(|(i, &len)| [bytes(seed(me, left, i), len), bytes(seed(me, right, i), len)])
        .collect();
    let mut into: Vec<_> = SIZES.iter().map(|&len| [vec![0; len], vec![0; len]]).collect();
    comm.scope(|scope| {
        // Tags distinguish the directions, as both neighbors may be the same rank.
        for (i, [to_left, to_right]) in data.iter().enumerate() {
            let _ = scope.isend(to_left, left, 2 * i as u32)?;
            let _ = scope.issend(to_right, right, 2 * i as u32 + 1)?;
        }
        for (i, [from_right, from_left]) in into.iter_mut().enumerate() {
            let _ = scope.irecv(from_right, right, 2 * i as u32)?;
            let _ = scope.irecv(from_left, left, 2 * i as u32 + 1)?;
        }
        Ok(())
    })?;
    for (i, [from_right, from_left]) in into.iter().enumerate() {
        check_bytes(from_right, seed(right, me, i), SIZES[i])?;
        check_bytes(from_left, seed(left, me, i), SIZES[i])?;
    }
    Ok(())
}

fn every_length_up_to_300(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let me = comm.rank();
    let mut sends = Vec::new();
    for len in 0..=300 {
        sends.push(comm.isend(bytes(seed(me, right, len), len), right, 0)?);
    }
    for len in 0..=300 {
        let mut into = vec![0; len];
        comm.recv(&mut into, left, 0)?;
        check_bytes(&into, seed(left, me, len), len)?;
    }
    wait_all(sends)?;
    Ok(())
}

fn rest_of_the_buffer_untouched(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let me = comm.rank();
    for (i, &len) in SIZES.iter().enumerate() {
        let send = comm.isend(bytes(seed(me, right, i), len), right, 0)?;
        let mut into = vec![0xa5u8; len + 100];
        comm.recv(&mut into, left, 0)?;
        send.wait()?;
        check_bytes(&into[..len], seed(left, me, i), len)?;
        check_eq!(into[len..], [0xa5; 100], "the rest of a buffer after a message of {len} bytes");

        let receive = comm.irecv(vec![0x5au8; len + 100], left, 1)?;
        let send = comm.isend(bytes(seed(me, right, i), len), right, 1)?;
        let (into, _) = receive.wait()?;
        send.wait()?;
        check_eq!(into.len(), len + 100, "length of the buffer that irecv returns");
        check_bytes(&into[..len], seed(left, me, i), len)?;
        check_eq!(into[len..], [0x5a; 100], "the rest of a posted buffer after a message of {len} bytes");
    }
    Ok(())
}

/// One at a time in each pair, so that memory stays small with many ranks.
fn five_mebibytes(comm: &Comm) -> Outcome {
    let me = comm.rank();
    let len = 5 * 1_048_576 + 3;
    match Role::new(comm) {
        Role::First(to) => {
            comm.send(&bytes(seed(me, to, 0), len), to, 0)?;
            let sent = comm.isend(bytes(seed(me, to, 1), len), to, 1)?;
            check_eq!(sent.wait()?.len(), len, "length of the buffer that isend returns");
            comm.ssend(&bytes(seed(me, to, 2), len), to, 2)?;
        }
        Role::Second(from) => {
            let mut into = vec![0; len];
            comm.recv(&mut into, from, 0)?;
            check_bytes(&into, seed(from, me, 0), len)?;
            let (got, _) = comm.irecv(into, from, 1)?.wait()?;
            check_bytes(&got, seed(from, me, 1), len)?;
            check_bytes(&comm.mprobe(from, 2)?.recv_vec::<u8>()?, seed(from, me, 2), len)?;
        }
        Role::Idle => {}
    }
    Ok(())
}
