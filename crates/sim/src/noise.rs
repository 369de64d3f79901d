//! Noise: jitter, slow ranks and links, failures. The same seed gives the same run.

use crate::error::{Result, not_negative, positive};
use crate::time::{MICROSECOND, Time, from_micros, from_picos};

/// SplitMix64 (Steele, Lea, Flood 2014): a small pseudorandom generator with one word of state.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A generator from a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    /// The next number in [0, 1).
    pub fn next_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// The next number below a positive bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

/// Noise parameters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Noise {
    /// Seed of the random generator.
    pub seed: u64,
    /// Maximum delay of a message in microseconds; delays are uniform. Messages of a channel stay in order.
    pub jitter: f64,
    /// Slow ranks, with the factor by which their CPU time is longer.
    pub slow_ranks: Vec<(u32, f64)>,
    /// Slow links by link id, with the factor by which their time per byte is longer. Needs link costs.
    pub slow_links: Vec<(u32, f64)>,
    /// Ranks that fail, and when in microseconds; of several times of a rank the earliest counts.
    pub failures: Vec<(u32, f64)>,
}

impl Noise {
    /// Refuses parameters out of range.
    pub fn check(&self) -> Result<()> {
        not_negative("jitter", self.jitter)?;
        self.slow_ranks.iter().try_for_each(|(_, factor)| positive("the factor of a slow rank", *factor))?;
        self.slow_links.iter().try_for_each(|(_, factor)| positive("the factor of a slow link", *factor))?;
        self.failures.iter().try_for_each(|(_, at)| not_negative("the time of a failure", *at))
    }
}

/// Noise of a running simulation.
#[derive(Debug)]
pub(crate) struct NoiseState {
    random: SplitMix64,
    jitter: f64,
    /// CPU time factor of each rank; empty if none is slow.
    slowdowns: Vec<f64>,
    /// When each rank fails; empty if none does.
    failure_times: Vec<Time>,
}

impl NoiseState {
    pub(crate) fn new(noise: &Noise, ranks: u32) -> Self {
        let mut slowdowns = if noise.slow_ranks.is_empty() { Vec::new() } else { vec![1.0; ranks as usize] };
        noise.slow_ranks.iter().for_each(|(rank, factor)| slowdowns[*rank as usize] = *factor);
        let mut failure_times = if noise.failures.is_empty() { Vec::new() } else { vec![Time::MAX; ranks as usize] };
        for (rank, at) in &noise.failures {
            let failure = &mut failure_times[*rank as usize];
            *failure = from_micros(*at).min(*failure);
        }
        let jitter = noise.jitter * MICROSECOND;
        Self { random: SplitMix64::new(noise.seed), jitter, slowdowns, failure_times }
    }

    /// Whether jitter may reorder messages.
    pub(crate) fn can_reorder(&self) -> bool {
        self.jitter > 0.0
    }

    /// CPU time of a rank, scaled by its slowdown.
    #[inline]
    pub(crate) fn scale_cpu_time(&self, rank: u32, duration: Time) -> Time {
        if self.slowdowns.is_empty() { duration } else { from_picos(duration as f64 * self.slowdowns[rank as usize]) }
    }

    #[inline]
    pub(crate) fn has_failed(&self, rank: u32, at: Time) -> bool {
        !self.failure_times.is_empty() && self.failure_times[rank as usize] <= at
    }

    /// Samples the delay of the next message.
    #[inline]
    pub(crate) fn sample_jitter(&mut self) -> Time {
        if self.jitter == 0.0 { 0 } else { from_picos(self.random.next_f64() * self.jitter) }
    }
}
