//! NBX, nonblocking consensus: synchronous sends, and a nonblocking barrier that a rank enters when all of its sends
//! have completed. Ranks receive during the barrier, so when it completes all messages have been received.
//!
//! Cost: T_BC(P) + T_DT, and L + k o for the acknowledgements.   Memory: constant.   Any P.
//! [NBX paper 3.4, algorithm 2; consistency condition 4]
//!
//! If the engine has an ordered barrier, which no message overtakes, standard sends suffice: a rank enters when it has
//! sent all of its messages, and when the barrier completes all of them are at their receivers. [consistency condition
//! 1]

use std::time::Duration;

use treepie_base::{Bytes, Error, Result};
use treepie_fabric::{BarrierResult, PeerDependency, Reactor, Transmit};

use crate::protocol::{ExchangeBuffers, ExchangeReactor};
use crate::summary_barrier::SummaryBarrier;
use crate::tags::MessageKind;
use crate::traffic_summary::TrafficSummary;

/// The exchange on one rank.
pub(crate) struct Nbx {
    buffers: ExchangeBuffers,
    synchronous: bool,
    /// Synchronous sends that have not completed.
    unacknowledged: usize,
    barrier: SummaryBarrier,
}

impl Nbx {
    pub(crate) fn new(barrier: SummaryBarrier, buffers: ExchangeBuffers) -> Self {
        Self::with_barrier(barrier, true, buffers)
    }

    /// With the engine's ordered barrier.
    pub(crate) fn with_ordered_barrier(buffers: ExchangeBuffers) -> Self {
        Self::with_barrier(SummaryBarrier::of_engine(), false, buffers)
    }

    fn with_barrier(barrier: SummaryBarrier, synchronous: bool, buffers: ExchangeBuffers) -> Self {
        let mut this = Self { buffers, synchronous, unacknowledged: 0, barrier };
        this.begin_barrier_if_done();
        this
    }

    fn begin_barrier_if_done(&mut self) {
        if self.unacknowledged == 0 && self.buffers.outgoing.is_empty() {
            self.barrier.begin(self.buffers.summary);
        }
    }
}

impl Reactor for Nbx {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        let Some((to, bytes)) = self.buffers.outgoing.pop_front() else { return self.barrier.poll_transmit() };
        self.unacknowledged += usize::from(self.synchronous);
        self.begin_barrier_if_done();
        Some(Transmit { synchronous: self.synchronous, ..Transmit::new(to, MessageKind::Data.tag(0), bytes) })
    }

    fn on_message(&mut self, now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        match MessageKind::decode(tag) {
            (MessageKind::Data, _) => self.buffers.receive(from, bytes),
            (MessageKind::Barrier, round) => self.barrier.on_message(now, from, round, bytes)?,
            _ => return Err(Error::CollectiveOrderMismatch { rank: from as usize }),
        }
        Ok(())
    }

    fn on_ack(&mut self, _to: u32, _tag: u32) {
        self.unacknowledged -= 1;
        self.begin_barrier_if_done();
    }

    fn poll_barrier(&mut self) -> Option<u64> {
        self.barrier.poll_barrier()
    }

    fn on_barrier(&mut self, result: BarrierResult) -> Result<()> {
        self.barrier.on_barrier(result);
        Ok(())
    }

    fn dependency_on(&self, rank: u32) -> PeerDependency {
        self.barrier.dependency_on(rank)
    }

    fn is_done(&self) -> bool {
        self.barrier.is_complete()
    }
}

impl ExchangeReactor for Nbx {
    fn buffers(&mut self) -> &mut ExchangeBuffers {
        &mut self.buffers
    }

    fn traffic_summary(&self) -> TrafficSummary {
        self.barrier.summary()
    }

    fn memory(&self) -> usize {
        size_of::<Self>() - size_of::<ExchangeBuffers>() + self.barrier.memory()
    }
}
