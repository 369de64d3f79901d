//! The suite on every engine.

#[path = "engines/disruptive.rs"]
mod disruptive;
#[path = "engines/emulated.rs"]
mod emulated;
#[path = "engines/hosts.rs"]
mod hosts;
#[path = "engines/over_mpi.rs"]
mod over_mpi;
#[path = "engines/running.rs"]
mod running;
#[path = "engines/simulated.rs"]
mod simulated;

use std::process::Command;

use disruptive::{disruptive_on_shm, disruptive_on_threads, simulated_disruptive};
use emulated::{emulated_algorithms_on_shm, emulated_algorithms_on_threads, emulated_on_shm, emulated_on_threads};
use hosts::{groups_on_shm, groups_on_threads, hosts_on_mpich};
use over_mpi::*;
use running::{SHM, SUITE, THREADS, is_long_run, passes, suite};
use simulated::*;

/// Cases of collective operations.
const COLLECTIVES: &str =
    "barriers/,collectives/,world/,refusals/,in-flight/,in-place/,persistent/,algorithms/,routed/,floats/";

/// Cases of sparse exchanges, of active messages, of graphs, of RandomAccess, and of communicators.
const EXCHANGES: &str = "exchanges/";
const ACTIVE: &str = "active/";
const GRAPHS: &str = "graphs/";
const RANDOM_ACCESS: &str = "randomaccess/";
const SPLITS: &str = "splits/";

/// Cases that communicate much.
const MUCH: &str = "splits/,exchanges/,nonblocking,in-flight,collectives/,active/";

/// Cases of long messages.
const LONG_MESSAGES: &str = "collectives/,world/,sizes/,elements/,truncation/,synchronous/,windows/,scopes/,very-large";

/// The number of cycles of `splits/many`.
const TEN_THOUSAND: [(&str, &str); 1] = [("TREEPIE_CYCLES", "10000")];

/// A world of one, without a launcher.
fn alone(ranks: usize) {
    passes(&format!("alone, {ranks} rank"), &mut Command::new(SUITE));
}

fn threads(ranks: usize) {
    suite(THREADS, ranks, suite_filter(ranks), &[]);
}

fn shm(ranks: usize) {
    suite(SHM, ranks, suite_filter(ranks), &[]);
}

/// All cases but those of families that have runs of their own.
const WITH_RUNS_OF_THEIR_OWN: &str = "!graphs/,!active/,!exchanges/,!splits/,!randomaccess/";

/// In short runs, more than two ranks leave out what has runs of its own.
fn suite_filter(ranks: usize) -> Option<&'static str> {
    (ranks > 2 && !is_long_run()).then_some(WITH_RUNS_OF_THEIR_OWN)
}

/// The numbers of ranks up to `limit`; in short runs only some odd ones, powers of two and their neighbors.
fn rank_counts(all: &[usize], limit: usize) -> Vec<usize> {
    const SHORT_RUN: [usize; 6] = [5, 8, 9, 16, 17, 33];
    let is_selected = |ranks: &usize| *ranks <= limit && (is_long_run() || SHORT_RUN.contains(ranks));
    all.iter().copied().filter(is_selected).collect()
}

/// Numbers of ranks up to 17 and around 32.
fn exchanges_on_threads(limit: usize) {
    for ranks in rank_counts(&[6, 8, 9, 10, 11, 12, 13, 14, 15, 17, 32, 33], limit) {
        suite(THREADS, ranks, EXCHANGES, &[]);
    }
}

/// In a fresh world: engines have barrier counters for the first communicators only.
fn exchanges_on_shm(ranks: usize) {
    suite(SHM, ranks, EXCHANGES, &[]);
}

/// Numbers of ranks up to 17.
fn active_on_threads(limit: usize) {
    for ranks in rank_counts(&[4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17], limit) {
        suite(THREADS, ranks, ACTIVE, &[]);
    }
}

/// In a fresh world, as above.
fn active_on_shm(ranks: usize) {
    suite(SHM, ranks, ACTIVE, &[]);
}

fn graphs_on_threads(ranks: usize) {
    suite(THREADS, ranks, GRAPHS, &[]);
}

fn graphs_on_shm(ranks: usize) {
    suite(SHM, ranks, GRAPHS, &[]);
}

fn randomaccess_on_threads(limit: usize) {
    for ranks in [1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17].into_iter().filter(|ranks| *ranks <= limit) {
        suite(THREADS, ranks, RANDOM_ACCESS, &[]);
    }
}

fn randomaccess_on_shm(limit: usize) {
    (2..=limit).for_each(|ranks| suite(SHM, ranks, RANDOM_ACCESS, &[]));
}

fn hundred_million_messages_on_shm(ranks: usize) {
    suite(SHM, ranks, "active/very-many", &[("TREEPIE_MESSAGES", "100000000")]);
}

/// The suite on two communicators at once, each of half of the ranks.
fn parts_of_shm(ranks: usize) {
    let mut command = Command::new(SUITE);
    command.args([SHM, &ranks.to_string(), "--parts"]);
    passes(&format!("parts of shm, {ranks} ranks"), &mut command);
}

/// The same with shared rank tables; short runs have only cases with much communication.
fn shared_tables_on_shm(ranks: usize) {
    shared_tables([SHM, &ranks.to_string()], "split/distributed:sorters=2");
}

fn shared_tables(engine: [&str; 2], split: &str) {
    let mut command = Command::new(SUITE);
    command.args(engine).arg("--parts").env("TREEPIE_ALGORITHM", split);
    if !is_long_run() {
        command.arg(MUCH);
    }
    passes(&format!("shared tables, {engine:?}"), &mut command);
}

fn splits_on_threads(limit: usize) {
    let all: Vec<usize> = (1..=limit).collect();
    let more: &[usize] = if is_long_run() { &[64, 100, 128] } else { &[1, 2, 3, 7, 64, 100] };
    for ranks in rank_counts(&all, limit).iter().chain(more) {
        suite(THREADS, *ranks, SPLITS, &[]);
    }
}

fn splits_on_shm(limit: usize) {
    (2..=limit).for_each(|ranks| suite(SHM, ranks, SPLITS, &[]));
}

/// Operations of the world, with the largest number of ranks that has a shared segment, and one more.
fn world_on_threads(ranks: usize) {
    let cases = "world/allreduce-of-several-counts,world/allgather-of-several-counts,world/one-rank-runs-ahead";
    suite(THREADS, ranks, cases, &[]);
}

/// Checks that communicators leak no memory.
fn ten_thousand_splits_on_shm(ranks: usize) {
    suite(SHM, ranks, "splits/many", &TEN_THOUSAND);
}

/// Checked mode on all communicators of the world.
fn checked_on_threads(ranks: usize) {
    suite(THREADS, ranks, "collectives/,splits/,topologies/,groups/,checking/", &[("TREEPIE_CHECKED", "1")]);
}

fn collectives_on_shm(ranks: usize) {
    suite(SHM, ranks, COLLECTIVES, &[]);
}

/// Large messages go through the rings.
const WITHOUT_SINGLE_COPY: [(&str, &str); 1] = [("TREEPIE_SINGLE_COPY", "off")];

fn shm_without_single_copy(ranks: usize) {
    suite(SHM, ranks, None, &WITHOUT_SINGLE_COPY);
}

/// In short runs only cases of long messages.
fn long_messages_without_single_copy(ranks: usize) {
    suite(SHM, ranks, (!is_long_run()).then_some(LONG_MESSAGES), &WITHOUT_SINGLE_COPY);
}

fn collectives_without_single_copy(ranks: usize) {
    suite(SHM, ranks, "world/", &WITHOUT_SINGLE_COPY);
}

/// Cases that do not rely on sends that return before they are received.
const WITHOUT_BUFFERED_SENDS: &str =
    "order/,wildcards/,probes/,truncation/,nonblocking,persistent/,collectives/,randomaccess/";

/// Every message that is not empty is a rendezvous.
fn without_eager_messages_on_threads(ranks: usize) {
    let most = WITHOUT_BUFFERED_SENDS;
    let cases = if is_long_run() { format!("{most},{EXCHANGES},{GRAPHS}") } else { most.to_owned() };
    suite(THREADS, ranks, &*cases, &[("TREEPIE_EAGER_LIMIT", "0")]);
}

/// Few messages are eager, and short ones are copied from the memory of their senders.
fn few_eager_messages_on_shm(ranks: usize) {
    suite(SHM, ranks, WITHOUT_BUFFERED_SENDS, &[("TREEPIE_EAGER_LIMIT", "100")]);
}

/// A test per engine and number of ranks.
macro_rules! runs {
    ($($name:ident: $run:ident($ranks:literal);)+) => {
        $(#[test]
        fn $name() {
            $run($ranks);
        })+
    };
}

/// The same, of runs that take long and are similar to others.
macro_rules! long_runs {
    ($($name:ident: $run:ident($ranks:literal);)+) => {
        $(#[test]
        fn $name() {
            if is_long_run() {
                $run($ranks);
            } else {
                eprintln!("SKIPPED without TREEPIE_LONG: {}", stringify!($name));
            }
        })+
    };
}

runs! {
    alone_1: alone(1);
    threads_2: threads(2);
    threads_8: threads(8);
    checked_on_threads_5: checked_on_threads(5);
    shm_3: shm(3);
    collectives_on_shm_4: collectives_on_shm(4);
    shm_without_single_copy_2: long_messages_without_single_copy(2);
    collectives_without_single_copy_5: collectives_without_single_copy(5);
    without_eager_messages_on_threads_3: without_eager_messages_on_threads(3);
    few_eager_messages_on_shm_3: few_eager_messages_on_shm(3);
    disruptive_on_threads_8: disruptive_on_threads(8);
    disruptive_on_shm_3: disruptive_on_shm(3);
    disruptive_on_shm_8: disruptive_on_shm(8);
    exchanges_on_threads_up_to_33: exchanges_on_threads(33);
    exchanges_on_shm_3: exchanges_on_shm(3);
    exchanges_on_shm_8: exchanges_on_shm(8);
    active_on_threads_up_to_17: active_on_threads(17);
    active_on_shm_3: active_on_shm(3);
    active_on_shm_16: active_on_shm(16);
    active_on_openmpi_4: active_on_openmpi(4);
    active_on_mpich_4: active_on_mpich(4);
    graphs_on_threads_4: graphs_on_threads(4);
    graphs_on_threads_5: graphs_on_threads(5);
    graphs_on_threads_17: graphs_on_threads(17);
    graphs_on_shm_4: graphs_on_shm(4);
    graphs_on_openmpi_4: graphs_on_openmpi(4);
    graphs_on_mpich_4: graphs_on_mpich(4);
    randomaccess_on_threads_up_to_17: randomaccess_on_threads(17);
    randomaccess_on_shm_up_to_8: randomaccess_on_shm(8);
    randomaccess_on_openmpi_up_to_8: randomaccess_on_openmpi(8);
    randomaccess_on_mpich_up_to_8: randomaccess_on_mpich(8);
    simulated_randomaccess_64: simulated_randomaccess(64);
    emulated_on_threads_5: emulated_on_threads(5);
    emulated_on_shm_5: emulated_on_shm(5);
    emulated_algorithms_on_threads_6: emulated_algorithms_on_threads(6);
    emulated_algorithms_on_shm_6: emulated_algorithms_on_shm(6);
    groups_on_threads_8: groups_on_threads(8);
    groups_on_shm_7: groups_on_shm(7);
    hosts_on_mpich_6: hosts_on_mpich(6);
    shared_tables_on_shm_6: shared_tables_on_shm(6);
    shared_tables_on_mpich_4: shared_tables_on_mpich(4);
    splits_on_threads_up_to_33: splits_on_threads(33);
    world_on_threads_64: world_on_threads(64);
    world_on_threads_65: world_on_threads(65);
    splits_on_shm_up_to_8: splits_on_shm(8);
    ten_thousand_splits_on_shm_6: ten_thousand_splits_on_shm(6);
    splits_on_openmpi_8: splits_on_openmpi(8);
    splits_on_mpich_8: splits_on_mpich(8);
    simulated_shared_tables_6: simulated_shared_tables(6);
    simulated_ten_thousand_splits_6: simulated_ten_thousand_splits(6);
    simulated_3: mostly_simulated(3);
    simulated_algorithms_8: simulated_algorithms(8);
    simulated_networks_8: simulated_networks(8);
    simulated_disruptive_8: simulated_disruptive(8);
    simulated_exchanges_8: simulated_exchanges(8);
    simulated_mismatches_32: simulated_mismatches(32);
    exchanges_on_openmpi_8: exchanges_on_openmpi(8);
    exchanges_on_mpich_8: exchanges_on_mpich(8);
    openmpi_2: openmpi(2);
    collectives_on_openmpi_5: collectives_on_openmpi(5);
    mpich_2: mpich(2);
}

long_runs! {
    threads_1: threads(1);
    threads_3: threads(3);
    threads_4: threads(4);
    threads_5: threads(5);
    threads_7: threads(7);
    threads_16: threads(16);
    shm_1: shm(1);
    shm_2: shm(2);
    shm_5: shm(5);
    shm_8: shm(8);
    shm_16: shm(16);
    collectives_on_shm_7: collectives_on_shm(7);
    shm_without_single_copy_3: shm_without_single_copy(3);
    collectives_without_single_copy_8: collectives_without_single_copy(8);
    hundred_million_messages_on_shm_2: hundred_million_messages_on_shm(2);
    parts_of_shm_5: parts_of_shm(5);
    simulated_1: simulated(1);
    simulated_2: simulated(2);
    simulated_5: simulated(5);
    simulated_algorithms_16: simulated_algorithms(16);
    simulated_algorithms_64: simulated_algorithms(64);
    openmpi_3: openmpi(3);
    openmpi_4: openmpi(4);
    collectives_on_openmpi_1: collectives_on_openmpi(1);
    collectives_on_openmpi_7: collectives_on_openmpi(7);
    collectives_on_openmpi_8: collectives_on_openmpi(8);
    mpich_3: mpich(3);
    mpich_4: mpich(4);
    collectives_on_mpich_1: collectives_on_mpich(1);
    collectives_on_mpich_5: collectives_on_mpich(5);
    collectives_on_mpich_7: collectives_on_mpich(7);
    collectives_on_mpich_8: collectives_on_mpich(8);
}
