//! The end of an exchange: a barrier, in which all ranks also learn the census.
//!
//! By messages it is the dissemination barrier: in round r a rank tells the one 2^r ahead what it knows, after it has heard
//! from all before: ceil(lg P) rounds, any P.   [Hengsen, Finkel, Manber 1988]
//! Where the engine has a barrier of its own, it is that.

use treepie_base::{Bytes, Error, Result};
use treepie_fabric::{Gathered, Needs, Transmit};

use crate::census::Census;
use crate::protocol::Place;
use crate::tags::Kind;

/// A barrier that begins when this rank is ready, and ends when all are.
#[derive(Debug)]
pub(crate) struct Closing {
    at: Place,
    /// Whether it is the engine's.
    by_engine: bool,
    census: Census,
    state: State,
    /// Rounds whose message has come, as bits.
    heard: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    /// This rank is ready. By messages: the round whose message is to be sent next.
    Begun {
        round: u32,
    },
    /// At the engine's barrier.
    Arrived,
    Over,
}

impl Closing {
    pub(crate) fn new(at: Place, by_engine: bool) -> Self {
        Self { at, by_engine, census: Census::default(), state: State::Waiting, heard: 0 }
    }

    /// This rank is ready. Does nothing the second time.
    pub(crate) fn begin(&mut self, census: Census) {
        if self.state == State::Waiting {
            self.census.add(census.bits());
            self.state = State::Begun { round: 0 };
            self.end_if_complete();
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// What all have said, once it is over.
    pub(crate) fn census(&self) -> Census {
        self.census
    }

    fn has_heard(&self, round: u32) -> bool {
        self.heard & 1 << round != 0
    }

    fn end_if_complete(&mut self) {
        let rounds = self.at.rounds();
        if !self.by_engine
            && self.state == (State::Begun { round: rounds })
            && (0..rounds).all(|round| self.has_heard(round))
        {
            self.state = State::Over;
        }
    }

    pub(crate) fn poll_transmit(&mut self) -> Option<Transmit> {
        let State::Begun { round } = self.state else { return None };
        let may_send = round < self.at.rounds() && (round == 0 || self.has_heard(round - 1));
        if self.by_engine || !may_send {
            return None;
        }
        self.state = State::Begun { round: round + 1 };
        let transmit = Transmit::new(self.at.ahead(1 << round), Kind::Closing.tag(round), vec![self.census.bits()]);
        self.end_if_complete();
        Some(transmit)
    }

    pub(crate) fn on_message(&mut self, round: u32, bytes: &Bytes) -> Result<()> {
        if round >= self.at.rounds() || self.has_heard(round) {
            return Err(Error::Disagreement { got: bytes.as_slice().len() as u64, expected: 0 });
        }
        self.census.add(word(bytes)?);
        self.heard |= 1 << round;
        self.end_if_complete();
        Ok(())
    }

    pub(crate) fn poll_arrive(&mut self) -> Option<u64> {
        if !self.by_engine || !matches!(self.state, State::Begun { .. }) {
            return None;
        }
        self.state = State::Arrived;
        Some(self.census.bits())
    }

    pub(crate) fn on_gathered(&mut self, gathered: Gathered) {
        self.census.add(gathered.census);
        self.state = State::Over;
    }

    /// Whether it waits for a rank. Of the engine's barrier the engine knows.
    pub(crate) fn needs(&self, rank: u32) -> Needs {
        let unheard = |round: &u32| !self.has_heard(*round) && self.at.behind(1 << round) == rank;
        match self.state {
            State::Over => Needs::Nothing,
            _ if !self.by_engine && (0..self.at.rounds()).any(|round| unheard(&round)) => Needs::Message,
            _ => Needs::Perhaps,
        }
    }
}

/// A message of one word.
pub(crate) fn word(bytes: &Bytes) -> Result<u64> {
    let bytes = bytes.as_slice();
    let word = bytes.try_into().map(u64::from_ne_bytes);
    word.map_err(|_| Error::Disagreement { got: bytes.len() as u64, expected: 8 })
}
