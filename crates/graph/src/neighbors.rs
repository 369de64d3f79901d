//! Iteration over the neighbors of local vertices.

use treepie_base::Rank;

use crate::csr::Csr;
use crate::{CsrEdge, EdgeWeight, Graph, LocalView};

/// The other endpoint of an arc of a local vertex.
#[derive(Clone, Copy, Debug)]
pub struct Neighbor<'g, W> {
    view: &'g LocalView,
    arc: CsrEdge<W>,
}

impl<W: Copy> Neighbor<'_, W> {
    /// The rank that owns the neighbor, and its local index there.
    #[inline(always)]
    pub fn owner(&self) -> (Rank, u32) {
        self.view.owner(self.arc.target)
    }

    /// Its index among the values of [`with_ghosts`](Graph::with_ghosts).
    #[inline(always)]
    pub fn index(&self) -> usize {
        self.arc.target as usize
    }

    /// The weight of the arc.
    #[inline(always)]
    pub fn weight(&self) -> W {
        self.arc.weight
    }
}

impl<W: EdgeWeight> Graph<W> {
    /// The neighbors of a local vertex: the targets of its arcs, local ones first.
    ///
    /// # Panics
    ///
    /// Panics if the vertex is a [hub](Self::hubs), whose arcs to other ranks' vertices are stored there.
    #[inline]
    pub fn neighbors(&self, local_index: usize) -> impl Iterator<Item = Neighbor<'_, W>> {
        assert!(self.hubs().get(local_index).is_none(), "the arcs of a hub are distributed over ranks");
        self.neighbors_in(self.out_edges(), local_index)
    }

    /// The in-neighbors of a local vertex: the sources of the arcs to it, local ones first.
    ///
    /// # Panics
    ///
    /// Panics if the graph has no [in-edges](Self::in_edges).
    #[inline]
    pub fn in_neighbors(&self, local_index: usize) -> impl Iterator<Item = Neighbor<'_, W>> {
        self.neighbors_in(self.in_edges().expect("the graph has in-edges"), local_index)
    }

    #[inline]
    fn neighbors_in<'g>(&'g self, edges: &'g Csr<W>, local_index: usize) -> impl Iterator<Item = Neighbor<'g, W>> {
        let view = self.view();
        edges.row(local_index).iter().map(move |arc| Neighbor { view, arc: *arc })
    }
}
