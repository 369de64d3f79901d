//! What each operation begins with, and what it must end with.

use super::value::{Set, Value};
use crate::layout::Places;
use crate::op::Buf;
use crate::schedule::{Held, Operation, held};

/// An element of an all-to-all: from whom, to whom, which.
fn item(from: u32, to: u32, element: usize) -> u32 {
    debug_assert!(element < 1 << 16, "blocks of an all-to-all in a proof have fewer than 65536 elements");
    from << 24 | to << 16 | element as u32
}

/// Calls `each` with the blocks of a buffer: where it begins in the buffer, the block, where it begins in the layout, how
/// many elements it has.
fn blocks(places: Places<'_>, buf: Buf, mut each: impl FnMut(usize, u32, usize, usize)) {
    let layout = if buf == Buf::In { &places.layouts.input } else { &places.layouts.output };
    let (lo, len) = match held(places.schedule, places.rank, buf) {
        Held::Nothing => return,
        Held::Own => (places.rank, 1),
        Held::Positions { lo, len, .. } => (lo, len),
    };
    let base = layout.offset(lo);
    for block in lo..lo + len {
        let range = layout.range(block, 1);
        each(range.start - base, block, range.start, range.len());
    }
}

/// What lies in `In`, or in the root's `Out` of a broadcast, before the operation.
pub(crate) fn initial(places: Places<'_>, mut put: impl FnMut(Buf, usize, Value)) {
    let rank = places.rank;
    let (buf, to_each) = match places.schedule.operation() {
        Operation::Barrier => return,
        Operation::Bcast { root } if rank != root => return,
        Operation::Bcast { .. } => (Buf::Out, false),
        Operation::Alltoall => (Buf::In, true),
        _ => (Buf::In, false),
    };
    blocks(places, buf, |at, block, global, len| {
        for k in 0..len {
            let item = if to_each { item(rank, block, k) } else { (global + k) as u32 };
            put(buf, at + k, Value::of(item, rank));
        }
    });
}

/// A block of `Out` as it must be after the operation.
pub(crate) struct Expected {
    pub(crate) block: u32,
    /// Where it begins in `Out`, and how many elements it has.
    pub(crate) at: usize,
    pub(crate) len: usize,
    /// The item of its first element; those of the others follow.
    pub(crate) first: u32,
    /// Whose contributions.
    pub(crate) set: Set,
}

/// Calls `each` with the blocks of `Out` that the operation fills.
pub(crate) fn expected(places: Places<'_>, mut each: impl FnMut(Expected)) {
    let (rank, ranks) = (places.rank, places.schedule.ranks());
    let operation = places.schedule.operation();
    let all = match operation {
        Operation::Barrier => return,
        Operation::Exscan if rank == 0 => return,
        Operation::Bcast { root } | Operation::Scatter { root } => Some(Set::one(root)),
        Operation::Gather { .. } | Operation::Allgather | Operation::Alltoall => None,
        Operation::Reduce { .. } | Operation::Allreduce | Operation::ReduceScatter => Some(Set::below(ranks)),
        Operation::Scan => Some(Set::below(rank + 1)),
        Operation::Exscan => Some(Set::below(rank)),
    };
    blocks(places, Buf::Out, |at, block, global, len| {
        let first = if operation == Operation::Alltoall { item(block, rank, 0) } else { global as u32 };
        each(Expected { block, at, len, first, set: all.unwrap_or_else(|| Set::one(block)) });
    });
}
