//! LogGP: latency L, overhead o, gap g, time per byte G.   [Alexandrov et al. 1995; NBX paper, section 2.2]
//!
//! The NBX paper assumes o >= g. One of its machines violates that, so where the paper has a rank send every o, it
//! sends every max(o, g) here: see [`LogGP::message_interval`].

mod broadcast;
mod protocols;

pub use broadcast::{Bounds, GreedyTree};
pub use protocols::{BarrierModel, DsdeExchange, DsdeProtocol, Handshake};

use crate::Result;
use crate::error::{not_negative, positive};

/// The LogGP parameters in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogGP {
    /// L: latency of the network.
    pub latency: f64,
    /// o: CPU time to send or receive a message.
    pub overhead: f64,
    /// g: minimum time between two messages of a rank.
    pub gap: f64,
    /// G: time per byte after the first.
    pub per_byte: f64,
}

impl LogGP {
    /// Refuses negative and non-finite parameters, and networks on which messages are free.
    pub fn new(latency: f64, overhead: f64, gap: f64, per_byte: f64) -> Result<Self> {
        not_negative("the latency L", latency)?;
        not_negative("the overhead o", overhead)?;
        not_negative("the gap g", gap)?;
        not_negative("the time per byte G", per_byte)?;
        positive("the greater of o and g", overhead.max(gap))?;
        positive("L + 2o", latency + 2.0 * overhead)?;
        Ok(Self { latency, overhead, gap, per_byte })
    }

    /// Interval between two short messages of a rank: max(o, g).
    pub fn message_interval(&self) -> f64 {
        self.overhead.max(self.gap)
    }

    /// Time of a short message: L + 2o.
    pub fn short_message_time(&self) -> f64 {
        self.latency + 2.0 * self.overhead
    }

    /// Time of a message of m bytes: L + 2o + (m-1) G. An empty one takes as long as one byte.
    pub fn transfer(&self, bytes: f64) -> f64 {
        self.short_message_time() + self.byte_time(bytes)
    }

    /// Time of several messages from one rank: L + 2o for the last, max(o, g) for each of the others, and all bytes.
    pub fn transfers(&self, messages: u32, bytes: f64) -> f64 {
        if messages == 0 {
            return 0.0;
        }
        let others = f64::from(messages - 1);
        self.short_message_time() + others * self.message_interval() + f64::from(messages) * self.byte_time(bytes)
    }

    fn byte_time(&self, bytes: f64) -> f64 {
        (bytes - 1.0).max(0.0) * self.per_byte
    }
}
