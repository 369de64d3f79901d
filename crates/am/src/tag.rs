//! Tags of messages of an epoch: a message type and the layout of the buffer, or a message of a termination wave.

use treepie_fabric::SUBTAG_BITS;

/// Bits of a message type.
const TYPE_BITS: u32 = 10;

/// Maximum number of message types.
pub(crate) const MAX_TYPES: usize = 1 << TYPE_BITS;

/// Messages have a destination, which may be another rank.
const HAS_DESTINATION: u32 = 1 << TYPE_BITS;
/// The buffer belongs to an odd round.
const ROUND: u32 = 2 << TYPE_BITS;
/// A message of a termination wave.
const WAVE: u32 = 1 << (SUBTAG_BITS - 1);

/// A decoded tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TagKind {
    /// A buffer of messages.
    Data { index: usize, has_destination: bool, round: usize },
    /// A message of a termination wave.
    Wave { tag: u32 },
}

pub(crate) fn data_tag(index: usize, has_destination: bool, round: usize) -> u32 {
    let bit = |is_set: bool, bit: u32| if is_set { bit } else { 0 };
    index as u32 | bit(has_destination, HAS_DESTINATION) | bit(round == 1, ROUND)
}

pub(crate) fn wave_tag(tag: u32) -> u32 {
    debug_assert!(tag < WAVE);
    tag | WAVE
}

pub(crate) fn tag_kind(tag: u32) -> TagKind {
    if tag & WAVE != 0 {
        return TagKind::Wave { tag: tag & !WAVE };
    }
    let index = (tag & (HAS_DESTINATION - 1)) as usize;
    TagKind::Data { index, has_destination: tag & HAS_DESTINATION != 0, round: usize::from(tag & ROUND != 0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_round_trip() {
        for (index, has_destination, round) in [(0, false, 0), (1023, true, 1), (5, true, 0), (6, false, 1)] {
            assert_eq!(
                tag_kind(data_tag(index, has_destination, round)),
                TagKind::Data { index, has_destination, round }
            );
        }
        assert_eq!(tag_kind(wave_tag(0x7f)), TagKind::Wave { tag: 0x7f });
        assert!(wave_tag(0x7f) < 1 << SUBTAG_BITS);
    }
}
