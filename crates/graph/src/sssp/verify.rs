//! Whether lengths of shortest ways are right, without searching again.   [Graph 500, kernel 3 validation]
//!
//! The root's way has no length. No arc makes a way shorter. And along arcs that are as long as the difference of their ends, to
//! the last bit, everything that has a length is reached from the root.

use treepie_am::{ActiveMessages, Context, Port};
use treepie_base::memory::filled;
use treepie_comm::Comm;

use crate::agree::agree;
use crate::patterns::search::{self, Spreading};
use crate::rows::VALUES;
use crate::rows::{Arc, Weight, Weighted};
use crate::{Bits, Error, Graph, Messages, Result};

struct State<'g, W> {
    graph: &'g Graph<Weighted>,
    /// By place.
    lengths: &'g [W],
    /// By index.
    hubs: &'g [W],
    reached: Bits,
    waiting: Vec<u32>,
    reach: Port<u32>,
    hub: Port<u32>,
}

impl<W: Weight> State<'_, W> {
    fn reach(&mut self, vertex: u32) {
        if self.reached.put_new(vertex as usize) {
            self.waiting.push(vertex);
        }
    }

    /// Follows arcs of a vertex that is so far away.
    fn follow_arcs(&mut self, cx: &mut Context<Self>, length: W, arcs: &[Weighted]) {
        let view = self.graph.view();
        let own = view.own();
        for arc in arcs {
            let there = arc.target() as usize;
            if self.lengths[there] == length.add(arc.weight()) {
                if own.contains(&there) {
                    self.reach((there - own.start) as u32);
                } else {
                    let (rank, place) = view.owner(arc.target());
                    cx.send(self.reach, rank, place);
                }
            }
        }
    }
}

impl<W: Weight> Spreading for State<'_, W> {
    fn waiting(&mut self) -> &mut Vec<u32> {
        &mut self.waiting
    }

    fn follow(&mut self, cx: &mut Context<Self>, vertex: u32) {
        let graph = self.graph;
        let length = self.lengths[graph.view().own().start + vertex as usize];
        self.follow_arcs(cx, length, graph.out().row(vertex as usize));
        graph.hubs().tell(cx, self.hub, vertex, |index| index);
    }
}

/// Checks lengths that a search from a root, by its number, has given. All ranks call it, and get the same error.
pub fn verify<W: Weight>(
    comm: &Comm,
    graph: &Graph<Weighted>,
    root: u64,
    lengths: &[W],
    messages: &Messages,
) -> Result<()> {
    let (view, layout) = (graph.view(), graph.layout());
    let first = layout.first(layout.rank());
    let count = lengths.len();
    let own = if count == graph.own() {
        Ok(())
    } else {
        Err(Error::Wrong(format!("there are {count} lengths for {} vertices", graph.own())))
    };
    agree(comm, own)?;
    graph.check_root(root)?;
    let mut seen = filled(W::FAR, view.len(), VALUES)?;
    seen[view.own()].copy_from_slice(lengths);
    view.gather(comm, &mut seen)?;
    let hubs = graph.hubs().gather(comm, |place| lengths[place])?;

    let mut fault = Ok(());
    for (number, length) in (first..).zip(lengths) {
        if (number == root && *length != W::ZERO) || *length < W::ZERO || length.as_f64().is_nan() {
            fault = Err(Error::Wrong(format!("the way from {root} to {number} has the length {length}")));
        }
    }
    for (number, length, row) in graph.rows_here(|place| lengths[place], &hubs) {
        let is_too_long = |arc: &Weighted| length.add(arc.weight()) >= W::FAR;
        if length < W::FAR && row.iter().any(is_too_long) {
            fault = Err(Error::Wrong(format!("ways over vertex {number} are too long to be told from none")));
        }
        let makes_shorter = |arc: &&Weighted| seen[arc.target() as usize] > length.add(arc.weight());
        if let Some(arc) = row.iter().find(makes_shorter) {
            let (there, further) = (view.number(layout, arc.target()), seen[arc.target() as usize]);
            fault = Err(Error::Wrong(format!(
                "vertex {number} at {length} has an arc of {} to {there}, which is at {further} (numbers inside)",
                arc.weight::<W>()
            )));
        }
    }
    agree(comm, fault)?;

    let mut build = ActiveMessages::<State<'_, W>>::builder(comm);
    let reach = build.port::<u32>("reach");
    build.on(reach, |state: &mut State<'_, W>, cx, vertex| {
        state.reach(vertex);
        state.spread(cx);
    });
    let hub = build.port::<u32>("hub");
    build.on(hub, |state: &mut State<'_, W>, cx, hub| {
        state.follow_arcs(cx, state.hubs[hub as usize], state.graph.hubs().share(hub));
        state.spread(cx);
    });
    let mut am = messages.start(build)?;
    let (lengths_seen, reached) = (&seen, Bits::try_new(graph.own())?);
    let mut state = State { graph, lengths: lengths_seen, hubs: &hubs, reached, waiting: Vec::new(), reach, hub };
    if let Some(place) = graph.mine(root) {
        state.reach(place as u32);
    }
    search::spread(&mut am, &mut state)?;
    let lost = (0..graph.own()).find(|place| state.reached.has(*place) != (lengths[*place] < W::FAR));
    let lost = lost.map(|place| {
        let number = first + place as u64;
        Error::Wrong(format!("vertex {number} is at {}, and no way of that length leads to it", lengths[place]))
    });
    agree(comm, lost.map_or(Ok(()), Err))
}
