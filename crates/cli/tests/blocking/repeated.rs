//! Synchronizing operations, called repeatedly by the surviving ranks: the n-th call succeeds only if the lost rank had
//! called it n times; if that rank left in order, it then succeeds on all.

use std::sync::Mutex;

use treepie::am::Detector;
use treepie::{Comm, Network, Result, SparseExchange, Sum};

use crate::active::started;
use crate::running::{Fault, settings, with_expected_panic};
use crate::table::{RANKS, VICTIM};

type Operation<'a> = Box<dyn FnMut() -> Result<()> + 'a>;

/// An operation, constructed before the fault.
struct Repeated {
    name: &'static str,
    make: for<'a> fn(&'a Comm) -> Result<Operation<'a>>,
}

const OPERATIONS: &[Repeated] = &[
    Repeated { name: "barrier of the world", make: |world| Ok(Box::new(|| world.barrier())) },
    Repeated {
        name: "barrier of a dup",
        make: |world| {
            let dup = world.dup()?;
            Ok(Box::new(move || dup.barrier()))
        },
    },
    Repeated { name: "ibarrier", make: |world| Ok(Box::new(|| world.ibarrier()?.wait())) },
    Repeated {
        name: "fence",
        make: |world| {
            let window = world.window::<u64>(1)?;
            Ok(Box::new(move || window.fence()))
        },
    },
    Repeated { name: "allreduce", make: |world| Ok(Box::new(|| world.allreduce(&[1u64], Sum).map(drop))) },
    Repeated { name: "exchange", make: |world| Ok(Box::new(|| world.exchange([(0, vec![1u8])]).map(drop))) },
    Repeated {
        name: "exchange/nbx",
        make: |world| {
            let by = world.with_algorithm("exchange/nbx")?;
            Ok(Box::new(move || by.exchange([(0, vec![1u8])]).map(drop)))
        },
    },
    Repeated {
        name: "exchange/rsx",
        make: |world| {
            let by = world.with_algorithm("exchange/rsx")?;
            Ok(Box::new(move || by.exchange([(0, vec![1u8])]).map(drop)))
        },
    },
    Repeated { name: "epoch", make: |world| epochs(world, Detector::Auto) },
    Repeated { name: "epoch by consensus", make: |world| epochs(world, Detector::Consensus) },
    Repeated { name: "epoch by counting", make: |world| epochs(world, Detector::FourCounter) },
];

fn epochs(world: &Comm, detector: Detector) -> Result<Operation<'_>> {
    let (mut am, update) = started(world, detector)?;
    Ok(Box::new(move || am.epoch_for(&mut 0, 0..10, |cx, _, i| cx.send(update, i as usize % RANKS, i)).map(drop)))
}

/// Calls beyond those of the victim.
const EXTRA_CALLS: usize = 4;

/// The body of a rank. Returns the outcomes, except on the victim.
fn calls(world: &Comm, operation: &Repeated, fault: Fault, before: usize) -> Option<Vec<Result<()>>> {
    let mut call = (operation.make)(world).expect("all take part");
    if world.rank() == VICTIM {
        for _ in 0..before {
            call().expect("all take part");
        }
        assert!(fault != Fault::Panics, "the fault that this test is about");
        return None;
    }
    Some((0..before + EXTRA_CALLS).map(|_| call()).collect())
}

fn judge(outcomes: &[Vec<Result<()>>], fault: Fault, before: usize) -> std::result::Result<(), String> {
    let wrong = outcomes.iter().flatten().count() != (RANKS - 1) * (before + EXTRA_CALLS)
        || outcomes.iter().any(|rank| rank[before..].iter().any(Result::is_ok))
        || (fault == Fault::Leaves && outcomes.iter().any(|rank| rank[..before].iter().any(Result::is_err)));
    if wrong { Err(format!("the victim called {before} times, and the others got {outcomes:?}")) } else { Ok(()) }
}

pub(crate) fn all(run: &mut impl FnMut(String, &dyn Fn() -> std::result::Result<(), String>)) {
    let seeds = std::env::var("TREEPIE_SEEDS").ok().and_then(|s| s.parse().ok()).map_or(10, |seeds: u64| seeds / 100);
    for operation in OPERATIONS {
        for fault in [Fault::Leaves, Fault::Panics] {
            run(format!("repeated, threads, {fault}: {}", operation.name), &|| {
                (0..20).try_for_each(|round| {
                    let before = round % 4;
                    let outcomes = Mutex::new(Vec::new());
                    with_expected_panic(|| {
                        treepie::launch(RANKS, |world| {
                            let called = calls(&world, operation, fault, before);
                            outcomes.lock().expect("not poisoned").extend(called);
                            Ok(())
                        })
                    })?;
                    judge(&outcomes.into_inner().expect("all have ended"), fault, before)
                })
            });
            run(format!("repeated, simulated, {fault}: {}", operation.name), &|| {
                (0..seeds.max(1)).try_for_each(|seed| {
                    let before = seed as usize % 4;
                    let mut settings = settings(seed);
                    settings.barrier_time = if seed % 2 == 0 { 0.0 } else { 5.0 };
                    let outcomes = Mutex::new(Vec::new());
                    let simulated = with_expected_panic(|| {
                        treepie::simulate(&Network::flat(RANKS as u32), &settings, |world| {
                            let called = calls(&world, operation, fault, before);
                            outcomes.lock().expect("not poisoned").extend(called);
                            Ok(())
                        })
                    })?;
                    if let Some(Err(error)) = simulated {
                        return Err(format!("seed {seed}: {error}"));
                    }
                    judge(&outcomes.into_inner().expect("all have ended"), fault, before)
                        .map_err(|why| format!("seed {seed}: {why}"))
                })
            });
        }
    }
}
