//! Crystal router: store and forward in ceil(lg P) steps; in step r a rank sends one bundle to the rank 2^r ahead.
//!
//! Cost: ceil(lg P)(alpha + k m / 2 beta): the messages of a barrier, but data is sent lg P / 2 times on average.
//! Memory: constant beside the messages, own and forwarded.   Any P.   [Fox et al.; Bruck et al.]
//!
//! On 2^d ranks the routes are those of a hypercube with its ranks relabelled at each step. There is no barrier: a rank
//! receives one bundle in each step and is done after the last.

use std::time::Duration;

use treepie_base::{Bytes, Region, Result};
use treepie_comm::protocol::{ForwardingScheme, RingPosition, StoreAndForward};
use treepie_fabric::{PeerDependency, Reactor, Transmit};

use crate::protocol::{ExchangeBuffers, ExchangeReactor};
use crate::traffic_summary::TrafficSummary;

/// The exchange on one rank.
pub(crate) struct Crystal {
    buffers: ExchangeBuffers,
    router: StoreAndForward,
}

impl Crystal {
    pub(crate) fn new(position: RingPosition, mut buffers: ExchangeBuffers) -> Self {
        let items = buffers.outgoing.drain(..).map(|(to, bytes)| (to, Region::from(bytes)));
        let flags = Some(buffers.summary.bits());
        let router = StoreAndForward::with_flags(position.rank, position.ranks, ForwardingScheme::Bruck, flags, items);
        Self { buffers, router }
    }
}

impl Reactor for Crystal {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        self.router.poll_transmit()
    }

    fn on_message(&mut self, now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        self.router.on_message(now, from, tag, bytes)
    }

    fn dependency_on(&self, rank: u32) -> PeerDependency {
        self.router.dependency_on(rank)
    }

    fn is_done(&self) -> bool {
        self.router.is_done()
    }
}

impl ExchangeReactor for Crystal {
    fn buffers(&mut self) -> &mut ExchangeBuffers {
        if self.router.is_done() {
            for (origin, region) in self.router.take_items() {
                let bytes = region.read(0..region.len(), |bytes| Bytes::copy_of(bytes, align_of::<u64>()));
                self.buffers.receive(origin, bytes);
            }
        }
        &mut self.buffers
    }

    fn traffic_summary(&self) -> TrafficSummary {
        TrafficSummary::from_bits(self.router.flags())
    }

    fn memory(&self) -> usize {
        size_of::<Self>() - size_of::<ExchangeBuffers>() - size_of::<StoreAndForward>() + self.router.memory()
    }
}
