//! Reductions: a direct-mapped cache per neighbor combines messages with the same key before they are sent.
//!
//! A message stays in its entry until one with another key evicts it, and is sent then. One with the same key and
//! destination is combined with it and never sent. An idle rank flushes its caches. Ranks also combine the messages
//! that they forward.

use bytemuck::Pod;

/// The outcome of inserting a message into a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheOutcome {
    /// Combined with a cached message.
    Combined,
    /// Inserted into an empty entry.
    Inserted,
    /// Inserted; the evicted message is to be sent to this rank, and its bytes have replaced those of the new one.
    Evicted(u32),
}

/// The caches of a message type, one per neighbor; independent of the Rust type.
pub(crate) trait ReductionCache {
    /// Inserts a message into the cache of a neighbor.
    fn insert(&mut self, neighbor: usize, to: u32, message: &mut [u8]) -> CacheOutcome;

    /// Drains the cache of a neighbor.
    fn drain(&mut self, neighbor: usize, sink: &mut dyn FnMut(u32, &[u8]));

    /// Sets the number of neighbors and of entries per cache, a power of two. The caches must be empty.
    fn resize(&mut self, neighbors: usize, entries: usize);

    /// Bytes of an allocated cache.
    fn bytes_per_cache(&self) -> usize;
}

struct Entry<M> {
    /// The destination; `EMPTY` if there is no message.
    to: u32,
    key: u64,
    message: M,
}

const EMPTY: u32 = u32::MAX;

/// Direct-mapped caches of messages `M` with keys `K`, combined by `C`.
pub(crate) struct DirectMappedCaches<M, K, C> {
    key: K,
    combine: C,
    entries: usize,
    /// By neighbor; allocated at the first use.
    caches: Vec<Vec<Entry<M>>>,
}

impl<M, K, C> DirectMappedCaches<M, K, C> {
    pub(crate) fn new(key: K, combine: C) -> Self {
        Self { key, combine, entries: 1, caches: Vec::new() }
    }
}

impl<M: Pod, K: Fn(&M) -> u64, C: FnMut(&mut M, &M)> ReductionCache for DirectMappedCaches<M, K, C> {
    #[inline]
    fn insert(&mut self, neighbor: usize, to: u32, bytes: &mut [u8]) -> CacheOutcome {
        let message: M = bytemuck::pod_read_unaligned(bytes);
        let key = (self.key)(&message);
        let entries = &mut self.caches[neighbor];
        if entries.is_empty() {
            let empty = || Entry { to: EMPTY, key: 0, message: M::zeroed() };
            entries.resize_with(self.entries, empty);
        }
        let slot = hash(key) as usize & (entries.len() - 1);
        let entry = &mut entries[slot];
        if entry.to == to && entry.key == key {
            (self.combine)(&mut entry.message, &message);
            return CacheOutcome::Combined;
        }
        let evicted = std::mem::replace(entry, Entry { to, key, message });
        if evicted.to == EMPTY {
            return CacheOutcome::Inserted;
        }
        bytes.copy_from_slice(bytemuck::bytes_of(&evicted.message));
        CacheOutcome::Evicted(evicted.to)
    }

    fn drain(&mut self, neighbor: usize, sink: &mut dyn FnMut(u32, &[u8])) {
        for entry in &mut self.caches[neighbor] {
            let to = std::mem::replace(&mut entry.to, EMPTY);
            if to != EMPTY {
                sink(to, bytemuck::bytes_of(&entry.message));
            }
        }
    }

    fn resize(&mut self, neighbors: usize, entries: usize) {
        self.entries = entries.next_power_of_two();
        self.caches.clear();
        self.caches.resize_with(neighbors, Vec::new);
    }

    fn bytes_per_cache(&self) -> usize {
        self.entries * size_of::<Entry<M>>()
    }
}

/// Multiplicative hash: keys are often consecutive, or multiples of a number.
#[inline]
fn hash(key: u64) -> u64 {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    type Sums<K> = DirectMappedCaches<[u32; 2], K, fn(&mut [u32; 2], &[u32; 2])>;

    fn sums() -> Sums<impl Fn(&[u32; 2]) -> u64> {
        let mut caches: Sums<_> = DirectMappedCaches::new(|m: &[u32; 2]| u64::from(m[0]), |into, m| into[1] += m[1]);
        caches.resize(2, 4);
        caches
    }

    fn insert(
        caches: &mut dyn ReductionCache,
        neighbor: usize,
        to: u32,
        message: [u32; 2],
    ) -> (CacheOutcome, [u32; 2]) {
        let mut bytes = bytemuck::bytes_of(&message).to_vec();
        let outcome = caches.insert(neighbor, to, &mut bytes);
        (outcome, bytemuck::pod_read_unaligned(&bytes))
    }

    #[test]
    fn equal_keys_for_one_rank_are_combined_and_nothing_is_lost() {
        let mut caches = sums();
        assert_eq!(insert(&mut caches, 0, 7, [3, 1]).0, CacheOutcome::Inserted);
        assert_eq!(insert(&mut caches, 0, 7, [3, 10]).0, CacheOutcome::Combined);
        // The same key with another destination is another message.
        assert_eq!(insert(&mut caches, 0, 8, [3, 100]), (CacheOutcome::Evicted(7), [3, 11]));
        assert_eq!(insert(&mut caches, 1, 7, [3, 1000]).0, CacheOutcome::Inserted);
        let mut left = Vec::new();
        (0..2).for_each(|neighbor| {
            caches.drain(neighbor, &mut |to, bytes| left.push((to, bytemuck::pod_read_unaligned::<[u32; 2]>(bytes))));
        });
        assert_eq!(left, [(8, [3, 100]), (7, [3, 1000])]);
        caches.drain(0, &mut |_, _| panic!("the cache is empty"));
    }
}
