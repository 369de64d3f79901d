//! External ids in results: those of vertices that other ranks own.

use treepie_am::ActiveMessages;
use treepie_base::memory::filled;

use crate::csr::VALUES_PURPOSE;
use crate::vertex_id::{join_u64, split_u64};
use crate::{AmConfig, EdgeWeight, Graph, Result};

/// In place of an external id where there is no vertex.
pub(crate) const NO_EXTERNAL_ID: u64 = u64::MAX;

/// For each local vertex the external id that is stored at another vertex, given by global id; [`NO_EXTERNAL_ID`] for
/// `None`. `stored` has those of local vertices. All ranks call it.
pub(crate) fn fetch_external_ids<W: EdgeWeight>(
    graph: &Graph<W>,
    stored: Vec<u64>,
    vertices: impl Iterator<Item = Option<u64>>,
    config: &AmConfig,
) -> Result<Vec<u64>> {
    struct FetchState {
        stored: Vec<u64>,
        fetched: Vec<u64>,
    }
    let mut build = ActiveMessages::<FetchState>::builder(graph.comm());
    let fetch = build.call::<u32, [u32; 2], u32>("external id");
    build.on_call(
        fetch,
        |state: &mut FetchState, _, local_index: u32| split_u64(state.stored[local_index as usize]),
        |state, _, vertex: u32, external_id: [u32; 2]| state.fetched[vertex as usize] = join_u64(external_id),
    );
    let mut am = config.start(build)?;
    let mut state = FetchState { stored, fetched: filled(NO_EXTERNAL_ID, graph.num_local(), VALUES_PURPOSE)? };
    let layout = graph.layout();
    let requests = (0u32..).zip(vertices).filter_map(|(vertex, global_id)| Some((vertex, global_id?)));
    am.epoch_for(&mut state, requests, |cx, _, (vertex, global_id)| {
        let (rank, local_index) = layout.owner(global_id);
        cx.call(fetch, rank, vertex, local_index);
    })?;
    Ok(state.fetched)
}
