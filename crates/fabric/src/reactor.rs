//! Protocols whose messages depend on data, as state machines.
//!
//! Where who sends what to whom is known beforehand, an algorithm is a schedule. Where it depends on what comes, it is a
//! [`Reactor`]: messages go in, messages come out. A reactor has no clock and does no I/O, so whoever drives it decides when
//! things happen: the progress of an [`Endpoint`](crate::Endpoint), or a simulator that delays and reorders by a seed.
//!
//! A driver sends what [`poll_transmit`](Reactor::poll_transmit) gives out, receives what
//! [`poll_expect`](Reactor::poll_expect) asks for, hands it in with [`on_message`](Reactor::on_message), and asks for both
//! again, until the reactor [is done](Reactor::is_done). It may do all that in any order and as late as it likes.

use std::time::Duration;

use treepie_base::{Bytes, Result};

/// A message that a reactor wants to be sent.
#[derive(Debug)]
pub struct Transmit {
    /// The rank that gets it.
    pub to: u32,
    /// What it is called within the protocol.
    pub tag: u32,
    /// What it says.
    pub bytes: Bytes,
}

/// One message that a reactor wants to be received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expect {
    /// Who sends it; nothing if that may be anybody. Those that wait for anybody are not told if one of them gives up.
    pub from: Option<u32>,
    /// What it is called within the protocol.
    pub tag: u32,
}

/// A protocol on one rank that takes messages in and gives messages out.
///
/// What it can rely on: messages of one pair and one tag come in the order in which they were sent, each once. Nothing is
/// promised about those of different pairs or tags, nor about how long they take.
pub trait Reactor {
    /// The next message to be sent, if there is one now.
    fn poll_transmit(&mut self) -> Option<Transmit>;

    /// The next message to be received, if there is one more to be asked for. A message that is never asked for may wait
    /// for ever where it is sent; one that is asked for and never comes must not keep the reactor from being done. Drivers
    /// to which messages come unasked need not call this.
    fn poll_expect(&mut self) -> Option<Expect>;

    /// Takes a message in. `now` is the time since some beginning. An error ends the protocol on this rank.
    fn on_message(&mut self, now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()>;

    /// The ranks that may wait for messages of this one. If this rank gives up before it is done, they are told.
    fn receivers(&self) -> Vec<u32>;

    /// Whether nothing more will be sent, and no more messages are needed. What `poll_transmit` has still to give out is to
    /// be sent before.
    fn is_done(&self) -> bool;
}
