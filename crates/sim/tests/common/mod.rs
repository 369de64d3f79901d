//! What the tests share.

#![allow(dead_code, reason = "each test program uses a part of it")]

use treepie_collectives::registry::{self, Request};
use treepie_schedule::{Layout, Layouts, Operation, Schedule};
use treepie_sim::costs::{Clusters, Links, LogGP, PLogP, Wide};
use treepie_sim::{Piece, Played, Settings, Sizes, play};
use treepie_topology::Network;

/// Whether the full range is asked for.
pub(crate) fn long() -> bool {
    std::env::var_os("TREEPIE_LONG").is_some_and(|value| !value.is_empty() && value != "0")
}

pub(crate) fn network(text: &str) -> Network {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The operation that an id is for.
pub(crate) fn operation(id: &str, root: u32) -> Operation {
    Operation::named(id.split('/').next().unwrap_or_default(), root)
        .unwrap_or_else(|| panic!("no operation is called {id}"))
}

pub(crate) fn build(id: &str, network: &Network) -> Box<dyn Schedule> {
    registry::build(id, &Request::new(operation(id, 0), network)).unwrap_or_else(|refusal| panic!("{id}: {refusal}"))
}

/// Blocks of `each` bytes.
pub(crate) fn uniform(schedule: &dyn Schedule, each: usize) -> Sizes {
    Sizes::Shared(Layouts::both(Layout::uniform(each, schedule.blocks())))
}

/// Plays an algorithm with blocks of `each` bytes.
pub(crate) fn play_id(id: &str, network: &Network, settings: &Settings, each: usize) -> Played {
    let schedule = build(id, network);
    let sizes = uniform(&*schedule, each);
    let piece = Piece { schedule: &*schedule, sizes: &sizes, element: 1 };
    play(piece, network, settings).unwrap_or_else(|error| panic!("{id} on {network}: {error}"))
}

/// Intrepid's.
pub(crate) fn loggp() -> Settings {
    LogGP { latency: 4.29, overhead: 2.87, gap: 2.04, per_byte: 0.00267 }.into()
}

/// Whole picoseconds, so that nothing is rounded.
pub(crate) fn links() -> Settings {
    Links::new(6.25, 0.0025).into()
}

/// The wide-area simulation of the P-LogP paper: 10 ms and 1 MB/s between clusters, 20 us and 50 MB/s within.
pub(crate) fn wide_area(clusters: u32) -> Settings {
    let wide = Wide { latency: 10_000.0, bandwidth: 1.0 };
    Clusters::uniform(PLogP::simple(20.0, 50.0), wide, clusters).into()
}
