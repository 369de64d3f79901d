//! Statistics of messages, epochs and memory.

use std::time::Duration;

/// Statistics of one message type on this rank since the start of the runtime.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct TypeStatistics {
    /// The type's name.
    pub name: String,
    /// Messages sent by bodies and handlers.
    pub sent: u64,
    /// Messages combined with others and so not sent, including forwarded ones.
    pub combined: u64,
    /// Messages of other ranks that were forwarded.
    pub forwarded: u64,
    /// Messages that this rank sent to itself.
    pub local: u64,
    /// Messages handled here.
    pub handled: u64,
    /// Buffers sent to other ranks.
    pub buffers: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Peak number of open buffers.
    pub peak_open_buffers: usize,
    /// Messages looked up in caches.
    pub cache_lookups: u64,
    /// Peak bytes of open buffers and caches.
    pub peak_bytes: usize,
    /// Peak bytes of caches.
    pub peak_cache_bytes: usize,
    /// Peak bytes of messages deferred to the next round: the cost of [`Style::Bsp`](crate::Style::Bsp).
    pub peak_deferred_bytes: usize,
    /// Time in handlers, extrapolated from the buffers that were timed.
    pub handler_time: Duration,
}

impl TypeStatistics {
    /// The fraction of cache lookups that combined a message.
    pub fn hit_rate(&self) -> f64 {
        if self.cache_lookups == 0 { 0.0 } else { self.combined as f64 / self.cache_lookups as f64 }
    }
}

/// Statistics of the epochs of one name.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct EpochStatistics {
    /// Their name.
    pub name: String,
    /// The number of epochs.
    pub epochs: u64,
    /// Their total time on this rank.
    pub time: Duration,
}

impl EpochStatistics {
    pub(crate) fn record(all: &mut Vec<Self>, name: &str, time: Duration) {
        let index = all.iter().position(|known| known.name == name).unwrap_or_else(|| {
            all.push(Self { name: name.to_owned(), ..Self::default() });
            all.len() - 1
        });
        all[index].epochs += 1;
        all[index].time += time;
    }
}

/// Memory statistics of the runtime on this rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStatistics {
    /// Peak bytes of buffers queued for neighbors or to be handled here.
    pub peak_queued_bytes: usize,
    /// Times the body was throttled because of them.
    pub throttled: u64,
}

/// One buffer of this number is timed: reading the clock costs as much as a short handler.
const TIMING_PERIOD: u64 = 64;

/// Sampled time of handlers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stopwatch {
    buffers: u64,
    timed: Duration,
    messages: u64,
}

impl Stopwatch {
    /// Whether the next buffer is to be timed.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.buffers.is_multiple_of(TIMING_PERIOD)
    }

    /// Counts a buffer. Returns whether to time it.
    #[inline]
    pub(crate) fn begin(&mut self) -> bool {
        let is_due = self.is_due();
        self.buffers += 1;
        is_due
    }

    pub(crate) fn took(&mut self, time: Duration, messages: u64) {
        self.timed += time;
        self.messages += messages;
    }

    /// The extrapolated time of a number of messages.
    pub(crate) fn of(&self, messages: u64) -> Duration {
        if self.messages == 0 {
            return Duration::ZERO;
        }
        self.timed.mul_f64(messages as f64 / self.messages as f64)
    }
}
