//! Dissemination barrier at the end of an exchange, which also combines the traffic summary.
//!
//! In round r a rank sends to the rank 2^r ahead, after the message of round r - 1 has arrived. If the engine has a
//! barrier, that is used instead.
//!
//! Cost: ceil(lg P) (L + 2o).   Any P.   [Hensgen, Finkel, Manber 1988]

use treepie_base::{Bytes, Error, Result};
use treepie_fabric::{BarrierResult, PeerDependency, Transmit};

use crate::protocol::RingPosition;
use crate::tags::MessageKind;
use crate::traffic_summary::TrafficSummary;

/// A nonblocking barrier on one rank.
#[derive(Debug)]
pub(crate) struct DisseminationBarrier {
    position: RingPosition,
    /// Use the engine's barrier instead of messages.
    uses_engine_barrier: bool,
    summary: TrafficSummary,
    state: BarrierState,
    /// Rounds whose message was received, as bits.
    received_rounds: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BarrierState {
    Waiting,
    /// This rank has entered; `round` is the next round to send.
    Begun {
        round: u32,
    },
    /// This rank has arrived at the engine's barrier.
    Arrived,
    Complete,
}

impl DisseminationBarrier {
    pub(crate) fn new(position: RingPosition, uses_engine_barrier: bool) -> Self {
        Self {
            position,
            uses_engine_barrier,
            summary: TrafficSummary::default(),
            state: BarrierState::Waiting,
            received_rounds: 0,
        }
    }

    /// Enters the barrier. Idempotent.
    pub(crate) fn begin(&mut self, summary: TrafficSummary) {
        if self.state == BarrierState::Waiting {
            self.summary.merge(summary.bits());
            self.state = BarrierState::Begun { round: 0 };
            self.end_if_complete();
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.state == BarrierState::Complete
    }

    /// The summary over all ranks, once the barrier is complete.
    pub(crate) fn summary(&self) -> TrafficSummary {
        self.summary
    }

    fn has_received(&self, round: u32) -> bool {
        self.received_rounds & 1 << round != 0
    }

    fn end_if_complete(&mut self) {
        let rounds = self.position.rounds();
        if !self.uses_engine_barrier
            && self.state == (BarrierState::Begun { round: rounds })
            && (0..rounds).all(|round| self.has_received(round))
        {
            self.state = BarrierState::Complete;
        }
    }

    pub(crate) fn poll_transmit(&mut self) -> Option<Transmit> {
        let BarrierState::Begun { round } = self.state else { return None };
        let may_send = round < self.position.rounds() && (round == 0 || self.has_received(round - 1));
        if self.uses_engine_barrier || !may_send {
            return None;
        }
        self.state = BarrierState::Begun { round: round + 1 };
        let transmit =
            Transmit::new(self.position.ahead(1 << round), MessageKind::Barrier.tag(round), vec![self.summary.bits()]);
        self.end_if_complete();
        Some(transmit)
    }

    pub(crate) fn on_message(&mut self, round: u32, bytes: &Bytes) -> Result<()> {
        if round >= self.position.rounds() || self.has_received(round) {
            return Err(Error::LengthMismatch { got: bytes.as_slice().len() as u64, expected: 0 });
        }
        self.summary.merge(decode_word(bytes)?);
        self.received_rounds |= 1 << round;
        self.end_if_complete();
        Ok(())
    }

    pub(crate) fn poll_barrier(&mut self) -> Option<u64> {
        if !self.uses_engine_barrier || !matches!(self.state, BarrierState::Begun { .. }) {
            return None;
        }
        self.state = BarrierState::Arrived;
        Some(self.summary.bits())
    }

    pub(crate) fn on_barrier(&mut self, result: BarrierResult) {
        self.summary.merge(result.bits);
        self.state = BarrierState::Complete;
    }

    /// Whether the barrier waits for a rank. For its own barrier the engine knows.
    pub(crate) fn dependency_on(&self, rank: u32) -> PeerDependency {
        let is_missing = |round: &u32| !self.has_received(*round) && self.position.behind(1 << round) == rank;
        match self.state {
            BarrierState::Complete => PeerDependency::Nothing,
            _ if !self.uses_engine_barrier && (0..self.position.rounds()).any(|round| is_missing(&round)) => {
                PeerDependency::Required
            }
            _ => PeerDependency::Possible,
        }
    }
}

/// Decodes a message of one word.
pub(crate) fn decode_word(bytes: &Bytes) -> Result<u64> {
    let bytes = bytes.as_slice();
    let word = bytes.try_into().map(u64::from_ne_bytes);
    word.map_err(|_| Error::LengthMismatch { got: bytes.len() as u64, expected: 8 })
}
