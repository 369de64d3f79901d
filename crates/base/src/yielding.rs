//! Yields that detect when they take long.
//!
//! Beside busy processes, a yield gives the core to each of them for a whole time slice, milliseconds, while a rank
//! that sleeps is scheduled soon after it wakes. So after a yield that took that long, the next waits should sleep at
//! once.

use std::time::{Duration, Instant};

/// A yield that takes longer gave the core to a busy process.
const SLOW_YIELD: Duration = Duration::from_millis(1);

/// Number of waits that sleep at once after a slow yield, before a yield is tried again.
const WAITS_WITHOUT_YIELD: u32 = 256;

/// Number of yields between two that are timed: reading the clock takes a tenth of the time of a yield.
const YIELDS_PER_TIMING: u32 = 16;

/// The yields of a rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdaptiveYield {
    /// Waits left that sleep at once.
    waits_without_yield: u32,
    /// Yields left until one is timed.
    untimed_yields: u32,
}

impl AdaptiveYield {
    /// Whether yields are slow, so that a wait should sleep instead.
    #[inline]
    pub fn is_slow(&self) -> bool {
        self.waits_without_yield > 0
    }

    /// Counts a wait that slept. After some of them a yield is tried again.
    #[inline]
    pub fn count_sleep(&mut self) {
        self.waits_without_yield = self.waits_without_yield.saturating_sub(1);
    }

    /// Yields; times one of several yields, and the first one after a slow one.
    #[inline]
    pub fn yield_now(&mut self) {
        if self.untimed_yields > 0 {
            self.untimed_yields -= 1;
            return std::thread::yield_now();
        }
        let start = Instant::now();
        std::thread::yield_now();
        self.set_time(start.elapsed());
    }

    fn set_time(&mut self, time: Duration) {
        (self.waits_without_yield, self.untimed_yields) =
            if time > SLOW_YIELD { (WAITS_WITHOUT_YIELD, 0) } else { (0, YIELDS_PER_TIMING) };
    }

    /// The state after a yield that took this long.
    #[doc(hidden)]
    pub fn after(time: Duration) -> Self {
        let mut this = Self::default();
        this.set_time(time);
        this
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_yield_asks_for_sleeps_and_then_for_a_yield_again() {
        let mut yields = AdaptiveYield::after(Duration::from_micros(3));
        assert!(!yields.is_slow());
        yields = AdaptiveYield::after(Duration::from_millis(3));
        for _ in 0..WAITS_WITHOUT_YIELD {
            assert!(yields.is_slow());
            yields.count_sleep();
        }
        assert!(!yields.is_slow() && yields.untimed_yields == 0, "the next yield is timed");
    }
}
