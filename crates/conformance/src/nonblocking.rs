//! Requests: waiting, testing, cancelling and dropping.

use treepie::{ANY_SOURCE, ANY_TAG, Comm, Request, wait_all, wait_any, wait_some};

use crate::check::{Outcome, check, check_eq};
use crate::payload::{bytes, check_bytes, seed};
use crate::signals::{Role, poll_until, probe_signal, recv_signal, ring_neighbors, send_signal};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("nonblocking/test-until-done", 1, test_until_done),
    Case::new("nonblocking/wait-in-any-order", 1, wait_in_any_order),
    Case::new("nonblocking/wait-all", 1, wait_for_all),
    Case::new("nonblocking/wait-any", 1, wait_for_any),
    Case::new("nonblocking/wait-any-returns-the-completed-one", 2, wait_any_returns_the_completed_one),
    Case::new("nonblocking/wait-some", 1, wait_for_some),
    Case::new("nonblocking/wait-of-nothing", 1, wait_of_nothing),
    Case::new("nonblocking/cancelled-receive-leaves-the-message-to-the-next", 1, cancelled_receive),
    Case::new("nonblocking/cancel-after-a-match-returns-the-request", 1, cancel_too_late),
    Case::new("nonblocking/dropped-receive-leaves-the-message-to-the-next", 1, dropped_receive),
    Case::new("nonblocking/dropped-sends-arrive", 1, dropped_sends_arrive),
    Case::new("nonblocking/receive-dropped-after-its-message-arrived", 2, receive_dropped_late),
    Case::new("nonblocking/forgotten-requests-do-no-harm", 1, forgotten_requests),
    Case::new("nonblocking/thousands-both-ways", 1, thousands_both_ways),
    Case::new("nonblocking/large-ones-at-once", 1, large_ones_at_once),
];

fn test_until_done(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    for len in [0, 5, 10_000, 400_000] {
        let mut receive = comm.irecv_vec::<u8>(left, 1)?;
        check!(receive.test().is_none(), "a receive completed before its message was sent");
        comm.barrier()?;
        let mut send = comm.isend(bytes(seed(comm.rank(), right, len), len), right, 1)?;
        let mut got = None;
        let mut sent = false;
        poll_until(comm, "the end of a send and a receive", || {
            if got.is_none() {
                got = receive.test().transpose()?;
            }
            if !sent {
                sent = send.test().transpose()?.is_some();
            }
            Ok(sent && got.is_some())
        })?;
        check_bytes(&got.expect("it is complete").0, seed(left, comm.rank(), len), len)?;
        comm.barrier()?;
    }
    Ok(())
}

fn wait_in_any_order(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let mut receives = Vec::new();
    let mut sends = Vec::new();
    for i in 0..40u32 {
        receives.push((i, comm.irecv_vec::<u32>(left, i)?));
        sends.push(comm.isend(vec![i; if i % 4 == 0 { 30_000 } else { 2 }], right, i)?);
    }
    while !receives.is_empty() {
        let (i, receive) = receives.remove(receives.len() * 5 / 7);
        check_eq!(receive.wait()?.0[0], i, "message of tag {i}");
        sends.pop().expect("one send per receive").wait()?;
    }
    Ok(())
}

fn wait_for_all(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    let mut receives = Vec::new();
    let mut sends = Vec::new();
    for peer in 0..size {
        receives.push(comm.irecv_vec::<u8>(peer, 1)?);
        sends.push(comm.isend(bytes(seed(me, peer, 0), 100 * peer), peer, 1)?);
    }
    for (from, (got, status)) in wait_all(receives)?.into_iter().enumerate() {
        check_eq!(status.source, from, "source of result {from}");
        check_bytes(&got, seed(from, me, 0), 100 * me)?;
    }
    let lens: Vec<usize> = wait_all(sends)?.iter().map(Vec::len).collect();
    check_eq!(lens, (0..size).map(|to| 100 * to).collect::<Vec<_>>(), "lengths of the buffers that sends return");
    Ok(())
}

fn wait_for_any(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    let mut receives = Vec::new();
    let mut sends = Vec::new();
    // Mirrors the vector of requests: `wait_any` removes by `swap_remove`.
    let mut left: Vec<usize> = (0..size).collect();
    for peer in 0..size {
        receives.push(comm.irecv_vec::<u64>(peer, 1)?);
        sends.push(comm.isend(vec![me as u64; if peer % 2 == 0 { 1 } else { 5000 }], peer, 1)?);
    }
    while let Some((index, result)) = wait_any(&mut receives) {
        let (got, status) = result?;
        let from = left.swap_remove(index);
        check_eq!((got[0] as usize, status.source), (from, from), "message and source of a completed receive");
    }
    check!(left.is_empty(), "wait_any ended while receives from {left:?} were left");
    while let Some((_, result)) = wait_any(&mut sends) {
        result?;
    }
    Ok(())
}

fn wait_any_returns_the_completed_one(comm: &Comm) -> Outcome {
    match Role::new(comm) {
        Role::First(to) => {
            for tag in [3u32, 0, 4, 1, 2] {
                comm.send(&[tag], to, tag)?;
                recv_signal(comm, to)?;
            }
        }
        Role::Second(from) => {
            let mut tags = vec![0, 1, 2, 3, 4];
            let mut receives: Vec<_> =
                tags.iter().map(|&tag| comm.irecv_vec::<u32>(from, tag)).collect::<Result<_, _>>()?;
            for want in [3, 0, 4, 1, 2] {
                let (index, result) = wait_any(&mut receives).expect("some are left");
                check_eq!((tags.swap_remove(index), result?.0[0]), (want, want), "completed receive and its message");
                send_signal(comm, from)?;
            }
        }
        Role::Idle => {}
    }
    Ok(())
}

fn wait_for_some(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let mut receives = Vec::new();
    let mut sends = Vec::new();
    for tag in 0..60u32 {
        receives.push(comm.irecv_vec::<u32>(left, tag)?);
    }
    for tag in (0..60u32).rev() {
        sends.push(comm.isend(vec![tag; if tag % 9 == 0 { 20_000 } else { 1 }], right, tag)?);
    }
    let mut rest: Vec<u32> = (0..60).collect();
    while !receives.is_empty() {
        let some = wait_some(&mut receives);
        check!(!some.is_empty(), "wait_some returned nothing while {} receives were left", receives.len());
        let indices: Vec<usize> = some.iter().map(|(index, _)| *index).collect();
        for (index, result) in some {
            let (got, status) = result?;
            check_eq!((got[0], status.tag), (rest[index], rest[index]), "message and tag by index");
        }
        let taken: Vec<u32> = indices.iter().map(|index| rest[*index]).collect();
        rest.retain(|tag| !taken.contains(tag));
        check_eq!(rest.len(), receives.len(), "receives that are left");
    }
    let mut completed = 0;
    while !sends.is_empty() {
        completed += wait_some(&mut sends).len();
    }
    check_eq!(completed, 60, "completed sends");
    Ok(())
}

fn wait_of_nothing(_comm: &Comm) -> Outcome {
    let mut none: Vec<Request<'_, Vec<u8>>> = Vec::new();
    check!(wait_any(&mut none).is_none(), "wait_any of no requests returns something");
    check!(wait_some(&mut none).is_empty(), "wait_some of no requests returns something");
    check_eq!(wait_all(none)?.len(), 0, "results of wait_all of no requests");
    Ok(())
}

fn cancelled_receive(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    for len in [3, 90_000] {
        let first = comm.irecv(vec![0u8; len], left, 1)?;
        let second = comm.irecv(vec![0u8; len], ANY_SOURCE, ANY_TAG)?;
        check!(second.cancel().is_ok(), "a receive without message cannot be cancelled");
        check!(first.cancel().is_ok(), "a receive without message cannot be cancelled");
        comm.barrier()?;
        let send = comm.isend(bytes(seed(comm.rank(), right, len), len), right, 1)?;
        let (got, _) = comm.recv_vec::<u8>(left, 1)?;
        check_bytes(&got, seed(left, comm.rank(), len), len)?;
        send.wait()?;
        comm.barrier()?;
    }
    Ok(())
}

fn cancel_too_late(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    for len in [3, 90_000] {
        let receive = comm.irecv_vec::<u8>(left, 1)?;
        let send = comm.isend(bytes(seed(comm.rank(), right, len), len), right, 1)?;
        send_signal(comm, right)?;
        probe_signal(comm, left)?;
        // The message was sent before the signal, so the receive has matched it.
        let Err(receive) = receive.cancel() else {
            return Err(crate::Failure::new("a receive that has its message was cancelled"));
        };
        check_bytes(&receive.wait()?.0, seed(left, comm.rank(), len), len)?;
        recv_signal(comm, left)?;
        send.wait()?;
        let Err(send) = comm.isend(vec![1u8], right, 2)?.cancel() else {
            return Err(crate::Failure::new("a send was cancelled"));
        };
        comm.recv_vec::<u8>(left, 2)?;
        send.wait()?;
    }
    Ok(())
}

fn dropped_receive(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    for len in [3, 90_000] {
        drop(comm.irecv(vec![0u8; len], left, 1)?);
        drop(comm.irecv_vec::<u8>(ANY_SOURCE, ANY_TAG)?);
        let receive = comm.irecv_vec::<u8>(left, 1)?;
        drop(comm.irecv(vec![0u8; len], left, 1)?);
        comm.barrier()?;
        let mut sends = vec![comm.isend(bytes(seed(comm.rank(), right, len), len), right, 1)?];
        sends.push(comm.isend(bytes(seed(comm.rank(), right, len + 1), len), right, 1)?);
        check_bytes(&receive.wait()?.0, seed(left, comm.rank(), len), len)?;
        check_bytes(&comm.recv_vec(left, 1)?.0, seed(left, comm.rank(), len + 1), len)?;
        wait_all(sends)?;
        comm.barrier()?;
    }
    Ok(())
}

fn dropped_sends_arrive(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let lens = [0, 3, 10_000, 90_000, 1_000_000];
    for (i, len) in lens.into_iter().enumerate() {
        drop(comm.isend(bytes(seed(comm.rank(), right, i), len), right, 1)?);
        drop(comm.issend(bytes(seed(comm.rank(), right, i), len), right, 1)?);
    }
    for (i, len) in lens.into_iter().enumerate() {
        for _ in 0..2 {
            check_bytes(&comm.recv_vec(left, 1)?.0, seed(left, comm.rank(), i), len)?;
        }
    }
    Ok(())
}

/// A request that is dropped while its message is in transfer consumes that message and no other.
fn receive_dropped_late(comm: &Comm) -> Outcome {
    match Role::new(comm) {
        Role::First(to) => {
            for len in [3, 900_000] {
                let sends = [comm.issend(vec![1u8; len], to, 1)?, comm.isend(vec![2u8; len], to, 1)?];
                send_signal(comm, to)?;
                wait_all(sends)?;
                recv_signal(comm, to)?;
            }
        }
        Role::Second(from) => {
            for len in [3, 900_000] {
                probe_signal(comm, from)?;
                drop(comm.irecv_vec::<u8>(from, 1)?);
                check_eq!(comm.recv_vec::<u8>(from, 1)?.0, vec![2; len], "the message after the one that was dropped");
                recv_signal(comm, from)?;
                send_signal(comm, from)?;
            }
        }
        Role::Idle => {}
    }
    Ok(())
}

fn forgotten_requests(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    for len in [4, 70_000] {
        std::mem::forget(comm.irecv(vec![0u8; len], left, 1)?);
        std::mem::forget(comm.isend(vec![1u8; len], right, 1)?);
        std::mem::forget(comm.issend(vec![2u8; len], right, 1)?);
        // The forgotten receive matches the first.
        check_eq!(comm.recv_vec::<u8>(left, 1)?.0, vec![2; len], "the message after the one of a forgotten receive");
    }
    Ok(())
}

fn thousands_both_ways(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let me = comm.rank();
    let count = 16_000 / comm.size().max(4);
    let len = |i: usize| i * 7919 % 300;
    let mut receives = Vec::new();
    let mut sends = Vec::new();
    for i in 0..count {
        receives.push(comm.irecv(vec![0u8; 300], left, 1)?);
        receives.push(comm.irecv(vec![0u8; 300], right, 2)?);
        sends.push(comm.isend(bytes(seed(me, right, i), len(i)), right, 1)?);
        sends.push(comm.issend(bytes(seed(me, left, i), len(i)), left, 2)?);
    }
    for (i, (got, status)) in wait_all(receives)?.into_iter().enumerate() {
        let from = if i % 2 == 0 { left } else { right };
        check_eq!((status.source, status.bytes), (from, len(i / 2) as u64), "status of receive {i}");
        check_bytes(&got[..len(i / 2)], seed(from, me, i / 2), len(i / 2))?;
    }
    wait_all(sends)?;
    Ok(())
}

/// More large messages under way at once than an engine may have slots for.
fn large_ones_at_once(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let me = comm.rank();
    let len = |i: usize| 100_000 + i * 1001;
    let mut receives = Vec::new();
    let mut sends = Vec::new();
    for i in 0..40 {
        receives.push(comm.irecv_vec::<u8>(left, i as u32)?);
    }
    for i in (0..40).rev() {
        sends.push(comm.isend(bytes(seed(me, right, i), len(i)), right, i as u32)?);
    }
    for (i, (got, _)) in wait_all(receives)?.into_iter().enumerate() {
        check_bytes(&got, seed(left, me, i), len(i))?;
    }
    wait_all(sends)?;
    Ok(())
}
