//! Termination detection: when has every message of an epoch been handled everywhere, those of handlers too?
//!
//! A rank is *passive* when it has nothing left to do or to send. It may become active again, by a message, so that all ranks
//! being passive one after the other says nothing. Two ways to find out, both in waves in which each rank takes part when it
//! is passive:
//!
//! - [`counting`]: the numbers of buffers sent and received by all ranks, twice the same and equal.
//! - [`nbx_like`]: nobody has sent anything since the wave before. Then ranks must take part only when everything that they
//!   have sent has been received.
//!
//! A detector has no clock and does no I/O. With its waves go words that are summed over the ranks: what is kept for the next
//! round ([`Style::Bsp`](crate::Style::Bsp)), and the sum that the epoch returns.

mod counting;
mod nbx_like;
mod summing;
#[cfg(test)]
mod tests;

pub(crate) use counting::Counting;
pub(crate) use nbx_like::NbxLike;
pub(crate) use summing::Summing;

/// How ends of epochs are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detector {
    /// [`NbxLike`](Self::NbxLike) where the engine has a barrier behind which all messages are, else
    /// [`Counting`](Self::Counting).
    #[default]
    Auto,
    /// Four counters: sent and received, in two waves.
    Counting,
    /// Nonblocking consensus: synchronous messages, or a barrier of the engine's.
    NbxLike,
}

/// What a rank brings to a wave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// Buffers sent in this epoch.
    pub(crate) sent: u64,
    /// Buffers received.
    pub(crate) received: u64,
    /// Buffers that are kept for the next round.
    pub(crate) kept: u64,
    /// Its part of the sum.
    pub(crate) sum: u64,
}

/// What a wave has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing can happen any more; this is the sum.
    Over(u64),
    /// Nothing can happen any more in this round; what was kept is to be handled.
    NextRound,
}

/// Either kind.
pub(crate) enum Detection {
    Counting(Counting),
    NbxLike(NbxLike),
}

impl Detection {
    /// A passive rank takes part in the wave, if it has not yet.
    pub(crate) fn report(&mut self, report: Report) {
        match self {
            Self::Counting(counting) => counting.report(report),
            Self::NbxLike(nbx_like) => nbx_like.report(report),
        }
    }

    /// The next message of the waves.
    pub(crate) fn poll_transmit(&mut self) -> Option<(u32, u32, Vec<u64>)> {
        match self {
            Self::Counting(counting) => counting.poll_transmit(),
            Self::NbxLike(nbx_like) => nbx_like.poll_transmit(),
        }
    }

    /// A message of the waves.
    pub(crate) fn on_message(&mut self, tag: u32, words: &[u64]) {
        match self {
            Self::Counting(counting) => counting.on_message(tag, words),
            Self::NbxLike(nbx_like) => nbx_like.on_message(tag, words),
        }
    }

    /// What the waves have shown, once.
    pub(crate) fn poll_verdict(&mut self) -> Option<Verdict> {
        match self {
            Self::Counting(counting) => counting.poll_verdict(),
            Self::NbxLike(nbx_like) => nbx_like.poll_verdict(),
        }
    }

    /// Whether messages are to be synchronous: this rank takes part only when all of its own have been received.
    pub(crate) fn is_synchronous(&self) -> bool {
        match self {
            Self::Counting(_) => false,
            Self::NbxLike(nbx_like) => nbx_like.is_synchronous(),
        }
    }

    /// Whether a rank must still send something. One from which nothing is needed may have left.
    pub(crate) fn needs(&self, rank: u32) -> bool {
        match self {
            Self::Counting(counting) => counting.needs(rank),
            Self::NbxLike(nbx_like) => nbx_like.needs(rank),
        }
    }

    /// Begins an epoch.
    pub(crate) fn begin(&mut self) {
        match self {
            Self::Counting(counting) => counting.begin(),
            Self::NbxLike(nbx_like) => nbx_like.begin(),
        }
    }
}
