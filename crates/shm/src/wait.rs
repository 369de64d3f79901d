//! How long to stay awake.
//!
//! With a core for each rank, a message is a fraction of a microsecond away and a sleep costs several: spin. With more
//! ranks than cores, whoever spins keeps the one that would answer from running: spinning costs milliseconds a hop
//! there, so give the core away, a few times, and then sleep. The more ranks share a core, the longer a round of yields
//! takes. Measured per hop of a ring on 2 cores, with 2, 5, 10 and 30 yields: 8 ranks 8.5, 3.0, 2.5, 3.0 us; 16 ranks
//! 6.0, 5.7, 7.1, 7.7 us. Pauses before the first yield doubled it.
//!
//! Beside processes that compute without end, a yield gives the core to each of them for its whole time slice, milliseconds,
//! while whoever sleeps gets it back soon after it is woken. So where a yield took that long, the next waits are sleeps.

use std::time::{Duration, Instant};

/// A yield that takes longer has given the core to somebody who computes.
const SLOW: Duration = Duration::from_millis(1);

/// Waits that sleep at once after a slow yield, before a yield is tried again.
const WITHOUT_YIELDS: u32 = 256;

/// Yields between two that are timed: reading the clock takes a tenth of the time of a yield.
const TIMED: u32 = 16;

/// What a rank does before it sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patience {
    spins: u32,
    yields: u32,
    /// Waits that are still to be sleeps.
    without_yields: u32,
    /// Yields until one is timed.
    untimed: u32,
}

impl Patience {
    /// Suited to so many ranks on so many cores.
    pub(crate) fn for_ranks(ranks: u32, cores: u32) -> Self {
        let awake = Self { spins: 0, yields: 0, without_yields: 0, untimed: 0 };
        match ranks.div_ceil(cores) {
            0..=1 => Self { spins: 4000, yields: 20, ..awake },
            2..=4 => Self { yields: 10, ..awake },
            _ => Self { yields: 5, ..awake },
        }
    }

    /// Whether it is time to sleep.
    #[inline]
    pub(crate) fn is_over(&self, round: u32) -> bool {
        round >= self.spins + if self.without_yields > 0 { 0 } else { self.yields }
    }

    /// Spins or yields once; false if it is time to sleep. The first pause comes at once: polling less often takes the
    /// line from its writer less often.
    #[inline]
    pub(crate) fn wait_awake(&mut self, round: u32) -> bool {
        if round < self.spins {
            std::hint::spin_loop();
            return true;
        }
        if self.is_over(round) {
            self.without_yields = self.without_yields.saturating_sub(1);
            return false;
        }
        self.give_core();
        true
    }

    /// Yields, and now and then sees how long that takes.
    #[inline]
    fn give_core(&mut self) {
        if self.untimed > 0 {
            self.untimed -= 1;
            return std::thread::yield_now();
        }
        let begun = Instant::now();
        std::thread::yield_now();
        // After the sleeps, the first yield is timed again.
        (self.without_yields, self.untimed) = if begun.elapsed() > SLOW { (WITHOUT_YIELDS, 0) } else { (0, TIMED) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Yields that are slow lead to sleeps, and a quick one back to yields.
    #[test]
    fn after_a_slow_yield_waits_are_sleeps() {
        let mut patience = Patience::for_ranks(8, 2);
        assert!(patience.wait_awake(0) && !patience.wait_awake(patience.yields));
        patience.without_yields = 2;
        assert!(patience.is_over(0), "whoever asks before it waits hears that this will be a sleep");
        assert_eq!([0, 0, 0].map(|round| patience.wait_awake(round)), [false, false, true]);
    }
}
