//! The crystal router: messages go by powers of two around the ring of ranks, all that go the same way in one.
//!
//! Cost: ceil(lg P)(alpha + k m / 2 beta): as few messages as a barrier, but data is sent lg P / 2 times on average.
//! Memory: constant beside messages, and those on their way through.   Any P.   [Fox et al.; Bruck et al.]
//!
//! On 2^d ranks the ways are those of a hypercube with its ranks renamed at each step. Nobody waits for a barrier: a rank
//! gets one bundle in each step and is done after the last.

use std::time::Duration;

use treepie_base::{Bytes, Region, Result};
use treepie_comm::protocol::{Route, StoreAndForward};
use treepie_fabric::{Needs, Reactor, Transmit};

use crate::census::Census;
use crate::protocol::{Exchange, Place, Post};

/// The exchange on one rank.
pub(crate) struct Crystal {
    post: Post,
    router: StoreAndForward,
}

impl Crystal {
    pub(crate) fn new(at: Place, mut post: Post) -> Self {
        let items = post.outgoing.drain(..).map(|(to, bytes)| (to, Region::from(bytes)));
        let notes = Some(post.census.bits());
        let router = StoreAndForward::with_notes(at.rank, at.ranks, Route::Bruck, notes, items);
        Self { post, router }
    }
}

impl Reactor for Crystal {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        self.router.poll_transmit()
    }

    fn on_message(&mut self, now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        self.router.on_message(now, from, tag, bytes)
    }

    fn needs(&self, rank: u32) -> Needs {
        self.router.needs(rank)
    }

    fn is_done(&self) -> bool {
        self.router.is_done()
    }
}

impl Exchange for Crystal {
    fn post(&mut self) -> &mut Post {
        if self.router.is_done() {
            for (origin, region) in self.router.take_items() {
                let bytes = region.read(0..region.len(), |bytes| Bytes::copy_of(bytes, align_of::<u64>()));
                self.post.receive(origin, bytes);
            }
        }
        &mut self.post
    }

    fn census(&self) -> Census {
        Census::from_bits(self.router.notes())
    }

    fn memory(&self) -> usize {
        size_of::<Self>() - size_of::<Post>() - size_of::<StoreAndForward>() + self.router.memory()
    }
}
