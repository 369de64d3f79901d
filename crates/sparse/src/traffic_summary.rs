//! The traffic summary that all ranks learn in an exchange: the maximum number of messages of a rank and the maximum
//! message length, both as power-of-two classes. It is a bit set piggybacked on the messages of the protocol. Merging
//! is a union, so merging twice does no harm.

/// Traffic of an exchange: maximum messages per rank and maximum message length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficSummary(u64);

/// Bit layout: classes of neighbor counts, classes of lengths, protocols.
const NEIGHBOR_CLASSES: u32 = 25;
const LENGTH_CLASSES: u32 = 30;
const PROTOCOL_SHIFT: u32 = NEIGHBOR_CLASSES + LENGTH_CLASSES;
const LOWER: u64 = (1 << NEIGHBOR_CLASSES) - 1;

/// Bits of one rank's summary in a tag.
pub(crate) const PACKED_BITS: u32 = 10;

impl TrafficSummary {
    /// The summary of one rank: its number of messages, and bytes of the longest.
    pub fn new(messages: usize, longest: usize) -> Self {
        let (messages, longest) =
            (size_class(messages).min(NEIGHBOR_CLASSES - 1), size_class(longest).min(LENGTH_CLASSES - 1));
        Self(1 << messages | 1 << (NEIGHBOR_CLASSES + longest))
    }

    fn lengths(self) -> u64 {
        self.0 >> NEIGHBOR_CLASSES & ((1 << LENGTH_CLASSES) - 1)
    }

    /// The bit of a protocol; there are at most 8, and the highest bit of the word stays free.
    pub(crate) fn protocol_bit(number: u32) -> u64 {
        1 << (PROTOCOL_SHIFT + number)
    }

    /// Whether all ranks that contributed these bits ran this protocol.
    pub(crate) fn is_only_protocol(bits: u64, number: u32) -> bool {
        bits >> PROTOCOL_SHIFT == 1 << number
    }

    /// One rank's summary in [`PACKED_BITS`] bits.
    pub(crate) fn to_packed(self) -> u32 {
        let class = |classes: u64| classes.checked_ilog2().unwrap_or(0);
        class(self.0 & LOWER) | class(self.lengths()) << 5
    }

    /// Decodes [`to_packed`](Self::to_packed).
    pub(crate) fn from_packed(packed: u32) -> Self {
        Self(1 << (packed & 31) | 1 << (NEIGHBOR_CLASSES + (packed >> 5 & 31)))
    }

    /// The bits as sent.
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Adds the bits of another summary.
    pub(crate) fn merge(&mut self, bits: u64) {
        self.0 |= bits;
    }

    /// Lower bound of the maximum number of messages of a rank; nothing if the summary is empty.
    pub fn max_neighbors(self) -> Option<u64> {
        class_lower_bound(self.0 & LOWER)
    }

    /// Lower bound of the bytes of the longest message.
    pub fn max_message_bytes(self) -> Option<u64> {
        class_lower_bound(self.lengths())
    }
}

/// 0 for 0, else 1 + floor(log2 number).
fn size_class(number: usize) -> u32 {
    usize::BITS - number.leading_zeros()
}

/// The smallest number of the highest class present.
fn class_lower_bound(classes: u64) -> Option<u64> {
    let class = classes.checked_ilog2()?;
    Some(if class == 0 { 0 } else { 1 << (class - 1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maxima_are_known_to_a_power_of_two() {
        let mut all = TrafficSummary::new(0, 0);
        assert_eq!((all.max_neighbors(), all.max_message_bytes()), (Some(0), Some(0)));
        for (messages, longest) in [(6, 10), (1, 1000), (3, 1023)] {
            all.merge(TrafficSummary::new(messages, longest).bits());
        }
        assert_eq!((all.max_neighbors(), all.max_message_bytes()), (Some(4), Some(512)));
        assert_eq!(TrafficSummary::default().max_neighbors(), None);
        let one = TrafficSummary::new(6, 70_000);
        assert_eq!(TrafficSummary::from_packed(one.to_packed()), one);
        assert_eq!(one.to_packed() >> PACKED_BITS, 0);
        let huge = TrafficSummary::new(usize::MAX, usize::MAX);
        assert_eq!((huge.max_neighbors(), huge.max_message_bytes()), (Some(1 << 23), Some(1 << 28)));
    }
}
