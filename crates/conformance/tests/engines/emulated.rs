//! Runs over emulated links.

use std::process::Command;

use crate::COLLECTIVES;
use crate::running::{SUITE, is_long_run, passes};

/// Clusters of two and three ranks, with links fast enough for a test.
const LINKS: &str = "clusters:2+3,wan=100us/200MBps,lan=5us/2GBps";

pub(crate) fn emulated_on_threads(ranks: usize) {
    let mut command = Command::new(SUITE);
    // Every algorithm runs on other clusters, below.
    let cases = if is_long_run() { COLLECTIVES } else { EMULATED };
    command.args(["--threads", &ranks.to_string(), cases]).env("TREEPIE_EMULATE", LINKS);
    passes(&format!("emulated links on threads, {ranks} ranks"), &mut command);
}

pub(crate) fn emulated_on_shm(ranks: usize) {
    let mut command = Command::new(SUITE);
    let links = format!("{LINKS},loss=1%");
    command.args(["--shm", &ranks.to_string()]).env("TREEPIE_EMULATE", links);
    // All cases in long runs.
    if !is_long_run() {
        command.arg(EMULATED);
    }
    passes(&format!("emulated lossy links on shm, {ranks} ranks"), &mut command);
}

/// Every algorithm over the unequal clusters of the world, which have room for several coordinators and are close to each
/// other; in long runs with two ranks more, and also on networks that other links join.
fn emulated_algorithms(engine: &str, ranks: usize) {
    let mut command = Command::new(SUITE);
    let (cases, small, ranks) =
        if is_long_run() { ("algorithms/", 3, ranks + 2) } else { ("algorithms/world/", 2, ranks) };
    let links = format!("clusters:{small}+{},wan=20us/1GBps,lan=1us/10GBps", ranks - small);
    command.args([engine, &ranks.to_string(), cases]).env("TREEPIE_EMULATE", links);
    passes(&format!("algorithms over emulated links on {engine}, {ranks} ranks"), &mut command);
}

pub(crate) fn emulated_algorithms_on_threads(ranks: usize) {
    emulated_algorithms("--threads", ranks);
}

pub(crate) fn emulated_algorithms_on_shm(ranks: usize) {
    emulated_algorithms("--shm", ranks);
}

/// Cases of messages of all kinds.
const EMULATED: &str = "collectives/,matching/,synchronous/,truncation/,windows/,exchanges/,probes/,order/,splits/";
