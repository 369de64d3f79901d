//! Push PageRank: each arc is a message with the contribution of its source.   [active messages paper, section 6.2.4]
//! Cost: one epoch and two allreduces per iteration, one message per remote arc.

use treepie_am::{ActiveMessages, Port};
use treepie_base::memory::zeroed;

use super::jacobi::{self, PageRankResult, share_of_all};
use super::options::PageRankOptions;
use crate::csr::{CsrEdge, VALUES_PURPOSE};
use crate::vertex_id::{join_u64, split_u64};
use crate::{AmConfig, AmTraffic, EdgeWeight, Graph, Result};

/// A message to a local index: the two halves of the bits of a contribution.
type ContributionMessage = [u32; 3];

fn contribution_message(local_index: u32, value: f64) -> ContributionMessage {
    let [low, high] = split_u64(value.to_bits());
    [local_index, low, high]
}

fn message_value([_, low, high]: ContributionMessage) -> f64 {
    f64::from_bits(join_u64([low, high]))
}

/// A graph, and the messages of contributions.
pub struct PushPageRank<'g, W> {
    graph: &'g Graph<W>,
    am: ActiveMessages<PushState<'g, W>>,
    state: PushState<'g, W>,
    contribute: Port<ContributionMessage>,
    hub: Port<ContributionMessage>,
}

struct PushState<'g, W> {
    graph: &'g Graph<W>,
    /// The contributions received by local vertices.
    incoming: Vec<f64>,
}

impl<W: EdgeWeight> PushState<'_, W> {
    fn contribute_local(&mut self, arcs: &[CsrEdge<W>], contribution: f64) {
        let local_start = self.graph.view().local_range().start as u32;
        arcs.iter().for_each(|arc| self.incoming[(arc.target - local_start) as usize] += contribution);
    }
}

impl<'g, W: EdgeWeight> PushPageRank<'g, W> {
    /// Prepares iterations on a graph. All ranks call it.
    pub fn new(graph: &'g Graph<W>, config: &AmConfig) -> Result<Self> {
        let mut build = ActiveMessages::<PushState<'g, W>>::builder(graph.comm());
        let port = build.port::<ContributionMessage>("give");
        build.on_prefetch(
            port,
            |state: &PushState<'g, W>, message: &ContributionMessage| &state.incoming[message[0] as usize],
            |state, _, message| state.incoming[message[0] as usize] += message_value(message),
        );
        build.combine(
            port,
            |message: &ContributionMessage| message[0].into(),
            |sum: &mut ContributionMessage, message| {
                *sum = contribution_message(sum[0], message_value(*sum) + message_value(*message))
            },
        );
        let hub = build.port::<ContributionMessage>("hub");
        build.on(hub, |state: &mut PushState<'g, W>, _, message| {
            state.contribute_local(state.graph.hubs().delegate_edges(message[0]), message_value(message));
        });
        let am = config.start(build)?;
        let state = PushState { graph, incoming: zeroed(graph.num_local(), VALUES_PURPOSE)? };
        Ok(Self { graph, am, state, contribute: port, hub })
    }

    /// One iteration on the local scores. Returns the sum of their changes. All ranks call it.
    pub(super) fn step(&mut self, scores: &mut [f64], damping: f64) -> Result<f64> {
        let (graph, port, hub) = (self.graph, self.contribute, self.hub);
        let dangling = graph.local_vertices().filter(|vertex| graph.degree(*vertex) == 0);
        let dangling_share = share_of_all(graph, dangling.map(|vertex| scores[vertex]).sum())?;
        self.state.incoming.fill(0.0);
        self.am.epoch_for(&mut self.state, graph.local_vertices(), |cx, state, vertex| {
            let contribution = scores[vertex] / graph.degree(vertex).max(1) as f64;
            let (local, remote) = graph.out_edges().local_and_remote(vertex);
            state.contribute_local(local, contribution);
            graph.hubs().notify_delegates(cx, hub, vertex as u32, |index| contribution_message(index, contribution));
            for arc in remote {
                let (rank, local_index) = graph.view().owner(arc.target);
                cx.send(port, rank, contribution_message(local_index, contribution));
            }
        })?;
        let base = (1.0 - damping) / graph.num_vertices() as f64 + damping * dangling_share;
        let mut change = 0.0;
        for (score, incoming) in scores.iter_mut().zip(&self.state.incoming) {
            let next = base + damping * incoming;
            change += (next - std::mem::replace(score, next)).abs();
        }
        Ok(change)
    }

    /// Iterates until convergence. All ranks call it.
    pub fn run(&mut self, options: &PageRankOptions) -> Result<PageRankResult<'g, W>> {
        jacobi::iterate(self.graph, options, |scores| self.step(scores, options.damping))
    }

    /// The message statistics of this rank so far.
    pub fn traffic(&self) -> AmTraffic {
        AmTraffic::from_am(&self.am)
    }
}
