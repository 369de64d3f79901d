//! NBX where the engine's barrier is behind all messages: a rank comes to it when all of its own are on their way, and once
//! all have come, everything lies where its receiver finds it. No message is answered.
//!
//! Cost: T_BC(P) + T_DT.   Memory: constant.   Any P, where the engine says so.   [NBX paper 3.4, consistency condition 1]

use std::time::Duration;

use treepie_base::{Bytes, Error, Result};
use treepie_fabric::{Gathered, Needs, Reactor, Transmit};

use crate::census::Census;
use crate::protocol::{Exchange, Post};
use crate::tags::Kind;

/// The exchange on one rank.
pub(crate) struct NbxBehind {
    post: Post,
    arrived: bool,
    /// What all have said, when all have come.
    all: Option<Census>,
}

impl NbxBehind {
    pub(crate) fn new(post: Post) -> Self {
        Self { post, arrived: false, all: None }
    }
}

impl Reactor for NbxBehind {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        let (to, bytes) = self.post.outgoing.pop_front()?;
        Some(Transmit::new(to, Kind::Data.tag(0), bytes))
    }

    fn on_message(&mut self, _now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        match Kind::of(tag) {
            (Kind::Data, _) => self.post.receive(from, bytes),
            _ => return Err(Error::OtherOperation { rank: from as usize }),
        }
        Ok(())
    }

    fn poll_arrive(&mut self) -> Option<u64> {
        if !self.post.outgoing.is_empty() || std::mem::replace(&mut self.arrived, true) {
            return None;
        }
        Some(self.post.census.bits())
    }

    fn on_gathered(&mut self, gathered: Gathered) -> Result<()> {
        self.all = Some(Census::from_bits(gathered.census));
        Ok(())
    }

    fn needs(&self, _rank: u32) -> Needs {
        Needs::Perhaps
    }

    fn is_done(&self) -> bool {
        self.all.is_some()
    }
}

impl Exchange for NbxBehind {
    fn post(&mut self) -> &mut Post {
        &mut self.post
    }

    fn census(&self) -> Census {
        self.all.unwrap_or_default()
    }

    fn memory(&self) -> usize {
        size_of::<Self>() - size_of::<Post>()
    }
}
