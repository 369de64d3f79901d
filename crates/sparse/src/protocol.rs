//! The interface of all sparse exchange protocols: ids, reactors and message buffers.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

use treepie_base::{Bytes, Error};
use treepie_comm::protocol::{ProtocolFamily, ReactorCapabilities, RingPosition};
use treepie_fabric::Reactor;

use crate::traffic_summary::TrafficSummary;

pub(crate) const AUTO: &str = "exchange/auto";

/// The protocols of this crate: the choice among them, and each in the order of [`ExchangeProtocol`].
pub static PROTOCOLS: ProtocolFamily = ProtocolFamily {
    place: 1,
    protocols: &[
        (AUTO, "the cheapest of these, estimated from previous exchanges"),
        ("exchange/pex", "sizes for all ranks by an all-to-all, then the data"),
        ("exchange/pcx", "message counts by a reduce-scatter of ones, then the data"),
        ("exchange/rsx", "message counts by remote counters and a fence, then the data"),
        ("exchange/nbx", "synchronous sends and a nonblocking barrier"),
        ("exchange/nbx:condition=1", "the same with standard sends, if a barrier completes after all messages"),
        ("exchange/nbx:condition=2", "the same with a barrier over all channels, which is part of the messages"),
        ("exchange/crystal", "store and forward over powers of two with aggregated messages"),
    ],
};

/// A sparse exchange protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ExchangeProtocol {
    /// Personalized exchange: an all-to-all of message sizes.
    Pex,
    /// Personalized census: a reduce-scatter of message counts.
    Pcx,
    /// Remote summation of message counts.
    Rsx,
    /// Nonblocking consensus with synchronous sends: consistency condition 4 of the paper.
    Nbx,
    /// Nonblocking consensus with a barrier that no message overtakes: condition 1.
    NbxOrderedBarrier,
    /// Nonblocking consensus with a barrier over all channels: condition 2.
    NbxAllChannels,
    /// The crystal router: store and forward.
    Crystal,
}

impl ExchangeProtocol {
    /// All protocols.
    pub const ALL: [Self; 7] =
        [Self::Pex, Self::Pcx, Self::Rsx, Self::Nbx, Self::NbxOrderedBarrier, Self::NbxAllChannels, Self::Crystal];

    /// The id, such as `exchange/nbx`.
    pub fn id(self) -> &'static str {
        PROTOCOLS.protocols[1 + self as usize].0
    }

    /// The capability that the protocol needs and the engine lacks, if any.
    pub fn missing_capability(self, capabilities: ReactorCapabilities) -> Option<&'static str> {
        (self == ExchangeProtocol::NbxOrderedBarrier && !capabilities.barrier_flushes)
            .then_some("a barrier ordered behind all messages")
    }
}

impl fmt::Display for ExchangeProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

impl FromStr for ExchangeProtocol {
    type Err = Error;

    fn from_str(id: &str) -> Result<Self, Error> {
        let found = ExchangeProtocol::ALL.into_iter().find(|protocol| protocol.id() == id);
        found.ok_or_else(|| Error::Algorithm(format!("there is no exchange protocol `{id}`")))
    }
}

/// An exchange on one rank, by any protocol.
pub trait ExchangeReactor: Reactor {
    /// The outgoing and received messages.
    fn buffers(&mut self) -> &mut ExchangeBuffers;

    /// The traffic summary over all ranks, once the exchange is done.
    fn traffic_summary(&self) -> TrafficSummary;

    /// Peak bytes of protocol state on this rank, without messages and their queues.
    fn memory(&self) -> usize;
}

/// The messages of one rank in an exchange.
#[derive(Debug)]
pub struct ExchangeBuffers {
    /// Messages to other ranks that have not been sent.
    pub(crate) outgoing: VecDeque<(u32, Bytes)>,
    received: Vec<(u32, Bytes)>,
    /// Messages received from other ranks.
    pub(crate) num_received: u64,
    /// This rank's contribution to the traffic summary.
    pub(crate) summary: TrafficSummary,
}

impl ExchangeBuffers {
    /// Delivers a rank's messages to itself at once.
    pub(crate) fn new(position: RingPosition, messages: Vec<(u32, Bytes)>) -> Self {
        let longest = messages.iter().map(|(_, bytes)| bytes.as_slice().len()).max().unwrap_or(0);
        let summary = TrafficSummary::new(messages.len(), longest);
        let (received, outgoing) = if messages.iter().any(|(to, _)| *to == position.rank) {
            messages.into_iter().partition(|(to, _)| *to == position.rank)
        } else {
            (Vec::new(), messages)
        };
        Self { outgoing: outgoing.into(), received, num_received: 0, summary }
    }

    pub(crate) fn receive(&mut self, from: u32, bytes: Bytes) {
        self.num_received += 1;
        self.received.push((from, bytes));
    }

    /// Takes the messages received so far, in arrival order.
    pub fn take_received(&mut self) -> Vec<(u32, Bytes)> {
        std::mem::take(&mut self.received)
    }

    /// Takes the received messages sorted by source; those of one source in the order sent.
    pub fn take_sorted(&mut self) -> Vec<(u32, Bytes)> {
        let mut received = self.take_received();
        received.sort_by_key(|(from, _)| *from);
        received
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_match_the_registered_protocols() {
        let ids = PROTOCOLS.protocols.iter().map(|(id, _)| *id).filter(|id| *id != AUTO);
        assert!(ids.eq(ExchangeProtocol::ALL.map(ExchangeProtocol::id)));
        ExchangeProtocol::ALL.into_iter().for_each(|protocol| assert_eq!(protocol.id().parse(), Ok(protocol)));
        assert_eq!(ExchangeProtocol::NbxAllChannels.id(), "exchange/nbx:condition=2");
    }
}
