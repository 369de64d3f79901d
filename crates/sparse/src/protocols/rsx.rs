//! RSX, remote summation: each rank adds to a counter at each of its receivers; after a fence each knows how many messages
//! come, and then they do.
//!
//! Where the engine has counters, adding needs nobody's help. Elsewhere it is a synchronous message to the owner, which
//! adds.
//!
//! Cost: L + k o + T_BC(P) + T_DT.   Memory: constant.   Any P.   [NBX paper 3.3]

use std::time::Duration;

use treepie_base::{Bytes, Error, Result};
use treepie_comm::protocol::Means;
use treepie_fabric::{Gathered, Needs, Reactor, Transmit};

use crate::census::Census;
use crate::closing::Closing;
use crate::protocol::{Exchange, Place, Post};
use crate::tags::Kind;

/// The exchange on one rank.
pub(crate) struct Rsx {
    post: Post,
    /// Whether the engine counts.
    by_engine: bool,
    /// How many of the messages have been announced to their receivers.
    announced: usize,
    /// Announcements that have not been taken.
    untaken: usize,
    fence: Closing,
    /// What others have added.
    counter: u64,
}

impl Rsx {
    pub(crate) fn new(at: Place, means: Means, post: Post) -> Self {
        let fence = Closing::new(at, means.barrier);
        let mut this = Self { post, by_engine: means.counters, announced: 0, untaken: 0, fence, counter: 0 };
        this.begin_fence_if_done();
        this
    }

    /// The receiver of the next message that has not been announced.
    fn next_announced(&mut self) -> Option<u32> {
        let (to, _) = self.post.outgoing.get(self.announced)?;
        self.announced += 1;
        Some(*to)
    }

    fn begin_fence_if_done(&mut self) {
        if self.untaken == 0 && self.announced == self.post.outgoing.len() {
            self.fence.begin(self.post.census);
        }
    }
}

impl Reactor for Rsx {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        if self.fence.is_over() {
            let (to, bytes) = self.post.outgoing.pop_front()?;
            return Some(Transmit::new(to, Kind::Data.tag(0), bytes));
        }
        if !self.by_engine
            && let Some(to) = self.next_announced()
        {
            self.untaken += 1;
            return Some(Transmit::new(to, Kind::Count.tag(0), Vec::<u8>::new()).synchronous());
        }
        self.fence.poll_transmit()
    }

    fn on_message(&mut self, _now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        match Kind::of(tag) {
            (Kind::Data, _) => self.post.receive(from, bytes),
            (Kind::Count, _) => self.counter += 1,
            (Kind::Closing, round) => self.fence.on_message(round, &bytes)?,
            (Kind::Meta, _) => return Err(Error::OtherOperation { rank: from as usize }),
        }
        Ok(())
    }

    fn on_taken(&mut self, _to: u32, _tag: u32) {
        self.untaken -= 1;
        self.begin_fence_if_done();
    }

    fn poll_add(&mut self) -> Option<u32> {
        if !self.by_engine || self.fence.is_over() {
            return None;
        }
        let to = self.next_announced();
        self.begin_fence_if_done();
        to
    }

    fn poll_arrive(&mut self) -> Option<u64> {
        self.fence.poll_arrive()
    }

    fn on_gathered(&mut self, gathered: Gathered) -> Result<()> {
        self.counter += gathered.added;
        self.fence.on_gathered(gathered);
        Ok(())
    }

    fn needs(&self, rank: u32) -> Needs {
        if self.is_done() {
            return Needs::Nothing;
        }
        match self.fence.needs(rank) {
            Needs::Nothing => Needs::Perhaps,
            needs => needs,
        }
    }

    fn is_done(&self) -> bool {
        self.fence.is_over() && self.post.outgoing.is_empty() && self.post.came == self.counter
    }
}

impl Exchange for Rsx {
    fn post(&mut self) -> &mut Post {
        &mut self.post
    }

    fn census(&self) -> Census {
        self.fence.census()
    }

    fn memory(&self) -> usize {
        size_of::<Self>() - size_of::<Post>()
    }
}
