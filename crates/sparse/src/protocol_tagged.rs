//! An exchange whose tags identify its protocol, and that rejects messages of other protocols.
//!
//! All ranks choose the same protocol, unless the previous exchange failed on some of them only. Then they must not
//! misread each other's messages.

use std::time::Duration;

use treepie_base::{Bytes, Error, Result};
use treepie_fabric::{BarrierResult, PeerDependency, Reactor, Transmit};

use crate::protocol::{ExchangeBuffers, ExchangeProtocol, ExchangeReactor};
use crate::tags::{strip_protocol, with_protocol};
use crate::traffic_summary::TrafficSummary;

/// An exchange that tags its messages with its protocol.
pub(crate) struct ProtocolTagged<E> {
    protocol: ExchangeProtocol,
    exchange: E,
}

impl<E> ProtocolTagged<E> {
    pub(crate) fn new(protocol: ExchangeProtocol, exchange: E) -> Self {
        Self { protocol, exchange }
    }

    fn number(&self) -> u32 {
        self.protocol as u32
    }
}

impl<E: ExchangeReactor> Reactor for ProtocolTagged<E> {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        let transmit = self.exchange.poll_transmit()?;
        Some(Transmit { tag: with_protocol(self.number(), transmit.tag), ..transmit })
    }

    fn on_message(&mut self, now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        let tag = strip_protocol(self.number(), from, tag)?;
        self.exchange.on_message(now, from, tag, bytes)
    }

    fn on_ack(&mut self, to: u32, tag: u32) {
        let tag = strip_protocol(self.number(), to, tag).expect("this rank sent it");
        self.exchange.on_ack(to, tag);
    }

    fn poll_increment(&mut self) -> Option<u32> {
        self.exchange.poll_increment()
    }

    fn poll_barrier(&mut self) -> Option<u64> {
        self.exchange.poll_barrier().map(|bits| bits | TrafficSummary::protocol_bit(self.number()))
    }

    fn on_barrier(&mut self, result: BarrierResult) -> Result<()> {
        if !TrafficSummary::is_only_protocol(result.bits, self.number()) {
            return Err(Error::Algorithm(format!(
                "ranks reached the barrier of {} with different protocols",
                self.protocol
            )));
        }
        self.exchange.on_barrier(result)
    }

    fn name(&self) -> &'static str {
        self.protocol.id()
    }

    fn dependency_on(&self, rank: u32) -> PeerDependency {
        self.exchange.dependency_on(rank)
    }

    fn is_done(&self) -> bool {
        self.exchange.is_done()
    }
}

impl<E: ExchangeReactor> ExchangeReactor for ProtocolTagged<E> {
    fn buffers(&mut self) -> &mut ExchangeBuffers {
        self.exchange.buffers()
    }

    fn traffic_summary(&self) -> TrafficSummary {
        self.exchange.traffic_summary()
    }

    fn memory(&self) -> usize {
        self.exchange.memory()
    }
}
