//! Reactors: data-dependent protocols as state machines.
//!
//! Where the communication pattern is known beforehand, an algorithm is a schedule. Where it depends on received data,
//! it is a [`Reactor`]: messages in, messages out. A reactor has no clock and does no I/O. Its driver decides when
//! things happen: the progress of an [`Endpoint`](crate::Endpoint), or a simulator that delays and reorders messages by
//! a seed.
//!
//! A driver sends the messages of [`poll_transmit`](Reactor::poll_transmit) and passes received ones to
//! [`on_message`](Reactor::on_message), without posted receives, until the reactor [is done](Reactor::is_done). It may
//! do so in any order and with any delay.
//!
//! Two more primitives exist where the engine has them; a reactor uses them only if it was created to: a barrier of all
//! ranks ([`poll_barrier`](Reactor::poll_barrier)) and a counter on each rank
//! ([`poll_increment`](Reactor::poll_increment)).

use std::time::Duration;

use treepie_base::{Bytes, Result};

use crate::call_signature::CallSignature;

/// A message that a reactor sends.
#[derive(Debug)]
pub struct Transmit {
    /// The destination.
    pub to: u32,
    /// The tag within the protocol.
    pub tag: u32,
    /// The data.
    pub bytes: Bytes,
    /// Whether the reactor gets an acknowledgement ([`Reactor::on_ack`]).
    pub synchronous: bool,
}

impl Transmit {
    /// A message without acknowledgement.
    pub fn new(to: u32, tag: u32, bytes: impl Into<Bytes>) -> Self {
        Self { to, tag, bytes: bytes.into(), synchronous: false }
    }

    /// The same message as a synchronous send, which the receiver acknowledges.
    pub fn synchronous(self) -> Self {
        Self { synchronous: true, ..self }
    }
}

/// The result of a barrier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BarrierResult {
    /// The OR of the bits of all ranks.
    pub bits: u64,
    /// The number of increments of this rank's counter since the previous barrier.
    pub counter: u64,
}

/// How a reactor depends on a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerDependency {
    /// All its messages have arrived, if there were any.
    Nothing,
    /// It may still send: if it aborts, so does this rank; if it finalizes, it has sent everything.
    Possible,
    /// It must still send: if it is lost or aborts, this rank aborts.
    Required,
}

/// A protocol on one rank that receives and sends messages.
///
/// Guarantees: messages of one pair and one tag arrive in the order in which they were sent, each once. Nothing is
/// guaranteed about the order across pairs or tags, nor about delays.
pub trait Reactor {
    /// The next message to send, if there is one now.
    fn poll_transmit(&mut self) -> Option<Transmit>;

    /// Handles a message. `now` is the time since a fixed point in the past. An error ends the protocol on this rank.
    fn on_message(&mut self, now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()>;

    /// Handles a message in the engine's memory, if this reactor [accepts that](Self::accepts_in_place).
    fn on_message_in_place(&mut self, from: u32, tag: u32, body: &[u8]) -> Result<()> {
        let _ = (from, tag, body);
        unreachable!("this reactor does not accept messages in place");
    }

    /// Whether the driver may pass eager messages to [`on_message_in_place`](Self::on_message_in_place). That method
    /// gets no time, since reading the clock would cost too much there.
    fn accepts_in_place(&self) -> bool {
        false
    }

    /// A message has been sent; `memory` is its buffer for reuse, if it is free.
    fn on_sent(&mut self, to: u32, tag: u32, memory: Option<Bytes>) {
        let _ = (to, tag, memory);
    }

    /// The receiver has acknowledged a synchronous message.
    fn on_ack(&mut self, to: u32, tag: u32) {
        let _ = (to, tag);
    }

    /// The next rank whose counter to increment, if there is one now.
    fn poll_increment(&mut self) -> Option<u32> {
        None
    }

    /// Returns once that this rank arrives at the barrier, and the bits that it contributes; the highest bit is
    /// reserved. The driver arrives after it has dispatched all earlier messages and increments.
    fn poll_barrier(&mut self) -> Option<u64> {
        None
    }

    /// All ranks have arrived at the barrier. The driver has passed in all messages acknowledged before, and all
    /// messages sent before if the engine guarantees that
    /// ([`barrier_orders_messages`](crate::Capabilities::barrier_orders_messages)).
    fn on_barrier(&mut self, result: BarrierResult) -> Result<()> {
        let _ = result;
        Ok(())
    }

    /// Whether it will arrive at another barrier, unless it fails.
    fn expects_barrier(&self) -> bool {
        false
    }

    /// The work since the last call, in units that the reactor defines, such as elements copied. A simulator charges
    /// it.
    fn take_work(&mut self) -> u64 {
        0
    }

    /// Its name. All ranks of an instance run reactors of the same name.
    fn name(&self) -> &'static str {
        "a protocol"
    }

    /// The signature that its messages carry, which follows from its name. One that runs often keeps it: to look up a
    /// name takes as long as to send a message.
    fn call(&self) -> CallSignature {
        CallSignature::from_name(self.name())
    }

    /// How its completion depends on a rank, as far as it knows.
    fn dependency_on(&self, rank: u32) -> PeerDependency;

    /// Whether it needs no more messages and sends none, apart from those that `poll_transmit` still returns, which the
    /// driver sends first.
    fn is_done(&self) -> bool;
}

impl<R: Reactor + ?Sized> Reactor for Box<R> {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        (**self).poll_transmit()
    }

    fn on_message(&mut self, now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        (**self).on_message(now, from, tag, bytes)
    }

    fn on_message_in_place(&mut self, from: u32, tag: u32, body: &[u8]) -> Result<()> {
        (**self).on_message_in_place(from, tag, body)
    }

    fn accepts_in_place(&self) -> bool {
        (**self).accepts_in_place()
    }

    fn on_sent(&mut self, to: u32, tag: u32, memory: Option<Bytes>) {
        (**self).on_sent(to, tag, memory);
    }

    fn on_ack(&mut self, to: u32, tag: u32) {
        (**self).on_ack(to, tag);
    }

    fn expects_barrier(&self) -> bool {
        (**self).expects_barrier()
    }

    fn poll_increment(&mut self) -> Option<u32> {
        (**self).poll_increment()
    }

    fn poll_barrier(&mut self) -> Option<u64> {
        (**self).poll_barrier()
    }

    fn on_barrier(&mut self, result: BarrierResult) -> Result<()> {
        (**self).on_barrier(result)
    }

    fn take_work(&mut self) -> u64 {
        (**self).take_work()
    }

    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn call(&self) -> CallSignature {
        (**self).call()
    }

    fn dependency_on(&self, rank: u32) -> PeerDependency {
        (**self).dependency_on(rank)
    }

    fn is_done(&self) -> bool {
        (**self).is_done()
    }
}
