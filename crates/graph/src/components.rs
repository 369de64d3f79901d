//! Connected components of an undirected graph: each vertex is labelled with the least global id of its component.
//!
//! - [`hooking`]: hooking and shortcutting of trees.   [Shiloach, Vishkin 1982; active messages paper, algorithm 4]
//! - [`search`]: one parallel search finds the giant component, hooking the rest.   [active messages paper, section
//!   6.2.3: PS+SV]
//! - [`sampling`]: each rank links its local vertices along a sample of its arcs first; messages link the rest.
//!   [Sutton, Ben-Nun, Barak: Optimizing parallel graph connectivity computation via subgraph sampling, IPDPS 2018]

pub mod hooking;
pub mod sampling;
pub mod search;
mod verify;

use treepie_am::ActiveMessages;
use treepie_base::memory::{filled, zeroed};
use treepie_comm::Comm;

use crate::csr::CsrEdge;
use crate::csr::VALUES_PURPOSE;
use crate::vertex_id::{join_u64, split_u64};
use crate::{AmConfig, AmTraffic, Error, Graph, Result};

pub use crate::component_summary::{ComponentSummary, summarize};
pub use verify::verify;

/// The component labels of local vertices, and message statistics.
#[derive(Clone, Debug)]
pub struct ComponentLabels {
    /// The least global id in the component of each local vertex.
    pub labels: Vec<u64>,
    /// The message statistics of this rank.
    pub traffic: AmTraffic,
}

/// Refuses directed graphs, and graphs with split rows.
fn require_symmetric<A: CsrEdge>(graph: &Graph<A>) -> Result<()> {
    graph.require_unsplit_rows("connected components")?;
    if graph.is_symmetric() {
        return Ok(());
    }
    Err(directed_graph_error())
}

/// The error for directed graphs. Public, so that callers can refuse before they build the graph.
pub fn directed_graph_error() -> Error {
    Error::Input("connected components need an undirected graph; symmetrize it".to_owned())
}

/// The least external id in the component of each local vertex, from any labels that its vertices share. These labels
/// do not depend on the distribution of vertices. All ranks call it.
pub fn external_labels<A: CsrEdge>(
    comm: &Comm,
    graph: &Graph<A>,
    labels: &[u64],
    config: &AmConfig,
) -> Result<Vec<u64>> {
    struct ExternalLabelState {
        /// The least external id of the component whose label is a local vertex.
        min_ids: Vec<u64>,
        labels: Vec<u64>,
    }
    let message_id = |[_, low, high]: [u32; 3]| join_u64([low, high]);
    let mut build = ActiveMessages::<ExternalLabelState>::builder(comm);
    let report = build.port::<[u32; 3]>("least name");
    build.on(report, move |state: &mut ExternalLabelState, _, message| {
        let least = &mut state.min_ids[message[0] as usize];
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
    let fetch = build.call::<u32, [u32; 2], u32>("name");
    build.on_call(
        fetch,
        |state: &mut ExternalLabelState, _, local_index: u32| split_u64(state.min_ids[local_index as usize]),
        |state, _, vertex: u32, label: [u32; 2]| state.labels[vertex as usize] = join_u64(label),
    );
    let mut am = config.start(build)?;
    let mut state = ExternalLabelState {
        min_ids: filled(u64::MAX, graph.num_local(), VALUES_PURPOSE)?,
        labels: zeroed(labels.len(), VALUES_PURPOSE)?,
    };
    let layout = graph.layout();
    am.epoch_for(&mut state, labels.iter().enumerate(), |cx, _, (vertex, label)| {
        let ((rank, local_index), [low, high]) = (layout.owner(*label), split_u64(layout.external_id(vertex)));
        cx.send(report, rank, [local_index, low, high]);
    })?;
    am.epoch_for(&mut state, labels.iter().enumerate(), |cx, _, (vertex, label)| {
        let (rank, local_index) = layout.owner(*label);
        cx.call(fetch, rank, vertex as u32, local_index);
    })?;
    Ok(state.labels)
}
