//! Merging of sorted runs.

use super::entry::SplitEntry;

/// Merges two sorted runs.
pub fn merge(left: &[SplitEntry], right: &[SplitEntry]) -> Vec<SplitEntry> {
    let mut merged = Vec::with_capacity(left.len() + right.len());
    append_merged(&mut merged, left, right);
    merged
}

/// Appends the merge of two sorted runs.
///
/// 4.4 ns per entry, in cache and out of cache. Merging at several positions in turn is nearly twice as fast while
/// everything is in the L1 cache, and slower otherwise, since its output then has to be cleared or copied.
fn append_merged(merged: &mut Vec<SplitEntry>, left: &[SplitEntry], right: &[SplitEntry]) {
    let (mut i, mut j) = (0, 0);
    loop {
        // Neither run can end within this number of steps.
        let steps = (left.len() - i).min(right.len() - j);
        if steps == 0 {
            break;
        }
        merged.extend((0..steps).map(|_| {
            let (a, b) = (left[i], right[j]);
            // Which one is next is practically random, so it is an index and not a branch.
            let is_left = a < b;
            i += usize::from(is_left);
            j += usize::from(!is_left);
            if is_left { a } else { b }
        }));
    }
    merged.extend_from_slice(&left[i..]);
    merged.extend_from_slice(&right[j..]);
}

/// Merges many sorted runs pairwise, in lg p passes. Also returns the number of entries written.
///
/// The passes alternate between two buffers: fresh memory costs as much as the merging.
pub fn merge_all(mut runs: Vec<Vec<SplitEntry>>) -> (Vec<SplitEntry>, u64) {
    if runs.len() <= 1 {
        return (runs.pop().unwrap_or_default(), 0);
    }
    let length = runs.iter().map(Vec::len).sum();
    let mut merged = Vec::with_capacity(length);
    let mut lengths = merge_pairs(runs.iter().map(Vec::as_slice), &mut merged);
    drop(runs);
    let mut work = length as u64;
    let mut other = Vec::new();
    while lengths.len() > 1 {
        other.clear();
        other.reserve_exact(length);
        let mut rest = &merged[..];
        let runs = lengths.iter().map(|length| rest.split_off(..*length).unwrap_or_default());
        lengths = merge_pairs(runs, &mut other);
        std::mem::swap(&mut merged, &mut other);
        work += length as u64;
    }
    (merged, work)
}

/// Merges pairs of runs into one buffer, and returns the lengths of the merged runs.
fn merge_pairs<'a>(mut runs: impl Iterator<Item = &'a [SplitEntry]>, merged: &mut Vec<SplitEntry>) -> Vec<usize> {
    let mut lengths = Vec::new();
    while let Some(left) = runs.next() {
        let right = runs.next().unwrap_or_default();
        append_merged(merged, left, right);
        lengths.push(left.len() + right.len());
    }
    lengths
}

/// Incremental merge of runs as they arrive: each with the preceding one while that is not longer, so that each entry
/// is written about lg p times, as by [`merge_all`].
#[derive(Default)]
pub(super) struct IncrementalMerge {
    runs: Vec<Vec<SplitEntry>>,
    work: u64,
}

impl IncrementalMerge {
    /// Adds a run.
    pub(super) fn push(&mut self, mut run: Vec<SplitEntry>) {
        while let Some(before) = self.runs.pop_if(|before| before.len() <= run.len()) {
            self.work += (before.len() + run.len()) as u64;
            run = merge(&before, &run);
        }
        self.runs.push(run);
    }

    /// The merge of all runs, and the number of entries written.
    pub(super) fn finish(mut self) -> (Vec<SplitEntry>, u64) {
        self.runs.reverse();
        let (merged, work) = merge_all(self.runs);
        (merged, work + self.work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_merges_yield_the_sorted_entries() {
        let all: Vec<SplitEntry> = (0..200).map(|i| SplitEntry::new(Some(i * 7919 % 5), i as i32 % 11, i, i)).collect();
        let mut sorted = all.clone();
        sorted.sort_unstable();
        for parts in [1, 2, 3, 7, 50, 200] {
            let mut runs: Vec<Vec<SplitEntry>> =
                all.chunks(all.len().div_ceil(parts)).map(<[SplitEntry]>::to_vec).collect();
            runs.iter_mut().for_each(|run| run.sort_unstable());
            runs.insert(0, Vec::new());
            let mut merging = IncrementalMerge::default();
            runs.iter().for_each(|run| merging.push(run.clone()));
            assert_eq!(merging.finish().0, sorted);
            assert_eq!(merge_all(runs).0, sorted);
        }
        assert_eq!(merge_all(Vec::new()), (Vec::new(), 0));
    }
}
