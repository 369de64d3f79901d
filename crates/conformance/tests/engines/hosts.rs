//! Runs in which groups of ranks share a segment each, as the ranks of hosts do.

use std::process::Command;

use crate::running::{SUITE, passes};
use crate::{COLLECTIVES, mpi_with};

/// Segments of at most this number of ranks.
fn in_groups_of(ranks: &str, arguments: &[&str]) {
    let mut command = Command::new(SUITE);
    command.args(arguments).env("TREEPIE_SHARED_SEGMENT", ranks);
    passes(&format!("segments of {ranks} ranks, {arguments:?}"), &mut command);
}

/// Groups of three, three and two ranks, and every algorithm.
pub(crate) fn groups_on_threads(ranks: usize) {
    in_groups_of("3", &["--threads", &ranks.to_string(), "algorithms/"]);
}

/// MPICH takes odd and even ranks for those of two hosts.
pub(crate) fn hosts_on_mpich(ranks: usize) {
    mpi_with("mpirun.mpich", &[], ranks, &[COLLECTIVES], &[("MPIR_CVAR_ODD_EVEN_CLIQUES", "1")]);
}

/// A group of one rank.
pub(crate) fn groups_on_shm(ranks: usize) {
    in_groups_of("2", &["--shm", &ranks.to_string(), COLLECTIVES]);
}
