//! How a rank waits. MPI cannot unpark a thread, so every wait consists of polls with pauses between them.
//!
//! While each rank has a processor, the pause is a spin-loop hint at first. When ranks outnumber processors it is a
//! yield from the start: the awaited rank may need this very processor. After a while the rank sleeps, so that an idle
//! world leaves the machine to others. Where yields take milliseconds, as other processes compute, it sleeps at once
//! ([`AdaptiveYield`]).

use std::time::Duration;

use treepie_base::AdaptiveYield;

use crate::shim::WorldInfo;

/// Rounds of spinning when there are enough processors.
const SPINS: u32 = 500;

/// Rounds after which a rank sleeps.
const YIELDS: u32 = 2_000;

/// Rounds of sleeping after which the sleep grows by a microsecond.
const ROUNDS_PER_MICROSECOND: u32 = 4;

const MAX_SLEEP_MICROS: u32 = 100;

/// A pause between two polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pause {
    Spin,
    Yield,
    Sleep(Duration),
}

pub(crate) struct PollBackoff {
    spins: u32,
    adaptive: AdaptiveYield,
}

impl PollBackoff {
    pub(crate) fn new(world: &WorldInfo) -> Self {
        Self { spins: if world.has_dedicated_cores() { SPINS } else { 0 }, adaptive: AdaptiveYield::default() }
    }

    /// Pauses, and returns whether that was a sleep. With a transfer in flight it is at most a short one, as MPI
    /// progresses only while it is polled, and only where a yield would take longer.
    pub(crate) fn pause(&mut self, round: u32, transferring: bool) -> bool {
        let pause = self.next_pause(round, transferring);
        match pause {
            Pause::Spin => std::hint::spin_loop(),
            Pause::Yield => self.adaptive.yield_now(),
            Pause::Sleep(time) => {
                self.adaptive.count_sleep();
                std::thread::sleep(time);
            }
        }
        matches!(pause, Pause::Sleep(_))
    }

    fn next_pause(&self, round: u32, transferring: bool) -> Pause {
        if round < self.spins {
            Pause::Spin
        } else if (round < YIELDS || transferring) && !self.adaptive.is_slow() {
            Pause::Yield
        } else {
            let rounds = if transferring { 0 } else { round.saturating_sub(YIELDS) };
            let microseconds = MAX_SLEEP_MICROS.min(1 + rounds / ROUNDS_PER_MICROSECOND);
            Pause::Sleep(Duration::from_micros(microseconds.into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backoff(node_ranks: i32, node_cpus: i32) -> PollBackoff {
        PollBackoff::new(&WorldInfo { node_ranks, node_cpus, ..WorldInfo::default() })
    }

    #[test]
    fn only_ranks_with_a_processor_each_spin() {
        assert_eq!(backoff(2, 2).next_pause(0, false), Pause::Spin);
        assert_eq!(backoff(3, 2).next_pause(0, false), Pause::Yield);
        assert_eq!(backoff(2, 2).next_pause(SPINS, false), Pause::Yield);
    }

    #[test]
    fn sleep_comes_late_grows_and_is_bounded() {
        let backoff = backoff(2, 2);
        assert_eq!(backoff.next_pause(YIELDS, false), Pause::Sleep(Duration::from_micros(1)));
        assert_eq!(backoff.next_pause(YIELDS + 40, false), Pause::Sleep(Duration::from_micros(11)));
        assert_eq!(backoff.next_pause(u32::MAX, false), Pause::Sleep(Duration::from_micros(100)));
        assert_eq!(backoff.next_pause(u32::MAX, true), Pause::Yield);
    }

    #[test]
    fn after_a_slow_yield_it_sleeps_at_once() {
        let slow = PollBackoff { adaptive: AdaptiveYield::after(Duration::from_millis(2)), ..backoff(3, 2) };
        let short = Pause::Sleep(Duration::from_micros(1));
        assert_eq!([slow.next_pause(0, false), slow.next_pause(u32::MAX, true)], [short, short]);
    }
}
