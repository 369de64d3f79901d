//! The precondition and postcondition of each operation.

use super::value::{RankSet, SymbolicValue};
use crate::layout::BufferMap;
use crate::op::Buf;
use crate::schedule::{BufferBlocks, Operation, buffer_blocks};

/// The id of an element of an all-to-all: sender, receiver, index.
fn alltoall_element(from: u32, to: u32, element: usize) -> u32 {
    debug_assert!(element < 1 << 16, "blocks of an all-to-all to be checked have fewer than 65536 elements");
    from << 24 | to << 16 | element as u32
}

/// Calls `each` with the blocks of a buffer: offset in the buffer, block, offset in the layout, number of elements.
fn for_each_block(buffer_map: BufferMap<'_>, buf: Buf, mut each: impl FnMut(usize, u32, usize, usize)) {
    let layout = if buf == Buf::In { &buffer_map.layouts.input } else { &buffer_map.layouts.output };
    let (lo, len) = match buffer_blocks(buffer_map.schedule, buffer_map.rank, buf) {
        BufferBlocks::Empty | BufferBlocks::Uniform { .. } => return,
        BufferBlocks::OwnBlock => (buffer_map.rank, 1),
        BufferBlocks::ViewRange { lo, len, .. } => (lo, len),
    };
    let base = layout.offset(lo);
    for block in lo..lo + len {
        let range = layout.range(block, 1);
        each(range.start - base, block, range.start, range.len());
    }
}

/// The initial values of `In`, or of the root's `Out` of a broadcast.
pub(crate) fn initial_values(buffer_map: BufferMap<'_>, mut put: impl FnMut(Buf, usize, SymbolicValue)) {
    let rank = buffer_map.rank;
    let (buf, is_alltoall) = match buffer_map.schedule.operation() {
        Operation::Barrier => return,
        Operation::Bcast { root } if rank != root => return,
        Operation::Bcast { .. } => (Buf::Out, false),
        Operation::Alltoall => (Buf::In, true),
        _ => (Buf::In, false),
    };
    for_each_block(buffer_map, buf, |at, block, global, len| {
        for k in 0..len {
            let element = if is_alltoall { alltoall_element(rank, block, k) } else { (global + k) as u32 };
            put(buf, at + k, SymbolicValue::new(element, rank));
        }
    });
}

/// The expected result in a block of `Out`.
pub(crate) struct Expected {
    pub(crate) block: u32,
    /// Its offset in `Out`, and its number of elements.
    pub(crate) at: usize,
    pub(crate) len: usize,
    /// The id of its first element; those of the others follow.
    pub(crate) first: u32,
    /// The contributing ranks.
    pub(crate) ranks_combined: RankSet,
}

/// Calls `each` with the expected result in each block of `Out`.
pub(crate) fn expected(buffer_map: BufferMap<'_>, mut each: impl FnMut(Expected)) {
    let (rank, ranks) = (buffer_map.rank, buffer_map.schedule.ranks());
    let operation = buffer_map.schedule.operation();
    let all = match operation {
        Operation::Barrier => return,
        Operation::Exscan if rank == 0 => return,
        Operation::Bcast { root } | Operation::Scatter { root } => Some(RankSet::single(root)),
        Operation::Gather { .. } | Operation::Allgather | Operation::Alltoall => None,
        Operation::Reduce { .. } | Operation::Allreduce | Operation::ReduceScatter => Some(RankSet::below(ranks)),
        Operation::Scan => Some(RankSet::below(rank + 1)),
        Operation::Exscan => Some(RankSet::below(rank)),
    };
    for_each_block(buffer_map, Buf::Out, |at, block, global, len| {
        let first = if operation == Operation::Alltoall { alltoall_element(block, rank, 0) } else { global as u32 };
        each(Expected { block, at, len, first, ranks_combined: all.unwrap_or_else(|| RankSet::single(block)) });
    });
}
