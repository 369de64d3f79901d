//! One splitter: the entry before which so many of all entries stand, found by whoever is responsible for it.
//!
//! In each round every rank proposes the median of those of its entries that are still possible, with how many they are. The
//! weighted median of these is the next pivot: at least a quarter of all that are possible is then excluded, so lg n rounds
//! find it. [Saukas and Song; Cheng et al.; thesis 2.3.1]
//!
//! A rank answers a pivot by how many of its entries stand before it, and with both medians that it would propose next, for
//! either outcome. So a round is two messages for each pair, not four.

use bytemuck::{Pod, Zeroable};

use super::entry::Entry;

/// Some of a rank's entries: how many, and the middle one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Possible {
    count: u32,
    median: Entry,
}

impl Possible {
    fn of(table: &[Entry], from: u32, to: u32) -> Self {
        if from >= to {
            return Self::default();
        }
        Self { count: to - from, median: table[((from + to) / 2) as usize] }
    }
}

/// What a rank says to a pivot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Proposal {
    /// How many of its entries stand before the pivot.
    before: u32,
    /// What is possible if the splitter is before the pivot.
    lower: Possible,
    /// What is possible if it is behind the pivot.
    upper: Possible,
}

/// What whoever is responsible says to all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Verdict {
    /// Of the pivot before: one of the words below.
    outcome: u32,
    /// The next one, unless that was it.
    pivot: Entry,
}

/// The splitter is behind the pivot, or there was none yet.
const BEHIND: u32 = 0;
/// The splitter is before the pivot.
const BEFORE: u32 = 1;
/// The pivot is the splitter.
const FOUND: u32 = 2;

/// The search for a splitter, as far as a rank's own entries go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    from: u32,
    to: u32,
    pivot: Option<(Entry, u32)>,
    found: Option<u32>,
}

impl Search {
    /// Among all of so many entries.
    pub(super) fn new(entries: usize) -> Self {
        Self { from: 0, to: entries as u32, pivot: None, found: None }
    }

    /// What is said before there is a pivot.
    pub(super) fn first(&self, table: &[Entry]) -> Proposal {
        Proposal { upper: Possible::of(table, self.from, self.to), ..Proposal::default() }
    }

    /// Takes a verdict in, and says what is to be answered, unless it is the last one.
    pub(super) fn hear(&mut self, verdict: Verdict, table: &[Entry]) -> Option<Proposal> {
        if let Some((pivot, before)) = self.pivot {
            match verdict.outcome {
                FOUND => {
                    self.found = Some(before);
                    return None;
                }
                BEFORE => self.to = before,
                _ => self.from = before + u32::from(table.get(before as usize) == Some(&pivot)),
            }
        }
        let pivot = verdict.pivot;
        let possible = &table[self.from as usize..self.to as usize];
        let before = self.from + possible.partition_point(|entry| *entry < pivot) as u32;
        self.pivot = Some((pivot, before));
        let behind = before + u32::from(before < self.to && table[before as usize] == pivot);
        Some(Proposal {
            before,
            lower: Possible::of(table, self.from, before),
            upper: Possible::of(table, behind, self.to),
        })
    }

    /// How many of the rank's entries stand before the splitter, once that is known.
    pub(super) fn found(&self) -> Option<u32> {
        self.found
    }
}

/// The search for a splitter, as whoever is responsible for it sees it.
#[derive(Debug)]
pub(super) struct Responsible {
    /// So many of all entries are to stand before it,
    target: u64,
    /// give or take so many.
    tolerance: u64,
    proposals: Vec<Proposal>,
    missing: Vec<bool>,
    pivot: Option<Entry>,
    rounds: u32,
}

impl Responsible {
    /// For a splitter among the entries of so many ranks.
    pub(super) fn new(target: u64, tolerance: u64, ranks: u32) -> Self {
        let (proposals, missing) = (vec![Proposal::default(); ranks as usize], vec![true; ranks as usize]);
        Self { target, tolerance, proposals, missing, pivot: None, rounds: 0 }
    }

    /// Takes a proposal in. Once all of a round are here, says what all are to be told, and whether that is the last.
    pub(super) fn hear(&mut self, from: u32, proposal: Proposal) -> Option<(Verdict, bool)> {
        self.proposals[from as usize] = proposal;
        self.missing[from as usize] = false;
        if self.missing.contains(&true) {
            return None;
        }
        self.missing.fill(true);
        self.rounds += 1;
        let before: u64 = self.proposals.iter().map(|proposal| u64::from(proposal.before)).sum();
        if let Some(pivot) = self.pivot
            && before.abs_diff(self.target) <= self.tolerance
        {
            self.missing.fill(false);
            return Some((Verdict { outcome: FOUND, pivot }, true));
        }
        let outcome = if self.pivot.is_some() && before > self.target { BEFORE } else { BEHIND };
        let possible = self.proposals.iter().map(|it| if outcome == BEFORE { it.lower } else { it.upper });
        let pivot = weighted_median(possible.filter(|possible| possible.count > 0).collect());
        self.pivot = Some(pivot);
        Some((Verdict { outcome, pivot }, false))
    }

    /// How many pivots there were.
    pub(super) fn rounds(&self) -> u32 {
        self.rounds
    }
}

/// The median before and behind which at most half of all stand.
fn weighted_median(mut possible: Vec<Possible>) -> Entry {
    possible.sort_unstable_by_key(|possible| possible.median);
    let all: u64 = possible.iter().map(|possible| u64::from(possible.count)).sum();
    let mut up_to = 0;
    let middle = possible.iter().find(|possible| {
        up_to += u64::from(possible.count);
        2 * up_to >= all
    });
    middle.map_or(Entry::default(), |possible| possible.median)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(ranks: u32, each: u32) -> Vec<Vec<Entry>> {
        let entry = |i: u32| Entry::new(Some(0), (i.wrapping_mul(2_654_435_761) >> 12) as i32 % 1000, i, i);
        (0..ranks)
            .map(|rank| {
                let mut table: Vec<Entry> = (0..each + rank % 3).map(|i| entry(rank * 1000 + i)).collect();
                table.sort_unstable();
                table
            })
            .collect()
    }

    fn find(tables: &[Vec<Entry>], target: u64, tolerance: u64) -> (Vec<u32>, u32) {
        let mut searches: Vec<Search> = tables.iter().map(|table| Search::new(table.len())).collect();
        let mut responsible = Responsible::new(target, tolerance, tables.len() as u32);
        let mut proposals: Vec<Proposal> =
            searches.iter().zip(tables).map(|(search, table)| search.first(table)).collect();
        for _ in 0..1000 {
            let told = proposals.iter().enumerate().filter_map(|(i, it)| responsible.hear(i as u32, *it)).last();
            let (verdict, _) = told.expect("all have said something");
            proposals =
                searches.iter_mut().zip(tables).filter_map(|(search, table)| search.hear(verdict, table)).collect();
            if proposals.is_empty() {
                return (searches.iter().map(|search| search.found().unwrap()).collect(), responsible.rounds());
            }
        }
        panic!("no splitter after 1000 rounds");
    }

    #[test]
    fn exactly_so_many_stand_before_a_splitter() {
        for (ranks, each) in [(1, 5), (2, 1), (3, 7), (8, 100), (16, 3)] {
            let tables = tables(ranks, each);
            let mut all: Vec<Entry> = tables.concat();
            all.sort_unstable();
            for target in 0..all.len() {
                let (cuts, rounds) = find(&tables, target as u64, 0);
                for (cut, table) in cuts.iter().zip(&tables) {
                    assert_eq!(*cut as usize, table.partition_point(|entry| *entry < all[target]));
                }
                assert!(f64::from(rounds) <= 3.0 + 2.5 * (all.len() as f64).log2(), "{rounds} rounds");
            }
        }
    }

    #[test]
    fn about_so_many_take_fewer_rounds() {
        let tables = tables(8, 900);
        let all: usize = tables.iter().map(Vec::len).sum();
        let target = all as u64 / 3;
        let (cuts, few) = find(&tables, target, 100);
        let before: u64 = cuts.iter().map(|cut| u64::from(*cut)).sum();
        assert!(before.abs_diff(target) <= 100);
        assert!(few < find(&tables, target, 0).1);
    }
}
