//! Level-synchronous BFS by sparse exchange: the remote vertices of a level are sent to their owners in one exchange.
//! [NBX paper, algorithm 3]
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
//! Cost: one sparse exchange and one allreduce per level; duplicates to a vertex are removed before they are sent. The
//! exchange protocol is that of the graph's communicator, or chosen for the search.

use treepie_base::Rank;
use treepie_base::memory::filled;
use treepie_comm::Comm;
use treepie_sparse::SparseExchange;

use super::label::{Label, UNREACHED};
use crate::csr::VALUES_PURPOSE;
use crate::vertex_id::VertexId;
use crate::{EdgeWeight, Graph, Result};

/// A search, reusable for any number of roots.
pub(super) struct SparseExchangeBfs<'g, W: EdgeWeight, I: VertexId> {
    comm: Comm,
    graph: &'g Graph<W>,
    labels: Vec<Label<I>>,
}

impl<'g, W: EdgeWeight, I: VertexId> SparseExchangeBfs<'g, W, I> {
    /// Prepares a search with an exchange protocol; `None`: that of the graph's communicator.
    pub(super) fn new(graph: &'g Graph<W>, protocol: Option<&str>) -> Result<Self> {
        let comm = match protocol {
            Some(id) => {
                // Its name is known once an exchange or a program of `treepie` has run, and maybe none has.
                treepie_sparse::PROTOCOLS.register();
                graph.comm().with_algorithm(id)?
            }
            None => graph.comm().clone(),
        };
        Ok(Self { comm, graph, labels: Vec::new() })
    }

    /// Searches from a root given by global id. All ranks call it.
    pub(super) fn run(&mut self, root: u64) -> Result<&[Label<I>]> {
        self.graph.require_unsplit_rows("BFS by sparse exchange")?;
        self.graph.check_root(root)?;
        let graph = self.graph;
        let view = graph.view();
        if self.labels.is_empty() {
            self.labels = filled(Label::NONE, graph.num_local(), VALUES_PURPOSE)?;
        }
        self.labels.fill(Label::NONE);
        let mut queue = Vec::new();
        if let Some(local_index) = graph.local_index(root) {
            self.labels[local_index] = Label { parent: I::from_u64(root), level: 0 };
            queue.push(local_index as u32);
        }
        let (first, local_start) = (graph.first_global_id(), view.local_range().start as u32);
        let mut level = 0;
        loop {
            level += 1;
            let mut next = Vec::new();
            let mut outgoing: Vec<(Rank, I::Message)> = Vec::new();
            for vertex in queue {
                let parent = I::from_u64(first + u64::from(vertex));
                let (local, remote) = graph.out_edges().local_and_remote(vertex as usize);
                local
                    .iter()
                    .for_each(|arc| visit(&mut self.labels, &mut next, arc.target - local_start, parent, level));
                outgoing.extend(remote.iter().map(|arc| {
                    let (rank, local_index) = view.owner(arc.target);
                    (rank, parent.to_message(local_index))
                }));
            }
            if !self.comm.any(!next.is_empty() || !outgoing.is_empty())? {
                return Ok(&self.labels);
            }
            outgoing.sort_unstable_by_key(|(rank, message)| (*rank, I::from_message(*message)));
            outgoing.dedup_by_key(|(rank, message)| (*rank, I::from_message(*message).0));
            let by_rank = outgoing.chunk_by(|left, right| left.0 == right.0);
            let by_rank = by_rank.map(|of_rank| (of_rank[0].0, of_rank.iter().map(|(_, message)| *message).collect()));
            let received: Vec<(Rank, Vec<I::Message>)> = self.comm.exchange(by_rank.collect::<Vec<_>>())?;
            for message in received.into_iter().flat_map(|(_, messages)| messages) {
                let (local_index, parent) = I::from_message(message);
                visit(&mut self.labels, &mut next, local_index, parent, level);
            }
            queue = next;
        }
    }
}

fn visit<I: VertexId>(labels: &mut [Label<I>], next: &mut Vec<u32>, local_index: u32, parent: I, level: u32) {
    let label = &mut labels[local_index as usize];
    if label.level == UNREACHED {
        *label = Label { parent, level };
        next.push(local_index);
    }
}
