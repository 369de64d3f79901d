//! Whether labels of components are right.
//!
//! Ends of an arc have the same label. A label is a vertex of its component, and the least one: so no two components share one.
//! And everything with a label is reached from that vertex: so no component is in fact two.

use treepie_base::memory::zeroed;
use treepie_comm::Comm;

use crate::agree::agree;
use crate::reach::Search;
use crate::rows::Arc;
use crate::rows::VALUES;
use crate::{Error, Graph, Messages, Result};

/// Checks labels of own vertices. All ranks call it, and get the same error.
pub fn verify<A: Arc>(comm: &Comm, graph: &Graph<A>, labels: &[u64], messages: &Messages) -> Result<()> {
    graph.need_whole_rows("a check of components")?;
    let (view, layout) = (graph.view(), graph.layout());
    let first = layout.first(layout.rank());
    let count = labels.len();
    let own = if count == graph.own() {
        Ok(())
    } else {
        Err(Error::Wrong(format!("there are {count} labels for {} vertices", graph.own())))
    };
    agree(comm, own)?;
    let mut seen = zeroed(view.len(), VALUES)?;
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
    let mut search = Search::new(comm, graph, messages)?;
    let roots = labels.iter().enumerate().filter(|(place, label)| **label == first + *place as u64);
    let reached = search.run_from(roots.map(|(place, _)| place))?;
    let lost = (0..graph.own()).find(|place| !reached.has(*place));
    let lost = lost.map(|place| {
        let (number, label) = (first + place as u64, labels[place]);
        Error::Wrong(format!("vertex {number} has the label {label}, and cannot be reached from there"))
    });
    agree(comm, lost.map_or(Ok(()), Err))
}
