//! LogGP in time: no links, only the CPU and the interface of each rank.   [NBX 3]
//!
//! The rules, for a message of m bytes, with s(m) = max(o, g) + (m - 1) G:
//!
//! 1. A send occupies the CPU for o. The interface takes it over when the CPU begins, but not before s(m') after it took
//!    over the message before, of m' bytes. The CPU does not wait for the interface, and the send is over after o.
//! 2. The message arrives o + L + (m - 1) G after the interface took it over; o is that of the sender, should it be slow.
//! 3. A rank's messages are in, one after the other as they arrive, each not before s(m) after the one before it.
//! 4. A receive is ready when its message is in and it has been posted. It occupies the CPU for o, and is over then.
//! 5. Computing for a time t occupies the CPU for t.
//! 6. A rank's CPU serves sends, receives and computing in the order of the times at which they became ready; if those are
//!    the same, in the order in which they did.
//!
//! m = 0 counts as m = 1.

use super::Inlet;
use crate::costs::LogGP;
use crate::time::{MICROSECOND, Time, from_micros, rounded};

#[derive(Debug)]
pub(crate) struct LogGpNet {
    latency: Time,
    pub(crate) overhead: Time,
    spacing: Time,
    per_byte: f64,
    /// When the interface of each rank can take over the next message.
    outlet: Vec<Time>,
    inlet: Inlet,
}

impl LogGpNet {
    pub(crate) fn new(costs: &LogGP, ranks: u32) -> Self {
        let overhead = from_micros(costs.overhead);
        Self {
            latency: from_micros(costs.latency),
            overhead,
            spacing: overhead.max(from_micros(costs.gap)),
            per_byte: costs.per_byte * MICROSECOND,
            outlet: vec![0; ranks as usize],
            inlet: Inlet::new(ranks),
        }
    }

    #[inline]
    fn body(&self, bytes: u64) -> Time {
        rounded(bytes.saturating_sub(1) as f64 * self.per_byte)
    }

    /// When the interface takes over a message with whose send the CPU begins then.
    #[inline]
    pub(crate) fn takes_over(&self, begin: Time, from: u32) -> Time {
        begin.max(self.outlet[from as usize])
    }

    /// When a message arrives with whose send the CPU begins then, and that takes it so long.
    #[inline]
    pub(crate) fn send(&mut self, begin: Time, from: u32, bytes: u64, overhead: Time) -> Time {
        let body = self.body(bytes);
        let taken = self.takes_over(begin, from);
        self.outlet[from as usize] = taken + self.spacing + body;
        taken + overhead + self.latency + body
    }

    /// When a message is in that has arrived now.
    #[inline]
    pub(crate) fn admit(&mut self, to: u32, now: Time, bytes: u64) -> Time {
        let spacing = self.spacing + self.body(bytes);
        self.inlet.admit(to, now, spacing)
    }

    pub(crate) fn memory(&self) -> usize {
        self.outlet.capacity() * size_of::<Time>() + self.inlet.memory()
    }
}
