//! How long to stay awake.
//!
//! With a core for each rank, a message is a fraction of a microsecond away and a sleep costs several: spin. With more
//! ranks than cores, whoever spins keeps the one that would answer from running: spinning costs milliseconds a hop
//! there, so give the core away, a few times, and then sleep. The more ranks share a core, the longer a round of yields
//! takes. Measured per hop of a ring on 2 cores, with 2, 5, 10 and 30 yields: 8 ranks 8.5, 3.0, 2.5, 3.0 us; 16 ranks
//! 6.0, 5.7, 7.1, 7.7 us. Pauses before the first yield doubled it.
//!
//! Where yields take milliseconds, as other processes compute, it sleeps at once ([`AdaptiveYield`]).

use std::time::Duration;

use treepie_base::AdaptiveYield;

/// The system makes some 60 us of it.
const SHORTEST_SLEEP: Duration = Duration::from_micros(1);

/// What a rank does before it sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patience {
    spins: u32,
    yields: u32,
    adaptive: AdaptiveYield,
}

impl Patience {
    /// Suited to so many ranks on so many cores.
    pub(crate) fn for_ranks(ranks: u32, cores: u32) -> Self {
        let awake = Self { spins: 0, yields: 0, adaptive: AdaptiveYield::default() };
        match ranks.div_ceil(cores) {
            0..=1 => Self { spins: 4000, yields: 20, ..awake },
            2..=4 => Self { yields: 10, ..awake },
            _ => Self { yields: 5, ..awake },
        }
    }

    /// Whether it is time to sleep.
    #[inline]
    pub(crate) fn is_over(&self, round: u32) -> bool {
        round >= self.spins + if self.adaptive.is_slow() { 0 } else { self.yields }
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
            self.adaptive.count_sleep();
            return false;
        }
        self.adaptive.yield_now();
        true
    }

    /// Lets others run, for a rank that only looks and does not wait: it never sleeps until somebody wakes it. Where yields take
    /// milliseconds it takes the shortest sleep that there is instead.
    #[inline]
    pub(crate) fn give_way(&mut self) {
        if self.spins > 0 {
            std::hint::spin_loop();
        } else if self.adaptive.is_slow() {
            self.adaptive.count_sleep();
            std::thread::sleep(SHORTEST_SLEEP);
        } else {
            self.adaptive.yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After a slow yield waits are sleeps, and whoever asks before it waits hears that.
    #[test]
    fn after_a_slow_yield_waits_are_sleeps() {
        let mut patience = Patience::for_ranks(8, 2);
        assert!(patience.wait_awake(0) && !patience.wait_awake(patience.yields));
        patience.adaptive = AdaptiveYield::after(Duration::from_millis(2));
        assert!(patience.is_over(0) && !patience.wait_awake(0));
    }
}
