//! What algorithms cost, as far as a choice needs it.
//!
//! A rank's way through an algorithm is a number of steps, each of which waits for another rank, a number of messages, and
//! bytes that it moves and combines. Where ranks share cores, a step costs until all others have had their turn, and the
//! cores' bandwidth is shared.

use treepie_schedule::Operation;

/// What things cost on an engine, in seconds; the same on all ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prices {
    /// Until a message that was sent is there.
    step: f64,
    /// To send and receive a message.
    message: f64,
    /// To move a byte from one rank to another.
    byte: f64,
    /// To combine a byte.
    fold: f64,
    /// Longer messages wait for the receiver's answer: this much more.
    answer: f64,
    /// Bytes from which they do.
    long: f64,
    /// Until all ranks have met at a board.
    meeting: f64,
}

impl Prices {
    /// Of ranks in shared memory, so many of them to a core. Measured on two cores with 2, 8 and 16 ranks.
    pub(crate) fn shared_memory(ranks_per_core: f64, long: usize) -> Self {
        // Ranks that share a core sleep and have to be woken.
        let crowd = if ranks_per_core > 1.0 { ranks_per_core } else { 0.0 };
        Self {
            step: 0.2e-6 + 0.6e-6 * crowd,
            message: 0.06e-6 + 0.5e-6 * crowd,
            byte: 0.08e-9 * ranks_per_core.max(1.0),
            fold: 0.15e-9 * ranks_per_core.max(1.0),
            answer: 0.8e-6 + 0.6e-6 * crowd,
            long: long as f64,
            meeting: 0.4e-6 + 1.8e-6 * crowd,
        }
    }

    /// Of ranks on a network.
    pub(crate) fn network(long: usize) -> Self {
        let (step, message, meeting) = (1.5e-6, 0.5e-6, f64::INFINITY);
        Self { step, message, byte: 0.1e-9, fold: 0.15e-9, answer: 2e-6, long: long as f64, meeting }
    }
}

/// A rank's way through an algorithm.
#[derive(Clone, Copy, Debug)]
struct Way {
    steps: f64,
    messages: f64,
    bytes: f64,
    folded: f64,
}

impl Way {
    fn by_messages(self, prices: &Prices) -> f64 {
        let long = self.messages > 0.0 && self.bytes / self.messages > prices.long;
        let answer = if long { self.steps * prices.answer } else { 0.0 };
        self.steps * prices.step
            + self.messages * prices.message
            + self.bytes * prices.byte
            + self.folded * prices.fold
            + answer
    }
}

/// The same over a board: meetings, bytes written and read, bytes combined, and the most bytes that a rank writes for a
/// meeting.
#[derive(Clone, Copy, Debug)]
struct Meetings {
    count: f64,
    bytes: f64,
    folded: f64,
    written: f64,
}

/// An algorithm that may be chosen, by its id.
pub(crate) struct Candidate {
    pub(crate) id: &'static str,
    way: fn(p: f64, lg: f64, n: f64) -> Way,
    /// If its messages are received in the round in which they are sent.
    meetings: Option<fn(p: f64, n: f64) -> Meetings>,
}

impl Candidate {
    /// How long it takes for `ranks` ranks and `bytes` bytes, which are those of all blocks or of the vector. `board` is
    /// what a rank can write on a board, if there is one.
    pub(crate) fn time(&self, prices: &Prices, ranks: u32, bytes: usize, board: Option<usize>) -> f64 {
        let lg = f64::from(ranks.next_power_of_two().trailing_zeros());
        let (p, n) = (f64::from(ranks), bytes as f64);
        if let (Some(capacity), Some(meetings)) = (board, self.meetings) {
            let Meetings { count, bytes, folded, written } = meetings(p, n);
            if written <= capacity as f64 {
                // Where there is a board for it, it is used.
                return count * prices.meeting + bytes * prices.byte + folded * prices.fold;
            }
        }
        (self.way)(p, lg, n).by_messages(prices)
    }
}

const fn candidate(id: &'static str, way: fn(f64, f64, f64) -> Way) -> Candidate {
    Candidate { id, way, meetings: None }
}

impl Candidate {
    const fn meeting(self, meetings: fn(f64, f64) -> Meetings) -> Self {
        Self { meetings: Some(meetings), ..self }
    }
}

const fn meetings(count: f64, bytes: f64, folded: f64, written: f64) -> Meetings {
    Meetings { count, bytes, folded, written }
}

const fn way(steps: f64, messages: f64, bytes: f64, folded: f64) -> Way {
    Way { steps, messages, bytes, folded }
}

/// `n` is the vector.
const BCAST: [Candidate; 4] = [
    candidate("bcast/flat", |p, _, n| way(1.0, p - 1.0, n * (p - 1.0), 0.0))
        .meeting(|_, n| meetings(1.0, 2.0 * n, 0.0, n)),
    candidate("bcast/binomial", |_, lg, n| way(lg, lg, n * lg, 0.0)),
    candidate("bcast/chain", |p, _, n| way(p, n / 65536.0 + p, 2.0 * n, 0.0)),
    candidate("bcast/scatter_allgather:ring", |p, lg, n| way(lg + p, lg + p, 2.0 * n, 0.0)),
];

/// `n` is all blocks.
const SCATTER: [Candidate; 2] = [
    candidate("scatter/flat", |p, _, n| way(1.0, p, n, 0.0)).meeting(|p, n| meetings(1.0, n + n / p, 0.0, n)),
    candidate("scatter/binomial", |_, lg, n| way(lg, lg, n * lg / 2.0, 0.0)),
];

const GATHER: [Candidate; 2] = [
    candidate("gather/flat", |p, _, n| way(1.0, p, n, 0.0)).meeting(|p, n| meetings(1.0, n + n / p, 0.0, n / p)),
    candidate("gather/binomial", |_, lg, n| way(lg, lg, n * lg / 2.0, 0.0)),
];

const ALLGATHER: [Candidate; 4] = [
    candidate("allgather/linear", |p, _, n| way(1.0, p - 1.0, n, 0.0))
        .meeting(|p, n| meetings(1.0, n + n / p, 0.0, n / p)),
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
    candidate("allreduce/direct", |p, _, n| way(2.0, 2.0 * (p - 1.0), 2.0 * n, n))
        .meeting(|p, n| meetings(2.0, n * (4.0 + 1.0 / p), n, n)),
    candidate("allreduce/linear", |p, _, n| way(1.0, p - 1.0, n * p, n * p))
        .meeting(|p, n| meetings(1.0, n * (p + 2.0), n * p, n)),
    candidate("allreduce/recursive_doubling", |_, lg, n| way(lg, lg, n * lg, n * lg)),
    candidate("allreduce/rabenseifner", |_, lg, n| way(2.0 * lg, 2.0 * lg, 2.0 * n, n)),
    candidate("allreduce/ring", |p, _, n| way(2.0 * (p - 1.0), 2.0 * (p - 1.0), 2.0 * n, n)),
];

/// `n` is all blocks.
const REDUCE_SCATTER: [Candidate; 3] = [
    candidate("reduce_scatter/linear", |p, _, n| way(1.0, p - 1.0, n, n)).meeting(|_, n| meetings(1.0, 2.0 * n, n, n)),
    candidate("reduce_scatter/pairwise", |p, _, n| way(p - 1.0, p - 1.0, n, n)),
    candidate("reduce_scatter/distance_halving", |_, lg, n| way(lg, lg, 2.0 * n, n)),
];

const ALLTOALL: [Candidate; 3] = [
    candidate("alltoall/linear", |p, _, n| way(1.0, p - 1.0, n, 0.0)).meeting(|_, n| meetings(1.0, 2.0 * n, 0.0, n)),
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
