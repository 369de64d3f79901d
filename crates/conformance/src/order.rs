//! Messages of one rank to another do not overtake each other.

use treepie::{ANY_TAG, Comm, wait_all};

use crate::check::{Outcome, check_eq};
use crate::payload::{bytes, check_bytes, seed};
use crate::signals::{Role, probe_signal, recv_signal, ring_neighbors, send_signal};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("order/same-tag", 1, same_tag),
    Case::new("order/small-after-large", 1, small_after_large),
    Case::new("order/small-after-large-into-posted-receives", 1, small_after_large_posted),
    Case::new("order/mixed-sizes", 1, mixed_sizes),
    Case::new("order/mixed-tags-by-any-tag", 1, mixed_tags_by_any_tag),
    Case::new("order/within-each-tag", 1, within_each_tag),
    Case::new("order/kinds-of-sends-mixed", 1, kinds_of_sends_mixed),
    Case::new("order/blocking-send-after-queued-ones", 2, blocking_after_queued),
    Case::new("order/of-each-of-many-sources", 2, of_each_of_many_sources),
    Case::new("order/half-unexpected-half-posted", 2, half_unexpected_half_posted),
];

fn same_tag(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let mut sends = Vec::new();
    for i in 0..2000u64 {
        sends.push(comm.isend(vec![i], right, 1)?);
    }
    for want in 0..2000 {
        let mut got = [0u64];
        comm.recv(&mut got, left, 1)?;
        check_eq!(got[0], want, "number of the message");
    }
    wait_all(sends)?;
    Ok(())
}

/// Sends one message per length on one tag and receives them in that order.
fn in_order(comm: &Comm, lens: &[usize]) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let me = comm.rank();
    let mut sends = Vec::new();
    for (i, &len) in lens.iter().enumerate() {
        sends.push(comm.isend(bytes(seed(me, right, i), len), right, 4)?);
    }
    for (i, &len) in lens.iter().enumerate() {
        let (got, _) = comm.recv_vec::<u8>(left, 4)?;
        check_eq!(got.len(), len, "length of message {i}");
        check_bytes(&got, seed(left, me, i), len)?;
    }
    wait_all(sends)?;
    Ok(())
}

fn small_after_large(comm: &Comm) -> Outcome {
    in_order(comm, &[1_000_000, 8, 300_000, 0, 8, 20_000, 1, 100_000, 100_000, 3])
}

fn mixed_sizes(comm: &Comm) -> Outcome {
    let lens: Vec<usize> = (0..400).map(|i: usize| [0, 9, 100, 9000, 5, 40_000, 2000, 70_000][i * i % 7] + i).collect();
    in_order(comm, &lens)
}

fn small_after_large_posted(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let me = comm.rank();
    let lens = [500_000, 8, 200_000, 0, 16];
    let mut receives = Vec::new();
    for _ in lens {
        receives.push(comm.irecv_vec::<u8>(left, ANY_TAG)?);
    }
    comm.barrier()?;
    let mut sends = Vec::new();
    for (i, len) in lens.into_iter().enumerate() {
        sends.push(comm.isend(bytes(seed(me, right, i), len), right, i as u32)?);
    }
    for (i, (got, status)) in wait_all(receives)?.into_iter().enumerate() {
        check_eq!(status.tag, i as u32, "tag of message {i}");
        check_bytes(&got, seed(left, me, i), lens[i])?;
    }
    wait_all(sends)?;
    Ok(())
}

fn mixed_tags_by_any_tag(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let tag = |i: usize| (i * 37 % 11) as u32;
    let len = |i: usize| if i % 13 == 5 { 30_000 } else { i % 50 };
    let mut sends = Vec::new();
    for i in 0..500 {
        sends.push(comm.isend(bytes(i as u64, len(i)), right, tag(i))?);
    }
    for i in 0..500 {
        let (got, status) = comm.recv_vec::<u8>(left, ANY_TAG)?;
        check_eq!(status.tag, tag(i), "tag of message {i}");
        check_bytes(&got, i as u64, len(i))?;
    }
    wait_all(sends)?;
    Ok(())
}

fn within_each_tag(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let mut sends = Vec::new();
    for i in 0..600u64 {
        sends.push(comm.isend(vec![i; if i % 31 == 0 { 3000 } else { 1 }], right, i as u32 % 6)?);
    }
    for tag in [3, 0, 5, 1, 4, 2] {
        for i in 0..100 {
            let (got, _) = comm.recv_vec::<u64>(left, tag)?;
            check_eq!(got[0], i * 6 + u64::from(tag), "message {i} of tag {tag}");
        }
    }
    wait_all(sends)?;
    Ok(())
}

fn kinds_of_sends_mixed(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let borrowed = [[10u64], [11], [12]];
    let mut receives = Vec::new();
    for _ in 0..9 {
        receives.push(comm.irecv_vec::<u64>(left, 1)?);
    }
    comm.barrier()?;
    let mut sends = vec![comm.isend(vec![0u64], right, 1)?, comm.issend(vec![1], right, 1)?];
    comm.send(&[2u64], right, 1)?;
    comm.ssend(&[3u64], right, 1)?;
    sends.push(comm.isend(vec![4; 20_000], right, 1)?);
    comm.send(&[5u64], right, 1)?;
    comm.scope(|scope| {
        let _ = scope.isend(&borrowed[0], right, 1)?;
        let _ = scope.issend(&borrowed[1], right, 1)?;
        let _ = scope.isend(&borrowed[2], right, 1)?;
        Ok(())
    })?;
    let numbers: Vec<u64> = wait_all(receives)?.into_iter().map(|(got, _)| got[0]).collect();
    check_eq!(numbers, [0, 1, 2, 3, 4, 5, 10, 11, 12], "messages in posted order");
    wait_all(sends)?;
    Ok(())
}

/// More than any buffer between two ranks holds, then a blocking send, which must not overtake the queued ones.
fn blocking_after_queued(comm: &Comm) -> Outcome {
    match Role::new(comm) {
        Role::First(to) => {
            let mut sends = Vec::new();
            for i in 0..3000u64 {
                sends.push(comm.isend(vec![i; 100], to, 1)?);
            }
            send_signal(comm, to)?;
            comm.send(&[3000u64], to, 1)?;
            wait_all(sends)?;
        }
        Role::Second(from) => {
            probe_signal(comm, from)?;
            for want in 0..=3000 {
                let (got, _) = comm.recv_vec::<u64>(from, 1)?;
                check_eq!(got[0], want, "number of the message");
            }
            recv_signal(comm, from)?;
        }
        Role::Idle => {}
    }
    Ok(())
}

fn of_each_of_many_sources(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    let each = 2000 / size;
    let mut sends = Vec::new();
    for i in 0..each {
        for to in 0..size {
            sends.push(comm.isend(vec![i as u64], to, 1)?);
        }
    }
    let mut next = vec![0; size];
    for _ in 0..each * size {
        let (got, status) = comm.recv_vec::<u64>(treepie::ANY_SOURCE, 1)?;
        check_eq!(got[0], next[status.source], "number of the message from {} to {me}", status.source);
        next[status.source] += 1;
    }
    wait_all(sends)?;
    Ok(())
}

fn half_unexpected_half_posted(comm: &Comm) -> Outcome {
    match Role::new(comm) {
        Role::First(to) => {
            let sends: Result<Vec<_>, _> = (0..100u64).map(|i| comm.isend(vec![i], to, 1)).collect();
            send_signal(comm, to)?;
            recv_signal(comm, to)?;
            for i in 100..200u64 {
                comm.send(&[i], to, 1)?;
            }
            wait_all(sends?)?;
        }
        Role::Second(from) => {
            probe_signal(comm, from)?;
            let receives: Result<Vec<_>, _> = (0..200).map(|_| comm.irecv_vec::<u64>(from, 1)).collect();
            send_signal(comm, from)?;
            for (want, (got, _)) in wait_all(receives?)?.into_iter().enumerate() {
                check_eq!(got, [want as u64], "number of the message");
            }
            recv_signal(comm, from)?;
        }
        Role::Idle => {}
    }
    Ok(())
}
