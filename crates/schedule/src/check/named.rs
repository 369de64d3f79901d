//! What an operation names, and how a fault tells it.

use crate::layout::Places;
use crate::op::{Buf, Op, Part};

/// What an operation names.
pub(super) struct Named {
    pub(super) peer: Option<u32>,
    pub(super) reads: Option<Part>,
    pub(super) writes: Option<Part>,
    /// Whether what it writes is combined with what is there.
    pub(super) combines: bool,
}

pub(super) fn named(op: Op) -> Named {
    let (peer, reads, writes, combines) = match op {
        Op::Send { to, part } => (Some(to), Some(part), None, false),
        Op::Recv { from, part } => (Some(from), None, Some(part), false),
        Op::RecvReduce { from, part, .. } => (Some(from), None, Some(part), true),
        Op::Copy { from, to } => (None, Some(from), Some(to), false),
        Op::Reduce { from, into, .. } => (None, Some(from), Some(into), true),
    };
    Named { peer, reads, writes, combines }
}

/// The block that the k-th element of a part belongs to.
pub(super) fn block_of(places: Places<'_>, part: Part, k: usize) -> u32 {
    let (mut before, mut first, mut found) = (0, None, None);
    places.blocks(part, |block, len| {
        before += len;
        first.get_or_insert(block);
        if before > k {
            found.get_or_insert(block);
        }
    });
    found.or(first).unwrap_or(part.lo)
}

pub(super) fn name(buf: Buf) -> String {
    format!("{buf:?}")
}

/// What a message is about.
pub(super) fn what(places: Places<'_>, op: Op) -> String {
    let Named { reads, writes, .. } = named(op);
    match reads.or(writes) {
        Some(part) if part.len > 0 => format!("block {} of {}", block_of(places, part, 0), name(part.buf)),
        _ => "no data".to_owned(),
    }
}
