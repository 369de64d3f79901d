//! LogGP in time: the CPU and the network interface of each rank, no links.   [NBX 2.2]
//!
//! The rules, for a message of m bytes, with s(m) = max(o, g) + (m - 1) G:
//!
//! 1. A send occupies the CPU for o. The interface injects the message when the CPU begins, but not before s(m') after
//!    it injected the previous message, of m' bytes. The CPU does not wait for the interface; the send completes after
//!    o.
//! 2. The message arrives o + L + (m - 1) G after its injection; o is that of the sender, should it be slow.
//! 3. A rank's interface admits messages one after the other as they arrive, each at least s(m) after the one before.
//! 4. A receive is ready when its message is admitted and it has been posted. It occupies the CPU for o, and completes.
//! 5. Computation of duration t occupies the CPU for t.
//! 6. A rank's CPU serves sends, receives and computation in the order in which they become ready; those that become
//!    ready at the same time, in the order of their events.
//!
//! m = 0 counts as m = 1.

use super::receive_gap::ReceiveGap;
use crate::costs::LogGP;
use crate::time::{MICROSECOND, Time, from_micros, from_picos};

#[derive(Debug)]
pub(crate) struct LogGpNet {
    latency: Time,
    pub(crate) overhead: Time,
    message_interval: Time,
    per_byte: f64,
    /// When the interface of each rank can inject the next message.
    next_send: Vec<Time>,
    receive_gap: ReceiveGap,
}

impl LogGpNet {
    pub(crate) fn new(costs: &LogGP, ranks: u32) -> Self {
        let overhead = from_micros(costs.overhead);
        Self {
            latency: from_micros(costs.latency),
            overhead,
            message_interval: overhead.max(from_micros(costs.gap)),
            per_byte: costs.per_byte * MICROSECOND,
            next_send: vec![0; ranks as usize],
            receive_gap: ReceiveGap::new(ranks),
        }
    }

    #[inline]
    fn byte_time(&self, bytes: u64) -> Time {
        from_picos(bytes.saturating_sub(1) as f64 * self.per_byte)
    }

    /// When the interface injects a message whose send the CPU begins at `begin`.
    #[inline]
    pub(crate) fn injection_time(&self, begin: Time, from: u32) -> Time {
        begin.max(self.next_send[from as usize])
    }

    /// When a message arrives whose send the CPU begins at `begin` and takes `overhead` for.
    #[inline]
    pub(crate) fn send(&mut self, begin: Time, from: u32, bytes: u64, overhead: Time) -> Time {
        let byte_time = self.byte_time(bytes);
        let injected = self.injection_time(begin, from);
        self.next_send[from as usize] = injected + self.message_interval + byte_time;
        injected + overhead + self.latency + byte_time
    }

    /// When a message that arrives now is admitted.
    #[inline]
    pub(crate) fn admit(&mut self, to: u32, now: Time, bytes: u64) -> Time {
        let interval = self.message_interval + self.byte_time(bytes);
        self.receive_gap.admit(to, now, interval)
    }

    pub(crate) fn memory(&self) -> usize {
        self.next_send.capacity() * size_of::<Time>() + self.receive_gap.memory()
    }
}
