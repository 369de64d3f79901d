//! Cases that need a world of their own.

use crate::running::{SHM, SIM, THREADS, suite};

/// Cases that may disable the world's shared segment, so that each needs its own world.
const DISRUPTIVE: [&str; 11] = [
    "world/one-rank-is-refused-and-all-go-on",
    "world/one-rank-is-refused-and-others-are-late",
    "world/one-rank-is-refused-while-others-are-under-way",
    "world/different-lengths-are-an-error",
    "world/operators-that-panic-on-short-data",
    "world/operators-that-panic-on-long-data",
    "world/operators-that-panic-in-a-direct-exchange",
    "world/very-different-lengths",
    "mismatches/of-the-world-on-short-data",
    "mismatches/of-the-world-on-long-data",
    "mismatches/of-the-world-in-other-forms",
];

fn disruptive(engine: &str, ranks: usize) {
    DISRUPTIVE.iter().for_each(|case| suite(engine, ranks, *case, &[]));
}

pub(crate) fn disruptive_on_threads(ranks: usize) {
    disruptive(THREADS, ranks);
}

pub(crate) fn disruptive_on_shm(ranks: usize) {
    disruptive(SHM, ranks);
}

pub(crate) fn simulated_disruptive(ranks: usize) {
    disruptive(SIM, ranks);
}
