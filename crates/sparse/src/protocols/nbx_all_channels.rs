//! NBX with a barrier over all channels: every rank sends at least one message to every other, and the tag carries the
//! number of messages on that channel. No acknowledgements and one step, but P - 1 messages.
//!
//! Cost: (P-1) o + T_DT.   Memory: 2 bits per rank.   Any P; best for few ranks.
//! [NBX paper 3.4, consistency condition 2; with the count in the tag, channels need not be FIFO]

use std::collections::HashMap;
use std::time::Duration;

use treepie_base::{Bytes, Error, Result};
use treepie_comm::protocol::RingPosition;
use treepie_fabric::{PeerDependency, Reactor, Transmit};

use crate::protocol::{ExchangeBuffers, ExchangeReactor};
use crate::summary_barrier::decode_word;
use crate::tags::{MessageKind, NUMBER_BITS};
use crate::traffic_summary::{PACKED_BITS, TrafficSummary};

/// A tag holds the sender's traffic summary and above it the message count. From this count on, a separate message
/// carries it.
const MAX_COUNT_IN_TAG: u32 = (1 << (NUMBER_BITS - PACKED_BITS)) - 1;

/// The exchange on one rank.
pub(crate) struct NbxAllChannels {
    position: RingPosition,
    buffers: ExchangeBuffers,
    /// Merged over all ranks received from.
    summary: TrafficSummary,
    /// Messages per destination, for destinations of several.
    message_counts: HashMap<u32, u64>,
    /// Destinations with messages.
    has_messages: RankSet,
    /// The distance of the next rank to check for an empty message.
    next: u32,
    /// Counts that do not fit into a tag, to be sent.
    counts: Vec<(u32, u64)>,
    /// Sources that are complete.
    complete: RankSet,
    /// Of incomplete sources: messages received, and the expected count if known.
    partial: HashMap<u32, (u64, Option<u64>)>,
    missing: u32,
}

impl NbxAllChannels {
    pub(crate) fn new(position: RingPosition, buffers: ExchangeBuffers) -> Self {
        let mut has_messages = RankSet::new(position.ranks);
        let mut message_counts = HashMap::new();
        for (to, _) in &buffers.outgoing {
            if has_messages.set(*to) {
                *message_counts.entry(*to).or_insert(1) += 1;
            }
        }
        let many = message_counts
            .iter()
            .filter(|(_, count)| **count >= u64::from(MAX_COUNT_IN_TAG))
            .map(|(to, count)| (*to, *count));
        let mut counts: Vec<(u32, u64)> = many.collect();
        // Deterministic order.
        counts.sort_unstable();
        Self {
            counts,
            position,
            summary: buffers.summary,
            buffers,
            message_counts,
            has_messages,
            next: 1,
            complete: RankSet::new(position.ranks),
            partial: HashMap::new(),
            missing: position.ranks - 1,
        }
    }

    fn tag(&self, count: u32) -> u32 {
        MessageKind::Data.tag(count << PACKED_BITS | self.buffers.summary.to_packed())
    }

    /// Counts `more` messages from a rank; `of` is the expected count, if known.
    fn add_received(&mut self, from: u32, more: u64, of: Option<u64>) -> Result<()> {
        let (got, all) = self.partial.remove(&from).unwrap_or_default();
        let (got, all) = (got + more, all.or(of));
        let is_all = all == Some(got);
        if all.is_some_and(|all| got > all) || is_all && self.complete.set(from) {
            return Err(Error::LengthMismatch { got, expected: all.unwrap_or(0) });
        }
        if is_all {
            self.missing -= 1;
        } else {
            self.partial.insert(from, (got, all));
        }
        Ok(())
    }
}

impl Reactor for NbxAllChannels {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        if let Some((to, count)) = self.counts.pop() {
            return Some(Transmit::new(to, MessageKind::Count.tag(0), vec![count]));
        }
        if let Some((to, bytes)) = self.buffers.outgoing.pop_front() {
            let count = self.message_counts.get(&to).copied().unwrap_or(1).min(MAX_COUNT_IN_TAG.into()) as u32;
            return Some(Transmit::new(to, self.tag(count), bytes));
        }
        while self.next < self.position.ranks {
            let to = self.position.ahead(self.next);
            self.next += 1;
            if !self.has_messages.has(to) {
                return Some(Transmit::new(to, self.tag(0), Vec::<u8>::new()));
            }
        }
        None
    }

    fn on_message(&mut self, _now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        match MessageKind::decode(tag) {
            (MessageKind::Data, number) => {
                self.summary.merge(TrafficSummary::from_packed(number).bits());
                let count = number >> PACKED_BITS;
                if count > 0 {
                    self.buffers.receive(from, bytes);
                }
                self.add_received(from, u64::from(count > 0), (count < MAX_COUNT_IN_TAG).then_some(count.into()))
            }
            (MessageKind::Count, _) => {
                let count = decode_word(&bytes).ok_or(Error::CollectiveOrderMismatch { rank: from as usize })?;
                self.add_received(from, 0, Some(count))
            }
            _ => Err(Error::CollectiveOrderMismatch { rank: from as usize }),
        }
    }

    fn dependency_on(&self, rank: u32) -> PeerDependency {
        if self.complete.has(rank) || rank == self.position.rank {
            PeerDependency::Nothing
        } else {
            PeerDependency::Required
        }
    }

    fn is_done(&self) -> bool {
        self.missing == 0 && self.next == self.position.ranks && self.buffers.outgoing.is_empty()
    }
}

impl ExchangeReactor for NbxAllChannels {
    fn buffers(&mut self) -> &mut ExchangeBuffers {
        &mut self.buffers
    }

    fn traffic_summary(&self) -> TrafficSummary {
        self.summary
    }

    fn memory(&self) -> usize {
        // A hash table has free buckets, and a control byte per bucket.
        let hashed = |capacity: usize, entry: usize| {
            if capacity == 0 { 0 } else { capacity.next_power_of_two() * (entry + 1) }
        };
        size_of::<Self>() - size_of::<ExchangeBuffers>()
            + 2 * self.has_messages.bytes()
            + hashed(self.message_counts.capacity(), size_of::<(u32, u64)>())
            + hashed(self.partial.capacity(), size_of::<(u32, (u64, Option<u64>))>())
            + self.counts.capacity() * size_of::<(u32, u64)>()
    }
}

/// A set of ranks.
#[derive(Debug)]
struct RankSet(Vec<u64>);

impl RankSet {
    fn new(ranks: u32) -> Self {
        Self(vec![0; ranks.div_ceil(64) as usize])
    }

    /// Inserts a rank; returns whether it was present.
    fn set(&mut self, rank: u32) -> bool {
        let had = self.has(rank);
        self.0[rank as usize / 64] |= 1 << (rank % 64);
        had
    }

    fn has(&self, rank: u32) -> bool {
        self.0[rank as usize / 64] & 1 << (rank % 64) != 0
    }

    fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<u64>()
    }
}
