//! In-order delivery per channel: a message that overtook its predecessors is held until they are delivered.

use std::collections::{BTreeMap, HashMap};

/// Source, destination and channel number.
pub(crate) type ChannelId = (u32, u32, u32);

#[derive(Debug, Default)]
struct Channel {
    next_sequence: u32,
    next_delivery: u32,
    /// Ids of messages that arrived out of order, by sequence number.
    out_of_order: BTreeMap<u32, u32>,
}

/// The channels with messages in flight.
#[derive(Debug, Default)]
pub(crate) struct Channels {
    all: HashMap<ChannelId, Channel>,
}

impl Channels {
    /// Assigns the sequence number of the next message of a channel.
    pub(crate) fn assign_sequence(&mut self, channel_id: ChannelId) -> u32 {
        let channel = self.all.entry(channel_id).or_default();
        channel.next_sequence += 1;
        channel.next_sequence - 1
    }

    /// Records the arrival of a message, and calls `deliver` for each message that is now deliverable, in order.
    pub(crate) fn arrive(&mut self, channel_id: ChannelId, sequence: u32, id: u32, mut deliver: impl FnMut(u32)) {
        let channel = self.all.entry(channel_id).or_default();
        if sequence != channel.next_delivery {
            channel.out_of_order.insert(sequence, id);
            return;
        }
        deliver(id);
        channel.next_delivery += 1;
        while let Some(next) = channel.out_of_order.remove(&channel.next_delivery) {
            deliver(next);
            channel.next_delivery += 1;
        }
        // An idle channel may restart its sequence.
        if channel.next_delivery == channel.next_sequence {
            self.all.remove(&channel_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delivery_is_in_order_and_idle_channels_are_dropped() {
        let mut channels = Channels::default();
        let channel_id = (1, 2, 3);
        for _ in 0..3 {
            let sequences = [
                channels.assign_sequence(channel_id),
                channels.assign_sequence(channel_id),
                channels.assign_sequence(channel_id),
            ];
            let mut delivered = Vec::new();
            for at in [2, 0, 1] {
                channels.arrive(channel_id, sequences[at], at as u32, |id| delivered.push(id));
                assert_eq!(channels.all.len(), usize::from(delivered.len() < 3));
            }
            assert_eq!(delivered, [0, 1, 2]);
        }
    }
}
