//! The file of a graph as it was built: its rows, which are there again without parsing, messages or sorting.
//!
//! | bytes | |
//! |---|---|
//! | 8 | what kind of file it is: `MAGIC` |
//! | 4, 4 | the version of the format, and flags: what there is in it |
//! | 8, 8 | numbers of vertices and of arcs |
//! | 8 | checksum of the head: of all above, and of the checksums below |
//! | 8 a block | checksums of the body, which is divided into blocks of `BLOCK` bytes |
//! | 8 a vertex, and 8 | body: how many arcs there are before those of each vertex, and in the end how many in all |
//! | 4 or 8 an arc | the vertices that arcs lead to, by original name; 4 bytes if all names are below 2^32 |
//! | 4 an arc | bits of weights, if there are any |
//! | 8 a vertex | original names, unless they are 0, 1, and so on |
//!
//! All numbers begin with their lowest byte, and all parts begin at multiples of 8 bytes. A row is in order of names,
//! and of weights. So the same graph is the same file, whatever ranks wrote it, as long as names are numbers. Whoever
//! reads a part of the file reads whole blocks, so it can tell by itself whether they are what was written.

mod save;

use std::ops::Range;

use crate::mix::mixed;
use crate::{Orientation, Weights};

const MAGIC: [u8; 8] = *b"treepie\x1a";

/// The version that is written, and the only one that is read.
const VERSION: u32 = 1;

/// Bytes of the head before the checksums of blocks.
pub(crate) const HEAD: usize = 40;

/// Bytes of the head that its checksum is about, besides those of blocks.
const FACTS: usize = 32;

/// Bytes of a block. It is read at once, and fits into the second cache.
pub(crate) const BLOCK: u64 = 1 << 18;

/// Flags.
const REAL: u32 = 1;
const WHOLE: u32 = 2;
const SYMMETRIC: u32 = 4;
const LISTED: u32 = 8;
const WIDE: u32 = 16;

/// Parts of the body.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Section {
    Offsets,
    Targets,
    Weights,
    Names,
}

/// What a file says of itself, and where its parts are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) vertices: u64,
    pub(crate) arcs: u64,
    pub(crate) weights: Weights,
    pub(crate) symmetric: bool,
    /// Names are any numbers, and stored.
    pub(crate) listed: bool,
    /// Names have 8 bytes where arcs lead to them.
    pub(crate) wide: bool,
}

impl Head {
    /// What the first bytes of a file say, or why they are not those of such a file.
    pub(crate) fn read(bytes: &[u8; HEAD]) -> Result<Self, String> {
        if bytes[..8] != MAGIC {
            return Err("it does not begin as files of saved graphs do".into());
        }
        let (version, flags) = (half(bytes, 8), half(bytes, 12));
        if version != VERSION {
            return Err(format!("it is of version {version} of the format, but only version {VERSION} is read"));
        }
        let has = |flag: u32| flags & flag != 0;
        if flags > REAL + WHOLE + SYMMETRIC + LISTED + WIDE || has(REAL) && has(WHOLE) {
            return Err(format!("its flags are {flags}, which mean nothing"));
        }
        let weights = if has(REAL) {
            Weights::Real
        } else if has(WHOLE) {
            Weights::Whole
        } else {
            Weights::None
        };
        let (vertices, arcs) = (whole(bytes, 16), whole(bytes, 24));
        let head = Self { vertices, arcs, weights, symmetric: has(SYMMETRIC), listed: has(LISTED), wide: has(WIDE) };
        if vertices == 0 && arcs > 0 || head.bytes().is_none() {
            return Err(format!("there cannot be {vertices} vertices with {arcs} arcs"));
        }
        Ok(head)
    }

    /// The first bytes of a file, and the checksums of its blocks.
    pub(crate) fn written(&self, sums: &[u64]) -> Vec<u8> {
        let flag = |flag: u32, is_set: bool| if is_set { flag } else { 0 };
        let flags = flag(REAL, self.weights == Weights::Real)
            | flag(WHOLE, self.weights == Weights::Whole)
            | flag(SYMMETRIC, self.symmetric)
            | flag(LISTED, self.listed)
            | flag(WIDE, self.wide);
        let mut bytes = MAGIC.to_vec();
        bytes.extend([VERSION, flags].iter().flat_map(|half| half.to_le_bytes()));
        bytes.extend([self.vertices, self.arcs, 0].iter().flat_map(|whole| whole.to_le_bytes()));
        bytes.extend(sums.iter().flat_map(|sum| sum.to_le_bytes()));
        let sum = Self::checksum(&bytes);
        bytes[FACTS..HEAD].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The checksum that a head has, and whether it is right: of a head with the checksums of all blocks.
    pub(crate) fn is_whole(bytes: &[u8]) -> bool {
        whole(bytes, FACTS) == Self::checksum(bytes)
    }

    fn checksum(bytes: &[u8]) -> u64 {
        checksum(0, &bytes[..FACTS]) ^ checksum(HEAD as u64, &bytes[HEAD..])
    }

    pub(crate) fn orientation(&self) -> Orientation {
        if self.symmetric { Orientation::Symmetric } else { Orientation::Directed }
    }

    /// Bytes of each number of a part.
    pub(crate) fn width(&self, section: Section) -> u64 {
        match section {
            Section::Offsets | Section::Names => 8,
            Section::Targets => {
                if self.wide {
                    8
                } else {
                    4
                }
            }
            Section::Weights => 4,
        }
    }

    /// How many numbers a part has, if there are not too many for it to be.
    fn len(&self, section: Section) -> Option<u64> {
        match section {
            Section::Offsets => self.vertices.checked_add(1),
            Section::Targets => Some(self.arcs),
            Section::Weights => Some(if self.weights == Weights::None { 0 } else { self.arcs }),
            Section::Names => Some(if self.listed { self.vertices } else { 0 }),
        }
    }

    /// Where a part is in the body, without what fills it up.
    fn place(&self, section: Section) -> Option<Range<u64>> {
        let mut begin = 0_u64;
        for part in [Section::Offsets, Section::Targets, Section::Weights, Section::Names] {
            let end = begin.checked_add(self.len(part)?.checked_mul(self.width(part))?)?;
            if part as u8 == section as u8 {
                return Some(begin..end);
            }
            begin = end.checked_next_multiple_of(8)?;
        }
        None
    }

    /// Where a number of a part is in the body.
    pub(crate) fn at(&self, section: Section, index: u64) -> u64 {
        self.place(section).expect("it was looked at before").start + index * self.width(section)
    }

    /// Words of 4 bytes that only fill a part up.
    fn filled_up(&self) -> impl Iterator<Item = u64> {
        let ends =
            [Section::Targets, Section::Weights].map(|part| self.place(part).expect("it was looked at before").end);
        ends.into_iter().filter(|end| end % 8 != 0).map(|end| end / 4)
    }

    /// Bytes of the body.
    pub(crate) fn body(&self) -> u64 {
        self.place(Section::Names).expect("it was looked at before").end
    }

    /// How many blocks the body has.
    pub(crate) fn blocks(&self) -> u64 {
        self.body().div_ceil(BLOCK)
    }

    /// Where the body begins.
    pub(crate) fn start(&self) -> u64 {
        HEAD as u64 + 8 * self.blocks()
    }

    /// Bytes of the file, if there can be so many.
    pub(crate) fn bytes(&self) -> Option<u64> {
        let body = self.place(Section::Names)?.end;
        body.checked_add(HEAD as u64)?.checked_add(body.div_ceil(BLOCK) * 8)
    }
}

/// The checksum of bytes that begin somewhere; both are multiples of 4. That of two stretches is one exclusive or the
/// other, so those who write parts of a block need not wait for each other.
pub(crate) fn checksum(at: u64, bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    (at / 4..).zip(words).fold(0, |sum, (place, word)| sum ^ sum_of(place, word))
}

/// What a word adds to a checksum.
#[inline]
fn sum_of(place: u64, word: u32) -> u64 {
    mixed(place.rotate_left(32) ^ u64::from(word))
}

#[inline]
pub(crate) fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

#[inline]
pub(crate) fn whole(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heads() -> impl Iterator<Item = Head> {
        (0..32_u32).filter_map(|bits| {
            let has = |bit: u32| bits >> bit & 1 == 1;
            let weights = match (has(0), has(1)) {
                (true, true) => return None,
                (true, false) => Weights::Real,
                (false, true) => Weights::Whole,
                (false, false) => Weights::None,
            };
            Some(Head { vertices: 5, arcs: 7, weights, symmetric: has(2), listed: has(3), wide: has(4) })
        })
    }

    #[test]
    fn heads_come_back() {
        for head in heads() {
            let bytes = head.written(&vec![7; head.blocks() as usize]);
            assert_eq!(Head::read(bytes[..HEAD].try_into().expect("a head")), Ok(head.clone()));
            assert_eq!(bytes.len() as u64, head.start());
            assert!(Head::is_whole(&bytes));
            for at in (0..FACTS).chain(HEAD..bytes.len()) {
                let mut bytes = bytes.clone();
                bytes[at] ^= 16;
                assert!(!Head::is_whole(&bytes), "byte {at}");
            }
        }
    }

    #[test]
    fn parts_follow_each_other() {
        for head in heads() {
            let mut end = 0;
            for section in [Section::Offsets, Section::Targets, Section::Weights, Section::Names] {
                assert_eq!(head.at(section, 0), end, "{section:?} of {head:?}");
                end = head.at(section, head.len(section).expect("few")).next_multiple_of(8);
            }
            assert_eq!((head.body(), head.bytes()), (end, Some(head.start() + end)));
        }
    }

    #[test]
    fn heads_that_cannot_be_are_refused() {
        let head = Head { vertices: 5, arcs: 7, weights: Weights::None, symmetric: true, listed: false, wide: false };
        let bytes = head.written(&[0]);
        for (at, byte, why) in [
            (0, b'T', "it does not begin as files of saved graphs do"),
            (8, 2, "it is of version 2 of the format, but only version 1 is read"),
            (12, 3, "its flags are 3, which mean nothing"),
            (12, 32, "its flags are 32, which mean nothing"),
            (16, 0, "there cannot be 0 vertices with 7 arcs"),
            (23, 255, "there cannot be 18374686479671623685 vertices with 7 arcs"),
        ] {
            let mut bytes: [u8; HEAD] = bytes[..HEAD].try_into().expect("a head");
            bytes[at] = byte;
            assert_eq!(Head::read(&bytes), Err(why.to_owned()));
        }
        for (vertices, arcs) in [(u64::MAX, 0), (1, u64::MAX), (1, u64::MAX / 4), (u64::MAX / 8, 1)] {
            let head = Head { vertices, arcs, ..head };
            assert_eq!(head.bytes(), None, "{vertices} {arcs}");
        }
    }

    #[test]
    fn checksums_of_parts_make_that_of_all() {
        let bytes: Vec<u8> = (0..64).collect();
        let all = checksum(8, &bytes);
        for cut in (0..=64).step_by(4) {
            assert_eq!(checksum(8, &bytes[..cut]) ^ checksum(8 + cut as u64, &bytes[cut..]), all);
        }
        let mut swapped = bytes.clone();
        swapped.swap(0, 4);
        assert_ne!(checksum(8, &swapped), all);
        assert_ne!(checksum(12, &bytes), all);
    }
}
