//! Runs on simulated ranks.

use crate::running::{SIM, is_long_run, suite};
use crate::{EXCHANGES, MUCH, RANDOM_ACCESS, TEN_THOUSAND, shared_tables};

/// Cases that run every algorithm.
const ALGORITHMS: &str = "algorithms/,collectives/";

pub(crate) fn simulated(ranks: usize) {
    suite(SIM, ranks, None, &[]);
}

/// All cases in long runs; in short ones without every algorithm, which more ranks run, and without graphs.
pub(crate) fn mostly_simulated(ranks: usize) {
    let cases =
        "matching/,order/,wildcards/,probes/,truncation/,errors/,windows/,nonblocking,in-place,persistent/,topologies/";
    let cases = format!("{cases},{MUCH}");
    suite(SIM, ranks, (!is_long_run()).then_some(&*cases), &[]);
}

pub(crate) fn simulated_algorithms(ranks: usize) {
    // In short runs a torus has the algorithms of flat networks, too.
    suite(SIM, ranks, if is_long_run() { ALGORITHMS } else { "collectives/" }, &[]);
}

/// Networks with shared links and gateways, on which messages arrive in another order than on a flat one.
pub(crate) fn simulated_networks(ranks: usize) {
    let few = ranks - 3;
    let others = [format!("clos:r8,t4,n{ranks}"), format!("clusters:{few}+3"), format!("clusters:({few}+1)+(2)")];
    // On the world is enough in short runs, which run all cases on a flat network.
    let cases = if is_long_run() { ALGORITHMS } else { "algorithms/world/" };
    suite(SIM, format!("torus:2x{}", ranks / 2), cases, &[]);
    others.iter().filter(|_| is_long_run()).for_each(|network| suite(SIM, network, ALGORITHMS, &[]));
}

pub(crate) fn simulated_exchanges(ranks: usize) {
    suite(SIM, ranks, EXCHANGES, &[]);
}

/// Enough ranks that the protocol selected depends on the previous exchange.
pub(crate) fn simulated_mismatches(ranks: usize) {
    suite(SIM, ranks, "checking/exchanges-after", &[]);
}

pub(crate) fn simulated_randomaccess(ranks: usize) {
    suite(SIM, format!("torus:8x{}", ranks / 8), RANDOM_ACCESS, &[]);
}

pub(crate) fn simulated_ten_thousand_splits(ranks: usize) {
    suite(SIM, ranks, "splits/many", &TEN_THOUSAND);
}

/// Where reading a shared rank table takes messages.
pub(crate) fn simulated_shared_tables(ranks: usize) {
    shared_tables([SIM, &ranks.to_string()], "split/quick:sorters=3");
}
