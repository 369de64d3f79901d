//! Helpers shared by the tests.

#![allow(dead_code, reason = "each test program uses a part of it")]

use treepie_collectives::registry::{self, CollectiveSpec};
use treepie_schedule::{BlockLayout, BlockLayouts, Operation, Schedule};
use treepie_sim::costs::{ClusterCosts, LinkCosts, LogGP, PLogP, WanLink};
use treepie_sim::{BlockSizes, Settings, SimResult, Workload, simulate_schedule};
use treepie_topology::Network;

/// Whether the full range is requested.
pub(crate) fn is_long_run() -> bool {
    std::env::var_os("TREEPIE_LONG").is_some_and(|value| !value.is_empty() && value != "0")
}

pub(crate) fn network(text: &str) -> Network {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The operation of an algorithm id.
pub(crate) fn operation(id: &str, root: u32) -> Operation {
    Operation::from_name(id.split('/').next().unwrap_or_default(), root)
        .unwrap_or_else(|| panic!("unknown operation {id}"))
}

pub(crate) fn build(id: &str, network: &Network) -> Box<dyn Schedule> {
    registry::build(id, &CollectiveSpec::new(operation(id, 0), network))
        .unwrap_or_else(|refusal| panic!("{id}: {refusal}"))
}

/// Blocks of `each` bytes.
pub(crate) fn uniform(schedule: &dyn Schedule, each: usize) -> BlockSizes {
    BlockSizes::Shared(BlockLayouts::symmetric(BlockLayout::uniform(each, schedule.blocks())))
}

/// Simulates an algorithm with blocks of `each` bytes.
pub(crate) fn simulate_id(id: &str, network: &Network, settings: &Settings, each: usize) -> SimResult {
    let schedule = build(id, network);
    let sizes = uniform(&*schedule, each);
    let workload = Workload { schedule: &*schedule, sizes: &sizes, element: 1 };
    simulate_schedule(workload, network, settings).unwrap_or_else(|error| panic!("{id} on {network}: {error}"))
}

/// LogGP parameters of Intrepid.
pub(crate) fn loggp() -> Settings {
    LogGP { latency: 4.29, overhead: 2.87, gap: 2.04, per_byte: 0.00267 }.into()
}

/// Costs in whole picoseconds, so that nothing is rounded.
pub(crate) fn links() -> Settings {
    LinkCosts::new(6.25, 0.0025).into()
}

/// The wide-area simulation of the P-LogP paper: 10 ms and 1 MB/s between clusters, 20 us and 50 MB/s within.
pub(crate) fn wide_area(clusters: u32) -> Settings {
    let wan = WanLink { latency: 10_000.0, bandwidth: 1.0 };
    ClusterCosts::uniform(PLogP::from_latency_bandwidth(20.0, 50.0), wan, clusters).into()
}
