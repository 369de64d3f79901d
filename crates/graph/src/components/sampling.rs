//! Connected components by subgraph sampling, and linking by messages.
//!
//! Each rank first links its local vertices along local arcs: a sample of two arcs per vertex finds most of the largest
//! local component, and only vertices outside of it process their other arcs.   [Sutton, Ben-Nun, Barak, IPDPS 2018:
//! Afforest]
//!
//! Then components of different ranks are linked. A bit per vertex tells whether it is in the largest local component
//! of its rank. An arc between the largest components of two ranks (a bridge) links these; another vertex with an arc
//! to the largest component of that rank is then linked with the local one, without a message. The remaining arcs,
//! between vertices outside of the largest components and one bridge for each pair of ranks, are one message each. It
//! climbs to the roots of both trees until it hooks the greater root onto the smaller: all in one epoch.

use treepie_am::{ActiveMessages, Context, Port};
use treepie_base::memory::collected;

use super::verify;
use crate::component_labels::ComponentLabels;
use crate::csr::VALUES_PURPOSE;
use crate::patterns::coarsening::{HasParents, PointerJumping};
use crate::vertex_id::{join_u64, split_u64};
use crate::{AmConfig, AmTraffic, Bitmap, EdgeWeight, Graph, Result};

/// The number of sampled arcs of each vertex (`neighbor_rounds` in GAP).
const NEIGHBOR_ROUNDS: usize = 2;

/// The number of vertices sampled to find the largest component.
const NUM_SAMPLES: usize = 1024;

/// Two vertices to link: a local index of the destination, and the halves of the other's global id.
type LinkMessage = [u32; 3];

struct LinkState<'g, W> {
    graph: &'g Graph<W>,
    first: u64,
    /// Of local vertices, as global ids: of the same rank at first.
    parents: Vec<u64>,
    /// Local roots that were hooked.
    hooked: Vec<u32>,
    link: Port<LinkMessage>,
}

impl<W> HasParents for LinkState<'_, W> {
    fn parents(&mut self) -> &mut [u64] {
        &mut self.parents
    }
}

impl<W: EdgeWeight> LinkState<'_, W> {
    /// Links the tree of a local vertex with that of another vertex.
    fn link(&mut self, cx: &mut Context<Self>, mut local_index: usize, mut other: u64) {
        loop {
            let parent = self.parents[local_index];
            if parent == other {
                return;
            }
            if parent == self.first + local_index as u64 {
                // A root: it hooks onto a smaller vertex, or the other's root onto it.
                if other < parent {
                    self.parents[local_index] = other;
                    self.hooked.push(local_index as u32);
                    return;
                }
                match self.graph.local_index(other) {
                    Some(other_index) => (local_index, other) = (other_index, parent),
                    None => return self.send_link(cx, other, parent),
                }
            } else {
                match self.graph.local_index(parent) {
                    Some(parent_index) => {
                        // Path splitting, or long trees would be climbed again and again.
                        self.parents[local_index] = self.parents[parent_index];
                        local_index = parent_index;
                    }
                    None => return self.send_link(cx, parent, other),
                }
            }
        }
    }

    fn send_link(&self, cx: &mut Context<Self>, to: u64, other: u64) {
        let (rank, local_index) = self.graph.layout().owner(to);
        let [low, high] = split_u64(other);
        cx.send(self.link, rank, [local_index, low, high]);
    }
}

/// Trees of local vertices, by local index.
struct Forest {
    parents: Vec<u32>,
}

impl Forest {
    fn new(vertices: usize) -> Result<Self> {
        Ok(Self { parents: collected((0..vertices).map(|vertex| vertex as u32), VALUES_PURPOSE)? })
    }

    /// Links the trees of two vertices: the greater root hooks onto the smaller.
    #[inline]
    fn link(&mut self, left: u32, right: u32) {
        let (mut left, mut right) = (self.parents[left as usize], self.parents[right as usize]);
        while left != right {
            let (high, low) = (left.max(right), left.min(right));
            let above = self.parents[high as usize];
            if above == high {
                self.parents[high as usize] = low;
                return;
            }
            (left, right) = (self.parents[above as usize], low);
        }
    }

    fn compress(&mut self) {
        for vertex in 0..self.parents.len() {
            // Parents are smaller, so those before are flat.
            self.parents[vertex] = self.parents[self.parents[vertex] as usize];
        }
    }

    /// The most frequent root of a sample of vertices.
    fn sample_frequent_root(&self) -> u32 {
        let step = self.parents.len().div_ceil(NUM_SAMPLES).max(1);
        let mut roots: Vec<u32> = self.parents.iter().step_by(step).copied().collect();
        roots.sort_unstable();
        let largest = roots.chunk_by(|left, right| left == right).max_by_key(|members| members.len());
        largest.map_or(0, |members| members[0])
    }
}

/// Finds components by sampling. Returns the labels of local vertices. All ranks call it.
pub(super) fn run<'g, W: EdgeWeight>(graph: &'g Graph<W>, config: &AmConfig) -> Result<ComponentLabels<'g, W>> {
    let (layout, view, rows) = (graph.layout(), graph.view(), graph.out_edges());
    let (first, local_start) = (graph.first_global_id(), view.local_range().start);
    let (mut forest, largest) = link_local(graph)?;
    if layout.num_ranks() == 1 {
        // There are no remote vertices.
        let labels = collected(forest.parents.into_iter().map(u64::from), VALUES_PURPOSE)?;
        return ComponentLabels::new(graph, labels, AmTraffic::default(), config, verify::verify);
    }
    let mut bits = Bitmap::try_new(view.len())?;
    // The indices of local vertices begin at a word boundary.
    for (word, parents) in bits.words_mut()[local_start / 64..].iter_mut().zip(forest.parents.chunks(64)) {
        *word = parents.iter().rev().fold(0, |word, parent| word << 1 | u64::from(*parent == largest));
    }
    graph.update_ghost_bits(&mut bits)?;
    let bridges = find_bridges(graph, &bits);
    // Arcs that need a message.
    let mut links: Vec<(u32, u64)> = Vec::new();
    for (rank, bridge) in bridges.iter().enumerate() {
        // Each of two ranks finds a bridge; the lower one sends it.
        links.extend(bridge.filter(|_| rank > layout.rank()));
    }
    let all_linked = bridges.iter().filter(|bridge| bridge.is_some()).count() == layout.num_ranks() - 1;
    for vertex in graph.local_vertices().filter(|vertex| !bits.contains(local_start + *vertex)) {
        let mut is_linked = false;
        for arc in rows.local_and_remote(vertex).1 {
            let is_in_largest = bits.contains(arc.target as usize);
            // Finding the owner takes a division, and is mostly not needed.
            if is_in_largest && all_linked {
                is_linked = true;
                continue;
            }
            let (rank, local_index) = view.owner(arc.target);
            let global_id = layout.first_global_id(rank) + u64::from(local_index);
            if is_in_largest && bridges[rank].is_some() {
                is_linked = true;
            } else if is_in_largest || first + (vertex as u64) < global_id {
                links.push((vertex as u32, global_id));
            }
        }
        if is_linked {
            forest.link(vertex as u32, largest);
        }
    }
    forest.compress();

    let mut build = ActiveMessages::<LinkState<'_, W>>::builder(graph.comm());
    let port = build.port::<LinkMessage>("join");
    build.on_prefetch(
        port,
        |state: &LinkState<'_, W>, message: &LinkMessage| &state.parents[message[0] as usize],
        |state, cx, [local_index, low, high]| state.link(cx, local_index as usize, join_u64([low, high])),
    );
    let jumping = PointerJumping::register(&mut build);
    let mut am = config.start(build)?;
    let parents = collected(forest.parents.iter().map(|parent| first + u64::from(*parent)), VALUES_PURPOSE)?;
    let mut state = LinkState { graph, first, parents, hooked: Vec::new(), link: port };

    am.epoch_for(&mut state, links, |cx, state, (vertex, other)| state.link(cx, vertex as usize, other))?;

    // Hooked roots find their final root, then each vertex takes the root of its local root.
    let hooked = std::mem::take(&mut state.hooked);
    jumping.compress(&mut am, &mut state, graph, || hooked.iter().map(|root| *root as usize))?;
    let LinkState { parents, .. } = state;
    let labels = collected(forest.parents.iter().map(|root| parents[*root as usize]), VALUES_PURPOSE)?;
    ComponentLabels::new(graph, labels, AmTraffic::from_am(&am), config, verify::verify)
}

/// For each rank an arc from the largest local component to that rank's, if there is one: from a local index to a
/// global id. Since arcs are symmetric, the other rank finds one if this one does.
fn find_bridges<W: EdgeWeight>(graph: &Graph<W>, bits: &Bitmap) -> Vec<Option<(u32, u64)>> {
    let (layout, view) = (graph.layout(), graph.view());
    let mut bridges = vec![None; layout.num_ranks()];
    let mut missing = layout.num_ranks() - 1;
    for (vertex, _) in view.local_range().enumerate().filter(|(_, index)| bits.contains(*index)) {
        for arc in graph.out_edges().local_and_remote(vertex).1.iter().filter(|arc| bits.contains(arc.target as usize))
        {
            let bridge = &mut bridges[view.owner(arc.target).0];
            if bridge.is_none() {
                *bridge = Some((vertex as u32, view.global_id(layout, arc.target)));
                missing -= 1;
            }
        }
        if missing == 0 {
            break;
        }
    }
    bridges
}

/// Links local vertices along local arcs. Returns their trees, and the root of the largest.
fn link_local<W: EdgeWeight>(graph: &Graph<W>) -> Result<(Forest, u32)> {
    let (rows, local_start) = (graph.out_edges(), graph.view().local_range().start as u32);
    let mut forest = Forest::new(graph.num_local())?;
    for vertex in graph.local_vertices() {
        for arc in rows.local_and_remote(vertex).0.iter().take(NEIGHBOR_ROUNDS) {
            forest.link(vertex as u32, arc.target - local_start);
        }
    }
    forest.compress();
    let largest = forest.sample_frequent_root();
    for vertex in graph.local_vertices() {
        if forest.parents[vertex] != largest {
            for arc in rows.local_and_remote(vertex).0.iter().skip(NEIGHBOR_ROUNDS) {
                forest.link(vertex as u32, arc.target - local_start);
            }
        }
    }
    forest.compress();
    // The root may have been hooked onto a smaller one.
    let largest = forest.parents.get(largest as usize).copied().unwrap_or(0);
    Ok((forest, largest))
}
