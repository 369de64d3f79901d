//! Nonblocking consensus: a rank enters a barrier when all of its messages have been received.
//! [NBX paper, algorithm 2, repeated for handlers that send]
//!
//! Cost: one wave more than there were waves before which a rank sent; one wave if nothing was sent at all.
//!
//! A sparse exchange is over after one barrier. Here a received message may make a rank send after it arrived. So each
//! rank contributes a bit: whether it has sent since its previous arrival. If no rank has, the epoch is over: messages
//! sent before the previous wave had been received when their senders arrived there, so they were handled before their
//! receivers arrived again, and nothing has been sent since.
//!
//! With synchronous sends the barrier is an allreduce wave, which also carries the sum of the epoch. If the engine has
//! an ordered barrier (`barrier_flushes`), neither acknowledgements nor wave messages are needed. That barrier combines
//! bits only, so the sum takes a separate wave at the end, if any rank has added to it.

use treepie_base::{Bytes, Result};
use treepie_fabric::Transmit;

use super::{AllreduceWave, RankReport, WaveOutcome};

/// A rank has sent since its previous arrival.
const ACTIVE: u64 = 1;
/// A rank has deferred messages.
const DEFERRED: u64 = 2;
/// A rank has added to the sum.
const HAS_SUM: u64 = 4;

/// The detector on one rank.
pub(crate) struct ConsensusDetector {
    /// Use the engine's barrier instead of waves.
    uses_engine_barrier: bool,
    allreduce: AllreduceWave,
    /// Buffers sent by this rank at its previous arrival.
    sent_before: u64,
    /// Bits for the engine's barrier, until it has taken them.
    arrival_bits: Option<u64>,
    at_barrier: bool,
    /// This rank's contribution to the sum.
    sum: u64,
    /// The final wave, which computes the sum.
    in_sum_wave: bool,
    outcome: Option<WaveOutcome>,
}

impl ConsensusDetector {
    pub(crate) fn new(rank: u32, ranks: u32, uses_engine_barrier: bool) -> Self {
        Self {
            uses_engine_barrier,
            allreduce: AllreduceWave::new(rank, ranks),
            sent_before: 0,
            arrival_bits: None,
            at_barrier: false,
            sum: 0,
            in_sum_wave: false,
            outcome: None,
        }
    }

    pub(super) fn begin(&mut self) {
        self.allreduce.reset();
        self.sent_before = 0;
        (self.arrival_bits, self.at_barrier, self.in_sum_wave, self.outcome) = (None, false, false, None);
    }

    #[inline]
    pub(super) fn is_synchronous(&self) -> bool {
        !self.uses_engine_barrier
    }

    pub(super) fn report(&mut self, report: RankReport) {
        let RankReport { sent, deferred, sum, .. } = report;
        if self.at_barrier || self.allreduce.has_begun() || self.outcome.is_some() {
            return;
        }
        let active = u64::from(self.sent_before != sent);
        self.sent_before = sent;
        self.sum = sum;
        if self.uses_engine_barrier {
            let bit = |is_set: bool, bit: u64| if is_set { bit } else { 0 };
            self.arrival_bits = Some(bit(active > 0, ACTIVE) | bit(deferred > 0, DEFERRED) | bit(sum != 0, HAS_SUM));
            self.at_barrier = true;
        } else {
            self.allreduce.begin([active, 0, deferred, sum]);
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

    /// The bits for the engine's barrier, once.
    #[inline]
    pub(crate) fn poll_barrier(&mut self) -> Option<u64> {
        self.arrival_bits.take()
    }

    /// The engine's barrier is complete; `bits` is the union over all ranks.
    pub(crate) fn on_barrier(&mut self, bits: u64) {
        self.at_barrier = false;
        if bits & ACTIVE != 0 {
            return;
        }
        if bits & DEFERRED != 0 {
            self.outcome = Some(WaveOutcome::NextRound);
        } else if bits & HAS_SUM != 0 {
            self.in_sum_wave = true;
            self.allreduce.begin([0, 0, 0, self.sum]);
            self.check_wave();
        } else {
            self.outcome = Some(WaveOutcome::Terminated(0));
        }
    }

    /// Whether there will be another barrier.
    #[inline]
    pub(crate) fn expects_barrier(&self) -> bool {
        self.uses_engine_barrier && !self.in_sum_wave && !matches!(self.outcome, Some(WaveOutcome::Terminated(_)))
    }

    #[inline]
    pub(super) fn poll_outcome(&mut self) -> Option<WaveOutcome> {
        self.outcome.take()
    }

    pub(super) fn needs(&self, rank: u32) -> bool {
        // The barrier itself detects ranks that will never arrive.
        !self.at_barrier && self.allreduce.needs(rank)
    }

    fn check_wave(&mut self) {
        let Some([active, _, deferred, sum]) = self.allreduce.poll_sum() else { return };
        if active == 0 {
            self.outcome = Some(if deferred > 0 { WaveOutcome::NextRound } else { WaveOutcome::Terminated(sum) });
        }
    }
}
