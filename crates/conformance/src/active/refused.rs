//! Errors on one rank: it gets the error itself, the other ranks get `Aborted`, and the runtime stays usable.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use treepie::am::{ActiveMessages, Builder, Detector};
use treepie::{Comm, Error, Rank, Result};

use super::{Ledger, Tally, routings};
use crate::check::{Failure, Outcome, check, check_eq};

type Active = ActiveMessages<Tally>;

/// Starts a runtime with one message type and what `more` adds to its builder.
fn start(comm: &Comm, more: impl FnOnce(&mut Builder<Tally>)) -> Result<Active> {
    let mut build = Active::builder(comm);
    let value = build.port::<u64>("value");
    build.on(value, |tally: &mut Tally, _, value| tally.add(value));
    more(&mut build);
    build.start()
}

/// The last rank, the first and one in between.
pub(super) fn ends(comm: &Comm) -> Vec<Rank> {
    let mut ends = vec![comm.size() - 1, 0, comm.size() / 2];
    ends.dedup();
    ends.truncate(comm.size());
    ends
}

pub(super) fn types(comm: &Comm) -> Outcome {
    type More = fn(&mut Builder<Tally>);
    let (me, size) = (comm.rank(), comm.size());
    let nothing: More = |_| ();
    let another: More = |build| {
        let other = build.port::<u32>("other");
        build.on(other, |_, _, _| ());
    };
    let longer: More = |build| {
        let other = build.port::<u64>("other");
        build.on(other, |_, _, _| ());
    };
    let configured: More = |build| build.configure_all("coalescing=17".parse().expect("a configuration"));
    let reversed: More = |build| {
        let [second, first] = ["second", "first"].map(|name| build.port::<u8>(name));
        build.on(first, |_, _, _| ());
        build.on(second, |_, _, _| ());
    };
    let in_order: More = |build| {
        let [first, second] = ["first", "second"].map(|name| build.port::<u8>(name));
        build.on(first, |_, _, _| ());
        build.on(second, |_, _, _| ());
    };
    let sourced: More = |build| {
        let other = build.port::<u32>("other");
        build.on_from(other, |_, _, _, _| ());
    };
    let combined: More = |build| {
        let other = build.port::<u32>("other");
        build.on(other, |_, _, _| ());
        build.dedup_by_key(other, |other| u64::from(*other));
    };
    let signed: More = |build| {
        let other = build.port::<i32>("other");
        build.on(other, |_, _, _| ());
    };
    let counting: More = |build| build.detector(Detector::FourCounter);
    for (most, one, words) in [
        (another, sourced, ["`other` (u32, 4 bytes, coal", "`other` (u32, 4 bytes, with source"]),
        (another, combined, ["`other` (u32, 4 bytes, coal", "`other` (u32, 4 bytes, combined"]),
        (another, signed, ["`other` (u32", "`other` (i32"]),
        (nothing, counting, ["the detector Auto", "the detector FourCounter"]),
        (nothing, another, ["`value` (u64, 8 bytes", "`other` (u32, 4 bytes"]),
        (another, nothing, ["`other` (u32, 4 bytes", "`value` (u64, 8 bytes"]),
        (another, longer, ["`other` (u32, 4 bytes", "`other` (u64, 8 bytes"]),
        (nothing, configured, ["coalescing=adaptive", "coalescing=17"]),
        (in_order, reversed, ["`first` (u8, 1 bytes", "`second` (u8, 1 bytes"]),
    ] {
        for bad in ends(comm).into_iter().filter(|_| size > 1) {
            let error = start(comm, if me == bad { one } else { most }).err();
            // Rank 0's list, and that of the first rank that differs.
            let differs = if bad == 0 { 1 } else { bad };
            let Some(Error::MessageTypeMismatch { first: 0, second, lists }) = &error else {
                return Err(Failure::new(format!("while rank {bad} differs: {error:?}")));
            };
            check_eq!(*second, differs, "the first rank that differs");
            let [of_one, of_most] = if bad == 0 { [&lists[0], &lists[1]] } else { [&lists[1], &lists[0]] };
            check!(of_most.contains(words[0]) && of_one.contains(words[1]), "lists without {words:?}: {lists:?}");
            check!(of_most != of_one, "two lists that are the same: {of_most}");
            let text = error.as_ref().map(Error::to_string).unwrap_or_default();
            check!(lists.iter().all(|list| text.contains(list)), "not both lists in: {text}");
        }
        check_usable(&mut start(comm, most)?, comm)?;
    }
    Ok(())
}

/// Checks that an epoch in which every rank sends to every rank succeeds.
fn check_usable(am: &mut Active, comm: &Comm) -> Outcome {
    let mut build = Active::builder(comm);
    let value = build.port::<u64>("value");
    let mut tally = Tally::default();
    let mut ledger = Ledger::new(comm);
    // The port has the same index as the runtime's first type.
    am.epoch_for(&mut tally, 0..3 * comm.size(), |cx, _, i| {
        ledger.record_sent(i % cx.ranks(), i as u64);
        cx.send(value, i % cx.ranks(), i as u64);
    })?;
    ledger.check(comm, tally, "messages afterwards")
}

pub(super) fn registrations(comm: &Comm) -> Outcome {
    type Wrong = (fn(&mut Builder<Tally>), &'static str);
    let wrong: [Wrong; 8] = [
        (|build| _ = build.port::<u8>("mute"), "message type `mute` has no handler"),
        (|build| _ = build.call::<u8, u8, u8>("mute"), "message type `mute` has no handler"),
        (|build| _ = build.port::<u8>("value"), "two message types are called `value`"),
        (
            |build| {
                let port = build.port::<u8>("twice");
                build.on(port, |_, _, _| ());
                build.on_batch(port, |_, _, _| ());
            },
            "message type `twice` has two handlers",
        ),
        (
            |build| {
                let port = build.port::<()>("empty");
                build.on(port, |_, _, _| ());
            },
            "messages of type `empty` have no bytes; they need at least one",
        ),
        (
            |build| {
                let port = build.port::<u8>("asks");
                build.on_from(port, |_, _, _, _| ());
                build.dedup_by_key(port, |message: &u8| u64::from(*message));
            },
            "message type `asks` is combined, and its handler asks who sent a message",
        ),
        (
            |build| build.configure_all("routing=clusters:1000000".parse().expect("a routing")),
            "routing=clusters:1000000 has",
        ),
        (|build| build.configure_all("routing=clusters:1+1000000".parse().expect("a routing")), "has 1000001 ranks"),
    ];
    let me = comm.rank();
    for (more, words) in wrong {
        // On all ranks, then on some.
        for bad in [None].into_iter().chain(ends(comm).into_iter().map(Some)) {
            let is_wrong = bad.is_none_or(|bad| bad == me);
            let error = start(comm, |build| {
                if is_wrong {
                    more(build)
                }
            })
            .err();
            let text = error.as_ref().map(Error::to_string).unwrap_or_default();
            if is_wrong {
                check!(matches!(error, Some(Error::Algorithm(_))), "wrong on rank {bad:?}: {error:?}");
            } else {
                check!(matches!(error, Some(Error::MessageTypeMismatch { .. })), "wrong on rank {bad:?}: {error:?}");
            }
            check!(text.contains(words), "without `{words}`: {text}");
        }
        check_usable(&mut start(comm, |_| ())?, comm)?;
    }
    Ok(())
}

/// Checks that the bad rank got its error and the others got `Aborted`.
pub(super) fn check_refused(comm: &Comm, bad: Rank, result: Result<u64>, want: &Error) -> Outcome {
    if comm.rank() == bad {
        check_eq!(result.as_ref().err(), Some(want), "the error of the bad rank");
    } else {
        check!(matches!(result, Err(Error::Aborted { .. })), "while rank {bad} was refused: {result:?}");
    }
    Ok(())
}

/// A bad destination in a body or a handler, among many messages of all ranks; none of them may reach the next epoch.
pub(super) fn destination(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    let every = routings(size);
    for (turn, detector) in [Detector::Auto, Detector::FourCounter, Detector::Consensus].into_iter().enumerate() {
        let style = if turn == 1 { "bsp" } else { "am" };
        let config = format!("routing={},coalescing=7,style={style}", every[(turn + size) % every.len()]);
        let mut build = Active::builder(comm);
        let value = build.port::<u64>("value");
        let lost = build.port::<u8>("lost");
        build.on(value, |tally: &mut Tally, _, value| tally.add(value));
        build.on(lost, move |_, cx, _| cx.send(value, size + 2, 1));
        build.combine(value, |value: &u64| *value, |_, _| ());
        build.configure_all(config.parse()?);
        build.detector(detector);
        let mut am = build.start()?;
        let missing = Error::BadRank { rank: size + 2, size };
        for (round, in_handler) in [false, true, false, true, true].into_iter().enumerate() {
            // Only one of them where there are many ranks.
            let ends = ends(comm);
            for bad in ends.iter().copied().skip(round % ends.len()).take(if size > 8 { 1 } else { ends.len() }) {
                let mut tally = Tally::default();
                let result = am.epoch_for(&mut tally, 0..100, |cx, _, i: usize| {
                    cx.send(value, (i + me) % size, 1 << 40);
                    if i == 50 && in_handler && me == (bad + 1) % size {
                        cx.send(lost, bad, 0);
                    } else if i == 50 && !in_handler && me == bad {
                        cx.send(value, size + 2, 0);
                    }
                });
                check_refused(comm, bad, result, &missing)
                    .map_err(|failure| failure.context(format!("{config}, {detector:?}, round {round}")))?;
                // The bad rank is the only one that sends.
                let result =
                    am.epoch_for(&mut tally, 0..usize::from(me == bad), |cx, _, _| cx.send(value, size + 2, 0));
                check_refused(comm, bad, result, &missing)
                    .map_err(|failure| failure.context(format!("{config}, {detector:?}, no other sender")))?;
                // In one round the next failure follows immediately.
                if round != 3 {
                    check_usable_without_reductions(&mut am, comm)?;
                }
            }
        }
        check_usable_without_reductions(&mut am, comm)?;
        // Dropped messages are not counted; no counter may underflow.
        let counted = am.statistics();
        check!(counted.iter().all(|known| known.sent.max(known.local) < 1 << 40), "messages counted: {counted:?}");
    }
    Ok(())
}

/// Checks that an epoch succeeds; all values differ, so that no messages are combined.
fn check_usable_without_reductions(am: &mut Active, comm: &Comm) -> Outcome {
    let mut build = Active::builder(comm);
    let value = build.port::<u64>("value");
    let mut tally = Tally::default();
    let mut ledger = Ledger::new(comm);
    let me = comm.rank() as u64;
    am.epoch_for(&mut tally, 0..2 * comm.size() as u64, |cx, _, i| {
        let (to, number) = (i as usize % cx.ranks(), i << 20 | me);
        ledger.record_sent(to, number);
        cx.send(value, to, number);
    })?;
    ledger.check(comm, tally, "messages after a failed epoch")
}

/// An error that a body returns ends the epoch.
pub(super) fn body(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    let mut am = start(comm, |_| ())?;
    let error = Error::Algorithm("the body does not like it".to_owned());
    for bad in ends(comm) {
        let result = am.epoch(&mut Tally::default(), |epoch| {
            epoch.progress()?;
            if me == bad { Err(error.clone()) } else { Ok(()) }
        });
        check_refused(comm, bad, result, &error)?;
        check_usable(&mut am, comm)?;
    }
    // All ranks fail at once: each gets its own error.
    let result = am.epoch(&mut Tally::default(), |_| Err(error.clone()));
    check_eq!(result.err(), Some(error), "an error on all of {size} ranks");
    check_usable(&mut am, comm)
}

/// After a rank catches a panic of a handler, all ranks can use the runtime.
pub(super) fn panics(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    let mut build = Active::builder(comm);
    let value = build.port::<u64>("value");
    let bad = build.port::<u8>("bad");
    build.on(value, |tally: &mut Tally, _, value| tally.add(value));
    // `resume_unwind` does not call the panic hook, which would print a message.
    build.on(bad, |_, _, _| resume_unwind(Box::new("the handler panics")));
    let mut am = build.start()?;
    for victim in ends(comm) {
        let mut tally = Tally::default();
        let run = || {
            am.epoch_for(&mut tally, 0..100, |cx, _, i: usize| {
                cx.send(value, (i + me) % size, 1);
                if i == 50 && me == 0 {
                    cx.send(bad, victim, 0);
                }
            })
        };
        match catch_unwind(AssertUnwindSafe(run)) {
            Err(_) => check!(me == victim, "a panic of another rank's handler"),
            Ok(result) => {
                check!(me != victim, "the handler's panic was swallowed");
                check!(matches!(result, Err(Error::Aborted { .. })), "while rank {victim} panics: {result:?}");
            }
        }
        check_usable(&mut am, comm)?;
    }
    Ok(())
}
