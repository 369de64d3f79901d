//! What a simulated schedule took.

use crate::time::{Time, to_micros};

/// Result of a simulated schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct SimResult {
    /// When the last rank completed.
    pub makespan: Time,
    /// When the first rank completed.
    pub first_completion: Time,
    /// Messages of all ranks.
    pub messages: u64,
    /// Bytes of all messages.
    pub bytes: u64,
    /// Three per message: sent, arrived, received.
    pub events: u64,
    /// Processed entries of the event queue.
    pub processed_events: u64,
    /// The link with the most bytes relative to its capacity, and its bytes, where links are simulated.
    pub busiest_link: Option<(u32, u64)>,
    /// Maximum number of messages in flight.
    pub max_in_flight: u64,
    /// Bytes of memory in use, without the schedule, the trace, and the sequence numbers of in-order delivery.
    pub memory: usize,
    /// Part of it for ranks and their lanes.
    pub memory_ranks: usize,
    /// Part of it for links.
    pub memory_links: usize,
    /// Part of it for messages in flight.
    pub memory_in_flight: usize,
}

impl SimResult {
    /// The makespan in microseconds.
    pub fn micros(&self) -> f64 {
        to_micros(self.makespan)
    }
}
