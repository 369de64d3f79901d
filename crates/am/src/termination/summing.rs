//! Sums of words over all ranks, on all of them: one wave of either detector.
//!
//! Cost: ceil(log2 P) messages of each rank, one after the other.   Any P.
//!
//! Rank i knows the sum of the window of 2^k ranks from i on, and gets that of the next 2^k from rank i + 2^k. Where P is no
//! power of two, windows that add up to P are put together from its bits: beside the window of 2^k goes the one of P mod 2^k
//! ranks. A sum must not count anybody twice, so the ring of a dissemination barrier alone would not do.
//!
//! A rank that has the sum of a wave may begin the next one before others have this one's. It cannot end it without them, so
//! two waves at a time are enough.

/// Words that are summed.
pub(crate) const WORDS: usize = 4;

/// The sums of words.
pub(crate) type Words = [u64; WORDS];

/// Bits of a tag that say which round of a wave a message is for; the next one says which wave.
const ROUND_BITS: u32 = 6;

/// Waves of sums on one rank.
pub(crate) struct Summing {
    rank: u32,
    ranks: u32,
    /// Waves begun, so far.
    wave: u32,
    /// What goes on, if this rank has brought its words.
    going: Option<Going>,
    /// What came for this wave and the next, by round.
    came: [Vec<Option<[Words; 2]>>; 2],
    /// To be sent: the receiver, the tag, the words.
    outgoing: Option<(u32, u32, Vec<u64>)>,
}

struct Going {
    round: u32,
    /// The sum of 2^round ranks from this one on.
    window: Words,
    /// That of P mod 2^round of them.
    rest: Words,
}

impl Summing {
    pub(crate) fn new(rank: u32, ranks: u32) -> Self {
        let rounds = ranks.next_power_of_two().ilog2() as usize;
        let came = || vec![None; rounds];
        Self { rank, ranks, wave: 0, going: None, came: [came(), came()], outgoing: None }
    }

    /// Begins anew, with the first wave.
    pub(crate) fn reset(&mut self) {
        (self.wave, self.going, self.outgoing) = (0, None, None);
        self.came.iter_mut().for_each(|came| came.fill(None));
    }

    /// Whether this rank has brought its words for the wave that goes on.
    pub(crate) fn has_begun(&self) -> bool {
        self.going.is_some()
    }

    /// Whether a message of a rank is needed for the wave that goes on. All are before this rank has brought its words: nobody can
    /// have its sum.
    pub(crate) fn needs(&self, rank: u32) -> bool {
        let Some(going) = &self.going else { return true };
        let came = &self.came[self.wave as usize % 2];
        (going.round..came.len() as u32)
            .any(|round| came[round as usize].is_none() && (self.rank + (1 << round)) % self.ranks == rank)
    }

    /// Brings words.
    pub(crate) fn begin(&mut self, words: Words) {
        debug_assert!(!self.has_begun());
        self.going = Some(Going { round: 0, window: words, rest: [0; WORDS] });
        self.speak();
    }

    /// The next message.
    pub(crate) fn poll_transmit(&mut self) -> Option<(u32, u32, Vec<u64>)> {
        self.outgoing.take()
    }

    pub(crate) fn on_message(&mut self, tag: u32, words: &[u64]) {
        let (round, wave) = (tag & ((1 << ROUND_BITS) - 1), tag >> ROUND_BITS);
        let (window, rest) = words.split_at(WORDS.min(words.len()));
        let heard = [window, rest].map(|part| part.try_into().unwrap_or_default());
        if let Some(place) = self.came[wave as usize % 2].get_mut(round as usize) {
            *place = Some(heard);
        }
    }

    /// Tells the rank before this one what it needs in this round.
    fn speak(&mut self) {
        let Some(Going { round, window, rest }) = &self.going else { return };
        if self.came[0].len() as u32 > *round {
            let to = (self.rank + self.ranks - (1 << round) % self.ranks) % self.ranks;
            let tag = (self.wave % 2) << ROUND_BITS | round;
            self.outgoing = Some((to, tag, [*window, *rest].concat()));
        }
    }

    /// The sums over all ranks, once, if all that is needed has come. Speaks at most once at a time.
    pub(crate) fn poll_sum(&mut self) -> Option<Words> {
        let rounds = self.came[0].len() as u32;
        while self.outgoing.is_none() {
            let going = self.going.as_mut()?;
            if going.round == rounds {
                let sum = if self.ranks.is_power_of_two() { going.window } else { going.rest };
                self.going = None;
                self.came[self.wave as usize % 2].fill(None);
                self.wave += 1;
                return Some(sum);
            }
            let [window, rest] = self.came[self.wave as usize % 2][going.round as usize]?;
            if self.ranks >> going.round & 1 == 1 {
                // This window, and behind it what its rank has of the lower bits.
                going.rest = add(going.window, rest);
            }
            going.window = add(going.window, window);
            going.round += 1;
            self.speak();
        }
        None
    }
}

pub(super) fn add(a: Words, b: Words) -> Words {
    std::array::from_fn(|i| a[i].wrapping_add(b[i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs waves on all ranks; messages are delivered in an order that a seed gives.
    fn sums(ranks: u32, waves: u32, mut seed: u64) -> Vec<Vec<Words>> {
        let mut all: Vec<Summing> = (0..ranks).map(|rank| Summing::new(rank, ranks)).collect();
        let mut results = vec![Vec::new(); ranks as usize];
        let mut flying: Vec<(u32, u32, Vec<u64>)> = Vec::new();
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize
        };
        while results.iter().any(|got: &Vec<Words>| got.len() < waves as usize) {
            let rank = next() % ranks as usize;
            let summing = &mut all[rank];
            if !summing.has_begun() && results[rank].len() < waves as usize {
                let wave = results[rank].len() as u64;
                summing.begin([1, rank as u64, wave, rank as u64 * wave]);
            }
            flying.extend(summing.poll_transmit());
            if let Some(sum) = summing.poll_sum() {
                results[rank].push(sum);
            }
            if !flying.is_empty() {
                let (to, tag, words) = flying.swap_remove(next() % flying.len());
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
                let expected: Vec<Words> = (0..5).map(|wave| [r, of_ranks, r * wave, of_ranks * wave]).collect();
                for got in sums(ranks, 5, seed) {
                    assert_eq!(got, expected, "{ranks} ranks, seed {seed}");
                }
            }
        }
    }
}
