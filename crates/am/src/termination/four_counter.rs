//! Four-counter termination detection: the buffers sent and received by all ranks, in two waves.
//! [Mattern; Sinha, Kale, Ramkumar]
//!
//! Cost: two waves after the last message, ceil(log2 P) messages per rank and wave; one wave if nothing was sent.
//!
//! Ranks report when they are passive, but not at the same time: a message sent after its sender's report may be
//! received before its receiver's, and compensate for another one in flight. So sent = received in one wave proves
//! nothing. If a second wave has the same numbers, no rank has sent or received between its two reports. So at the end
//! of the first wave no message was in flight, and all had been handled.

use treepie_base::{Bytes, Result};
use treepie_fabric::Transmit;

use super::{AllreduceWave, RankReport, WaveOutcome};
use crate::injected_fault::{FaultInjection, InjectedFault};

/// The detector on one rank.
pub(crate) struct FourCounterDetector {
    allreduce: AllreduceWave,
    /// Sent and received in the previous wave.
    previous: Option<(u64, u64)>,
    outcome: Option<WaveOutcome>,
    pub(crate) faults: FaultInjection,
}

impl FourCounterDetector {
    pub(crate) fn new(rank: u32, ranks: u32) -> Self {
        Self {
            allreduce: AllreduceWave::new(rank, ranks),
            previous: None,
            outcome: None,
            faults: FaultInjection::default(),
        }
    }

    pub(super) fn begin(&mut self) {
        self.allreduce.reset();
        self.previous = None;
        self.outcome = None;
    }

    pub(super) fn report(&mut self, report: RankReport) {
        if !self.allreduce.has_begun() {
            self.allreduce.begin([report.sent, report.received, report.deferred, report.sum]);
            self.check_wave();
        }
    }

    #[inline]
    pub(super) fn poll_transmit(&mut self) -> Option<Transmit> {
        let message = self.allreduce.poll_transmit();
        self.check_wave();
        message
    }

    pub(super) fn on_message(&mut self, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        self.allreduce.on_message(from, tag, bytes)?;
        self.check_wave();
        Ok(())
    }

    #[inline]
    pub(super) fn poll_outcome(&mut self) -> Option<WaveOutcome> {
        self.outcome.take()
    }

    pub(super) fn needs(&self, rank: u32) -> bool {
        self.allreduce.needs(rank)
    }

    fn check_wave(&mut self) {
        let Some([sent, received, deferred, sum]) = self.allreduce.poll_sum() else { return };
        let counters = (sent, received);
        // The first sender sends before its report, so if no rank had sent then, none will.
        let is_second = self.previous == Some(counters) || self.faults.is(InjectedFault::SingleWave);
        let quiet = sent == received && (sent == 0 || is_second);
        self.previous = Some(counters);
        if quiet {
            // The first wave of the next round must not match the numbers of this one by chance.
            self.previous = None;
            self.outcome = Some(if deferred > 0 { WaveOutcome::NextRound } else { WaveOutcome::Terminated(sum) });
        }
    }
}
