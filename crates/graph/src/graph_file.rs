//! The file format of saved graphs: CSR arrays, which are loaded without parsing, messages or sorting.
//!
//! | bytes | |
//! |---|---|
//! | 8 | magic number: `MAGIC` |
//! | 4, 4 | version of the format, and flags |
//! | 8, 8 | numbers of vertices and of arcs |
//! | 8 | checksum of the header: of all above, and of the checksums below |
//! | 8 per block | checksums of the body, which is divided into blocks of `BLOCK_BYTES` bytes |
//! | 8 per vertex, and 8 | body: offsets, the number of arcs before those of each vertex, then the number of arcs |
//! | 4 or 8 per arc | targets, as external ids; 4 bytes if all ids are below 2^32 |
//! | 4 per arc | bits of weights, if there are any |
//! | 8 per vertex | external ids, unless they are 0 to n-1 or 1 to n |
//!
//! All numbers are little-endian, and all sections begin at multiples of 8 bytes. A row is sorted by target and weight.
//! So the file of a graph with ids 0 to n-1, or 1 to n, does not depend on the ranks that wrote it. A reader of a part of the file
//! reads whole blocks, so it can verify them by itself.

mod save;

use std::ops::Range;

use crate::hash::splitmix64;
use crate::{Orientation, WeightKind};

const MAGIC: [u8; 8] = *b"treepie\x1a";

/// The version that is written, and the only one that is supported.
const VERSION: u32 = 1;

/// Bytes of the header before the checksums of blocks.
pub(crate) const HEADER_BYTES: usize = 40;

/// Bytes of the header that its checksum covers, besides the checksums of blocks.
const CHECKED_HEADER_BYTES: usize = 32;

/// Bytes of a block. It is read at once, and fits into the L2 cache.
pub(crate) const BLOCK_BYTES: u64 = 1 << 18;

/// Flags.
const REAL_WEIGHTS: u32 = 1;
const INTEGER_WEIGHTS: u32 = 2;
const SYMMETRIC: u32 = 4;
const EXPLICIT_IDS: u32 = 8;
const WIDE_TARGETS: u32 = 16;
const ONE_BASED: u32 = 32;

/// A section of the body.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Section {
    Offsets,
    Targets,
    Weights,
    VertexIds,
}

/// The header of a file, and the positions of its sections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GraphFileHeader {
    pub(crate) vertices: u64,
    pub(crate) arcs: u64,
    pub(crate) weights: WeightKind,
    pub(crate) symmetric: bool,
    /// External ids are arbitrary, and stored.
    pub(crate) has_explicit_ids: bool,
    /// Targets have 8 bytes.
    pub(crate) has_wide_targets: bool,
    /// External ids are 1 to n.
    pub(crate) is_one_based: bool,
}

impl GraphFileHeader {
    /// Parses the first bytes of a file, or returns why they are invalid.
    pub(crate) fn parse(bytes: &[u8; HEADER_BYTES]) -> Result<Self, String> {
        if bytes[..8] != MAGIC {
            return Err("it is no saved graph: the magic number differs".into());
        }
        let (version, flags) = (read_u32(bytes, 8), read_u32(bytes, 12));
        if version != VERSION {
            return Err(format!("it has version {version} of the format, but only version {VERSION} is supported"));
        }
        let has = |flag: u32| flags & flag != 0;
        let known = REAL_WEIGHTS | INTEGER_WEIGHTS | SYMMETRIC | EXPLICIT_IDS | WIDE_TARGETS | ONE_BASED;
        if flags & !known != 0 || has(REAL_WEIGHTS) && has(INTEGER_WEIGHTS) || has(EXPLICIT_IDS) && has(ONE_BASED) {
            return Err(format!("its flags are {flags}, which are invalid"));
        }
        let weights = if has(REAL_WEIGHTS) {
            WeightKind::Real
        } else if has(INTEGER_WEIGHTS) {
            WeightKind::Integer
        } else {
            WeightKind::None
        };
        let (vertices, arcs) = (read_u64(bytes, 16), read_u64(bytes, 24));
        let header = Self {
            vertices,
            arcs,
            weights,
            symmetric: has(SYMMETRIC),
            has_explicit_ids: has(EXPLICIT_IDS),
            has_wide_targets: has(WIDE_TARGETS),
            is_one_based: has(ONE_BASED),
        };
        if vertices == 0 && arcs > 0 || header.file_bytes().is_none() {
            return Err(format!("there cannot be {vertices} vertices with {arcs} arcs"));
        }
        Ok(header)
    }

    /// The header as bytes, with the checksums of all blocks.
    pub(crate) fn to_bytes(&self, checksums: &[u64]) -> Vec<u8> {
        let flag = |flag: u32, is_set: bool| if is_set { flag } else { 0 };
        let flags = flag(REAL_WEIGHTS, self.weights == WeightKind::Real)
            | flag(INTEGER_WEIGHTS, self.weights == WeightKind::Integer)
            | flag(SYMMETRIC, self.symmetric)
            | flag(EXPLICIT_IDS, self.has_explicit_ids)
            | flag(WIDE_TARGETS, self.has_wide_targets)
            | flag(ONE_BASED, self.is_one_based);
        let mut bytes = MAGIC.to_vec();
        bytes.extend([VERSION, flags].iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend([self.vertices, self.arcs, 0].iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(checksums.iter().flat_map(|sum| sum.to_le_bytes()));
        let sum = Self::checksum(&bytes);
        bytes[CHECKED_HEADER_BYTES..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Whether the checksum of a header, with the checksums of all blocks, is valid.
    pub(crate) fn has_valid_checksum(bytes: &[u8]) -> bool {
        read_u64(bytes, CHECKED_HEADER_BYTES) == Self::checksum(bytes)
    }

    fn checksum(bytes: &[u8]) -> u64 {
        checksum(0, &bytes[..CHECKED_HEADER_BYTES]) ^ checksum(HEADER_BYTES as u64, &bytes[HEADER_BYTES..])
    }

    pub(crate) fn orientation(&self) -> Orientation {
        if self.symmetric { Orientation::Symmetric } else { Orientation::Directed }
    }

    /// The external id of the first vertex, if they are consecutive.
    pub(crate) fn first_id(&self) -> u64 {
        u64::from(self.is_one_based)
    }

    /// Bytes of each number of a section.
    pub(crate) fn width(&self, section: Section) -> u64 {
        match section {
            Section::Offsets | Section::VertexIds => 8,
            Section::Targets => {
                if self.has_wide_targets {
                    8
                } else {
                    4
                }
            }
            Section::Weights => 4,
        }
    }

    /// The number of entries of a section, or `None` on overflow.
    fn len(&self, section: Section) -> Option<u64> {
        match section {
            Section::Offsets => self.vertices.checked_add(1),
            Section::Targets => Some(self.arcs),
            Section::Weights => Some(if self.weights == WeightKind::None { 0 } else { self.arcs }),
            Section::VertexIds => Some(if self.has_explicit_ids { self.vertices } else { 0 }),
        }
    }

    /// The bytes of a section in the body, without padding; `None` on overflow.
    fn section_range(&self, section: Section) -> Option<Range<u64>> {
        let mut begin = 0_u64;
        for other in [Section::Offsets, Section::Targets, Section::Weights, Section::VertexIds] {
            let end = begin.checked_add(self.len(other)?.checked_mul(self.width(other))?)?;
            if other as u8 == section as u8 {
                return Some(begin..end);
            }
            begin = end.checked_next_multiple_of(8)?;
        }
        None
    }

    /// The offset of an entry of a section in the body.
    pub(crate) fn offset(&self, section: Section, index: u64) -> u64 {
        self.section_range(section).expect("checked by `parse`").start + index * self.width(section)
    }

    /// The positions of the 4-byte words of padding.
    fn padding_words(&self) -> impl Iterator<Item = u64> {
        let ends = [Section::Targets, Section::Weights]
            .map(|section| self.section_range(section).expect("checked by `parse`").end);
        ends.into_iter().filter(|end| end % 8 != 0).map(|end| end / 4)
    }

    /// Bytes of the body.
    pub(crate) fn body_bytes(&self) -> u64 {
        self.section_range(Section::VertexIds).expect("checked by `parse`").end
    }

    /// The number of blocks of the body.
    pub(crate) fn num_blocks(&self) -> u64 {
        self.body_bytes().div_ceil(BLOCK_BYTES)
    }

    /// The offset of the body in the file.
    pub(crate) fn body_offset(&self) -> u64 {
        HEADER_BYTES as u64 + 8 * self.num_blocks()
    }

    /// Bytes of the file, or `None` on overflow.
    pub(crate) fn file_bytes(&self) -> Option<u64> {
        let body = self.section_range(Section::VertexIds)?.end;
        body.checked_add(HEADER_BYTES as u64)?.checked_add(body.div_ceil(BLOCK_BYTES) * 8)
    }
}

/// The checksum of bytes at an offset; both are multiples of 4. Checksums of adjacent ranges combine by exclusive or,
/// so ranks that write parts of a block need no order.
pub(crate) fn checksum(at: u64, bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    (at / 4..).zip(words).fold(0, |sum, (position, word)| sum ^ word_checksum(position, word))
}

/// The checksum of a word at a position.
#[inline]
fn word_checksum(position: u64, word: u32) -> u64 {
    splitmix64(position.rotate_left(32) ^ u64::from(word))
}

#[inline]
pub(crate) fn read_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

#[inline]
pub(crate) fn read_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers() -> impl Iterator<Item = GraphFileHeader> {
        (0..64_u32).filter_map(|bits| {
            let has = |bit: u32| bits >> bit & 1 == 1;
            let weights = match (has(0), has(1)) {
                _ if has(3) && has(5) => return None,
                (true, true) => return None,
                (true, false) => WeightKind::Real,
                (false, true) => WeightKind::Integer,
                (false, false) => WeightKind::None,
            };
            Some(GraphFileHeader {
                vertices: 5,
                arcs: 7,
                weights,
                symmetric: has(2),
                has_explicit_ids: has(3),
                has_wide_targets: has(4),
                is_one_based: has(5),
            })
        })
    }

    #[test]
    fn headers_round_trip() {
        for header in headers() {
            let bytes = header.to_bytes(&vec![7; header.num_blocks() as usize]);
            assert_eq!(GraphFileHeader::parse(bytes[..HEADER_BYTES].try_into().expect("a header")), Ok(header.clone()));
            assert_eq!(bytes.len() as u64, header.body_offset());
            assert!(GraphFileHeader::has_valid_checksum(&bytes));
            for at in (0..CHECKED_HEADER_BYTES).chain(HEADER_BYTES..bytes.len()) {
                let mut bytes = bytes.clone();
                bytes[at] ^= 16;
                assert!(!GraphFileHeader::has_valid_checksum(&bytes), "byte {at}");
            }
        }
    }

    #[test]
    fn parts_follow_each_other() {
        for header in headers() {
            let mut end = 0;
            for section in [Section::Offsets, Section::Targets, Section::Weights, Section::VertexIds] {
                assert_eq!(header.offset(section, 0), end, "{section:?} of {header:?}");
                end = header.offset(section, header.len(section).expect("few")).next_multiple_of(8);
            }
            assert_eq!((header.body_bytes(), header.file_bytes()), (end, Some(header.body_offset() + end)));
        }
    }

    #[test]
    fn invalid_headers_are_refused() {
        let header = GraphFileHeader {
            vertices: 5,
            arcs: 7,
            weights: WeightKind::None,
            symmetric: true,
            has_explicit_ids: false,
            has_wide_targets: false,
            is_one_based: false,
        };
        let bytes = header.to_bytes(&[0]);
        for (at, byte, why) in [
            (0, b'T', "it is no saved graph: the magic number differs"),
            (8, 2, "it has version 2 of the format, but only version 1 is supported"),
            (12, 3, "its flags are 3, which are invalid"),
            (12, 40, "its flags are 40, which are invalid"),
            (12, 64, "its flags are 64, which are invalid"),
            (16, 0, "there cannot be 0 vertices with 7 arcs"),
            (23, 255, "there cannot be 18374686479671623685 vertices with 7 arcs"),
        ] {
            let mut bytes: [u8; HEADER_BYTES] = bytes[..HEADER_BYTES].try_into().expect("a header");
            bytes[at] = byte;
            assert_eq!(GraphFileHeader::parse(&bytes), Err(why.to_owned()));
        }
        for (vertices, arcs) in [(u64::MAX, 0), (1, u64::MAX), (1, u64::MAX / 4), (u64::MAX / 8, 1)] {
            let header = GraphFileHeader { vertices, arcs, ..header };
            assert_eq!(header.file_bytes(), None, "{vertices} {arcs}");
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
