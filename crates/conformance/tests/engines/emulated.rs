//! Runs over emulated links.

use std::process::Command;

use crate::COLLECTIVES;
use crate::running::{SUITE, is_long_run, passes};

/// Clusters of two and three ranks, with links fast enough for a test.
const LINKS: &str = "clusters:2+3,wan=100us/200MBps,lan=5us/2GBps";

pub(crate) fn emulated_on_threads(ranks: usize) {
    let mut command = Command::new(SUITE);
    command.args(["--threads", &ranks.to_string(), COLLECTIVES]).env("TREEPIE_EMULATE", LINKS);
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

/// Cases of messages of all kinds.
const EMULATED: &str = "collectives/,matching/,synchronous/,truncation/,windows/,exchanges/,probes/,order/,splits/";
