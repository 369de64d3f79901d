//! Allgather cores, and the operations composed of them.   [thesis 3.2 to 3.6]

use treepie_schedule::Operation;
use treepie_topology::Torus;

use super::buckets::BucketRings;
use super::folded::{folded_doubling, folded_halving};
use super::formula_input::FormulaInput;
use super::network_shape::{NetworkShape, line_congestion};
use super::trees;
use crate::CostTerms;

pub(super) fn terms(input: &FormulaInput<'_>) -> Option<CostTerms> {
    let (p, n, shuffled) = (input.p(), input.bytes, input.arguments.shuffled);
    let share = n / p;
    match (input.operation, input.name) {
        (Operation::Allgather, name) if name != "direct" => allgather_core(input, name, n, shuffled),
        (Operation::ReduceScatter, name) if name != "direct" => {
            Some(allgather_core(input, name, n, shuffled)?.with_gamma(combined_bytes(input, name, n)?))
        }
        (Operation::Allreduce, name) => {
            let name = match name {
                "rabenseifner" => "distance_halving",
                "distance_halving" => return None,
                name => name,
            };
            // Reduce-scatter and allgather together need no shuffle.
            Some(allgather_core(input, name, share, false)?.times(2.0).with_gamma(combined_bytes(input, name, share)?))
        }
        (Operation::Bcast { .. }, "scatter_allgather") => {
            Some(trees::binomial_blocks(input, share).then(allgather_core(input, input.arguments.core, share, false)?))
        }
        (Operation::Reduce { .. }, "reduce_scatter_gather") => {
            let reduced = allgather_core(input, input.arguments.core, share, false)?;
            let combined = combined_bytes(input, input.arguments.core, share)?;
            Some(reduced.then(trees::binomial_blocks(input, share)).with_gamma(combined))
        }
        _ => None,
    }
}

/// Bytes that a rank combines when a core runs backwards: all blocks but one. A rank that acts as two virtual ranks
/// combines for both, at most all it receives.
fn combined_bytes(input: &FormulaInput<'_>, name: &str, n: f64) -> Option<f64> {
    match input.network_shape {
        NetworkShape::Flat if !input.ranks.is_power_of_two() => Some(allgather_core(input, name, n, false)?.delta),
        _ => Some((input.p() - 1.0) * n),
    }
}

/// An allgather of n from each rank by a core.
fn allgather_core(input: &FormulaInput<'_>, name: &str, n: f64, shuffled: bool) -> Option<CostTerms> {
    let (shape, p) = (input.network_shape, input.p());
    // Cost of shuffling the blocks, in `messages` messages of a rank.
    let shuffle = |messages: f64| match shuffled {
        // With at most three ranks all orders are the same.
        true if input.ranks > 3 => CostTerms::new(messages, bisection_factor_of(shape) * n),
        _ => CostTerms::default(),
    };
    match (name, shape) {
        ("direct", _) => Some(CostTerms::new(p - 1.0, shape.alltoall_congestion(input.ranks)? * n).with_steps(1.0)),
        (_, NetworkShape::Other) => None,
        ("ring", _) => Some(CostTerms::new(p - 1.0, (p - 1.0) * n)),
        ("bruck", NetworkShape::Flat) => Some(CostTerms::new(input.lg(), (p - 1.0) * n)),
        ("bruck", NetworkShape::Clos { terminals, mu }) => Some(bruck_on_clos(input.ranks, terminals, mu, n)),
        ("distance_doubling", NetworkShape::Flat) if !input.ranks.is_power_of_two() => {
            Some(folded_doubling(input.ranks, n))
        }
        ("distance_doubling", _) => stages(input, (0..input.ranks.ilog2()).map(|bit| shape.congestion(bit)), n),
        ("distance_halving" | "hamiltonian" | "hamiltonian_lanes", NetworkShape::Flat)
            if !input.ranks.is_power_of_two() =>
        {
            Some(shuffle(1.0).then(folded_halving(input.ranks, n)))
        }
        ("distance_halving", _)
        | ("hamiltonian" | "hamiltonian_lanes", NetworkShape::Flat | NetworkShape::Clos { .. }) => {
            let bits = (0..input.ranks.ilog2()).rev().map(|bit| shape.congestion(bit));
            Some(shuffle(1.0).then(stages(input, bits, n)?))
        }
        ("torus_reordered", NetworkShape::Grid(torus)) => {
            let far_first =
                farthest_bits_first(torus).map(|(bit, dim)| line_congestion(torus.dims()[dim], torus.wraps(dim), bit));
            Some(shuffle(1.0).then(stages(input, far_first, n)?))
        }
        ("alternating", NetworkShape::Grid(torus)) => {
            Some(shuffle(1.0).then(stages(input, alternating_congestion(torus), n)?))
        }
        ("bucket", NetworkShape::Grid(torus)) => {
            let alpha = torus.dims().iter().map(|size| f64::from(size - 1)).sum();
            Some(CostTerms::new(alpha, (p - 1.0) * n))
        }
        ("bucket_k", NetworkShape::Grid(torus)) => {
            let rings = BucketRings::new(torus);
            let directions = rings.directions(input.arguments.buckets);
            let buckets = directions.iter().sum::<u32>();
            let core = rings.terms(&directions[..rings.count], n);
            // A single bucket needs no shuffle: its dimension order is that of ranks.
            let shuffle = if buckets > 1 { shuffle(buckets.into()) } else { CostTerms::default() };
            Some(CostTerms { ports: buckets, ..shuffle.then(core) })
        }
        ("hybrid", NetworkShape::Grid(torus)) => {
            let &[side, y, z] = torus.dims() else { return None };
            let wraps = (0..3).all(|dim| torus.wraps(dim));
            if side != y || side != z || !wraps || !side.is_power_of_two() || side < 4 {
                return None;
            }
            let edge = f64::from(side);
            let alpha = 2.0 * p.log2() + 6.0 * (edge - 1.0);
            let core = CostTerms::new(alpha, (p / 6.0 + edge * edge / 3.0 - 3.0 * edge / 4.0) * n)
                .with_steps(p.log2() + 3.0 * (edge - 1.0));
            Some(CostTerms { ports: 6, ..shuffle(3.0).then(core) })
        }
        _ => None,
    }
}

/// Stages whose messages double from n on, with the congestion of each.
fn stages(input: &FormulaInput<'_>, congestion: impl Iterator<Item = f64>, n: f64) -> Option<CostTerms> {
    if !input.network_shape.has_bit_exchanges(input.ranks) {
        return None;
    }
    let mut size = n;
    Some(congestion.fold(CostTerms::new(0.0, 0.0), |all, congestion| {
        let stage = CostTerms::new(1.0, size * congestion);
        size *= 2.0;
        all.then(stage)
    }))
}

/// The bits of all coordinates, the farthest first, and among those the last dimension first.
fn farthest_bits_first(torus: &Torus) -> impl Iterator<Item = (u32, usize)> {
    let dims = torus.dims();
    let with_bit =
        move |bit: u32| (0..dims.len()).rev().filter(move |dim| dims[*dim] >> bit > 1).map(move |dim| (bit, dim));
    (0..u32::BITS - 1).rev().flat_map(with_bit)
}

/// Half of the ranks use another dimension in each stage, so the messages that share a link are half of the hops. Over
/// half a ring all of those take the same direction, which is as many. Neighbors exchange all at once, as do all ranks
/// where no other dimension is as long.
pub(super) fn alternating_congestion(torus: &Torus) -> impl Iterator<Item = f64> {
    let dims = torus.dims();
    farthest_bits_first(torus).map(move |(bit, dim)| {
        let others = (0..dims.len()).any(|other| other != dim && dims[other] >> bit > 1);
        if bit > 0 && others { f64::from(1 << bit) / 2.0 } else { line_congestion(dims[dim], torus.wraps(dim), bit) }
    })
}

/// Bruck: each rank sends to the one 2^k before it. Of a leaf that many messages leave, or all, or fewer that wrap
/// around.
fn bruck_on_clos(ranks: u32, terminals: u32, mu: f64, n: f64) -> CostTerms {
    let (mut all, mut have) = (CostTerms::new(0.0, 0.0), 1);
    while have < ranks {
        let size = f64::from(have.min(ranks - have)) * n;
        // Relative to the leaf's mu T uplinks.
        let leaving = f64::from(have.min(ranks - have).min(terminals)) / (mu * f64::from(terminals));
        all = all.then(CostTerms::new(1.0, size * leaving.max(1.0)));
        have *= 2;
    }
    all
}

/// Bytes charged for a permutation of blocks among all ranks, in blocks: half of them cross the middle of the longest
/// dimension, over two links for each line of a torus and one of a mesh; 1/mu of a Clos network; 1 where nothing is
/// known.   [thesis 3.4.1, 3.3.1]
pub fn bisection_factor(network: &treepie_topology::Network) -> f64 {
    bisection_factor_of(NetworkShape::from_network(network))
}

fn bisection_factor_of(shape: NetworkShape<'_>) -> f64 {
    match shape {
        NetworkShape::Flat | NetworkShape::Other => 1.0,
        NetworkShape::Clos { mu, .. } => 1.0 / mu,
        NetworkShape::Grid(torus) => {
            let of = |dim: usize| f64::from(torus.dims()[dim]) / if torus.wraps(dim) { 4.0 } else { 2.0 };
            (0..torus.dims().len()).map(of).fold(1.0, f64::max)
        }
    }
}

/// Extra cost of the thesis's six buckets over ours with shuffled blocks: it first redistributes bytes so that six
/// divides them, in three messages charged like the shuffle. Here blocks are cut between elements instead.   [thesis
/// 3.5.6]
pub fn bucket_alignment(network: &treepie_topology::Network, bytes: f64) -> CostTerms {
    CostTerms::new(3.0, bisection_factor(network) * bytes)
}
