//! Messages and events: input and output of a machine.

use treepie_topology::TieBreak;

use crate::time::Time;

/// A message to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimMessage {
    /// Source rank.
    pub from: u32,
    /// Destination rank.
    pub to: u32,
    /// Length in bytes.
    pub bytes: u64,
    /// Messages of one pair of ranks and one channel stay in order under jitter, or on demand.
    pub channel: u32,
    /// Caller's identifier.
    pub token: u64,
    /// Direction at a distance of exactly half a ring.
    pub tie: TieBreak,
}

/// Timing of a started send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendTiming {
    /// When the sender's CPU is free; a lower bound if the completion is not known.
    pub cpu_free: Time,
    /// When the send completes, if known. Otherwise [`SimEventKind::SendComplete`] reports it.
    pub completion: Option<Time>,
}

/// An event of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimEvent {
    /// Time; never decreases from event to event.
    pub time: Time,
    /// The rank.
    pub rank: u32,
    /// What happened.
    pub kind: SimEventKind,
}

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimEventKind {
    /// A message was delivered. The CPU has not received it yet: see [`Machine::receive`](super::Machine::receive).
    Delivered {
        /// Source rank.
        from: u32,
        /// Length in bytes.
        bytes: u64,
        /// Channel.
        channel: u32,
        /// Caller's identifier.
        token: u64,
    },
    /// A send whose completion was not known in advance has completed.
    SendComplete {
        /// The identifier of its message.
        token: u64,
    },
    /// A scheduled wakeup.
    Wakeup {
        /// The identifier given when it was scheduled.
        token: u64,
    },
    /// The rank has failed; it gets no further events.
    Failed,
}

/// Network totals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Messages sent.
    pub messages: u64,
    /// Bytes of all messages.
    pub bytes: u64,
    /// Processed entries of the event queue.
    pub processed_events: u64,
    /// Maximum number of messages in flight.
    pub max_in_flight: u64,
}

/// Bytes of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUsage {
    /// For ranks.
    pub ranks: usize,
    /// For links.
    pub links: usize,
    /// For messages in flight, at their maximum.
    pub in_flight: usize,
}
