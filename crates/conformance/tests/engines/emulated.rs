//! Runs over emulated links.

use crate::COLLECTIVES;
use crate::running::{SHM, THREADS, is_long_run, suite};

/// Clusters of two and three ranks, with links fast enough for a test.
const LINKS: &str = "clusters:2+3,wan=100us/200MBps,lan=5us/2GBps";

pub(crate) fn emulated_on_threads(ranks: usize) {
    // Every algorithm runs on other clusters, below.
    let cases = if is_long_run() { COLLECTIVES } else { EMULATED };
    suite(THREADS, ranks, cases, &[("TREEPIE_EMULATE", LINKS)]);
}

pub(crate) fn emulated_on_shm(ranks: usize) {
    let links = format!("{LINKS},loss=1%");
    // All cases in long runs.
    suite(SHM, ranks, (!is_long_run()).then_some(EMULATED), &[("TREEPIE_EMULATE", &links)]);
}

/// Every algorithm over the unequal clusters of the world, which have room for several coordinators and are close to each
/// other; in long runs with two ranks more, and also on networks that other links join.
fn emulated_algorithms(engine: &str, ranks: usize) {
    let (cases, small, ranks) =
        if is_long_run() { ("algorithms/", 3, ranks + 2) } else { ("algorithms/world/", 2, ranks) };
    let links = format!("clusters:{small}+{},wan=20us/1GBps,lan=1us/10GBps", ranks - small);
    suite(engine, ranks, cases, &[("TREEPIE_EMULATE", &links)]);
}

pub(crate) fn emulated_algorithms_on_threads(ranks: usize) {
    emulated_algorithms(THREADS, ranks);
}

pub(crate) fn emulated_algorithms_on_shm(ranks: usize) {
    emulated_algorithms(SHM, ranks);
}

/// Cases of messages of all kinds.
const EMULATED: &str = "collectives/,matching/,synchronous/,truncation/,windows/,exchanges/,probes/,order/,splits/";
