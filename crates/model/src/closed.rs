//! What algorithms cost, as formulas of the number of ranks or the network's sides, and of the bytes.
//!
//! Algorithms are named by the ids of the registry of `treepie-collectives`, with their arguments. A formula takes less
//! than about 2 us, with a logarithmic number of steps at most where stages differ (grids that factorise the number of
//! ranks excepted), so a choice at run time can try all. Where nobody has a formula there is none: [`terms`] gives
//! nothing.
//!
//! n is what one rank contributes or gets (allgather, reduce_scatter, scatter, gather), the whole vector (bcast,
//! reduce, allreduce, scan), or all blocks of a rank (alltoall). Formulas are exact if blocks divide evenly, in one of
//! two senses. Those of stages, buckets and messages to all equal what is counted from the schedules: start-ups of the
//! busiest rank, and the load of the busiest link, round by round. Those of trees equal the time of the schedule where
//! a rank sends one message at a time and receives one at a time, each for alpha + n beta.
//!
//! What a simulator that follows each message finds can differ from both:
//!
//! - It takes less where start-ups go on behind the bytes of other messages: several buckets, flat trees, and on flat
//!   networks `linear` and `direct`. The formulas add both, and are upper bounds there.
//! - It takes some percent more for `linear` and `direct` on a Clos network, whose links are not all busy to the end.
//! - It takes up to half more, or a quarter less, where P is no power of two and ranks play two or hand over first
//!   (`distance_doubling`, `distance_halving`, `recursive_doubling` and what is made of them): ranks do not keep step,
//!   and messages of different rounds share the links of a rank.
//! - On a torus or mesh there are no formulas where neither sense is the time: down binomial trees (`bcast`, `scatter`,
//!   `gather_bcast`), whose ranks serve their children at once, over links that those share; and for messages to all
//!   (`linear`, `direct`), which do not fill all links all the time. The load of the busiest link, as it can be
//!   counted, can be as little as half of the time there.
//!
//! Not exact in either sense:
//!
//! - With the order `moved`, the exchange of blocks is charged by the bisection's bandwidth, as the thesis does; routed
//!   in dimension order it takes longer.
//! - Copies in memory cost nothing.
//! - The scatter of `scatter_allgather`, and the gather of its opposite, are charged without congestion.
//! - Reductions up a tree combine in every step. Where ranks play two (P no power of two), what they combine is a
//!   bound.

mod arguments;
mod buckets;
mod cores;
mod exchanges;
mod folded;
mod place;
mod trees;

use treepie_schedule::Operation;
use treepie_topology::Network;

use crate::{Prices, Terms};
use arguments::Arguments;
use place::Place;

pub use cores::{bucket_alignment, charge};

/// What is asked for.
struct Case<'a> {
    name: &'a str,
    arguments: Arguments<'a>,
    operation: Operation,
    place: Place<'a>,
    ranks: u32,
    bytes: f64,
}

impl Case<'_> {
    /// P.
    fn p(&self) -> f64 {
        f64::from(self.ranks)
    }

    /// ceil(lg P).
    fn lg(&self) -> f64 {
        ceil_lg(self.ranks)
    }
}

fn ceil_lg(number: u32) -> f64 {
    f64::from(number.next_power_of_two().trailing_zeros())
}

/// How many start-ups, bytes and combined bytes an algorithm has, if there is a formula for it on that network.
pub fn terms(id: &str, operation: Operation, network: &Network, bytes: f64) -> Option<Terms> {
    let (algorithm, arguments) = id.split_once(':').unwrap_or((id, ""));
    let (of, name) = algorithm.split_once('/')?;
    if of != operation.name() || network.ranks() == 0 {
        return None;
    }
    let (place, ranks) = (Place::of(network), network.ranks());
    let arguments = Arguments::parse(arguments)?;
    let case = Case { name, arguments, operation, place, ranks, bytes };
    if ranks == 1 {
        return Some(Terms::new(0.0, 0.0));
    }
    exchanges::terms(&case).or_else(|| trees::terms(&case)).or_else(|| cores::terms(&case))
}

/// How long an algorithm takes in microseconds, if there is a formula for it on that network.
pub fn time(id: &str, operation: Operation, network: &Network, bytes: f64, prices: &Prices) -> Option<f64> {
    Some(prices.time(&terms(id, operation, network, bytes)?, network))
}
