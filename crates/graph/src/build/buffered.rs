//! Edges that are read before the vertices, or their owners, are known: 8 bytes each, and 8 for a weight.

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

use treepie_am::ActiveMessages;
use treepie_base::Rank;
use treepie_comm::{Comm, Max, Sum};

use crate::agree::agree;
use crate::hash::splitmix64;
use crate::id_table::IdTable;
use crate::{Bitmap, Edge, EdgeSource, EdgeWeight, Error, Orientation, Result, WeightKind};

/// External ids are assumed to have gaps if the largest is more than this times the number of edges.
const SPARSE_ID_FACTOR: u64 = 8;

/// Edges of a chunk.
const CHUNK: usize = 1 << 16;

/// The part of the edges that a rank has read.
pub(super) struct BufferedEdges {
    /// The external ids of all endpoints, and of vertices that may have no edges.
    ids: IdTable,
    chunks: Vec<Chunk>,
    orientation: Orientation,
    has_weights: bool,
    /// Whether the edges of all ranks contain the reverse of each, as often and with the same weight; only known if asked.
    has_all_reverse_edges: bool,
}

/// Some edges.
struct Chunk {
    /// The numbers of their endpoints.
    edges: Vec<[u32; 2]>,
    /// Their weights, if they have any.
    weights: Vec<f64>,
}

impl BufferedEdges {
    /// Reads this rank's part, and counts the edges of all ranks. If `finds_reverse_edges`, it also tells whether they have all
    /// reverse edges. All ranks call it.
    pub(super) fn read_all<W: EdgeWeight>(
        comm: &Comm,
        source: &dyn EdgeSource,
        finds_reverse_edges: bool,
    ) -> Result<(Self, u64)> {
        let has_weights = W::KIND != WeightKind::None;
        let (ids, orientation) = (IdTable::new(), source.orientation());
        let mut buffered = Self { ids, chunks: Vec::new(), orientation, has_weights, has_all_reverse_edges: false };
        // A key of this run, so that no file is made to look symmetric.
        let mut symmetry = SymmetryDigest::new(comm.bcast_one(RandomState::new().hash_one(0), 0)?);
        let (rank, ranks) = (comm.rank(), comm.size());
        let (mut fault, mut endpoints) = (Ok(()), Vec::new());
        let outcome = source.read_together(comm, &mut |some| {
            if fault.is_ok() {
                fault = buffered.push(some, &mut endpoints);
                if finds_reverse_edges {
                    some.iter().for_each(|edge| symmetry.record(edge, has_weights));
                }
            }
        });
        let outcome = fault.and(outcome).and_then(|()| {
            let mut fault = Ok(());
            source.read_vertex_ids(rank, ranks, &mut |some| {
                if fault.is_ok() {
                    fault = buffered.ids.number_all(some, |_| {});
                }
            })?;
            fault
        });
        agree(comm, outcome)?;
        let count: usize = buffered.chunks.iter().map(|chunk| chunk.edges.len()).sum();
        let count = comm.allreduce_one(count as u64, Sum)?;
        agree(comm, source.check_edge_count(count))?;
        buffered.has_all_reverse_edges = finds_reverse_edges && symmetry.is_zero(comm)?;
        Ok((buffered, count))
    }

    fn push(&mut self, edges: &[Edge], endpoints: &mut Vec<u64>) -> Result<()> {
        endpoints.clear();
        endpoints.extend(edges.iter().flat_map(|edge| [edge.from, edge.to]));
        if self.chunks.last().is_none_or(|chunk| chunk.edges.len() + edges.len() > chunk.edges.capacity()) {
            let len = edges.len().max(CHUNK);
            let weights = if self.has_weights { Vec::with_capacity(len) } else { Vec::new() };
            self.chunks.push(Chunk { edges: Vec::with_capacity(len), weights });
        }
        let chunk = self.chunks.last_mut().expect("there is one");
        let mut from = None;
        self.ids.number_all(endpoints, |number| match from.take() {
            None => from = Some(number),
            Some(from) => chunk.edges.push([from, number]),
        })?;
        if self.has_weights {
            chunk.weights.extend(edges.iter().map(|edge| edge.weight));
        }
        Ok(())
    }

    /// The distinct external ids, in the order of their numbers.
    pub(super) fn external_ids(&self) -> &[u64] {
        self.ids.ids()
    }

    pub(super) fn has_all_reverse_edges(&self) -> bool {
        self.has_all_reverse_edges
    }

    pub(super) fn orientation(&self) -> Orientation {
        self.orientation
    }

    /// The external ids, if they are exactly 0 to n-1, or 1 to n. Each rank checks a block of ids. All ranks call it.
    pub(super) fn consecutive_ids(&self, comm: &Comm, edges: u64) -> Result<Option<Range<u64>>> {
        let ids = self.external_ids();
        let bound = ids.iter().max().map_or(0, |most| most.saturating_add(1));
        let has_zero = ids.contains(&0);
        let maxima = comm.allreduce(&[bound, u64::from(has_zero)], Max)?;
        let (bound, first) = (maxima[0], u64::from(maxima[0] > 0 && maxima[1] == 0));
        if bound / SPARSE_ID_FACTOR > edges.max(1024) {
            return Ok(None);
        }
        let block = bound.div_ceil(comm.size() as u64).max(1);
        let mut build = ActiveMessages::<Bitmap>::builder(comm);
        let port = build.port::<u64>("external id");
        build.on(port, |present, _, offset| present.set(offset as usize));
        let mut present = agree(comm, Bitmap::try_new(block as usize).map_err(Error::from))?;
        let mut am = build.start()?;
        am.epoch_for(&mut present, self.external_ids().iter().copied(), |cx, _, external_id| {
            cx.send(port, (external_id / block) as Rank, external_id % block)
        })?;
        let distinct = comm.allreduce_one(present.count_ones(), Sum)?;
        Ok((distinct == bound - first).then_some(first..bound))
    }

    /// Passes the edges to `sink` with `global_ids`, by number, instead of external ids. Their memory is freed meanwhile.
    pub(super) fn drain(self, global_ids: &[u64], sink: &mut dyn FnMut(&[Edge])) {
        const BATCH: usize = 1024;
        let mut batch = Vec::with_capacity(BATCH);
        let Self { ids, chunks, .. } = self;
        drop(ids);
        for Chunk { edges, weights } in chunks {
            let mut weights = weights.into_iter();
            for some in edges.chunks(BATCH) {
                batch.clear();
                batch.extend(some.iter().map(|[from, to]| Edge {
                    from: global_ids[*from as usize],
                    to: global_ids[*to as usize],
                    weight: weights.next().unwrap_or(1.0),
                }));
                sink(&batch);
            }
        }
    }
}

/// Sums of hashes of all edges less those of all reverse edges: zero if each edge has a reverse one, and otherwise nearly never.
struct SymmetryDigest {
    key: u64,
    /// Each half of the hashes, modulo 2^32.
    sums: [u32; 2],
}

impl SymmetryDigest {
    fn new(key: u64) -> Self {
        Self { key, sums: [0; 2] }
    }

    #[inline]
    fn record(&mut self, edge: &Edge, has_weights: bool) {
        let weight = if has_weights { edge.weight.to_bits() } else { 0 };
        let hash = |from: u64, to: u64| splitmix64(splitmix64(from ^ self.key).wrapping_add(to) ^ weight);
        let [forward, backward] = [hash(edge.from, edge.to), hash(edge.to, edge.from)];
        let difference = |shift: u32| ((forward >> shift) as u32).wrapping_sub((backward >> shift) as u32);
        self.sums = [0, 32].map(|shift| self.sums[shift as usize / 32].wrapping_add(difference(shift)));
    }

    /// Whether the sums of all ranks are zero. All ranks call it.
    fn is_zero(&self, comm: &Comm) -> Result<bool> {
        let sums = comm.allreduce(&self.sums.map(u64::from), Sum)?;
        Ok(sums.iter().all(|sum| *sum as u32 == 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_symmetric_if_all_reverse_edges_are_there() {
        let sums = |edges: &[(u64, u64, f64)], has_weights| {
            let mut digest = SymmetryDigest::new(7);
            edges.iter().for_each(|(from, to, weight)| {
                digest.record(&Edge { from: *from, to: *to, weight: *weight }, has_weights);
            });
            digest.sums
        };
        let both = [(1, 2, 0.5), (7, 7, 1.0), (2, 1, 0.5), (1 << 40, 3, 2.0), (3, 1 << 40, 2.5)];
        assert_eq!(sums(&both, false), [0; 2]);
        assert_ne!(sums(&both, true), [0; 2]);
        assert_eq!(sums(&both[..3], true), [0; 2]);
        // One more than its reverse; a cycle.
        assert_ne!(sums(&[both[0], both[2], both[0]], false), [0; 2]);
        assert_ne!(sums(&[(1, 2, 0.0), (2, 3, 0.0), (3, 1, 0.0)], false), [0; 2]);
    }
}
