//! Compressed sparse rows (CSR): the adjacency of a rank's local vertices.

use bytemuck::{Pod, Zeroable};
use treepie_base::Result;
use treepie_base::memory::{collected, zeroed};

/// What memory is allocated for, in error messages: input files may declare more vertices than fit.
pub(crate) const ROWS_PURPOSE: &str = "a row for each vertex of a rank";
pub(crate) const VALUES_PURPOSE: &str = "a value for each vertex";

/// An arc in a row: its target, as an index into the rank's [`LocalView`](crate::LocalView), and its weight if it has
/// one.
pub trait CsrEdge: Pod {
    /// Whether it has a weight.
    const WEIGHTED: bool;

    /// An arc to an index of the view, with these bits of its weight.
    fn new(target: u32, weight_bits: u32) -> Self;

    /// Its target, an index into the view.
    fn target(self) -> u32;

    /// The bits of its weight, or 0 if it has none.
    fn weight_bits(self) -> u32;
}

impl CsrEdge for u32 {
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
    fn weight_bits(self) -> u32 {
        0
    }
}

/// An arc with a weight of 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct WeightedEdge {
    target: u32,
    weight_bits: u32,
}

impl CsrEdge for WeightedEdge {
    const WEIGHTED: bool = true;

    #[inline]
    fn new(target: u32, weight_bits: u32) -> Self {
        Self { target, weight_bits }
    }

    #[inline]
    fn target(self) -> u32 {
        self.target
    }

    #[inline]
    fn weight_bits(self) -> u32 {
        self.weight_bits
    }
}

impl WeightedEdge {
    /// Its weight, of the type that the graph was built with.
    #[inline]
    pub fn weight<W: Weight>(self) -> W {
        W::from_bits(self.weight_bits)
    }
}

/// The type of weights and of distances.
pub trait Weight: Pod + PartialOrd + std::fmt::Display + std::fmt::Debug + 'static {
    /// The length of the empty path.
    const ZERO: Self;
    /// The distance of unreachable vertices.
    const INFINITY: Self;
    /// The largest finite distance.
    const MAX_FINITE: f64;

    /// From the bits stored with an arc.
    fn from_bits(bits: u32) -> Self;

    /// The bits stored with an arc. They compare like the weights.
    fn bits(self) -> u32;

    /// `None` if it is not a weight of this type.
    fn from_f64(weight: f64) -> Option<Self>;

    /// Converts to `f64`.
    fn as_f64(self) -> f64;

    /// The length of a path extended by an arc. At most [`INFINITY`](Self::INFINITY).
    fn add(self, arc: Self) -> Self;
}

impl Weight for f32 {
    const ZERO: Self = 0.0;
    const INFINITY: Self = f32::INFINITY;
    const MAX_FINITE: f64 = f32::MAX as f64;

    #[inline]
    fn from_bits(bits: u32) -> Self {
        f32::from_bits(bits)
    }

    #[inline]
    fn bits(self) -> u32 {
        self.to_bits()
    }

    fn from_f64(weight: f64) -> Option<Self> {
        let rounded = weight as f32;
        // Without the sign of a zero, whose bits would compare greater than all others.
        (rounded.is_finite() && rounded >= 0.0).then_some(rounded.abs())
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
    const INFINITY: Self = u32::MAX;
    const MAX_FINITE: f64 = (u32::MAX - 1) as f64;

    #[inline]
    fn from_bits(bits: u32) -> Self {
        bits
    }

    #[inline]
    fn bits(self) -> u32 {
        self
    }

    fn from_f64(weight: f64) -> Option<Self> {
        let integer = weight as u32;
        (f64::from(integer) == weight).then_some(integer)
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

/// An arc in coordinate form (COO): its row, its target as a global id, and the bits of its weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct CooEdge {
    pub(crate) target: u64,
    pub(crate) row: u32,
    pub(crate) weight_bits: u32,
}

/// Sorts arcs by row. In a row local targets come first, then remote ones, each sorted.
pub(crate) fn coo_to_csr(
    edges: Vec<CooEdge>,
    rows: usize,
    local: std::ops::Range<u64>,
    dedupe: bool,
) -> Result<(Vec<u64>, Vec<CooEdge>)> {
    let mut offsets = zeroed::<u64>(rows + 1, ROWS_PURPOSE)?;
    for arc in &edges {
        offsets[arc.row as usize + 1] += 1;
    }
    for row in 0..rows {
        offsets[row + 1] += offsets[row];
    }
    let mut sorted = zeroed::<CooEdge>(edges.len(), "the arcs of a rank")?;
    let mut next = collected(offsets.iter().copied(), ROWS_PURPOSE)?;
    for arc in edges {
        let slot = &mut next[arc.row as usize];
        sorted[*slot as usize] = arc;
        *slot += 1;
    }
    drop(next);
    for row in 0..rows {
        let row = offsets[row] as usize..offsets[row + 1] as usize;
        // Relative to the first local vertex, local targets sort first and those before it last.
        sorted[row].sort_unstable_by_key(|arc| (arc.target.wrapping_sub(local.start), arc.weight_bits));
    }
    if dedupe {
        let mut len = 0;
        for row in 0..rows {
            let (from, to) = (offsets[row] as usize, offsets[row + 1] as usize);
            offsets[row] = len as u64;
            for edge in from..to {
                // The first of parallel arcs is the lightest.
                if edge == from || sorted[edge].target != sorted[edge - 1].target {
                    sorted[len] = sorted[edge];
                    len += 1;
                }
            }
        }
        offsets[rows] = len as u64;
        sorted.truncate(len);
    }
    Ok((offsets, sorted))
}

/// The adjacency of a rank's local vertices, in CSR form.
#[derive(Clone, Debug, Default)]
pub struct Csr<A> {
    /// The first arc of each row, then the number of arcs.
    offsets: Vec<u64>,
    /// The number of arcs of each row with local targets. They come first.
    local_degrees: Vec<u32>,
    arcs: Vec<A>,
}

impl<A: CsrEdge> Csr<A> {
    pub(crate) fn new(offsets: Vec<u64>, local_degrees: Vec<u32>, arcs: Vec<A>) -> Self {
        Self { offsets, local_degrees, arcs }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.local_degrees.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.local_degrees.is_empty()
    }

    /// All arcs of a row.
    #[inline]
    pub fn row(&self, row: usize) -> &[A] {
        &self.arcs[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }

    /// The arcs of a row with local targets, and those with remote targets.
    #[inline]
    pub fn local_and_remote(&self, row: usize) -> (&[A], &[A]) {
        self.row(row).split_at(self.local_degrees[row] as usize)
    }

    /// The number of arcs of a row.
    #[inline]
    pub fn degree(&self, row: usize) -> u64 {
        self.offsets[row + 1] - self.offsets[row]
    }

    /// The arcs of all rows.
    pub(crate) fn edges(&self) -> &[A] {
        &self.arcs
    }

    /// The number of arcs of all rows.
    pub fn num_arcs(&self) -> u64 {
        self.arcs.len() as u64
    }

    /// Bytes on this rank.
    pub fn memory_usage(&self) -> usize {
        8 * self.offsets.len() + 4 * self.local_degrees.len() + size_of_val(&self.arcs[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_targets_come_first_and_the_lightest_parallel_edge_stays() {
        let arc = |row, target, weight_bits| CooEdge { target, row, weight_bits };
        let edges = vec![arc(2, 1, 0), arc(0, 9, 5), arc(0, 4, 7), arc(0, 9, 3), arc(0, 2, 1), arc(2, 5, 0)];
        let (offsets, sorted) = coo_to_csr(edges.clone(), 3, 4..7, false).unwrap();
        assert_eq!(offsets, [0, 4, 4, 6]);
        assert_eq!(sorted.iter().map(|arc| arc.target).collect::<Vec<_>>(), [4, 9, 9, 2, 5, 1]);
        let (offsets, sorted) = coo_to_csr(edges, 3, 4..7, true).unwrap();
        assert_eq!(offsets, [0, 3, 3, 5]);
        assert_eq!(sorted[1], arc(0, 9, 3));
        assert_eq!(sorted.iter().map(|arc| arc.target).collect::<Vec<_>>(), [4, 9, 2, 5, 1]);
    }

    #[test]
    fn weights_are_exact_or_refused() {
        assert_eq!(<u32 as Weight>::from_f64(4_294_967_295.0), Some(u32::MAX));
        assert_eq!([-1.0, 0.5, 4_294_967_296.0, f64::NAN].map(<u32 as Weight>::from_f64), [None; 4]);
        assert_eq!(<f32 as Weight>::from_f64(-0.0).map(Weight::bits), Some(0));
        assert_eq!([-1.0, f64::INFINITY, f64::NAN, 1e300].map(<f32 as Weight>::from_f64), [None; 4]);
    }
}
