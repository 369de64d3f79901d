//! Helpers shared by the tests: schedules by id, their counted terms, and their time on ranks with one port.

#![allow(dead_code, reason = "each test program uses a part of it")]

use treepie_collectives::registry::{CollectiveSpec, build};
use treepie_model::predict::MessageCosts;
use treepie_model::{CostParams, CostTerms, Profile, congestion, walk};
use treepie_schedule::{BlockLayout, BlockLayouts, Operation, Schedule};
use treepie_topology::Network;

/// The operation of an algorithm id, with a root.
pub(crate) fn operation(id: &str, root: u32) -> Operation {
    Operation::from_name(id.split('/').next().unwrap_or_default(), root)
        .unwrap_or_else(|| panic!("unknown operation {id}"))
}

/// Parses a network.
pub(crate) fn network(text: &str) -> Network {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The schedule of an id, if it applies to the network.
pub(crate) fn schedule(id: &str, operation: Operation, network: &Network) -> Option<Box<dyn Schedule>> {
    build(id, &CollectiveSpec::new(operation, network)).ok()
}

/// The layout in which a rank contributes n bytes, or all have a vector of n.
pub(crate) fn layouts(schedule: &dyn Schedule, n: usize) -> BlockLayouts {
    let blocks = schedule.blocks();
    BlockLayouts::symmetric(match schedule.operation() {
        Operation::Allgather | Operation::ReduceScatter | Operation::Scatter { .. } | Operation::Gather { .. } => {
            BlockLayout::uniform(n, blocks)
        }
        _ => BlockLayout::Even { total: n, blocks },
    })
}

/// The time of a schedule on ranks with one port, each message for alpha + n beta.
pub(crate) fn walked(schedule: &dyn Schedule, n: usize, params: &CostParams) -> f64 {
    let (profile, network) = (Profile::from(*params), Network::flat(schedule.ranks()));
    let costs = MessageCosts::on_network(&profile, &network);
    walk::time(schedule, &layouts(schedule, n), 1.0, &costs, usize::MAX).expect("there is no limit")
}

/// The counted cost terms of a schedule.
pub(crate) fn counted(schedule: &dyn Schedule, n: usize, network: &Network) -> CostTerms {
    let layouts = layouts(schedule, n);
    congestion::count_terms(schedule, &|_| layouts.clone(), network, 1.0)
}

/// Asserts equality up to a relative tolerance.
pub(crate) fn near(id: &str, got: f64, expected: f64, share: f64) {
    assert!((got - expected).abs() <= share * expected.abs(), "{id}: {got} instead of {expected}");
}

/// Asserts equality up to an absolute tolerance.
pub(crate) fn within(id: &str, got: f64, expected: f64, amount: f64) {
    assert!((got - expected).abs() <= amount, "{id}: {got} instead of {expected}");
}
