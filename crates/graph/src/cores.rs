//! Core numbers: the largest k such that a vertex is in a subgraph in which each vertex has at least k neighbors.
//! [Seidman 1983]
//!
//! Each vertex estimates its core number, first by its degree. As long as fewer neighbors have at least the estimate, it takes
//! the largest k such that k neighbors estimate k or more [Montresor, De Pellegrini, Miorandi, Distributed k-core decomposition,
//! 2013]. Estimates only fall, to the core numbers. A rank lowers those of its vertices as far as it can, then the ranks update
//! their ghosts. Cost: one update of ghosts for each round, in which some estimate of a vertex with remote neighbors has fallen.

use treepie_base::memory::{collected, filled, zeroed};
use treepie_comm::{Max, Sum};

use crate::csr::VALUES_PURPOSE;
use crate::{Bitmap, EdgeWeight, Graph, PropertyMap, Result};

const WHAT: &str = "the core decomposition";

/// The core numbers of all vertices.
#[derive(Clone, Debug)]
pub struct CoreNumbers<'g, W: EdgeWeight = ()> {
    /// The core number of each vertex.
    pub cores: PropertyMap<'g, u32, W>,
    /// The number of rounds.
    pub rounds: u32,
}

/// The largest core number, and how many vertices have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreSummary {
    /// The largest core number: the degeneracy of the graph.
    pub largest: u32,
    /// The number of vertices of the innermost core.
    pub vertices: u64,
}

impl<W: EdgeWeight> Graph<W> {
    /// The core number of each vertex of an undirected graph; self-loops and parallel edges do not count. All ranks call it.
    ///
    /// # Errors
    /// [`Error::Input`](crate::Error::Input) if the graph is directed, or has split hubs.
    pub fn cores(&self) -> Result<CoreNumbers<'_, W>> {
        self.require_undirected(WHAT)?;
        let mut estimates = Estimates::new(self)?;
        let boundary = self.boundary_vertices()?;
        let mut rounds = 0;
        self.local_vertices().for_each(|vertex| estimates.check(vertex as u32));
        loop {
            rounds += 1;
            let has_changed = estimates.lower_all();
            if !self.comm().any(has_changed)? {
                break;
            }
            self.update_ghosts(&mut estimates.of_view)?;
            for vertex in &boundary {
                estimates.count_support(*vertex);
                estimates.check(*vertex);
            }
        }
        let cores = collected(estimates.of_view[self.view().local_range()].iter().copied(), VALUES_PURPOSE)?;
        Ok(CoreNumbers { cores: PropertyMap::new(self, cores)?, rounds })
    }
}

/// The estimates of a rank's view, and the vertices whose estimate is too high.
struct Estimates<'g, W> {
    graph: &'g Graph<W>,
    of_view: Vec<u32>,
    /// The number of neighbors of each local vertex with at least its estimate.
    support: Vec<u32>,
    queue: Vec<u32>,
    counts: Vec<u32>,
}

impl<'g, W: EdgeWeight> Estimates<'g, W> {
    fn new(graph: &'g Graph<W>) -> Result<Self> {
        let degree = |vertex: usize| graph.simple_neighbors(vertex).count() as u32;
        let of_view = graph.with_ghosts(graph.local_vertices().map(degree))?;
        let support = zeroed(graph.num_local(), VALUES_PURPOSE)?;
        let mut this = Self { graph, of_view, support, queue: Vec::new(), counts: Vec::new() };
        graph.local_vertices().for_each(|vertex| this.count_support(vertex as u32));
        Ok(this)
    }

    fn index(&self, vertex: u32) -> usize {
        self.graph.view().local_range().start + vertex as usize
    }

    fn count_support(&mut self, vertex: u32) {
        let estimate = self.of_view[self.index(vertex)];
        let neighbors = self.graph.simple_neighbors(vertex as usize);
        let support = neighbors.filter(|neighbor| self.of_view[*neighbor as usize] >= estimate).count();
        self.support[vertex as usize] = support as u32;
    }

    /// Queues a vertex whose estimate is too high.
    fn check(&mut self, vertex: u32) {
        if self.support[vertex as usize] < self.of_view[self.index(vertex)] {
            self.queue.push(vertex);
        }
    }

    /// Lowers the estimates of local vertices as far as possible without other ranks. Returns whether any has changed.
    fn lower_all(&mut self) -> bool {
        let (graph, mut has_changed) = (self.graph, false);
        while let Some(vertex) = self.queue.pop() {
            let before = self.of_view[self.index(vertex)];
            // It may have been queued twice.
            if self.support[vertex as usize] >= before {
                continue;
            }
            let (now, support) = self.lower(vertex, before);
            let index = self.index(vertex);
            (self.of_view[index], self.support[vertex as usize]) = (now, support);
            has_changed = true;
            for neighbor in graph.simple_neighbors(vertex as usize).filter_map(|neighbor| graph.local_at(neighbor)) {
                let estimate = self.of_view[self.index(neighbor)];
                if now < estimate && estimate <= before {
                    self.support[neighbor as usize] -= 1;
                    self.check(neighbor);
                }
            }
        }
        has_changed
    }

    /// The largest k such that k neighbors estimate at least k, and how many of them do; fewer than `before` estimate at least that.
    fn lower(&mut self, vertex: u32, before: u32) -> (u32, u32) {
        self.counts.clear();
        self.counts.resize(before as usize + 1, 0);
        for neighbor in self.graph.simple_neighbors(vertex as usize) {
            self.counts[self.of_view[neighbor as usize].min(before) as usize] += 1;
        }
        let mut support = 0;
        for k in (1..=before).rev() {
            support += self.counts[k as usize];
            if support >= k {
                return (k, support);
            }
        }
        (0, support + self.counts[0])
    }
}

impl<W: EdgeWeight> CoreNumbers<'_, W> {
    /// The innermost core. All ranks call it.
    pub fn summary(&self) -> Result<CoreSummary> {
        let (comm, cores) = (self.cores.graph().comm(), self.cores.local());
        let largest = comm.allreduce_one(cores.iter().copied().max().unwrap_or(0), Max)?;
        let vertices = comm.allreduce_one(cores.iter().filter(|core| **core == largest).count() as u64, Sum)?;
        Ok(CoreSummary { largest, vertices })
    }

    /// Verifies the core numbers. All ranks call it, and get the same error.
    ///
    /// A vertex with core number k must have at least k neighbors in the k-core. And peeling must remove all vertices with core number
    /// k from the k-core: one after the other, each when its degree is k or less.
    pub fn verify(&self) -> Result<()> {
        let graph = self.cores.graph();
        let of_view = graph.with_ghosts(self.cores.local().iter().copied())?;
        let mut removal = Removal {
            graph,
            of_view: &of_view,
            remaining: filled(0, graph.num_local(), VALUES_PURPOSE)?,
            removed: Bitmap::try_new(graph.view().len())?,
            queue: Vec::new(),
        };
        let mut fault = None;
        for vertex in graph.local_vertices() {
            let (core, support) = (self.cores[vertex], removal.count_remaining(vertex as u32));
            if support < core && fault.is_none() {
                let id = graph.external_id(vertex);
                fault = Some(format!("vertex {id} has core number {core}, but only {support} neighbors in that core"));
            }
        }
        graph.refuse(fault)?;
        let boundary = graph.boundary_vertices()?;
        graph.local_vertices().for_each(|vertex| removal.check(vertex as u32));
        while graph.comm().any(removal.remove_all())? {
            graph.update_ghost_bits(&mut removal.removed)?;
            for vertex in &boundary {
                removal.count_remaining(*vertex);
                removal.check(*vertex);
            }
        }
        let first = graph.view().local_range().start;
        let left = graph.local_vertices().find(|vertex| !removal.removed.contains(first + vertex));
        graph.refuse(left.map(|vertex| {
            let (id, core) = (graph.external_id(vertex), self.cores[vertex]);
            format!("vertex {id} has core number {core}, but is in a core of a higher one")
        }))
    }
}

/// Removes the vertices of all cores at once.
struct Removal<'a, 'g, W> {
    graph: &'g Graph<W>,
    of_view: &'a [u32],
    /// Neighbors that have at least the same number, and are left if it is the same.
    remaining: Vec<u32>,
    removed: Bitmap,
    queue: Vec<u32>,
}

impl<W: EdgeWeight> Removal<'_, '_, W> {
    fn index(&self, vertex: u32) -> usize {
        self.graph.view().local_range().start + vertex as usize
    }

    fn count_remaining(&mut self, vertex: u32) -> u32 {
        let core = self.of_view[self.index(vertex)];
        let remains = |neighbor: &u32| {
            let other = self.of_view[*neighbor as usize];
            other > core || other == core && !self.removed.contains(*neighbor as usize)
        };
        let remaining = self.graph.simple_neighbors(vertex as usize).filter(remains).count() as u32;
        self.remaining[vertex as usize] = remaining;
        remaining
    }

    fn check(&mut self, vertex: u32) {
        let index = self.index(vertex);
        if self.remaining[vertex as usize] <= self.of_view[index] && !self.removed.contains(index) {
            self.queue.push(vertex);
        }
    }

    /// Returns whether any vertex was removed.
    fn remove_all(&mut self) -> bool {
        let (graph, mut has_removed) = (self.graph, false);
        while let Some(vertex) = self.queue.pop() {
            let index = self.index(vertex);
            if self.removed.contains(index) {
                continue;
            }
            self.removed.set(index);
            has_removed = true;
            for neighbor in graph.simple_neighbors(vertex as usize).filter_map(|neighbor| graph.local_at(neighbor)) {
                if self.of_view[self.index(neighbor)] == self.of_view[index] {
                    self.remaining[neighbor as usize] = self.remaining[neighbor as usize].saturating_sub(1);
                    self.check(neighbor);
                }
            }
        }
        has_removed
    }
}
