//! Receives with `ANY_SOURCE` and `ANY_TAG`.

use treepie::{ANY_SOURCE, ANY_TAG, Comm, Source, TagMatch, wait_all};

use crate::check::{Outcome, check, check_eq};
use crate::payload::{bytes, check_bytes, seed};
use crate::signals::{Role, probe_signal, recv_signal, send_signal};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("wildcards/any-source", 1, any_source),
    Case::new("wildcards/any-source-large", 1, any_source_large),
    Case::new("wildcards/any-source-posted-before", 1, any_source_posted_before),
    Case::new("wildcards/any-source-selects-by-tag", 1, any_source_selects_by_tag),
    Case::new("wildcards/against-specific-in-posted-order", 2, against_specific_in_posted_order),
    Case::new("wildcards/specific-first-then-wild", 2, specific_first_then_wild),
    Case::new("wildcards/unexpected-in-order-of-arrival", 2, unexpected_in_order_of_arrival),
    Case::new("wildcards/to-oneself", 1, to_oneself),
    Case::new("wildcards/first-used-after-messages-arrived", 2, first_used_after_messages_arrived),
    Case::new("wildcards/mixed-with-cancelled", 2, mixed_with_cancelled),
];

/// Each rank sends one message to each, and must receive one from each by wildcard receives.
fn from_all(comm: &Comm, len: usize, posted: bool) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    let mut receives = Vec::new();
    if posted {
        for _ in 0..size {
            receives.push(comm.irecv_vec::<u8>(ANY_SOURCE, ANY_TAG)?);
        }
        comm.barrier()?;
    }
    let sends: Result<Vec<_>, _> =
        (0..size).map(|to| comm.isend(bytes(seed(me, to, 0), len), to, me as u32 * 2)).collect();
    let messages =
        if posted { wait_all(receives) } else { (0..size).map(|_| comm.recv_vec(ANY_SOURCE, ANY_TAG)).collect() };
    let mut seen = vec![0; size];
    for (got, status) in messages? {
        check_eq!(status.tag as usize, status.source * 2, "tag of a message from rank {}", status.source);
        check_bytes(&got, seed(status.source, me, 0), len)?;
        seen[status.source] += 1;
    }
    check!(seen.iter().all(|times| *times == 1), "messages from each rank: {seen:?}");
    wait_all(sends?)?;
    Ok(())
}

fn any_source(comm: &Comm) -> Outcome {
    from_all(comm, 40, false)
}

fn any_source_large(comm: &Comm) -> Outcome {
    from_all(comm, 150_001, false)
}

fn any_source_posted_before(comm: &Comm) -> Outcome {
    from_all(comm, 40, true)?;
    comm.barrier()?;
    from_all(comm, 60_001, true)
}

fn any_source_selects_by_tag(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    let mut sends = Vec::new();
    for to in 0..size {
        for tag in 0..5u32 {
            sends.push(comm.isend(vec![me as u32, tag], to, tag)?);
        }
    }
    for tag in [4, 1, 3, 0, 2] {
        let mut seen = vec![false; size];
        for _ in 0..size {
            let (got, status) = comm.recv_vec::<u32>(ANY_SOURCE, tag)?;
            check_eq!((got, status.tag), (vec![status.source as u32, tag], tag), "message and tag");
            check!(!std::mem::replace(&mut seen[status.source], true), "two messages of rank {}", status.source);
        }
    }
    wait_all(sends)?;
    Ok(())
}

/// Posts receives of these kinds in order, then the partner sends messages with these tags; `want` is the index of the
/// message that each receive must match.
fn posted_then_sent(comm: &Comm, kinds: fn(usize) -> Vec<(Source, TagMatch)>, tags: &[u32], want: &[u32]) -> Outcome {
    match Role::new(comm) {
        Role::First(to) => {
            recv_signal(comm, to)?;
            for (i, &tag) in tags.iter().enumerate() {
                comm.send(&[i as u32, tag], to, tag)?;
            }
        }
        Role::Second(from) => {
            let mut receives = Vec::new();
            for (source, tag) in kinds(from) {
                receives.push(comm.irecv_vec::<u32>(source, tag)?);
            }
            send_signal(comm, from)?;
            let numbers: Vec<u32> = wait_all(receives)?.into_iter().map(|(got, _)| got[0]).collect();
            check_eq!(numbers, want, "messages by posted receive");
        }
        Role::Idle => {}
    }
    Ok(())
}

fn against_specific_in_posted_order(comm: &Comm) -> Outcome {
    let kinds = |from: usize| {
        let tag = TagMatch::Tag;
        vec![
            (ANY_SOURCE, tag(5)),
            (from.into(), tag(5)),
            (ANY_SOURCE, ANY_TAG),
            (from.into(), ANY_TAG),
            (from.into(), tag(5)),
            (ANY_SOURCE, tag(5)),
        ]
    };
    // The message of tag 6 matches the first receive of any tag; the others match the oldest that is left.
    posted_then_sent(comm, kinds, &[5, 6, 5, 5, 5, 5], &[0, 2, 1, 3, 4, 5])
}

fn specific_first_then_wild(comm: &Comm) -> Outcome {
    let kinds = |from: usize| {
        let tag = TagMatch::Tag;
        vec![
            (from.into(), tag(9)),
            (from.into(), tag(8)),
            (ANY_SOURCE, ANY_TAG),
            (from.into(), ANY_TAG),
            (ANY_SOURCE, ANY_TAG),
        ]
    };
    posted_then_sent(comm, kinds, &[8, 7, 8, 9, 8], &[3, 0, 1, 2, 4])
}

fn unexpected_in_order_of_arrival(comm: &Comm) -> Outcome {
    let tags = [1, 2, 1, 3, 2, 1, 3, 3];
    match Role::new(comm) {
        Role::First(to) => {
            let mut sends = Vec::new();
            for (i, &tag) in tags.iter().enumerate() {
                // Some are rendezvous messages, some eager.
                sends.push(comm.isend(vec![i as u32; if i % 3 == 1 { 50_000 } else { 1 }], to, tag)?);
            }
            send_signal(comm, to)?;
            wait_all(sends)?;
        }
        Role::Second(from) => {
            probe_signal(comm, from)?;
            let next = |source: Source, tag: TagMatch| comm.recv_vec::<u32>(source, tag).map(|(got, _)| got[0]);
            let tag = TagMatch::Tag;
            check_eq!(next(ANY_SOURCE, tag(3))?, 3, "first of tag 3 from any source");
            check_eq!(next(from.into(), ANY_TAG)?, 0, "first of any tag");
            check_eq!(next(ANY_SOURCE, ANY_TAG)?, 1, "first of all");
            check_eq!(next(from.into(), tag(2))?, 4, "first of tag 2");
            check_eq!(next(ANY_SOURCE, ANY_TAG)?, 2, "first of all that is left");
            check_eq!(next(from.into(), ANY_TAG)?, 5, "first of any tag that is left");
            check_eq!(next(from.into(), tag(3))?, 6, "first of tag 3 that is left");
            check_eq!(next(ANY_SOURCE, tag(3))?, 7, "the last one");
            recv_signal(comm, from)?;
        }
        Role::Idle => {}
    }
    Ok(())
}

fn to_oneself(comm: &Comm) -> Outcome {
    let me = comm.rank();
    let posted = comm.irecv_vec::<u8>(ANY_SOURCE, 1)?;
    comm.send(&[1u8], me, 1)?;
    comm.send(&[2u8], me, 2)?;
    let (got, status) = comm.recv_vec::<u8>(ANY_SOURCE, ANY_TAG)?;
    check_eq!((got, status.source, status.tag), (vec![2], me, 2), "unexpected message to oneself");
    let (got, status) = posted.wait()?;
    check_eq!((got, status.source), (vec![1], me), "message to oneself of a posted receive");
    Ok(())
}

/// The first wildcard receive comes after specific receives, while messages are queued.
fn first_used_after_messages_arrived(comm: &Comm) -> Outcome {
    match Role::new(comm) {
        Role::First(to) => {
            let sends: Result<Vec<_>, _> = (0..300u32).map(|i| comm.isend(vec![i], to, i % 7)).collect();
            send_signal(comm, to)?;
            wait_all(sends?)?;
        }
        Role::Second(from) => {
            probe_signal(comm, from)?;
            for i in 0..100 {
                check_eq!(comm.recv_vec::<u32>(from, i % 7)?.0, [i], "message by its tag");
            }
            // The signal was sent last, on this communicator too.
            for i in 100..300 {
                check_eq!(comm.recv_vec::<u32>(ANY_SOURCE, ANY_TAG)?.0, [i], "message by order of arrival");
            }
            recv_signal(comm, from)?;
        }
        Role::Idle => {}
    }
    Ok(())
}

fn mixed_with_cancelled(comm: &Comm) -> Outcome {
    match Role::new(comm) {
        Role::First(to) => {
            recv_signal(comm, to)?;
            (0..3u32).try_for_each(|i| comm.send(&[i], to, 5))?;
        }
        Role::Second(from) => {
            let mut receives = Vec::new();
            for i in 0..6 {
                let source = if i % 2 == 0 { ANY_SOURCE } else { Source::Rank(from) };
                receives.push(comm.irecv_vec::<u32>(source, 5)?);
            }
            // The first, one in the middle and the last are cancelled.
            for index in [5, 2, 0] {
                check!(receives.remove(index).cancel().is_ok(), "a receive without message cannot be cancelled");
            }
            send_signal(comm, from)?;
            let numbers: Vec<u32> = wait_all(receives)?.into_iter().map(|(got, _)| got[0]).collect();
            check_eq!(numbers, [0, 1, 2], "messages by the receives that are left");
        }
        Role::Idle => {}
    }
    Ok(())
}
