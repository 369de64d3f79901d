//! The algorithms considered by the automatic selection, with their cost profiles.

use treepie_schedule::Operation;

use super::cost::{Candidate, MessageProfile, SegmentProfile, TransportCosts};

const fn candidate(id: &'static str, messages: fn(f64, f64, f64) -> MessageProfile) -> Candidate {
    Candidate { id, messages, segment_profile: None }
}

impl Candidate {
    const fn with_slot_rounds(self, segment_profile: fn(f64, f64) -> SegmentProfile) -> Self {
        Self { segment_profile: Some(segment_profile), ..self }
    }
}

const fn message_profile(steps: f64, messages: f64, bytes: f64, reduced: f64) -> MessageProfile {
    MessageProfile { steps, messages, bytes, reduced }
}

/// A round over the shared segment in which each rank writes `written` bytes and reads `read` bytes in `parts` reads.
const fn slot_round(written: f64, read: f64, parts: f64) -> SegmentProfile {
    SegmentProfile {
        slot_rounds: 1.0,
        max_written: written,
        written,
        read,
        parts,
        reduced: 0.0,
        sends_unmodified: true,
    }
}

/// A round in which one rank of `p` writes `written` bytes.
const fn slot_round_of_root(p: f64, written: f64, read: f64) -> SegmentProfile {
    SegmentProfile { max_written: written, ..slot_round(written / p, read, 1.0) }
}

/// The part of `n` that belongs to the other ranks.
fn remote_share(p: f64, n: f64) -> f64 {
    n * (p - 1.0) / p
}

/// `n` is the length of the vector.
const BCAST: [Candidate; 4] = [
    candidate("bcast/flat", |p, _, n| message_profile(1.0, p - 1.0, n * (p - 1.0), 0.0))
        .with_slot_rounds(|p, n| slot_round_of_root(p, n, n)),
    candidate("bcast/binomial", |_, lg, n| message_profile(lg, lg, n * lg, 0.0)),
    candidate("bcast/chain", |p, _, n| message_profile(p, n / 65536.0 + p, 2.0 * n, 0.0)),
    candidate("bcast/scatter_allgather:ring", |p, lg, n| message_profile(lg + p, lg + p, 2.0 * n, 0.0)),
];

/// `n` is the length of all blocks.
const SCATTER: [Candidate; 2] = [
    candidate("scatter/flat", |p, _, n| message_profile(1.0, p, n, 0.0))
        .with_slot_rounds(|p, n| slot_round_of_root(p, n, n / p)),
    candidate("scatter/binomial", |_, lg, n| message_profile(lg, lg, n * lg / 2.0, 0.0)),
];

const GATHER: [Candidate; 2] = [
    candidate("gather/flat", |p, _, n| message_profile(1.0, p, n, 0.0))
        .with_slot_rounds(|p, n| slot_round(n / p, remote_share(p, n), p - 1.0)),
    candidate("gather/binomial", |_, lg, n| message_profile(lg, lg, n * lg / 2.0, 0.0)),
];

const ALLGATHER: [Candidate; 4] = [
    candidate("allgather/linear", |p, _, n| message_profile(1.0, p - 1.0, n, 0.0))
        .with_slot_rounds(|p, n| slot_round(n / p, remote_share(p, n), p - 1.0)),
    candidate("allgather/bruck", |_, lg, n| message_profile(lg, lg, n, 0.0)),
    candidate("allgather/distance_doubling", |_, lg, n| message_profile(lg, lg, n, 0.0)),
    candidate("allgather/ring", |p, _, n| message_profile(p - 1.0, p - 1.0, n, 0.0)),
];

/// `n` is the length of the vector.
const REDUCE: [Candidate; 2] = [
    candidate("reduce/binomial", |_, lg, n| message_profile(lg, lg, n * lg, n * lg)),
    candidate("reduce/reduce_scatter_gather:distance_halving", |_, lg, n| {
        message_profile(2.0 * lg, 2.0 * lg, 2.0 * n, n)
    }),
];

const ALLREDUCE: [Candidate; 5] = [
    candidate("allreduce/direct", |p, _, n| {
        message_profile(2.0, 2.0 * (p - 1.0), 2.0 * remote_share(p, n), remote_share(p, n))
    })
    .with_slot_rounds(|p, n| {
        let (max_written, reduced) = (remote_share(p, n), remote_share(p, n));
        SegmentProfile {
            slot_rounds: 2.0,
            max_written,
            reduced,
            ..slot_round(n, 2.0 * remote_share(p, n), 2.0 * (p - 1.0))
        }
    }),
    candidate("allreduce/linear", |p, _, n| message_profile(1.0, p - 1.0, n * p, n * p)).with_slot_rounds(|p, n| {
        let read = n * (p - 1.0);
        SegmentProfile { reduced: read, sends_unmodified: false, ..slot_round(n, read, p - 1.0) }
    }),
    candidate("allreduce/recursive_doubling", |_, lg, n| message_profile(lg, lg, n * lg, n * lg)),
    candidate("allreduce/rabenseifner", |p, lg, n| {
        message_profile(2.0 * lg, 2.0 * lg, 2.0 * remote_share(p, n), remote_share(p, n))
    }),
    candidate("allreduce/ring", |p, _, n| {
        message_profile(2.0 * (p - 1.0), 2.0 * (p - 1.0), 2.0 * remote_share(p, n), remote_share(p, n))
    }),
];

/// `n` is the length of all blocks.
const REDUCE_SCATTER: [Candidate; 3] = [
    candidate("reduce_scatter/linear", |p, _, n| message_profile(1.0, p - 1.0, remote_share(p, n), remote_share(p, n)))
        .with_slot_rounds(|p, n| SegmentProfile {
            reduced: remote_share(p, n),
            ..slot_round(remote_share(p, n), remote_share(p, n), p - 1.0)
        }),
    candidate("reduce_scatter/pairwise", |p, _, n| {
        message_profile(p - 1.0, p - 1.0, remote_share(p, n), remote_share(p, n))
    }),
    candidate("reduce_scatter/distance_halving", |p, lg, n| {
        message_profile(lg, lg, remote_share(p, n), remote_share(p, n))
    }),
];

const ALLTOALL: [Candidate; 3] = [
    candidate("alltoall/linear", |p, _, n| message_profile(1.0, p - 1.0, n, 0.0))
        .with_slot_rounds(|p, n| slot_round(remote_share(p, n), remote_share(p, n), p - 1.0)),
    candidate("alltoall/pairwise", |p, _, n| message_profile(p - 1.0, p - 1.0, n, 0.0)),
    candidate("alltoall/bruck", |_, lg, n| message_profile(lg, lg, n * (1.0 + lg / 2.0), 0.0)),
];

/// `n` is the length of the vector.
const SCAN: [Candidate; 2] = [
    candidate("scan/linear", |p, _, n| message_profile(p - 1.0, 1.0, n, n)),
    candidate("scan/recursive_doubling", |_, lg, n| message_profile(lg, lg, n * lg, n * lg)),
];

const EXSCAN: [Candidate; 2] = [
    candidate("exscan/linear", |p, _, n| message_profile(p - 1.0, 1.0, n, n)),
    candidate("exscan/recursive_doubling", |_, lg, n| message_profile(lg, lg, n * lg, n * lg)),
];

const BARRIER: [Candidate; 1] = [candidate("barrier/dissemination", |_, lg, _| message_profile(lg, lg, 0.0, 0.0))];

/// Dimensions of the grid over which alltoallv forwards blocks by default, if it does. Depends on the number of ranks
/// alone, as no rank knows all counts. Assumes blocks of 512 bytes, and requires store and forward to be cheaper by
/// half, since it costs twice as much for longer blocks.
pub(crate) fn alltoallv_grid_dimensions(costs: &TransportCosts, ranks: u32) -> Option<u32> {
    let (p, n) = (f64::from(ranks), 512.0 * f64::from(ranks));
    let direct = message_profile(1.0, p - 1.0, n, 0.0).time(costs);
    let forwarded = message_profile(2.0, 2.0 * (p.sqrt() - 1.0), 2.0 * n, 0.0).time(costs);
    (1.5 * forwarded < direct).then_some(2)
}

/// The algorithms considered for an operation by the automatic selection.
pub(crate) fn candidates(operation: Operation) -> &'static [Candidate] {
    match operation {
        Operation::Barrier => &BARRIER,
        Operation::Bcast { .. } => &BCAST,
        Operation::Scatter { .. } => &SCATTER,
        Operation::Gather { .. } => &GATHER,
        Operation::Allgather => &ALLGATHER,
        Operation::Reduce { .. } => &REDUCE,
        Operation::Allreduce => &ALLREDUCE,
        Operation::ReduceScatter => &REDUCE_SCATTER,
        Operation::Alltoall => &ALLTOALL,
        Operation::Scan => &SCAN,
        Operation::Exscan => &EXSCAN,
    }
}
