//! PCX, personalized census: a reduce-scatter of message counts, then the data.
//!
//! A rank holds its counts by distance on the ring. In round r of a dissemination it sends those whose distance has bit
//! r, without lower ones, to the rank 2^r ahead, which adds them to those whose distance is 2^r less. After ceil(lg P)
//! rounds and P - 1 counts sent, the remaining count is the number of messages for this rank.   [Bruck et al.]
//!
//! Cost: T_RS(P) + T_DT.   Memory: 4 bytes per rank.   Any P.   [NBX paper 3.2, algorithm 1]

use std::time::Duration;

use treepie_base::{Bytes, Error, Result};
use treepie_comm::protocol::{Disseminated, Dissemination, RingPosition};
use treepie_fabric::{PeerDependency, Reactor, Transmit};

use crate::protocol::{ExchangeBuffers, ExchangeReactor};
use crate::tags::MessageKind;
use crate::traffic_summary::TrafficSummary;

/// The exchange on one rank.
pub(crate) struct Pcx {
    buffers: ExchangeBuffers,
    table: Dissemination<CountTable>,
}

/// The reduce-scatter.
struct CountTable {
    /// Partial message counts by distance.
    counts: Vec<u32>,
    summary: TrafficSummary,
}

impl Disseminated for CountTable {
    type Message = Bytes;

    /// The summary, and the counts.
    fn encode(&mut self, round: u32) -> Bytes {
        let mut bytes = self.summary.bits().to_le_bytes().to_vec();
        bytes.extend(self.counts.iter().skip(1 << round).step_by(2 << round).flat_map(|count| count.to_le_bytes()));
        Bytes::from(bytes)
    }

    fn decode(&self, round: u32, bytes: Bytes) -> Option<Bytes> {
        let counts = (self.counts.len() - (1 << round)).div_ceil(2 << round);
        (bytes.as_slice().len() == 8 + 4 * counts).then_some(bytes)
    }

    fn combine(&mut self, round: u32, bytes: Bytes) {
        let (summary, counts) = bytes.as_slice().split_first_chunk().expect("its length was checked");
        self.summary.merge(u64::from_le_bytes(*summary));
        let sums = self.counts.iter_mut().step_by(2 << round);
        sums.zip(counts.as_chunks().0).for_each(|(sum, more)| *sum += u32::from_le_bytes(*more));
    }
}

impl Pcx {
    pub(crate) fn new(position: RingPosition, buffers: ExchangeBuffers) -> Self {
        let mut counts = vec![0; position.ranks as usize];
        for (to, _) in &buffers.outgoing {
            counts[position.distance_to(*to) as usize] += 1;
        }
        let table = Dissemination::new(position, CountTable { counts, summary: buffers.summary }).begun();
        Self { buffers, table }
    }
}

impl Reactor for Pcx {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        if let Some(transmit) = self.table.poll_transmit() {
            return Some(Transmit { tag: MessageKind::Meta.tag(transmit.tag), ..transmit });
        }
        // Data follows the last round of counts; it does not wait for incoming counts.
        let (to, bytes) = if self.table.is_sent() { self.buffers.outgoing.pop_front()? } else { return None };
        Some(Transmit::new(to, MessageKind::Data.tag(0), bytes))
    }

    fn on_message(&mut self, now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        match MessageKind::decode(tag) {
            (MessageKind::Data, _) => self.buffers.receive(from, bytes),
            (MessageKind::Meta, round) => self.table.on_message(now, from, round, bytes)?,
            _ => return Err(Error::CollectiveOrderMismatch { rank: from as usize }),
        }
        Ok(())
    }

    fn dependency_on(&self, rank: u32) -> PeerDependency {
        if self.table.expects(rank) { PeerDependency::Required } else { PeerDependency::Possible }
    }

    fn is_done(&self) -> bool {
        let is_complete = self.table.is_done() && self.buffers.outgoing.is_empty();
        is_complete && self.buffers.num_received == u64::from(self.table.value.counts[0])
    }
}

impl ExchangeReactor for Pcx {
    fn buffers(&mut self) -> &mut ExchangeBuffers {
        &mut self.buffers
    }

    fn traffic_summary(&self) -> TrafficSummary {
        self.table.value.summary
    }

    fn memory(&self) -> usize {
        size_of::<Self>() - size_of::<ExchangeBuffers>() + self.table.value.counts.capacity() * size_of::<u32>()
    }
}
