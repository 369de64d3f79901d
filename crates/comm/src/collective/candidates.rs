//! The algorithms that may be chosen without being asked for, and a rank's way through each.

use treepie_schedule::Operation;

use super::cost::{Candidate, Meetings, Messages, Prices};

const fn candidate(id: &'static str, messages: fn(f64, f64, f64) -> Messages) -> Candidate {
    Candidate { id, messages, meetings: None }
}

impl Candidate {
    const fn meeting(self, meetings: fn(f64, f64) -> Meetings) -> Self {
        Self { meetings: Some(meetings), ..self }
    }
}

const fn way(steps: f64, messages: f64, bytes: f64, folded: f64) -> Messages {
    Messages { steps, messages, bytes, folded }
}

/// One meeting for which each rank writes `written` bytes and reads `read` in `parts`.
const fn meeting(written: f64, read: f64, parts: f64) -> Meetings {
    Meetings { count: 1.0, most: written, written, read, parts, folded: 0.0, sends_what_stays: true }
}

/// One meeting for which one rank of `p` writes `written` bytes.
const fn of_one(p: f64, written: f64, read: f64) -> Meetings {
    Meetings { most: written, ..meeting(written / p, read, 1.0) }
}

/// What a rank has to do with the other ranks' part of `n`.
fn others(p: f64, n: f64) -> f64 {
    n * (p - 1.0) / p
}

/// `n` is the vector.
const BCAST: [Candidate; 4] = [
    candidate("bcast/flat", |p, _, n| way(1.0, p - 1.0, n * (p - 1.0), 0.0)).meeting(|p, n| of_one(p, n, n)),
    candidate("bcast/binomial", |_, lg, n| way(lg, lg, n * lg, 0.0)),
    candidate("bcast/chain", |p, _, n| way(p, n / 65536.0 + p, 2.0 * n, 0.0)),
    candidate("bcast/scatter_allgather:ring", |p, lg, n| way(lg + p, lg + p, 2.0 * n, 0.0)),
];

/// `n` is all blocks.
const SCATTER: [Candidate; 2] = [
    candidate("scatter/flat", |p, _, n| way(1.0, p, n, 0.0)).meeting(|p, n| of_one(p, n, n / p)),
    candidate("scatter/binomial", |_, lg, n| way(lg, lg, n * lg / 2.0, 0.0)),
];

const GATHER: [Candidate; 2] = [
    candidate("gather/flat", |p, _, n| way(1.0, p, n, 0.0)).meeting(|p, n| meeting(n / p, others(p, n), p - 1.0)),
    candidate("gather/binomial", |_, lg, n| way(lg, lg, n * lg / 2.0, 0.0)),
];

const ALLGATHER: [Candidate; 4] = [
    candidate("allgather/linear", |p, _, n| way(1.0, p - 1.0, n, 0.0))
        .meeting(|p, n| meeting(n / p, others(p, n), p - 1.0)),
    candidate("allgather/bruck", |_, lg, n| way(lg, lg, n, 0.0)),
    candidate("allgather/distance_doubling", |_, lg, n| way(lg, lg, n, 0.0)),
    candidate("allgather/ring", |p, _, n| way(p - 1.0, p - 1.0, n, 0.0)),
];

/// `n` is the vector.
const REDUCE: [Candidate; 2] = [
    candidate("reduce/binomial", |_, lg, n| way(lg, lg, n * lg, n * lg)),
    candidate("reduce/reduce_scatter_gather:distance_halving", |_, lg, n| way(2.0 * lg, 2.0 * lg, 2.0 * n, n)),
];

const ALLREDUCE: [Candidate; 5] = [
    candidate("allreduce/direct", |p, _, n| way(2.0, 2.0 * (p - 1.0), 2.0 * others(p, n), others(p, n))).meeting(
        |p, n| {
            let (most, folded) = (others(p, n), others(p, n));
            Meetings { count: 2.0, most, folded, ..meeting(n, 2.0 * others(p, n), 2.0 * (p - 1.0)) }
        },
    ),
    candidate("allreduce/linear", |p, _, n| way(1.0, p - 1.0, n * p, n * p)).meeting(|p, n| {
        let read = n * (p - 1.0);
        Meetings { folded: read, sends_what_stays: false, ..meeting(n, read, p - 1.0) }
    }),
    candidate("allreduce/recursive_doubling", |_, lg, n| way(lg, lg, n * lg, n * lg)),
    candidate("allreduce/rabenseifner", |p, lg, n| way(2.0 * lg, 2.0 * lg, 2.0 * others(p, n), others(p, n))),
    candidate("allreduce/ring", |p, _, n| way(2.0 * (p - 1.0), 2.0 * (p - 1.0), 2.0 * others(p, n), others(p, n))),
];

/// `n` is all blocks.
const REDUCE_SCATTER: [Candidate; 3] = [
    candidate("reduce_scatter/linear", |p, _, n| way(1.0, p - 1.0, others(p, n), others(p, n)))
        .meeting(|p, n| Meetings { folded: others(p, n), ..meeting(others(p, n), others(p, n), p - 1.0) }),
    candidate("reduce_scatter/pairwise", |p, _, n| way(p - 1.0, p - 1.0, others(p, n), others(p, n))),
    candidate("reduce_scatter/distance_halving", |p, lg, n| way(lg, lg, others(p, n), others(p, n))),
];

const ALLTOALL: [Candidate; 3] = [
    candidate("alltoall/linear", |p, _, n| way(1.0, p - 1.0, n, 0.0))
        .meeting(|p, n| meeting(others(p, n), others(p, n), p - 1.0)),
    candidate("alltoall/pairwise", |p, _, n| way(p - 1.0, p - 1.0, n, 0.0)),
    candidate("alltoall/bruck", |_, lg, n| way(lg, lg, n * (1.0 + lg / 2.0), 0.0)),
];

/// `n` is the vector.
const SCAN: [Candidate; 2] = [
    candidate("scan/linear", |p, _, n| way(p - 1.0, 1.0, n, n)),
    candidate("scan/recursive_doubling", |_, lg, n| way(lg, lg, n * lg, n * lg)),
];

const EXSCAN: [Candidate; 2] = [
    candidate("exscan/linear", |p, _, n| way(p - 1.0, 1.0, n, n)),
    candidate("exscan/recursive_doubling", |_, lg, n| way(lg, lg, n * lg, n * lg)),
];

const BARRIER: [Candidate; 1] = [candidate("barrier/dissemination", |_, lg, _| way(lg, lg, 0.0, 0.0))];

/// The dimensions of the grid over which blocks of unequal lengths go without being asked for, if they do: from the number
/// of ranks alone, as nobody knows all lengths. Blocks are taken to be of 512 bytes, and store and forward must be
/// cheaper by half, since with longer ones it costs twice as much.
pub(crate) fn unequal_dimensions(prices: &Prices, ranks: u32) -> Option<u32> {
    let (p, n) = (f64::from(ranks), 512.0 * f64::from(ranks));
    let straight = way(1.0, p - 1.0, n, 0.0).time(prices);
    let forwarded = way(2.0, 2.0 * (p.sqrt() - 1.0), 2.0 * n, 0.0).time(prices);
    (1.5 * forwarded < straight).then_some(2)
}

/// The algorithms that may be chosen for an operation without being asked for.
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
