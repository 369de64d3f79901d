//! Triangles, and clustering coefficients.
//!
//! Each edge points to the endpoint of higher degree, or at equal degrees of higher global id. So a vertex has few out-neighbors,
//! even a hub, and the least vertex u of a triangle u, v, w has both others as out-neighbors, and v has w [Schank, Wagner, Finding,
//! counting and listing all triangles in large graphs, 2005]. The owner of u sends the list of its out-neighbors to the owners of
//! these, each of which intersects it with the lists of those that it owns. Lists are sent in rounds, so that what is under way is
//! bounded. Cost: one exchange for each round, and one for the counts of vertices that other ranks own.

use std::cmp::Ordering;

use treepie_base::Rank;
use treepie_base::memory::{collected, with_capacity, zeroed};
use treepie_comm::{Max, Sum};
use treepie_sparse::SparseExchange;

use crate::csr::VALUES_PURPOSE;
use crate::hash::hash_words;
use crate::{EdgeWeight, Graph, PropertyMap, Result};

const WHAT: &str = "counting triangles";

/// What memory is allocated for, in error messages.
const ARCS_PURPOSE: &str = "the edges of a rank that triangles are looked for at";

/// What a rank sends in a round, in words of 8 bytes.
const ROUND_WORDS: usize = 1 << 18;

/// The triangles of an undirected graph.
#[derive(Clone, Debug)]
pub struct Triangles<'g, W: EdgeWeight = ()> {
    /// The number of triangles that each vertex is in.
    pub counts: PropertyMap<'g, u64, W>,
    /// A sum of hashes of all triangles, which tells sets of triangles apart.
    digest: u64,
}

/// The clustering of a graph.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClusteringSummary {
    /// The number of triangles.
    pub triangles: u64,
    /// Of all paths of two edges, those whose ends are neighbors: three times the triangles over these paths.
    pub transitivity: f64,
    /// The mean of the clustering coefficients of all vertices.
    pub average_clustering: f64,
}

impl<W: EdgeWeight> Graph<W> {
    /// The triangles of an undirected graph; self-loops and parallel edges do not count. All ranks call it.
    ///
    /// # Errors
    /// [`Error::Input`](crate::Error::Input) if the graph is directed, or has split hubs.
    pub fn triangles(&self) -> Result<Triangles<'_, W>> {
        self.require_undirected(WHAT)?;
        count(self, Ordering::Less)
    }
}

/// The out-neighbors of local vertices if edges point up, or down, by degree.
struct OutNeighbors {
    offsets: Vec<usize>,
    /// Global ids, sorted in each row.
    targets: Vec<u64>,
}

impl OutNeighbors {
    fn new<W: EdgeWeight>(graph: &Graph<W>, direction: Ordering) -> Result<Self> {
        let degree = |vertex: usize| graph.simple_neighbors(vertex).count() as u64;
        let degrees = graph.with_ghosts(graph.local_vertices().map(degree))?;
        let (view, layout) = (graph.view(), graph.layout());
        let (first, first_id) = (view.local_range().start, graph.first_global_id());
        let mut offsets = with_capacity(graph.num_local() + 1, VALUES_PURPOSE)?;
        offsets.push(0);
        // Half of the arcs, and at most all.
        let mut targets = with_capacity(graph.out_edges().num_arcs() as usize, ARCS_PURPOSE)?;
        for vertex in graph.local_vertices() {
            let own = (degrees[first + vertex], first_id + vertex as u64);
            let others = graph.simple_neighbors(vertex).map(|neighbor| {
                let global_id = view.global_id(layout, neighbor);
                (degrees[neighbor as usize], global_id)
            });
            let begin = targets.len();
            targets.extend(others.filter(|other| own.cmp(other) == direction).map(|(_, global_id)| global_id));
            targets[begin..].sort_unstable();
            offsets.push(targets.len());
        }
        Ok(Self { offsets, targets })
    }

    fn row(&self, vertex: usize) -> &[u64] {
        &self.targets[self.offsets[vertex]..self.offsets[vertex + 1]]
    }
}

/// The counts of the vertices of a rank's view, and the digest.
struct Counts<'g, W> {
    graph: &'g Graph<W>,
    of_view: Vec<u64>,
    digest: u64,
}

impl<W: EdgeWeight> Counts<'_, W> {
    /// Counts the triangles of a vertex, its out-neighbors, and those of them that this rank owns.
    fn close(&mut self, out_neighbors: &OutNeighbors, vertex: u64, targets: &[u64]) {
        let graph = self.graph;
        let first_id = graph.first_global_id();
        let local = first_id..first_id + graph.num_local() as u64;
        let begin = targets.partition_point(|target| *target < local.start);
        for middle in targets[begin..].iter().copied().take_while(|target| local.contains(target)) {
            let row = out_neighbors.row((middle - first_id) as usize);
            let mut closed = 0;
            intersect(row, targets, |last| {
                let mut corners = [vertex, middle, last];
                corners.sort_unstable();
                self.digest = self.digest.wrapping_add(hash_words(corners));
                let index = self.index(last);
                self.of_view[index] += 1;
                closed += 1;
            });
            if closed > 0 {
                let corners = [vertex, middle].map(|corner| self.index(corner));
                corners.into_iter().for_each(|corner| self.of_view[corner] += closed);
            }
        }
    }

    /// The index of a neighbor of a local vertex.
    fn index(&self, global_id: u64) -> usize {
        let owner = self.graph.layout().owner(global_id);
        self.graph.view().index_of(owner).expect("neighbors of local vertices are in the view") as usize
    }
}

/// Calls `found` with what two sorted lists have in common.
fn intersect(short: &[u64], long: &[u64], mut found: impl FnMut(u64)) {
    let (short, mut long) = if short.len() <= long.len() { (short, long) } else { (long, short) };
    for item in short {
        // Doubling steps: as fast as merging for lists of equal length, and much faster for a short one and a long one.
        let mut step = 1;
        while step < long.len() && long[step] < *item {
            step *= 2;
        }
        let from = step / 2;
        let to = (step + 1).min(long.len());
        long = &long[from + long[from..to].partition_point(|other| other < item)..];
        match long.first() {
            None => return,
            Some(first) if first == item => found(*item),
            Some(_) => {}
        }
    }
}

/// Counts the triangles with edges that point up or down.
fn count<W: EdgeWeight>(graph: &Graph<W>, direction: Ordering) -> Result<Triangles<'_, W>> {
    let (comm, layout) = (graph.comm(), graph.layout());
    let (rank, first_id) = (layout.rank(), graph.first_global_id());
    let out_neighbors = OutNeighbors::new(graph, direction)?;
    let mut counts = Counts { graph, of_view: zeroed(graph.view().len(), VALUES_PURPOSE)?, digest: 0 };
    let mut next = 0;
    loop {
        let mut outgoing: Vec<Vec<u64>> = vec![Vec::new(); comm.size()];
        let mut words = 0;
        while next < graph.num_local() && words < ROUND_WORDS {
            let (vertex, targets) = (first_id + next as u64, out_neighbors.row(next));
            counts.close(&out_neighbors, vertex, targets);
            // Targets of one rank are adjacent.
            for same in targets.chunk_by(|left, right| layout.owner(*left).0 == layout.owner(*right).0) {
                let owner = layout.owner(same[0]).0;
                if owner != rank && targets.len() > 1 {
                    outgoing[owner].extend([vertex, targets.len() as u64]);
                    outgoing[owner].extend_from_slice(targets);
                    words += targets.len() + 2;
                }
            }
            next += 1;
        }
        let is_done = next == graph.num_local();
        let outgoing = outgoing.into_iter().enumerate().filter(|(_, words)| !words.is_empty());
        for (_, words) in comm.exchange(outgoing.collect::<Vec<_>>())? {
            let mut words = &words[..];
            while let [vertex, len, rest @ ..] = words {
                let (targets, rest) = rest.split_at(*len as usize);
                counts.close(&out_neighbors, *vertex, targets);
                words = rest;
            }
        }
        if !comm.any(!is_done)? {
            break;
        }
    }
    let digest = comm.allreduce_one(counts.digest, Sum)?;
    Ok(Triangles { counts: PropertyMap::new(graph, sum_up(graph, counts.of_view)?)?, digest })
}

/// Adds the counts of ghosts to those of their owners.
fn sum_up<W: EdgeWeight>(graph: &Graph<W>, of_view: Vec<u64>) -> Result<Vec<u64>> {
    let (view, rank) = (graph.view(), graph.layout().rank());
    let mut local = collected(of_view[view.local_range()].iter().copied(), VALUES_PURPOSE)?;
    let mut outgoing: Vec<(Rank, Vec<[u64; 2]>)> = Vec::new();
    for (index, count) in of_view.iter().enumerate().filter(|(_, count)| **count > 0) {
        let (owner, local_index) = view.owner(index as u32);
        let count = [u64::from(local_index), *count];
        match outgoing.last_mut() {
            _ if owner == rank => {}
            Some((last, counts)) if *last == owner => counts.push(count),
            _ => outgoing.push((owner, vec![count])),
        }
    }
    for [local_index, count] in graph.comm().exchange(outgoing)?.into_iter().flat_map(|(_, counts)| counts) {
        local[local_index as usize] += count;
    }
    Ok(local)
}

impl<'g, W: EdgeWeight> Triangles<'g, W> {
    /// The clustering coefficient of each vertex: how many of all pairs of its neighbors are neighbors. 0 if it has fewer than two.
    pub fn clustering(&self) -> Result<PropertyMap<'g, f64, W>> {
        let graph = self.counts.graph();
        let coefficient = |vertex: usize| match pairs(graph, vertex) {
            0 => 0.0,
            pairs => self.counts[vertex] as f64 / pairs as f64,
        };
        PropertyMap::new(graph, collected(graph.local_vertices().map(coefficient), VALUES_PURPOSE)?)
    }

    /// The number of triangles, and how clustered the graph is. All ranks call it.
    pub fn summary(&self) -> Result<ClusteringSummary> {
        let graph = self.counts.graph();
        let corners: u64 = self.counts.local().iter().sum();
        let pairs: u64 = graph.local_vertices().map(|vertex| pairs(graph, vertex)).sum();
        let sums = graph.comm().allreduce(&[corners, pairs], Sum)?;
        let coefficients = self.clustering()?.local().iter().sum();
        let coefficients: f64 = graph.comm().allreduce_one(coefficients, Sum)?;
        Ok(ClusteringSummary {
            triangles: sums[0] / 3,
            transitivity: sums[0] as f64 / sums[1].max(1) as f64,
            average_clustering: coefficients / graph.num_vertices().max(1) as f64,
        })
    }

    /// Verifies the counts by a second count with edges in the other direction, which finds each triangle elsewhere. All ranks
    /// call it, and get the same error.
    pub fn verify(&self) -> Result<()> {
        let graph = self.counts.graph();
        let other = count(graph, Ordering::Greater)?;
        let differing = graph.local_vertices().find(|vertex| self.counts[*vertex] != other.counts[*vertex]);
        graph.refuse(differing.map(|vertex| {
            let (id, first, second) = (graph.external_id(vertex), self.counts[vertex], other.counts[vertex]);
            format!("vertex {id} is in {second} triangles, not {first}")
        }))?;
        let differs = graph.comm().allreduce_one(u64::from(self.digest != other.digest), Max)? == 1;
        graph.refuse(differs.then(|| "the triangles of vertices are others".to_owned()))
    }
}

/// The number of pairs of neighbors of a local vertex.
fn pairs<W: EdgeWeight>(graph: &Graph<W>, vertex: usize) -> u64 {
    let degree = graph.simple_neighbors(vertex).count() as u64;
    degree * degree.saturating_sub(1) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_intersected() {
        let common = |left: &[u64], right: &[u64]| {
            let mut found = Vec::new();
            intersect(left, right, |item| found.push(item));
            found
        };
        let long: Vec<u64> = (0..100).map(|number| 3 * number).collect();
        assert_eq!(common(&[0, 1, 3, 150, 151, 297, 298], &long), [0, 3, 150, 297]);
        assert_eq!(common(&long, &[5, 6, 7, 9, 300]), [6, 9]);
        assert_eq!((common(&[], &long), common(&long, &[400])), (vec![], vec![]));
        for seed in 0..200 {
            let list = |salt: u64| {
                let mut list: Vec<u64> =
                    (0..seed % 17 + salt).map(|item| hash_words([seed, salt, item]) % 40).collect();
                list.sort_unstable();
                list.dedup();
                list
            };
            let (left, right) = (list(1), list(20));
            let expected: Vec<u64> = left.iter().copied().filter(|item| right.contains(item)).collect();
            assert_eq!(common(&left, &right), expected);
        }
    }
}
