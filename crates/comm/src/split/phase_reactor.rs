//! The interface of the phases of a split.

use treepie_base::{Bytes, Result};

/// A message to a participant: its index, a tag below 2^12, and the contents.
pub type PhaseMessage = (u32, u32, Bytes);

/// A phase on one rank: a state machine among indexed ranks, without clock or I/O, like a
/// [`Reactor`](treepie_fabric::Reactor).
pub trait PhaseReactor {
    /// The next message to send, if any.
    fn poll_transmit(&mut self) -> Option<PhaseMessage>;

    /// Handles a message.
    fn on_message(&mut self, from: u32, tag: u32, bytes: Bytes) -> Result<()>;

    /// Whether this participant has to send a message, as far as is known.
    fn expects(&self, from: u32) -> bool;

    /// Whether everything needed has arrived, and no rank needs more of this one than the messages still to be
    /// transmitted.
    fn is_done(&self) -> bool;

    /// Number of entries moved or compared since the last call.
    fn take_work(&mut self) -> u64 {
        0
    }
}
