//! Connected components by parallel search, then hooking.   [active messages paper, section 6.2.3: PS+SV]
//!
//! Most graphs have a giant component. A search from the vertex of highest degree finds it in a single epoch; hooking
//! finds the rest, which is small.

use treepie_comm::{Comm, MaxLoc, Min, ValueLoc};

use super::{ComponentLabels, hooking, require_symmetric};
use crate::csr::CsrEdge;
use crate::reach::Reachability;
use crate::{AmConfig, AmTraffic, Graph, Result};

/// Finds components by parallel search and hooking. Returns the labels of local vertices. All ranks call it.
pub fn run<A: CsrEdge>(comm: &Comm, graph: &Graph<A>, config: &AmConfig) -> Result<ComponentLabels> {
    require_symmetric(graph)?;
    if graph.num_vertices() == 0 {
        return Ok(ComponentLabels { labels: Vec::new(), traffic: AmTraffic::default() });
    }
    let first = graph.layout().first_global_id(graph.layout().rank());
    let candidates = (0..graph.num_local()).map(|local_index| (graph.out_edges().degree(local_index), local_index));
    let (degree, local_index) =
        candidates.max_by_key(|(degree, local_index)| (*degree, usize::MAX - local_index)).unwrap_or((0, 0));
    let most = [ValueLoc { value: degree, loc: first + local_index as u64 }];
    let root = comm.allreduce(&most, MaxLoc)?[0].loc;
    let mut search = Reachability::new(comm, graph, config)?;
    let visited = search.run(&[root])?;
    let least = visited.iter().next().map_or(u64::MAX, |local_index| first + local_index as u64);
    let least = comm.allreduce(&[least], Min)?[0];
    let ComponentLabels { labels, traffic } = hooking::run_masked(comm, graph, Some((visited, least)), config)?;
    Ok(ComponentLabels { labels, traffic: traffic + search.traffic() })
}
