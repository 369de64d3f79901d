//! `RequestSet`: waiting for any of n requests costs O(1).

use treepie::{ANY_SOURCE, ANY_TAG, Comm, Error, Request, RequestSet, Sum};

use crate::check::{Outcome, check, check_eq};
use crate::signals::{Role, poll_until, recv_signal, ring_neighbors, send_signal};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("request-sets/wait-any", 1, wait_any),
    Case::new("request-sets/wait-any-returns-the-completed-one", 2, the_completed_one),
    Case::new("request-sets/wait-some-and-test", 1, wait_some_and_test),
    Case::new("request-sets/insert-and-remove", 1, insert_and_remove),
    Case::new("request-sets/dropped-with-requests", 1, dropped),
    Case::new("request-sets/in-scopes", 1, in_scopes),
    Case::new("request-sets/empty", 1, empty),
    Case::new("request-sets/receiving-from-oneself-is-a-deadlock", 1, waiting_for_oneself),
    Case::new("request-sets/thousands-both-ways", 1, thousands_both_ways),
];

/// Keys number the requests in the order of insertion, and results of all kinds are returned with their keys.
fn wait_any(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    let mut receives: RequestSet<_> = (0..size).map(|from| comm.irecv_vec::<u64>(from, 1)).collect::<Result<_, _>>()?;
    let len = |peer: usize| if peer.is_multiple_of(2) { 1 } else { 5000 };
    let mut sends: RequestSet<_> =
        (0..size).map(|to| comm.isend(vec![me as u64; len(to)], to, 1)).collect::<Result<_, _>>()?;
    let mut seen = vec![false; size];
    while let Some((from, result)) = receives.wait_any() {
        let (got, status) = result?;
        check_eq!((got[0] as usize, got.len(), status.source), (from, len(me), from), "message of key {from}");
        check!(!std::mem::replace(&mut seen[from], true), "key {from} was returned twice");
    }
    check!(seen.iter().all(|seen| *seen), "not all keys were returned: {seen:?}");
    while let Some((to, result)) = sends.wait_any() {
        check_eq!(result?.len(), len(to), "buffer of the send to {to}");
    }
    Ok(())
}

fn the_completed_one(comm: &Comm) -> Outcome {
    match Role::new(comm) {
        Role::First(to) => {
            for tag in [3u32, 0, 4, 1, 2] {
                comm.send(&[tag], to, tag)?;
                recv_signal(comm, to)?;
            }
        }
        Role::Second(from) => {
            let mut receives: RequestSet<_> =
                (0..5).map(|tag| comm.irecv_vec::<u32>(from, tag)).collect::<Result<_, _>>()?;
            for want in [3, 0, 4, 1, 2] {
                let (key, result) = receives.wait_any().expect("some are left");
                check_eq!((key as u32, result?.0[0]), (want, want), "completed receive and its message");
                send_signal(comm, from)?;
            }
        }
        Role::Idle => {}
    }
    Ok(())
}

fn wait_some_and_test(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    for by_tests in [false, true] {
        let mut receives: RequestSet<_> =
            (0..60).map(|tag| comm.irecv_vec::<u32>(left, tag)).collect::<Result<_, _>>()?;
        comm.barrier()?;
        let len = |tag: u32| if tag.is_multiple_of(9) { 20_000 } else { 1 };
        let mut sends: RequestSet<_> =
            (0..60).rev().map(|tag| comm.isend(vec![tag; len(tag)], right, tag)).collect::<Result<_, _>>()?;
        let mut got = 0;
        poll_until(comm, "the end of sixty receives", || {
            let some = if by_tests { receives.test_some() } else { receives.wait_some() };
            check!(by_tests || !some.is_empty() || got == 60, "wait_some returned nothing while some were left");
            for (key, result) in some {
                let (data, status) = result?;
                check_eq!((data[0], status.tag), (key as u32, key as u32), "message and tag under key {key}");
                got += 1;
            }
            Ok(receives.is_empty())
        })?;
        check_eq!(got, 60, "completed receives");
        poll_until(comm, "the end of sixty sends", || {
            if let Some((_, result)) = sends.test_any() {
                result?;
            }
            Ok(sends.is_empty())
        })?;
        comm.barrier()?;
    }
    Ok(())
}

/// Keys are reused, and the set no longer returns a removed request, whether it is complete or not.
fn insert_and_remove(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let mut receives = RequestSet::new();
    let keys: Vec<usize> =
        (0..4).map(|tag| comm.irecv_vec::<u32>(left, tag).map(|it| receives.insert(it))).collect::<Result<_, _>>()?;
    check_eq!(keys, [0, 1, 2, 3], "keys");
    let early = receives.remove(1).expect("it is in the set");
    check!(receives.remove(1).is_none() && receives.remove(9).is_none(), "a request was removed twice");
    comm.barrier()?;
    for tag in 0..6u32 {
        comm.send(&[tag], right, tag)?;
    }
    comm.barrier()?;
    // On most engines this one is complete by now, and in the set's queue.
    let late = receives.remove(3).expect("it is in the set");
    check_eq!(receives.insert(comm.irecv_vec::<u32>(left, 4)?), 3, "a reused key");
    check_eq!(receives.insert(comm.irecv_vec::<u32>(left, 5)?), 1, "a reused key");
    check_eq!(receives.len(), 4, "requests in the set");
    let mut got = Vec::new();
    while let Some((key, result)) = receives.wait_any() {
        got.push((key, result?.0[0]));
    }
    got.sort_unstable();
    check_eq!(got, [(0, 0), (1, 5), (2, 2), (3, 4)], "keys and messages");
    check_eq!((early.wait()?.0[0], late.wait()?.0[0]), (1, 3), "messages of removed requests");
    Ok(())
}

/// Receives without a message are cancelled, and operations under way complete.
fn dropped(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let receives: RequestSet<_> = (0..10).map(|_| comm.irecv_vec::<u32>(left, 1)).collect::<Result<_, _>>()?;
    drop(receives);
    comm.barrier()?;
    let sends: RequestSet<_> =
        (0..10).map(|i| comm.isend(vec![i; if i < 5 { 1 } else { 30_000 }], right, 1)).collect::<Result<_, _>>()?;
    drop(sends);
    for i in 0..10 {
        check_eq!(comm.recv_vec::<u32>(left, 1)?.0[0], i, "message {i}");
    }
    Ok(())
}

fn in_scopes(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let (data, mut into) = (vec![comm.rank() as u32; 4], vec![0u32; 40]);
    comm.scope(|scope| {
        let mut receives = RequestSet::new();
        for part in into.chunks_mut(4) {
            receives.insert(scope.irecv(part, left, 1)?);
        }
        for _ in 0..10 {
            let _send = scope.isend(&data, right, 1)?;
        }
        // The scope waits for the other half when it ends.
        for _ in 0..5 {
            receives.wait_any().expect("some are left").1?;
        }
        Ok(())
    })?;
    check_eq!(into, vec![left as u32; 40], "received elements");
    Ok(())
}

fn empty(comm: &Comm) -> Outcome {
    let mut none: RequestSet<'_, Vec<u8>> = RequestSet::new();
    check!(none.wait_any().is_none() && none.test_any().is_none(), "an empty set returns something");
    check!(none.wait_some().is_empty() && none.test_some().is_empty(), "an empty set returns something");
    // Collective operations are requests too.
    let sums = (0..20u64).map(|i| comm.iallreduce(vec![i], Sum)).collect::<Result<Vec<Request<'_, _>>, _>>()?;
    let mut sums: RequestSet<_> = sums.into_iter().collect();
    while let Some((key, result)) = sums.wait_any() {
        check_eq!(result?, [(key * comm.size()) as u64], "sum {key}");
    }
    Ok(())
}

/// The deadlock is detected when the last request is left.
fn waiting_for_oneself(comm: &Comm) -> Outcome {
    let mut receives: RequestSet<_> =
        (0..3).map(|tag| comm.irecv_vec::<u8>(comm.rank(), tag)).collect::<Result<_, _>>()?;
    for tag in [2u32, 0] {
        comm.send(&[7u8], comm.rank(), tag)?;
        check_eq!(receives.wait_any().map(|(key, _)| key as u32), Some(tag), "the key of the message that was sent");
    }
    let refused = receives.wait_any().map(|(key, result)| (key, result.map(drop)));
    check!(matches!(refused, Some((1, Err(Error::Deadlock { .. })))), "no other rank can send it: {refused:?}");
    Ok(())
}

fn thousands_both_ways(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    const COUNT: usize = 5000;
    let mut receives: RequestSet<_> =
        (0..COUNT).map(|_| comm.irecv_vec::<u32>(ANY_SOURCE, ANY_TAG)).collect::<Result<_, _>>()?;
    comm.barrier()?;
    let sends: RequestSet<_> = (0..COUNT as u32).map(|i| comm.isend(vec![i; 8], right, i)).collect::<Result<_, _>>()?;
    let mut seen = vec![false; COUNT];
    while let Some((_, result)) = receives.wait_any() {
        let (data, status) = result?;
        check_eq!((data[0], status.source), (status.tag, left), "message and source of tag {}", status.tag);
        check!(!std::mem::replace(&mut seen[data[0] as usize], true), "message {} was received twice", data[0]);
    }
    let mut sends = sends;
    while let Some((_, result)) = sends.wait_any() {
        result?;
    }
    Ok(())
}
