//! Allgather cores, and the operations that are made of them.   [thesis 3.2 to 3.6]

use treepie_schedule::Operation;
use treepie_topology::Torus;

use super::buckets::Rings;
use super::folded::{folded_doubling, folded_halving};
use super::place::{Place, along};
use super::{Case, trees};
use crate::Terms;

pub(super) fn terms(case: &Case<'_>) -> Option<Terms> {
    let (p, n, moved) = (case.p(), case.bytes, case.arguments.moved);
    let share = n / p;
    match (case.operation, case.name) {
        (Operation::Allgather, name) if name != "direct" => core(case, name, n, moved),
        (Operation::ReduceScatter, name) if name != "direct" => {
            Some(core(case, name, n, moved)?.combining(combined(case, name, n)?))
        }
        (Operation::Allreduce, name) => {
            let name = match name {
                "rabenseifner" => "distance_halving",
                "distance_halving" => return None,
                name => name,
            };
            // Forwards and backwards blocks are moved nowhere.
            Some(core(case, name, share, false)?.times(2.0).combining(combined(case, name, share)?))
        }
        (Operation::Bcast { .. }, "scatter_allgather") => {
            Some(trees::binomial_blocks(case, share).then(core(case, case.arguments.core, share, false)?))
        }
        (Operation::Reduce { .. }, "reduce_scatter_gather") => {
            let reduced = core(case, case.arguments.core, share, false)?;
            let combined = combined(case, case.arguments.core, share)?;
            Some(reduced.then(trees::binomial_blocks(case, share)).combining(combined))
        }
        _ => None,
    }
}

/// What a rank combines when a core runs backwards: all blocks but one. Ranks that play two combine for both, at most
/// what comes to them.
fn combined(case: &Case<'_>, name: &str, n: f64) -> Option<f64> {
    match case.place {
        Place::Flat if !case.ranks.is_power_of_two() => Some(core(case, name, n, false)?.delta),
        _ => Some((case.p() - 1.0) * n),
    }
}

/// An allgather of n from each rank by a core.
fn core(case: &Case<'_>, name: &str, n: f64, moved: bool) -> Option<Terms> {
    let (place, p) = (case.place, case.p());
    // Messages of a rank that move its blocks.
    let moves = |messages: f64| match moved {
        // With three ranks or less all orders are the same.
        true if case.ranks > 3 => Terms::new(messages, charge_of(place) * n),
        _ => Terms::default(),
    };
    match (name, place) {
        ("direct", _) => Some(Terms::new(p - 1.0, place.all_to_all(case.ranks)? * n)),
        (_, Place::Other) => None,
        ("ring", _) => Some(Terms::new(p - 1.0, (p - 1.0) * n)),
        ("bruck", Place::Flat) => Some(Terms::new(case.lg(), (p - 1.0) * n)),
        ("bruck", Place::Clos { terminals, mu }) => Some(bruck_on_clos(case.ranks, terminals, mu, n)),
        ("distance_doubling", Place::Flat) if !case.ranks.is_power_of_two() => Some(folded_doubling(case.ranks, n)),
        ("distance_doubling", _) => stages(case, (0..case.ranks.ilog2()).map(|bit| place.congestion(bit)), n),
        ("distance_halving" | "hamiltonian" | "hamiltonian_lanes", Place::Flat) if !case.ranks.is_power_of_two() => {
            Some(moves(1.0).then(folded_halving(case.ranks, n)))
        }
        ("distance_halving", _) | ("hamiltonian" | "hamiltonian_lanes", Place::Flat | Place::Clos { .. }) => {
            let bits = (0..case.ranks.ilog2()).rev().map(|bit| place.congestion(bit));
            Some(moves(1.0).then(stages(case, bits, n)?))
        }
        ("torus_reordered", Place::Grid(torus)) => {
            let far_first = far_bits(torus).map(|(bit, dim)| along(torus.dims()[dim], torus.wraps(dim), bit));
            Some(moves(1.0).then(stages(case, far_first, n)?))
        }
        ("alternating", Place::Grid(torus)) => Some(moves(1.0).then(stages(case, alternating(torus), n)?)),
        ("bucket", Place::Grid(torus)) => {
            let alpha = torus.dims().iter().map(|size| f64::from(size - 1)).sum();
            Some(Terms::new(alpha, (p - 1.0) * n))
        }
        ("bucket_k", Place::Grid(torus)) => {
            let rings = Rings::new(torus);
            let directions = rings.directions(case.arguments.buckets);
            let buckets = directions.iter().sum::<u32>();
            let core = rings.terms(&directions[..rings.count], n);
            // One bucket alone goes round the dimensions in the order of ranks.
            let moves = if buckets > 1 { moves(buckets.into()) } else { Terms::default() };
            Some(Terms { ports: buckets, ..moves.then(core) })
        }
        ("hybrid", Place::Grid(torus)) => {
            let &[side, y, z] = torus.dims() else { return None };
            let wraps = (0..3).all(|dim| torus.wraps(dim));
            if side != y || side != z || !wraps || !side.is_power_of_two() || side < 4 {
                return None;
            }
            let edge = f64::from(side);
            let alpha = 2.0 * p.log2() + 6.0 * (edge - 1.0);
            let core = Terms::new(alpha, (p / 6.0 + edge * edge / 3.0 - 3.0 * edge / 4.0) * n);
            Some(Terms { ports: 6, ..moves(3.0).then(core) })
        }
        _ => None,
    }
}

/// Stages in which messages double from n on, with so many of them sharing a link.
fn stages(case: &Case<'_>, congestion: impl Iterator<Item = f64>, n: f64) -> Option<Terms> {
    if !case.place.has_bits(case.ranks) {
        return None;
    }
    let mut size = n;
    Some(congestion.fold(Terms::new(0.0, 0.0), |all, congestion| {
        let stage = Terms::new(1.0, size * congestion);
        size *= 2.0;
        all.then(stage)
    }))
}

/// The bits of all coordinates, the farthest first and of those the last dimension first.
fn far_bits(torus: &Torus) -> impl Iterator<Item = (u32, usize)> {
    let dims = torus.dims();
    let with_bit =
        move |bit: u32| (0..dims.len()).rev().filter(move |dim| dims[*dim] >> bit > 1).map(move |dim| (bit, dim));
    (0..u32::BITS - 1).rev().flat_map(with_bit)
}

/// Half of the ranks go another dimension in each stage, so a link is shared by half as many as it is hops; over half a
/// ring all of those go the same way round, which is as many. Neighbours exchange all at once, as do all where no other
/// dimension is as long.
pub(super) fn alternating(torus: &Torus) -> impl Iterator<Item = f64> {
    let dims = torus.dims();
    far_bits(torus).map(move |(bit, dim)| {
        let others = (0..dims.len()).any(|other| other != dim && dims[other] >> bit > 1);
        if bit > 0 && others { f64::from(1 << bit) / 2.0 } else { along(dims[dim], torus.wraps(dim), bit) }
    })
}

/// Each rank sends to the one 2^k before it: of a leaf, that many leave it, or all, or fewer that go round the other
/// way.
fn bruck_on_clos(ranks: u32, terminals: u32, mu: f64, n: f64) -> Terms {
    let (mut all, mut have) = (Terms::new(0.0, 0.0), 1);
    while have < ranks {
        let size = f64::from(have.min(ranks - have)) * n;
        // Of the bundle's mu T links.
        let leaving = f64::from(have.min(ranks - have).min(terminals)) / (mu * f64::from(terminals));
        all = all.then(Terms::new(1.0, size * leaving.max(1.0)));
        have *= 2;
    }
    all
}

/// By what an exchange of blocks among all ranks is charged, in blocks: half of them cross the middle of the longest
/// dimension, over two links for each line of a torus and one of a mesh; 1/mu of a Clos network; 1 where nothing is
/// known.
/// [thesis 3.4.1, 3.3.1]
pub fn charge(network: &treepie_topology::Network) -> f64 {
    charge_of(Place::of(network))
}

fn charge_of(place: Place<'_>) -> f64 {
    match place {
        Place::Flat | Place::Other => 1.0,
        Place::Clos { mu, .. } => 1.0 / mu,
        Place::Grid(torus) => {
            let of = |dim: usize| f64::from(torus.dims()[dim]) / if torus.wraps(dim) { 4.0 } else { 2.0 };
            (0..torus.dims().len()).map(of).fold(1.0, f64::max)
        }
    }
}

/// What the thesis's six buckets cost more than ours with moved blocks: bytes are dealt out first so that six divides
/// them, in three messages charged like the exchange after it. Here blocks are cut between elements instead.
/// [thesis 3.5.6]
pub fn bucket_alignment(network: &treepie_topology::Network, bytes: f64) -> Terms {
    Terms::new(3.0, charge(network) * bytes)
}
