//! Merging sorted runs.
//!
//! Long runs are merged in tiles that stay in the cache, and in each at several places in turn; what is merged is then copied to
//! its place, which is memory that nobody has to clear before.

use std::array;

use super::entry::Entry;

/// How many places are merged at in turn. A step waits for the comparison of the one before it; those of other places do not.
const LANES: usize = 4;

/// Entries of a tile.
const TILE: usize = 1 << 12;

/// Two sorted runs as one.
pub fn merge(left: &[Entry], right: &[Entry]) -> Vec<Entry> {
    let mut merged = Vec::with_capacity(left.len() + right.len());
    Runs { left, right }.append_to(&mut merged, &mut Vec::new());
    merged
}

/// What is still to be merged.
#[derive(Clone, Copy)]
struct Runs<'a> {
    left: &'a [Entry],
    right: &'a [Entry],
}

impl<'a> Runs<'a> {
    /// How many steps end neither run, at least.
    fn steps(&self) -> usize {
        self.left.len().min(self.right.len())
    }

    /// Takes the first so many entries of both together away, as runs of their own.
    fn take(&mut self, count: usize) -> Self {
        let (mut from, mut to) = (count.saturating_sub(self.right.len()), count.min(self.left.len()));
        while from < to {
            let middle = from.midpoint(to);
            if self.left[middle] < self.right[count - middle - 1] {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        self.advance(from, count - from)
    }

    /// Takes so many of the left run and so many of the right one away.
    fn advance(&mut self, left: usize, right: usize) -> Self {
        let (of_left, of_right) = (self.left.split_at(left), self.right.split_at(right));
        *self = Self { left: of_left.1, right: of_right.1 };
        Self { left: of_left.0, right: of_right.0 }
    }

    /// Merges both behind what is there. The tile is memory for it.
    fn append_to(mut self, merged: &mut Vec<Entry>, tile: &mut Vec<Entry>) {
        while self.steps() > 0 {
            let length = (self.left.len() + self.right.len()).min(TILE);
            if tile.len() < length {
                tile.resize(length, Entry::default());
            }
            self.take(length).merge_into(&mut tile[..length]);
            merged.extend_from_slice(&tile[..length]);
        }
        merged.extend_from_slice(self.left);
        merged.extend_from_slice(self.right);
    }

    /// Merges both into memory that is as long as they are.
    fn merge_into(mut self, mut into: &mut [Entry]) {
        let length = into.len();
        let mut lanes: [Lane<'_>; LANES] = array::from_fn(|lane| {
            let here = length * (lane + 1) / LANES - length * lane / LANES;
            let Runs { left, right } = self.take(here);
            Lane { left, right, into: into.split_off_mut(..here).unwrap_or_default() }
        });
        loop {
            let steps = lanes.iter().map(Lane::steps).min().unwrap_or(0);
            if steps == 0 {
                break;
            }
            lanes = merge_steps(lanes, steps);
        }
        lanes.into_iter().for_each(Lane::finish);
    }
}

/// A place at which is merged.
struct Lane<'a> {
    left: &'a [Entry],
    right: &'a [Entry],
    into: &'a mut [Entry],
}

impl Lane<'_> {
    /// How many steps end neither run, at least.
    fn steps(&self) -> usize {
        self.left.len().min(self.right.len())
    }

    fn finish(mut self) {
        while self.steps() > 0 {
            let steps = self.steps();
            [self] = merge_steps([self], steps);
        }
        let (of_left, of_right) = self.into.split_at_mut(self.left.len());
        of_left.copy_from_slice(self.left);
        of_right.copy_from_slice(self.right);
    }
}

/// As many steps as end no run, at all places in turn.
#[inline(always)]
fn merge_steps<const N: usize>(mut lanes: [Lane<'_>; N], steps: usize) -> [Lane<'_>; N] {
    let (mut i, mut j) = ([0; N], [0; N]);
    for step in 0..steps {
        for lane in 0..N {
            let Lane { left, right, into } = &mut lanes[lane];
            let (a, b) = (&left[i[lane]], &right[j[lane]]);
            // Which one is next is as good as random, so it is an index and no branch.
            let is_left = a < b;
            i[lane] += usize::from(is_left);
            j[lane] += usize::from(!is_left);
            into[step] = if is_left { *a } else { *b };
        }
    }
    for lane in 0..N {
        let Lane { left, right, into } = &mut lanes[lane];
        (*left, *right) = (&left[i[lane]..], &right[j[lane]..]);
        *into = &mut std::mem::take(into)[steps..];
    }
    lanes
}

/// Many sorted runs as one, by merging two and two: lg p times through all. Also says how many entries it has written.
///
/// All is written to and fro between two places: fresh memory costs as much as the merging.
pub fn merge_all(mut runs: Vec<Vec<Entry>>) -> (Vec<Entry>, u64) {
    if runs.len() <= 1 {
        return (runs.pop().unwrap_or_default(), 0);
    }
    let length = runs.iter().map(Vec::len).sum();
    let mut tile = Vec::new();
    let mut merged = Vec::with_capacity(length);
    let mut lengths = merge_pairs(runs.iter().map(Vec::as_slice), &mut merged, &mut tile);
    drop(runs);
    let mut work = length as u64;
    let mut other = Vec::new();
    while lengths.len() > 1 {
        other.clear();
        other.reserve_exact(length);
        let mut rest = &merged[..];
        let runs = lengths.iter().map(|length| rest.split_off(..*length).unwrap_or_default());
        lengths = merge_pairs(runs, &mut other, &mut tile);
        std::mem::swap(&mut merged, &mut other);
        work += length as u64;
    }
    (merged, work)
}

/// Merges two and two of these, one behind the other, and says how long the merged ones are.
fn merge_pairs<'a>(
    mut runs: impl Iterator<Item = &'a [Entry]>,
    merged: &mut Vec<Entry>,
    tile: &mut Vec<Entry>,
) -> Vec<usize> {
    let mut lengths = Vec::new();
    while let Some(left) = runs.next() {
        let right = runs.next().unwrap_or_default();
        Runs { left, right }.append_to(merged, tile);
        lengths.push(left.len() + right.len());
    }
    lengths
}

/// Runs that are merged while they come: each with the one before it that is not longer, so that each entry is written about
/// lg p times, as by [`merge_all`].
#[derive(Default)]
pub(super) struct Merging {
    runs: Vec<Vec<Entry>>,
    work: u64,
}

impl Merging {
    /// Takes a run in.
    pub(super) fn push(&mut self, mut run: Vec<Entry>) {
        while let Some(before) = self.runs.pop_if(|before| before.len() <= run.len()) {
            self.work += (before.len() + run.len()) as u64;
            run = merge(&before, &run);
        }
        self.runs.push(run);
    }

    /// All of them as one, and how many entries were written for it.
    pub(super) fn finish(mut self) -> (Vec<Entry>, u64) {
        self.runs.reverse();
        let (merged, work) = merge_all(self.runs);
        (merged, work + self.work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_become_one_in_both_ways() {
        let all: Vec<Entry> = (0..200).map(|i| Entry::new(Some(i * 7919 % 5), i as i32 % 11, i, i)).collect();
        let mut sorted = all.clone();
        sorted.sort_unstable();
        for parts in [1, 2, 3, 7, 50, 200] {
            let mut runs: Vec<Vec<Entry>> = all.chunks(all.len().div_ceil(parts)).map(<[Entry]>::to_vec).collect();
            runs.iter_mut().for_each(|run| run.sort_unstable());
            runs.insert(0, Vec::new());
            let mut merging = Merging::default();
            runs.iter().for_each(|run| merging.push(run.clone()));
            assert_eq!(merging.finish().0, sorted);
            assert_eq!(merge_all(runs).0, sorted);
        }
        assert_eq!(merge_all(Vec::new()), (Vec::new(), 0));
    }

    #[test]
    fn runs_longer_than_tiles_are_merged_too() {
        let entry = |i: usize| Entry::new(Some(0), (i as u32).wrapping_mul(2_654_435_761) as i32, i as u32, 0);
        let length = 2 * TILE + 77;
        // Alike, far apart, and of very different length.
        for (left, shift) in [(length / 2, 0), (length / 3, length), (1, 0), (length - 2, 0), (0, 0)] {
            let mut runs =
                [(0..left).map(entry).collect(), (left + shift..length + shift).map(entry).collect::<Vec<_>>()];
            runs.iter_mut().for_each(|run: &mut Vec<Entry>| run.sort_unstable());
            let mut sorted = runs.concat();
            sorted.sort_unstable();
            assert_eq!(merge(&runs[0], &runs[1]), sorted);
            assert_eq!(merge(&runs[1], &runs[0]), sorted);
        }
        let low: Vec<Entry> = (0..TILE as u32).map(|i| Entry::new(Some(0), i as i32, i, 0)).collect();
        let high: Vec<Entry> = (0..TILE as u32).map(|i| Entry::new(Some(1), i as i32, i, 0)).collect();
        assert!(merge(&high, &low).iter().eq(low.iter().chain(&high)));
    }
}
