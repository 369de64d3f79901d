//! Runs over Open MPI and MPICH.

use std::process::Command;

use treepie_mpi::OPENMPI_TEST_OPTIONS;

use crate::running::{SUITE, is_long_run, passes};
use crate::{ACTIVE, COLLECTIVES, EXCHANGES, GRAPHS, RANDOM_ACCESS, SPLITS, WITH_RUNS_OF_THEIR_OWN};

/// The launcher of an MPI, with its options.
type Mpirun = (&'static str, &'static [&'static str]);

const OPENMPI: Mpirun = ("mpirun.openmpi", &OPENMPI_TEST_OPTIONS);
pub(crate) const MPICH: Mpirun = ("mpirun.mpich", &[]);

/// Runs the suite with these arguments.
pub(crate) fn mpi((mpirun, options): Mpirun, ranks: usize, arguments: &[&str], environment: &[(&str, &str)]) {
    let found =
        std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(mpirun).exists()));
    if !found {
        eprintln!("SKIPPED: {mpirun} is not installed, so the suite does not run under it on {ranks} ranks");
        return;
    }
    let mut command = Command::new(mpirun);
    command.args(options).args(["-n", &ranks.to_string(), SUITE]).args(arguments).envs(environment.iter().copied());
    let what = if arguments.is_empty() { "all".to_owned() } else { arguments.join(" ") };
    passes(&format!("{what} on {mpirun}, {ranks} ranks"), &mut command);
}

/// The suite, and families of its cases, on either MPI.
macro_rules! on_mpis {
    ($($openmpi:ident, $mpich:ident: $cases:expr;)+) => {
        $(pub(crate) fn $openmpi(ranks: usize) {
            mpi(OPENMPI, ranks, $cases, &[]);
        }

        pub(crate) fn $mpich(ranks: usize) {
            mpi(MPICH, ranks, $cases, &[]);
        })+
    };
}

on_mpis! {
    collectives_on_openmpi, collectives_on_mpich: &[COLLECTIVES];
    exchanges_on_openmpi, exchanges_on_mpich: &[EXCHANGES];
    active_on_openmpi, active_on_mpich: &[ACTIVE];
    graphs_on_openmpi, graphs_on_mpich: &[GRAPHS];
}

pub(crate) fn openmpi(ranks: usize) {
    suite_on(OPENMPI, ranks);
}

pub(crate) fn mpich(ranks: usize) {
    suite_on(MPICH, ranks);
}

/// In short runs without what has runs of its own.
fn suite_on(mpirun: Mpirun, ranks: usize) {
    let filter: &[&str] = if is_long_run() { &[] } else { &[WITH_RUNS_OF_THEIR_OWN] };
    mpi(mpirun, ranks, filter, &[]);
}

/// Numbers of ranks up to 8.
pub(crate) fn splits_on_openmpi(limit: usize) {
    (2..=limit).for_each(|ranks| mpi(OPENMPI, ranks, &[SPLITS], &[]));
}

pub(crate) fn splits_on_mpich(limit: usize) {
    (2..=limit).for_each(|ranks| mpi(MPICH, ranks, &[SPLITS], &[]));
}

/// In short runs only 2, 3, 4 and 8 ranks.
fn few_counts(limit: usize) -> impl Iterator<Item = usize> {
    (2..=limit).filter(|ranks| is_long_run() || [2, 3, 4, 8].contains(ranks))
}

pub(crate) fn randomaccess_on_openmpi(limit: usize) {
    few_counts(limit).for_each(|ranks| mpi(OPENMPI, ranks, &[RANDOM_ACCESS], &[]));
}

pub(crate) fn randomaccess_on_mpich(limit: usize) {
    few_counts(limit).for_each(|ranks| mpi(MPICH, ranks, &[RANDOM_ACCESS], &[]));
}

/// Shared rank tables, with cases that communicate much.
pub(crate) fn shared_tables_on_mpich(ranks: usize) {
    let what = ["--parts", "splits/,exchanges/,nonblocking,in-flight"];
    mpi(MPICH, ranks, &what, &[("TREEPIE_ALGORITHM", "split/distributed:sorters=2")]);
}
