//! Termination detection: when has every message of an epoch been handled everywhere, those of handlers too?
//!
//! A rank is *passive* when it has nothing left to do or to send. A message may make it active again, so it is not
//! enough that each rank was passive at some time. There are two algorithms, both in waves that each rank joins when it
//! is passive:
//!
//! - [`four_counter`]: two consecutive waves with the same numbers of buffers sent and received, and sent = received.
//! - [`consensus`]: no rank has sent since the previous wave. Ranks may join only when all of their messages have been
//!   received.
//!
//! A detector has no clock and does no I/O. Its waves also sum the buffers deferred to the next round
//! ([`Style::Bsp`](crate::Style::Bsp)) and the value that the epoch returns.

mod allreduce_wave;
mod consensus;
mod four_counter;
#[cfg(test)]
mod tests;

use treepie_base::{Bytes, Result};
use treepie_fabric::Transmit;

pub use allreduce_wave::AllreduceWave;
pub(crate) use consensus::ConsensusDetector;
pub(crate) use four_counter::FourCounterDetector;

/// The termination detector of epochs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detector {
    /// [`Consensus`](Self::Consensus) if the engine has an ordered barrier, which no message overtakes, else
    /// [`FourCounter`](Self::FourCounter).
    #[default]
    Auto,
    /// Four counters: sent and received, in two waves.
    FourCounter,
    /// Nonblocking consensus: synchronous sends, or an ordered barrier of the engine.
    Consensus,
}

/// The contribution of a rank to a wave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RankReport {
    /// Buffers sent in this epoch.
    pub(crate) sent: u64,
    /// Buffers received.
    pub(crate) received: u64,
    /// Buffers deferred to the next round.
    pub(crate) deferred: u64,
    /// Its contribution to the sum of the epoch.
    pub(crate) sum: u64,
}

/// The outcome of a wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaveOutcome {
    /// The epoch is over; the sum over all ranks.
    Terminated(u64),
    /// The round is over; the deferred messages are to be handled.
    NextRound,
}

/// A termination detector of either kind.
pub(crate) enum TerminationDetector {
    FourCounter(FourCounterDetector),
    Consensus(ConsensusDetector),
}

impl TerminationDetector {
    /// A passive rank joins the wave, if it has not yet.
    #[inline]
    pub(crate) fn report(&mut self, report: RankReport) {
        match self {
            Self::FourCounter(detector) => detector.report(report),
            Self::Consensus(detector) => detector.report(report),
        }
    }

    /// The next wave message to send.
    #[inline]
    pub(crate) fn poll_transmit(&mut self) -> Option<Transmit> {
        match self {
            Self::FourCounter(detector) => detector.poll_transmit(),
            Self::Consensus(detector) => detector.poll_transmit(),
        }
    }

    /// Processes a wave message.
    #[inline]
    pub(crate) fn on_message(&mut self, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        match self {
            Self::FourCounter(detector) => detector.on_message(from, tag, bytes),
            Self::Consensus(detector) => detector.on_message(from, tag, bytes),
        }
    }

    /// The outcome of a wave, once.
    #[inline]
    pub(crate) fn poll_outcome(&mut self) -> Option<WaveOutcome> {
        match self {
            Self::FourCounter(detector) => detector.poll_outcome(),
            Self::Consensus(detector) => detector.poll_outcome(),
        }
    }

    /// Whether sends must be synchronous, so that a rank joins a wave only when all of its messages have been received.
    #[inline]
    pub(crate) fn is_synchronous(&self) -> bool {
        match self {
            Self::FourCounter(_) => false,
            Self::Consensus(detector) => detector.is_synchronous(),
        }
    }

    /// Whether a message of a rank is still needed. A rank of which none is needed may have left.
    #[inline]
    pub(crate) fn needs(&self, rank: u32) -> bool {
        match self {
            Self::FourCounter(detector) => detector.needs(rank),
            Self::Consensus(detector) => detector.needs(rank),
        }
    }

    /// Starts an epoch.
    #[inline]
    pub(crate) fn begin(&mut self) {
        match self {
            Self::FourCounter(detector) => detector.begin(),
            Self::Consensus(detector) => detector.begin(),
        }
    }
}
