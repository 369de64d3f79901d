//! Active messages in the simulator; each seed draws ranks, configuration, detector, program, delays and slow ranks. An
//! epoch never ends early, always ends, and returns the right sum. The same check finds injected faults.

mod account;
mod case;
mod program;

use std::collections::BTreeSet;

use case::{Case, Form, KINDS, MessageKind};
use treepie_am::{Coalescing, Config, Detector, InjectedFault, Reductions, Routing, Style};

/// The number of seeds.
fn seeds() -> u64 {
    let long = std::env::var_os("TREEPIE_LONG").is_some_and(|value| !value.is_empty() && value != "0");
    if long { 20_000 } else { 1000 }
}

#[test]
fn an_epoch_never_ends_early_and_always_ends() {
    for seed in 0..seeds() {
        program::run(&Case::draw(seed), None).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

#[test]
fn seeds_draw_everything() {
    let cases: Vec<Case> = (0..1000).map(Case::draw).collect();
    let count = |matches: &dyn Fn(&Case) -> bool| cases.iter().filter(|case| matches(case)).count();
    assert_eq!(cases.iter().map(|case| case.ranks).collect::<BTreeSet<_>>(), (2..=32).collect());
    for detector in [Detector::FourCounter, Detector::Consensus, Detector::Auto] {
        assert!(count(&|case| case.detector == detector) > 250);
    }
    for jitter in [0.0, 5.0, 100.0, 2000.0, 20_000.0] {
        assert!(count(&|case| case.settings.noise.jitter == jitter) > 150);
    }
    assert!(count(&|case| case.settings.noise.slow_ranks.is_empty()) > 150);
    assert!(count(&|case| case.settings.noise.slow_ranks.len() > 1) > 300);
    assert!(count(&|case| case.pauses.0 > 0.0 && case.epochs > 1) > 300);
    for form in [Form::One, Form::Prefetch, Form::Batch] {
        assert!(count(&|case| case.form == form && case.kinds.contains(&MessageKind::Plain)) > 80);
    }
    for kind in KINDS {
        let uses = |matches: &dyn Fn(&Config) -> bool| {
            count(&|case| case.kinds.contains(&kind) && matches(&case.configs[kind as usize]))
        };
        let routings: [fn(&Routing) -> bool; 5] = [
            |routing| *routing == Routing::Direct,
            |routing| *routing == Routing::Rook,
            |routing| *routing == Routing::Hypercube,
            |routing| matches!(routing, Routing::Grid(_)),
            |routing| matches!(routing, Routing::Clusters(_)),
        ];
        for matches in routings {
            assert!(uses(&|config| matches(&config.routing)) > 40);
        }
        assert!(uses(&|config| config.coalescing == Coalescing::Adaptive) > 60);
        assert!(uses(&|config| matches!(config.coalescing, Coalescing::Messages(many) if many > 1)) > 60);
        assert!(uses(&|config| config.reductions == Reductions::Adaptive) > 60);
        assert!(uses(&|config| matches!(config.reductions, Reductions::Entries(_))) > 60);
        assert!(uses(&|config| config.style == Style::Am) > 100 && uses(&|config| config.style == Style::Bsp) > 100);
    }
}

/// The first of 1,000 seeds that finds a fault, among the cases in which it matters.
fn found(fault: InjectedFault, matters: impl Fn(&Case) -> bool) -> Option<u64> {
    let cases = (0..1000).map(Case::draw).filter(matters);
    let found = cases.map(|case| (case.seed, program::run(&case, Some(fault)))).find(|(_, ran)| ran.is_err());
    let (seed, ran) = found?;
    println!("{fault:?} is found by seed {seed}: {}", ran.unwrap_err());
    Some(seed)
}

#[test]
fn a_counter_updated_after_the_send_is_found() {
    assert!(found(InjectedFault::LateSendCount, |case| case.detector != Detector::Consensus).is_some());
}

#[test]
fn a_cache_that_is_not_flushed_is_found() {
    assert!(found(InjectedFault::UnflushedCaches, Case::combines).is_some());
}

#[test]
fn a_missing_second_wave_is_found() {
    assert!(found(InjectedFault::SingleWave, |case| case.detector != Detector::Consensus).is_some());
}

#[test]
fn buffers_not_tagged_with_their_epoch_are_found() {
    assert!(found(InjectedFault::UntaggedEpochs, |case| case.epochs > 1).is_some());
}
