//! Degree statistics.

use treepie_comm::{Max, Min, Sum};

use crate::{EdgeWeight, Graph, Result};

/// Classes of degrees: 0, 1, 2 to 3, 4 to 7, and so on.
const CLASSES: usize = 65;

/// The degrees of all vertices, self-loops and parallel arcs included.
#[derive(Clone, Debug, PartialEq)]
pub struct DegreeStatistics {
    /// The least, the median and the largest out-degree. The median of an even number is the lower one of two.
    pub min: u64,
    /// See [`min`](Self::min).
    pub median: u64,
    /// See [`min`](Self::min).
    pub max: u64,
    /// The mean out-degree.
    pub mean: f64,
    /// The largest in-degree, if the graph has in-edges.
    pub max_in: Option<u64>,
    /// Vertices without arcs from them, and if the graph has in-edges also without arcs to them.
    pub isolated: u64,
    /// Arcs from a vertex to itself.
    pub self_loops: u64,
    /// Arcs with the same source and target as an earlier one.
    pub parallel_arcs: u64,
    /// The number of vertices with out-degree 0, 1, 2 to 3, 4 to 7, and so on, up to the largest.
    pub histogram: Vec<u64>,
}

fn class(degree: u64) -> usize {
    (u64::BITS - degree.leading_zeros()) as usize
}

impl<W: EdgeWeight> Graph<W> {
    /// Counts degrees, self-loops and parallel arcs. All ranks call it.
    ///
    /// # Errors
    /// [`Error::Input`](crate::Error::Input) if hubs are split.
    pub fn degree_statistics(&self) -> Result<DegreeStatistics> {
        self.require_unsplit_rows("degree statistics")?;
        let (comm, rows, first) = (self.comm(), self.out_edges(), self.view().local_range().start);
        let in_degree = |vertex: usize| self.in_edges().map(|in_edges| in_edges.degree(vertex));
        let mut sums = vec![0; CLASSES + 3];
        let (mut min, mut max, mut max_in) = (u64::MAX, 0, 0);
        for vertex in self.local_vertices() {
            let (degree, in_degree) = (rows.degree(vertex), in_degree(vertex));
            (min, max, max_in) = (min.min(degree), max.max(degree), max_in.max(in_degree.unwrap_or(0)));
            sums[class(degree)] += 1;
            sums[CLASSES] += u64::from(degree == 0 && in_degree.unwrap_or(0) == 0);
            // Parallel arcs are adjacent in a row.
            let row = rows.row(vertex);
            sums[CLASSES + 1] += row.iter().filter(|arc| arc.target as usize == first + vertex).count() as u64;
            sums[CLASSES + 2] += row.windows(2).filter(|pair| pair[0].target == pair[1].target).count() as u64;
        }
        comm.allreduce_in_place(&mut sums, Sum)?;
        let maxima = comm.allreduce(&[max, max_in], Max)?;
        let (vertices, max) = (self.num_vertices(), maxima[0]);
        let mut histogram = sums[..CLASSES].to_vec();
        histogram.truncate(if vertices == 0 { 0 } else { class(max) + 1 });
        Ok(DegreeStatistics {
            min: if vertices == 0 { 0 } else { comm.allreduce_one(min, Min)? },
            median: self.median_degree(max)?,
            max,
            mean: self.num_arcs() as f64 / vertices.max(1) as f64,
            max_in: self.in_edges().map(|_| maxima[1]),
            isolated: sums[CLASSES],
            self_loops: sums[CLASSES + 1],
            parallel_arcs: sums[CLASSES + 2],
            histogram,
        })
    }

    /// The least degree that at least half of the vertices do not exceed, by bisection. All ranks call it.
    fn median_degree(&self, max: u64) -> Result<u64> {
        let (mut low, mut high) = (0, max);
        while low < high {
            let middle = low + (high - low) / 2;
            let below =
                self.local_vertices().filter(|vertex| self.out_edges().degree(*vertex) <= middle).count() as u64;
            let below = self.comm().allreduce_one(below, Sum)?;
            if 2 * below >= self.num_vertices() { high = middle } else { low = middle + 1 }
        }
        Ok(low)
    }
}
