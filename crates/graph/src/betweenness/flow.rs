//! A traversal in topological order: values flow along tight arcs, from a source or back to it.
//!
//! A vertex is given a value, adds what comes over its arcs, and passes the sum on when all has come. One epoch. How
//! many parts come a vertex knows from the lengths of the vertices at the other end of its arcs, which its rank sees.

use bytemuck::{Pod, Zeroable};
use treepie_am::{ActiveMessages, Context, Port};
use treepie_base::memory::{filled, zeroed};
use treepie_comm::{Comm, Sum};

use super::{Measure, is_tight};
use crate::patterns::search::{self, Spreading};
use crate::rows::VALUES;
use crate::rows::{Arc, Rows, Weight};
use crate::{Error, Graph, Messages, Result, Traffic};

/// Which way values flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Away from the source.
    Out,
    /// To the source.
    Back,
}

/// What comes over arcs to a vertex.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Part {
    value: f64,
    vertex: u32,
    arcs: u32,
}

/// Traversals of the shortest ways from one source after the other.
pub(super) struct Flow<'g, M: Measure<'g>> {
    comm: Comm,
    am: ActiveMessages<State<'g, M>>,
    state: State<'g, M>,
}

struct State<'g, M: Measure<'g>> {
    graph: &'g Graph<M::Arc>,
    back: &'g Rows<M::Arc>,
    part: Port<Part>,
    direction: Direction,
    /// By place.
    lengths: Vec<M::Length>,
    /// Over how many arcs nothing has come yet to own vertices.
    missing: Vec<u32>,
    given: Vec<f64>,
    came: Vec<f64>,
    waiting: Vec<u32>,
}

impl<'g, M: Measure<'g>> State<'g, M> {
    /// Own vertices' arcs in a direction.
    fn rows(&self, direction: Direction) -> &'g Rows<M::Arc> {
        if direction == Direction::Out { self.graph.out() } else { self.back }
    }

    /// Whether an arc in a direction, of an own vertex that is so far from the source, is tight.
    #[inline(always)]
    fn is_tight(&self, direction: Direction, here: M::Length, arc: &M::Arc) -> bool {
        let (there, length) = (self.lengths[arc.target() as usize], M::length(*arc));
        match direction {
            Direction::Out => is_tight(here, length, there),
            Direction::Back => is_tight(there, length, here),
        }
    }

    fn take(&mut self, Part { value, vertex, arcs }: Part) {
        self.came[vertex as usize] += value;
        let missing = &mut self.missing[vertex as usize];
        *missing -= arcs;
        if *missing == 0 {
            self.waiting.push(vertex);
        }
    }

    /// Counts the arcs over which something will come. Vertices with a length that wait for nothing are the first.
    fn begin(&mut self) {
        let against = if self.direction == Direction::Out { Direction::Back } else { Direction::Out };
        let own = self.graph.view().own().start;
        for vertex in 0..self.graph.own() {
            let here = self.lengths[own + vertex];
            let arcs = self.rows(against).row(vertex).iter();
            self.missing[vertex] = arcs.filter(|arc| self.is_tight(against, here, arc)).count() as u32;
            if self.missing[vertex] == 0 && here < M::Length::FAR {
                self.waiting.push(vertex as u32);
            }
        }
    }
}

impl<'g, M: Measure<'g>> Spreading for State<'g, M> {
    fn waiting(&mut self) -> &mut Vec<u32> {
        &mut self.waiting
    }

    fn follow(&mut self, cx: &mut Context<Self>, vertex: u32) {
        let (view, direction) = (self.graph.view(), self.direction);
        let own = view.own().start as u32;
        let here = self.lengths[(own + vertex) as usize];
        let value = self.given[vertex as usize] + self.came[vertex as usize];
        let (near, far) = self.rows(direction).parts(vertex as usize);
        for arc in near {
            if self.is_tight(direction, here, arc) {
                self.take(Part { value, vertex: arc.target() - own, arcs: 1 });
            }
        }
        for arc in far {
            if self.is_tight(direction, here, arc) {
                let (rank, vertex) = view.owner(arc.target());
                cx.send(self.part, rank, Part { value, vertex, arcs: 1 });
            }
        }
    }
}

impl<'g, M: Measure<'g>> Flow<'g, M> {
    pub(super) fn new(comm: &Comm, graph: &'g Graph<M::Arc>, messages: &Messages) -> Result<Self> {
        let back = graph.need_back("betweenness")?;
        let mut build = ActiveMessages::<State<'g, M>>::builder(comm);
        let part = build.port::<Part>("part");
        build.on(part, |state: &mut State<'g, M>, cx, part| {
            state.take(part);
            state.spread(cx);
        });
        build.combine(
            part,
            |part: &Part| part.vertex.into(),
            |sum: &mut Part, part| {
                sum.value += part.value;
                sum.arcs += part.arcs;
            },
        );
        let am = messages.start(build)?;
        let state = State {
            graph,
            back,
            part,
            direction: Direction::Out,
            lengths: filled(M::Length::FAR, graph.view().len(), VALUES)?,
            missing: zeroed(graph.own(), VALUES)?,
            given: Vec::new(),
            came: Vec::new(),
            waiting: Vec::new(),
        };
        Ok(Self { comm: comm.clone(), am, state })
    }

    /// Takes the lengths of shortest ways to own vertices. Returns how many vertices have one. All ranks call it.
    pub(super) fn begin(&mut self, lengths: &[M::Length]) -> Result<u64> {
        let state = &mut self.state;
        let view = state.graph.view();
        let own = view.own();
        state.lengths[own.clone()].copy_from_slice(lengths);
        view.gather(&self.comm, &mut state.lengths)?;
        let (mut reached, mut lost) = (0u64, 0u64);
        for (vertex, here) in lengths.iter().enumerate().filter(|(_, length)| **length < M::Length::FAR) {
            reached += 1;
            // A weight that is lost in rounding is as bad as none.
            let is_lost = |arc: &&M::Arc| {
                let there = arc.target() as usize;
                there != own.start + vertex
                    && state.lengths[there] <= *here
                    && here.add(M::length(**arc)) == state.lengths[there]
            };
            lost += state.graph.out().row(vertex).iter().filter(is_lost).count() as u64;
        }
        let sums = self.comm.all_reduce(&[reached, lost], Sum)?;
        if sums[1] > 0 {
            let lost = sums[1];
            return Err(Error::Input(format!(
                "betweenness needs weights that make ways longer, and {lost} are lost in rounding when they are added"
            )));
        }
        Ok(sums[0])
    }

    /// Lets values flow that own vertices are given. Returns what came to each. All ranks call it.
    pub(super) fn run(&mut self, direction: Direction, given: Vec<f64>) -> Result<Vec<f64>> {
        let state = &mut self.state;
        state.direction = direction;
        state.came = zeroed(given.len(), VALUES)?;
        state.given = given;
        state.begin();
        let name = if direction == Direction::Out { "away from the source" } else { "to the source" };
        search::spread(self.am.named(name), state)?;
        debug_assert!(state.missing.iter().all(|missing| *missing == 0), "there is no cycle");
        Ok(std::mem::take(&mut state.came))
    }

    pub(super) fn traffic(&self) -> Traffic {
        Traffic::of(&self.am)
    }
}
