//! PCX, personalized census: a reduce-scatter of message counts, then the data.
//!
//! A rank holds its counts by distance on the ring. In round r, from the highest down, it sends those of distance 2^r
//! and more to the rank 2^r ahead, which adds them to its lower half. After ceil(lg P) rounds and P - 1 counts sent,
//! the remaining count is the number of messages for this rank.   [Bruck et al., reversed]
//!
//! Cost: T_RS(P) + T_DT.   Memory: 4 bytes per rank.   Any P.   [NBX paper 3.2, algorithm 1]

use std::time::Duration;

use treepie_base::{Bytes, Error, Result};
use treepie_fabric::{PeerDependency, Reactor, Transmit};

use crate::protocol::{ExchangeBuffers, ExchangeReactor, RingPosition};
use crate::tags::MessageKind;
use crate::traffic_summary::TrafficSummary;

/// The exchange on one rank.
pub(crate) struct Pcx {
    position: RingPosition,
    buffers: ExchangeBuffers,
    /// Partial message counts by distance, those not sent yet.
    counts: Vec<u32>,
    /// Initial bytes of `counts`.
    memory: usize,
    summary: TrafficSummary,
    /// Rounds to send; the next is `unsent - 1`.
    unsent: u32,
    /// Rounds whose message was received, as bits.
    received_rounds: u32,
}

impl Pcx {
    pub(crate) fn new(position: RingPosition, buffers: ExchangeBuffers) -> Self {
        let mut counts = vec![0; position.ranks as usize];
        for (to, _) in &buffers.outgoing {
            counts[position.distance_to(*to) as usize] += 1;
        }
        let memory = counts.capacity() * size_of::<u32>();
        Self {
            position,
            summary: buffers.summary,
            buffers,
            counts,
            memory,
            unsent: position.rounds(),
            received_rounds: 0,
        }
    }

    fn has_received(&self, round: u32) -> bool {
        self.received_rounds & 1 << round != 0
    }

    /// Whether the reduce-scatter is complete.
    fn has_count(&self) -> bool {
        self.unsent == 0 && (0..self.position.rounds()).all(|round| self.has_received(round))
    }

    /// The message of a round: the summary, and the counts from distance 2^round on.
    fn send_counts(&mut self, round: u32) -> Transmit {
        let distance = 1 << round;
        let mut bytes = self.summary.bits().to_le_bytes().to_vec();
        bytes.extend(self.counts.drain(distance as usize..).flat_map(u32::to_le_bytes));
        Transmit::new(self.position.ahead(distance), MessageKind::Meta.tag(round), bytes)
    }

    fn add_counts(&mut self, round: u32, bytes: &[u8]) -> Result<()> {
        let count = (self.position.ranks - (1 << round)).min(1 << round) as usize;
        let expected = 8 + 4 * count;
        let wrong = Error::LengthMismatch { got: bytes.len() as u64, expected: expected as u64 };
        let Some((summary, counts)) = bytes.split_first_chunk::<8>().filter(|_| bytes.len() == expected) else {
            return Err(wrong);
        };
        self.summary.merge(u64::from_le_bytes(*summary));
        let (counts, _) = counts.as_chunks::<4>();
        self.counts.iter_mut().zip(counts).for_each(|(sum, more)| *sum += u32::from_le_bytes(*more));
        self.received_rounds |= 1 << round;
        Ok(())
    }
}

impl Reactor for Pcx {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        if self.unsent > 0 {
            // The counts of this round include those received in the round above.
            let has_above = self.unsent == self.position.rounds() || self.has_received(self.unsent);
            if !has_above {
                return None;
            }
            self.unsent -= 1;
            return Some(self.send_counts(self.unsent));
        }
        // Data follows the last round of counts; it does not wait for incoming counts.
        let (to, bytes) = self.buffers.outgoing.pop_front()?;
        Some(Transmit::new(to, MessageKind::Data.tag(0), bytes))
    }

    fn on_message(&mut self, _now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        match MessageKind::decode(tag) {
            (MessageKind::Data, _) => self.buffers.receive(from, bytes),
            (MessageKind::Meta, round) if round < self.position.rounds() && !self.has_received(round) => {
                self.add_counts(round, bytes.as_slice())?;
            }
            _ => return Err(Error::CollectiveOrderMismatch { rank: from as usize }),
        }
        Ok(())
    }

    fn dependency_on(&self, rank: u32) -> PeerDependency {
        let is_missing = |round: u32| !self.has_received(round) && self.position.behind(1 << round) == rank;
        if (0..self.position.rounds()).any(is_missing) { PeerDependency::Required } else { PeerDependency::Possible }
    }

    fn is_done(&self) -> bool {
        self.has_count() && self.buffers.outgoing.is_empty() && self.buffers.num_received == u64::from(self.counts[0])
    }
}

impl ExchangeReactor for Pcx {
    fn buffers(&mut self) -> &mut ExchangeBuffers {
        &mut self.buffers
    }

    fn traffic_summary(&self) -> TrafficSummary {
        self.summary
    }

    fn memory(&self) -> usize {
        size_of::<Self>() - size_of::<ExchangeBuffers>() + self.memory
    }
}
