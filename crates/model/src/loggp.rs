//! LogGP: latency L, overhead o, gap g, time per byte G.   [Alexandrov et al. 1995; NBX paper, section 2]
//!
//! The NBX paper takes o >= g. That is not so on one of its own machines, so wherever it says that a rank sends every
//! o, here it sends every max(o, g): see [`LogGP::spacing`].

mod broadcast;
mod protocols;

pub use broadcast::{Bounds, Greedy};
pub use protocols::{Barrier, Exchange, Handshake, Protocol};

use crate::Result;
use crate::error::{not_negative, positive};

/// The parameters, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogGP {
    /// L: until a byte that was sent is at the other end.
    pub latency: f64,
    /// o: what sending or receiving a message costs the processor.
    pub overhead: f64,
    /// g: the least time between two messages of a rank.
    pub gap: f64,
    /// G: of each byte after the first.
    pub per_byte: f64,
}

impl LogGP {
    /// Refuses what is negative or no number, and networks on which messages cost nothing.
    pub fn new(latency: f64, overhead: f64, gap: f64, per_byte: f64) -> Result<Self> {
        not_negative("the latency L", latency)?;
        not_negative("the overhead o", overhead)?;
        not_negative("the gap g", gap)?;
        not_negative("the time per byte G", per_byte)?;
        positive("the greater of o and g", overhead.max(gap))?;
        positive("L + 2o", latency + 2.0 * overhead)?;
        Ok(Self { latency, overhead, gap, per_byte })
    }

    /// Time between the beginnings of two short messages of a rank: max(o, g).
    pub fn spacing(&self) -> f64 {
        self.overhead.max(self.gap)
    }

    /// A short message from one rank to another: L + 2o.
    pub fn message(&self) -> f64 {
        self.latency + 2.0 * self.overhead
    }

    /// A message of so many bytes: L + 2o + (m-1) G. An empty one takes as long as one byte.
    pub fn transfer(&self, bytes: f64) -> f64 {
        self.message() + self.stream(bytes)
    }

    /// Messages of so many bytes from one rank to others: the last is there after L + 2o, and for each of the others
    /// max(o, g) and its bytes.
    pub fn transfers(&self, messages: u32, bytes: f64) -> f64 {
        if messages == 0 {
            return 0.0;
        }
        let others = f64::from(messages - 1);
        self.message() + others * self.spacing() + f64::from(messages) * self.stream(bytes)
    }

    fn stream(&self, bytes: f64) -> f64 {
        (bytes - 1.0).max(0.0) * self.per_byte
    }
}
