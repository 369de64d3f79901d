//! Algorithms that are made of neither a core nor a tree: exchanges, all-to-alls, scans, barriers.   [thesis 3.2]

use treepie_schedule::Operation;

use super::cores::alternating;
use super::folded::folded_partners;
use super::place::Place;
use super::{Case, ceil_lg};
use crate::Terms;
use crate::randomaccess::{grid_messages, grid_volume};

pub(super) fn terms(case: &Case<'_>) -> Option<Terms> {
    let (p, n) = (case.p(), case.bytes);
    match (case.operation, case.name) {
        (Operation::Allgather, "linear") => all_at_once(case, n),
        (Operation::ReduceScatter, "linear") => Some(all_at_once(case, n)?.combining((p - 1.0) * n)),
        (Operation::ReduceScatter, "pairwise") if case.place.is_flat() => {
            Some(Terms::new(p - 1.0, (p - 1.0) * n).combining((p - 1.0) * n))
        }
        (Operation::Allreduce, "linear") => Some(all_at_once(case, n)?.combining((p - 1.0) * n)),
        (Operation::Allreduce, "recursive_doubling") => halving_exchange(case, 0),
        (Operation::Allreduce, "halving_exchange") => halving_exchange(case, case.arguments.halvings),
        (Operation::Allreduce, "alternating_exchange") => alternating_exchange(case),
        (Operation::Allreduce, "fan_in_fan_out") if case.place.is_flat() || case.place.has_bits(case.ranks) => {
            Some(Terms::new(2.0 * case.lg(), 2.0 * case.lg() * n).combining(case.lg() * n))
        }
        (Operation::Allreduce, "bucket_fan") => bucket_fan(case),
        (Operation::Alltoall, "linear") => all_at_once(case, n / p),
        (Operation::Alltoall, "pairwise") => pairwise(case),
        (Operation::Alltoall, "bruck") if case.place.is_flat() => {
            let blocks =
                (0..case.ranks.next_power_of_two().trailing_zeros()).map(|bit| with_bit(case.ranks, bit)).sum::<f64>();
            Some(Terms::new(case.lg(), blocks * n / p))
        }
        (Operation::Alltoall, "grid") if case.place.is_flat() => {
            Some(grid(&balanced_factors(case.ranks, case.arguments.dimensions), n))
        }
        (Operation::Alltoall, "hypercube") if case.place.is_flat() => Some(grid(&prime_factors(case.ranks), n)),
        (Operation::Scan | Operation::Exscan, "linear") if !matches!(case.place, Place::Other) => {
            let segments = f64::from(case.arguments.segments);
            let steps = p - 2.0 + segments;
            Some(Terms::new(steps, steps * n / segments).combining(steps * n / segments))
        }
        (Operation::Scan | Operation::Exscan, "recursive_doubling") if case.place.is_flat() => {
            Some(Terms::new(case.lg(), case.lg() * n).combining(case.lg() * n))
        }
        (Operation::Barrier, "dissemination") => Some(Terms::new(case.lg(), 0.0)),
        (Operation::Barrier, "torus") => {
            let Place::Grid(_) = case.place else { return None };
            Some(Terms::new(case.place.steps(), 0.0))
        }
        (Operation::Barrier, "recursive_doubling") => Some(Terms::new(folded_partners(case.ranks), 0.0)),
        _ => None,
    }
}

/// A message of n from each rank to each other.
fn all_at_once(case: &Case<'_>, n: f64) -> Option<Terms> {
    Some(Terms::new(case.p() - 1.0, case.place.all_to_all(case.ranks)? * n))
}

/// The vector is halved some times, what is left is exchanged, and what was halved is put together again; the nearest
/// first. If P is no power of two, some give theirs to a neighbour before and get the result after.
fn halving_exchange(case: &Case<'_>, halvings: u32) -> Option<Terms> {
    let n = case.bytes;
    if !case.ranks.is_power_of_two() && !case.place.is_flat()
        || case.ranks.is_power_of_two() && !case.place.has_bits(case.ranks)
    {
        return None;
    }
    let stages = case.ranks.ilog2();
    let halvings = halvings.min(stages);
    let left = n / f64::from(1 << halvings);
    let mut all =
        if case.ranks.is_power_of_two() { Terms::new(0.0, 0.0) } else { Terms::new(2.0, 2.0 * n).combining(n) };
    for bit in 0..stages {
        let congestion = case.place.congestion(bit);
        all = all.then(match bit < halvings {
            true => {
                let half = n / f64::from(2 << bit);
                Terms::new(2.0, 2.0 * half * congestion).combining(half)
            }
            false => Terms::new(1.0, left * congestion).combining(left),
        });
    }
    Some(all)
}

/// The same with half of the ranks going another dimension in each stage.
fn alternating_exchange(case: &Case<'_>) -> Option<Terms> {
    let Place::Grid(torus) = case.place else { return None };
    if !case.place.has_bits(case.ranks) {
        return None;
    }
    let (n, stages) = (case.bytes, case.ranks.ilog2());
    let halvings = case.arguments.halvings.min(stages);
    let left = n / f64::from(1 << halvings);
    // From the farthest to the nearest; those that are halved are the nearest.
    let mut all = Terms::new(0.0, 0.0);
    for (stage, congestion) in (0..stages).zip(alternating(torus)) {
        let near = stages - 1 - stage;
        all = all.then(match near < halvings {
            true => {
                let half = n / f64::from(2 << near);
                Terms::new(2.0, 2.0 * half * congestion).combining(half)
            }
            false => Terms::new(1.0, left * congestion).combining(left),
        });
    }
    Some(all)
}

/// A ring along rows, a fan along columns.
fn bucket_fan(case: &Case<'_>) -> Option<Terms> {
    let columns = match case.place {
        Place::Flat => balanced_factors(case.ranks, 2)[0],
        Place::Grid(torus) if torus.dims()[1..].iter().all(|size| size.is_power_of_two()) => torus.dims()[0],
        _ => return None,
    };
    let (x, fan) = (f64::from(columns), ceil_lg(case.ranks / columns));
    let steps = 2.0 * (x - 1.0) + 2.0 * fan;
    Some(Terms::new(steps, steps * case.bytes / x).combining((x - 1.0 + fan) * case.bytes / x))
}

/// One partner after the other.
fn pairwise(case: &Case<'_>) -> Option<Terms> {
    let (p, share) = (case.p(), case.bytes / case.p());
    match case.place {
        Place::Flat => Some(Terms::new(p - 1.0, (p - 1.0) * share)),
        Place::Clos { terminals, mu } if case.place.has_bits(case.ranks) => {
            let within = f64::from(terminals);
            Some(Terms::new(p - 1.0, (within - 1.0 + (p - within) / mu) * share))
        }
        _ => None,
    }
}

/// How many numbers below P have this bit.
fn with_bit(ranks: u32, bit: u32) -> f64 {
    let half = 1 << bit;
    f64::from(ranks / (2 * half) * half + (ranks % (2 * half)).saturating_sub(half))
}

fn grid(sides: &[u32], n: f64) -> Terms {
    Terms::new(grid_messages(sides) as f64, grid_volume(sides) * n)
}

/// As many factors as there can be: their sum is the least.
fn prime_factors(number: u32) -> Vec<u32> {
    let (mut rest, mut factor, mut found) = (number, 2u32, Vec::new());
    while factor.saturating_mul(factor) <= rest {
        if rest.is_multiple_of(factor) {
            found.push(factor);
            rest /= factor;
        } else {
            factor += 1;
        }
    }
    found.push(rest);
    found
}

/// Up to so many factors in rising order whose sum is the least, and of those the fewest.
fn balanced_factors(number: u32, most: u32) -> Vec<u32> {
    fn messages(factors: &[u32]) -> u64 {
        grid_messages(factors)
    }
    fn search(rest: u32, most: u32, least: u32, found: &mut Vec<u32>, best: &mut Vec<u32>) {
        found.push(rest);
        if best.is_empty() || messages(found) < messages(best) {
            best.clone_from(found);
        }
        found.pop();
        if most <= 1 {
            return;
        }
        let mut factor = least;
        while factor.saturating_mul(factor) <= rest {
            if rest.is_multiple_of(factor) {
                found.push(factor);
                search(rest / factor, most - 1, factor, found, best);
                found.pop();
            }
            factor += 1;
        }
    }
    let mut best = Vec::new();
    search(number, most, 2, &mut Vec::new(), &mut best);
    best
}
