//! What must hold of the emulated splits, said with ok or NOT.

use super::emulated::{Column, Split};
use super::sizes::Size;

/// What was found.
#[derive(Debug, PartialEq)]
pub(super) struct Check {
    what: String,
    found: String,
    holds: bool,
}

/// Where ratios are compared with their aims.
const LARGEST: u32 = 128 << 20;
const MOST_SORTERS: u32 = 64;
/// How much faster than a sort at the end: distributed, merging.
const DISTRIBUTED_AIM: f64 = 40.0;
const MERGE_AIM: f64 = 3.0;

/// Collecting so little is over before it is measured well.
const SHORT: f64 = 0.002;

pub(super) fn print(splits: &[Split]) {
    for Check { what, found, holds } in all(splits) {
        say!("{:<4} {what}: {found}", if holds { "ok" } else { "NOT" });
    }
}

fn all(splits: &[Split]) -> Vec<Check> {
    let mut checks = vec![collect_halves(splits), splitters_do_not_grow(splits), more_sort_more(splits)];
    checks.extend(splits.last().and_then(ratios).into_iter().flatten());
    checks
}

/// With twice the sorters, each collects half as much.
fn collect_halves(splits: &[Split]) -> Check {
    let pairs = splits.iter().flat_map(|split| split.columns.windows(2));
    let ratios: Vec<f64> =
        pairs.filter(|two| two[1].collect > SHORT).map(|two| two[0].collect / two[1].collect).collect();
    let (least, most) = (ratios.iter().copied().fold(f64::MAX, f64::min), ratios.iter().copied().fold(0.0, f64::max));
    let found = match ratios.len() {
        0 => "too short to be said".to_owned(),
        count => format!("{count} times, by {least:.2} to {most:.2}"),
    };
    let holds = ratios.iter().all(|ratio| (2.0 / 1.15..2.0 * 1.15).contains(ratio));
    Check { what: "collect halves with twice the sorters (within 15 %)".to_owned(), found, holds }
}

/// Splitters of so many sorters take as long in the largest communicator as in the smallest, but for the rounds: these grow
/// as the logarithm, and each is a search that takes one step more.
fn splitters_do_not_grow(splits: &[Split]) -> Check {
    let what = "splitters depend on the sorters, not on the size (but for its logarithm)".to_owned();
    let (Some(first), Some(last)) = (splits.first(), splits.last()) else {
        return Check { what, found: "nothing was emulated".to_owned(), holds: true };
    };
    let logarithms = f64::from(last.ranks.ilog2()) / f64::from(first.ranks.ilog2());
    let ratios = first.columns.iter().zip(&last.columns).map(|(small, large)| large.splitters / small.splitters);
    let most = ratios.fold(0.0, f64::max);
    let sizes = format!("{} to {}", Size(first.ranks), Size(last.ranks));
    let found = format!("{sizes}, {}-fold: at most {most:.2} times as long", last.ranks / first.ranks);
    Check { what, found, holds: most <= logarithms * logarithms * 1.5 }
}

/// The best number of sorters does not get smaller.
fn more_sort_more(splits: &[Split]) -> Check {
    let best = |split: &Split| split.columns.iter().copied().min_by(|a, b| a.total().total_cmp(&b.total()));
    let best: Vec<(u32, u32)> =
        splits.iter().filter_map(|split| best(split).map(|Column { sorters, .. }| (split.ranks, sorters))).collect();
    let found: Vec<String> = best.iter().map(|(ranks, sorters)| format!("{}: {sorters}", Size(*ranks))).collect();
    let holds = best.windows(2).all(|two| two[0].1 <= two[1].1);
    Check { what: "the best number of sorters does not fall with the size".to_owned(), found: found.join(", "), holds }
}

/// The two ratios that are aimed at, where the largest communicator was emulated.
fn ratios(split: &Split) -> Option<[Check; 2]> {
    let column = split.columns.iter().find(|column| column.sorters == MOST_SORTERS)?;
    if split.ranks != LARGEST {
        return None;
    }
    let sort = split.allgather_sort.total();
    let check = |name: &str, ratio: f64, aim: f64| Check {
        what: format!("{name} is at least {aim} times as fast as allgather_sort"),
        found: format!("{ratio:.1} times"),
        holds: ratio >= aim,
    };
    Some([
        check("distributed with 64 sorters", sort / column.total(), DISTRIBUTED_AIM),
        check("merge", sort / split.merge.total(), MERGE_AIM),
    ])
}

#[cfg(test)]
mod tests {
    use super::super::emulated::Whole;
    use super::*;

    /// Totals of the thesis's table 2.1, as far as they are needed: phases of 64M and 128M.
    fn thesis() -> Vec<Split> {
        let column = |sorters, [collect, splitters, exchange, merge]: [f64; 4]| Column {
            sorters,
            collect,
            splitters,
            exchange,
            merge,
            ..Column::default()
        };
        let split = |ranks: u32, columns| Split {
            ranks,
            columns,
            allgather_sort: Whole { sent: 2.0, joined: 0.0, sorted: 20.0 },
            small: Whole::default(),
            merge: Whole { sent: 2.0, joined: 3.2, sorted: 0.0 },
        };
        vec![
            split(64 << 20, vec![column(32, [0.08, 0.03, 0.04, 0.14]), column(64, [0.04, 0.08, 0.02, 0.08])]),
            split(128 << 20, vec![column(32, [0.16, 0.03, 0.07, 0.29]), column(64, [0.08, 0.08, 0.04, 0.17])]),
        ]
    }

    #[test]
    fn the_thesis_passes() {
        let checks = all(&thesis());
        assert_eq!(checks.len(), 5);
        assert!(checks.iter().all(|check| check.holds), "{checks:?}");
        assert_eq!(checks[3].found, "59.5 times");
    }

    #[test]
    fn each_check_can_fail() {
        let broken = |index: usize, change: fn(&mut Vec<Split>)| {
            let mut splits = thesis();
            change(&mut splits);
            let holds: Vec<bool> = all(&splits).iter().map(|check| check.holds).collect();
            assert!(!holds[index], "{index}: {holds:?}");
        };
        broken(0, |splits| splits[1].columns[0].collect = 0.2);
        broken(1, |splits| splits[1].columns[0].splitters = 0.06);
        broken(2, |splits| splits[1].columns[1].merge = 1.0);
        broken(3, |splits| splits[1].columns[1].merge = 0.5);
        broken(4, |splits| splits[1].merge.joined = 9.0);
    }
}
