//! Work of a handler that costs more than a word of memory.

use std::hint::black_box;
use std::time::Instant;

/// Instructions that depend on each other, so many that they take some time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    turns: u32,
}

/// How many are timed to learn how long one takes, and how often; the fastest counts, as nobody was in its way.
const TIMED: u32 = 20_000;
const TRIES: u32 = 20;

impl Work {
    /// Work of about so many nanoseconds.
    pub(super) fn of(nanos: u32) -> Self {
        let of_one = (0..TRIES).map(|seed| {
            let begun = Instant::now();
            Self { turns: TIMED }.go(seed);
            begun.elapsed().as_secs_f64() * 1e9 / f64::from(TIMED)
        });
        let of_one = of_one.fold(f64::MAX, f64::min).max(0.01);
        Self { turns: (f64::from(nanos) / of_one).ceil() as u32 }
    }

    pub(super) fn go(self, seed: u32) {
        let mut x = u64::from(seed);
        for _ in 0..self.turns {
            // A step of a linear congruential generator: a multiplication and an addition after each other.
            x = black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
}
