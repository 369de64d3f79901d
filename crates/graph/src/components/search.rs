//! Connected components by parallel search, then hooking.   [active messages paper, section 6.2.3: PS+SV]
//!
//! Most graphs have a giant component. A search from the vertex of highest degree finds it in a single epoch; hooking
//! finds the rest, which is small.

use treepie_comm::{MaxLoc, Min, ValueLoc};

use super::{hooking, verify};
use crate::component_labels::ComponentLabels;
use crate::reach::Reachability;
use crate::{AmConfig, AmTraffic, EdgeWeight, Graph, Result};

/// Finds components by parallel search and hooking. Returns the labels of local vertices. All ranks call it.
pub(super) fn run<'g, W: EdgeWeight>(graph: &'g Graph<W>, config: &AmConfig) -> Result<ComponentLabels<'g, W>> {
    if graph.num_vertices() == 0 {
        return ComponentLabels::new(graph, Vec::new(), AmTraffic::default(), config, verify::verify);
    }
    let (comm, first) = (graph.comm(), graph.first_global_id());
    let candidates = graph.local_vertices().map(|local_index| (graph.out_edges().degree(local_index), local_index));
    let (degree, local_index) =
        candidates.max_by_key(|(degree, local_index)| (*degree, usize::MAX - local_index)).unwrap_or((0, 0));
    let most = ValueLoc { value: degree, loc: first + local_index as u64 };
    let root = comm.allreduce_one(most, MaxLoc)?.loc;
    let mut search = Reachability::new(graph, config)?;
    let visited = search.run(&[root])?;
    let least = visited.iter().next().map_or(u64::MAX, |local_index| first + local_index as u64);
    let least = comm.allreduce_one(least, Min)?;
    let mut components = hooking::run(graph, Some((visited, least)), config)?;
    components.traffic = components.traffic + search.traffic();
    Ok(components)
}
