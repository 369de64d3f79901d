//! Rows D32 to D39 of the thesis's chapter 2: the time of a communicator split.
//!
//! D35, D38 and D39 are asserted within 10%, as the model's total for 128M ranks is 8% more than measured. A single
//! sorting rank is what the thesis calls merging in place; that sorting in parallel and copying the table to all is 2.7
//! times faster than that (D38) is not in the model. D01 to D30 are data below; D31 only adds them up.

use crate::common::{near, within};
use treepie_model::split::{self, SplitCosts};

const SORTING: [f64; 6] = [2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

/// Table 2.1, in seconds, by millions of ranks: collect, splitters, exchange, merge, total (rows D01 to D30).
const TABLE: [(f64, [[f64; 6]; 5]); 5] = [
    (
        8.0,
        [
            [0.16, 0.08, 0.03, 0.02, 0.01, 0.00],
            [0.00, 0.00, 0.01, 0.01, 0.03, 0.08],
            [0.05, 0.03, 0.02, 0.01, 0.01, 0.01],
            [0.06, 0.06, 0.04, 0.03, 0.02, 0.01],
            [0.27, 0.17, 0.10, 0.07, 0.06, 0.10],
        ],
    ),
    (
        16.0,
        [
            [0.32, 0.16, 0.08, 0.03, 0.02, 0.01],
            [0.00, 0.00, 0.01, 0.01, 0.03, 0.08],
            [0.10, 0.06, 0.03, 0.02, 0.01, 0.01],
            [0.13, 0.13, 0.09, 0.05, 0.03, 0.02],
            [0.55, 0.35, 0.20, 0.12, 0.09, 0.11],
        ],
    ),
    (
        32.0,
        [
            [0.64, 0.32, 0.16, 0.08, 0.03, 0.02],
            [0.00, 0.00, 0.01, 0.02, 0.03, 0.08],
            [0.20, 0.12, 0.07, 0.04, 0.02, 0.01],
            [0.25, 0.26, 0.19, 0.11, 0.07, 0.04],
            [1.09, 0.70, 0.42, 0.24, 0.15, 0.15],
        ],
    ),
    (
        64.0,
        [
            [1.29, 0.64, 0.32, 0.16, 0.08, 0.03],
            [0.00, 0.00, 0.01, 0.02, 0.03, 0.08],
            [0.44, 0.24, 0.13, 0.07, 0.04, 0.02],
            [0.51, 0.52, 0.38, 0.24, 0.14, 0.08],
            [2.24, 1.41, 0.84, 0.48, 0.28, 0.22],
        ],
    ),
    (
        128.0,
        [
            [2.58, 1.29, 0.64, 0.32, 0.16, 0.08],
            [0.00, 0.00, 0.01, 0.02, 0.03, 0.08],
            [0.80, 0.48, 0.27, 0.14, 0.07, 0.04],
            [1.01, 1.05, 0.77, 0.49, 0.29, 0.17],
            [4.39, 2.82, 1.69, 0.97, 0.56, 0.37],
        ],
    ),
];

fn ranks(millions: f64) -> f64 {
    millions * 2f64.powi(20)
}

#[test]
fn d35_d38_d39_against_others() {
    // Seconds for 128M ranks. The model's total with 64 sorting ranks is 8% more than measured, and so all that
    // follows.
    let modelled = |sorting: f64| split::thesis_costs().phase_times(ranks(128.0), sorting).total() / 1e6;
    let (merging, parallel) = (modelled(1.0), modelled(64.0));
    println!("D38: merging in place {merging:.2} s, 64 sort {parallel:.3} s");
    near("D35: the model's total", parallel, 0.37, 0.1);
    near("D35: 22 s for sorting at the end", 22.0 / parallel, 59.5, 0.1);
    near("D38: merging instead", 22.0 / merging, 4.0, 0.1);
    near("D38: 64 sorting ranks and distributed tables", merging / parallel, 14.0, 0.1);
    near("D39: 12.7 ms by Siebert and Wolf", parallel / 0.0127, 29.0, 0.1);
}

#[test]
fn d32_d33_parts() {
    for (millions, [collect, splitters, exchange, merge, _]) in TABLE {
        for (at, sorting) in SORTING.into_iter().enumerate() {
            let times = split::thesis_costs().phase_times(ranks(millions), sorting);
            // Printed with two decimals, of which the last is uncertain where it is the only one.
            let close =
                |id, got: f64, expected: f64, share: f64| within(id, got / 1e6, expected, share * expected + 0.011);
            if millions == 128.0 {
                near("D32", times.collect / 1e6, collect[at], 0.05);
            }
            close("D32", times.collect, collect[at], 0.05);
            close("D33", times.splitters, splitters[at], 0.16);
            close("table 2.1, exchange", times.exchange, exchange[at], 0.4);
            close("table 2.1, merge", times.merge, merge[at], 0.5);
            // Hardly more for more ranks.
            let smallest = split::thesis_costs().phase_times(ranks(8.0), sorting).splitters;
            near("D33", times.splitters, smallest, 0.2);
        }
    }
}

#[test]
fn d34_the_best_number_of_sorting_ranks() {
    for (millions, _) in TABLE {
        let expected: &[u32] = match millions as u32 {
            8 | 16 => &[32],
            32 => &[32, 64],
            _ => &[64],
        };
        let modelled = split::thesis_costs().best_num_sorters(ranks(millions), 64);
        assert!(expected.contains(&modelled), "D34 at {millions}M: {modelled} in the model, {expected:?} measured");
    }
    assert_eq!(split::thesis_costs().best_num_sorters(2.0, 64), 1, "two ranks need a single sorter");
}

#[test]
fn d36_d37_memory_and_growth() {
    // A table of all ranks' colors, keys and ranks; where p sort, each has 1/p of it.
    assert_eq!(split::memory(16 << 20, 1), 192 << 20, "D36");
    for sorting in SORTING {
        assert_eq!(split::memory(128 << 20, sorting as u64), (1536 << 20) / sorting as u64, "D37: n/p");
    }
    // No phase grows faster than the three terms together, and none of those is missing.
    let all = SplitCosts::new(1.0, 1.0, 1.0, 1.0, 1.0).unwrap();
    for (lg_n, lg_p) in (10..=40).flat_map(|n| (1..=10).map(move |p| (n, p))) {
        let (n, p) = (2f64.powi(lg_n), 2f64.powi(lg_p));
        let order = p * n.log2() + n.log2().powi(2) + n / p * p.log2();
        let ratio = all.phase_times(n, p).total() / order;
        assert!((0.4..=3.0).contains(&ratio), "D37: {ratio} with 2^{lg_n} ranks, 2^{lg_p} of which sort");
    }
    // Each term alone: p lg n, lg^2 n, n/p lg p.
    let single_cost = |round, probe, merge| SplitCosts::new(0.0, round, probe, 0.0, merge).unwrap();
    let time = |split: SplitCosts, n: i32, p: i32| split.phase_times(2f64.powi(n), 2f64.powi(p)).total();
    let ratio = |split: SplitCosts, (n, p): (i32, i32)| time(split, n, p) / time(split, 20, 4);
    within("D37: p lg n", ratio(single_cost(1.0, 0.0, 0.0), (20, 5)), 2.0, 1e-9);
    within("D37: p lg n", ratio(single_cost(1.0, 0.0, 0.0), (25, 4)), 1.25, 1e-9);
    within("D37: lg^2 n", ratio(single_cost(0.0, 1.0, 0.0), (40, 4)), 2.0 * 36.0 / 16.0, 1e-9);
    within("D37: n/p lg p", ratio(single_cost(0.0, 0.0, 1.0), (21, 4)), 2.0, 1e-9);
    within("D37: n/p lg p", ratio(single_cost(0.0, 0.0, 1.0), (20, 8)), 2.0 / 16.0, 1e-9);
}
