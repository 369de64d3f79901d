//! The result of algorithms for components, connected or strongly connected: a label for each vertex.

use treepie_am::ActiveMessages;
use treepie_base::Rank;
use treepie_base::memory::{collected, filled, zeroed};
use treepie_comm::{Max, Sum};
use treepie_sparse::SparseExchange;

use crate::csr::VALUES_PURPOSE;
use crate::external_ids::{NO_EXTERNAL_ID, fetch_external_ids};
use crate::vertex_id::{join_u64, split_u64};
use crate::{AmConfig, AmTraffic, EdgeWeight, Graph, PropertyMap, Result};

/// The components of a graph.
#[derive(Clone, Debug)]
pub struct ComponentLabels<'g, W: EdgeWeight = ()> {
    /// The least global id in the component of each vertex.
    pub labels: PropertyMap<'g, u64, W>,
    /// The message statistics of this rank.
    pub traffic: AmTraffic,
    config: AmConfig,
    verifier: Verifier<W>,
}

/// Verifies the labels of local vertices: connected or strongly connected components. All ranks call it.
pub(crate) type Verifier<W> = fn(&Graph<W>, &[u64], &AmConfig) -> Result<()>;

/// The number of components, and the size of the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComponentSummary {
    /// The number of components.
    pub components: u64,
    /// The number of vertices of the largest.
    pub largest: u64,
}

impl<'g, W: EdgeWeight> ComponentLabels<'g, W> {
    /// From the labels of local vertices, and what verifies them.
    pub(crate) fn new(
        graph: &'g Graph<W>,
        labels: Vec<u64>,
        traffic: AmTraffic,
        config: &AmConfig,
        verifier: Verifier<W>,
    ) -> Result<Self> {
        Ok(Self { labels: PropertyMap::new(graph, labels)?, traffic, config: config.clone(), verifier })
    }

    /// Counts the components. All ranks call it.
    pub fn summary(&self) -> Result<ComponentSummary> {
        summarize(self.labels.graph(), self.labels.local())
    }

    /// The least external id in the component of each vertex. Unlike the least global id, it does not depend on the
    /// distribution of vertices. All ranks call it.
    pub fn external_labels(&self) -> Result<PropertyMap<'g, u64, W>> {
        let (graph, labels) = (self.labels.graph(), self.labels.local());
        let least = least_external_ids(graph, labels, &self.config)?;
        PropertyMap::new(graph, fetch_external_ids(graph, least, labels.iter().copied().map(Some), &self.config)?)
    }

    /// Verifies the labels. All ranks call it, and get the same error.
    pub fn verify(&self) -> Result<()> {
        (self.verifier)(self.labels.graph(), self.labels.local(), &self.config)
    }
}

/// Counts components by the labels of local vertices: a global id, the same for all vertices of a component.
fn summarize<W: EdgeWeight>(graph: &Graph<W>, labels: &[u64]) -> Result<ComponentSummary> {
    let layout = graph.layout();
    let mut sorted = collected(labels.iter().copied(), VALUES_PURPOSE)?;
    sorted.sort_unstable();
    let mut sizes = zeroed(graph.num_local(), VALUES_PURPOSE)?;
    // Local labels are counted in place, without memory: in a graph without edges every vertex is its own label.
    let owner = |label: &u64| layout.owner(*label).0;
    let mut to_each: Vec<(Rank, Vec<[u64; 2]>)> = Vec::new();
    for same in sorted.chunk_by(u64::eq) {
        let (label, size) = (same[0], same.len() as u64);
        match (owner(&label), to_each.last_mut()) {
            (rank, _) if rank == layout.rank() => sizes[layout.owner(label).1 as usize] += size,
            (rank, Some((last, counts))) if rank == *last => counts.push([label, size]),
            (rank, _) => to_each.push((rank, vec![[label, size]])),
        }
    }
    drop(sorted);
    for [label, size] in graph.comm().exchange(to_each)?.into_iter().flat_map(|(_, counts)| counts) {
        sizes[layout.owner(label).1 as usize] += size;
    }
    let components = sizes.iter().filter(|size| **size > 0).count() as u64;
    let components = graph.comm().allreduce_one(components, Sum)?;
    let largest = graph.comm().allreduce_one(sizes.into_iter().max().unwrap_or(0), Max)?;
    Ok(ComponentSummary { components, largest })
}

/// For each local vertex whose global id is a label, the least external id with that label. All ranks call it.
fn least_external_ids<W: EdgeWeight>(graph: &Graph<W>, labels: &[u64], config: &AmConfig) -> Result<Vec<u64>> {
    let message_id = |[_, low, high]: [u32; 3]| join_u64([low, high]);
    let mut build = ActiveMessages::<Vec<u64>>::builder(graph.comm());
    let report = build.port::<[u32; 3]>("least external id");
    build.on(report, move |min_ids: &mut Vec<u64>, _, message| {
        let least = &mut min_ids[message[0] as usize];
        *least = (*least).min(message_id(message));
    });
    build.combine(
        report,
        |message: &[u32; 3]| message[0].into(),
        move |least: &mut [u32; 3], message| {
            if message_id(*message) < message_id(*least) {
                *least = *message;
            }
        },
    );
    let mut am = config.start(build)?;
    let mut min_ids = filled(NO_EXTERNAL_ID, graph.num_local(), VALUES_PURPOSE)?;
    let layout = graph.layout();
    am.epoch_for(&mut min_ids, labels.iter().enumerate(), |cx, _, (vertex, label)| {
        let ((rank, local_index), [low, high]) = (layout.owner(*label), split_u64(layout.external_id(vertex)));
        cx.send(report, rank, [local_index, low, high]);
    })?;
    Ok(min_ids)
}
