//! Algorithms without a core or a tree: exchanges, all-to-alls, scans, barriers.   [thesis 3.2]

use treepie_schedule::Operation;

use super::cores::alternating_congestion;
use super::folded::max_folded_messages;
use super::formula_input::FormulaInput;
use super::network_shape::{NetworkShape, ceil_lg};
use crate::CostTerms;
use crate::randomaccess::{grid_messages, grid_volume};

pub(super) fn terms(input: &FormulaInput<'_>) -> Option<CostTerms> {
    let (p, n) = (input.p(), input.bytes);
    match (input.operation, input.name) {
        (Operation::Allgather, "linear") => linear_exchange(input, n),
        (Operation::ReduceScatter, "linear") => Some(linear_exchange(input, n)?.with_gamma((p - 1.0) * n)),
        (Operation::ReduceScatter, "pairwise") if input.network_shape.is_flat() => {
            Some(CostTerms::new(p - 1.0, (p - 1.0) * n).with_gamma((p - 1.0) * n))
        }
        (Operation::Allreduce, "linear") => Some(linear_exchange(input, n)?.with_gamma((p - 1.0) * n)),
        (Operation::Allreduce, "recursive_doubling") => halving_exchange(input, 0),
        (Operation::Allreduce, "halving_exchange") => halving_exchange(input, input.arguments.halvings),
        (Operation::Allreduce, "alternating_exchange") => alternating_exchange(input),
        (Operation::Allreduce, "fan_in_fan_out")
            if input.network_shape.is_flat() || input.network_shape.has_bit_exchanges(input.ranks) =>
        {
            let steps = f64::from(2 * input.ranks.ilog2());
            Some(CostTerms::new(2.0 * input.lg(), 2.0 * input.lg() * n).with_steps(steps).with_gamma(input.lg() * n))
        }
        (Operation::Allreduce, "bucket_fan") => bucket_fan(input),
        (Operation::Alltoall, "linear") => linear_exchange(input, n / p),
        (Operation::Alltoall, "pairwise") => pairwise(input),
        (Operation::Alltoall, "bruck") if input.network_shape.is_flat() => {
            let blocks = (0..input.ranks.next_power_of_two().trailing_zeros())
                .map(|bit| count_with_bit(input.ranks, bit))
                .sum::<f64>();
            Some(CostTerms::new(input.lg(), blocks * n / p))
        }
        (Operation::Alltoall, "grid") if input.network_shape.is_flat() => {
            Some(grid(&balanced_factors(input.ranks, input.arguments.dimensions), n))
        }
        (Operation::Alltoall, "hypercube") if input.network_shape.is_flat() => {
            Some(grid(&prime_factors(input.ranks), n))
        }
        (Operation::Scan | Operation::Exscan, "linear") if !matches!(input.network_shape, NetworkShape::Other) => {
            let segments = f64::from(input.arguments.segments);
            let steps = p - 2.0 + segments;
            // The last rank of an exclusive scan combines nothing.
            let combining = match input.operation {
                Operation::Exscan if input.ranks == 2 => 0.0,
                Operation::Exscan => steps - 1.0,
                _ => steps,
            };
            Some(CostTerms::new(steps, steps * n / segments).with_steps(p - 1.0).with_gamma(combining * n / segments))
        }
        (Operation::Scan | Operation::Exscan, "recursive_doubling") if input.network_shape.is_flat() => {
            Some(CostTerms::new(input.lg(), input.lg() * n).with_gamma(input.lg() * n))
        }
        (Operation::Barrier, "dissemination") => Some(CostTerms::new(input.lg(), 0.0)),
        (Operation::Barrier, "torus") => {
            let NetworkShape::Grid(_) = input.network_shape else { return None };
            Some(CostTerms::new(input.network_shape.tree_steps(), 0.0))
        }
        (Operation::Barrier, "recursive_doubling") => {
            Some(CostTerms::new(max_folded_messages(input.ranks), 0.0).with_steps(input.lg()))
        }
        _ => None,
    }
}

/// A message of n bytes from each rank to each other.
fn linear_exchange(input: &FormulaInput<'_>, n: f64) -> Option<CostTerms> {
    Some(CostTerms::new(input.p() - 1.0, input.network_shape.alltoall_congestion(input.ranks)? * n).with_steps(1.0))
}

/// The vector is halved `halvings` times, the rest is exchanged, and the halves are gathered again; the nearest partner
/// first. If P is no power of two, some ranks give their vector to a neighbor before and get the result after.
fn halving_exchange(input: &FormulaInput<'_>, halvings: u32) -> Option<CostTerms> {
    let n = input.bytes;
    if !input.ranks.is_power_of_two() && !input.network_shape.is_flat()
        || input.ranks.is_power_of_two() && !input.network_shape.has_bit_exchanges(input.ranks)
    {
        return None;
    }
    let stages = input.ranks.ilog2();
    let halvings = halvings.min(stages);
    let left = n / f64::from(1 << halvings);
    let mut all = if input.ranks.is_power_of_two() {
        CostTerms::new(0.0, 0.0)
    } else {
        // The first of these overlaps a stage unless most ranks hand over.
        let steps = if input.ranks <= 3 << (stages - 1) { 1.0 } else { 2.0 };
        CostTerms::new(2.0, 2.0 * n).with_steps(steps).with_gamma(n)
    };
    for bit in 0..stages {
        let congestion = input.network_shape.congestion(bit);
        all = all.then(match bit < halvings {
            true => {
                let half = n / f64::from(2 << bit);
                CostTerms::new(2.0, 2.0 * half * congestion).with_gamma(half)
            }
            false => CostTerms::new(1.0, left * congestion).with_gamma(left),
        });
    }
    Some(all)
}

/// As `halving_exchange`, with half of the ranks using another dimension in each stage.
fn alternating_exchange(input: &FormulaInput<'_>) -> Option<CostTerms> {
    let NetworkShape::Grid(torus) = input.network_shape else { return None };
    if !input.network_shape.has_bit_exchanges(input.ranks) {
        return None;
    }
    let (n, stages) = (input.bytes, input.ranks.ilog2());
    let halvings = input.arguments.halvings.min(stages);
    let left = n / f64::from(1 << halvings);
    // From the farthest to the nearest stage; the nearest stages halve.
    let mut all = CostTerms::new(0.0, 0.0);
    for (stage, congestion) in (0..stages).zip(alternating_congestion(torus)) {
        let near = stages - 1 - stage;
        all = all.then(match near < halvings {
            true => {
                let half = n / f64::from(2 << near);
                CostTerms::new(2.0, 2.0 * half * congestion).with_gamma(half)
            }
            false => CostTerms::new(1.0, left * congestion).with_gamma(left),
        });
    }
    Some(all)
}

/// A ring along rows, a fan-in and fan-out along columns.
fn bucket_fan(input: &FormulaInput<'_>) -> Option<CostTerms> {
    let columns = match input.network_shape {
        NetworkShape::Flat => balanced_factors(input.ranks, 2)[0],
        NetworkShape::Grid(torus) if torus.dims()[1..].iter().all(|size| size.is_power_of_two()) => torus.dims()[0],
        _ => return None,
    };
    let (x, fan) = (f64::from(columns), ceil_lg(input.ranks / columns));
    let steps = 2.0 * (x - 1.0) + 2.0 * fan;
    let latencies = 2.0 * (x - 1.0) + f64::from(2 * (input.ranks / columns).ilog2());
    let terms = CostTerms::new(steps, steps * input.bytes / x).with_steps(latencies);
    Some(terms.with_gamma((x - 1.0 + fan) * input.bytes / x))
}

/// Pairwise exchange: one partner after the other.
fn pairwise(input: &FormulaInput<'_>) -> Option<CostTerms> {
    let (p, share) = (input.p(), input.bytes / input.p());
    match input.network_shape {
        NetworkShape::Flat => Some(CostTerms::new(p - 1.0, (p - 1.0) * share)),
        NetworkShape::Clos { terminals, mu } if input.network_shape.has_bit_exchanges(input.ranks) => {
            let within = f64::from(terminals);
            Some(CostTerms::new(p - 1.0, (within - 1.0 + (p - within) / mu) * share))
        }
        _ => None,
    }
}

/// The count of numbers below P that have this bit set.
fn count_with_bit(ranks: u32, bit: u32) -> f64 {
    let half = 1 << bit;
    f64::from(ranks / (2 * half) * half + (ranks % (2 * half)).saturating_sub(half))
}

fn grid(sides: &[u32], n: f64) -> CostTerms {
    CostTerms::new(grid_messages(sides) as f64, grid_volume(sides) * n).with_steps(sides.len() as f64)
}

/// Prime factors: the factorisation of least sum.
fn prime_factors(number: u32) -> Vec<u32> {
    let (mut rest, mut factor, mut factors) = (number, 2u32, Vec::new());
    while factor.saturating_mul(factor) <= rest {
        if rest.is_multiple_of(factor) {
            factors.push(factor);
            rest /= factor;
        } else {
            factor += 1;
        }
    }
    factors.push(rest);
    factors
}

/// At most `max_factors` factors in increasing order of least sum, and among those the fewest.
fn balanced_factors(number: u32, max_factors: u32) -> Vec<u32> {
    fn messages(factors: &[u32]) -> u64 {
        grid_messages(factors)
    }
    fn search(rest: u32, max_factors: u32, least: u32, factors: &mut Vec<u32>, best: &mut Vec<u32>) {
        factors.push(rest);
        if best.is_empty() || messages(factors) < messages(best) {
            best.clone_from(factors);
        }
        factors.pop();
        if max_factors <= 1 {
            return;
        }
        let mut factor = least;
        while factor.saturating_mul(factor) <= rest {
            if rest.is_multiple_of(factor) {
                factors.push(factor);
                search(rest / factor, max_factors - 1, factor, factors, best);
                factors.pop();
            }
            factor += 1;
        }
    }
    let mut best = Vec::new();
    search(number, max_factors, 2, &mut Vec::new(), &mut best);
    best
}
