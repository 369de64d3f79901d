//! The memory accesses of an operation, and their description in errors.

use crate::layout::BufferMap;
use crate::op::{BlockRange, Buf, ScheduleOp};

/// The peer and the block ranges that an operation accesses.
pub(super) struct OpAccess {
    pub(super) peer: Option<u32>,
    pub(super) reads: Option<BlockRange>,
    pub(super) writes: Option<BlockRange>,
    /// Whether the write combines with the previous contents.
    pub(super) combines: bool,
}

pub(super) fn op_access(op: ScheduleOp) -> OpAccess {
    let (peer, reads, writes, combines) = match op {
        ScheduleOp::Send { to, part } => (Some(to), Some(part), None, false),
        ScheduleOp::Recv { from, part } => (Some(from), None, Some(part), false),
        ScheduleOp::RecvReduce { from, part, .. } => (Some(from), None, Some(part), true),
        ScheduleOp::Copy { from, to } => (None, Some(from), Some(to), false),
        ScheduleOp::Reduce { from, into, .. } => (None, Some(from), Some(into), true),
    };
    OpAccess { peer, reads, writes, combines }
}

/// The block of the k-th element of a block range.
pub(super) fn block_of(buffer_map: BufferMap<'_>, part: BlockRange, k: usize) -> u32 {
    let (mut before, mut first, mut found) = (0, None, None);
    buffer_map.blocks(part, |block, len| {
        before += len;
        first.get_or_insert(block);
        if before > k {
            found.get_or_insert(block);
        }
    });
    found.or(first).unwrap_or(part.lo)
}

pub(super) fn buf_name(buf: Buf) -> String {
    format!("{buf:?}")
}

/// The first block of a message.
pub(super) fn describe(buffer_map: BufferMap<'_>, op: ScheduleOp) -> String {
    let OpAccess { reads, writes, .. } = op_access(op);
    match reads.or(writes) {
        Some(part) if part.len > 0 => format!("block {} of {}", block_of(buffer_map, part, 0), buf_name(part.buf)),
        _ => "no data".to_owned(),
    }
}
