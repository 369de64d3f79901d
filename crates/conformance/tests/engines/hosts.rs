//! Runs in which groups of ranks share a segment each, as the ranks of hosts do.

use crate::over_mpi::{MPICH, mpi};
use crate::running::{SHM, THREADS, is_long_run, suite};

/// What calls choose on the network of the world, and every algorithm on it.
const CHOSEN: &str = "collectives/";
const EVERY: &str = "algorithms/world/";

/// Segments of at most this number of ranks, which are those of the clusters.
fn in_groups_of(most: &str, clusters: &str, (engine, ranks): (&str, usize), cases: &[&str]) {
    for cases in cases {
        suite(engine, ranks, *cases, &[("TREEPIE_SHARED_SEGMENT", most), ("TREEPIE_NETWORK", clusters)]);
    }
}

pub(crate) fn groups_on_threads(ranks: usize) {
    let cases = if is_long_run() { &[CHOSEN, EVERY][..] } else { &[CHOSEN] };
    in_groups_of("3", "clusters:3+3+2", (THREADS, ranks), cases);
}

/// One of the groups has one rank.
pub(crate) fn groups_on_shm(ranks: usize) {
    in_groups_of("3", "clusters:3+3+1", (SHM, ranks), &[CHOSEN, EVERY]);
}

/// MPICH takes odd and even ranks for those of two hosts.
pub(crate) fn hosts_on_mpich(ranks: usize) {
    for cases in [CHOSEN, EVERY] {
        mpi(MPICH, ranks, &[cases], &[("MPIR_CVAR_ODD_EVEN_CLIQUES", "1")]);
    }
}
