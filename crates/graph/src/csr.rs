//! Compressed sparse rows (CSR): the adjacency of a rank's local vertices.

use bytemuck::{Pod, Zeroable};
use treepie_base::Result;
use treepie_base::memory::{collected, zeroed};

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
}
