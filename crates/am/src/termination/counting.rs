//! Four counters: how many buffers all ranks have sent and received, in two waves.   [Mattern; Sinha, Kale, Ramkumar]
//!
//! Cost: two waves after the last message, ceil(log2 P) messages a rank and wave; one wave if nothing was sent at all.
//!
//! Ranks report when they are passive, but not at one moment: a message sent after its sender's report may be received before
//! its receiver's, and make up for another that is on its way. So sent = received in one wave proves nothing. If a second one
//! shows the same numbers, nothing was sent or received between the two reports of any rank; so at the end of the first wave
//! nothing was on its way, and all had been handled.

use super::{Report, Summing, Verdict};

/// The detector on one rank.
pub(crate) struct Counting {
    summing: Summing,
    /// What the wave before has shown.
    before: Option<(u64, u64)>,
    verdict: Option<Verdict>,
    /// Finds the end after one wave: to see that tests notice.
    pub(crate) believes_one_wave: bool,
}

impl Counting {
    pub(crate) fn new(rank: u32, ranks: u32) -> Self {
        Self { summing: Summing::new(rank, ranks), before: None, verdict: None, believes_one_wave: false }
    }

    pub(super) fn begin(&mut self) {
        self.summing.reset();
        self.before = None;
        self.verdict = None;
    }

    pub(super) fn report(&mut self, report: Report) {
        if !self.summing.has_begun() {
            self.summing.begin([report.sent, report.received, report.kept, report.sum]);
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

    pub(super) fn poll_verdict(&mut self) -> Option<Verdict> {
        self.verdict.take()
    }

    pub(super) fn needs(&self, rank: u32) -> bool {
        self.summing.needs(rank)
    }

    fn look(&mut self) {
        let Some([sent, received, kept, sum]) = self.summing.poll_sum() else { return };
        let seen = (sent, received);
        // The first to send does so before its report, so if nobody had sent then, nobody will.
        let quiet = sent == received && (sent == 0 || self.before == Some(seen) || self.believes_one_wave);
        self.before = Some(seen);
        if quiet {
            // In the next round there may be no second wave with the numbers of this one by chance.
            self.before = None;
            self.verdict = Some(if kept > 0 { Verdict::NextRound } else { Verdict::Over(sum) });
        }
    }
}
