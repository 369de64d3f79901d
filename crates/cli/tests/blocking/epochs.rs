//! Epochs that fail on one rank, repeatedly: they fail on all ranks, in whatever order these end. If the rank goes on,
//! the next epoch is correct on all.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use treepie::am::{ActiveMessages, Detector};
use treepie::{Comm, Error, Network, Result};

use crate::running::{settings, with_expected_panic};
use crate::table::{RANKS, VICTIM};

/// How the victim fails in an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failing {
    HandlerPanics,
    BodyReturnsErr,
    BadRank,
}

/// Epochs in which the victim fails.
const FAILING: usize = 3;

struct EpochState {
    count: u64,
    panics: bool,
}

/// The outcomes of epochs on a rank. The victim fails in the first [`FAILING`] epochs, then leaves or takes part in a
/// last one.
fn epochs(world: &Comm, detector: Detector, failing: Failing, stays: bool) -> Result<Vec<Result<u64>>> {
    let mut build = ActiveMessages::<EpochState>::builder(world);
    let update = build.port::<u32>("update");
    build.on(update, |state: &mut EpochState, _, _| {
        assert!(!state.panics, "the fault that this test is about");
        state.count += 1;
    });
    build.detector(detector);
    let mut am = build.start()?;
    let is_victim = world.rank() == VICTIM;
    let mut outcomes = Vec::new();
    for number in 0..FAILING + usize::from(stays) {
        let fails = is_victim && number < FAILING;
        let mut state = EpochState { count: 0, panics: fails && failing == Failing::HandlerPanics };
        let epoch = catch_unwind(AssertUnwindSafe(|| {
            am.epoch(&mut state, |epoch| {
                for to in 0..RANKS {
                    epoch.context().send(update, to, 1);
                }
                match failing {
                    Failing::BodyReturnsErr if fails => Err(Error::Cancelled),
                    Failing::BadRank if fails => {
                        epoch.context().send(update, RANKS + 2, 1);
                        Ok(())
                    }
                    _ => Ok(()),
                }
            })
        }));
        outcomes.push(match epoch {
            Ok(result) => result.map(|_| state.count),
            Err(_) => Err(Error::Cancelled),
        });
    }
    Ok(outcomes)
}

fn judge(all: &[Vec<Result<u64>>], stays: bool) -> std::result::Result<(), String> {
    let right = all
        .iter()
        .all(|rank| rank[..FAILING].iter().all(Result::is_err) && (!stays || rank[FAILING] == Ok(RANKS as u64)));
    if all.len() == RANKS && right { Ok(()) } else { Err(format!("{all:?}")) }
}

pub(crate) fn all(run: &mut impl FnMut(String, &dyn Fn() -> std::result::Result<(), String>)) {
    for detector in [Detector::Auto, Detector::FourCounter, Detector::Consensus] {
        for failing in [Failing::HandlerPanics, Failing::BodyReturnsErr, Failing::BadRank] {
            for stays in [false, true] {
                let name = format!("{detector:?}, {failing:?}, {}", if stays { "goes on" } else { "leaves" });
                run(format!("failing epochs, threads, {name}"), &|| {
                    (0..20).try_for_each(|_| {
                        let all = Mutex::new(Vec::new());
                        with_expected_panic(|| {
                            treepie::launch(RANKS, |world| {
                                let outcomes = epochs(&world, detector, failing, stays).expect("all take part");
                                all.lock().expect("not poisoned").push(outcomes);
                                Ok(())
                            })
                        })?;
                        judge(&all.into_inner().expect("all have ended"), stays)
                    })
                });
                run(format!("failing epochs, simulated, {name}"), &|| {
                    (0..10).try_for_each(|seed| {
                        let mut settings = settings(seed);
                        settings.barrier_time = if seed % 2 == 0 { 0.0 } else { 5.0 };
                        let all = Mutex::new(Vec::new());
                        let simulated = with_expected_panic(|| {
                            treepie::simulate(&Network::flat(RANKS as u32), &settings, |world| {
                                let outcomes = epochs(&world, detector, failing, stays).expect("all take part");
                                all.lock().expect("not poisoned").push(outcomes);
                                Ok(())
                            })
                        })?;
                        if let Some(Err(error)) = simulated {
                            return Err(format!("seed {seed}: {error}"));
                        }
                        judge(&all.into_inner().expect("all have ended"), stays)
                            .map_err(|why| format!("seed {seed}: {why}"))
                    })
                });
            }
        }
    }
}
