//! Vertex layout from a partition file: rank p modulo the number of ranks owns part p.
//!
//! Each rank reads a block of the lines and sends the vertices to their owners. These reply with the global ids, so the
//! reader of a line can then resolve that vertex for the other ranks. No rank has a table of all vertices.

use std::ops::Range;
use std::path::Path;

use treepie_base::Rank;
use treepie_comm::Comm;
use treepie_sparse::SparseExchange;

use crate::agree::agree;
use crate::directory::DirectoryLookup;
use crate::read::{line_count_mismatch, read_partition};
use crate::{Result, VertexLayout};

/// The layout of the vertices `ids`, and the global ids of some distinct external ids, in their order; those out of range are
/// unknown. All ranks call it.
pub(crate) fn layout_from_partition(
    comm: &Comm,
    file: &Path,
    ids: Range<u64>,
    external_ids: &[u64],
) -> Result<(VertexLayout, Vec<u64>)> {
    let (rank, ranks) = (comm.rank(), comm.size());
    let parts = agree(comm, read_partition(file, rank, ranks))?;
    let lines = comm.allgather(&[parts.len() as u64])?;
    let starts: Vec<u64> = (0..=ranks).map(|rank| lines[..rank].iter().sum()).collect();
    let vertices = ids.end - ids.start;
    if starts[ranks] != vertices {
        return Err(line_count_mismatch(file, starts[ranks], vertices));
    }
    // The vertex of the first line of each rank.
    let starts: Vec<u64> = starts.into_iter().map(|line| ids.start + line).collect();

    let mut by_owner = vec![Vec::new(); ranks];
    let owners: Vec<u32> = parts.into_iter().map(|part| (part % ranks as u64) as u32).collect();
    (starts[rank]..).zip(&owners).for_each(|(vertex, owner)| by_owner[*owner as usize].push(vertex));
    let outgoing = by_owner.into_iter().enumerate().filter(|(_, vertices)| !vertices.is_empty());
    // Lower ranks send lower vertices, so they arrive sorted.
    let received = comm.exchange(outgoing)?;
    let local: Vec<u64> = received.iter().flat_map(|(_, vertices)| vertices).copied().collect();
    let counts = comm.allgather(&[local.len() as u64])?;
    let mut next: u64 = counts[..rank].iter().sum();
    // The first global id is enough: those of a rank's vertices are consecutive, and so are those of one message.
    let replies: Vec<(Rank, Vec<u64>)> = received
        .iter()
        .map(|(from, vertices)| {
            let first = next;
            next += vertices.len() as u64;
            (*from, vec![first])
        })
        .collect();
    let mut next_id_of = vec![0; ranks];
    comm.exchange(replies)?.into_iter().for_each(|(from, first)| next_id_of[from] = first[0]);
    let next_id = |owner: &u32| {
        let next_id = &mut next_id_of[*owner as usize];
        *next_id += 1;
        *next_id - 1
    };
    let line_ids: Vec<u64> = owners.iter().map(next_id).collect();

    let reader = |external_id: u64| {
        ids.contains(&external_id).then(|| starts.partition_point(|start| *start <= external_id) - 1)
    };
    let lookup = DirectoryLookup::post(comm, external_ids, reader)?;
    let global_ids = lookup.resolve(comm, |external_id| line_ids[(external_id - starts[rank]) as usize])?;
    Ok((VertexLayout::with_external_ids(rank, &counts, local).with_first_id(ids.start), global_ids))
}
