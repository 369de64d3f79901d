//! Merging sorted runs.

use super::entry::Entry;

/// Two sorted runs as one.
pub fn merge(left: &[Entry], right: &[Entry]) -> Vec<Entry> {
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut i, mut j) = (0, 0);
    loop {
        // Neither can end within so many steps.
        let steps = (left.len() - i).min(right.len() - j);
        if steps == 0 {
            break;
        }
        merged.extend((0..steps).map(|_| {
            let (a, b) = (left[i], right[j]);
            // Which one is next is as good as random, so it is an index and no branch.
            let is_left = a < b;
            i += usize::from(is_left);
            j += usize::from(!is_left);
            if is_left { a } else { b }
        }));
    }
    merged.extend_from_slice(&left[i..]);
    merged.extend_from_slice(&right[j..]);
    merged
}

/// Many sorted runs as one, by merging two and two: lg p times through all. Also says how many entries it has written.
pub fn merge_all(mut runs: Vec<Vec<Entry>>) -> (Vec<Entry>, u64) {
    let mut work = 0;
    while runs.len() > 1 {
        let mut merged = Vec::with_capacity(runs.len().div_ceil(2));
        let mut rest = runs.into_iter();
        while let Some(left) = rest.next() {
            let Some(right) = rest.next() else {
                merged.push(left);
                break;
            };
            work += (left.len() + right.len()) as u64;
            merged.push(merge(&left, &right));
        }
        runs = merged;
    }
    (runs.pop().unwrap_or_default(), work)
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
}
