//! Order within a channel: what overtook its predecessors is held until they have been delivered.

use std::collections::{BTreeMap, HashMap};

/// From, to, and the number of the channel.
pub(crate) type Name = (u32, u32, u32);

#[derive(Debug, Default)]
struct Channel {
    sent: u32,
    delivered: u32,
    /// Ids of messages that have arrived too early, by number.
    held: BTreeMap<u32, u32>,
}

/// The channels on which anything is on the way.
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
            channel.held.insert(number, id);
            return;
        }
        deliver(id);
        channel.delivered += 1;
        while let Some(next) = channel.held.remove(&channel.delivered) {
            deliver(next);
            channel.delivered += 1;
        }
        // One on which nothing is on the way may count from the beginning again.
        if channel.delivered == channel.sent {
            self.all.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_kept_and_nothing_else_is() {
        let mut channels = Channels::default();
        let name = (1, 2, 3);
        for _ in 0..3 {
            let numbers = [channels.send(name), channels.send(name), channels.send(name)];
            let mut delivered = Vec::new();
            for at in [2, 0, 1] {
                channels.arrive(name, numbers[at], at as u32, |id| delivered.push(id));
                assert_eq!(channels.all.len(), usize::from(delivered.len() < 3));
            }
            assert_eq!(delivered, [0, 1, 2]);
        }
    }
}
