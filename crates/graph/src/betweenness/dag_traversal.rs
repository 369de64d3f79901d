//! Traversal of the shortest-path DAG in topological order: values are accumulated along tight arcs, away from the
//! source or towards it.
//!
//! Each vertex has an initial value, adds the contributions that arrive along its arcs, and sends the sum when all have
//! arrived. One epoch. A vertex knows the number of contributions from the distances of its neighbors, which are local
//! or ghosts.

use bytemuck::{Pod, Zeroable};
use treepie_am::{ActiveMessages, Context, Port};
use treepie_base::memory::{filled, zeroed};
use treepie_comm::Sum;

use super::metric::{PathMetric, is_tight};
use crate::csr::{Csr, CsrEdge, VALUES_PURPOSE};
use crate::patterns::traversal::{self, Traversal};
use crate::{AmConfig, AmTraffic, Error, Graph, Result, Weight};

/// The direction of a traversal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Away from the source.
    Forward,
    /// Towards the source.
    Backward,
}

/// A contribution to a vertex, along one or more arcs.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Contribution {
    value: f64,
    vertex: u32,
    arcs: u32,
}

/// Traversals of the shortest-path DAGs of any number of sources.
pub(super) struct DagTraversal<'g, M: PathMetric<'g>> {
    am: ActiveMessages<DagTraversalState<'g, M>>,
    state: DagTraversalState<'g, M>,
}

struct DagTraversalState<'g, M: PathMetric<'g>> {
    graph: &'g Graph<M::Weight>,
    in_edges: &'g Csr<M::Weight>,
    contribution: Port<Contribution>,
    direction: Direction,
    /// By index of the view.
    distances: Vec<M::Distance>,
    /// The number of arcs of each local vertex whose contribution has not arrived.
    pending: Vec<u32>,
    initial: Vec<f64>,
    accumulated: Vec<f64>,
    worklist: Vec<u32>,
}

impl<'g, M: PathMetric<'g>> DagTraversalState<'g, M> {
    /// The arcs of local vertices in a direction.
    fn csr(&self, direction: Direction) -> &'g Csr<M::Weight> {
        if direction == Direction::Forward { self.graph.out_edges() } else { self.in_edges }
    }

    /// Whether an arc in a direction, of a local vertex at distance `here`, is tight.
    #[inline(always)]
    fn is_tight(&self, direction: Direction, here: M::Distance, arc: &CsrEdge<M::Weight>) -> bool {
        let (there, length) = (self.distances[arc.target as usize], M::edge_length(*arc));
        match direction {
            Direction::Forward => is_tight(here, length, there),
            Direction::Backward => is_tight(there, length, here),
        }
    }

    fn accumulate(&mut self, Contribution { value, vertex, arcs }: Contribution) {
        self.accumulated[vertex as usize] += value;
        let pending = &mut self.pending[vertex as usize];
        *pending -= arcs;
        if *pending == 0 {
            self.worklist.push(vertex);
        }
    }

    /// Counts the expected contributions. Reached vertices without any are the initial worklist.
    fn count_pending(&mut self) {
        let opposite = if self.direction == Direction::Forward { Direction::Backward } else { Direction::Forward };
        let local_start = self.graph.view().local_range().start;
        for vertex in self.graph.local_vertices() {
            let here = self.distances[local_start + vertex];
            let arcs = self.csr(opposite).row(vertex).iter();
            self.pending[vertex] = arcs.filter(|arc| self.is_tight(opposite, here, arc)).count() as u32;
            if self.pending[vertex] == 0 && here < M::Distance::INFINITY {
                self.worklist.push(vertex as u32);
            }
        }
    }
}

impl<'g, M: PathMetric<'g>> Traversal for DagTraversalState<'g, M> {
    fn worklist(&mut self) -> &mut Vec<u32> {
        &mut self.worklist
    }

    fn expand(&mut self, cx: &mut Context<Self>, vertex: u32) {
        let (view, direction) = (self.graph.view(), self.direction);
        let local_start = view.local_range().start as u32;
        let here = self.distances[(local_start + vertex) as usize];
        let value = self.initial[vertex as usize] + self.accumulated[vertex as usize];
        let (local, remote) = self.csr(direction).local_and_remote(vertex as usize);
        for arc in local {
            if self.is_tight(direction, here, arc) {
                self.accumulate(Contribution { value, vertex: arc.target - local_start, arcs: 1 });
            }
        }
        for arc in remote {
            if self.is_tight(direction, here, arc) {
                let (rank, vertex) = view.owner(arc.target);
                cx.send(self.contribution, rank, Contribution { value, vertex, arcs: 1 });
            }
        }
    }
}

impl<'g, M: PathMetric<'g>> DagTraversal<'g, M> {
    pub(super) fn new(graph: &'g Graph<M::Weight>, config: &AmConfig) -> Result<Self> {
        let in_edges = graph.require_in_edges("betweenness")?;
        let mut build = ActiveMessages::<DagTraversalState<'g, M>>::builder(graph.comm());
        let contribution = build.port::<Contribution>("part");
        build.on(contribution, |state: &mut DagTraversalState<'g, M>, cx, contribution| {
            state.accumulate(contribution);
            state.drain(cx);
        });
        build.combine(
            contribution,
            |contribution: &Contribution| contribution.vertex.into(),
            |sum: &mut Contribution, contribution| {
                sum.value += contribution.value;
                sum.arcs += contribution.arcs;
            },
        );
        let am = config.start(build)?;
        let state = DagTraversalState {
            graph,
            in_edges,
            contribution,
            direction: Direction::Forward,
            distances: filled(M::Distance::INFINITY, graph.view().len(), VALUES_PURPOSE)?,
            pending: zeroed(graph.num_local(), VALUES_PURPOSE)?,
            initial: Vec::new(),
            accumulated: Vec::new(),
            worklist: Vec::new(),
        };
        Ok(Self { am, state })
    }

    /// Sets the distances of local vertices. Returns the number of reached vertices on all ranks. All ranks call it.
    pub(super) fn set_distances(&mut self, distances: &[M::Distance]) -> Result<u64> {
        let state = &mut self.state;
        let view = state.graph.view();
        let local = view.local_range();
        state.distances[local.clone()].copy_from_slice(distances);
        state.graph.update_ghosts(&mut state.distances)?;
        let (mut reached, mut lost) = (0u64, 0u64);
        for (vertex, here) in distances.iter().enumerate().filter(|(_, distance)| **distance < M::Distance::INFINITY) {
            reached += 1;
            // A weight that is lost in rounding could close a cycle of tight arcs, like a weight of zero.
            let is_lost = |arc: &&CsrEdge<M::Weight>| {
                let target = arc.target as usize;
                target != local.start + vertex
                    && state.distances[target] <= *here
                    && here.add(M::edge_length(**arc)) == state.distances[target]
            };
            lost += state.graph.out_edges().row(vertex).iter().filter(is_lost).count() as u64;
        }
        let sums = state.graph.comm().allreduce(&[reached, lost], Sum)?;
        if sums[1] > 0 {
            let lost = sums[1];
            return Err(Error::Input(format!(
                "betweenness needs weights that make paths longer, and {lost} are lost in rounding when they are added"
            )));
        }
        Ok(sums[0])
    }

    /// Traverses the DAG with initial values of local vertices. Returns what each received. All ranks call it.
    pub(super) fn run(&mut self, direction: Direction, initial: Vec<f64>) -> Result<Vec<f64>> {
        let state = &mut self.state;
        state.direction = direction;
        state.accumulated = zeroed(initial.len(), VALUES_PURPOSE)?;
        state.initial = initial;
        state.count_pending();
        let name = if direction == Direction::Forward { "away from the source" } else { "to the source" };
        traversal::traverse(self.am.named(name), state)?;
        debug_assert!(state.pending.iter().all(|pending| *pending == 0), "there is no cycle");
        Ok(std::mem::take(&mut state.accumulated))
    }

    pub(super) fn traffic(&self) -> AmTraffic {
        AmTraffic::from_am(&self.am)
    }
}
