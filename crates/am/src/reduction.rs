//! Reductions: messages with the same key are combined before they are sent, in a direct-mapped cache for each neighbour.
//!
//! A message stays in its place of the cache until one with another key comes to that place, which sends it on; one with the
//! same key and destination is combined with it and never sent. When there is nothing else to do the cache is emptied. Ranks
//! that pass messages on do the same with what passes.

use bytemuck::Pod;

/// What became of a message that was offered to a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offered {
    /// It was combined with one that is kept.
    Combined,
    /// It is kept.
    Kept,
    /// It is kept, and the one that was there before is to be sent to this rank: its bytes are where those of the new one were.
    Evicted(u32),
}

/// A cache of a type's messages for each neighbour, whatever their type is.
pub(crate) trait Reducing {
    /// Offers a message to the cache for a neighbour.
    fn offer(&mut self, neighbour: usize, to: u32, message: &mut [u8]) -> Offered;

    /// Takes everything out of the cache for a neighbour.
    fn drain(&mut self, neighbour: usize, sink: &mut dyn FnMut(u32, &[u8]));

    /// Makes caches of so many entries, a power of two, for so many neighbours. They must be empty.
    fn resize(&mut self, neighbours: usize, entries: usize);

    /// Bytes of a cache that is in use.
    fn bytes_of_one(&self) -> usize;
}

struct Entry<M> {
    /// The destination; nobody if the place is empty.
    to: u32,
    key: u64,
    message: M,
}

const NOBODY: u32 = u32::MAX;

/// Caches of messages `M` with keys `K`, combined by `C`.
pub(crate) struct Caches<M, K, C> {
    key: K,
    combine: C,
    entries: usize,
    /// Of each neighbour; without memory until it is first used.
    of: Vec<Vec<Entry<M>>>,
}

impl<M, K, C> Caches<M, K, C> {
    pub(crate) fn new(key: K, combine: C) -> Self {
        Self { key, combine, entries: 1, of: Vec::new() }
    }
}

impl<M: Pod, K: Fn(&M) -> u64, C: FnMut(&mut M, &M)> Reducing for Caches<M, K, C> {
    #[inline]
    fn offer(&mut self, neighbour: usize, to: u32, bytes: &mut [u8]) -> Offered {
        let message: M = bytemuck::pod_read_unaligned(bytes);
        let key = (self.key)(&message);
        let entries = &mut self.of[neighbour];
        if entries.is_empty() {
            let empty = || Entry { to: NOBODY, key: 0, message: M::zeroed() };
            entries.resize_with(self.entries, empty);
        }
        let place = scatter(key) as usize & (entries.len() - 1);
        let entry = &mut entries[place];
        if entry.to == to && entry.key == key {
            (self.combine)(&mut entry.message, &message);
            return Offered::Combined;
        }
        let before = std::mem::replace(entry, Entry { to, key, message });
        if before.to == NOBODY {
            return Offered::Kept;
        }
        bytes.copy_from_slice(bytemuck::bytes_of(&before.message));
        Offered::Evicted(before.to)
    }

    fn drain(&mut self, neighbour: usize, sink: &mut dyn FnMut(u32, &[u8])) {
        for entry in &mut self.of[neighbour] {
            let to = std::mem::replace(&mut entry.to, NOBODY);
            if to != NOBODY {
                sink(to, bytemuck::bytes_of(&entry.message));
            }
        }
    }

    fn resize(&mut self, neighbours: usize, entries: usize) {
        self.entries = entries.next_power_of_two();
        self.of.clear();
        self.of.resize_with(neighbours, Vec::new);
    }

    fn bytes_of_one(&self) -> usize {
        self.entries * size_of::<Entry<M>>()
    }
}

/// Keys are often consecutive numbers, or multiples of some.
#[inline]
fn scatter(key: u64) -> u64 {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    type Sums<K> = Caches<[u32; 2], K, fn(&mut [u32; 2], &[u32; 2])>;

    fn sums() -> Sums<impl Fn(&[u32; 2]) -> u64> {
        let mut caches: Sums<_> = Caches::new(|m: &[u32; 2]| u64::from(m[0]), |into, m| into[1] += m[1]);
        caches.resize(2, 4);
        caches
    }

    fn offer(caches: &mut dyn Reducing, neighbour: usize, to: u32, message: [u32; 2]) -> (Offered, [u32; 2]) {
        let mut bytes = bytemuck::bytes_of(&message).to_vec();
        let offered = caches.offer(neighbour, to, &mut bytes);
        (offered, bytemuck::pod_read_unaligned(&bytes))
    }

    #[test]
    fn equal_keys_for_one_rank_are_combined_and_nothing_is_lost() {
        let mut caches = sums();
        assert_eq!(offer(&mut caches, 0, 7, [3, 1]).0, Offered::Kept);
        assert_eq!(offer(&mut caches, 0, 7, [3, 10]).0, Offered::Combined);
        // The same key for somebody else is another message.
        assert_eq!(offer(&mut caches, 0, 8, [3, 100]), (Offered::Evicted(7), [3, 11]));
        assert_eq!(offer(&mut caches, 1, 7, [3, 1000]).0, Offered::Kept);
        let mut left = Vec::new();
        (0..2).for_each(|neighbour| {
            caches.drain(neighbour, &mut |to, bytes| left.push((to, bytemuck::pod_read_unaligned::<[u32; 2]>(bytes))));
        });
        assert_eq!(left, [(8, [3, 100]), (7, [3, 1000])]);
        caches.drain(0, &mut |_, _| panic!("it is empty"));
    }
}
