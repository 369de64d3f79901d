//! Edges that lie in order of vertices already: each rank takes those of its own, without messages and without sorting.

use std::ops::Range;

use treepie_base::memory::zeroed;
use treepie_comm::Comm;

use super::Shape;
use crate::agree::agree;
use crate::rows::{Arc, Loose, ROWS};
use crate::{Distribution, Edge, Edges, Error, Result};

/// Whether edges can be taken as they lie: they do lie in order, names are numbers inside, and each edge is one arc of
/// its row.
pub(super) fn can_be_taken(edges: &dyn Edges, shape: &Shape) -> bool {
    let (twice, symmetric) = shape.directions(edges.orientation());
    let is_same = shape.distribution == Distribution::Block && shape.partition.is_none();
    edges.is_in_rows() && is_same && !twice && (symmetric || !shape.backwards)
}

/// The rows of own vertices, with arcs to own vertices first, as they are after sorting. All ranks call it.
pub(super) fn take<A: Arc>(
    comm: &Comm,
    own: Range<u64>,
    edges: &dyn Edges,
    shape: &Shape,
) -> Result<(Vec<u64>, Vec<Loose>)> {
    let offsets = zeroed::<u64>((own.end - own.start) as usize + 1, ROWS);
    let mut offsets = agree(comm, offsets.map_err(Error::from))?;
    let mut arcs: Vec<Loose> = Vec::new();
    let mut last = None;
    let mut put = |edge: &Edge| -> Result<()> {
        let here = (edge.from, edge.to);
        if !own.contains(&edge.from) || last.is_some_and(|last| here < last) {
            return Err(Error::Input(format!("an edge from {} to {} is not where it has to be", edge.from, edge.to)));
        }
        // The first of several has the least weight.
        let is_left_out = shape.drop_self_loops && edge.from == edge.to || shape.dedupe && last == Some(here);
        last = Some(here);
        if !is_left_out {
            let bits = if A::WEIGHTED { shape.bits(edge.weight)? } else { 0 };
            let row = (edge.from - own.start) as u32;
            offsets[row as usize + 1] += 1;
            arcs.push(Loose { to: edge.to, row, bits });
        }
        Ok(())
    };
    let mut fault = Ok(());
    let outcome = edges.rows(own.clone(), &mut |some| {
        if fault.is_ok() {
            fault = some.iter().try_for_each(&mut put);
        }
    });
    agree(comm, outcome.and(fault))?;
    for row in 1..offsets.len() {
        offsets[row] += offsets[row - 1];
        let row = &mut arcs[offsets[row - 1] as usize..offsets[row] as usize];
        // Counted from the first own vertex on, those before it are last.
        let before = row.partition_point(|arc| arc.to < own.start);
        row.rotate_left(before);
    }
    Ok((offsets, arcs))
}
