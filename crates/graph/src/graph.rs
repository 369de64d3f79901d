//! A distributed graph, as stored on one rank.

use std::ops::Range;

use treepie_base::memory::zeroed;
use treepie_base::{Pod, Rank};
use treepie_comm::{Comm, Max};

use crate::agree::agree;
use crate::csr::{Csr, CsrEdge, VALUES_PURPOSE};
use crate::hubs::Hubs;
use crate::{Bitmap, EdgeWeight, Error, LocalView, Result, VertexLayout};

/// A distributed graph: the adjacency of this rank's local vertices, and its ghosts. `W` is the type of weights, `f32`
/// or `u32`; `()` if there are none.
///
/// It keeps its communicator, so it does not outlive the function of its rank. Vertices have the external ids of the
/// input; on its owner a vertex has a local index from 0 to `num_local() - 1`.
#[derive(Debug)]
pub struct Graph<W = ()> {
    pub(crate) comm: Comm,
    pub(crate) layout: VertexLayout,
    pub(crate) view: LocalView,
    pub(crate) out_edges: Csr<W>,
    /// In-edges, if the graph is directed and was built with them.
    pub(crate) in_edges: Option<Csr<W>>,
    pub(crate) hubs: Hubs<W>,
    pub(crate) symmetric: bool,
    pub(crate) num_arcs: u64,
}

impl<W: EdgeWeight> Graph<W> {
    /// The communicator of the ranks that it is distributed over.
    #[inline]
    pub fn comm(&self) -> &Comm {
        &self.comm
    }

    /// The assignment of vertices to ranks.
    pub fn layout(&self) -> &VertexLayout {
        &self.layout
    }

    /// This rank's local vertices and ghosts.
    pub fn view(&self) -> &LocalView {
        &self.view
    }

    /// The number of vertices on all ranks.
    pub fn num_vertices(&self) -> u64 {
        self.layout.num_vertices()
    }

    /// The number of local vertices.
    pub fn num_local(&self) -> usize {
        self.out_edges.len()
    }

    /// The local vertices, by local index.
    #[inline]
    pub fn local_vertices(&self) -> Range<usize> {
        0..self.num_local()
    }

    /// The number of arcs on all ranks.
    pub fn num_arcs(&self) -> u64 {
        self.num_arcs
    }

    /// Whether each arc has a reverse arc.
    pub fn is_symmetric(&self) -> bool {
        self.symmetric
    }

    /// The out-edges of local vertices; of [hubs](Self::hubs) only those to local vertices.
    #[inline]
    pub fn out_edges(&self) -> &Csr<W> {
        &self.out_edges
    }

    /// Vertices whose arcs are distributed over ranks, and this rank's delegates of them.
    #[inline]
    pub fn hubs(&self) -> &Hubs<W> {
        &self.hubs
    }

    /// The out-degree of a local vertex, delegated arcs included.
    #[inline]
    pub fn degree(&self, local_index: usize) -> u64 {
        self.out_edges.degree(local_index) + self.hubs.get(local_index).map_or(0, |hub| hub.num_delegated)
    }

    /// The in-edges of local vertices, if the graph has them: rows list the sources.
    #[inline]
    pub fn in_edges(&self) -> Option<&Csr<W>> {
        if self.symmetric { Some(&self.out_edges).filter(|_| self.hubs.is_empty()) } else { self.in_edges.as_ref() }
    }

    /// The in-edges of local vertices, for algorithms that need all in-edges and all out-edges.
    pub(crate) fn require_in_edges(&self, what: &str) -> Result<&Csr<W>> {
        self.require_unsplit_rows(what)?;
        self.require_in_edges_or_delegates(what)
    }

    /// The in-edges for algorithms that support delegates: in a symmetric graph, the arcs to a hub are stored where the
    /// arcs from it are.
    pub(crate) fn require_in_edges_or_delegates(&self, what: &str) -> Result<&Csr<W>> {
        let missing = || Error::Input(format!("{what} needs a graph that was built with in-edges"));
        let in_edges = if self.symmetric { Some(&self.out_edges) } else { self.in_edges.as_ref() };
        in_edges.ok_or_else(missing)
    }

    /// Refuses graphs with hubs, for algorithms that need all arcs of a vertex in one row. All ranks get the same
    /// result.
    pub(crate) fn require_unsplit_rows(&self, what: &str) -> Result<()> {
        if self.hubs.is_empty() {
            return Ok(());
        }
        let hubs = self.hubs.len();
        Err(Error::Input(format!(
            "{what} needs unsplit rows, but {hubs} hubs are split: build the graph without `hub_degree` (`--split`)"
        )))
    }

    /// Refuses a result if some rank has found a fault in it. All ranks call it, and get the same error.
    pub(crate) fn refuse(&self, fault: Option<String>) -> Result<()> {
        agree(&self.comm, fault.map_or(Ok(()), |what| Err(Error::Verification(what))))
    }

    /// All arcs stored on this rank.
    pub(crate) fn local_arcs(&self) -> impl Iterator<Item = &CsrEdge<W>> {
        self.out_edges.edges().iter().chain(self.hubs.delegates().edges())
    }

    /// All arcs stored on this rank, by source: its global id, its value, and its arcs. `value` gives the values of
    /// local vertices by local index; `hubs` has those of hubs, from `allgather_hubs`.
    pub(crate) fn local_rows<'a, T: Copy>(
        &'a self,
        value: impl Fn(usize) -> T + 'a,
        hubs: &'a [T],
    ) -> impl Iterator<Item = (u64, T, &'a [CsrEdge<W>])> {
        let first = self.first_global_id();
        let rows = self
            .local_vertices()
            .map(move |local_index| (first + local_index as u64, value(local_index), self.out_edges.row(local_index)));
        let delegates = (0..)
            .zip(hubs)
            .map(|(index, hub_value)| (self.hubs.global_id(index), *hub_value, self.hubs.delegate_edges(index)));
        rows.chain(delegates)
    }

    /// The global id of the vertex with an external id. All ranks call it.
    ///
    /// # Errors
    /// [`Error::Input`] if there is no such vertex.
    pub fn find_vertex(&self, external_id: u64) -> Result<u64> {
        let found = self.layout.global_id(external_id).map_or(0, |global_id| global_id + 1);
        let found =
            if self.layout.consecutive_ids().is_some() { found } else { self.comm.allreduce_one(found, Max)? };
        let vertices = self.num_vertices();
        found
            .checked_sub(1)
            .ok_or_else(|| Error::Input(format!("there is no vertex {external_id} among the {vertices} vertices")))
    }

    /// Refuses a global id that no vertex has.
    pub(crate) fn check_root(&self, global_id: u64) -> Result<()> {
        let vertices = self.num_vertices();
        if global_id < vertices {
            return Ok(());
        }
        Err(Error::Input(format!("there is no vertex with the global id {global_id} among the {vertices} vertices")))
    }

    /// The local index of a vertex, if this rank owns it.
    #[inline]
    pub fn local_index(&self, global_id: u64) -> Option<usize> {
        if global_id >= self.num_vertices() {
            return None;
        }
        let (rank, local_index): (Rank, u32) = self.layout.owner(global_id);
        (rank == self.layout.rank()).then_some(local_index as usize)
    }

    /// The external id of a local vertex.
    #[inline]
    pub fn external_id(&self, local_index: usize) -> u64 {
        self.layout.external_id(local_index)
    }

    /// The global id of the first local vertex.
    #[inline]
    pub(crate) fn first_global_id(&self) -> u64 {
        self.layout.first_global_id(self.layout.rank())
    }

    /// Updates values of the vertices of the view: those of remote vertices from their owners. All ranks call it.
    pub fn update_ghosts<T: Pod>(&self, values: &mut [T]) -> Result<()> {
        self.view.update_ghosts(&self.comm, values)
    }

    /// Updates a bit for each vertex of the view: those of remote vertices from their owners. All ranks call it.
    pub fn update_ghost_bits(&self, bits: &mut Bitmap) -> Result<()> {
        self.view.update_ghost_bits(&self.comm, bits)
    }

    /// The values of all vertices of the view, from those of local vertices. All ranks call it.
    pub fn with_ghosts<T: Pod>(&self, local: impl Iterator<Item = T>) -> Result<Vec<T>> {
        let mut values = zeroed(self.view.len(), VALUES_PURPOSE)?;
        values[self.view.local_range()].iter_mut().zip(local).for_each(|(slot, value)| *slot = value);
        self.update_ghosts(&mut values)?;
        Ok(values)
    }

    /// A value of each hub, by its index; `value` gives those of local vertices. All ranks call it.
    pub fn allgather_hubs<T: Pod>(&self, value: impl Fn(usize) -> T) -> Result<Vec<T>> {
        self.hubs.allgather(&self.comm, value)
    }

    /// The out-degree of a local vertex without self-loops.
    pub fn degree_without_self_loops(&self, local_index: usize) -> u64 {
        let index = (self.view.local_range().start + local_index) as u32;
        let loops = self.out_edges.local_and_remote(local_index).0.iter().filter(|arc| arc.target == index).count();
        self.degree(local_index) - loops as u64
    }

    /// The memory that the graph takes on this rank.
    pub fn memory_usage(&self) -> GraphMemory {
        let delegates = if self.hubs.is_empty() { 0 } else { self.hubs.delegates().memory_usage() };
        let csr = self.out_edges.memory_usage() + self.in_edges.as_ref().map_or(0, Csr::memory_usage) + delegates;
        GraphMemory { csr, overhead: self.view.memory_usage() + self.layout.memory_usage() + self.hubs.memory_usage() }
    }
}

/// The memory of a graph on one rank, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GraphMemory {
    /// CSR arrays, of delegates too.
    pub csr: usize,
    /// Ghosts, the vertex layout and the list of hubs.
    pub overhead: usize,
}
