//! Rows B01 to B23 of the RandomAccess paper, and G04 of the active-message paper.
//!
//! Asserted in part:
//! - B11: the model's efficiency against the printed one, at powers of two, as near as its rates come (B10).
//! - B17: at the model's look-ahead of 1024, within 7%. The model does not know how rates depend on the look-ahead.
//!
//! Not here: B16 and B18 to B20 are measurements. The model has no caches, so it cannot show that rates fall beyond a
//! look-ahead of 8192 (B16). B22 needs random numbers: `treepie/tests/programs/randomaccess.rs` counts what is discarded.

use std::collections::BTreeSet;

use crate::common::{counted, near, network, schedule, within};
use treepie_model::closed_form;
use treepie_model::machines::PaperMachine;
use treepie_model::randomaccess::{self, PartitionMessage, RandomAccess, efficiency};
use treepie_schedule::{Operation, RoundList, ScheduleOp};
use treepie_topology::Network;

/// P, the model's printed rate, the measured one, and the printed efficiency.
const RATES: [(u32, Option<f64>, f64, f64); 11] = [
    (1, Some(0.0180), 0.0180, 100.0),
    (4, Some(0.0333), 0.0377, 52.4),
    (16, Some(0.0867), 0.0930, 32.3),
    (64, Some(0.257), 0.273, 23.7),
    (200, None, 0.567, 15.8),
    (256, Some(0.817), 0.858, 18.6),
    (300, None, 0.739, 13.7),
    (1024, Some(2.71), 2.81, 15.2),
    (4096, Some(9.26), 9.25, 12.5),
    (8192, Some(17.26), 17.24, 11.7),
    (10240, None, 19.72, 10.7),
];

fn red_storm() -> RandomAccess {
    PaperMachine::RedStorm.random_access().unwrap()
}

#[test]
fn b01_to_b08_and_b10_the_model() {
    let recomputed = [0.0180, 0.0333, 0.0867, 0.2571, 0.8169, 2.7102, 9.2610, 17.2641];
    let printed = RATES.into_iter().filter_map(|(ranks, model, measured, _)| Some((ranks, model?, measured)));
    for ((ranks, model, measured), recomputed) in printed.zip(recomputed) {
        let gups = red_storm().gups(ranks);
        near("B01 to B08", gups, model, 0.0015);
        near("B01 to B08, recomputed", gups, recomputed, 0.0015);
        near("B10", gups, measured, tolerance(ranks));
    }
}

/// By how much the model's rate may differ from the measured one (B10).
fn tolerance(ranks: u32) -> f64 {
    match ranks {
        1 => 0.001,
        4 => 0.12,
        16 | 64 => 0.07,
        256 | 1024 => 0.05,
        _ => 0.0015,
    }
}

#[test]
fn b11_b17_efficiency() {
    for (ranks, _, measured, percent) in RATES {
        // The printed efficiency is this function of the measured rates.
        within("RATES", 100.0 * efficiency(measured, ranks, 0.0180), percent, 0.06);
        if ranks.is_power_of_two() {
            // Printed with one decimal, of a rate of one rank with three digits.
            let rounding = 0.05 / percent + 0.003;
            near("B11", 100.0 * red_storm().efficiency(ranks), percent, tolerance(ranks) + rounding);
        }
    }
    // The model's own at 4 is 46.3 (F8), and was 52.4.
    within("B11", 100.0 * red_storm().efficiency(4), 46.3, 0.06);
    // On 32 ranks with the model's look-ahead.
    assert_eq!(red_storm().lookahead, 1024);
    near("B17: Q = 1024", 100.0 * red_storm().efficiency(32), 27.4, 0.07);
}

#[test]
fn b12_blue_gene() {
    let RandomAccess { lookahead, compute, exchange } = red_storm();
    let projected = RandomAccess::new(lookahead, 4.0 * compute, 5.0 * exchange).unwrap();
    near("B12", projected.gups(131_072), 44.0, 0.01);
    near("B12, recomputed", projected.gups(131_072), 44.258, 1e-4);
}

/// T1 and TC of the measured rates, and what they predict.
#[test]
fn b09_b10_b12_a_fit_to_measured_rates() {
    let powers: Vec<(u32, f64)> =
        RATES.iter().filter(|(ranks, ..)| ranks.is_power_of_two()).map(|(ranks, _, rate, _)| (*ranks, *rate)).collect();
    let fit = RandomAccess::fit(1024, &powers).unwrap();
    near("T1", fit.compute, 56.9, 0.05);
    near("TC", fit.exchange, 33.0, 0.05);
    powers.iter().for_each(|(ranks, rate)| near("B09", fit.gups(*ranks), *rate, 0.08));
    // What the model itself says is fitted exactly.
    let exact: Vec<(u32, f64)> = [1, 64, 8192].map(|ranks| (ranks, red_storm().gups(ranks))).to_vec();
    let fit = RandomAccess::fit(1024, &exact).unwrap();
    near("T1", fit.compute, 56.9, 1e-9);
    near("TC", fit.exchange, 33.0, 1e-9);
    for wrong in [&exact[..1], &[(8, 1.0), (8, 2.0)], &[(8, 1.0), (16, 0.0)], &[]] {
        assert!(RandomAccess::fit(1024, wrong).is_err(), "{wrong:?}");
    }
}

/// Numbers of ranks that are no powers of two: with a message more for each odd partition, of 7 us (B23).
#[test]
fn b09_halving_any_number_of_ranks() {
    for (ranks, measured, tolerance) in [(200, 0.567, 0.06), (300, 0.739, 0.06), (10_240, 19.72, 0.005)] {
        near("B09", red_storm().halving_gups(ranks, 7.0), measured, tolerance);
    }
    for ranks in [1, 2, 64, 8192] {
        near("powers of two", red_storm().halving_time(ranks, 7.0), red_storm().time(ranks), 1e-12);
    }
    // The longest path, by recursion.
    fn exchanges(ranks: u32) -> f64 {
        let odd = if ranks % 2 == 1 { 7.0 } else { 0.0 };
        if ranks == 1 { 0.0 } else { 33.0 + odd + exchanges(ranks / 2).max(exchanges(ranks.div_ceil(2))) }
    }
    for ranks in 1..300 {
        near("any", red_storm().halving_time(ranks, 7.0), 56.9 + exchanges(ranks), 1e-12);
    }
}

#[test]
fn b13_b14_b15_messages_and_volume() {
    let both = |dimensions| (randomaccess::messages(10_000, dimensions), randomaccess::volume(10_000, dimensions));
    assert_eq!((both(1), both(2)), ((9999.0, 0.9999), (198.0, 1.98)), "B13");
    assert_eq!((randomaccess::messages(8192, 13), randomaccess::volume(8192, 13)), (13.0, 6.5), "B14");
    let sizes = [1024, 8192].map(|lookahead| RandomAccess { lookahead, ..red_storm() }.message_bytes());
    assert_eq!(sizes, [4096, 32768], "B15");
    // The same counted from schedules.
    for (id, ranks, dimensions) in
        [("alltoall/grid:2", 64, 2), ("alltoall/grid:3", 64, 3), ("alltoall/hypercube", 64, 6)]
    {
        let network = network(&format!("flat:{ranks}"));
        let counted = counted(&*schedule(id, Operation::Alltoall, &network).unwrap(), 640, &network);
        assert_eq!(counted.alpha, randomaccess::messages(ranks, dimensions), "B13, B14: {id}");
        within("B13, B14", counted.delta, 640.0 * randomaccess::volume(ranks, dimensions), 1e-9);
    }
}

#[test]
fn b21_odd_partitions() {
    for small in 1..40u32 {
        let ranks = 2 * small + 1;
        let messages = randomaccess::partition_exchange(ranks);
        let count =
            |rank, of: fn(&PartitionMessage) -> u32| messages.iter().filter(|message| of(message) == rank).count();
        let share = |rank, of: fn(&PartitionMessage) -> u32| {
            messages.iter().filter(|message| of(message) == rank).map(|message| message.share).sum::<f64>()
        };
        for rank in 0..ranks {
            // The first and the last rank of the larger half have one.
            let expected = if rank == small || rank == 2 * small { 1 } else { 2 };
            let both = (count(rank, |message| message.from), count(rank, |message| message.to));
            assert_eq!(both, (expected, expected), "B21: rank {rank} of {ranks}");
            // A list is sent completely, and all ranks of a half receive the same.
            within("B21", share(rank, |message| message.from), 1.0, 1e-12);
            let others = if rank < small { small + 1 } else { small };
            let receivers = ranks - others;
            within("B21", share(rank, |message| message.to), f64::from(others) / f64::from(receivers), 1e-12);
        }
        assert!(messages.iter().all(|message| (message.from < small) != (message.to < small)), "B21: across");
        let even = randomaccess::partition_exchange(2 * small);
        let pair = |message: &PartitionMessage| message.from.abs_diff(message.to) == small && message.share == 1.0;
        assert!(even.len() == 2 * small as usize && even.iter().all(pair), "B21: pairs of {}", 2 * small);
    }
}

#[test]
fn b23_the_network_of_red_storm() {
    let time = |bytes| {
        let (id, root) = ("bcast/chain", Operation::Bcast { root: 0 });
        closed_form::time(id, root, &Network::flat(2), bytes, &PaperMachine::RedStorm.cost_params()).unwrap()
    };
    within("B23", time(0.0), 7.0, 1e-9);
    within("B23", 1e6 / (time(1e6) - time(0.0)), 1100.0, 1e-6);
}

/// The exchange over a two-dimensional grid is such a routing: to whom ranks send, and how often a block is sent.
#[test]
fn g04_rook_graphs() {
    for (rows, columns) in [(4u32, 4u32), (8, 16), (3, 5), (1, 7)] {
        let ranks = rows * columns;
        let network = Network::flat(ranks);
        let schedule = schedule("alltoall/grid:2", Operation::Alltoall, &network).unwrap();
        for rank in 0..ranks {
            let mut neighbors = BTreeSet::new();
            for phase in 0..schedule.phases() {
                let mut rounds = RoundList::new();
                let count = schedule.rounds(rank, phase, 0);
                schedule.emit(rank, phase, 0, 0..count, &mut rounds);
                for op in (0..count as usize).flat_map(|round| rounds.round_or_empty(round)) {
                    if let ScheduleOp::Send { to, .. } = *op {
                        neighbors.insert(to);
                    }
                }
            }
            assert_eq!(neighbors.len() as u32, rows - 1 + columns - 1, "G04: rank {rank} of {rows} x {columns}");
        }
        // A rank in another row and column is two hops away, others one: bytes with one byte for each rank.
        let bytes = counted(&*schedule, ranks as usize, &network).delta;
        let (near, far) = (rows - 1 + columns - 1, (rows - 1) * (columns - 1));
        assert_eq!(bytes, f64::from(near + 2 * far), "G04: {rows} x {columns}");
        assert_eq!(randomaccess::grid_messages(&[rows, columns]), near.into(), "G04: {rows} x {columns}");
    }
}
