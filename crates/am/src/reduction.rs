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

/// Whether an adaptive cache is in use: a sample of messages now and then tells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampling {
    /// In use.
    pub(crate) is_on: bool,
    /// Buffers until the next sample, while it is off.
    wait: u32,
    /// How long to wait after the next sample in vain.
    patience: u32,
    /// Messages and hits of what goes on.
    offered: u64,
    combined: u64,
}

/// Messages of a sample: four times the cache's entries, as the first ones only fill it.
const SAMPLE_OF_ENTRIES: u64 = 4;

/// Buffers between samples, at first and at most. A sample of a few thousand messages in a hundred buffers of two thousand
/// costs less than a hundredth.
const WAIT: (u32, u32) = (16, 512);

/// Where so many of a hundred messages are combined, looking for them is worth while.
const WORTH: u64 = 30;

impl Sampling {
    pub(crate) fn new() -> Self {
        Self { is_on: false, wait: WAIT.0, patience: WAIT.0, offered: 0, combined: 0 }
    }

    /// A buffer was sent while the cache was off. True: use it from now on.
    pub(crate) fn sent_without(&mut self) -> bool {
        self.wait = self.wait.saturating_sub(1);
        if self.wait == 0 {
            (self.is_on, self.offered, self.combined) = (true, 0, 0);
        }
        self.is_on
    }

    /// A message was offered to the cache. False: stop using it.
    #[inline]
    pub(crate) fn offered(&mut self, combined: bool, entries: usize) -> bool {
        self.offered += 1;
        self.combined += u64::from(combined);
        if self.offered < SAMPLE_OF_ENTRIES * entries as u64 {
            return true;
        }
        self.judge()
    }

    #[cold]
    fn judge(&mut self) -> bool {
        self.is_on = self.combined * 100 >= WORTH * self.offered;
        self.patience = if self.is_on { WAIT.0 } else { (self.patience * 2).min(WAIT.1) };
        self.wait = self.patience;
        (self.offered, self.combined) = (0, 0);
        self.is_on
    }
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

    #[test]
    fn a_cache_that_does_not_pay_is_sampled_ever_more_seldom() {
        let mut sampling = Sampling::new();
        let mut waits = Vec::new();
        for _ in 0..8 {
            let mut buffers = 1;
            while !sampling.sent_without() {
                buffers += 1;
            }
            waits.push(buffers);
            while sampling.offered(false, 64) {}
        }
        assert_eq!(waits, [16, 32, 64, 128, 256, 512, 512, 512]);
        while !sampling.sent_without() {}
        assert!((0..10_000).all(|i| sampling.offered(i % 2 == 0, 64)));
    }
}
