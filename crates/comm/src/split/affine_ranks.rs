//! Affine rank sequences: detection of a constant stride.

use bytemuck::{Pod, Zeroable};

use super::entry::SplitEntry;

/// A sequence of world ranks, and whether it is affine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct AffineRanks {
    /// Difference of consecutive ranks.
    step: i64,
    first: u32,
    last: u32,
    ranks: u32,
    is_affine: u32,
}

impl AffineRanks {
    /// The sequence of these rows. The scan stops at the first one that does not fit.
    pub(super) fn from_rows(rows: &[SplitEntry]) -> Self {
        let Some((first, last)) = rows.first().zip(rows.last()) else {
            return Self { is_affine: 1, ..Self::default() };
        };
        let step = rows.get(1).map_or(0, |second| difference(first.world_rank(), second.world_rank()));
        let is_affine = rows.windows(2).all(|two| difference(two[0].world_rank(), two[1].world_rank()) == step);
        let (first, last) = (first.world_rank(), last.world_rank());
        Self { step, first, last, ranks: rows.len() as u32, is_affine: is_affine.into() }
    }

    /// The concatenation of two sequences.
    pub(super) fn concat(self, next: Self) -> Self {
        if self.ranks == 0 || next.ranks == 0 {
            return if self.ranks == 0 { next } else { self };
        }
        let step = difference(self.last, next.first);
        let agrees = |part: &Self| part.is_affine == 1 && (part.ranks == 1 || part.step == step);
        let is_affine = agrees(&self) && agrees(&next);
        Self { step, last: next.last, ranks: self.ranks + next.ranks, is_affine: is_affine.into(), ..self }
    }

    /// The first rank and the step, if the sequence is affine.
    pub fn formula(&self) -> Option<(u32, i64)> {
        (self.is_affine == 1).then_some((self.first, self.step))
    }

    /// Number of ranks.
    pub(super) fn ranks(&self) -> u32 {
        self.ranks
    }
}

fn difference(from: u32, to: u32) -> i64 {
    i64::from(to) - i64::from(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn affine_sequences_are_detected_however_rows_are_partitioned() {
        type Formula = Option<(u32, i64)>;
        let lists: [(&[u32], Formula); 7] = [
            (&[4], Some((4, 0))),
            (&[4, 9], Some((4, 5))),
            (&[9, 6, 3, 0], Some((9, -3))),
            (&[0, 1, 2, 3, 4], Some((0, 1))),
            (&[0, 1, 2, 4, 5], None),
            (&[0, 2, 1], None),
            (&[5, 6, 7, 6], None),
        ];
        for (list, formula) in lists {
            let rows: Vec<SplitEntry> =
                list.iter().map(|world_rank| SplitEntry::new(Some(0), 0, *world_rank, *world_rank)).collect();
            assert_eq!(AffineRanks::from_rows(&rows).formula(), formula);
            for one in 0..=rows.len() {
                for other in one..=rows.len() {
                    let parts = [&rows[..one], &rows[one..other], &rows[other..]].map(AffineRanks::from_rows);
                    let ranks = parts[0].concat(parts[1]).concat(parts[2]);
                    assert_eq!(
                        (ranks.formula(), ranks.ranks() as usize),
                        (formula, list.len()),
                        "{list:?} {one} {other}"
                    );
                }
            }
        }
    }
}
