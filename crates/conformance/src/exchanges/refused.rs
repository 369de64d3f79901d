//! Input that is wrong on one rank: it hears what is wrong, the others are told, and all can go on.

use std::time::Duration;

use treepie::{Comm, Error, Rank, Received, Result, SparseExchange};

use super::{AUTO, BEHIND, Begun, IDS, any, each, each_begun, handles, messages, some_of, works};
use crate::check::{Failure, Outcome, check, check_eq};
use crate::payload::bytes;

/// What a rank sends of which one destination does not exist; the others send something to everybody.
fn with_one_bad(comm: &Comm, bad: Rank) -> Vec<(Rank, Vec<u8>)> {
    let (me, size) = (comm.rank(), comm.size());
    let mut sent: Vec<(Rank, Vec<u8>)> = (0..size).map(|to| (to, vec![1; 10])).collect();
    if me == bad {
        sent.insert(size / 2, (size + 2, vec![1; 3]));
    }
    sent
}

fn check_refused(comm: &Comm, bad: Rank, result: Result<Received<u8>>) -> Outcome {
    let size = comm.size();
    let error = result.map(|received| received.len());
    if comm.rank() == bad {
        check_eq!(error, Err(Error::BadRank { rank: size + 2, size }), "a destination that does not exist");
    } else {
        // Others give up because that one did, and this one may have heard of them first.
        check!(matches!(error, Err(Error::GaveUp { .. })), "while rank {bad} was refused: {error:?}");
    }
    Ok(())
}

/// The last, the first and one between; those are others on a few ranks.
fn ends(comm: &Comm) -> Vec<Rank> {
    let size = comm.size();
    let mut ends = vec![size - 1, 0, size / 2];
    ends.truncate(size);
    some_of(comm, ends)
}

pub(super) fn destination(comm: &Comm) -> Outcome {
    each(comm, |comm| {
        for bad in ends(comm) {
            check_refused(comm, bad, comm.exchange(with_one_bad(comm, bad)))?;
            works(comm, bad).map_err(|failure| failure.during(format!("after rank {bad} was refused")))?;
        }
        Ok(())
    })
}

/// One after the other with nothing between, by ranks that change; then by all at once.
pub(super) fn again_and_again(comm: &Comm) -> Outcome {
    let size = comm.size();
    each(comm, |comm| {
        for round in some_of(comm, (0..10).collect()) {
            let bad = round * 3 % size;
            check_refused(comm, bad, comm.exchange(with_one_bad(comm, bad)))?;
        }
        works(comm, 1)?;
        for round in some_of(comm, (0..10).collect()) {
            let bad = round / 2 % size;
            check_refused(comm, bad, comm.exchange(with_one_bad(comm, bad)))?;
            super::exchange(comm, round, &|from| any(from, round, size, 4))?;
        }
        let me = comm.rank();
        check_refused(comm, me, comm.exchange(with_one_bad(comm, me)))?;
        works(comm, 1)
    })
}

/// Some of the protocols that are given up have a barrier and some have none; counters of the one before must not be harmed.
pub(super) fn by_turns(comm: &Comm) -> Outcome {
    let (size, handles) = (comm.size(), handles(comm)?);
    for (given_up, using) in some_of(comm, handles.clone()) {
        for (id, before) in &handles {
            super::exchange(before, 1, &|from| any(from, 1, size, 4))?;
            check_refused(&using, size - 1, using.exchange(with_one_bad(&using, size - 1)))?;
            let after = super::exchange(before, 2, &|from| any(from, 2, size, 4));
            after.map_err(|failure| failure.during(format!("{id} after {given_up} was given up")))?;
        }
    }
    works(comm, 1)
}

/// The last rank is refused many times before the others come to the first of these exchanges.
pub(super) fn long_before(comm: &Comm) -> Outcome {
    let last = comm.size() - 1;
    each(comm, |comm| {
        if comm.rank() != last {
            std::thread::sleep(Duration::from_millis(3));
        }
        for _ in 0..some_of(comm, vec![(); 90]).len() {
            check_refused(comm, last, comm.exchange(with_one_bad(comm, last)))?;
        }
        works(comm, 1)
    })
}

/// Nobody takes messages of one protocol for those of another, and afterwards all are in step.
pub(super) fn different(comm: &Comm) -> Outcome {
    let handles = handles(comm)?;
    for (id, here) in some_of(comm, handles.clone()) {
        for (other, there) in handles.iter().filter(|(other, _)| *other != id && *other != AUTO && id != AUTO) {
            let using = if comm.rank() == 0 { &here } else { there };
            let result = using.exchange(with_one_bad(comm, usize::MAX));
            check!(result.is_err(), "{id} met {other}, and that was {result:?}");
            super::exchange(&here, 3, &|from| any(from, 3, comm.size(), 4))?;
        }
    }
    works(comm, 1)
}

pub(super) fn destination_begun(comm: &Comm) -> Outcome {
    each_begun(comm, |comm| {
        for bad in ends(comm) {
            let before = Begun::new(comm, 1, 3)?;
            let refused = comm.iexchange(with_one_bad(comm, bad));
            let after = Begun::new(comm, 2, 3)?;
            check_refused(comm, bad, refused.and_then(|request| request.wait()))?;
            after.end(comm, 3)?;
            before.end(comm, 3)?;
            works(comm, bad)?;
        }
        Ok(())
    })
}

/// The first rank sends words, and the others expect elements of three bytes.
pub(super) fn elements(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    let everybody: Vec<Rank> = (0..size).collect();
    each(comm, |comm| {
        // Those who get some, and those who get a number of words that is one of theirs as well.
        let sent = vec![(vec![size - 1], 1), (everybody.clone(), 3), (everybody.clone(), 2), (vec![0], 4)];
        for (to, words) in some_of(comm, sent) {
            let of_others: Vec<_> = (0..size).map(|to| (to, vec![[me as u8; 3]; 24])).collect();
            let of_first: Vec<_> = to.iter().map(|to| (*to, vec![1u64; words])).collect();
            let error = if me == 0 {
                comm.exchange(of_first).map(drop)
            } else {
                comm.exchange(of_others).map(|got| assert!(got.len() >= size - 1))
            };
            let fits = (8 * words).is_multiple_of(3) || me == 0 || !to.contains(&me);
            let want = if fits { Ok(()) } else { Err(Error::Mismatch { bytes: 8 * words as u64, element: 3 }) };
            check_eq!(error, want, "{words} words as elements of three bytes");
            works(comm, words)?;
            handled(comm, words)?;
        }
        Ok(())
    })
}

/// A handler gets what fits, and the call says what did not.
fn handled(comm: &Comm, words: usize) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    let mut got = Vec::new();
    let all = 0..size;
    let result = if me == 0 {
        comm.exchange_with(all.map(|to| (to, vec![1u64; words])), |from, _| got.push(from))
    } else {
        comm.exchange_with(all.map(|to| (to, vec![[1u8; 3]; 8])), |from, _| got.push(from))
    };
    got.sort_unstable();
    let fits = (8 * words).is_multiple_of(3) || me == 0;
    check_eq!(got, (usize::from(!fits)..size).collect::<Vec<_>>(), "who was handled");
    let want = if fits { Ok(()) } else { Err(Error::Mismatch { bytes: 8 * words as u64, element: 3 }) };
    check_eq!(result, want, "{words} words handled as elements of three bytes");
    Ok(())
}

pub(super) fn names(comm: &Comm) -> Outcome {
    for id in ["exchange/foo", "exchange", "exchange/", "exchange/nbx:condition=9", "exchange/nbx:2", "exchange/NBX"] {
        let why = match comm.using(id).err() {
            Some(Error::Algorithm(why)) => why,
            other => return Err(Failure::new(format!("{id}: {other:?} instead of a refusal"))),
        };
        check!(why.contains(id) && !why.contains('\n'), "a refusal of {id}: {why}");
        check!(IDS.iter().all(|known| why.contains(known)), "a refusal of {id} that does not say what there is: {why}");
    }
    // Such an error says what is wrong in words.
    let (me, size) = (comm.rank(), comm.size());
    let error = comm.exchange(messages(&vec![(size, 1)], me, 0, bytes)).err();
    let text = error.map(|error| error.to_string()).unwrap_or_default();
    check!(text.contains(&format!("rank {size}")), "a destination that does not exist: {text}");
    check!(comm.using(BEHIND).is_ok(), "{BEHIND} is known everywhere");
    works(comm, 1)
}
