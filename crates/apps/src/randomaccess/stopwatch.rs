//! The time of each part of an update.

use std::time::{Duration, Instant};

/// A part of the work on a datum; what is left of the time is the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Generate,
    Bin,
    Update,
}

/// Samples the parts: reading the clock for each would take as long as a few updates.
pub(super) struct Stopwatch {
    samples: [Sample; 3],
}

#[derive(Clone, Copy, Default)]
struct Sample {
    calls: u32,
    time: Duration,
    data: u64,
    all_data: u64,
}

/// Of this many calls, one is timed.
const SAMPLED: u32 = 16;

impl Stopwatch {
    pub(super) fn new() -> Self {
        Self { samples: [Sample::default(); 3] }
    }

    /// Runs a part that handles `data` data.
    #[inline]
    pub(super) fn time<T>(&mut self, part: Part, data: usize, run: impl FnOnce() -> T) -> T {
        let sample = &mut self.samples[part as usize];
        sample.calls = sample.calls.wrapping_add(1);
        sample.all_data += data as u64;
        if !sample.calls.is_multiple_of(SAMPLED) {
            return run();
        }
        let start = Instant::now();
        let result = run();
        sample.time += start.elapsed();
        sample.data += data as u64;
        result
    }

    /// Estimated seconds of a part.
    pub(super) fn seconds(&self, part: Part) -> f64 {
        let Sample { time, data, all_data, .. } = self.samples[part as usize];
        time.as_secs_f64() * all_data as f64 / data.max(1) as f64
    }
}
