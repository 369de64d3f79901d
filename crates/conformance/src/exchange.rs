//! Ranks that send and receive at the same time.

use treepie::{ANY_SOURCE, ANY_TAG, Comm, wait_all};

use crate::check::{Outcome, check_eq};
use crate::payload::{bytes, check_bytes, check_series, seed, series};
use crate::signals::ring_neighbors;
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("exchange/ring-shifts", 1, ring_shifts),
    Case::new("exchange/sendrecv-with-oneself", 1, with_oneself),
    Case::new("exchange/sendrecv-of-two-types", 1, of_two_types),
    Case::new("exchange/sendrecv-with-wildcards", 1, with_wildcards),
    Case::new("exchange/alltoall-large-before-any-receive", 1, alltoall_large),
    Case::new("exchange/alltoall-borrowed", 1, alltoall_borrowed),
    Case::new("exchange/token-around-the-ring", 2, token),
];

fn ring_shifts(comm: &Comm) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size());
    for len in [0, 8, 500, 70_000, 500_001] {
        for distance in 0..size.min(6) {
            let (to, from) = ((rank + distance) % size, (rank + size - distance) % size);
            let data = bytes(seed(rank, to, len), len);
            let mut into = vec![0u8; len];
            let status = comm.sendrecv(&data, to, 7, &mut into, from, 7)?;
            check_eq!((status.source, status.bytes), (from, len as u64), "status after a shift by {distance}");
            check_bytes(&into, seed(from, rank, len), len)?;
        }
    }
    Ok(())
}

fn with_oneself(comm: &Comm) -> Outcome {
    let me = comm.rank();
    for len in [0, 1, 1000, 100_000, 1_000_001] {
        let mut into = vec![0u8; len];
        comm.sendrecv(&bytes(seed(me, me, len), len), me, 1, &mut into, me, 1)?;
        check_bytes(&into, seed(me, me, len), len)?;
    }
    Ok(())
}

fn of_two_types(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    // The sender's three words of 4 bytes are six words of 2 bytes here.
    let mut halves = [0u16; 6];
    comm.sendrecv(&[0x0001_0001u32; 3], right, 1, &mut halves, left, 1)?;
    check_eq!(halves, [1; 6], "words as halves");
    let mut into = vec![0.0f64; 9000];
    comm.sendrecv(&series::<f64>(comm.rank(), 9000), left, 2, &mut into, right, 2)?;
    check_series(&into, right, 9000)
}

fn with_wildcards(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    for round in 0..50u32 {
        let mut into = [0u32];
        let status = comm.sendrecv(&[round], right, round, &mut into, ANY_SOURCE, ANY_TAG)?;
        check_eq!((into[0], status.source, status.tag), (round, left, round), "message, source, tag");
    }
    Ok(())
}

fn alltoall_large(comm: &Comm) -> Outcome {
    let (me, size, len) = (comm.rank(), comm.size(), 256 << 10);
    let mut sends = Vec::new();
    for to in 0..size {
        sends.push(comm.isend(bytes(seed(me, to, 0), len), to, 0)?);
    }
    let mut into = vec![0; len];
    for from in (0..size).rev() {
        comm.recv(&mut into, from, 0)?;
        check_bytes(&into, seed(from, me, 0), len)?;
    }
    wait_all(sends)?;
    Ok(())
}

fn alltoall_borrowed(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    for len in [3, 4000, 40_000] {
        let data: Vec<u8> = (0..size).flat_map(|to| bytes(seed(me, to, len), len)).collect();
        let mut into = vec![0; size * len];
        comm.scope(|scope| {
            for (from, part) in into.chunks_mut(len).enumerate() {
                let _ = scope.irecv(part, from, 3)?;
            }
            for (to, part) in data.chunks(len).enumerate() {
                let _ = scope.isend(part, to, 3)?;
            }
            Ok(())
        })?;
        for (from, part) in into.chunks(len).enumerate() {
            check_bytes(part, seed(from, me, len), len)?;
        }
    }
    Ok(())
}

fn token(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let mut token = [0u64];
    for round in 0..100 {
        if comm.rank() == 0 {
            comm.send(&token, right, 0)?;
            comm.recv(&mut token, left, 0)?;
            check_eq!(token[0], (round + 1) * (comm.size() as u64 - 1), "additions after {} rounds", round + 1);
        } else {
            comm.recv(&mut token, left, 0)?;
            comm.send(&[token[0] + 1], right, 0)?;
        }
    }
    Ok(())
}
