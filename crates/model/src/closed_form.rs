//! Closed forms: the cost of algorithms as formulas of the number of ranks or the network's sides, and of the bytes.
//!
//! Algorithms are named by the ids of the registry of `treepie-collectives`, with their arguments. A formula takes less
//! than about 2 us, with at most a logarithmic number of steps where stages differ (except grids that factorise the
//! number of ranks), so selection at run time can try all. Where no formula is known, [`terms`] returns none.
//!
//! n is what one rank contributes or gets (allgather, reduce_scatter, scatter, gather), the whole vector (bcast,
//! reduce, allreduce, scan), or all blocks of a rank (alltoall). Formulas are exact if blocks divide evenly, in one of
//! two senses. Those of stages, buckets and all-to-all messages equal the counts of the schedules: start-ups of the
//! busiest rank, and the load of the busiest link, round by round. Those of trees equal the time of the schedule where
//! a rank sends one message at a time and receives one at a time, each for alpha + n beta.
//!
//! The event simulator can differ from both:
//!
//! - It takes less where start-ups overlap the bytes of other messages: several buckets, flat trees, and on flat
//!   networks `linear` and `direct`. The formulas add both, and are upper bounds there.
//! - It takes some percent more for `linear` and `direct` on a Clos network, whose links are not all busy to the end.
//! - It takes up to half more, or a quarter less, where P is no power of two and ranks act as two virtual ranks or hand
//!   over first (`distance_doubling`, `distance_halving`, `recursive_doubling` and what is made of them): ranks do not
//!   stay in step, and messages of different rounds share the links of a rank.
//! - On a torus or mesh there are no formulas down binomial trees (`bcast`, `scatter`, `gather_bcast`), whose ranks serve
//!   their children at once over links that these share. All-to-all messages (`linear`, `direct`) do not fill all links
//!   all the time there: the load of the busiest link can be as little as half of the time.
//!
//! Not exact in either sense:
//!
//! - With the order `moved`, the exchange of blocks is charged by bisection bandwidth, as the thesis does; with
//!   dimension-order routing it takes longer.
//! - Copies in memory are free.
//! - The scatter of `scatter_allgather`, and the gather of its opposite, are charged without congestion.
//! - Reductions up a tree combine in every step. Where ranks act as two virtual ranks (P no power of two), their
//!   combined bytes are a bound.

mod arguments;
mod buckets;
mod cores;
mod exchanges;
mod folded;
mod formula_input;
mod group_tree;
mod hierarchical;
mod network_shape;
mod tree_layer;
mod trees;
mod wide_area;

use treepie_schedule::Operation;
use treepie_topology::Network;

use crate::{CostParams, CostTerms};
use formula_input::FormulaInput;
use network_shape::NetworkShape;

pub use arguments::Arguments;
pub use cores::{bisection_factor, bucket_alignment};
pub use hierarchical::estimate_on_clusters;
pub use tree_layer::TreeLayer;
pub use wide_area::time_on_clusters;

/// Start-ups, bytes and combined bytes of an algorithm, if there is a formula for it on that network.
pub fn terms(id: &str, operation: Operation, network: &Network, bytes: f64) -> Option<CostTerms> {
    let (algorithm, arguments) = id.split_once(':').unwrap_or((id, ""));
    let (of, name) = algorithm.split_once('/')?;
    if of != operation.name() || network.ranks() == 0 {
        return None;
    }
    terms_with(name, Arguments::parse(arguments)?, operation, network, bytes)
}

/// The same for an algorithm by its name, without the operation, and its arguments.
pub fn terms_with(
    name: &str,
    arguments: Arguments<'_>,
    operation: Operation,
    network: &Network,
    bytes: f64,
) -> Option<CostTerms> {
    let (network_shape, ranks) = (NetworkShape::from_network(network), network.ranks());
    let input = FormulaInput { name, arguments, operation, network_shape, ranks, bytes };
    if ranks == 1 {
        return Some(CostTerms::new(0.0, 0.0));
    }
    // In formulas all links between groups are alike.
    if matches!(arguments.wan, TreeLayer::Links(_)) {
        return None;
    }
    exchanges::terms(&input).or_else(|| trees::terms(&input)).or_else(|| cores::terms(&input))
}

/// Time of an algorithm in microseconds, if there is a formula for it on that network.
pub fn time(id: &str, operation: Operation, network: &Network, bytes: f64, params: &CostParams) -> Option<f64> {
    Some(params.time(&terms(id, operation, network, bytes)?, network))
}
