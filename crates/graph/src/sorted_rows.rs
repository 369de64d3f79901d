//! Sorted rows of global ids: what becomes the CSR of a rank, by way of buckets of rows.
//!
//! An arc that arrives goes to the bucket of its row, as a key: the row within the bucket, and the target. Keys have 4 bytes if that
//! is enough, and otherwise 8. Keys of a bucket, which mostly fit the cache, are sorted, so that neither rows nor arcs are visited
//! in random order in memory, and their memory is freed before the next bucket is sorted.

use std::fmt::Debug;
use std::ops::Range;

use treepie_base::Pod;
use treepie_base::memory::{with_capacity, zeroed};
use treepie_base::{Result, trim_heap};

use crate::csr::{CooEdge, ROWS_PURPOSE};

/// What memory is allocated for, in error messages.
const ARCS_PURPOSE: &str = "the arcs of a rank";

/// An unsigned integer that holds a key, or a global id.
pub(crate) trait Word: Pod + Ord + Debug + Into<u64> {
    /// The low bits.
    fn from_low_bits(bits: u64) -> Self;
}

impl Word for u32 {
    #[inline(always)]
    fn from_low_bits(bits: u64) -> Self {
        bits as u32
    }
}

impl Word for u64 {
    #[inline(always)]
    fn from_low_bits(bits: u64) -> Self {
        bits
    }
}

/// The type of global ids, and the messages that take an arc to its row.
pub(crate) trait GlobalId: Word {
    /// Without a weight.
    type Arc: ArcMessage;
    /// With a weight.
    type WeightedArc: ArcMessage;
}

impl GlobalId for u32 {
    type Arc = [u32; 2];
    type WeightedArc = [u32; 3];
}

impl GlobalId for u64 {
    type Arc = CooEdge;
    type WeightedArc = CooEdge;
}

/// A message with an arc, to the owner of its row.
pub(crate) trait ArcMessage: Pod {
    fn new(arc: CooEdge) -> Self;
    fn arc(&self) -> CooEdge;
}

impl ArcMessage for [u32; 2] {
    #[inline(always)]
    fn new(CooEdge { target, row, .. }: CooEdge) -> Self {
        [row, target as u32]
    }

    #[inline(always)]
    fn arc(&self) -> CooEdge {
        CooEdge { target: self[1].into(), row: self[0], weight_bits: 0 }
    }
}

impl ArcMessage for [u32; 3] {
    #[inline(always)]
    fn new(CooEdge { target, row, weight_bits }: CooEdge) -> Self {
        [row, target as u32, weight_bits]
    }

    #[inline(always)]
    fn arc(&self) -> CooEdge {
        CooEdge { target: self[1].into(), row: self[0], weight_bits: self[2] }
    }
}

impl ArcMessage for CooEdge {
    #[inline(always)]
    fn new(arc: CooEdge) -> Self {
        arc
    }

    #[inline(always)]
    fn arc(&self) -> CooEdge {
        *self
    }
}

/// The rows of a rank, sorted: in each row local targets come first, then remote ones.
#[derive(Debug)]
pub(crate) struct SortedRows<T> {
    /// The first arc of each row, then the number of arcs.
    pub(crate) offsets: Vec<u64>,
    /// Global ids.
    pub(crate) targets: Vec<T>,
    /// The bits of the weights; none if there are no weights.
    pub(crate) weight_bits: Vec<u32>,
}

impl<T: Copy> SortedRows<T> {
    /// No rows.
    pub(crate) fn none() -> Self {
        Self { offsets: vec![0], targets: Vec::new(), weight_bits: Vec::new() }
    }

    /// The arcs of a row.
    pub(crate) fn arcs(&self, row: usize) -> Range<usize> {
        self.offsets[row] as usize..self.offsets[row + 1] as usize
    }

    /// The targets of a row.
    pub(crate) fn row(&self, row: usize) -> &[T] {
        &self.targets[self.arcs(row)]
    }

    /// The weight bits of an arc.
    #[inline]
    pub(crate) fn weight_bits(&self, arc: usize) -> u32 {
        self.weight_bits.get(arc).copied().unwrap_or(0)
    }

    /// Removes the last `count(row)` arcs of each row.
    pub(crate) fn truncate_rows(&mut self, mut count: impl FnMut(usize) -> usize) {
        let (mut len, mut begin) = (0, 0);
        for row in 0..self.offsets.len() - 1 {
            let end = self.offsets[row + 1] as usize;
            let kept = begin..end - count(row);
            begin = end;
            self.targets.copy_within(kept.clone(), len);
            if !self.weight_bits.is_empty() {
                self.weight_bits.copy_within(kept.clone(), len);
            }
            len += kept.len();
            self.offsets[row + 1] = len as u64;
        }
        self.targets.truncate(len);
        self.weight_bits.truncate(len);
    }
}

/// Buckets of a rank, at most.
const BUCKETS: u64 = 512;

/// Keys of the first chunk of a bucket, and of the largest; each has four times as many as the one before.
const FIRST_CHUNK: usize = 8;
const CHUNK: usize = 2048;

/// How often freed memory is returned to the system, and the least number of bytes at a time. The allocator would keep it, and
/// the rows are one large allocation.
const TRIMS: usize = 8;
const TRIMMED_BYTES: usize = 16 << 20;

/// Arcs of a rank, in the order in which they arrive.
pub(crate) struct ArcBuckets {
    packing: Packing,
    buckets: Buckets,
    len: usize,
}

/// How an arc becomes a key.
#[derive(Clone)]
struct Packing {
    rows: usize,
    local: Range<u64>,
    vertices: u64,
    has_weights: bool,
    row_bits: u32,
    target_bits: u32,
}

enum Buckets {
    Narrow(Vec<Bucket<u32>>),
    Wide(Vec<Bucket<u64>>),
}

/// The arcs of some rows.
struct Bucket<K> {
    /// Full chunks, and the last one, which is not.
    chunks: Vec<Vec<K>>,
    /// Their weights.
    weights: Vec<Vec<u32>>,
}

impl<K> Bucket<K> {
    fn new() -> Self {
        Self { chunks: Vec::new(), weights: Vec::new() }
    }
}

impl ArcBuckets {
    /// For rows of `local` vertices out of `vertices`.
    pub(crate) fn new(rows: usize, local: Range<u64>, vertices: u64, has_weights: bool) -> Self {
        let target_bits = u64::BITS - vertices.saturating_sub(1).leading_zeros();
        let row_bits = (rows as u64).div_ceil(BUCKETS).max(1).next_power_of_two().ilog2().min(u64::BITS - target_bits);
        let count = rows.div_ceil(1 << row_bits);
        let buckets = if row_bits + target_bits <= u32::BITS {
            Buckets::Narrow((0..count).map(|_| Bucket::new()).collect())
        } else {
            Buckets::Wide((0..count).map(|_| Bucket::new()).collect())
        };
        Self { packing: Packing { rows, local, vertices, has_weights, row_bits, target_bits }, buckets, len: 0 }
    }

    /// Adds arcs.
    pub(crate) fn extend<M: ArcMessage>(&mut self, arcs: &[M]) {
        match &mut self.buckets {
            Buckets::Narrow(buckets) => self.packing.extend(buckets, arcs),
            Buckets::Wide(buckets) => self.packing.extend(buckets, arcs),
        }
        self.len += arcs.len();
    }

    /// Sorts the rows. With `dedupe`, the lightest one of parallel arcs stays. If it `trims`, freed memory is returned to the
    /// system.
    pub(crate) fn into_rows<T: Word>(self, dedupe: bool, trims: bool) -> Result<SortedRows<T>> {
        match self.buckets {
            Buckets::Narrow(buckets) => self.packing.sort(buckets, self.len, dedupe, trims),
            Buckets::Wide(buckets) => self.packing.sort(buckets, self.len, dedupe, trims),
        }
    }
}

impl Packing {
    #[inline]
    fn extend<K: Word, M: ArcMessage>(&self, buckets: &mut [Bucket<K>], arcs: &[M]) {
        let row_mask = (1 << self.row_bits) - 1;
        for arc in arcs {
            let CooEdge { target, row, weight_bits } = arc.arc();
            // Relative to the first local vertex, local targets sort first and those before it last.
            let target = match target.checked_sub(self.local.start) {
                Some(target) => target,
                None => target + (self.vertices - self.local.start),
            };
            let key = u64::from(row & row_mask) << self.target_bits | target;
            let bucket = &mut buckets[(row >> self.row_bits) as usize];
            push(&mut bucket.chunks, K::from_low_bits(key));
            if self.has_weights {
                push(&mut bucket.weights, weight_bits);
            }
        }
    }

    fn sort<K: Word, T: Word>(
        &self,
        buckets: Vec<Bucket<K>>,
        len: usize,
        dedupe: bool,
        trims: bool,
    ) -> Result<SortedRows<T>> {
        let all_bytes = len * (size_of::<K>() + if self.has_weights { 4 } else { 0 });
        let trimmed_bytes = if trims { TRIMMED_BYTES.max(all_bytes / TRIMS) } else { usize::MAX };
        let mut offsets = zeroed::<u64>(self.rows + 1, ROWS_PURPOSE)?;
        // Before duplicates are removed; memory that is not written takes no pages.
        let mut targets = with_capacity::<T>(len, ARCS_PURPOSE)?;
        let mut weight_bits = with_capacity::<u32>(if self.has_weights { len } else { 0 }, ARCS_PURPOSE)?;
        let (mut keys, mut weighted, mut freed) = (Vec::new(), Vec::new(), 0);
        let target_mask = (1 << self.target_bits) - 1;
        let target_of = |key: K| {
            let target = self.local.start + (key.into() & target_mask);
            T::from_low_bits(if target < self.vertices { target } else { target - self.vertices })
        };
        for (bucket, first_row) in buckets.into_iter().zip((0..).step_by(1 << self.row_bits)) {
            let row_of = |key: K| first_row + (key.into() >> self.target_bits) as usize;
            freed += bucket.chunks.iter().map(|chunk| size_of::<K>() * chunk.capacity()).sum::<usize>();
            freed += bucket.weights.iter().map(|chunk| 4 * chunk.capacity()).sum::<usize>();
            if self.has_weights {
                weighted.clear();
                let weights = bucket.weights.iter().flatten().copied();
                weighted.extend(bucket.chunks.iter().flatten().copied().zip(weights));
                drop(bucket);
                weighted.sort_unstable();
                if dedupe {
                    // The first of parallel arcs is the lightest.
                    weighted.dedup_by_key(|(key, _)| *key);
                }
                weighted.iter().for_each(|(key, _)| offsets[row_of(*key) + 1] += 1);
                targets.extend(weighted.iter().map(|(key, _)| target_of(*key)));
                weight_bits.extend(weighted.iter().map(|(_, weight)| *weight));
            } else {
                keys.clear();
                bucket.chunks.iter().for_each(|chunk| keys.extend_from_slice(chunk));
                drop(bucket);
                keys.sort_unstable();
                if dedupe {
                    keys.dedup();
                }
                keys.iter().for_each(|key| offsets[row_of(*key) + 1] += 1);
                targets.extend(keys.iter().map(|key| target_of(*key)));
            }
            if freed >= trimmed_bytes {
                trim_heap();
                freed = 0;
            }
        }
        for row in 0..self.rows {
            offsets[row + 1] += offsets[row];
        }
        Ok(SortedRows { offsets, targets, weight_bits })
    }
}

/// Appends to the last chunk.
#[inline]
fn push<T>(chunks: &mut Vec<Vec<T>>, value: T) {
    match chunks.last_mut() {
        Some(chunk) if chunk.len() < chunk.capacity() => chunk.push(value),
        _ => push_to_new_chunk(chunks, value),
    }
}

#[cold]
fn push_to_new_chunk<T>(chunks: &mut Vec<Vec<T>>, value: T) {
    let len = chunks.last().map_or(FIRST_CHUNK, |chunk| (4 * chunk.len()).min(CHUNK));
    let mut chunk = Vec::with_capacity(len);
    chunk.push(value);
    chunks.push(chunk);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(edges: &[CooEdge], dedupe: bool) -> SortedRows<u64> {
        let mut buckets = ArcBuckets::new(3, 4..7, 10, true);
        buckets.extend(edges);
        buckets.into_rows(dedupe, false).unwrap()
    }

    fn arc(row: u32, target: u64, weight_bits: u32) -> CooEdge {
        CooEdge { target, row, weight_bits }
    }

    #[test]
    fn local_targets_come_first_and_the_lightest_parallel_edge_stays() {
        let edges = [arc(2, 1, 0), arc(0, 9, 5), arc(0, 4, 7), arc(0, 9, 3), arc(0, 2, 1), arc(2, 5, 0)];
        let rows = sorted(&edges, false);
        assert_eq!((&rows.offsets[..], &rows.targets[..]), (&[0, 4, 4, 6][..], &[4, 9, 9, 2, 5, 1][..]));
        assert_eq!(rows.weight_bits, [7, 3, 5, 1, 0, 0]);
        let rows = sorted(&edges, true);
        assert_eq!((&rows.offsets[..], &rows.targets[..]), (&[0, 3, 3, 5][..], &[4, 9, 2, 5, 1][..]));
        assert_eq!(rows.weight_bits, [7, 3, 1, 0, 0]);
    }

    /// Keys of 4 bytes and of 8, messages of all kinds.
    #[test]
    fn arcs_of_many_buckets_are_those_of_a_sort() {
        check_sort::<u32>(1000, 0, 1000);
        check_sort::<u32>(300_000, 50_000, 400_000);
        check_sort::<u32>(300_000, 1_000_000, u32::MAX.into());
        check_sort::<u64>(300_000, 1_000_000, (1 << 40) + 3);
    }

    fn check_sort<T: GlobalId>(rows: u64, first: u64, vertices: u64) {
        let arcs: Vec<CooEdge> = (0..200_000u64)
            .map(|number| {
                let hash = crate::hash::splitmix64(number / 2);
                arc((hash % rows) as u32, (hash >> 20) % vertices, (number % 3) as u32)
            })
            .collect();
        for has_weights in [false, true] {
            let mut buckets = ArcBuckets::new(rows as usize, first..first + rows, vertices, has_weights);
            for some in arcs.chunks(1000) {
                if has_weights {
                    buckets.extend(&some.iter().copied().map(T::WeightedArc::new).collect::<Vec<_>>());
                } else {
                    buckets.extend(&some.iter().copied().map(T::Arc::new).collect::<Vec<_>>());
                }
            }
            let sorted = buckets.into_rows::<T>(true, true).unwrap();
            let mut expected: Vec<(u32, u64, u64, u32)> = arcs
                .iter()
                .map(|arc| {
                    let relative = (arc.target + vertices - first) % vertices;
                    (arc.row, relative, arc.target, if has_weights { arc.weight_bits } else { 0 })
                })
                .collect();
            expected.sort_unstable();
            expected.dedup_by_key(|(row, relative, ..)| (*row, *relative));
            let found = (0..rows as usize).flat_map(|row| sorted.arcs(row).map(move |arc| (row, arc)));
            let found: Vec<(u32, u64, u32)> =
                found.map(|(row, arc)| (row as u32, sorted.targets[arc].into(), sorted.weight_bits(arc))).collect();
            assert!(expected.iter().map(|(row, _, target, weight)| (*row, *target, *weight)).eq(found));
        }
    }

    #[test]
    fn ends_of_rows_are_removed() {
        let (offsets, targets) = (vec![0, 3, 3, 7, 8], (0..8_u64).collect());
        let mut rows = SortedRows { offsets, targets, weight_bits: (10..18).collect() };
        rows.truncate_rows(|_| 0);
        assert_eq!((&rows.offsets[..], rows.targets.len()), (&[0, 3, 3, 7, 8][..], 8));
        rows.truncate_rows(|row| [2, 0, 3, 0][row]);
        assert_eq!((&rows.offsets[..], &rows.targets[..]), (&[0, 1, 1, 2, 3][..], &[0, 3, 7][..]));
        assert_eq!(rows.weight_bits, [10, 13, 17]);
    }
}
