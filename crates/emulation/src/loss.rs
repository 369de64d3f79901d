//! Packets that a link loses. The gateway sends them again a round trip later, until all have arrived; messages behind
//! them wait, as they arrive in order.

/// Bytes of a packet.
const PACKET: u64 = 1460;

/// Losses of the messages from one rank to another: a sequence of random numbers that is the same in each run, whatever
/// else the ranks send meanwhile.
#[derive(Debug)]
pub(crate) struct Losses {
    state: u64,
}

/// What the losses of a message cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Retransmission {
    /// Bytes that the link carries again.
    pub(crate) bytes: u64,
    /// Round trips until the last of them is sent.
    pub(crate) round_trips: u32,
}

impl Losses {
    pub(crate) fn new(from: u32, to: u32) -> Self {
        Self { state: u64::from(from) << 32 | u64::from(to) }
    }

    /// The losses of a message, if each packet is lost with this probability.
    pub(crate) fn of_message(&mut self, bytes: u64, probability: f64) -> Retransmission {
        let mut total = Retransmission::default();
        if probability == 0.0 {
            return total;
        }
        let mut packets = bytes.div_ceil(PACKET).max(1);
        loop {
            packets = (0..packets).filter(|_| self.next() < probability).count() as u64;
            if packets == 0 {
                return total;
            }
            total.bytes += packets * PACKET.min(bytes.max(1));
            total.round_trips += 1;
        }
    }

    /// The next number, from 0 to 1: splitmix64.
    fn next(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as f64 / u64::MAX as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_packets_are_lost_as_stated() {
        let mut losses = Losses::new(3, 4);
        let lost: u64 = (0..10_000).map(|_| losses.of_message(10 * PACKET, 0.01).bytes / PACKET).sum();
        // 1% of 100,000, and 1% of those again.
        assert!((900..1120).contains(&lost), "{lost}");
        assert_eq!(losses.of_message(1 << 30, 0.0), Retransmission::default());
        let short = (0..1000).map(|_| losses.of_message(0, 0.5)).find(|lost| lost.round_trips > 1).unwrap();
        assert_eq!(short.bytes, u64::from(short.round_trips));
    }
}
