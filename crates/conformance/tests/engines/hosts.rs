//! Runs in which groups of ranks share a segment each, as the ranks of hosts do.

use std::process::Command;

use crate::mpi_with;
use crate::running::{SUITE, is_long_run, passes};

/// What calls choose on the network of the world, and every algorithm on it.
const CHOSEN: &str = "collectives/";
const EVERY: &str = "algorithms/world/";

/// Segments of at most this number of ranks, which are those of the clusters.
fn in_groups_of(most: &str, clusters: &str, engine: [&str; 2], cases: &[&str]) {
    for cases in cases {
        let mut command = Command::new(SUITE);
        command.args(engine).arg(cases).env("TREEPIE_SHARED_SEGMENT", most).env("TREEPIE_NETWORK", clusters);
        passes(&format!("{cases} on {clusters}, which share segments, {engine:?}"), &mut command);
    }
}

pub(crate) fn groups_on_threads(ranks: usize) {
    let cases = if is_long_run() { &[CHOSEN, EVERY][..] } else { &[CHOSEN] };
    in_groups_of("3", "clusters:3+3+2", ["--threads", &ranks.to_string()], cases);
}

/// One of the groups has one rank.
pub(crate) fn groups_on_shm(ranks: usize) {
    in_groups_of("3", "clusters:3+3+1", ["--shm", &ranks.to_string()], &[CHOSEN, EVERY]);
}

/// MPICH takes odd and even ranks for those of two hosts.
pub(crate) fn hosts_on_mpich(ranks: usize) {
    for cases in [CHOSEN, EVERY] {
        mpi_with("mpirun.mpich", &[], ranks, &[cases], &[("MPIR_CVAR_ODD_EVEN_CLIQUES", "1")]);
    }
}
