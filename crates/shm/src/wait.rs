//! How long to stay awake.
//!
//! With a core for each rank, a message is a fraction of a microsecond away and a sleep costs several: spin. With more
//! ranks than cores, whoever spins keeps the one that would answer from running: spinning costs milliseconds a hop
//! there, so give the core away, a few times, and then sleep. Measured per hop with 8 and 16 ranks on 2 cores: 5 yields
//! then sleep 2.7 and 4.9 us; with 100 pauses first, twice that.

/// What a rank does before it sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patience {
    spins: u32,
    yields: u32,
}

impl Patience {
    /// Suited to so many ranks on so many cores.
    pub(crate) fn for_ranks(ranks: u32, cores: u32) -> Self {
        if ranks <= cores { Self { spins: 4000, yields: 20 } } else { Self { spins: 0, yields: 5 } }
    }

    /// Spins or yields once; false if it is time to sleep. The first pause comes at once: polling less often takes the
    /// line from its writer less often.
    #[inline]
    pub(crate) fn wait_awake(&self, round: u32) -> bool {
        if round < self.spins {
            std::hint::spin_loop();
        } else if round < self.spins + self.yields {
            std::thread::yield_now();
        } else {
            return false;
        }
        true
    }
}
