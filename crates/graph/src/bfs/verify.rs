//! Whether the result of a breadth-first search is right, without searching again.   [Graph 500, kernel 2 validation]
//!
//! The root is its own parent, on level 0, and nobody else is on that. An arc from a vertex that is reached leads to one that is
//! reached, too, one level farther at most. Each vertex that is reached has a parent one level nearer, and an arc from it.

use treepie_am::ActiveMessages;
use treepie_base::memory::filled;
use treepie_comm::Comm;

use super::{Label, UNREACHED};
use crate::agree::agree;
use crate::id::Id;
use crate::rows::Arc;
use crate::rows::VALUES;
use crate::{Bits, Error, Graph, Messages, Result};

/// Checks labels that a search from a root, by its number, has given. All ranks call it, and get the same error.
pub fn verify<A: Arc, I: Id>(
    comm: &Comm,
    graph: &Graph<A>,
    root: u64,
    labels: &[Label<I>],
    messages: &Messages,
) -> Result<()> {
    graph.check_root(root)?;
    let own = each_for_itself(graph, root, labels);
    agree(comm, own)?;
    let view = graph.view();
    let mut levels = filled(UNREACHED, view.len(), VALUES)?;
    let mut parents = filled(I::NONE.number(), view.len(), VALUES)?;
    for (place, label) in view.own().zip(labels) {
        levels[place] = label.level;
        if label.level != UNREACHED {
            parents[place] = label.parent.number();
        }
    }
    view.gather(comm, &mut levels)?;
    view.gather(comm, &mut parents)?;
    let hubs = graph.hubs().gather(comm, |place| labels[place].level)?;

    // Whoever has an arc from a vertex's parent to it says so.
    let mut build = ActiveMessages::<Bits>::builder(comm);
    let confirm = build.port::<u32>("confirm");
    build.on(confirm, |confirmed: &mut Bits, _, place| confirmed.put(place as usize));
    let mut am = messages.start(build)?;
    let (mut confirmed, mut told, mut fault) = (Bits::try_new(graph.own())?, Bits::try_new(view.len())?, Ok(()));
    let layout = graph.layout();
    let rows = graph.rows_here(|place| labels[place].level, &hubs);
    am.epoch_for(&mut confirmed, rows, |cx, _, (number, level, row)| {
        if level == UNREACHED {
            return;
        }
        for arc in row {
            let there = arc.target() as usize;
            if levels[there] > level + 1 && fault.is_ok() {
                let other = view.number(layout, arc.target());
                let far = if levels[there] == UNREACHED {
                    "not reached".to_owned()
                } else {
                    format!("on level {}", levels[there])
                };
                fault = Err(Error::Wrong(format!(
                    "vertex {number} is on level {level}, and its neighbour {other} is {far} (numbers inside)"
                )));
            }
            if parents[there] == number && levels[there] == level + 1 && told.put_new(there) {
                let (rank, place) = view.owner(arc.target());
                cx.send(confirm, rank, place);
            }
        }
    })?;
    let orphan =
        (0..graph.own()).find(|place| !matches!(labels[*place].level, 0 | UNREACHED) && !confirmed.has(*place));
    if let (Some(place), Ok(())) = (orphan, &fault) {
        let parent = labels[place].parent.number();
        fault = Err(Error::Wrong(format!(
            "the parent {parent} of vertex {} has no arc to it, or is not one level nearer",
            layout.first(layout.rank()) + place as u64
        )));
    }
    agree(comm, fault)
}

/// What a rank can see by itself.
fn each_for_itself<A: Arc, I: Id>(graph: &Graph<A>, root: u64, labels: &[Label<I>]) -> Result<()> {
    if labels.len() != graph.own() {
        return Err(Error::Wrong(format!("there are {} labels for {} vertices", labels.len(), graph.own())));
    }
    let first = graph.layout().first(graph.layout().rank());
    for (number, label) in (first..).zip(labels) {
        let (is_root, is_reached) = (number == root, label.level != UNREACHED);
        let parent = label.parent.number();
        if is_root && (label.level != 0 || parent != root) {
            return Err(Error::Wrong(format!("the root {root} is on level {} with the parent {parent}", label.level)));
        }
        if !is_root && label.level == 0 {
            return Err(Error::Wrong(format!("vertex {number} is on level {} with the parent {parent}", label.level)));
        }
        if is_reached && parent >= graph.vertices() {
            return Err(Error::Wrong(format!("vertex {number} has the parent {parent} of {}", graph.vertices())));
        }
    }
    Ok(())
}
