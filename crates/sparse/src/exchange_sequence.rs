//! A sequence of exchanges as one reactor, for drivers without communicators.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use treepie_base::{Bytes, Error, Result};
use treepie_fabric::{BarrierResult, PeerDependency, Reactor, SUBTAG_BITS, Transmit};

use crate::protocol::ExchangeReactor;

/// Creates the exchange of a round; receives the completed exchange of the round before.
pub type NextExchange = Box<dyn FnMut(u32, Option<Box<dyn ExchangeReactor>>) -> Option<Box<dyn ExchangeReactor>>>;

/// Runs exchanges one after the other, without a barrier between them. Messages of later rounds are queued.
pub struct ExchangeSequence {
    next: NextExchange,
    current: Option<Box<dyn ExchangeReactor>>,
    round: u32,
    /// Messages of later rounds, by round: source, tag and bytes.
    early: HashMap<u32, VecDeque<(u32, u32, Bytes)>>,
    /// An error of `poll_transmit`, which the next `on_message` returns.
    failure: Option<Error>,
}

impl ExchangeSequence {
    /// Starts with round 0 and runs until `next` returns nothing.
    pub fn new(mut next: NextExchange) -> Self {
        let current = next(0, None);
        let mut this = Self { next, current, round: 0, early: HashMap::new(), failure: None };
        this.advance();
        this
    }

    /// Advances past exchanges that are complete as soon as they start.
    fn advance(&mut self) {
        while let Some(done) = self.current.take_if(|current| current.is_done()) {
            self.round += 1;
            self.current = (self.next)(self.round, Some(done));
        }
    }

    /// Delivers the early messages of the current round.
    fn deliver_early(&mut self, now: Duration) -> Result<()> {
        loop {
            self.advance();
            let Some(current) = &mut self.current else { return Ok(()) };
            let Some((from, tag, bytes)) = self.early.get_mut(&self.round).and_then(VecDeque::pop_front) else {
                self.early.remove(&self.round);
                return Ok(());
            };
            current.on_message(now, from, tag, bytes)?;
        }
    }
}

impl Reactor for ExchangeSequence {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        loop {
            let transmit = self.current.as_mut()?.poll_transmit();
            if let Some(Transmit { to, tag, bytes, synchronous }) = transmit {
                assert!(self.round >> (u32::BITS - SUBTAG_BITS) == 0, "the round number does not fit into the tag");
                return Some(Transmit { to, tag: self.round << SUBTAG_BITS | tag, bytes, synchronous });
            }
            let round = self.round;
            // The last message may have completed the exchange.
            let delivered = self.deliver_early(Duration::ZERO);
            self.failure = self.failure.take().or(delivered.err());
            if self.round == round {
                return None;
            }
        }
    }

    fn on_message(&mut self, now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        self.early.entry(tag >> SUBTAG_BITS).or_default().push_back((from, tag & ((1 << SUBTAG_BITS) - 1), bytes));
        self.deliver_early(now)
    }

    fn on_ack(&mut self, to: u32, tag: u32) {
        if let Some(current) = &mut self.current {
            current.on_ack(to, tag & ((1 << SUBTAG_BITS) - 1));
        }
    }

    fn poll_barrier(&mut self) -> Option<u64> {
        self.current.as_mut()?.poll_barrier()
    }

    fn poll_increment(&mut self) -> Option<u32> {
        self.current.as_mut()?.poll_increment()
    }

    fn on_barrier(&mut self, result: BarrierResult) -> Result<()> {
        self.current.as_mut().map_or(Ok(()), |current| current.on_barrier(result))
    }

    fn dependency_on(&self, rank: u32) -> PeerDependency {
        self.current.as_ref().map_or(PeerDependency::Nothing, |current| current.dependency_on(rank))
    }

    fn is_done(&self) -> bool {
        self.current.is_none() && self.failure.is_none()
    }
}
