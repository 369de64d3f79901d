//! Order within a channel: what overtook its predecessors is held until they have been delivered.

use std::collections::HashMap;

/// From, to, and the number of the channel.
pub(crate) type Name = (u32, u32, u32);

#[derive(Debug, Default)]
struct Channel {
    sent: u32,
    delivered: u32,
    /// Number and id of messages that have arrived too early.
    held: Vec<(u32, u32)>,
}

/// The channels on which anything has been sent.
#[derive(Debug, Default)]
pub(crate) struct Channels {
    all: HashMap<Name, Channel>,
}

impl Channels {
    /// The number of the next message of a channel.
    pub(crate) fn send(&mut self, name: Name) -> u32 {
        let channel = self.all.entry(name).or_default();
        channel.sent += 1;
        channel.sent - 1
    }

    /// A message has arrived. Calls `deliver` for all that are to be delivered now, in order.
    pub(crate) fn arrive(&mut self, name: Name, number: u32, id: u32, mut deliver: impl FnMut(u32)) {
        let channel = self.all.entry(name).or_default();
        if number != channel.delivered {
            channel.held.push((number, id));
            return;
        }
        deliver(id);
        channel.delivered += 1;
        while let Some(at) = channel.held.iter().position(|(number, _)| *number == channel.delivered) {
            deliver(channel.held.swap_remove(at).1);
            channel.delivered += 1;
        }
    }
}
