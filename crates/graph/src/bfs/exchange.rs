//! Breadth-first search by sparse exchanges: the remote vertices of a level go to their owners in one.   [NBX paper, algorithm 3]
//!
//! ```text
//! while true
//!   for v in Q: for (v, w) in E
//!     if w is local then enqueue w -> Q, dist[w] = d + 1
//!     else enqueue w -> R
//!   if globalsum(R not empty or Q not empty) = 0 then break
//!   DSDE(R, Q, d)
//! ```
//!
//! Which protocol exchanges is chosen on the communicator: `comm.using("exchange/nbx")`.

use bytemuck::Pod;
use treepie_base::Rank;
use treepie_base::memory::filled;
use treepie_comm::Comm;
use treepie_sparse::SparseExchange;

use super::{Label, UNREACHED};
use crate::id::Id;
use crate::rows::{Arc, VALUES};
use crate::{Graph, Result};

/// A search that can be run from one root after the other.
pub struct Search<'g, A: Arc, I: Id> {
    comm: Comm,
    graph: &'g Graph<A>,
    labels: Vec<Label<I>>,
}

impl<'g, A: Arc, I: Id> Search<'g, A, I>
where
    I::About: Pod,
{
    /// A search in a graph.
    pub fn new(comm: &Comm, graph: &'g Graph<A>) -> Self {
        Self { comm: comm.clone(), graph, labels: Vec::new() }
    }

    /// Searches from a vertex, by its number. All ranks call it.
    pub fn run(&mut self, root: u64) -> Result<&[Label<I>]> {
        self.graph.need_whole_rows("a search by exchanges")?;
        self.graph.check_root(root)?;
        let graph = self.graph;
        let (layout, view) = (graph.layout(), graph.view());
        if self.labels.is_empty() {
            self.labels = filled(Label::NONE, graph.own(), VALUES)?;
        }
        self.labels.fill(Label::NONE);
        let mut queue = Vec::new();
        if let Some(place) = graph.mine(root) {
            self.labels[place] = Label { parent: I::new(root), level: 0 };
            queue.push(place as u32);
        }
        let (first, own) = (layout.first(layout.rank()), view.own().start as u32);
        let mut level = 0;
        loop {
            level += 1;
            let mut next = Vec::new();
            let mut remote: Vec<(Rank, I::About)> = Vec::new();
            for vertex in queue {
                let parent = I::new(first + u64::from(vertex));
                let (near, far) = graph.out().parts(vertex as usize);
                near.iter().for_each(|arc| reach(&mut self.labels, &mut next, arc.target() - own, parent, level));
                remote.extend(far.iter().map(|arc| {
                    let (rank, place) = view.owner(arc.target());
                    (rank, parent.about(place))
                }));
            }
            if !self.comm.any(!next.is_empty() || !remote.is_empty())? {
                return Ok(&self.labels);
            }
            remote.sort_unstable_by_key(|(rank, about)| (*rank, I::parts(*about)));
            remote.dedup_by_key(|(rank, about)| (*rank, I::parts(*about).0));
            let to_each = remote.chunk_by(|left, right| left.0 == right.0);
            let to_each = to_each.map(|to_one| (to_one[0].0, to_one.iter().map(|(_, about)| *about).collect()));
            let came: Vec<(Rank, Vec<I::About>)> = self.comm.exchange(to_each.collect::<Vec<_>>())?;
            for about in came.into_iter().flat_map(|(_, abouts)| abouts) {
                let (place, parent) = I::parts(about);
                reach(&mut self.labels, &mut next, place, parent, level);
            }
            queue = next;
        }
    }
}

fn reach<I: Id>(labels: &mut [Label<I>], next: &mut Vec<u32>, place: u32, parent: I, level: u32) {
    let label = &mut labels[place as usize];
    if label.level == UNREACHED {
        *label = Label { parent, level };
        next.push(place);
    }
}
