//! Compressed sparse rows (CSR): the adjacency of a rank's local vertices.

use bytemuck::{Pod, Zeroable};

/// What memory is allocated for, in error messages: input files may declare more vertices than fit.
pub(crate) const ROWS_PURPOSE: &str = "a row for each vertex of a rank";
pub(crate) const VALUES_PURPOSE: &str = "a value for each vertex";

/// An arc in a row: its target, as an index into the rank's [`LocalView`](crate::LocalView), and its weight, if it has
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsrEdge<W> {
    /// The target, an index into the view.
    pub target: u32,
    /// The weight.
    pub weight: W,
}

/// An arc in coordinate form (COO): its row, its target as a global id, and the bits of its weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct CooEdge {
    pub(crate) target: u64,
    pub(crate) row: u32,
    pub(crate) weight_bits: u32,
}

/// The adjacency of a rank's local vertices, in CSR form.
#[derive(Clone, Debug, Default)]
pub struct Csr<W> {
    /// The first arc of each row, then the number of arcs.
    offsets: Vec<u64>,
    /// The number of arcs of each row with local targets. They come first.
    local_degrees: Vec<u32>,
    arcs: Vec<CsrEdge<W>>,
}

impl<W> Csr<W> {
    pub(crate) fn new(offsets: Vec<u64>, local_degrees: Vec<u32>, arcs: Vec<CsrEdge<W>>) -> Self {
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
    pub fn row(&self, row: usize) -> &[CsrEdge<W>] {
        &self.arcs[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }

    /// The arcs of a row with local targets, and those with remote targets.
    #[inline]
    pub fn local_and_remote(&self, row: usize) -> (&[CsrEdge<W>], &[CsrEdge<W>]) {
        self.row(row).split_at(self.local_degrees[row] as usize)
    }

    /// The number of arcs of a row.
    #[inline]
    pub fn degree(&self, row: usize) -> u64 {
        self.offsets[row + 1] - self.offsets[row]
    }

    /// The arcs of all rows.
    pub(crate) fn edges(&self) -> &[CsrEdge<W>] {
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
