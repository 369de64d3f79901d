//! Nonblocking consensus: ranks come to a barrier when all that they have sent has been received.   [NBX, for handlers that send]
//!
//! Cost: one wave more than there were waves before which anybody sent; one if nothing was sent at all.
//!
//! A sparse exchange is over when all have come there. Here what was received may make a rank send again, after it came. So
//! each brings a bit: whether it has sent anything since it came there last. If nobody has, all is over: what was sent before the
//! wave before had been received when its senders came there, so it was handled before its receivers came again, and nothing has
//! been sent since.
//!
//! With synchronous messages the barrier is a wave of sums, in which the epoch's sum goes along. Where the engine has a barrier
//! behind all messages (`arrives_last`), neither acknowledgements nor messages of waves are needed; it unites bits only, so
//! the sum is a wave of its own at the end, if anybody has added something.

use super::{Report, Summing, Verdict};

/// Somebody has sent.
const ACTIVE: u64 = 1;
/// Somebody keeps something for the next round.
const KEPT: u64 = 2;
/// Somebody has added to the sum.
const ADDED: u64 = 4;

/// The detector on one rank.
pub(crate) struct NbxLike {
    /// By the engine's barrier.
    by_barrier: bool,
    summing: Summing,
    /// Sent by this rank, when it came last.
    before: u64,
    /// At the engine's barrier, or about to come there.
    coming: Option<u64>,
    is_there: bool,
    /// This rank's part of the sum.
    sum: u64,
    /// The last wave, which is that of the sum.
    is_last: bool,
    verdict: Option<Verdict>,
}

impl NbxLike {
    pub(crate) fn new(rank: u32, ranks: u32, by_barrier: bool) -> Self {
        Self {
            by_barrier,
            summing: Summing::new(rank, ranks),
            before: 0,
            coming: None,
            is_there: false,
            sum: 0,
            is_last: false,
            verdict: None,
        }
    }

    pub(super) fn begin(&mut self) {
        self.summing.reset();
        self.before = 0;
        (self.coming, self.is_there, self.is_last, self.verdict) = (None, false, false, None);
    }

    pub(super) fn is_synchronous(&self) -> bool {
        !self.by_barrier
    }

    pub(super) fn report(&mut self, report: Report) {
        let Report { sent, kept, sum, .. } = report;
        if self.is_there || self.summing.has_begun() || self.verdict.is_some() {
            return;
        }
        let active = u64::from(self.before != sent);
        self.before = sent;
        self.sum = sum;
        if self.by_barrier {
            let bit = |is_so: bool, bit: u64| if is_so { bit } else { 0 };
            self.coming = Some(bit(active > 0, ACTIVE) | bit(kept > 0, KEPT) | bit(sum != 0, ADDED));
            self.is_there = true;
        } else {
            self.summing.begin([active, 0, kept, sum]);
            self.look();
        }
    }

    pub(super) fn poll_transmit(&mut self) -> Option<(u32, u32, Vec<u64>)> {
        let message = self.summing.poll_transmit();
        self.look();
        message
    }

    pub(super) fn on_message(&mut self, tag: u32, words: &[u64]) {
        self.summing.on_message(tag, words);
        self.look();
    }

    /// What to bring to the engine's barrier, once.
    pub(crate) fn poll_arrive(&mut self) -> Option<u64> {
        self.coming.take()
    }

    /// All have come to the engine's barrier, and have brought these bits.
    pub(crate) fn on_gathered(&mut self, bits: u64) {
        self.is_there = false;
        if bits & ACTIVE != 0 {
            return;
        }
        if bits & KEPT != 0 {
            self.verdict = Some(Verdict::NextRound);
        } else if bits & ADDED != 0 {
            self.is_last = true;
            self.summing.begin([0, 0, 0, self.sum]);
            self.look();
        } else {
            self.verdict = Some(Verdict::Over(0));
        }
    }

    /// Whether there will be another barrier.
    pub(crate) fn meets_again(&self) -> bool {
        self.by_barrier && !self.is_last && !matches!(self.verdict, Some(Verdict::Over(_)))
    }

    pub(super) fn poll_verdict(&mut self) -> Option<Verdict> {
        self.verdict.take()
    }

    pub(super) fn needs(&self, rank: u32) -> bool {
        // The barrier itself notices who will never come.
        !self.is_there && self.summing.needs(rank)
    }

    fn look(&mut self) {
        let Some([active, _, kept, sum]) = self.summing.poll_sum() else { return };
        if active == 0 {
            self.verdict = Some(if kept > 0 { Verdict::NextRound } else { Verdict::Over(sum) });
        }
    }
}
