//! Graph construction: each rank reads a part of the edges and sends the arcs to their owners.
//!
//! An arc is one active message to the owner of its source. Rows are then sorted, so the graph depends neither on which
//! rank read an edge nor on the order in which messages arrive.

mod buffered;
mod options;
mod sorted_input;

use std::path::Path;

use treepie_am::{ActiveMessages, Epoch, Port};
use treepie_base::memory::{collected, with_capacity};
use treepie_base::trim_heap;
use treepie_comm::{Comm, Sum};

use crate::agree::agree;
use crate::csr::{CooEdge, Csr, CsrEdge, ROWS_PURPOSE};
use crate::directory::{GLOBAL_IDS_PURPOSE, UNKNOWN_GLOBAL_ID};
use crate::graph::Graph;
use crate::hash::hash_words;
use crate::hubs::{self, Hubs};
use crate::sorted_rows::{ArcBuckets, ArcMessage, GlobalId, SortedRows};
use crate::{
    Edge, EdgeFiles, EdgeSource, EdgeWeight, Error, LocalView, Orientation, Result, VertexLayout, WeightKind,
    directory, partition,
};

use buffered::BufferedEdges;
pub use options::BuildOptions;

/// The bits of a weight of an edge.
fn weight_bits<W: EdgeWeight>(weight: f64) -> Result<u32> {
    W::from_f64(weight).map(W::bits).ok_or_else(|| {
        let integer = W::KIND == WeightKind::Integer;
        let kind = if integer { "a whole number from 0 to 2^32-1" } else { "a non-negative number" };
        Error::Input(format!("a weight is {weight}, not {kind}"))
    })
}

/// Arcs received by the rank that owns their rows.
struct ReceivedEdges {
    out_edges: ArcBuckets,
    in_edges: ArcBuckets,
}

/// The edges of a graph whose layout is known.
enum Input<'a> {
    /// Those that a source reads.
    Source(&'a dyn EdgeSource),
    /// Those that have been read, and the global ids of their external ids.
    Buffered(BufferedEdges, Vec<u64>),
}

impl<'a> Input<'a> {
    fn orientation(&self) -> Orientation {
        match self {
            Input::Source(source) => source.orientation(),
            Input::Buffered(edges, _) => edges.orientation(),
        }
    }

    /// Whether adding the reverse of each edge would only double edges.
    fn has_all_reverse_edges(&self) -> bool {
        matches!(self, Input::Buffered(edges, _) if edges.has_all_reverse_edges())
    }

    /// The source whose number of edges has not been checked yet.
    fn source(&self) -> Option<&'a dyn EdgeSource> {
        if let Input::Source(source) = self { Some(*source) } else { None }
    }

    /// Passes this rank's part of the edges to `sink`, with global ids instead of external ones.
    fn read(self, comm: &Comm, layout: &VertexLayout, sink: &mut dyn FnMut(&[Edge])) -> Result<()> {
        let source = match self {
            Input::Source(source) => source,
            Input::Buffered(edges, global_ids) => {
                edges.drain(&global_ids, sink);
                return Ok(());
            }
        };
        let (mut batch, mut fault) = (Vec::new(), Ok(()));
        let global_id = |external_id| layout.global_id(external_id).ok_or_else(|| outside(external_id, layout));
        let outcome = source.read_together(comm, &mut |some| {
            if fault.is_ok() {
                batch.clear();
                fault = some.iter().try_for_each(|edge| {
                    let (from, to) = (global_id(edge.from)?, global_id(edge.to)?);
                    batch.push(Edge { from, to, ..*edge });
                    Ok(())
                });
                sink(&batch);
            } else {
                sink(&[]);
            }
        });
        fault.and(outcome)
    }
}

/// An edge has a vertex that is not in the layout.
fn outside(external_id: u64, layout: &VertexLayout) -> Error {
    let (vertices, first_id) = (layout.num_vertices(), layout.first_id());
    Error::Input(format!("vertex {external_id} of an edge is not one of the {vertices} vertices from {first_id} on"))
}

/// The most vertices that a rank can own.
const MAX_LOCAL_VERTICES: u64 = u32::MAX as u64 - 64;

impl Graph {
    /// Reads a graph from a file, in the format of its extension. Weights are ignored. All ranks call it.
    ///
    /// ```no_run
    /// # fn largest(world: &treepie_comm::Comm) -> treepie_graph::Result<u64> {
    /// use treepie_graph::Graph;
    ///
    /// let graph = Graph::read(world, "friends.metis")?;
    /// # Ok(graph.components()?.summary()?.largest)
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Line`] if the file cannot be read, [`Error::Input`] if its edges make no graph: the
    /// same on all ranks.
    pub fn read(comm: &Comm, file: impl AsRef<Path>) -> Result<Self> {
        Self::read_with(comm, file, &BuildOptions::default())
    }

    /// The same with options.
    ///
    /// # Errors
    /// Those of [`read`](Self::read), and of a partition file.
    pub fn read_with(comm: &Comm, file: impl AsRef<Path>, options: &BuildOptions) -> Result<Self> {
        Self::read_weighted_with(comm, file, options)
    }

    /// Builds a graph from an edge source, without weights. All ranks call it.
    ///
    /// # Errors
    /// Those of the edge source, and [`Error::Input`] if its edges make no graph: the same on all ranks.
    pub fn build(comm: &Comm, edges: &dyn EdgeSource) -> Result<Self> {
        Self::build_with(comm, edges, &BuildOptions::default())
    }

    /// The same with options.
    ///
    /// # Errors
    /// Those of [`build`](Self::build), and of a partition file.
    pub fn build_with(comm: &Comm, edges: &dyn EdgeSource, options: &BuildOptions) -> Result<Self> {
        Self::build_weighted_with(comm, edges, options)
    }
}

impl<W: EdgeWeight> Graph<W> {
    /// Reads a graph with weights from a file, in the format of its extension; `Graph::<f32>::read_weighted`. All ranks
    /// call it.
    ///
    /// ```no_run
    /// # fn distance(world: &treepie_comm::Comm) -> treepie_graph::Result<f32> {
    /// use treepie_graph::Graph;
    ///
    /// let roads = Graph::<f32>::read_weighted(world, "roads.gr")?;
    /// let distances = roads.sssp(1)?.distances;
    /// # distances.get(7)
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Graph::read`]; [`Error::Input`] if a weight is negative, or not of the type.
    pub fn read_weighted(comm: &Comm, file: impl AsRef<Path>) -> Result<Self> {
        Self::read_weighted_with(comm, file, &BuildOptions::default())
    }

    /// The same with options.
    ///
    /// # Errors
    /// Those of [`read_weighted`](Self::read_weighted), and of a partition file.
    pub fn read_weighted_with(comm: &Comm, file: impl AsRef<Path>, options: &BuildOptions) -> Result<Self> {
        // A file may be missing on some hosts only.
        let files = agree(comm, EdgeFiles::open(&[file.as_ref().to_owned()], None))?;
        Self::build_weighted_with(comm, &files, options)
    }

    /// Builds a graph with weights from an edge source; `Graph::<u32>::build_weighted`. All ranks call it.
    ///
    /// # Errors
    /// Those of [`Graph::build`]; [`Error::Input`] if a weight is negative, or not of the type.
    pub fn build_weighted(comm: &Comm, edges: &dyn EdgeSource) -> Result<Self> {
        Self::build_weighted_with(comm, edges, &BuildOptions::default())
    }

    /// The same with options.
    ///
    /// # Errors
    /// Those of [`build_weighted`](Self::build_weighted), and of a partition file.
    pub fn build_weighted_with(comm: &Comm, edges: &dyn EdgeSource, options: &BuildOptions) -> Result<Self> {
        match edges.num_vertices() {
            _ if options.partition_file.is_some() => Self::build_discovering_vertices(comm, edges, options),
            Some(vertices) => {
                let layout = VertexLayout::new(comm.rank(), comm.size(), vertices, options.distribution);
                let layout = layout.with_first_id(edges.first_id());
                Self::assemble(comm, layout, Input::Source(edges), options)
            }
            None => Self::build_discovering_vertices(comm, edges, options),
        }
    }

    /// Builds a graph whose vertices, or their owners, are only known after reading the edges. The external ids are
    /// mostly 0 to n-1, or 1 to n.
    fn build_discovering_vertices(comm: &Comm, edges: &dyn EdgeSource, options: &BuildOptions) -> Result<Self> {
        // Without parallel edges, those that are there need not be added.
        let finds_reverse_edges = options.dedupe && options.directions(edges.orientation()).0;
        let (buffered, count) = BufferedEdges::read_all::<W>(comm, edges, finds_reverse_edges)?;
        let ids = match edges.num_vertices() {
            None => buffered.consecutive_ids(comm, count)?,
            Some(vertices) => Some(edges.first_id()..edges.first_id() + vertices),
        };
        let external_ids = buffered.external_ids();
        let (layout, global_ids) = match (ids, &options.partition_file) {
            (Some(ids), Some(file)) => partition::layout_from_partition(comm, file, ids, external_ids)?,
            (None, Some(file)) => return Err(noncontiguous_ids(file)),
            (None, None) => directory::assign_global_ids(comm, external_ids)?,
            (Some(ids), None) => {
                let vertices = ids.end - ids.start;
                let layout = VertexLayout::new(comm.rank(), comm.size(), vertices, options.distribution);
                let layout = layout.with_first_id(ids.start);
                let global_id = |external_id: &u64| layout.global_id(*external_id).unwrap_or(UNKNOWN_GLOBAL_ID);
                let global_ids = collected(external_ids.iter().map(global_id), GLOBAL_IDS_PURPOSE);
                let global_ids = agree(comm, global_ids.map_err(Error::from))?;
                (layout, global_ids)
            }
        };
        let unknown = global_ids.iter().position(|global_id| *global_id == UNKNOWN_GLOBAL_ID);
        agree(comm, unknown.map_or(Ok(()), |number| Err(outside(external_ids[number], &layout))))?;
        Self::assemble(comm, layout, Input::Buffered(buffered, global_ids), options)
    }

    /// Sends arcs to their owners, and builds the CSR.
    fn assemble(comm: &Comm, layout: VertexLayout, input: Input<'_>, options: &BuildOptions) -> Result<Self> {
        check_local_vertices(&layout)?;
        check_memory(comm, &layout)?;
        if layout.num_vertices() <= 1 << 32 {
            Self::assemble_rows::<u32>(comm, layout, input, options)
        } else {
            Self::assemble_rows::<u64>(comm, layout, input, options)
        }
    }

    /// The same with global ids of this type.
    fn assemble_rows<T: GlobalId>(
        comm: &Comm,
        layout: VertexLayout,
        input: Input<'_>,
        options: &BuildOptions,
    ) -> Result<Self> {
        let (_, symmetric) = options.directions(input.orientation());
        let store_in_edges = options.store_in_edges && !symmetric;
        let rows = layout.num_local(layout.rank());
        let first = layout.first_global_id(layout.rank());
        let local = first..first + rows as u64;
        // Ranks of one process share a heap, so one of them trims it.
        let trims = match comm.engine() {
            "sim" => false,
            "threads" => comm.rank() == 0,
            _ => true,
        };
        let sort = |arcs: ArcBuckets| arcs.into_rows::<T>(options.dedupe, trims);
        let (mut out_edges, in_edges) = match input {
            Input::Source(edges) if sorted_input::is_applicable(edges, options) => {
                (sorted_input::read_csr::<W, T>(comm, local.clone(), edges, options)?, None)
            }
            input => {
                let state = if W::KIND == WeightKind::None {
                    exchange_edges::<W, T::Arc>(comm, &layout, input, options)?
                } else {
                    exchange_edges::<W, T::WeightedArc>(comm, &layout, input, options)?
                };
                let sorted = sort(state.out_edges)
                    .and_then(|out_edges| Ok((out_edges, store_in_edges.then(|| sort(state.in_edges)).transpose()?)));
                agree(comm, sorted.map_err(Error::from))?
            }
        };
        let (hub_list, delegates) =
            hubs::delegate_hubs(comm, &layout, options.hub_degree, &mut out_edges, W::KIND != WeightKind::None)?;
        let view = LocalView::new(comm, &layout, options.ghost_policy, || {
            let both = out_edges.targets.iter().chain(in_edges.iter().flat_map(|in_edges| &in_edges.targets));
            let both = both.map(|target| (*target).into());
            let mut ghost_ids: Vec<u64> = both.filter(|target| !local.contains(target)).collect();
            ghost_ids.sort_unstable();
            ghost_ids.dedup();
            ghost_ids
        })?;
        let compress = |rows: SortedRows<T>| -> Result<Csr<W>> {
            let local_degrees =
                |row: usize| rows.row(row).partition_point(|target| local.contains(&(*target).into())) as u32;
            let local_degrees = collected((0..rows.offsets.len() - 1).map(local_degrees), ROWS_PURPOSE)?;
            let SortedRows { offsets, mut targets, weight_bits } = rows;
            // Room for duplicates; the arcs of a graph without weights take the memory of the global ids.
            targets.shrink_to_fit();
            let arc = |(arc, target): (usize, T)| CsrEdge {
                target: view.index_of(layout.owner(target.into())).expect("all targets are in the view"),
                weight: W::from_bits(weight_bits.get(arc).copied().unwrap_or(0)),
            };
            let arcs = targets.into_iter().enumerate().map(arc).collect();
            Ok(Csr::new(offsets, local_degrees, arcs))
        };
        let compressed = compress(out_edges)
            .and_then(|out_edges| Ok((out_edges, in_edges.map(compress).transpose()?, compress(delegates)?)));
        let (out_edges, in_edges, delegates) = agree(comm, compressed)?;
        let hubs = Hubs::new(hub_list, delegates);
        let num_arcs = comm.allreduce_one(out_edges.num_arcs() + hubs.delegates().num_arcs(), Sum)?;
        // Arcs took several times the memory of the CSR.
        if trims {
            trim_heap();
        }
        Ok(Self { comm: comm.clone(), layout, view, out_edges, in_edges, hubs, symmetric, num_arcs })
    }
}

/// Refuses layouts whose local indices do not fit into 32 bits.
fn check_local_vertices(layout: &VertexLayout) -> Result<()> {
    let (vertices, ranks) = (layout.num_vertices(), layout.num_ranks());
    if (0..ranks).all(|rank| layout.num_local(rank) as u64 <= MAX_LOCAL_VERTICES) {
        return Ok(());
    }
    let plural = if ranks == 1 { "" } else { "s" };
    let least = vertices.div_ceil(MAX_LOCAL_VERTICES);
    Err(Error::Input(format!(
        "{vertices} vertices are too many for {ranks} rank{plural}: a rank has at most {MAX_LOCAL_VERTICES} of them; \
         use at least {least} ranks"
    )))
}

/// Checks, before edges are read, that there is memory for the vertices that a file declares: for rows, and a value and
/// an id of each. The memory is freed at once. All ranks call it.
fn check_memory(comm: &Comm, layout: &VertexLayout) -> Result<()> {
    const BYTES_PER_VERTEX: usize = 8 + 8 + 4 + 8 + 8;
    let bytes = layout.num_local(layout.rank()).saturating_mul(BYTES_PER_VERTEX);
    agree(comm, with_capacity::<u8>(bytes, ROWS_PURPOSE).map(drop).map_err(Error::from))
}

/// Sends the arcs of all edges to the owners of their rows. All ranks call it.
fn exchange_edges<W: EdgeWeight, M: ArcMessage>(
    comm: &Comm,
    layout: &VertexLayout,
    input: Input<'_>,
    options: &BuildOptions,
) -> Result<ReceivedEdges> {
    let orientation = input.orientation();
    let (twice, symmetric) = options.directions(orientation);
    let twice = twice && !input.has_all_reverse_edges();
    let store_in_edges = options.store_in_edges && !symmetric;
    let mut build = ActiveMessages::<ReceivedEdges>::builder(comm);
    let out_port = build.port::<M>("arc");
    let in_port = build.port::<M>("arc backwards");
    build.on_batch(out_port, |state, _, arcs| state.out_edges.extend(arcs));
    build.on_batch(in_port, |state, _, arcs| state.in_edges.extend(arcs));
    let mut am = build.start()?;

    let send = |epoch: &mut Epoch<'_, ReceivedEdges>, edge: &Edge| -> Result<()> {
        let (from, to) = (edge.from, edge.to);
        if from == to && options.drop_self_loops {
            return Ok(());
        }
        let bits = weight_bits::<W>(edge.weight)?;
        let mut arc = |port: Port<M>, from: u64, to: u64| {
            let (rank, row) = layout.owner(from);
            epoch.context().send(port, rank, M::new(CooEdge { target: to, row, weight_bits: bits }));
        };
        arc(out_port, from, to);
        if twice && from != to {
            arc(out_port, to, from);
        }
        if store_in_edges {
            arc(in_port, to, from);
        }
        Ok(())
    };
    let source = input.source();
    let (rank, has_weights) = (layout.rank(), W::KIND != WeightKind::None);
    let (rows, first) = (layout.num_local(rank), layout.first_global_id(rank));
    let buckets = |rows: usize| ArcBuckets::new(rows, first..first + rows as u64, layout.num_vertices(), has_weights);
    let mut state =
        ReceivedEdges { out_edges: buckets(rows), in_edges: buckets(if store_in_edges { rows } else { 0 }) };
    let (mut seen, mut fault) = (EdgeCheck::default(), Ok(()));
    am.epoch(&mut state, |epoch| {
        let mut broken = Ok(());
        let outcome = input.read(comm, layout, &mut |some| {
            if broken.is_err() {
                return;
            }
            if fault.is_err() {
                // Others still send to this rank.
                broken = epoch.progress();
                return;
            }
            seen.record(some, orientation);
            fault = some.iter().try_for_each(|edge| send(epoch, edge));
            broken = epoch.progress();
        });
        fault = std::mem::replace(&mut fault, Ok(())).and(outcome);
        broken
    })?;
    agree(comm, fault)?;
    seen.check(comm, source)?;
    Ok(state)
}

/// Checks that need all edges: their number and their symmetry.
#[derive(Default)]
struct EdgeCheck {
    count: u64,
    /// Sums of 24-bit hashes of each arc, and of its reverse: they are equal if each arc has a reverse arc.
    digests: [u64; 2],
}

impl EdgeCheck {
    fn record(&mut self, edges: &[Edge], orientation: Orientation) {
        self.count += edges.len() as u64;
        if orientation == Orientation::Symmetric {
            for Edge { from, to, .. } in edges {
                self.digests[0] += hash_words([*from, *to]) >> 40;
                self.digests[1] += hash_words([*to, *from]) >> 40;
            }
        }
    }

    /// Checks the edges of all ranks. All ranks call it.
    fn check(&self, comm: &Comm, source: Option<&dyn EdgeSource>) -> Result<()> {
        let [forward, backward] = self.digests;
        let sums = comm.allreduce(&[self.count, forward, backward], Sum)?;
        source.map_or(Ok(()), |source| source.check_edge_count(sums[0]))?;
        if sums[1] != sums[2] {
            let one_way = "not every edge is present in both directions, as this format requires";
            return Err(Error::Input(one_way.to_owned()));
        }
        Ok(())
    }
}

/// Partition files need the external ids 0 to n-1, or 1 to n.
fn noncontiguous_ids(partition: &Path) -> Error {
    let why = "it is for vertices with consecutive ids from 0 or 1 on, but not all of these have edges here";
    Error::File { file: partition.to_owned(), why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Distribution;

    #[test]
    fn no_rank_has_more_vertices_than_the_bound() {
        let layout = |ranks, vertices| VertexLayout::new(0, ranks, vertices, Distribution::Block);
        assert_eq!(check_local_vertices(&layout(1, MAX_LOCAL_VERTICES)), Ok(()));
        let error = check_local_vertices(&layout(1, MAX_LOCAL_VERTICES + 1)).unwrap_err().to_string();
        assert!(error.contains("4294967232 vertices are too many for 1 rank") && error.contains("at least 2 ranks"));
        assert_eq!(check_local_vertices(&layout(2, 2 * MAX_LOCAL_VERTICES)), Ok(()));
        assert!(check_local_vertices(&layout(2, 2 * MAX_LOCAL_VERTICES + 1)).is_err());
    }
}
