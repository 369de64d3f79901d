//! Components by a parallel search and then hooking.   [active messages paper, section 6.2.3: PS+SV]
//!
//! In most graphs one component has most of the vertices. A search from the vertex with the most arcs takes that away in a single
//! epoch, without rounds; what is left is small, and hooked.

use treepie_comm::{Comm, Located, MaxLoc, Min};

use super::{Labels, hooking, need_symmetric};
use crate::reach::Search;
use crate::rows::Arc;
use crate::{Graph, Messages, Result, Traffic};

/// Finds components by a search and hooking. Returns the label of each own vertex. All ranks call it.
pub fn run<A: Arc>(comm: &Comm, graph: &Graph<A>, messages: &Messages) -> Result<Labels> {
    need_symmetric(graph)?;
    if graph.vertices() == 0 {
        return Ok(Labels { labels: Vec::new(), traffic: Traffic::default() });
    }
    let first = graph.layout().first(graph.layout().rank());
    let own = (0..graph.own()).map(|place| (graph.out().degree(place), place));
    let (degree, place) = own.max_by_key(|(degree, place)| (*degree, usize::MAX - place)).unwrap_or((0, 0));
    let most = [Located { value: degree, place: first + place as u64 }];
    let root = comm.all_reduce(&most, MaxLoc)?[0].place;
    let mut search = Search::new(comm, graph, messages)?;
    let visited = search.run(&[root])?;
    let least = visited.iter().next().map_or(u64::MAX, |place| first + place as u64);
    let least = comm.all_reduce(&[least], Min)?[0];
    let Labels { labels, traffic } = hooking::among(comm, graph, Some((visited, least)), messages)?;
    Ok(Labels { labels, traffic: traffic + search.traffic() })
}
