//! A simulated split that records the end time of each phase.

use std::time::Duration;

use treepie::Result;
use treepie_base::Bytes;
use treepie_comm::split::{SplitPhase, SplitProtocol, SplitResult};
use treepie_fabric::{PeerDependency, Reactor, Transmit};

/// A timed split. A phase ends when its last message has arrived and its computation is done; the simulator charges
/// that after the delivery of the message.
pub(super) struct TimedSplit {
    splitting: SplitProtocol,
    /// Microseconds to move or compare an entry.
    micros_per_entry: f64,
    phase_ends: [Option<f64>; SplitPhase::ALL.len()],
    work: [u64; SplitPhase::ALL.len()],
}

impl TimedSplit {
    pub(super) fn new(splitting: SplitProtocol, micros_per_entry: f64) -> Self {
        let mut this = Self { splitting, micros_per_entry, phase_ends: Default::default(), work: Default::default() };
        this.record_phase_ends(0.0);
        this
    }

    fn record_phase_ends(&mut self, mut now: f64) {
        let phases = self.splitting.phase_costs().iter().zip(self.phase_ends.iter_mut().zip(&mut self.work));
        for (spent, (end, work)) in phases {
            now += (spent.work - *work) as f64 * self.micros_per_entry;
            *work = spent.work;
            if spent.end_time.is_some() {
                end.get_or_insert(now);
            }
        }
    }

    /// The split itself.
    pub(super) fn splitting(&self) -> &SplitProtocol {
        &self.splitting
    }

    /// End time of each phase, in microseconds.
    pub(super) fn phase_ends(&self) -> [f64; SplitPhase::ALL.len()] {
        self.phase_ends.map(|end| end.unwrap_or(0.0))
    }

    pub(super) fn finish(self) -> SplitResult {
        self.splitting.finish()
    }
}

impl Reactor for TimedSplit {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        self.splitting.poll_transmit()
    }

    fn on_message(&mut self, now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        let result = self.splitting.on_message(now, from, tag, bytes);
        self.record_phase_ends(now.as_secs_f64() * 1e6);
        result
    }

    fn dependency_on(&self, rank: u32) -> PeerDependency {
        self.splitting.dependency_on(rank)
    }

    fn is_done(&self) -> bool {
        self.splitting.is_done()
    }

    fn take_work(&mut self) -> u64 {
        self.splitting.take_work()
    }
}
