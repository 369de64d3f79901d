//! What messages of an epoch say by their tags: a type and how to read the buffer, or a word of the waves that find its end.

use treepie_fabric::OWN_BITS;

/// Bits of a type.
const TYPE_BITS: u32 = 10;

/// So many types there can be.
pub(crate) const MOST_TYPES: usize = 1 << TYPE_BITS;

/// Its messages may be for others.
const MIXED: u32 = 1 << TYPE_BITS;
/// It belongs to the second of two rounds.
const ROUND: u32 = 2 << TYPE_BITS;
/// It is a message of the waves.
const WAVE: u32 = 1 << (OWN_BITS - 1);

/// What a message of an epoch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A buffer of messages.
    Data { index: usize, mixed: bool, round: usize },
    /// A message of the waves.
    Wave { tag: u32 },
}

pub(crate) fn data_tag(index: usize, mixed: bool, round: usize) -> u32 {
    let bit = |is_so: bool, bit: u32| if is_so { bit } else { 0 };
    index as u32 | bit(mixed, MIXED) | bit(round == 1, ROUND)
}

pub(crate) fn wave_tag(tag: u32) -> u32 {
    debug_assert!(tag < WAVE);
    tag | WAVE
}

pub(crate) fn kind(tag: u32) -> Kind {
    if tag & WAVE != 0 {
        return Kind::Wave { tag: tag & !WAVE };
    }
    let index = (tag & (MIXED - 1)) as usize;
    Kind::Data { index, mixed: tag & MIXED != 0, round: usize::from(tag & ROUND != 0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_say_what_was_put_in() {
        for (index, mixed, round) in [(0, false, 0), (1023, true, 1), (5, true, 0), (6, false, 1)] {
            assert_eq!(kind(data_tag(index, mixed, round)), Kind::Data { index, mixed, round });
        }
        assert_eq!(kind(wave_tag(0x7f)), Kind::Wave { tag: 0x7f });
        assert!(wave_tag(0x7f) < 1 << OWN_BITS);
    }
}
