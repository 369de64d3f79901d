//! What goes wrong, from a seed: the same seed gives the same run.

use crate::error::{Result, not_negative, positive};
use crate::time::{MICROSECOND, Time, from_micros, rounded};

/// SplitMix64 (Steele, Lea, Flood 2014): a small generator that needs nothing but a word.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any word.
    #[inline]
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    /// From 0 up to but without 1.
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Below a bound, which is above 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(bound)) >> 64) as u64
    }
}

/// What goes wrong.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Noise {
    /// What everything random follows from.
    pub seed: u64,
    /// Each message comes late by up to so many microseconds, all equally likely. Messages of a channel keep their order.
    pub jitter: f64,
    /// Ranks whose CPU takes so many times as long.
    pub slow_ranks: Vec<(u32, f64)>,
    /// Links, by their number in the network, on which bytes take so many times as long. Only where links are simulated.
    pub slow_links: Vec<(u32, f64)>,
    /// Ranks that die after so many microseconds; nobody dies twice, so the earliest counts.
    pub deaths: Vec<(u32, f64)>,
}

impl Noise {
    /// Refuses what cannot be.
    pub fn check(&self) -> Result<()> {
        not_negative("jitter", self.jitter)?;
        self.slow_ranks.iter().try_for_each(|(_, factor)| positive("the factor of a slow rank", *factor))?;
        self.slow_links.iter().try_for_each(|(_, factor)| positive("the factor of a slow link", *factor))?;
        self.deaths.iter().try_for_each(|(_, at)| not_negative("the time of a death", *at))
    }
}

/// Noise while it goes on.
#[derive(Debug)]
pub(crate) struct Noises {
    random: Random,
    jitter: f64,
    /// Of each rank; empty if none is slow.
    slow: Vec<f64>,
    /// When each rank dies; empty if none does.
    deaths: Vec<Time>,
}

impl Noises {
    pub(crate) fn new(noise: &Noise, ranks: u32) -> Self {
        let mut slow = if noise.slow_ranks.is_empty() { Vec::new() } else { vec![1.0; ranks as usize] };
        noise.slow_ranks.iter().for_each(|(rank, factor)| slow[*rank as usize] = *factor);
        let mut deaths = if noise.deaths.is_empty() { Vec::new() } else { vec![Time::MAX; ranks as usize] };
        for (rank, at) in &noise.deaths {
            let death = &mut deaths[*rank as usize];
            *death = from_micros(*at).min(*death);
        }
        let jitter = noise.jitter * MICROSECOND;
        Self { random: Random::new(noise.seed), jitter, slow, deaths }
    }

    /// Whether messages may overtake each other because of it.
    pub(crate) fn reorders(&self) -> bool {
        self.jitter > 0.0
    }

    /// What something takes on the CPU of a rank.
    #[inline]
    pub(crate) fn on_cpu(&self, rank: u32, duration: Time) -> Time {
        if self.slow.is_empty() { duration } else { rounded(duration as f64 * self.slow[rank as usize]) }
    }

    #[inline]
    pub(crate) fn is_dead(&self, rank: u32, at: Time) -> bool {
        !self.deaths.is_empty() && self.deaths[rank as usize] <= at
    }

    /// How late the next message is.
    #[inline]
    pub(crate) fn late(&mut self) -> Time {
        if self.jitter == 0.0 { 0 } else { rounded(self.random.unit() * self.jitter) }
    }
}
