//! Connected components of a graph without directions: each vertex gets the least number of its component.
//!
//! - [`hooking`]: trees are hooked onto smaller ones, and made flat.   [Shiloach, Vishkin 1982; active messages paper, algorithm 4]
//! - [`search`]: one parallel search takes the giant component away, and hooking does the rest.   [section 6.2.3, PS+SV]
//! - [`sampling`]: each rank joins what its own arcs join, by a few of them first, and the rest is joined by messages.
//!   [Sutton, Ben-Nun, Barak: Optimizing parallel graph connectivity computation via subgraph sampling, IPDPS 2018]

pub mod hooking;
pub mod sampling;
pub mod search;
mod verify;

use treepie_am::ActiveMessages;
use treepie_base::memory::{filled, zeroed};
use treepie_comm::Comm;

use crate::id::{halves, whole};
use crate::rows::Arc;
use crate::rows::VALUES;
use crate::{Error, Graph, Messages, Result, Traffic};

pub use crate::parts::{Found, count};
pub use verify::verify;

/// Labels of the own vertices, and what it took.
#[derive(Clone, Debug)]
pub struct Labels {
    /// The least number of each one's component.
    pub labels: Vec<u64>,
    /// What became of this rank's messages.
    pub traffic: Traffic,
}

/// Refuses graphs with directions, and those whose rows are split.
fn need_symmetric<A: Arc>(graph: &Graph<A>) -> Result<()> {
    graph.need_whole_rows("a search for components")?;
    if graph.is_symmetric() {
        return Ok(());
    }
    Err(directed())
}

/// Components are refused for a graph with directions; whoever knows before there is one need not build it.
pub fn directed() -> Error {
    Error::Input("components need a graph without directions; symmetrize it".to_owned())
}

/// The least name of each own vertex's component, whatever labels its vertices share. So names of components do not depend on
/// where vertices are. All ranks call it.
pub fn names<A: Arc>(comm: &Comm, graph: &Graph<A>, labels: &[u64], messages: &Messages) -> Result<Vec<u64>> {
    struct State {
        /// Of own vertices that are labels.
        least: Vec<u64>,
        names: Vec<u64>,
    }
    let name = |[_, low, high]: [u32; 3]| whole([low, high]);
    let mut build = ActiveMessages::<State>::builder(comm);
    let tell = build.port::<[u32; 3]>("least name");
    build.on(tell, move |state: &mut State, _, heard| {
        let least = &mut state.least[heard[0] as usize];
        *least = (*least).min(name(heard));
    });
    build.combine(
        tell,
        |heard: &[u32; 3]| heard[0].into(),
        move |least: &mut [u32; 3], heard| {
            if name(*heard) < name(*least) {
                *least = *heard;
            }
        },
    );
    let ask = build.call::<u32, [u32; 2], u32>("name");
    build.on_call(
        ask,
        |state: &mut State, _, place: u32| halves(state.least[place as usize]),
        |state, _, vertex: u32, name: [u32; 2]| state.names[vertex as usize] = whole(name),
    );
    let mut am = messages.start(build)?;
    let mut state = State { least: filled(u64::MAX, graph.own(), VALUES)?, names: zeroed(labels.len(), VALUES)? };
    let layout = graph.layout();
    am.epoch_for(&mut state, labels.iter().enumerate(), |cx, _, (vertex, label)| {
        let ((rank, place), [low, high]) = (layout.place(*label), halves(layout.name(vertex)));
        cx.send(tell, rank, [place, low, high]);
    })?;
    am.epoch_for(&mut state, labels.iter().enumerate(), |cx, _, (vertex, label)| {
        let (rank, place) = layout.place(*label);
        cx.call(ask, rank, vertex as u32, place);
    })?;
    Ok(state.names)
}
