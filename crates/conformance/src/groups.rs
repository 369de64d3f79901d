//! `create_group`: communicators that only their members create.

use std::collections::BTreeSet;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use treepie::{ANY_SOURCE, ANY_TAG, Comm, Error, Rank, Sum};

use crate::check::{Outcome, check, check_eq};
use crate::checking::panics;
use crate::splits::check_members;
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("groups/disjoint-groups-at-once", 1, disjoint),
    Case::new("groups/random-lists-under-one-tag", 1, random),
    Case::new("groups/while-others-are-in-collectives", 1, while_others_are_in_collectives),
    Case::new("groups/messages-of-overlapping-groups-do-not-cross", 1, overlapping),
    Case::new("groups/ranks-agree-on-a-context", 1, unequal_contexts),
    Case::new("groups/after-aborted-operations", 2, after_abort),
    Case::new("groups/bad-lists-are-refused", 1, refused),
    Case::new("groups/different-lists-are-an-error", 2, different),
    Case::new("groups/ranks-that-wait-for-each-other-learn-of-a-third", 6, a_third_fails),
    Case::new("groups/operators-that-panic-meanwhile", 2, panic_meanwhile),
    Case::new("groups/one-bad-list-is-an-error-on-all", 2, one_is_bad),
];

/// Checks that all ranks can go on.
fn check_usable(comm: &Comm) -> Outcome {
    check_eq!(comm.allreduce(&[1u64], Sum)?, [comm.size() as u64], "a sum afterwards");
    let all: Vec<Rank> = (0..comm.size()).collect();
    check_members(&comm.create_group(&all, 1000)?, comm.rank(), &all)
}

fn disjoint(comm: &Comm) -> Outcome {
    let members: Vec<Rank> = (0..comm.size()).rev().filter(|rank| rank % 3 == comm.rank() % 3).collect();
    let part = comm.create_group(&members, 5)?;
    check_members(&part, comm.rank(), &members)?;
    // Again from the new communicator.
    let first = part.create_group(&[part.rank()], 5)?;
    check_eq!((first.rank(), first.size()), (0, 1), "rank and size alone");
    check_eq!(first.allreduce(&[7], Sum)?, [7], "a sum alone");
    Ok(())
}

/// A random group, the same on all callers.
fn random_group(seed: u64, ranks: usize) -> Vec<Rank> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut with_key: Vec<(u64, Rank)> = (0..ranks).map(|rank| (random.next_u64(), rank)).collect();
    with_key.sort_unstable();
    let count = random.next_u64() as usize % ranks + 1;
    with_key.into_iter().take(count).map(|(_, rank)| rank).collect()
}

fn random(comm: &Comm) -> Outcome {
    for seed in 0..40 {
        let group = random_group(seed, comm.size());
        if group.contains(&comm.rank()) {
            check_members(&comm.create_group(&group, seed as u32 % 2)?, comm.rank(), &group)?;
        }
    }
    Ok(())
}

/// Members create a group between collective operations that the others have already started.
fn while_others_are_in_collectives(comm: &Comm) -> Outcome {
    let group: Vec<Rank> = (0..comm.size()).step_by(2).collect();
    for round in 0..10 {
        if group.contains(&comm.rank()) {
            let part = comm.create_group(&group, round)?;
            check_eq!(part.allreduce(&[1], Sum)?, [group.len()], "ranks of group {round}");
        }
        check_eq!(comm.allreduce(&[1], Sum)?, [comm.size()], "ranks in round {round}");
        comm.barrier()?;
    }
    Ok(())
}

/// Each pair of neighbors around a ring creates a group; all are used at once.
fn overlapping(comm: &Comm) -> Outcome {
    let size = comm.size();
    let mut parts = Vec::new();
    for first in 0..size {
        let pair: &[Rank] = if size == 1 { &[0] } else { &[first, (first + 1) % size] };
        if pair.contains(&comm.rank()) {
            parts.push((first, comm.create_group(pair, 0)?));
        }
    }
    for (first, part) in &parts {
        part.send(&[*first as u64], part.size() - 1 - part.rank(), 1)?;
    }
    for (first, part) in parts.iter().rev() {
        let (got, _) = part.recv_vec::<u64>(ANY_SOURCE, ANY_TAG)?;
        check_eq!(got, [*first as u64], "the message on the communicator of {first} and the next");
    }
    Ok(())
}

/// Some ranks have used more contexts than others; a new communicator gets a context that is unused on all.
fn unequal_contexts(comm: &Comm) -> Outcome {
    let all: Vec<Rank> = (0..comm.size()).collect();
    let alone = comm.create_group(&[comm.rank()], 1)?;
    let mut comms = Vec::new();
    for _ in 0..comm.rank() % 5 {
        comms.push(alone.dup()?);
    }
    comms.push(comm.create_group(&all, 2)?);
    comms.push(comm.split(0, 0)?.expect("every rank has a color"));
    comms.push(comm.dup()?);
    let to = |part: &Comm| (part.rank() + 1) % part.size();
    for (index, part) in comms.iter().rev().enumerate() {
        part.send(&[index as u64], to(part), 3)?;
    }
    for (index, part) in comms.iter().rev().enumerate() {
        check_eq!(part.recv_vec::<u64>(ANY_SOURCE, ANY_TAG)?.0, [index as u64], "the message on {part:?}");
    }
    Ok(())
}

/// Aborted collective operations are recorded by bits of tags that groups may use too.
fn after_abort(comm: &Comm) -> Outcome {
    let all: Vec<Rank> = (0..comm.size()).collect();
    for _ in 0..4 {
        let length = if comm.rank() == 0 { 2 } else { 1 };
        let _ = comm.allreduce(&vec![1u64; length], Sum);
    }
    for instance in 0..8 {
        check_members(&comm.create_group(&all, instance << 18)?, comm.rank(), &all)?;
    }
    Ok(())
}

fn refused(comm: &Comm) -> Outcome {
    let (size, me) = (comm.size(), comm.rank());
    let error = |group: &[Rank], tag| comm.create_group(group, tag).err();
    check_eq!(error(&[me, size], 1), Some(Error::BadRank { rank: size, size }), "a rank out of range");
    let twice = error(&[me, me], 2).map(|error| error.to_string());
    check_eq!(twice, Some(format!("rank {me} is listed twice in a group")), "a rank twice");
    let others: Vec<Rank> = (0..size).filter(|rank| *rank != me).collect();
    let outside = error(&others, 3).map(|error| error.to_string());
    let text = format!("rank {me} calls create_group for a group that does not contain it");
    check_eq!(outside, Some(text), "a list without the caller");
    let too_large = error(&[me], 1 << 30).map(|error| error.to_string());
    check_eq!(too_large.as_deref(), Some("group tag 1073741824 exceeds the maximum of 1073741823"), "a tag");
    let again = error(&[me], 2).map(|error| error.to_string());
    let text = "create_group failed under tag 2 before; use another tag";
    check_eq!(again.as_deref(), Some(text), "a tag that failed before");
    check_usable(comm)
}

/// All ranks call with lists that differ: each gets an error.
fn different(comm: &Comm) -> Outcome {
    let size = comm.size();
    let all: Vec<Rank> = (0..size).collect();
    let reversed: Vec<Rank> = (0..size).rev().collect();
    let mut tag = 10;
    for who in BTreeSet::from([0, 1, size / 2, size - 1]) {
        let pair = [who, (who + 3) % size];
        for (one, others) in [(&reversed[..], &all[..]), (&all, &reversed), (&pair, &all)] {
            // With two ranks the pair may be all; with three it lists one rank twice, which is refused too.
            if one == others {
                continue;
            }
            let list = if comm.rank() == who { one } else { others };
            let made = comm.create_group(list, tag);
            check!(made.is_err(), "rank {who} lists {one:?} and others {others:?}: {made:?}");
            check!(comm.create_group(&all, tag).is_err(), "the same tag again");
            check_usable(comm)?;
            tag += 1;
        }
    }
    Ok(())
}

/// Ranks 0 and 2 wait for each other, and neither sends to the other. Rank 1, which rank 0 lists, detects the mismatch.
fn a_third_fails(comm: &Comm) -> Outcome {
    let list: Option<&[Rank]> = match comm.rank() {
        0 => Some(&[0, 1, 2]),
        1 | 4 => Some(&[0, 1, 4]),
        2 | 5 => Some(&[0, 2, 5]),
        _ => None,
    };
    if let Some(list) = list {
        let made = comm.create_group(list, 0);
        check!(made.is_err(), "{list:?}: {made:?}");
    }
    check_usable(comm)
}

/// The others do not wait for a rank that unwound out of the call. Some may have received all that they need by then.
fn panic_meanwhile(comm: &Comm) -> Outcome {
    let make = |comm: &Comm| comm.create_group(&(0..comm.size()).collect::<Vec<_>>(), 7).map(drop);
    let made = panics::meanwhile(comm, true, make)?;
    check!(made.is_err() || comm.rank() != 0, "a group although rank 0 unwound");
    check!(make(comm).is_err(), "the same tag again");
    check_usable(comm)
}

/// One rank is refused before it sends anything; the others do not wait for it.
fn one_is_bad(comm: &Comm) -> Outcome {
    let size = comm.size();
    let all: Vec<Rank> = (0..size).collect();
    let bad = [vec![0, 0], vec![size], vec![]];
    for (tag, (bad, who)) in (20..).zip(bad.iter().zip([0, size - 1, size / 2])) {
        let made = comm.create_group(if comm.rank() == who { bad } else { &all }, tag);
        check!(made.is_err(), "rank {who} lists {bad:?}: {made:?}");
        check_usable(comm)?;
    }
    Ok(())
}
