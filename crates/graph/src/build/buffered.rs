//! Edges that are read before the vertices, or their owners, are known: 8 bytes each, and 8 for a weight.

use treepie_am::ActiveMessages;
use treepie_base::Rank;
use treepie_comm::{Comm, Max, Sum};

use crate::agree::agree;
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
}

/// Some edges.
struct Chunk {
    /// The numbers of their endpoints.
    edges: Vec<[u32; 2]>,
    /// Their weights, if they have any.
    weights: Vec<f64>,
}

impl BufferedEdges {
    /// Reads this rank's part, and counts the edges of all ranks. All ranks call it.
    pub(super) fn read_all<W: EdgeWeight>(comm: &Comm, source: &dyn EdgeSource) -> Result<(Self, u64)> {
        let has_weights = W::KIND != WeightKind::None;
        let (ids, orientation) = (IdTable::new(), source.orientation());
        let mut buffered = Self { ids, chunks: Vec::new(), orientation, has_weights };
        let (rank, ranks) = (comm.rank(), comm.size());
        let (mut fault, mut endpoints) = (Ok(()), Vec::new());
        let outcome = source.read_part(rank, ranks, &mut |some| {
            if fault.is_ok() {
                fault = buffered.push(some, &mut endpoints);
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

    pub(super) fn orientation(&self) -> Orientation {
        self.orientation
    }

    /// The number of vertices n, if the external ids are exactly 0 to n-1. Each rank checks a block of ids. All ranks
    /// call it.
    pub(super) fn count_if_contiguous(&self, comm: &Comm, edges: u64) -> Result<Option<u64>> {
        let bound = self.external_ids().iter().max().map_or(0, |most| most.saturating_add(1));
        let bound = comm.allreduce_one(bound, Max)?;
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
        Ok((distinct == bound).then_some(bound))
    }

    /// Passes the edges to `sink` with `global_ids`, by number, instead of external ids. Their memory is freed meanwhile.
    pub(super) fn drain(self, global_ids: &[u64], sink: &mut dyn FnMut(&[Edge])) {
        const BATCH: usize = 1024;
        let mut batch = Vec::with_capacity(BATCH);
        for Chunk { edges, weights } in self.chunks {
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
