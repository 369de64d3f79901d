//! Communicators that only their members make.

use std::collections::BTreeSet;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use treepie::{ANY_SOURCE, ANY_TAG, Comm, Error, Rank, Sum};

use crate::check::{Outcome, check, check_eq};
use crate::checking::panics;
use crate::splits::check_members;
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("groups/disjoint-ones-at-once", 1, disjoint),
    Case::new("groups/random-lists-under-one-tag", 1, random),
    Case::new("groups/others-are-elsewhere-meanwhile", 1, others_are_elsewhere),
    Case::new("groups/messages-of-overlapping-ones-never-cross", 1, overlapping),
    Case::new("groups/ranks-that-have-made-more-agree-with-others", 1, unequal_pasts),
    Case::new("groups/what-was-given-up-before-does-not-matter", 2, after_given_up),
    Case::new("groups/bad-lists-are-refused", 1, refused),
    Case::new("groups/lists-that-differ-are-noticed", 2, different),
    Case::new("groups/ranks-that-wait-for-each-other-hear-of-a-third", 6, a_third_fails),
    Case::new("groups/operators-that-panic-meanwhile", 2, panic_meanwhile),
    Case::new("groups/one-bad-list-ends-it-for-all", 2, one_is_bad),
];

/// That all ranks can go on.
fn works(comm: &Comm) -> Outcome {
    check_eq!(comm.all_reduce(&[1u64], Sum)?, [comm.size() as u64], "a sum afterwards");
    let all: Vec<Rank> = (0..comm.size()).collect();
    check_members(&comm.create_from_group(&all, 1000)?, comm.rank(), &all)
}

fn disjoint(comm: &Comm) -> Outcome {
    let alike: Vec<Rank> = (0..comm.size()).rev().filter(|rank| rank % 3 == comm.rank() % 3).collect();
    let part = comm.create_from_group(&alike, 5)?;
    check_members(&part, comm.rank(), &alike)?;
    // And again from there.
    let first = part.create_from_group(&[part.rank()], 5)?;
    check_eq!((first.rank(), first.size()), (0, 1), "rank and size alone");
    check_eq!(first.all_reduce(&[7], Sum)?, [7], "a sum alone");
    Ok(())
}

/// Some ranks in some order, the same on all callers.
fn drawn(seed: u64, ranks: usize) -> Vec<Rank> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut with_key: Vec<(u64, Rank)> = (0..ranks).map(|rank| (random.next_u64(), rank)).collect();
    with_key.sort_unstable();
    let most = random.next_u64() as usize % ranks + 1;
    with_key.into_iter().take(most).map(|(_, rank)| rank).collect()
}

fn random(comm: &Comm) -> Outcome {
    for seed in 0..40 {
        let group = drawn(seed, comm.size());
        if group.contains(&comm.rank()) {
            check_members(&comm.create_from_group(&group, seed as u32 % 2)?, comm.rank(), &group)?;
        }
    }
    Ok(())
}

/// Members make theirs between collective operations that the others have begun already.
fn others_are_elsewhere(comm: &Comm) -> Outcome {
    let group: Vec<Rank> = (0..comm.size()).step_by(2).collect();
    for round in 0..10 {
        if group.contains(&comm.rank()) {
            let part = comm.create_from_group(&group, round)?;
            check_eq!(part.all_reduce(&[1], Sum)?, [group.len()], "ranks of group {round}");
        }
        check_eq!(comm.all_reduce(&[1], Sum)?, [comm.size()], "ranks in round {round}");
        comm.barrier()?;
    }
    Ok(())
}

/// Neighbours around a ring make one each, and use them all at once.
fn overlapping(comm: &Comm) -> Outcome {
    let size = comm.size();
    let mut parts = Vec::new();
    for first in 0..size {
        let pair: &[Rank] = if size == 1 { &[0] } else { &[first, (first + 1) % size] };
        if pair.contains(&comm.rank()) {
            parts.push((first, comm.create_from_group(pair, 0)?));
        }
    }
    for (first, part) in &parts {
        part.send(&[*first as u64], part.size() - 1 - part.rank(), 1)?;
    }
    for (first, part) in parts.iter().rev() {
        let (got, _) = part.recv_vec::<u64>(ANY_SOURCE, ANY_TAG)?;
        check_eq!(got, [*first as u64], "what came on the communicator of {first} and the next");
    }
    Ok(())
}

/// Some ranks have used more contexts than others; what they make together is new to all.
fn unequal_pasts(comm: &Comm) -> Outcome {
    let all: Vec<Rank> = (0..comm.size()).collect();
    let alone = comm.create_from_group(&[comm.rank()], 1)?;
    let mut kept = Vec::new();
    for _ in 0..comm.rank() % 5 {
        kept.push(alone.dup()?);
    }
    kept.push(comm.create_from_group(&all, 2)?);
    kept.push(comm.split(0, 0)?.expect("every rank has a colour"));
    kept.push(comm.dup()?);
    let to = |part: &Comm| (part.rank() + 1) % part.size();
    for (place, part) in kept.iter().rev().enumerate() {
        part.send(&[place as u64], to(part), 3)?;
    }
    for (place, part) in kept.iter().rev().enumerate() {
        check_eq!(part.recv_vec::<u64>(ANY_SOURCE, ANY_TAG)?.0, [place as u64], "what came on {part:?}");
    }
    Ok(())
}

/// Collective operations that failed are known by bits of tags, which groups may have too.
fn after_given_up(comm: &Comm) -> Outcome {
    let all: Vec<Rank> = (0..comm.size()).collect();
    for _ in 0..4 {
        let length = if comm.rank() == 0 { 2 } else { 1 };
        let _ = comm.all_reduce(&vec![1u64; length], Sum);
    }
    for instance in 0..8 {
        check_members(&comm.create_from_group(&all, instance << 18)?, comm.rank(), &all)?;
    }
    Ok(())
}

fn refused(comm: &Comm) -> Outcome {
    let (size, me) = (comm.size(), comm.rank());
    let error = |group: &[Rank], tag| comm.create_from_group(group, tag).err();
    check_eq!(error(&[me, size], 1), Some(Error::BadRank { rank: size, size }), "a rank that is not there");
    let twice = error(&[me, me], 2).map(|error| error.to_string());
    check_eq!(twice, Some(format!("rank {me} is listed twice in a group")), "a rank twice");
    let others: Vec<Rank> = (0..size).filter(|rank| *rank != me).collect();
    let outside = error(&others, 3).map(|error| error.to_string());
    let text = format!("rank {me} makes a communicator of a group that it is not in");
    check_eq!(outside, Some(text), "a list without the caller");
    let too_large = error(&[me], 1 << 30).map(|error| error.to_string());
    check_eq!(too_large.as_deref(), Some("tag 1073741824 of a group is above the largest one, 1073741823"), "a tag");
    let again = error(&[me], 2).map(|error| error.to_string());
    let text = "no group could be made under tag 2 before; take another tag";
    check_eq!(again.as_deref(), Some(text), "a tag that failed before");
    works(comm)
}

/// All ranks call, with lists that do not agree: each learns that its group cannot be.
fn different(comm: &Comm) -> Outcome {
    let size = comm.size();
    let all: Vec<Rank> = (0..size).collect();
    let reversed: Vec<Rank> = (0..size).rev().collect();
    let mut tag = 10;
    for who in BTreeSet::from([0, 1, size / 2, size - 1]) {
        let pair = [who, (who + 3) % size];
        for (one, others) in [(&reversed[..], &all[..]), (&all, &reversed), (&pair, &all)] {
            // Of two ranks the pair may be all; of three it is one twice, which is refused as well.
            if one == others {
                continue;
            }
            let list = if comm.rank() == who { one } else { others };
            let made = comm.create_from_group(list, tag);
            check!(made.is_err(), "rank {who} lists {one:?} and others {others:?}: {made:?}");
            check!(comm.create_from_group(&all, tag).is_err(), "the same tag again");
            works(comm)?;
            tag += 1;
        }
    }
    Ok(())
}

/// Ranks 0 and 2 wait for each other, and neither writes to the other. Rank 1, which is in the list of rank 0, notices that
/// lists differ.
fn a_third_fails(comm: &Comm) -> Outcome {
    let list: Option<&[Rank]> = match comm.rank() {
        0 => Some(&[0, 1, 2]),
        1 | 4 => Some(&[0, 1, 4]),
        2 | 5 => Some(&[0, 2, 5]),
        _ => None,
    };
    if let Some(list) = list {
        let made = comm.create_from_group(list, 0);
        check!(made.is_err(), "{list:?}: {made:?}");
    }
    works(comm)
}

/// The others do not wait for a rank that was thrown out of the call. Some may have heard all that they need by then.
fn panic_meanwhile(comm: &Comm) -> Outcome {
    let make = |comm: &Comm| comm.create_from_group(&(0..comm.size()).collect::<Vec<_>>(), 7).map(drop);
    let made = panics::meanwhile(comm, true, make)?;
    check!(made.is_err() || comm.rank() != 0, "a group that rank 0 was thrown out of");
    check!(make(comm).is_err(), "the same tag again");
    works(comm)
}

/// One rank is refused before it has sent anything; the others do not wait for it.
fn one_is_bad(comm: &Comm) -> Outcome {
    let size = comm.size();
    let all: Vec<Rank> = (0..size).collect();
    let bad = [vec![0, 0], vec![size], vec![]];
    for (tag, (bad, who)) in (20..).zip(bad.iter().zip([0, size - 1, size / 2])) {
        let made = comm.create_from_group(if comm.rank() == who { bad } else { &all }, tag);
        check!(made.is_err(), "rank {who} lists {bad:?}: {made:?}");
        works(comm)?;
    }
    Ok(())
}
