//! What the tests share: schedules by their ids, what is counted of them, and a machine on which ranks have one port.

#![allow(dead_code, reason = "each test program uses a part of it")]

pub(crate) mod one_port;

use treepie_collectives::registry::{Request, build};
use treepie_model::{Terms, congestion};
use treepie_schedule::{Layout, Layouts, Operation, Schedule};
use treepie_topology::Network;

/// An operation by its name, with a root.
pub(crate) fn operation(id: &str, root: u32) -> Operation {
    Operation::named(id.split('/').next().unwrap_or_default(), root)
        .unwrap_or_else(|| panic!("no operation is called {id}"))
}

/// A network by its text.
pub(crate) fn network(text: &str) -> Network {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The schedule of an id, if it applies there.
pub(crate) fn schedule(id: &str, operation: Operation, network: &Network) -> Option<Box<dyn Schedule>> {
    build(id, &Request::new(operation, network)).ok()
}

/// The layout in which a rank contributes n bytes, or all have a vector of n.
pub(crate) fn layouts(schedule: &dyn Schedule, n: usize) -> Layouts {
    let blocks = schedule.blocks();
    Layouts::both(match schedule.operation() {
        Operation::Allgather | Operation::ReduceScatter | Operation::Scatter { .. } | Operation::Gather { .. } => {
            Layout::uniform(n, blocks)
        }
        _ => Layout::Even { total: n, blocks },
    })
}

/// What is counted of it.
pub(crate) fn counted(schedule: &dyn Schedule, n: usize, network: &Network) -> Terms {
    let layouts = layouts(schedule, n);
    congestion::terms(schedule, &|_| layouts.clone(), network, 1.0)
}

/// A share that may differ.
pub(crate) fn near(id: &str, got: f64, expected: f64, share: f64) {
    assert!((got - expected).abs() <= share * expected.abs(), "{id}: {got} instead of {expected}");
}

/// An amount that may differ.
pub(crate) fn within(id: &str, got: f64, expected: f64, amount: f64) {
    assert!((got - expected).abs() <= amount, "{id}: {got} instead of {expected}");
}
