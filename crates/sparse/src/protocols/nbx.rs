//! NBX, nonblocking consensus: synchronous sends, and a barrier that a rank begins when all of its own have been taken.
//! While the barrier goes on the rank keeps receiving, so when it is over everything has been received everywhere.
//!
//! Cost: T_BC(P) + T_DT, and L + k o if each message is answered.   Memory: constant.   Any P.
//! [NBX paper, algorithm 2; consistency condition 4]

use std::time::Duration;

use treepie_base::{Bytes, Error, Result};
use treepie_comm::protocol::Means;
use treepie_fabric::{Gathered, Needs, Reactor, Transmit};

use crate::census::Census;
use crate::closing::Closing;
use crate::protocol::{Exchange, Place, Post};
use crate::tags::Kind;

/// The exchange on one rank.
pub(crate) struct Nbx {
    post: Post,
    /// Messages that their receivers have not taken.
    untaken: usize,
    barrier: Closing,
}

impl Nbx {
    pub(crate) fn new(at: Place, means: Means, post: Post) -> Self {
        let mut this = Self { untaken: post.outgoing.len(), post, barrier: Closing::new(at, means.barrier) };
        this.begin_barrier_if_done();
        this
    }

    fn begin_barrier_if_done(&mut self) {
        if self.untaken == 0 {
            self.barrier.begin(self.post.census);
        }
    }
}

impl Reactor for Nbx {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        let data = self.post.outgoing.pop_front();
        let data = data.map(|(to, bytes)| Transmit::new(to, Kind::Data.tag(0), bytes).synchronous());
        data.or_else(|| self.barrier.poll_transmit())
    }

    fn on_message(&mut self, _now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        match Kind::of(tag) {
            (Kind::Data, _) => self.post.receive(from, bytes),
            (Kind::Closing, round) => self.barrier.on_message(round, &bytes)?,
            _ => return Err(Error::OtherOperation { rank: from as usize }),
        }
        Ok(())
    }

    fn on_taken(&mut self, _to: u32, _tag: u32) {
        self.untaken -= 1;
        self.begin_barrier_if_done();
    }

    fn poll_arrive(&mut self) -> Option<u64> {
        self.barrier.poll_arrive()
    }

    fn on_gathered(&mut self, gathered: Gathered) -> Result<()> {
        self.barrier.on_gathered(gathered);
        Ok(())
    }

    fn needs(&self, rank: u32) -> Needs {
        self.barrier.needs(rank)
    }

    fn is_done(&self) -> bool {
        self.barrier.is_over()
    }
}

impl Exchange for Nbx {
    fn post(&mut self) -> &mut Post {
        &mut self.post
    }

    fn census(&self) -> Census {
        self.barrier.census()
    }

    fn memory(&self) -> usize {
        size_of::<Self>() - size_of::<Post>()
    }
}
