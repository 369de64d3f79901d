//! Whether labels of components are right.
//!
//! Ends of an arc have the same label. A label is a vertex of its component, and the least one: so no two components share one.
//! And everything with a label is reached from that vertex: so no component is in fact two.

use treepie_am::{ActiveMessages, Context, Port};
use treepie_comm::Comm;

use crate::agree::agree;
use crate::patterns::search::{self, Spreading};
use crate::rows::Arc;
use crate::{Bits, Error, Graph, Messages, Result};

struct State<'g, A> {
    graph: &'g Graph<A>,
    reached: Bits,
    told: Bits,
    waiting: Vec<u32>,
    reach: Port<u32>,
}

impl<A: Arc> State<'_, A> {
    fn reach(&mut self, vertex: u32) {
        if self.reached.put_new(vertex as usize) {
            self.waiting.push(vertex);
        }
    }
}

impl<A: Arc> Spreading for State<'_, A> {
    fn waiting(&mut self) -> &mut Vec<u32> {
        &mut self.waiting
    }

    fn follow(&mut self, cx: &mut Context<Self>, vertex: u32) {
        let view = self.graph.view();
        let (near, far) = self.graph.out().parts(vertex as usize);
        near.iter().for_each(|arc| self.reach(arc.target() - view.own().start as u32));
        for arc in far {
            if self.told.put_new(arc.target() as usize) {
                let (rank, place) = view.owner(arc.target());
                cx.send(self.reach, rank, place);
            }
        }
    }
}

/// Checks labels of own vertices. All ranks call it, and get the same error.
pub fn verify<A: Arc>(comm: &Comm, graph: &Graph<A>, labels: &[u64], messages: &Messages) -> Result<()> {
    let (view, layout) = (graph.view(), graph.layout());
    let first = layout.first(layout.rank());
    let count = labels.len();
    let own = if count == graph.own() {
        Ok(())
    } else {
        Err(Error::Wrong(format!("there are {count} labels for {} vertices", graph.own())))
    };
    agree(comm, own)?;
    let mut seen = vec![0; view.len()];
    seen[view.own()].copy_from_slice(labels);
    view.gather(comm, &mut seen)?;
    let mut fault = None;
    for (place, label) in labels.iter().enumerate() {
        let number = first + place as u64;
        if *label > number {
            fault = Some(format!("vertex {number} has the label {label}, which is not the least of its component"));
        }
        if let Some(arc) = graph.out().row(place).iter().find(|arc| seen[arc.target() as usize] != *label) {
            let (there, other) = (view.number(layout, arc.target()), seen[arc.target() as usize]);
            fault = Some(format!("vertex {number} has the label {label}, and its neighbour {there} has {other}"));
        }
    }
    agree(comm, fault.map_or(Ok(()), |what| Err(Error::Wrong(what))))?;

    // From all vertices that are their own label at once.
    let mut build = ActiveMessages::<State<'_, A>>::builder(comm);
    let reach = build.port::<u32>("reach");
    build.on(reach, |state: &mut State<'_, A>, cx, vertex| {
        state.reach(vertex);
        state.spread(cx);
    });
    let mut am = messages.start(build)?;
    let (reached, told) = (Bits::new(graph.own()), Bits::new(view.len()));
    let mut state = State { graph, reached, told, waiting: Vec::new(), reach };
    for (place, label) in labels.iter().enumerate() {
        if *label == first + place as u64 {
            state.reach(place as u32);
        }
    }
    search::spread(&mut am, &mut state)?;
    let lost = (0..graph.own()).find(|place| !state.reached.has(*place));
    let lost = lost.map(|place| {
        let (number, label) = (first + place as u64, labels[place]);
        Error::Wrong(format!("vertex {number} has the label {label}, and cannot be reached from there"))
    });
    agree(comm, lost.map_or(Ok(()), Err))
}
