//! Exchange after exchange, as one reactor: for drivers that know nothing of communicators.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use treepie_base::{Bytes, Error, Result};
use treepie_fabric::{Gathered, Needs, OWN_BITS, Reactor, Transmit};

use crate::protocol::Exchange;

/// Makes the exchange of a round, and gets the one before it, which is done.
pub type Next = Box<dyn FnMut(u32, Option<Box<dyn Exchange>>) -> Option<Box<dyn Exchange>>>;

/// Runs exchanges one after the other, without a barrier between them. What comes for a later one waits.
pub struct Rounds {
    next: Next,
    current: Option<Box<dyn Exchange>>,
    round: u32,
    /// By round, who sent what under which tag.
    early: HashMap<u32, VecDeque<(u32, u32, Bytes)>>,
    /// What went wrong where nobody could be told; the next message tells.
    failure: Option<Error>,
}

impl Rounds {
    /// Begins with round 0, until `next` has no more.
    pub fn new(mut next: Next) -> Self {
        let current = next(0, None);
        let mut this = Self { next, current, round: 0, early: HashMap::new(), failure: None };
        this.settle();
        this
    }

    /// Goes on while exchanges are done by themselves.
    fn settle(&mut self) {
        while let Some(done) = self.current.take_if(|current| current.is_done()) {
            self.round += 1;
            self.current = (self.next)(self.round, Some(done));
        }
    }

    /// Hands in what came early for the current round.
    fn hand_in(&mut self, now: Duration) -> Result<()> {
        loop {
            self.settle();
            let Some(current) = &mut self.current else { return Ok(()) };
            let Some((from, tag, bytes)) = self.early.get_mut(&self.round).and_then(VecDeque::pop_front) else {
                self.early.remove(&self.round);
                return Ok(());
            };
            current.on_message(now, from, tag, bytes)?;
        }
    }
}

impl Reactor for Rounds {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        loop {
            let transmit = self.current.as_mut()?.poll_transmit();
            if let Some(Transmit { to, tag, bytes, synchronous }) = transmit {
                assert!(self.round >> (u32::BITS - OWN_BITS) == 0, "so many rounds do not fit into tags");
                return Some(Transmit { to, tag: self.round << OWN_BITS | tag, bytes, synchronous });
            }
            let round = self.round;
            // What was given out last may have been all that was left to do.
            let handed_in = self.hand_in(Duration::ZERO);
            self.failure = self.failure.take().or(handed_in.err());
            if self.round == round {
                return None;
            }
        }
    }

    fn on_message(&mut self, now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        self.early.entry(tag >> OWN_BITS).or_default().push_back((from, tag & ((1 << OWN_BITS) - 1), bytes));
        self.hand_in(now)
    }

    fn on_taken(&mut self, to: u32, tag: u32) {
        if let Some(current) = &mut self.current {
            current.on_taken(to, tag & ((1 << OWN_BITS) - 1));
        }
    }

    fn poll_arrive(&mut self) -> Option<u64> {
        self.current.as_mut()?.poll_arrive()
    }

    fn poll_add(&mut self) -> Option<u32> {
        self.current.as_mut()?.poll_add()
    }

    fn on_gathered(&mut self, gathered: Gathered) -> Result<()> {
        self.current.as_mut().map_or(Ok(()), |current| current.on_gathered(gathered))
    }

    fn needs(&self, rank: u32) -> Needs {
        self.current.as_ref().map_or(Needs::Nothing, |current| current.needs(rank))
    }

    fn is_done(&self) -> bool {
        self.current.is_none() && self.failure.is_none()
    }
}
