//! The barrier of an exchange, which also combines the traffic summary: the engine's if it has one, else the barrier of
//! the network ([`ScheduledBarrier`]), which on a flat one is a [dissemination](treepie_comm::protocol::Dissemination).

use std::time::Duration;

use treepie_base::{Bytes, Error, Result};
use treepie_comm::protocol::{Disseminated, Dissemination, RingPosition};
use treepie_fabric::{BarrierResult, PeerDependency, Reactor, Transmit};

use crate::routes::ExchangeRoutes;
use crate::scheduled_barrier::ScheduledBarrier;
use crate::tags::MessageKind;
use crate::traffic_summary::TrafficSummary;

/// A nonblocking barrier on one rank.
#[derive(Debug)]
pub(crate) enum SummaryBarrier {
    /// A barrier by messages on a flat network.
    Dissemination(Dissemination<TrafficSummary>),
    /// A barrier by messages along the network.
    Scheduled(ScheduledBarrier),
    /// The engine's barrier, which this rank has not entered.
    Waiting,
    /// This rank has entered with its summary.
    Begun(TrafficSummary),
    /// This rank has arrived at the engine's barrier.
    Arrived,
    /// The summary over all ranks.
    Complete(TrafficSummary),
}

impl SummaryBarrier {
    /// The engine's barrier.
    pub(crate) fn of_engine() -> Self {
        Self::Waiting
    }

    /// A barrier by messages.
    pub(crate) fn by_messages(position: RingPosition, routes: &ExchangeRoutes) -> Self {
        match &routes.barrier {
            Some(schedule) => Self::Scheduled(ScheduledBarrier::new(&**schedule, position.rank)),
            None => Self::Dissemination(Dissemination::new(position, TrafficSummary::default())),
        }
    }

    /// Enters the barrier. Idempotent.
    pub(crate) fn begin(&mut self, summary: TrafficSummary) {
        match self {
            Self::Dissemination(dissemination) if !dissemination.has_begun() => {
                dissemination.value = summary;
                dissemination.begin();
            }
            Self::Scheduled(barrier) => barrier.begin(summary),
            Self::Waiting => *self = Self::Begun(summary),
            _ => {}
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        match self {
            Self::Dissemination(dissemination) => dissemination.is_done(),
            Self::Scheduled(barrier) => barrier.is_done(),
            state => matches!(state, Self::Complete(_)),
        }
    }

    /// The summary over all ranks, once the barrier is complete.
    pub(crate) fn summary(&self) -> TrafficSummary {
        match self {
            Self::Dissemination(dissemination) => dissemination.value,
            Self::Scheduled(barrier) => barrier.summary,
            Self::Complete(summary) => *summary,
            _ => TrafficSummary::default(),
        }
    }

    pub(crate) fn poll_transmit(&mut self) -> Option<Transmit> {
        let transmit = match self {
            Self::Dissemination(dissemination) => dissemination.poll_transmit(),
            Self::Scheduled(barrier) => barrier.poll_transmit(),
            _ => None,
        }?;
        Some(Transmit { tag: MessageKind::Barrier.tag(transmit.tag), ..transmit })
    }

    pub(crate) fn on_message(&mut self, now: Duration, from: u32, round: u32, bytes: Bytes) -> Result<()> {
        match self {
            Self::Dissemination(dissemination) => dissemination.on_message(now, from, round, bytes),
            Self::Scheduled(barrier) => barrier.on_message(from, round, &bytes),
            _ => Err(Error::CollectiveOrderMismatch { rank: from as usize }),
        }
    }

    pub(crate) fn poll_barrier(&mut self) -> Option<u64> {
        let Self::Begun(summary) = *self else { return None };
        *self = Self::Arrived;
        Some(summary.bits())
    }

    pub(crate) fn on_barrier(&mut self, result: BarrierResult) {
        *self = Self::Complete(TrafficSummary::from_bits(result.bits));
    }

    /// Whether the barrier waits for a rank. For its own barrier the engine knows.
    pub(crate) fn dependency_on(&self, rank: u32) -> PeerDependency {
        match self {
            _ if self.is_complete() => PeerDependency::Nothing,
            Self::Dissemination(dissemination) if dissemination.expects(rank) => PeerDependency::Required,
            Self::Scheduled(barrier) if barrier.expects(rank) => PeerDependency::Required,
            _ => PeerDependency::Possible,
        }
    }

    /// Bytes that it owns.
    pub(crate) fn memory(&self) -> usize {
        if let Self::Scheduled(barrier) = self { barrier.memory() } else { 0 }
    }
}

impl Disseminated for TrafficSummary {
    type Message = Self;

    fn encode(&mut self, _round: u32) -> Bytes {
        Bytes::from(vec![self.bits()])
    }

    fn decode(&self, _round: u32, bytes: Bytes) -> Option<Self> {
        decode_word(&bytes).map(Self::from_bits)
    }

    fn combine(&mut self, _round: u32, theirs: Self) {
        self.merge(theirs.bits());
    }
}

/// Decodes a message of one word.
pub(crate) fn decode_word(bytes: &Bytes) -> Option<u64> {
    bytes.as_slice().try_into().ok().map(u64::from_ne_bytes)
}
