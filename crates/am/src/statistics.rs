//! What has become of messages, by type.

use std::time::Duration;

/// What has become of the messages of one type on this rank, since the runtime was started.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct TypeStatistics {
    /// The type's name.
    pub name: String,
    /// Messages sent by bodies and handlers.
    pub sent: u64,
    /// Messages that were combined with others, and so not sent on; also of those that passed.
    pub combined: u64,
    /// Messages of others that were passed on.
    pub forwarded: u64,
    /// Messages that this rank sent to itself.
    pub local: u64,
    /// Messages handled here.
    pub handled: u64,
    /// Buffers sent to other ranks.
    pub buffers: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The most buffers that were open at once.
    pub open: usize,
    /// Messages that were looked for in caches.
    pub looked_up: u64,
    /// Bytes of open buffers and caches, at most.
    pub peak_bytes: usize,
    /// Bytes of caches, at most.
    pub peak_caches: usize,
    /// Bytes of messages that waited for the next round, at most: what [`Style::Bsp`](crate::Style::Bsp) costs.
    pub peak_kept: usize,
    /// Time in handlers: that of the buffers that were timed, for all messages.
    pub handler_time: Duration,
}

impl TypeStatistics {
    /// The share of messages looked for in caches that were combined.
    pub fn hit_rate(&self) -> f64 {
        if self.looked_up == 0 { 0.0 } else { self.combined as f64 / self.looked_up as f64 }
    }
}

/// Epochs of one name.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct EpochStatistics {
    /// Their name.
    pub name: String,
    /// How many there were.
    pub epochs: u64,
    /// How long they took on this rank, all together.
    pub time: Duration,
}

impl EpochStatistics {
    pub(crate) fn note(all: &mut Vec<Self>, name: &str, time: Duration) {
        let place = all.iter().position(|known| known.name == name).unwrap_or_else(|| {
            all.push(Self { name: name.to_owned(), ..Self::default() });
            all.len() - 1
        });
        all[place].epochs += 1;
        all[place].time += time;
    }
}

/// Memory of the runtime on this rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Memory {
    /// Bytes of buffers that waited for neighbours, or here to be handled, at most.
    pub deferred: usize,
    /// How often the body was made to wait because so many did.
    pub slowed: u64,
}

/// Handlers are timed for one buffer of so many: asking for the time costs as much as a short handler does.
const TIMED: u64 = 64;

/// How long handlers take.
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
        self.buffers.is_multiple_of(TIMED)
    }

    /// A buffer begins. Returns whether to time it.
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

    /// The time of so many messages.
    pub(crate) fn of(&self, messages: u64) -> Duration {
        if self.messages == 0 {
            return Duration::ZERO;
        }
        self.timed.mul_f64(messages as f64 / self.messages as f64)
    }
}
