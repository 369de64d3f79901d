//! How long a rank spins and yields before it parks.
//!
//! With a core for each rank, a message is a fraction of a microsecond away and parking costs several: spin. With more
//! ranks than cores, a spinning rank keeps the rank that would answer from running, which costs milliseconds a hop:
//! yield a few times, then park. The more ranks share a core, the longer a round of yields takes. Measured per hop of a
//! ring on 2 cores, with 2, 5, 10 and 30 yields: 8 ranks 8.5, 3.0, 2.5, 3.0 us; 16 ranks 6.0, 5.7, 7.1, 7.7 us.
//! Spinning before the first yield doubled it.
//!
//! Where yields take milliseconds, as other processes compute, it parks at once ([`AdaptiveYield`]).

use std::time::Duration;

use treepie_base::AdaptiveYield;

/// The shortest sleep; the system makes some 60 us of it.
const MIN_SLEEP: Duration = Duration::from_micros(1);

/// The numbers of spins and yields before a rank parks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpinBackoff {
    spins: u32,
    yields: u32,
    adaptive: AdaptiveYield,
}

impl SpinBackoff {
    /// The backoff for a number of ranks on a number of cores.
    pub(crate) fn for_ranks(ranks: u32, cores: u32) -> Self {
        let awake = Self { spins: 0, yields: 0, adaptive: AdaptiveYield::default() };
        match ranks.div_ceil(cores) {
            0..=1 => Self { spins: 4000, yields: 20, ..awake },
            2..=4 => Self { yields: 10, ..awake },
            _ => Self { yields: 5, ..awake },
        }
    }

    /// Whether it is time to park.
    #[inline]
    pub(crate) fn is_completed(&self, round: u32) -> bool {
        round >= self.spins + if self.adaptive.is_slow() { 0 } else { self.yields }
    }

    /// Spins or yields once; false if it is time to park. The first pause comes at once: polling less often takes the
    /// line from its writer less often.
    #[inline]
    pub(crate) fn snooze(&mut self, round: u32) -> bool {
        if round < self.spins {
            std::hint::spin_loop();
            return true;
        }
        if self.is_completed(round) {
            self.adaptive.count_sleep();
            return false;
        }
        self.adaptive.yield_now();
        true
    }

    /// Yields, for a rank that tests and does not wait: it never parks. Where yields take milliseconds it takes the
    /// shortest sleep instead.
    #[inline]
    pub(crate) fn yield_now(&mut self) {
        if self.spins > 0 {
            std::hint::spin_loop();
        } else if self.adaptive.is_slow() {
            self.adaptive.count_sleep();
            std::thread::sleep(MIN_SLEEP);
        } else {
            self.adaptive.yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_slow_yield_backoff_parks_at_once() {
        let mut backoff = SpinBackoff::for_ranks(8, 2);
        assert!(backoff.snooze(0) && !backoff.snooze(backoff.yields));
        backoff.adaptive = AdaptiveYield::after(Duration::from_millis(2));
        assert!(backoff.is_completed(0) && !backoff.snooze(0));
    }
}
