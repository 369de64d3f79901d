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

/// Unequal clusters with room for several coordinators, close to each other, as every algorithm is tried on them.
const EIGHT: &str = "clusters:3+5,wan=20us/1GBps,lan=1us/10GBps";

/// Every algorithm over the clusters of the world; in long runs also on networks that other links join.
fn emulated_algorithms(engine: &str, ranks: usize) {
    let mut command = Command::new(SUITE);
    let cases = if is_long_run() { "algorithms/" } else { "algorithms/world/" };
    command.args([engine, &ranks.to_string(), cases]).env("TREEPIE_EMULATE", EIGHT);
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
