//! Iteration over local vertices and their neighbours.

use std::ops::Range;

use treepie_base::Rank;

use crate::{CsrEdge, EdgeWeight, Graph, LocalView};

/// The target of an arc of a local vertex.
#[derive(Clone, Copy, Debug)]
pub struct Neighbour<'g, W> {
    view: &'g LocalView,
    arc: CsrEdge<W>,
}

impl<W: Copy> Neighbour<'_, W> {
    /// The rank that owns the neighbour, and its local index there.
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
    /// The local vertices, by local index.
    #[inline]
    pub fn local_vertices(&self) -> Range<usize> {
        0..self.num_local()
    }

    /// The neighbours of a local vertex: the targets of its arcs, local ones first. Of a [hub](Self::hubs) only local
    /// ones.
    #[inline]
    pub fn neighbours(&self, local_index: usize) -> impl Iterator<Item = Neighbour<'_, W>> {
        let view = self.view();
        self.out_edges().row(local_index).iter().map(move |arc| Neighbour { view, arc: *arc })
    }
}
