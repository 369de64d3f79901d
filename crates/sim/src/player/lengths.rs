//! Lengths of parts in bytes. A part that is scattered takes long to measure, and is sent by many.

use treepie_schedule::{Part, Places};

use super::{Piece, Sizes};

pub(crate) struct Lengths {
    /// Those that were asked for lately; empty if ranks have different layouts.
    known: Vec<(Part, u64)>,
}

impl Lengths {
    const KNOWN: usize = 1 << 12;

    pub(crate) fn new(sizes: &Sizes) -> Self {
        let shared = matches!(sizes, Sizes::Shared(_));
        Self { known: if shared { vec![(Part::NOTHING, 0); Self::KNOWN] } else { Vec::new() } }
    }

    /// Bytes of a part of a rank.
    #[inline]
    pub(crate) fn of(&mut self, piece: Piece<'_>, rank: u32, part: Part) -> u64 {
        let measure = || {
            let places = Places { schedule: piece.schedule, layouts: piece.sizes.of(rank), rank };
            places.len(part) as u64 * piece.element
        };
        if part.len == 0 {
            return 0;
        }
        if self.known.is_empty() {
            return measure();
        }
        // What a part is long does not depend on the rank, only where it lies.
        let key = u64::from(part.lo)
            ^ u64::from(part.len) << 32
            ^ u64::from(part.seg) << 20
            ^ u64::from(part.of) << 44
            ^ u64::from(part.view) << 56;
        let slot = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize % Self::KNOWN;
        if self.known[slot].0 != part {
            self.known[slot] = (part, measure());
        }
        self.known[slot].1
    }
}
