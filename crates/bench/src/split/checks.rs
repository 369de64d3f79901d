//! Checks of the emulated splits, printed with ok or NOT.

use super::emulated::{Column, EmulatedSplit};
use super::sizes::Size;

/// A check and its outcome.
#[derive(Debug, PartialEq)]
pub(super) struct Check {
    what: String,
    found: String,
    holds: bool,
}

/// The size at which ratios are compared with their targets.
const LARGEST: u32 = 128 << 20;
const MAX_SORTERS: u32 = 64;
/// Target speedups over allgather_sort: distributed, merge.
const DISTRIBUTED_TARGET: f64 = 40.0;
const MERGE_TARGET: f64 = 3.0;

/// Shorter times are too short to be measured well.
const MIN_COLLECT_SECONDS: f64 = 0.002;

pub(super) fn print(splits: &[EmulatedSplit]) {
    for Check { what, found, holds } in all_checks(splits) {
        say!("{:<4} {what}: {found}", if holds { "ok" } else { "NOT" });
    }
}

fn all_checks(splits: &[EmulatedSplit]) -> Vec<Check> {
    let mut checks = vec![collect_halves(splits), splitters_do_not_grow(splits), best_sorters_do_not_shrink(splits)];
    checks.extend(splits.last().and_then(ratios).into_iter().flatten());
    checks
}

/// With twice the sorters, each collects half as much.
fn collect_halves(splits: &[EmulatedSplit]) -> Check {
    let pairs = splits.iter().flat_map(|split| split.columns.windows(2));
    let ratios: Vec<f64> =
        pairs.filter(|two| two[1].collect > MIN_COLLECT_SECONDS).map(|two| two[0].collect / two[1].collect).collect();
    let (min, max) = (ratios.iter().copied().fold(f64::MAX, f64::min), ratios.iter().copied().fold(0.0, f64::max));
    let found = match ratios.len() {
        0 => "too short to measure".to_owned(),
        count => format!("{count} times, by {min:.2} to {max:.2}"),
    };
    let holds = ratios.iter().all(|ratio| (2.0 / 1.15..2.0 * 1.15).contains(ratio));
    Check { what: "collect halves with twice the sorters (within 15 %)".to_owned(), found, holds }
}

/// With the same sorters, splitters take as long in the largest communicator as in the smallest, except for the rounds:
/// their number grows logarithmically, and each is a binary search that takes one step more.
fn splitters_do_not_grow(splits: &[EmulatedSplit]) -> Check {
    let what = "splitters depend on the sorters, not on the size (except its logarithm)".to_owned();
    let (Some(first), Some(last)) = (splits.first(), splits.last()) else {
        return Check { what, found: "nothing was emulated".to_owned(), holds: true };
    };
    let logarithms = f64::from(last.ranks.ilog2()) / f64::from(first.ranks.ilog2());
    let ratios = first.columns.iter().zip(&last.columns).map(|(small, large)| large.splitters / small.splitters);
    let max = ratios.fold(0.0, f64::max);
    let sizes = format!("{} to {}", Size(first.ranks), Size(last.ranks));
    let found = format!("{sizes}, {}-fold: at most {max:.2} times as long", last.ranks / first.ranks);
    Check { what, found, holds: max <= logarithms * logarithms * 1.5 }
}

/// The best number of sorters does not decrease with the size.
fn best_sorters_do_not_shrink(splits: &[EmulatedSplit]) -> Check {
    let best = |split: &EmulatedSplit| split.columns.iter().copied().min_by(|a, b| a.total().total_cmp(&b.total()));
    let best: Vec<(u32, u32)> =
        splits.iter().filter_map(|split| best(split).map(|Column { sorters, .. }| (split.ranks, sorters))).collect();
    let found: Vec<String> = best.iter().map(|(ranks, sorters)| format!("{}: {sorters}", Size(*ranks))).collect();
    let holds = best.windows(2).all(|two| two[0].1 <= two[1].1);
    Check {
        what: "the best number of sorters does not decrease with the size".to_owned(),
        found: found.join(", "),
        holds,
    }
}

/// The two target ratios, if the largest communicator was emulated.
fn ratios(split: &EmulatedSplit) -> Option<[Check; 2]> {
    let column = split.columns.iter().find(|column| column.sorters == MAX_SORTERS)?;
    if split.ranks != LARGEST {
        return None;
    }
    let sort = split.allgather_sort.total();
    let check = |name: &str, ratio: f64, target: f64| Check {
        what: format!("{name} is at least {target} times as fast as allgather_sort"),
        found: format!("{ratio:.1} times"),
        holds: ratio >= target,
    };
    Some([
        check("distributed with 64 sorters", sort / column.total(), DISTRIBUTED_TARGET),
        check("merge", sort / split.merge.total(), MERGE_TARGET),
    ])
}

#[cfg(test)]
mod tests {
    use super::super::emulated::FullTableTimes;
    use super::*;

    /// Totals of the thesis's table 2.1, as far as they are needed: phases of 64M and 128M.
    fn thesis() -> Vec<EmulatedSplit> {
        let column = |sorters, [collect, splitters, exchange, merge]: [f64; 4]| Column {
            sorters,
            collect,
            splitters,
            exchange,
            merge,
            ..Column::default()
        };
        let split = |ranks: u32, columns| EmulatedSplit {
            ranks,
            columns,
            allgather_sort: FullTableTimes { sent: 2.0, joined: 0.0, sorted: 20.0 },
            small_groups: FullTableTimes::default(),
            merge: FullTableTimes { sent: 2.0, joined: 3.2, sorted: 0.0 },
        };
        vec![
            split(64 << 20, vec![column(32, [0.08, 0.03, 0.04, 0.14]), column(64, [0.04, 0.08, 0.02, 0.08])]),
            split(128 << 20, vec![column(32, [0.16, 0.03, 0.07, 0.29]), column(64, [0.08, 0.08, 0.04, 0.17])]),
        ]
    }

    #[test]
    fn the_thesis_passes() {
        let checks = all_checks(&thesis());
        assert_eq!(checks.len(), 5);
        assert!(checks.iter().all(|check| check.holds), "{checks:?}");
        assert_eq!(checks[3].found, "59.5 times");
    }

    #[test]
    fn each_check_can_fail() {
        let broken = |index: usize, change: fn(&mut Vec<EmulatedSplit>)| {
            let mut splits = thesis();
            change(&mut splits);
            let holds: Vec<bool> = all_checks(&splits).iter().map(|check| check.holds).collect();
            assert!(!holds[index], "{index}: {holds:?}");
        };
        broken(0, |splits| splits[1].columns[0].collect = 0.2);
        broken(1, |splits| splits[1].columns[0].splitters = 0.06);
        broken(2, |splits| splits[1].columns[1].merge = 1.0);
        broken(3, |splits| splits[1].columns[1].merge = 0.5);
        broken(4, |splits| splits[1].merge.joined = 9.0);
    }
}
