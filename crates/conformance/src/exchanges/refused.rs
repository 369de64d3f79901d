//! Invalid input on one rank: it gets the error itself, the other ranks get `Aborted`, and all can go on.

use std::time::Duration;

use treepie::{Comm, Error, Rank, Received, Result, SparseExchange};

use super::{
    AUTO, NEEDS_ENGINE_BARRIER, PROTOCOL_IDS, PendingExchange, check_usable, first_few, for_each_nonblocking_protocol,
    for_each_protocol, handles, messages, random_plan,
};
use crate::check::{Failure, Outcome, check, check_eq};
use crate::payload::bytes;

/// Messages to all ranks; on the bad rank also one to a rank that does not exist.
pub(super) fn with_one_bad(comm: &Comm, bad: Rank) -> Vec<(Rank, Vec<u8>)> {
    let (me, size) = (comm.rank(), comm.size());
    let mut sent: Vec<(Rank, Vec<u8>)> = (0..size).map(|to| (to, vec![1; 10])).collect();
    if me == bad {
        sent.insert(size / 2, (size + 2, vec![1; 3]));
    }
    sent
}

pub(super) fn check_refused(comm: &Comm, bad: Rank, result: Result<Received<u8>>) -> Outcome {
    let size = comm.size();
    let error = result.map(|received| received.len());
    if comm.rank() == bad {
        check_eq!(error, Err(Error::BadRank { rank: size + 2, size }), "a destination that does not exist");
    } else {
        // The abort may have come from a third rank, which aborted because the bad rank did.
        check!(matches!(error, Err(Error::Aborted { .. })), "while rank {bad} was refused: {error:?}");
    }
    Ok(())
}

/// The last rank, the first and one in between.
fn ends(comm: &Comm) -> Vec<Rank> {
    let size = comm.size();
    let mut ends = vec![size - 1, 0, size / 2];
    ends.truncate(size);
    first_few(comm, ends)
}

pub(super) fn destination(comm: &Comm) -> Outcome {
    for_each_protocol(comm, |comm| {
        for bad in ends(comm) {
            check_refused(comm, bad, comm.exchange(with_one_bad(comm, bad)))?;
            check_usable(comm, bad).map_err(|failure| failure.context(format!("after rank {bad} was refused")))?;
        }
        Ok(())
    })
}

/// Refused on changing ranks, one exchange after the other, without and with good ones in between; then on all ranks at
/// once.
pub(super) fn again_and_again(comm: &Comm) -> Outcome {
    let size = comm.size();
    for_each_protocol(comm, |comm| {
        for round in first_few(comm, (0..10).collect()) {
            let bad = round * 3 % size;
            check_refused(comm, bad, comm.exchange(with_one_bad(comm, bad)))?;
        }
        check_usable(comm, 1)?;
        for round in first_few(comm, (0..10).collect()) {
            let bad = round / 2 % size;
            check_refused(comm, bad, comm.exchange(with_one_bad(comm, bad)))?;
            super::exchange(comm, round, &|from| random_plan(from, round, size, 4))?;
        }
        let me = comm.rank();
        check_refused(comm, me, comm.exchange(with_one_bad(comm, me)))?;
        check_usable(comm, 1)
    })
}

/// Some protocols use a barrier and some do not; aborting one must not disturb the counters of the one before.
pub(super) fn alternating_protocols(comm: &Comm) -> Outcome {
    let (size, handles) = (comm.size(), handles(comm)?);
    for (aborted_id, using) in first_few(comm, handles.clone()) {
        for (id, before) in &handles {
            super::exchange(before, 1, &|from| random_plan(from, 1, size, 4))?;
            check_refused(&using, size - 1, using.exchange(with_one_bad(&using, size - 1)))?;
            let after = super::exchange(before, 2, &|from| random_plan(from, 2, size, 4));
            after.map_err(|failure| failure.context(format!("{id} after {aborted_id} was aborted")))?;
        }
    }
    check_usable(comm, 1)
}

/// The last rank is refused many times before the others enter the first of these exchanges.
pub(super) fn long_before(comm: &Comm) -> Outcome {
    let last = comm.size() - 1;
    for_each_protocol(comm, |comm| {
        if comm.rank() != last {
            std::thread::sleep(Duration::from_millis(3));
        }
        for _ in 0..first_few(comm, vec![(); 90]).len() {
            check_refused(comm, last, comm.exchange(with_one_bad(comm, last)))?;
        }
        check_usable(comm, 1)
    })
}

/// Messages of one protocol never match those of another, and afterwards all ranks are in step.
pub(super) fn different(comm: &Comm) -> Outcome {
    let handles = handles(comm)?;
    for (id, here) in first_few(comm, handles.clone()) {
        for (other, there) in handles.iter().filter(|(other, _)| *other != id && *other != AUTO && id != AUTO) {
            let using = if comm.rank() == 0 { &here } else { there };
            let result = using.exchange(with_one_bad(comm, usize::MAX));
            check!(result.is_err(), "{id} against {other}: {result:?}");
            super::exchange(&here, 3, &|from| random_plan(from, 3, comm.size(), 4))?;
        }
    }
    check_usable(comm, 1)
}

pub(super) fn destination_begun(comm: &Comm) -> Outcome {
    for_each_nonblocking_protocol(comm, |comm| {
        for bad in ends(comm) {
            let before = PendingExchange::new(comm, 1, 3)?;
            let refused = comm.iexchange(with_one_bad(comm, bad));
            let after = PendingExchange::new(comm, 2, 3)?;
            check_refused(comm, bad, refused.and_then(|request| request.wait()))?;
            after.wait(comm, 3)?;
            before.wait(comm, 3)?;
            check_usable(comm, bad)?;
        }
        Ok(())
    })
}

/// The first rank sends words, and the others expect elements of three bytes.
pub(super) fn elements(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    let all: Vec<Rank> = (0..size).collect();
    for_each_protocol(comm, |comm| {
        // To some ranks; and three words, which are a whole number of elements of three bytes.
        let sent = vec![(vec![size - 1], 1), (all.clone(), 3), (all.clone(), 2), (vec![0], 4)];
        for (to, words) in first_few(comm, sent) {
            let of_others: Vec<_> = (0..size).map(|to| (to, vec![[me as u8; 3]; 24])).collect();
            let of_first: Vec<_> = to.iter().map(|to| (*to, vec![1u64; words])).collect();
            let error = if me == 0 {
                comm.exchange(of_first).map(drop)
            } else {
                comm.exchange(of_others).map(|got| assert!(got.len() >= size - 1))
            };
            let fits = (8 * words).is_multiple_of(3) || me == 0 || !to.contains(&me);
            let want = if fits { Ok(()) } else { Err(Error::PartialElement { bytes: 8 * words as u64, element: 3 }) };
            check_eq!(error, want, "{words} words as elements of three bytes");
            check_usable(comm, words)?;
            handled(comm, words)?;
        }
        Ok(())
    })
}

/// The handler gets the messages that fit, and the call returns the error of those that do not.
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
    check_eq!(got, (usize::from(!fits)..size).collect::<Vec<_>>(), "sources of handled messages");
    let want = if fits { Ok(()) } else { Err(Error::PartialElement { bytes: 8 * words as u64, element: 3 }) };
    check_eq!(result, want, "{words} words handled as elements of three bytes");
    Ok(())
}

pub(super) fn unknown_protocols(comm: &Comm) -> Outcome {
    for id in ["exchange/foo", "exchange", "exchange/", "exchange/nbx:condition=9", "exchange/nbx:2", "exchange/NBX"] {
        let why = match comm.with_algorithm(id).err() {
            Some(Error::Algorithm(why)) => why,
            other => return Err(Failure::new(format!("{id}: {other:?} instead of a refusal"))),
        };
        check!(why.contains(id) && !why.contains('\n'), "a refusal of {id}: {why}");
        check!(
            PROTOCOL_IDS.iter().all(|known| why.contains(known)),
            "a refusal of {id} that does not say what there is: {why}"
        );
    }
    // The error names the rank.
    let (me, size) = (comm.rank(), comm.size());
    let error = comm.exchange(messages(&vec![(size, 1)], me, 0, bytes)).err();
    let text = error.map(|error| error.to_string()).unwrap_or_default();
    check!(text.contains(&format!("rank {size}")), "a destination that does not exist: {text}");
    check!(comm.with_algorithm(NEEDS_ENGINE_BARRIER).is_ok(), "{NEEDS_ENGINE_BARRIER} is known everywhere");
    check_usable(comm, 1)
}
