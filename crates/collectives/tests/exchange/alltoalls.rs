//! All-to-alls: checks for equal and unequal counts, and the costs of store-and-forward.

use treepie_collectives::alltoall::{Bruck, Grid, Pairwise, balanced_factors};
use treepie_collectives::exchange::Linear;
use treepie_schedule::check::{CheckOptions, check};
use treepie_schedule::count::count;
use treepie_schedule::{BlockLayout, BlockLayouts, BufferMap, Operation, RoundList, Schedule, ScheduleOp};
use treepie_topology::Network;

use super::{prove, uniform};

#[test]
fn alltoalls_for_any_number_of_ranks() {
    for ranks in 1..=33u32 {
        prove(&Linear::new(Operation::Alltoall, ranks), "linear", false);
        prove(&Pairwise::new(ranks), "pairwise", false);
        prove(&Bruck::new(ranks), "bruck", false);
        for dimensions in 1..=5 {
            prove(&Grid::balanced(ranks, dimensions), &format!("{dimensions} dimensions"), false);
        }
    }
    for dims in [&[3, 5][..], &[5, 3], &[2, 3, 4], &[4, 1, 3, 2], &[2; 6], &[1, 1]] {
        prove(&Grid::new(dims), &format!("{dims:?}"), false);
    }
}

#[test]
fn alltoalls_of_unequal_counts() {
    for ranks in 1..=33u32 {
        // Any counts will do; those of a multiplicative generator, one in four of them zero.
        let mut state = u64::from(ranks);
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 60) as usize * usize::from(state >> 58 & 3 != 0)
        };
        let counts: Vec<Vec<usize>> = (0..ranks).map(|_| (0..ranks).map(|_| next()).collect()).collect();
        let layouts = |rank: u32| BlockLayouts {
            input: BlockLayout::from_counts(&counts[rank as usize]),
            output: BlockLayout::from_counts(&counts.iter().map(|of| of[rank as usize]).collect::<Vec<_>>()),
        };
        check(&Linear::new(Operation::Alltoall, ranks), &layouts, CheckOptions::default())
            .unwrap_or_else(|fault| panic!("{ranks}: {fault}"));
        check(&Pairwise::new(ranks), &layouts, CheckOptions::default())
            .unwrap_or_else(|fault| panic!("{ranks}: {fault}"));
    }
}

#[test]
fn factors_are_balanced() {
    assert_eq!(balanced_factors(10_000, 1), [10_000]);
    assert_eq!(balanced_factors(10_000, 2), [100, 100]);
    assert_eq!(balanced_factors(10_000, 4), [10, 10, 10, 10]);
    assert_eq!(balanced_factors(24, 3), [2, 3, 4]);
    assert_eq!(balanced_factors(64, 9), [2; 6]);
    assert_eq!(balanced_factors(13, 3), [13]);
    assert_eq!(balanced_factors(1, 2), [1]);
}

/// d(P^(1/d) - 1) messages that carry d (P^(1/d) - 1)/P^(1/d) of the volume.   [B13]
#[test]
fn store_and_forward_costs_what_the_paper_says() {
    let sent = |schedule: &dyn Schedule, rank: u32| {
        let layouts = BlockLayouts::symmetric(BlockLayout::uniform(1, schedule.ranks()));
        let buffer_map = BufferMap { schedule, layouts: &layouts, rank };
        let mut rounds = RoundList::new();
        for phase in 0..schedule.phases() {
            schedule.emit(rank, phase, 0, 0..schedule.rounds(rank, phase, 0), &mut rounds);
        }
        let sends = rounds.iter().flatten().filter_map(|op| match op {
            ScheduleOp::Send { part, .. } => Some(buffer_map.range_len(*part)),
            _ => None,
        });
        sends.fold((0, 0), |(messages, elements), len| (messages + 1, elements + len))
    };
    for rank in [0, 1, 5050, 9999] {
        assert_eq!(sent(&Grid::balanced(10_000, 1), rank), (9999, 9999));
        assert_eq!(sent(&Grid::balanced(10_000, 2), rank), (198, 19_800));
        assert_eq!(sent(&Grid::balanced(10_000, 4), rank), (36, 36_000));
    }
    let counted = count(&Grid::balanced(64, 6), &uniform(1, 64), &Network::flat(64));
    assert_eq!((counted.alpha(), counted.max_volume, counted.delta()), (6, 6 * 32, 6.0 * 32.0));
    let counted = count(&Bruck::new(64), &uniform(1, 64), &Network::flat(64));
    assert_eq!((counted.alpha(), counted.max_volume, counted.delta()), (6, 6 * 32, 6.0 * 32.0));
    let counted = count(&Pairwise::new(12), &uniform(5, 12), &Network::flat(12));
    assert_eq!((counted.alpha(), counted.max_volume, counted.delta()), (11, 55, 55.0));
}
