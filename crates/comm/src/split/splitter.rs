//! The search for a splitter: the entry with a given rank among all entries, found by its owner.
//!
//! In each round every rank proposes the median of its remaining candidates, with their number. The weighted median of
//! these is the next pivot: it excludes at least a quarter of all candidates, so O(lg n) rounds find the splitter.
//! [Saukas and Song; Cheng et al.; thesis 2.3.1]
//!
//! A rank answers a pivot with the number of its entries before it, and with the two medians that it would propose
//! next, for either outcome. So a round takes two messages per pair instead of four.

use bytemuck::{Pod, Zeroable};

use super::entry::SplitEntry;

/// A range of a rank's entries: their number and their median.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct CandidateRange {
    count: u32,
    median: SplitEntry,
}

impl CandidateRange {
    fn of(table: &[SplitEntry], start: u32, end: u32) -> Self {
        if start >= end {
            return Self::default();
        }
        Self { count: end - start, median: table[((start + end) / 2) as usize] }
    }
}

/// The answer of a rank to a pivot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Proposal {
    /// Number of its entries before the pivot.
    before: u32,
    /// Its candidates if the splitter is before the pivot.
    lower: CandidateRange,
    /// Its candidates if the splitter is after the pivot.
    upper: CandidateRange,
}

/// The message of the owner to all ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct PivotResult {
    /// The outcome for the previous pivot: one of the constants below.
    outcome: u32,
    /// The next pivot, unless the splitter was found.
    pivot: SplitEntry,
}

/// The splitter is after the pivot, or there was no pivot yet.
const AFTER: u32 = 0;
/// The splitter is before the pivot.
const BEFORE: u32 = 1;
/// The pivot is the splitter.
const FOUND: u32 = 2;

/// The search for a splitter on one rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct SplitterSearch {
    from: u32,
    to: u32,
    pivot: Option<(SplitEntry, u32)>,
    found: Option<u32>,
}

impl SplitterSearch {
    /// A search among all `entries` entries.
    pub(super) fn new(entries: usize) -> Self {
        Self { from: 0, to: entries as u32, pivot: None, found: None }
    }

    /// The proposal before there is a pivot.
    pub(super) fn first_proposal(&self, table: &[SplitEntry]) -> Proposal {
        Proposal { upper: CandidateRange::of(table, self.from, self.to), ..Proposal::default() }
    }

    /// Handles the result for a pivot, and returns the next proposal, unless it was the last one.
    pub(super) fn on_pivot_result(&mut self, result: PivotResult, table: &[SplitEntry]) -> Option<Proposal> {
        if let Some((pivot, before)) = self.pivot {
            match result.outcome {
                FOUND => {
                    self.found = Some(before);
                    return None;
                }
                BEFORE => self.to = before,
                _ => self.from = before + u32::from(table.get(before as usize) == Some(&pivot)),
            }
        }
        let pivot = result.pivot;
        let candidates = &table[self.from as usize..self.to as usize];
        let before = self.from + candidates.partition_point(|entry| *entry < pivot) as u32;
        self.pivot = Some((pivot, before));
        let after = before + u32::from(before < self.to && table[before as usize] == pivot);
        Some(Proposal {
            before,
            lower: CandidateRange::of(table, self.from, before),
            upper: CandidateRange::of(table, after, self.to),
        })
    }

    /// Number of the rank's entries before the splitter, once it is known.
    pub(super) fn found(&self) -> Option<u32> {
        self.found
    }
}

/// The search for a splitter on its owner.
#[derive(Debug)]
pub(super) struct SplitterOwner {
    /// Number of all entries that should precede the splitter.
    target: u64,
    /// Maximum deviation from the target.
    tolerance: u64,
    proposals: Vec<Proposal>,
    missing: Vec<bool>,
    pivot: Option<SplitEntry>,
    rounds: u32,
}

impl SplitterOwner {
    /// The search for a splitter among the entries of `ranks` ranks.
    pub(super) fn new(target: u64, tolerance: u64, ranks: u32) -> Self {
        let (proposals, missing) = (vec![Proposal::default(); ranks as usize], vec![true; ranks as usize]);
        Self { target, tolerance, proposals, missing, pivot: None, rounds: 0 }
    }

    /// Handles a proposal. Once all of a round have arrived, returns the message to all ranks, and whether it is the
    /// last one.
    pub(super) fn on_proposal(&mut self, from: u32, proposal: Proposal) -> Option<(PivotResult, bool)> {
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
            return Some((PivotResult { outcome: FOUND, pivot }, true));
        }
        let outcome = if self.pivot.is_some() && before > self.target { BEFORE } else { AFTER };
        let candidates =
            self.proposals.iter().map(|proposal| if outcome == BEFORE { proposal.lower } else { proposal.upper });
        let pivot = weighted_median(candidates.filter(|range| range.count > 0).collect());
        self.pivot = Some(pivot);
        Some((PivotResult { outcome, pivot }, false))
    }

    /// Number of pivots.
    pub(super) fn rounds(&self) -> u32 {
        self.rounds
    }
}

/// The weighted median: at most half of all candidates precede it, and at most half follow it.
fn weighted_median(mut candidates: Vec<CandidateRange>) -> SplitEntry {
    candidates.sort_unstable_by_key(|range| range.median);
    let all: u64 = candidates.iter().map(|range| u64::from(range.count)).sum();
    let mut up_to = 0;
    let middle = candidates.iter().find(|range| {
        up_to += u64::from(range.count);
        2 * up_to >= all
    });
    middle.map_or(SplitEntry::default(), |range| range.median)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(ranks: u32, each: u32) -> Vec<Vec<SplitEntry>> {
        let entry = |i: u32| SplitEntry::new(Some(0), (i.wrapping_mul(2_654_435_761) >> 12) as i32 % 1000, i, i);
        (0..ranks)
            .map(|rank| {
                let mut table: Vec<SplitEntry> = (0..each + rank % 3).map(|i| entry(rank * 1000 + i)).collect();
                table.sort_unstable();
                table
            })
            .collect()
    }

    fn find(tables: &[Vec<SplitEntry>], target: u64, tolerance: u64) -> (Vec<u32>, u32) {
        let mut searches: Vec<SplitterSearch> = tables.iter().map(|table| SplitterSearch::new(table.len())).collect();
        let mut owner = SplitterOwner::new(target, tolerance, tables.len() as u32);
        let mut proposals: Vec<Proposal> =
            searches.iter().zip(tables).map(|(search, table)| search.first_proposal(table)).collect();
        for _ in 0..1000 {
            let last = proposals.iter().enumerate().filter_map(|(i, it)| owner.on_proposal(i as u32, *it)).last();
            let (result, _) = last.expect("all proposals have arrived");
            proposals = searches
                .iter_mut()
                .zip(tables)
                .filter_map(|(search, table)| search.on_pivot_result(result, table))
                .collect();
            if proposals.is_empty() {
                return (searches.iter().map(|search| search.found().unwrap()).collect(), owner.rounds());
            }
        }
        panic!("no splitter after 1000 rounds");
    }

    #[test]
    fn exact_splitters_have_the_target_rank() {
        for (ranks, each) in [(1, 5), (2, 1), (3, 7), (8, 100), (16, 3)] {
            let tables = tables(ranks, each);
            let mut all: Vec<SplitEntry> = tables.concat();
            all.sort_unstable();
            for target in 0..all.len() {
                let (indices, rounds) = find(&tables, target as u64, 0);
                for (index, table) in indices.iter().zip(&tables) {
                    assert_eq!(*index as usize, table.partition_point(|entry| *entry < all[target]));
                }
                assert!(f64::from(rounds) <= 3.0 + 2.5 * (all.len() as f64).log2(), "{rounds} rounds");
            }
        }
    }

    #[test]
    fn approximate_splitters_take_fewer_rounds() {
        let tables = tables(8, 900);
        let all: usize = tables.iter().map(Vec::len).sum();
        let target = all as u64 / 3;
        let (indices, few) = find(&tables, target, 100);
        let before: u64 = indices.iter().map(|index| u64::from(*index)).sum();
        assert!(before.abs_diff(target) <= 100);
        assert!(few < find(&tables, target, 0).1);
    }
}
