//! NBX with an ordered barrier of the engine, which no message overtakes: a rank arrives when it has injected all of
//! its messages, and when the barrier completes all of them are at their receivers. No acknowledgements.
//!
//! Cost: T_BC(P) + T_DT.   Memory: constant.   Any P, if the engine has such a barrier.
//! [NBX paper 3.4, consistency condition 1]

use std::time::Duration;

use treepie_base::{Bytes, Error, Result};
use treepie_fabric::{BarrierResult, PeerDependency, Reactor, Transmit};

use crate::protocol::{ExchangeBuffers, ExchangeReactor};
use crate::tags::MessageKind;
use crate::traffic_summary::TrafficSummary;

/// The exchange on one rank.
pub(crate) struct NbxOrderedBarrier {
    buffers: ExchangeBuffers,
    arrived: bool,
    /// The summary over all ranks, once the barrier is complete.
    summary: Option<TrafficSummary>,
}

impl NbxOrderedBarrier {
    pub(crate) fn new(buffers: ExchangeBuffers) -> Self {
        Self { buffers, arrived: false, summary: None }
    }
}

impl Reactor for NbxOrderedBarrier {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        let (to, bytes) = self.buffers.outgoing.pop_front()?;
        Some(Transmit::new(to, MessageKind::Data.tag(0), bytes))
    }

    fn on_message(&mut self, _now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        match MessageKind::decode(tag) {
            (MessageKind::Data, _) => self.buffers.receive(from, bytes),
            _ => return Err(Error::CollectiveOrderMismatch { rank: from as usize }),
        }
        Ok(())
    }

    fn poll_barrier(&mut self) -> Option<u64> {
        if !self.buffers.outgoing.is_empty() || std::mem::replace(&mut self.arrived, true) {
            return None;
        }
        Some(self.buffers.summary.bits())
    }

    fn on_barrier(&mut self, result: BarrierResult) -> Result<()> {
        self.summary = Some(TrafficSummary::from_bits(result.bits));
        Ok(())
    }

    fn dependency_on(&self, _rank: u32) -> PeerDependency {
        PeerDependency::Possible
    }

    fn is_done(&self) -> bool {
        self.summary.is_some()
    }
}

impl ExchangeReactor for NbxOrderedBarrier {
    fn buffers(&mut self) -> &mut ExchangeBuffers {
        &mut self.buffers
    }

    fn traffic_summary(&self) -> TrafficSummary {
        self.summary.unwrap_or_default()
    }

    fn memory(&self) -> usize {
        size_of::<Self>() - size_of::<ExchangeBuffers>()
    }
}
