//! Graphs as simple undirected ones: without directions, self-loops and parallel arcs.

use treepie_base::memory::with_capacity;

use crate::csr::VALUES_PURPOSE;
use crate::{EdgeWeight, Error, Graph, Result};

impl<W: EdgeWeight> Graph<W> {
    /// Refuses directed graphs and delegates, for algorithms on simple undirected graphs. All ranks get the same result.
    pub(crate) fn require_undirected(&self, what: &str) -> Result<()> {
        self.require_unsplit_rows(what)?;
        if self.is_symmetric() {
            return Ok(());
        }
        Err(Error::Input(format!("{what} needs an undirected graph; symmetrize it")))
    }

    /// The different neighbors of a local vertex other than itself, by index of the view.
    #[inline]
    pub(crate) fn simple_neighbors(&self, local_index: usize) -> impl Iterator<Item = u32> {
        let own = (self.view().local_range().start + local_index) as u32;
        let mut before = own;
        // Parallel arcs are adjacent in a row.
        self.out_edges().row(local_index).iter().map(|arc| arc.target).filter(move |target| {
            let is_new = *target != own && *target != before;
            if *target != own {
                before = *target;
            }
            is_new
        })
    }

    /// Local vertices with remote neighbors.
    pub(crate) fn boundary_vertices(&self) -> Result<Vec<u32>> {
        let has_remote = |vertex: &usize| !self.out_edges().local_and_remote(*vertex).1.is_empty();
        let mut boundary = with_capacity(self.local_vertices().filter(has_remote).count(), VALUES_PURPOSE)?;
        boundary.extend(self.local_vertices().filter(has_remote).map(|vertex| vertex as u32));
        Ok(boundary)
    }

    /// The vertex, if it is local, at an index of the view.
    #[inline]
    pub(crate) fn local_at(&self, index: u32) -> Option<u32> {
        let local = self.view().local_range();
        local.contains(&(index as usize)).then(|| index - local.start as u32)
    }
}
