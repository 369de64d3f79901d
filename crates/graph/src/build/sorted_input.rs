//! Sorted input: each rank reads the rows of its local vertices, without messages and without sorting.

use std::ops::Range;

use treepie_base::memory::zeroed;
use treepie_comm::Comm;

use super::{BuildOptions, weight_bits};
use crate::agree::agree;
use crate::csr::ROWS_PURPOSE;
use crate::sorted_rows::{GlobalId, SortedRows};
use crate::{Distribution, Edge, EdgeSource, EdgeWeight, Error, Result, WeightKind};

/// Whether rows can be read directly: edges are sorted, external ids are global ids, and each edge is one arc of its
/// row.
pub(super) fn is_applicable(edges: &dyn EdgeSource, options: &BuildOptions) -> bool {
    let (twice, symmetric) = options.directions(edges.orientation());
    let is_identity = options.distribution == Distribution::Block && options.partition_file.is_none();
    edges.is_sorted() && is_identity && !twice && (symmetric || !options.store_in_edges)
}

/// Reads the rows of local vertices, with local targets first. All ranks call it.
pub(super) fn read_csr<W: EdgeWeight, T: GlobalId>(
    comm: &Comm,
    local: Range<u64>,
    edges: &dyn EdgeSource,
    options: &BuildOptions,
) -> Result<SortedRows<T>> {
    let offsets = zeroed::<u64>((local.end - local.start) as usize + 1, ROWS_PURPOSE);
    let mut offsets = agree(comm, offsets.map_err(Error::from))?;
    let first_id = edges.first_id();
    let (mut targets, mut weights) = (Vec::new(), Vec::new());
    let mut last = None;
    let mut push = |edge: &Edge| -> Result<()> {
        // Global ids; an external id that is too small gets one that is too large.
        let endpoints @ (from, to) = (edge.from.wrapping_sub(first_id), edge.to.wrapping_sub(first_id));
        if !local.contains(&from) || last.is_some_and(|last| endpoints < last) {
            return Err(Error::Input(format!("an edge from {} to {} is out of order", edge.from, edge.to)));
        }
        // The first of parallel arcs is the lightest.
        let is_dropped = options.drop_self_loops && from == to || options.dedupe && last == Some(endpoints);
        last = Some(endpoints);
        if !is_dropped {
            offsets[(from - local.start) as usize + 1] += 1;
            targets.push(T::from_low_bits(to));
            let bits = weight_bits::<W>(edge.weight)?;
            if W::KIND != WeightKind::None {
                weights.push(bits);
            }
        }
        Ok(())
    };
    let mut fault = Ok(());
    let outcome = edges.read_rows(local.clone(), &mut |some| {
        if fault.is_ok() {
            fault = some.iter().try_for_each(&mut push);
        }
    });
    agree(comm, outcome.and(fault))?;
    for row in 1..offsets.len() {
        offsets[row] += offsets[row - 1];
        let arcs = offsets[row - 1] as usize..offsets[row] as usize;
        // Relative to the first local vertex, targets before it sort last.
        let before = targets[arcs.clone()].partition_point(|target: &T| (*target).into() < local.start);
        targets[arcs.clone()].rotate_left(before);
        if let Some(weights) = weights.get_mut(arcs) {
            weights.rotate_left(before);
        }
    }
    Ok(SortedRows { offsets, targets, weight_bits: weights })
}
