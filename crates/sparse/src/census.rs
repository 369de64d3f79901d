//! What all ranks learn of an exchange beside their messages: how many neighbours the busiest rank had, and how long the
//! longest message was, both to the next power of two. It rides in what a protocol sends anyway, as a set of bits, so that
//! combining what two ranks know is a union, and hearing something twice does no harm.

/// What was seen of an exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census(u64);

/// Classes of numbers of neighbours; then come those of lengths, and the protocols.
const NEIGHBOURS: u32 = 25;
const LENGTHS: u32 = 30;
const PROTOCOLS: u32 = NEIGHBOURS + LENGTHS;
const LOWER: u64 = (1 << NEIGHBOURS) - 1;

/// Of a rank's own census in a tag.
pub(crate) const PACKED_BITS: u32 = 10;

impl Census {
    /// Of one rank that sends so many messages, the longest of so many bytes.
    pub fn of(messages: usize, longest: usize) -> Self {
        let (messages, longest) = (class(messages).min(NEIGHBOURS - 1), class(longest).min(LENGTHS - 1));
        Self(1 << messages | 1 << (NEIGHBOURS + longest))
    }

    fn lengths(self) -> u64 {
        self.0 >> NEIGHBOURS & ((1 << LENGTHS) - 1)
    }

    /// The bit of those who come by a protocol; there are at most 8, and the highest bit of all stays free.
    pub(crate) fn of_protocol(number: u32) -> u64 {
        1 << (PROTOCOLS + number)
    }

    /// Whether all whose bits these are came by that protocol.
    pub(crate) fn are_all_of_protocol(bits: u64, number: u32) -> bool {
        bits >> PROTOCOLS == 1 << number
    }

    /// That of one rank, in [`PACKED_BITS`] bits.
    pub(crate) fn packed(self) -> u32 {
        let class = |classes: u64| classes.checked_ilog2().unwrap_or(0);
        class(self.0 & LOWER) | class(self.lengths()) << 5
    }

    /// The other way.
    pub(crate) fn unpacked(packed: u32) -> Self {
        Self(1 << (packed & 31) | 1 << (NEIGHBOURS + (packed >> 5 & 31)))
    }

    /// As it is sent.
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// What both have seen.
    pub(crate) fn add(&mut self, bits: u64) {
        self.0 |= bits;
    }

    /// The most messages that a rank sent, at least; nothing if nobody has said.
    pub fn neighbours(self) -> Option<u64> {
        highest(self.0 & LOWER)
    }

    /// Bytes of the longest message, at least.
    pub fn longest(self) -> Option<u64> {
        highest(self.lengths())
    }
}

/// 0 for nothing, and one more for each power of two.
fn class(number: usize) -> u32 {
    usize::BITS - number.leading_zeros()
}

/// The least number of the highest class that is set.
fn highest(classes: u64) -> Option<u64> {
    let class = classes.checked_ilog2()?;
    Some(if class == 0 { 0 } else { 1 << (class - 1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_of_all_is_known_to_the_power_of_two() {
        let mut all = Census::of(0, 0);
        assert_eq!((all.neighbours(), all.longest()), (Some(0), Some(0)));
        for (messages, longest) in [(6, 10), (1, 1000), (3, 1023)] {
            all.add(Census::of(messages, longest).bits());
        }
        assert_eq!((all.neighbours(), all.longest()), (Some(4), Some(512)));
        assert_eq!(Census::default().neighbours(), None);
        let own = Census::of(6, 70_000);
        assert_eq!(Census::unpacked(own.packed()), own);
        assert_eq!(own.packed() >> PACKED_BITS, 0);
        let huge = Census::of(usize::MAX, usize::MAX);
        assert_eq!((huge.neighbours(), huge.longest()), (Some(1 << 23), Some(1 << 28)));
    }
}
