//! The suite on every engine.

#[path = "engines/disruptive.rs"]
mod disruptive;
#[path = "engines/emulated.rs"]
mod emulated;
#[path = "engines/hosts.rs"]
mod hosts;
#[path = "engines/running.rs"]
mod running;

use std::process::Command;

use disruptive::{disruptive_on_shm, disruptive_on_threads, simulated_disruptive};
use emulated::{emulated_algorithms_on_shm, emulated_algorithms_on_threads, emulated_on_shm, emulated_on_threads};
use hosts::{groups_on_shm, groups_on_threads, hosts_on_mpich};
use running::{SUITE, is_long_run, passes};
use treepie_mpi::OPENMPI_TEST_OPTIONS as OPENMPI;

/// Cases of collective operations.
const COLLECTIVES: &str =
    "barriers/,collectives/,world/,refusals/,in-flight/,in-place/,persistent/,algorithms/,routed/,floats/";

/// Cases of sparse exchanges.
const EXCHANGES: &str = "exchanges/";

/// Cases of active messages.
const ACTIVE: &str = "active/";

/// A world of one, without a launcher.
fn alone(ranks: usize) {
    passes(&format!("alone, {ranks} rank"), &mut Command::new(SUITE));
}

fn threads(ranks: usize) {
    let mut command = Command::new(SUITE);
    command.args(["--threads", &ranks.to_string()]).args(suite_filter(ranks));
    passes(&format!("threads, {ranks} ranks"), &mut command);
}

/// In short runs, more than two ranks leave out what has runs of its own.
fn suite_filter(ranks: usize) -> Option<&'static str> {
    (ranks > 2 && !is_long_run()).then_some("!graphs/,!active/,!exchanges/,!splits/,!randomaccess/")
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
        let mut command = Command::new(SUITE);
        command.args(["--threads", &ranks.to_string(), EXCHANGES]);
        passes(&format!("exchanges on threads, {ranks} ranks"), &mut command);
    }
}

/// In a fresh world: engines have barrier counters for the first communicators only.
fn exchanges_on_shm(ranks: usize) {
    let mut command = Command::new(SUITE);
    command.args(["--shm", &ranks.to_string(), EXCHANGES]);
    passes(&format!("exchanges on shm, {ranks} ranks"), &mut command);
}

/// Numbers of ranks up to 17.
fn active_on_threads(limit: usize) {
    for ranks in rank_counts(&[4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17], limit) {
        let mut command = Command::new(SUITE);
        command.args(["--threads", &ranks.to_string(), ACTIVE]);
        passes(&format!("active messages on threads, {ranks} ranks"), &mut command);
    }
}

/// In a fresh world, as above.
fn active_on_shm(ranks: usize) {
    let mut command = Command::new(SUITE);
    command.args(["--shm", &ranks.to_string(), ACTIVE]);
    passes(&format!("active messages on shm, {ranks} ranks"), &mut command);
}

fn active_on_openmpi(ranks: usize) {
    mpi("mpirun.openmpi", &OPENMPI, ranks, Some(ACTIVE));
}

fn active_on_mpich(ranks: usize) {
    mpi("mpirun.mpich", &[], ranks, Some(ACTIVE));
}

/// Cases of graphs.
const GRAPHS: &str = "graphs/";

fn graphs_on_threads(ranks: usize) {
    let mut command = Command::new(SUITE);
    command.args(["--threads", &ranks.to_string(), GRAPHS]);
    passes(&format!("graphs on threads, {ranks} ranks"), &mut command);
}

fn graphs_on_shm(ranks: usize) {
    let mut command = Command::new(SUITE);
    command.args(["--shm", &ranks.to_string(), GRAPHS]);
    passes(&format!("graphs on shm, {ranks} ranks"), &mut command);
}

fn graphs_on_openmpi(ranks: usize) {
    mpi("mpirun.openmpi", &OPENMPI, ranks, Some(GRAPHS));
}

fn graphs_on_mpich(ranks: usize) {
    mpi("mpirun.mpich", &[], ranks, Some(GRAPHS));
}

/// Cases of RandomAccess.
const RANDOM_ACCESS: &str = "randomaccess/";

fn randomaccess_on_threads(limit: usize) {
    for ranks in [1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17].into_iter().filter(|ranks| *ranks <= limit) {
        let mut command = Command::new(SUITE);
        command.args(["--threads", &ranks.to_string(), RANDOM_ACCESS]);
        passes(&format!("RandomAccess on threads, {ranks} ranks"), &mut command);
    }
}

/// In short runs only 3, 4 and 8 ranks under MPI.
fn few_counts(limit: usize) -> impl Iterator<Item = usize> {
    (2..=limit).filter(|ranks| is_long_run() || [3, 4, 8].contains(ranks))
}

fn randomaccess_on_shm(limit: usize) {
    for ranks in 2..=limit {
        let mut command = Command::new(SUITE);
        command.args(["--shm", &ranks.to_string(), RANDOM_ACCESS]);
        passes(&format!("RandomAccess on shm, {ranks} ranks"), &mut command);
    }
}

fn randomaccess_on_openmpi(limit: usize) {
    few_counts(limit).for_each(|ranks| mpi("mpirun.openmpi", &OPENMPI, ranks, Some(RANDOM_ACCESS)));
}

fn randomaccess_on_mpich(limit: usize) {
    few_counts(limit).for_each(|ranks| mpi("mpirun.mpich", &[], ranks, Some(RANDOM_ACCESS)));
}

fn simulated_randomaccess(ranks: usize) {
    sim(&format!("torus:8x{}", ranks / 8), Some(RANDOM_ACCESS));
}

fn hundred_million_messages_on_shm(ranks: usize) {
    let mut command = Command::new(SUITE);
    command.args(["--shm", &ranks.to_string(), "active/very-many"]).env("TREEPIE_MESSAGES", "100000000");
    passes(&format!("a hundred million messages on shm, {ranks} ranks"), &mut command);
}

/// The suite on two communicators at once, each of half of the ranks.
fn parts_of_shm(ranks: usize) {
    let mut command = Command::new(SUITE);
    command.args(["--shm", &ranks.to_string(), "--parts"]);
    passes(&format!("parts of shm, {ranks} ranks"), &mut command);
}

/// Cases that communicate much.
const MUCH: &str = "splits/,exchanges/,nonblocking,in-flight,collectives/,active/";

/// The same with shared rank tables; short runs have only cases with much communication.
fn shared_tables_on_shm(ranks: usize) {
    shared_tables(["--shm", &ranks.to_string()], "split/distributed:sorters=2");
}

/// The same where reading a shared table takes messages.
fn simulated_shared_tables(ranks: usize) {
    shared_tables(["--sim", &ranks.to_string()], "split/quick:sorters=3");
}

fn shared_tables(engine: [&str; 2], split: &str) {
    let mut command = Command::new(SUITE);
    command.args(engine).arg("--parts").env("TREEPIE_ALGORITHM", split);
    if !is_long_run() {
        command.arg(MUCH);
    }
    passes(&format!("shared tables, {engine:?}"), &mut command);
}

/// The same over MPI, with cases that communicate much.
fn shared_tables_on_mpich(ranks: usize) {
    let what = ["--parts", "splits/,exchanges/,nonblocking,in-flight"];
    mpi_with("mpirun.mpich", &[], ranks, &what, &[("TREEPIE_ALGORITHM", "split/distributed:sorters=2")]);
}

const SPLITS: &str = "splits/";

fn splits_on_threads(limit: usize) {
    let all: Vec<usize> = (1..=limit).collect();
    let more: &[usize] = if is_long_run() { &[64, 100, 128] } else { &[1, 2, 3, 7, 64, 100] };
    for ranks in rank_counts(&all, limit).iter().chain(more) {
        let mut command = Command::new(SUITE);
        command.args(["--threads", &ranks.to_string(), SPLITS]);
        passes(&format!("splits on threads, {ranks} ranks"), &mut command);
    }
}

/// Operations of the world, with the largest number of ranks that has a shared segment, and one more.
fn world_on_threads(ranks: usize) {
    let mut command = Command::new(SUITE);
    command.args([
        "--threads",
        &ranks.to_string(),
        "world/allreduce-of-several-counts,world/allgather-of-several-counts,world/one-rank-runs-ahead",
    ]);
    passes(&format!("the world on threads, {ranks} ranks"), &mut command);
}

/// Checks that communicators leak no memory.
fn ten_thousand_splits(world: &str, ranks: usize) {
    let mut command = Command::new(SUITE);
    command.args([world, &ranks.to_string(), "splits/many"]).env("TREEPIE_CYCLES", "10000");
    passes(&format!("10,000 splits, {world} {ranks}"), &mut command);
}

fn ten_thousand_splits_on_shm(ranks: usize) {
    ten_thousand_splits("--shm", ranks);
}

fn simulated_ten_thousand_splits(ranks: usize) {
    ten_thousand_splits("--sim", ranks);
}

fn splits_on_shm(limit: usize) {
    for ranks in 2..=limit {
        let mut command = Command::new(SUITE);
        command.args(["--shm", &ranks.to_string(), SPLITS]);
        passes(&format!("splits on shm, {ranks} ranks"), &mut command);
    }
}

/// Checked mode on all communicators of the world.
fn checked_on_threads(ranks: usize) {
    let mut command = Command::new(SUITE);
    command.args(["--threads", &ranks.to_string(), "collectives/,splits/,topologies/,groups/,checking/"]);
    passes(&format!("checked, on threads, {ranks} ranks"), command.env("TREEPIE_CHECKED", "1"));
}

fn shm(ranks: usize) {
    let mut command = Command::new(SUITE);
    command.args(["--shm", &ranks.to_string()]).args(suite_filter(ranks));
    passes(&format!("shm, {ranks} ranks"), &mut command);
}

fn collectives_on_shm(ranks: usize) {
    let mut command = Command::new(SUITE);
    command.args(["--shm", &ranks.to_string(), COLLECTIVES]);
    passes(&format!("collectives on shm, {ranks} ranks"), &mut command);
}

/// Large messages go through the rings.
fn shm_without_single_copy(ranks: usize) {
    let mut command = Command::new(SUITE);
    command.args(["--shm", &ranks.to_string()]).env("TREEPIE_SINGLE_COPY", "off");
    passes(&format!("shm without single copy, {ranks} ranks"), &mut command);
}

/// Cases of long messages.
fn long_messages_without_single_copy(ranks: usize) {
    if is_long_run() {
        return shm_without_single_copy(ranks);
    }
    let mut command = Command::new(SUITE);
    command.args(["--shm", &ranks.to_string(), LONG_MESSAGES]).env("TREEPIE_SINGLE_COPY", "off");
    passes(&format!("long messages on shm without single copy, {ranks} ranks"), &mut command);
}

const LONG_MESSAGES: &str = "collectives/,world/,sizes/,elements/,truncation/,synchronous/,windows/,scopes/,very-large";

fn collectives_without_single_copy(ranks: usize) {
    let mut command = Command::new(SUITE);
    command.args(["--shm", &ranks.to_string(), "world/"]).env("TREEPIE_SINGLE_COPY", "off");
    passes(&format!("collectives on shm without single copy, {ranks} ranks"), &mut command);
}

/// Simulated ranks: a number of them, or a network.
fn sim(network: &str, filter: Option<&str>) {
    let mut command = Command::new(SUITE);
    command.args(["--sim", network]).args(filter);
    passes(&format!("sim, {network}"), &mut command);
}

/// Cases that run every algorithm.
const ALGORITHMS: &str = "algorithms/,collectives/";

fn simulated(ranks: usize) {
    sim(&ranks.to_string(), None);
}

/// All cases in long runs; in short ones without every algorithm, which more ranks run, and without graphs.
fn mostly_simulated(ranks: usize) {
    if is_long_run() {
        return simulated(ranks);
    }
    let cases = "matching/,order/,wildcards/,probes/,truncation/,errors/,windows/,nonblocking,in-place,persistent/,topologies/,";
    sim(&ranks.to_string(), Some(&format!("{cases}{MUCH}")));
}

fn simulated_algorithms(ranks: usize) {
    let network = ranks.to_string();
    // In short runs a torus has the algorithms of flat networks, too.
    let cases = if is_long_run() { ALGORITHMS } else { "collectives/" };
    sim(&network, Some(cases));
}

/// Networks with shared links and gateways, on which messages arrive in another order than on a flat one.
fn simulated_networks(ranks: usize) {
    let few = ranks - 3;
    let others = [format!("clos:r8,t4,n{ranks}"), format!("clusters:{few}+3"), format!("clusters:({few}+1)+(2)")];
    // On the world is enough in short runs, which run all cases on a flat network.
    let cases = if is_long_run() { ALGORITHMS } else { "algorithms/world/" };
    sim(&format!("torus:2x{}", ranks / 2), Some(cases));
    others.iter().filter(|_| is_long_run()).for_each(|network| sim(network, Some(ALGORITHMS)));
}

/// All cases, or those that `filter` selects, over MPI.
fn mpi(mpirun: &str, options: &[&str], ranks: usize, filter: Option<&str>) {
    mpi_with(mpirun, options, ranks, filter.as_slice(), &[]);
}

fn mpi_with(mpirun: &str, options: &[&str], ranks: usize, arguments: &[&str], environment: &[(&str, &str)]) {
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

fn openmpi(ranks: usize) {
    mpi("mpirun.openmpi", &OPENMPI, ranks, None);
}

fn collectives_on_openmpi(ranks: usize) {
    mpi("mpirun.openmpi", &OPENMPI, ranks, Some(COLLECTIVES));
}

fn exchanges_on_openmpi(ranks: usize) {
    mpi("mpirun.openmpi", &OPENMPI, ranks, Some(EXCHANGES));
}

fn exchanges_on_mpich(ranks: usize) {
    mpi("mpirun.mpich", &[], ranks, Some(EXCHANGES));
}

/// Numbers of ranks that the whole suite does not run with.
fn splits_on_openmpi(limit: usize) {
    (3..=limit).for_each(|ranks| mpi("mpirun.openmpi", &OPENMPI, ranks, Some(SPLITS)));
}

fn splits_on_mpich(limit: usize) {
    (3..=limit).for_each(|ranks| mpi("mpirun.mpich", &[], ranks, Some(SPLITS)));
}

fn simulated_exchanges(ranks: usize) {
    sim(&ranks.to_string(), Some(EXCHANGES));
}

/// Enough ranks that the protocol selected depends on the previous exchange.
fn simulated_mismatches(ranks: usize) {
    sim(&ranks.to_string(), Some("checking/exchanges-after"));
}

fn mpich(ranks: usize) {
    mpi("mpirun.mpich", &[], ranks, None);
}

fn collectives_on_mpich(ranks: usize) {
    mpi("mpirun.mpich", &[], ranks, Some(COLLECTIVES));
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
