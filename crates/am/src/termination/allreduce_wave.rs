//! Allreduce (sum) of a few words: one wave of either detector, and of RandomAccess with buckets.
//!
//! Cost: ceil(log2 P) messages per rank, one after the other.   Any P.
//!
//! A [dissemination](treepie_comm::protocol::Dissemination): before round k rank i has the sum of the window of 2^k
//! ranks up to i, and receives that of the 2^k before them. If P is not a power of two, the windows of its set bits are
//! added: each message also carries the sum of P mod 2^k ranks. A sum must not count a rank twice, so one window does
//! not suffice.
//!
//! A rank that has the sum of a wave may start the next one before others have it. It cannot complete that without
//! them, so buffers for two waves suffice.

use std::time::Duration;

use treepie_base::{Bytes, Result};
use treepie_comm::protocol::{Disseminated, Dissemination, RingPosition};
use treepie_fabric::{Reactor, Transmit};

/// The words of a wave, or their sums.
type WaveWords = [u64; 4];

/// Bits of a tag for the round of a wave; the next bit is the parity of the wave.
const ROUND_BITS: u32 = 6;

/// The allreduce waves of one rank.
pub struct AllreduceWave {
    /// Parity of the current wave.
    current: usize,
    /// The current wave and the next, by parity.
    waves: [Dissemination<PartialSums>; 2],
}

impl AllreduceWave {
    /// Bits of the tags of its messages.
    pub const TAG_BITS: u32 = ROUND_BITS + 1;

    /// The waves of a rank.
    pub fn new(rank: u32, ranks: u32) -> Self {
        let wave = || Dissemination::new(RingPosition { rank, ranks }, PartialSums::new(ranks, WaveWords::default()));
        Self { current: 0, waves: [wave(), wave()] }
    }

    /// Resets to the first wave.
    pub fn reset(&mut self) {
        self.current = 0;
        self.waves.iter_mut().for_each(Dissemination::reset);
    }

    /// Whether this rank has joined the current wave.
    #[inline]
    pub fn has_begun(&self) -> bool {
        self.waves[self.current].has_begun()
    }

    /// Whether a message of a rank is needed for the current wave. All are until this rank has joined: no rank can have
    /// the sum before.
    pub fn needs(&self, rank: u32) -> bool {
        !self.has_begun() || self.waves[self.current].expects(rank)
    }

    /// Joins the wave with these words.
    pub fn begin(&mut self, words: [u64; 4]) {
        debug_assert!(!self.has_begun());
        let wave = &mut self.waves[self.current];
        wave.value = PartialSums::new(wave.position.ranks, words);
        wave.begin();
    }

    /// The next message.
    #[inline]
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        // Polled for every message of an epoch, and a wave is rare.
        if !self.has_begun() {
            return None;
        }
        let transmit = self.waves[self.current].poll_transmit()?;
        Some(Transmit { tag: (self.current as u32) << ROUND_BITS | transmit.tag, ..transmit })
    }

    /// Handles a message of [`poll_transmit`](Self::poll_transmit) of another rank.
    pub fn on_message(&mut self, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        let (round, wave) = (tag & ((1 << ROUND_BITS) - 1), tag >> ROUND_BITS);
        self.waves[wave as usize % 2].on_message(Duration::ZERO, from, round, bytes)
    }

    /// The sums over all ranks, once, if complete.
    #[inline]
    pub fn poll_sum(&mut self) -> Option<[u64; 4]> {
        let wave = &mut self.waves[self.current];
        if !wave.is_done() {
            return None;
        }
        wave.reset();
        self.current = 1 - self.current;
        let PartialSums { ranks, window, rest } = wave.value;
        Some(if ranks.is_power_of_two() { window } else { rest })
    }
}

/// The sums of the window of a rank, and of the last P mod 2^round ranks of it.
#[derive(Clone, Copy)]
struct PartialSums {
    ranks: u32,
    window: WaveWords,
    rest: WaveWords,
}

impl PartialSums {
    fn new(ranks: u32, window: WaveWords) -> Self {
        Self { ranks, window, rest: WaveWords::default() }
    }
}

impl Disseminated for PartialSums {
    type Message = [WaveWords; 2];

    fn encode(&mut self, _round: u32) -> Bytes {
        Bytes::from([self.window, self.rest].concat())
    }

    fn decode(&self, _round: u32, bytes: Bytes) -> Option<[WaveWords; 2]> {
        bytemuck::try_pod_read_unaligned(bytes.as_slice()).ok()
    }

    fn combine(&mut self, round: u32, [window, rest]: [WaveWords; 2]) {
        if self.ranks >> round & 1 == 1 {
            // This window, preceded by the sum of the lower bits from the rank before it.
            self.rest = add(self.window, rest);
        }
        self.window = add(self.window, window);
    }
}

fn add(a: WaveWords, b: WaveWords) -> WaveWords {
    std::array::from_fn(|i| a[i].wrapping_add(b[i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs waves on all ranks, with messages delivered in a random order.
    fn sums(ranks: u32, waves: u32, mut seed: u64) -> Vec<Vec<WaveWords>> {
        let mut all: Vec<AllreduceWave> = (0..ranks).map(|rank| AllreduceWave::new(rank, ranks)).collect();
        let mut results = vec![Vec::new(); ranks as usize];
        let mut in_flight: Vec<(u32, Transmit)> = Vec::new();
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize
        };
        while results.iter().any(|got: &Vec<WaveWords>| got.len() < waves as usize) {
            let rank = next() % ranks as usize;
            let wave_of_rank = &mut all[rank];
            if !wave_of_rank.has_begun() && results[rank].len() < waves as usize {
                let wave = results[rank].len() as u64;
                wave_of_rank.begin([1, rank as u64, wave, rank as u64 * wave]);
            }
            in_flight.extend(wave_of_rank.poll_transmit().map(|transmit| (rank as u32, transmit)));
            if let Some(sum) = wave_of_rank.poll_sum() {
                results[rank].push(sum);
            }
            if !in_flight.is_empty() {
                let (from, Transmit { to, tag, bytes, .. }) = in_flight.swap_remove(next() % in_flight.len());
                all[to as usize].on_message(from, tag, bytes).unwrap();
            }
        }
        results
    }

    #[test]
    fn all_get_the_sum_of_all() {
        for ranks in 1..=33_u32 {
            for seed in 0..4 {
                let r = u64::from(ranks);
                let of_ranks = r * (r - 1) / 2;
                let expected: Vec<WaveWords> = (0..5).map(|wave| [r, of_ranks, r * wave, of_ranks * wave]).collect();
                for got in sums(ranks, 5, seed) {
                    assert_eq!(got, expected, "{ranks} ranks, seed {seed}");
                }
            }
        }
    }
}
