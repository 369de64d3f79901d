//! Extra computation of a handler.

use std::hint::black_box;
use std::time::Instant;

/// A chain of dependent instructions of a given duration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    iterations: u32,
}

/// Calibration: iterations per run, and runs, of which the fastest (undisturbed) counts.
const TIMED_ITERATIONS: u32 = 20_000;
const CALIBRATION_RUNS: u32 = 20;

impl Work {
    /// Work of about `nanos` nanoseconds.
    pub(super) fn from_nanos(nanos: u32) -> Self {
        let nanos_per_iteration = (0..CALIBRATION_RUNS).map(|seed| {
            let start = Instant::now();
            Self { iterations: TIMED_ITERATIONS }.run(seed);
            start.elapsed().as_secs_f64() * 1e9 / f64::from(TIMED_ITERATIONS)
        });
        let nanos_per_iteration = nanos_per_iteration.fold(f64::MAX, f64::min).max(0.01);
        Self { iterations: (f64::from(nanos) / nanos_per_iteration).ceil() as u32 }
    }

    pub(super) fn run(self, seed: u32) {
        let mut x = u64::from(seed);
        for _ in 0..self.iterations {
            // A step of a linear congruential generator: a dependent multiplication and addition.
            x = black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
}
