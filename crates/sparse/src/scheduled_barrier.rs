//! A nonblocking barrier along the schedule of a registered algorithm, whose messages carry the traffic summary.
//!
//! A rank leaves a barrier after it has heard, directly or through others, from every rank. So if each message carries
//! all that its sender has heard, and merging twice does no harm, every rank has the summary of all when it leaves,
//! whatever the algorithm: along the coordinators of clusters, along the dimensions of a torus, or down a tree.
//!
//! Cost and messages: those of the algorithm.   Memory: two words for each message of the rank.   Any P.

use std::collections::VecDeque;

use treepie_base::{Bytes, Error, Result};
use treepie_fabric::Transmit;
use treepie_schedule::{RoundList, Schedule, ScheduleOp};

use crate::summary_barrier::decode_word;
use crate::traffic_summary::TrafficSummary;

/// A message of the barrier. In each phase the messages of two ranks are in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BarrierMessage {
    /// Its round, counted over all phases.
    round: u32,
    phase: u32,
    peer: u32,
}

/// A barrier on one rank. The tag of a message is its phase.
#[derive(Debug)]
pub(crate) struct ScheduledBarrier {
    /// The summaries of all ranks heard from, and of this one when it has entered.
    pub(crate) summary: TrafficSummary,
    has_begun: bool,
    /// The messages to send and to receive that are left, by round.
    sends: VecDeque<BarrierMessage>,
    missing: Vec<BarrierMessage>,
}

impl ScheduledBarrier {
    /// A barrier that receives, and sends nothing before it [begins](Self::begin).
    pub(crate) fn new(schedule: &dyn Schedule, rank: u32) -> Self {
        let (mut sends, mut missing) = (VecDeque::new(), Vec::new());
        let (mut rounds, mut round) = (RoundList::new(), 0);
        for phase in 0..schedule.phases() {
            rounds.clear();
            schedule.emit(rank, phase, 0, 0..schedule.rounds(rank, phase, 0), &mut rounds);
            for index in 0..rounds.len() {
                for op in rounds.round(index) {
                    match *op {
                        ScheduleOp::Send { to: peer, .. } => sends.push_back(BarrierMessage { round, phase, peer }),
                        ScheduleOp::Recv { from: peer, .. } => missing.push(BarrierMessage { round, phase, peer }),
                        _ => {}
                    }
                }
                round += 1;
            }
        }
        Self { summary: TrafficSummary::default(), has_begun: false, sends, missing }
    }

    /// Enters the barrier. Idempotent.
    pub(crate) fn begin(&mut self, summary: TrafficSummary) {
        self.has_begun = true;
        self.summary.merge(summary.bits());
    }

    /// The next message: of a round before which nothing is missing.
    pub(crate) fn poll_transmit(&mut self) -> Option<Transmit> {
        let next = self.sends.front().filter(|_| self.has_begun)?;
        if self.missing.first().is_some_and(|missing| missing.round < next.round) {
            return None;
        }
        let BarrierMessage { phase, peer, .. } = self.sends.pop_front()?;
        Some(Transmit::new(peer, phase, vec![self.summary.bits()]))
    }

    pub(crate) fn on_message(&mut self, from: u32, phase: u32, bytes: &Bytes) -> Result<()> {
        let expected = self.missing.iter().position(|missing| (missing.phase, missing.peer) == (phase, from));
        let (Some(index), Some(summary)) = (expected, decode_word(bytes)) else {
            // The sender runs another operation.
            return Err(Error::CollectiveOrderMismatch { rank: from as usize });
        };
        self.missing.remove(index);
        self.summary.merge(summary);
        Ok(())
    }

    /// Whether a message of a rank is missing.
    pub(crate) fn expects(&self, rank: u32) -> bool {
        self.missing.iter().any(|missing| missing.peer == rank)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.has_begun && self.sends.is_empty() && self.missing.is_empty()
    }

    /// Bytes that it owns.
    pub(crate) fn memory(&self) -> usize {
        (self.sends.capacity() + self.missing.capacity()) * size_of::<BarrierMessage>()
    }
}

#[cfg(test)]
mod tests {
    use treepie_collectives::registry::{self, CollectiveSpec};
    use treepie_comm::{Network, Operation};

    use super::*;

    /// Ranks enter one after the other, and the last message sent arrives first.
    #[test]
    fn every_barrier_has_the_summary_of_all_ranks_and_ends_when_all_have_entered() {
        for text in
            ["flat:7", "clusters:3x3", "clusters:4", "clusters:2x2x3", "clusters:1+5+2", "torus:4x3", "mesh:3x3x2"]
        {
            let network: Network = text.parse().unwrap();
            let spec = CollectiveSpec::new(Operation::Barrier, &network);
            for algorithm in registry::applicable(&spec) {
                let schedule = algorithm.build(&spec).unwrap();
                let ranks = network.ranks();
                let mut all: Vec<_> = (0..ranks).map(|rank| ScheduledBarrier::new(&*schedule, rank)).collect();
                let mut in_flight = Vec::new();
                // Ranks have different classes of lengths, so that a missing one is found.
                let summary = |rank: u32| TrafficSummary::new(0, 1 << rank);
                let union = (0..ranks).fold(TrafficSummary::default(), |mut union, rank| {
                    union.merge(summary(rank).bits());
                    union
                });
                for first in 0..ranks {
                    assert!(!all.iter().any(ScheduledBarrier::is_done), "{} on {text}", algorithm.id);
                    all[first as usize].begin(summary(first));
                    let mut next = Some(first);
                    while let Some(rank) = next {
                        while let Some(transmit) = all[rank as usize].poll_transmit() {
                            in_flight.push((rank, transmit));
                        }
                        next = in_flight.pop().map(|(from, Transmit { to, tag, bytes, .. })| {
                            all[to as usize].on_message(from, tag, &bytes).unwrap();
                            to
                        });
                    }
                }
                for one in &all {
                    assert!(one.is_done() && one.summary == union, "{} on {text}", algorithm.id);
                }
            }
        }
    }

    #[test]
    fn what_is_no_message_of_the_barrier_is_refused() {
        let network: Network = "clusters:2x2".parse().unwrap();
        let spec = CollectiveSpec::new(Operation::Barrier, &network);
        let schedule = registry::build("barrier/hierarchical", &spec).unwrap();
        let mut one = ScheduledBarrier::new(&*schedule, 0);
        let refused = |rank| Err(Error::CollectiveOrderMismatch { rank });
        assert_eq!(one.on_message(3, 0, &Bytes::from(vec![1u64])), refused(3), "no neighbor");
        assert_eq!(one.on_message(1, 1, &Bytes::from(vec![1u64])), refused(1), "no such phase");
        assert_eq!(one.on_message(1, 0, &Bytes::from(vec![1u32])), refused(1), "another message");
        assert_eq!(one.on_message(1, 0, &Bytes::from(vec![1u64])), Ok(()));
        assert_eq!(one.on_message(1, 0, &Bytes::from(vec![1u64])), refused(1), "a second time");
        assert!(!one.expects(1) && one.expects(2));
    }
}
