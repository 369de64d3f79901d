//! RSX, remote summation: each rank increments a counter at each of its receivers. After a fence each rank knows its
//! number of messages; then the data.
//!
//! If the engine has counters, the increment is one-sided. Otherwise it is a synchronous message to the receiver, or
//! goes through the coordinators of clusters (`rsx_coordinators.rs`).
//!
//! Cost: L + k o + T_BC(P) + T_DT.   Memory: constant.   Any P.   [NBX paper 3.3]

use std::time::Duration;

use treepie_base::{Bytes, Error, Result};
use treepie_fabric::{BarrierResult, PeerDependency, Reactor, Transmit};

use crate::protocol::{ExchangeBuffers, ExchangeReactor};
use crate::summary_barrier::SummaryBarrier;
use crate::tags::MessageKind;
use crate::traffic_summary::TrafficSummary;

/// The exchange on one rank.
pub(crate) struct Rsx {
    buffers: ExchangeBuffers,
    /// Use the engine's counters.
    uses_engine_counters: bool,
    /// Messages for which the counter was incremented.
    announced: usize,
    /// Synchronous increments that have not completed.
    unacknowledged: usize,
    fence: SummaryBarrier,
    /// Messages announced to this rank.
    counter: u64,
}

impl Rsx {
    pub(crate) fn new(fence: SummaryBarrier, uses_engine_counters: bool, buffers: ExchangeBuffers) -> Self {
        let mut this = Self { buffers, uses_engine_counters, announced: 0, unacknowledged: 0, fence, counter: 0 };
        this.begin_fence_if_done();
        this
    }

    /// The receiver of the next message to announce.
    fn next_announced(&mut self) -> Option<u32> {
        let (to, _) = self.buffers.outgoing.get(self.announced)?;
        self.announced += 1;
        Some(*to)
    }

    fn begin_fence_if_done(&mut self) {
        if self.unacknowledged == 0 && self.announced == self.buffers.outgoing.len() {
            self.fence.begin(self.buffers.summary);
        }
    }
}

impl Reactor for Rsx {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        if self.fence.is_complete() {
            let (to, bytes) = self.buffers.outgoing.pop_front()?;
            return Some(Transmit::new(to, MessageKind::Data.tag(0), bytes));
        }
        if !self.uses_engine_counters
            && let Some(to) = self.next_announced()
        {
            self.unacknowledged += 1;
            return Some(Transmit::new(to, MessageKind::Count.tag(0), Vec::<u8>::new()).synchronous());
        }
        self.fence.poll_transmit()
    }

    fn on_message(&mut self, now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        match MessageKind::decode(tag) {
            (MessageKind::Data, _) => self.buffers.receive(from, bytes),
            (MessageKind::Count, _) => self.counter += 1,
            (MessageKind::Barrier, round) => self.fence.on_message(now, from, round, bytes)?,
            (MessageKind::Meta, _) => return Err(Error::CollectiveOrderMismatch { rank: from as usize }),
        }
        Ok(())
    }

    fn on_ack(&mut self, _to: u32, _tag: u32) {
        self.unacknowledged -= 1;
        self.begin_fence_if_done();
    }

    fn poll_increment(&mut self) -> Option<u32> {
        if !self.uses_engine_counters || self.fence.is_complete() {
            return None;
        }
        let to = self.next_announced();
        self.begin_fence_if_done();
        to
    }

    fn poll_barrier(&mut self) -> Option<u64> {
        self.fence.poll_barrier()
    }

    fn on_barrier(&mut self, result: BarrierResult) -> Result<()> {
        self.counter += result.counter;
        self.fence.on_barrier(result);
        Ok(())
    }

    fn dependency_on(&self, rank: u32) -> PeerDependency {
        if self.is_done() {
            return PeerDependency::Nothing;
        }
        match self.fence.dependency_on(rank) {
            PeerDependency::Nothing => PeerDependency::Possible,
            dependency => dependency,
        }
    }

    fn is_done(&self) -> bool {
        self.fence.is_complete() && self.buffers.outgoing.is_empty() && self.buffers.num_received == self.counter
    }
}

impl ExchangeReactor for Rsx {
    fn buffers(&mut self) -> &mut ExchangeBuffers {
        &mut self.buffers
    }

    fn traffic_summary(&self) -> TrafficSummary {
        self.fence.summary()
    }

    fn memory(&self) -> usize {
        size_of::<Self>() - size_of::<ExchangeBuffers>() + self.fence.memory()
    }
}
