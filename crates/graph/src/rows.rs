//! Compressed rows: the arcs of a rank's own vertices, one row behind the other.

use bytemuck::{Pod, Zeroable};
use treepie_base::Result;
use treepie_base::memory::{collected, zeroed};

/// What a number of vertices that a file announces asks memory for.
pub(crate) const ROWS: &str = "a row for each vertex of a rank";
pub(crate) const VALUES: &str = "a value for each vertex";

/// An arc in a row: where it leads, as a place of the rank's [`View`](crate::View), and perhaps its weight.
pub trait Arc: Pod {
    /// Whether it has a weight.
    const WEIGHTED: bool;

    /// An arc to a place, of a weight with these bits.
    fn new(target: u32, bits: u32) -> Self;

    /// Where it leads.
    fn target(self) -> u32;

    /// The bits of its weight, or 0 if it has none.
    fn bits(self) -> u32;
}

impl Arc for u32 {
    const WEIGHTED: bool = false;

    #[inline]
    fn new(target: u32, _: u32) -> Self {
        target
    }

    #[inline]
    fn target(self) -> u32 {
        self
    }

    #[inline]
    fn bits(self) -> u32 {
        0
    }
}

/// An arc with a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Weighted {
    target: u32,
    bits: u32,
}

impl Arc for Weighted {
    const WEIGHTED: bool = true;

    #[inline]
    fn new(target: u32, bits: u32) -> Self {
        Self { target, bits }
    }

    #[inline]
    fn target(self) -> u32 {
        self.target
    }

    #[inline]
    fn bits(self) -> u32 {
        self.bits
    }
}

impl Weighted {
    /// Its weight, of the kind that the graph was built with.
    #[inline]
    pub fn weight<W: Weight>(self) -> W {
        W::from_bits(self.bits)
    }
}

/// What weights can be.
pub trait Weight: Pod + PartialOrd + std::fmt::Display + std::fmt::Debug + 'static {
    /// No way at all.
    const ZERO: Self;
    /// Farther than everything.
    const FAR: Self;
    /// The longest way that can be told from that, as a number.
    const LONGEST: f64;

    /// From the bits that arcs keep.
    fn from_bits(bits: u32) -> Self;

    /// The bits that arcs keep. They have the order of the weights.
    fn bits(self) -> u32;

    /// Nothing if it is no weight of this kind.
    fn from_f64(weight: f64) -> Option<Self>;

    /// As a number.
    fn as_f64(self) -> f64;

    /// The length of a way and an arc behind it. Never more than [`FAR`](Self::FAR).
    fn add(self, arc: Self) -> Self;
}

impl Weight for f32 {
    const ZERO: Self = 0.0;
    const FAR: Self = f32::INFINITY;
    const LONGEST: f64 = f32::MAX as f64;

    #[inline]
    fn from_bits(bits: u32) -> Self {
        f32::from_bits(bits)
    }

    #[inline]
    fn bits(self) -> u32 {
        self.to_bits()
    }

    fn from_f64(weight: f64) -> Option<Self> {
        let near = weight as f32;
        // Without the sign of a zero, which would be the greatest of all bits.
        (near.is_finite() && near >= 0.0).then_some(near.abs())
    }

    #[inline]
    fn as_f64(self) -> f64 {
        self.into()
    }

    #[inline]
    fn add(self, arc: Self) -> Self {
        self + arc
    }
}

impl Weight for u32 {
    const ZERO: Self = 0;
    const FAR: Self = u32::MAX;
    const LONGEST: f64 = (u32::MAX - 1) as f64;

    #[inline]
    fn from_bits(bits: u32) -> Self {
        bits
    }

    #[inline]
    fn bits(self) -> u32 {
        self
    }

    fn from_f64(weight: f64) -> Option<Self> {
        let whole = weight as u32;
        (f64::from(whole) == weight).then_some(whole)
    }

    #[inline]
    fn as_f64(self) -> f64 {
        self.into()
    }

    #[inline]
    fn add(self, arc: Self) -> Self {
        self.saturating_add(arc)
    }
}

/// An arc before rows are made: its row, where it leads as a number of the [`Layout`](crate::Layout), and its weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Loose {
    pub(crate) to: u64,
    pub(crate) row: u32,
    pub(crate) bits: u32,
}

/// Loose arcs by row. In a row those to own vertices come first, and then others, each in their order.
pub(crate) fn sort_into_rows(
    loose: Vec<Loose>,
    rows: usize,
    own: std::ops::Range<u64>,
    dedupe: bool,
) -> Result<(Vec<u64>, Vec<Loose>)> {
    let mut offsets = zeroed::<u64>(rows + 1, ROWS)?;
    for arc in &loose {
        offsets[arc.row as usize + 1] += 1;
    }
    for row in 0..rows {
        offsets[row + 1] += offsets[row];
    }
    let mut sorted = zeroed::<Loose>(loose.len(), "the arcs of a rank")?;
    let mut next = collected(offsets.iter().copied(), ROWS)?;
    for arc in loose {
        let place = &mut next[arc.row as usize];
        sorted[*place as usize] = arc;
        *place += 1;
    }
    drop(next);
    for row in 0..rows {
        let row = offsets[row] as usize..offsets[row + 1] as usize;
        // Counted from the first own vertex on, own ones are first and those before it last.
        sorted[row].sort_unstable_by_key(|arc| (arc.to.wrapping_sub(own.start), arc.bits));
    }
    if dedupe {
        let mut kept = 0;
        for row in 0..rows {
            let (from, to) = (offsets[row] as usize, offsets[row + 1] as usize);
            offsets[row] = kept as u64;
            for at in from..to {
                // The first of several has the least weight.
                if at == from || sorted[at].to != sorted[at - 1].to {
                    sorted[kept] = sorted[at];
                    kept += 1;
                }
            }
        }
        offsets[rows] = kept as u64;
        sorted.truncate(kept);
    }
    Ok((offsets, sorted))
}

/// The arcs of a rank's own vertices.
#[derive(Clone, Debug, Default)]
pub struct Rows<A> {
    /// Where each row begins, and where the last one ends.
    offsets: Vec<u64>,
    /// How many arcs of each row lead to own vertices: the first ones.
    near: Vec<u32>,
    arcs: Vec<A>,
}

impl<A: Arc> Rows<A> {
    pub(crate) fn new(offsets: Vec<u64>, near: Vec<u32>, arcs: Vec<A>) -> Self {
        Self { offsets, near, arcs }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.near.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.near.is_empty()
    }

    /// All arcs of a row.
    #[inline]
    pub fn row(&self, row: usize) -> &[A] {
        &self.arcs[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }

    /// Those to own vertices, and the others.
    #[inline]
    pub fn parts(&self, row: usize) -> (&[A], &[A]) {
        self.row(row).split_at(self.near[row] as usize)
    }

    /// How many arcs a row has.
    #[inline]
    pub fn degree(&self, row: usize) -> u64 {
        self.offsets[row + 1] - self.offsets[row]
    }

    /// The arcs of all rows.
    pub(crate) fn all(&self) -> &[A] {
        &self.arcs
    }

    /// How many arcs there are.
    pub fn arcs(&self) -> u64 {
        self.arcs.len() as u64
    }

    /// Bytes that they need here.
    pub fn memory(&self) -> usize {
        8 * self.offsets.len() + 4 * self.near.len() + size_of_val(&self.arcs[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_arcs_come_first_and_the_lightest_of_several_stays() {
        let arc = |row, to, bits| Loose { to, row, bits };
        let loose = vec![arc(2, 1, 0), arc(0, 9, 5), arc(0, 4, 7), arc(0, 9, 3), arc(0, 2, 1), arc(2, 5, 0)];
        let (offsets, sorted) = sort_into_rows(loose.clone(), 3, 4..7, false).unwrap();
        assert_eq!(offsets, [0, 4, 4, 6]);
        assert_eq!(sorted.iter().map(|arc| arc.to).collect::<Vec<_>>(), [4, 9, 9, 2, 5, 1]);
        let (offsets, sorted) = sort_into_rows(loose, 3, 4..7, true).unwrap();
        assert_eq!(offsets, [0, 3, 3, 5]);
        assert_eq!(sorted[1], arc(0, 9, 3));
        assert_eq!(sorted.iter().map(|arc| arc.to).collect::<Vec<_>>(), [4, 9, 2, 5, 1]);
    }

    #[test]
    fn weights_are_exact_or_refused() {
        assert_eq!(<u32 as Weight>::from_f64(4_294_967_295.0), Some(u32::MAX));
        assert_eq!([-1.0, 0.5, 4_294_967_296.0, f64::NAN].map(<u32 as Weight>::from_f64), [None; 4]);
        assert_eq!(<f32 as Weight>::from_f64(-0.0).map(Weight::bits), Some(0));
        assert_eq!([-1.0, f64::INFINITY, f64::NAN, 1e300].map(<f32 as Weight>::from_f64), [None; 4]);
    }
}
