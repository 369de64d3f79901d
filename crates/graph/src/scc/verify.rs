//! Whether components are right, without searching for them again.
//!
//! A component has the name of a vertex in it, and none has a lesser number. From that vertex all others are reached,
//! and it is from them, over vertices of the component. So what has one name is connected. And what is connected has
//! one name, since the graph of components has no cycle: they can be taken away one after the other, such that no arc
//! from another leads to the next.

use treepie_am::{ActiveMessages, Context, Port};
use treepie_base::memory::{filled, with_capacity, zeroed};
use treepie_comm::Comm;

use super::Direction;
use crate::agree::agree;
use crate::id::Id;
use crate::patterns::search::{self, Spreading};
use crate::rows::VALUES;
use crate::rows::{Arc, Rows};
use crate::{Bits, Error, Graph, Messages, Result};

struct State<'g, A: Arc> {
    graph: &'g Graph<A>,
    rows: &'g Rows<A>,
    /// By place.
    labels: &'g [u64],
    /// Vertices are taken away: arcs to other components are followed as well, to the vertices that these are named by.
    takes_away: bool,
    /// Arcs to a component from others that are still there, with the vertex that it is named by.
    entering: Vec<u64>,
    /// By place: others' vertices were told so, too.
    reached: Bits,
    waiting: Vec<u32>,
    reach: Port<u32>,
    enter: Port<<u64 as Id>::About>,
    leave: Port<u32>,
}

impl<A: Arc> State<'_, A> {
    fn own(&self) -> usize {
        self.graph.view().own().start
    }

    fn reach(&mut self, vertex: u32) {
        if self.reached.put_new(self.own() + vertex as usize) {
            self.waiting.push(vertex);
        }
    }

    fn leave(&mut self, vertex: u32) {
        let entering = &mut self.entering[vertex as usize];
        *entering -= 1;
        if *entering == 0 {
            self.reach(vertex);
        }
    }

    /// Own vertices that components are named by.
    fn roots(&self) -> Result<Vec<u32>> {
        let first = self.graph.layout().first(self.graph.layout().rank());
        let is_root = |vertex: &u32| self.labels[self.own() + *vertex as usize] == first + u64::from(*vertex);
        let mut roots = with_capacity(self.graph.own(), VALUES)?;
        roots.extend((0..self.graph.own() as u32).filter(is_root));
        Ok(roots)
    }
}

impl<A: Arc> Spreading for State<'_, A> {
    fn waiting(&mut self) -> &mut Vec<u32> {
        &mut self.waiting
    }

    fn follow(&mut self, cx: &mut Context<Self>, vertex: u32) {
        let view = self.graph.view();
        let own = view.own();
        let label = self.labels[own.start + vertex as usize];
        for arc in self.rows.row(vertex as usize) {
            let there = arc.target() as usize;
            if self.labels[there] != label {
                if self.takes_away {
                    let (rank, place) = self.graph.layout().place(self.labels[there]);
                    cx.send(self.leave, rank, place);
                }
            } else if own.contains(&there) {
                self.reach((there - own.start) as u32);
            } else if self.reached.put_new(there) {
                let (rank, place) = view.owner(arc.target());
                cx.send(self.reach, rank, place);
            }
        }
    }
}

/// Checks the names of components that a search has given. All ranks call it, and get the same error.
pub fn verify<A: Arc>(comm: &Comm, graph: &Graph<A>, labels: &[u64], messages: &Messages) -> Result<()> {
    let back = graph.need_back("the check of strongly connected components")?;
    agree(comm, each_for_itself(graph, labels))?;
    let (view, layout) = (graph.view(), graph.layout());
    let mut seen = filled(super::NONE, view.len(), VALUES)?;
    seen[view.own()].copy_from_slice(labels);
    view.gather(comm, &mut seen)?;

    let (mut am, [reach, leave], enter) = start(comm, messages)?;
    let mut state = State {
        graph,
        rows: graph.out(),
        labels: &seen,
        takes_away: false,
        entering: zeroed(graph.own(), VALUES)?,
        reached: Bits::try_new(view.len())?,
        waiting: with_capacity(graph.own(), VALUES)?,
        reach,
        enter,
        leave,
    };
    let first = layout.first(layout.rank());
    let all_reached = |state: &State<'_, A>, what: &dyn Fn(u64, u64) -> String| {
        let lost = (0..graph.own()).find(|place| !state.reached.has(view.own().start + *place));
        let lost = lost.map(|place| Error::Wrong(what(first + place as u64, labels[place])));
        agree(comm, lost.map_or(Ok(()), Err))
    };
    for direction in Direction::BOTH {
        state.rows = if direction == Direction::Out { graph.out() } else { back };
        state.reached.clear();
        for root in state.roots()? {
            state.reach(root);
        }
        search::spread(&mut am, &mut state)?;
        all_reached(&state, &|number, label| {
            let (from, to) = if direction == Direction::Out { (label, number) } else { (number, label) };
            format!(
                "vertex {number} is in component {label}, in which no way leads from {from} to {to} (numbers inside)"
            )
        })?;
    }

    am.epoch_for(&mut state, 0..graph.own(), |cx, state, place| {
        let others = back.row(place).iter().filter(|arc| state.labels[arc.target() as usize] != labels[place]);
        let count = others.count() as u64;
        if count > 0 {
            let (rank, root) = layout.place(labels[place]);
            cx.send(state.enter, rank, count.about(root));
        }
    })?;
    state.rows = graph.out();
    state.takes_away = true;
    state.reached.clear();
    for root in state.roots()? {
        if state.entering[root as usize] == 0 {
            state.reach(root);
        }
    }
    search::spread(&mut am, &mut state)?;
    all_reached(&state, &|number, label| {
        format!(
            "component {label}, that of vertex {number}, is on a cycle of components, or behind one (numbers inside)"
        )
    })
}

/// A runtime for a state; ports of vertices, and that of counts.
#[allow(clippy::type_complexity, reason = "it is taken apart at once")]
fn start<'g, A: Arc>(
    comm: &Comm,
    messages: &Messages,
) -> Result<(ActiveMessages<State<'g, A>>, [Port<u32>; 2], Port<<u64 as Id>::About>)> {
    let mut build = ActiveMessages::<State<'g, A>>::builder(comm);
    let reach = build.port::<u32>("reach");
    build.on(reach, |state: &mut State<'g, A>, cx, vertex| {
        state.reach(vertex);
        state.spread(cx);
    });
    let leave = build.port::<u32>("leave");
    build.on(leave, |state: &mut State<'g, A>, cx, vertex| {
        state.leave(vertex);
        state.spread(cx);
    });
    let enter = build.port::<<u64 as Id>::About>("enter");
    build.on(enter, |state: &mut State<'g, A>, _, about| {
        let (vertex, count) = u64::parts(about);
        state.entering[vertex as usize] += count;
    });
    Ok((messages.start(build)?, [reach, leave], enter))
}

/// What a rank can see by itself.
fn each_for_itself<A: Arc>(graph: &Graph<A>, labels: &[u64]) -> Result<()> {
    if labels.len() != graph.own() {
        return Err(Error::Wrong(format!(
            "there are {} names of components for {} vertices",
            labels.len(),
            graph.own()
        )));
    }
    let first = graph.layout().first(graph.layout().rank());
    match (first..).zip(labels).find(|(number, label)| *label > number) {
        Some((number, label)) => {
            Err(Error::Wrong(format!("vertex {number} is in component {label}, which is not the least number in it")))
        }
        None => Ok(()),
    }
}
