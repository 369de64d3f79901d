//! What the phases of a split have in common.

use treepie_base::{Bytes, Result};

/// A message to one of those who take part: its index among them, a tag below 2^12, and what it says.
pub type Message = (u32, u32, Bytes);

/// A phase on one rank: a state machine among ranks that have indices, without a clock and without I/O, as a
/// [`Reactor`](treepie_fabric::Reactor) is.
pub trait Part {
    /// The next message to be sent, if there is one.
    fn poll_transmit(&mut self) -> Option<Message>;

    /// Takes a message in.
    fn on_message(&mut self, from: u32, tag: u32, bytes: Bytes) -> Result<()>;

    /// Whether that one has to send something, as far as is known.
    fn expects(&self, from: u32) -> bool;

    /// Whether everything has come that is needed, and nobody needs more of this rank than what is to be sent now.
    fn is_done(&self) -> bool;

    /// Entries that were moved or looked at since this was last asked.
    fn take_work(&mut self) -> u64 {
        0
    }
}
