//! Allreduce (sum) of a few words: one wave of either detector.
//!
//! Cost: ceil(log2 P) messages per rank, one after the other.   Any P.
//!
//! After round k rank i has the sum of the window of 2^k ranks from i on, and receives that of the next 2^k from rank
//! i + 2^k. If P is not a power of two, the windows of its set bits are added: each message also carries the sum of P mod
//! 2^k ranks. A sum must not count a rank twice, so plain dissemination does not suffice.
//!
//! A rank that has the sum of a wave may start the next one before others have it. It cannot complete that without
//! them, so buffers for two waves suffice.

/// The number of words summed.
pub(crate) const WORDS: usize = 4;

/// The words of a wave, or their sums.
pub(crate) type WaveWords = [u64; WORDS];

/// Bits of a tag for the round of a wave; the next bit is the parity of the wave.
const ROUND_BITS: u32 = 6;

/// The allreduce waves of one rank.
pub(crate) struct AllreduceWave {
    rank: u32,
    ranks: u32,
    /// Completed waves.
    wave: u32,
    /// The current wave, if this rank has joined it.
    active: Option<ActiveWave>,
    /// Received messages of this wave and the next, by round.
    received: [Vec<Option<[WaveWords; 2]>>; 2],
    /// The message to send: destination, tag and words.
    outgoing: Option<(u32, u32, Vec<u64>)>,
}

struct ActiveWave {
    round: u32,
    /// The sum of 2^round ranks from this one on.
    window: WaveWords,
    /// The sum of the first P mod 2^round of them.
    rest: WaveWords,
}

impl AllreduceWave {
    pub(crate) fn new(rank: u32, ranks: u32) -> Self {
        let rounds = ranks.next_power_of_two().ilog2() as usize;
        let received = || vec![None; rounds];
        Self { rank, ranks, wave: 0, active: None, received: [received(), received()], outgoing: None }
    }

    /// Resets to the first wave.
    pub(crate) fn reset(&mut self) {
        (self.wave, self.active, self.outgoing) = (0, None, None);
        self.received.iter_mut().for_each(|received| received.fill(None));
    }

    /// Whether this rank has joined the current wave.
    pub(crate) fn has_begun(&self) -> bool {
        self.active.is_some()
    }

    /// Whether a message of a rank is needed for the current wave. All are until this rank has joined: no rank can have
    /// the sum before.
    pub(crate) fn needs(&self, rank: u32) -> bool {
        let Some(active) = &self.active else { return true };
        let received = &self.received[self.wave as usize % 2];
        (active.round..received.len() as u32)
            .any(|round| received[round as usize].is_none() && (self.rank + (1 << round)) % self.ranks == rank)
    }

    /// Joins the wave with these words.
    pub(crate) fn begin(&mut self, words: WaveWords) {
        debug_assert!(!self.has_begun());
        self.active = Some(ActiveWave { round: 0, window: words, rest: [0; WORDS] });
        self.send_partial_sum();
    }

    /// The next message.
    pub(crate) fn poll_transmit(&mut self) -> Option<(u32, u32, Vec<u64>)> {
        self.outgoing.take()
    }

    pub(crate) fn on_message(&mut self, tag: u32, words: &[u64]) {
        let (round, wave) = (tag & ((1 << ROUND_BITS) - 1), tag >> ROUND_BITS);
        let (window, rest) = words.split_at(WORDS.min(words.len()));
        let partial_sums = [window, rest].map(|part| part.try_into().unwrap_or_default());
        if let Some(entry) = self.received[wave as usize % 2].get_mut(round as usize) {
            *entry = Some(partial_sums);
        }
    }

    /// Queues the message of this round, to the rank 2^round behind.
    fn send_partial_sum(&mut self) {
        let Some(ActiveWave { round, window, rest }) = &self.active else { return };
        if self.received[0].len() as u32 > *round {
            let to = (self.rank + self.ranks - (1 << round) % self.ranks) % self.ranks;
            let tag = (self.wave % 2) << ROUND_BITS | round;
            self.outgoing = Some((to, tag, [*window, *rest].concat()));
        }
    }

    /// The sums over all ranks, once, if complete. Queues at most one message at a time.
    pub(crate) fn poll_sum(&mut self) -> Option<WaveWords> {
        let rounds = self.received[0].len() as u32;
        while self.outgoing.is_none() {
            let active = self.active.as_mut()?;
            if active.round == rounds {
                let sum = if self.ranks.is_power_of_two() { active.window } else { active.rest };
                self.active = None;
                self.received[self.wave as usize % 2].fill(None);
                self.wave += 1;
                return Some(sum);
            }
            let [window, rest] = self.received[self.wave as usize % 2][active.round as usize]?;
            if self.ranks >> active.round & 1 == 1 {
                // This window, followed by the sum of the lower bits from the rank behind it.
                active.rest = add(active.window, rest);
            }
            active.window = add(active.window, window);
            active.round += 1;
            self.send_partial_sum();
        }
        None
    }
}

pub(super) fn add(a: WaveWords, b: WaveWords) -> WaveWords {
    std::array::from_fn(|i| a[i].wrapping_add(b[i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs waves on all ranks, with messages delivered in a random order.
    fn sums(ranks: u32, waves: u32, mut seed: u64) -> Vec<Vec<WaveWords>> {
        let mut all: Vec<AllreduceWave> = (0..ranks).map(|rank| AllreduceWave::new(rank, ranks)).collect();
        let mut results = vec![Vec::new(); ranks as usize];
        let mut in_flight: Vec<(u32, u32, Vec<u64>)> = Vec::new();
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
            in_flight.extend(wave_of_rank.poll_transmit());
            if let Some(sum) = wave_of_rank.poll_sum() {
                results[rank].push(sum);
            }
            if !in_flight.is_empty() {
                let (to, tag, words) = in_flight.swap_remove(next() % in_flight.len());
                all[to as usize].on_message(tag, &words);
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
