//! Protocols whose messages depend on data, as state machines.
//!
//! Where who sends what to whom is known beforehand, an algorithm is a schedule. Where it depends on what comes, it is a
//! [`Reactor`]: messages go in, messages come out. A reactor has no clock and does no I/O, so whoever drives it decides when
//! things happen: the progress of an [`Endpoint`](crate::Endpoint), or a simulator that delays and reorders by a seed.
//!
//! A driver sends what [`poll_transmit`](Reactor::poll_transmit) gives out and hands in with
//! [`on_message`](Reactor::on_message) what comes, which nobody has to ask for, until the reactor
//! [is done](Reactor::is_done). It may do all that in any order and as late as it likes.
//!
//! Two more things exist where the engine has them, and a reactor uses them only if it was made to: a barrier of all ranks
//! ([`poll_arrive`](Reactor::poll_arrive)) and a counter at each rank ([`poll_add`](Reactor::poll_add)).

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
    /// Whether the reactor is to be told that the receiver has taken it.
    pub synchronous: bool,
}

impl Transmit {
    /// A message of which the sender hears nothing more.
    pub fn new(to: u32, tag: u32, bytes: impl Into<Bytes>) -> Self {
        Self { to, tag, bytes: bytes.into(), synchronous: false }
    }

    /// The same, and the reactor is told when the receiver has taken it.
    pub fn synchronous(self) -> Self {
        Self { synchronous: true, ..self }
    }
}

/// What is known when all ranks have come to a barrier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gathered {
    /// The bits that any of them brought.
    pub census: u64,
    /// How often others have added to this rank's counter since the barrier before.
    pub added: u64,
}

/// What a reactor needs of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Everything has come, if there was anything.
    Nothing,
    /// It may have to send something: if it gives up, so does this one; if it leaves, it will have sent everything.
    Perhaps,
    /// It has to send something: if it is lost or gives up, so does this one.
    Message,
}

/// A protocol on one rank that takes messages in and gives messages out.
///
/// What it can rely on: messages of one pair and one tag come in the order in which they were sent, each once. Nothing is
/// promised about those of different pairs or tags, nor about how long they take.
pub trait Reactor {
    /// The next message to be sent, if there is one now.
    fn poll_transmit(&mut self) -> Option<Transmit>;

    /// Takes a message in. `now` is the time since some beginning. An error ends the protocol on this rank.
    fn on_message(&mut self, now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()>;

    /// Takes a message in where it lies, if this reactor [reads in place](Self::reads_in_place).
    fn on_body(&mut self, from: u32, tag: u32, body: &[u8]) -> Result<()> {
        let _ = (from, tag, body);
        unreachable!("it does not read in place");
    }

    /// Whether messages may also be handed in by [`on_body`](Self::on_body). Long ones never are. There is no time to ask for
    /// the time then.
    fn reads_in_place(&self) -> bool {
        false
    }

    /// A message that was given out is on its way; perhaps with the memory that it was in, to be used again.
    fn on_sent(&mut self, to: u32, tag: u32, memory: Option<Bytes>) {
        let _ = (to, tag, memory);
    }

    /// A synchronous message has been taken by its receiver.
    fn on_taken(&mut self, to: u32, tag: u32) {
        let _ = (to, tag);
    }

    /// The next rank whose counter is to be one more, if there is one now.
    fn poll_add(&mut self) -> Option<u32> {
        None
    }

    /// Says once that this rank has come to the barrier, and brings some bits along, of which the highest is not to be used. It
    /// comes there after all messages and additions that were given out before have been put on their way.
    fn poll_arrive(&mut self) -> Option<u64> {
        None
    }

    /// All ranks have come to the barrier. Messages that were already taken by then, or must be there because the engine
    /// says so ([`arrives_last`](crate::Offers::arrives_last)), have been handed in before.
    fn on_gathered(&mut self, gathered: Gathered) -> Result<()> {
        let _ = gathered;
        Ok(())
    }

    /// Whether it will come to the barrier again, if it goes on as it should.
    fn meets_again(&self) -> bool {
        false
    }

    /// How much it has computed since this was last asked, in units of its own, as elements moved. A simulator charges that.
    fn take_work(&mut self) -> u64 {
        0
    }

    /// What people call it. Ranks run reactors of one name together.
    fn name(&self) -> &'static str {
        "a protocol"
    }

    /// What it needs of a rank to end, as far as it knows.
    fn needs(&self, rank: u32) -> Needs;

    /// Whether nothing more will be sent, and no more messages are needed. What `poll_transmit` has still to give out is to
    /// be sent before.
    fn is_done(&self) -> bool;
}

impl<R: Reactor + ?Sized> Reactor for Box<R> {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        (**self).poll_transmit()
    }

    fn on_message(&mut self, now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        (**self).on_message(now, from, tag, bytes)
    }

    fn on_body(&mut self, from: u32, tag: u32, body: &[u8]) -> Result<()> {
        (**self).on_body(from, tag, body)
    }

    fn reads_in_place(&self) -> bool {
        (**self).reads_in_place()
    }

    fn on_sent(&mut self, to: u32, tag: u32, memory: Option<Bytes>) {
        (**self).on_sent(to, tag, memory);
    }

    fn on_taken(&mut self, to: u32, tag: u32) {
        (**self).on_taken(to, tag);
    }

    fn meets_again(&self) -> bool {
        (**self).meets_again()
    }

    fn poll_add(&mut self) -> Option<u32> {
        (**self).poll_add()
    }

    fn poll_arrive(&mut self) -> Option<u64> {
        (**self).poll_arrive()
    }

    fn on_gathered(&mut self, gathered: Gathered) -> Result<()> {
        (**self).on_gathered(gathered)
    }

    fn take_work(&mut self) -> u64 {
        (**self).take_work()
    }

    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn needs(&self, rank: u32) -> Needs {
        (**self).needs(rank)
    }

    fn is_done(&self) -> bool {
        (**self).is_done()
    }
}
