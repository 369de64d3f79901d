//! What algorithms cost, as far as a choice needs it.
//!
//! A rank's way through an algorithm is a number of steps, each of which waits for another rank, a number of messages, and
//! bytes that it moves and combines. Where ranks share cores, a step costs until all others have had their turn, and the
//! cores' bandwidth is shared.

use treepie_fabric::Room;
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
    /// To write a byte on the board, or to read it there.
    written: f64,
    /// To fetch from where it lies: each time, and for each byte.
    fetch: f64,
    fetched: f64,
}

impl Prices {
    /// Of ranks in shared memory, so many of them to a core. Measured on two cores with 2, 8 and 16 ranks.
    pub(crate) fn shared_memory(ranks_per_core: f64, long: usize) -> Self {
        // Ranks that share a core sleep and have to be woken.
        let crowd = if ranks_per_core > 1.0 { ranks_per_core } else { 0.0 };
        let share = ranks_per_core.max(1.0);
        Self {
            step: 0.2e-6 + 0.6e-6 * crowd,
            message: 0.06e-6 + 0.5e-6 * crowd,
            byte: 0.08e-9 * share,
            fold: 0.15e-9 * share,
            answer: 0.8e-6 + 0.6e-6 * crowd,
            long: long as f64,
            meeting: 0.15e-6 + 1.0e-6 * crowd,
            written: 0.06e-9 * share,
            fetch: 0.7e-6 * share,
            fetched: 0.07e-9 * share,
        }
    }

    /// Of ranks on a network.
    pub(crate) fn network(long: usize) -> Self {
        Self {
            step: 1.5e-6,
            message: 0.5e-6,
            byte: 0.1e-9,
            fold: 0.15e-9,
            answer: 2e-6,
            long: long as f64,
            meeting: f64::INFINITY,
            written: f64::INFINITY,
            fetch: f64::INFINITY,
            fetched: f64::INFINITY,
        }
    }
}

/// How a schedule is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Messages,
    /// Over a board, on which data is written.
    Written,
    /// Over a board that tells where data lies.
    Shown,
}

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Way::Messages => "by messages",
            Way::Written => "written on the board",
            Way::Shown => "shown on the board",
        })
    }
}

/// The rooms of a board: how many bytes a rank can write there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rooms {
    pub(crate) line: usize,
    pub(crate) page: usize,
    pub(crate) hall: usize,
    /// Whether all ranks can read each other's memory.
    pub(crate) shows: bool,
}

impl Rooms {
    /// The smallest room for so many bytes.
    pub(crate) fn for_bytes(&self, bytes: usize) -> Option<Room> {
        match bytes {
            bytes if bytes <= self.line => Some(Room::Line),
            bytes if bytes <= self.page => Some(Room::Page),
            bytes if bytes <= self.hall => Some(Room::Hall),
            _ => None,
        }
    }
}

/// A rank's way through an algorithm by messages.
#[derive(Clone, Copy, Debug)]
struct Messages {
    steps: f64,
    messages: f64,
    bytes: f64,
    folded: f64,
}

impl Messages {
    fn time(self, prices: &Prices) -> f64 {
        let long = self.messages > 0.0 && self.bytes / self.messages > prices.long;
        let answer = if long { self.steps * prices.answer } else { 0.0 };
        self.steps * prices.step
            + self.messages * prices.message
            + self.bytes * prices.byte
            + self.folded * prices.fold
            + answer
    }
}

/// The same over a board: meetings, the most bytes that a rank writes for one, all bytes that it writes and reads, from
/// how many parts it reads them, and bytes that it combines.
#[derive(Clone, Copy, Debug)]
struct Meetings {
    count: f64,
    most: f64,
    written: f64,
    read: f64,
    parts: f64,
    folded: f64,
}

/// An algorithm that may be chosen, by its id.
pub(crate) struct Candidate {
    pub(crate) id: &'static str,
    messages: fn(p: f64, lg: f64, n: f64) -> Messages,
    /// If its messages are received in the round in which they are sent.
    meetings: Option<fn(p: f64, n: f64) -> Meetings>,
}

impl Candidate {
    /// How long it takes for `ranks` ranks and `bytes` bytes, which are those of all blocks or of the vector, and by which
    /// way. `rooms` are those of a board, if there is one.
    pub(crate) fn best(&self, prices: &Prices, ranks: u32, bytes: usize, rooms: Option<&Rooms>) -> (f64, Way) {
        let lg = f64::from(ranks.next_power_of_two().trailing_zeros());
        let (p, n) = (f64::from(ranks), bytes as f64);
        let mut best = ((self.messages)(p, lg, n).time(prices), Way::Messages);
        let (Some(rooms), Some(meetings)) = (rooms, self.meetings) else { return best };
        let Meetings { count, most, written, read, parts, folded } = meetings(p, n);
        let folding = folded * prices.fold;
        if most <= rooms.hall as f64 {
            let time = count * prices.meeting + (written + read) * prices.written + folding;
            best = if time < best.0 { (time, Way::Written) } else { best };
        }
        if rooms.shows {
            let time = (count + 1.0) * prices.meeting + parts * prices.fetch + read * prices.fetched + folding;
            best = if time < best.0 { (time, Way::Shown) } else { best };
        }
        best
    }
}

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

/// `n` is the vector.
const BCAST: [Candidate; 4] = [
    candidate("bcast/flat", |p, _, n| way(1.0, p - 1.0, n * (p - 1.0), 0.0)).meeting(|_, n| Meetings {
        count: 1.0,
        most: n,
        written: n,
        read: n,
        parts: 1.0,
        folded: 0.0,
    }),
    candidate("bcast/binomial", |_, lg, n| way(lg, lg, n * lg, 0.0)),
    candidate("bcast/chain", |p, _, n| way(p, n / 65536.0 + p, 2.0 * n, 0.0)),
    candidate("bcast/scatter_allgather:ring", |p, lg, n| way(lg + p, lg + p, 2.0 * n, 0.0)),
];

/// `n` is all blocks.
const SCATTER: [Candidate; 2] = [
    candidate("scatter/flat", |p, _, n| way(1.0, p, n, 0.0)).meeting(|p, n| Meetings {
        count: 1.0,
        most: n,
        written: n,
        read: n / p,
        parts: 1.0,
        folded: 0.0,
    }),
    candidate("scatter/binomial", |_, lg, n| way(lg, lg, n * lg / 2.0, 0.0)),
];

const GATHER: [Candidate; 2] = [
    candidate("gather/flat", |p, _, n| way(1.0, p, n, 0.0)).meeting(|p, n| Meetings {
        count: 1.0,
        most: n / p,
        written: n / p,
        read: n,
        parts: p,
        folded: 0.0,
    }),
    candidate("gather/binomial", |_, lg, n| way(lg, lg, n * lg / 2.0, 0.0)),
];

const ALLGATHER: [Candidate; 4] = [
    candidate("allgather/linear", |p, _, n| way(1.0, p - 1.0, n, 0.0)).meeting(|p, n| Meetings {
        count: 1.0,
        most: n / p,
        written: n / p,
        read: n,
        parts: p - 1.0,
        folded: 0.0,
    }),
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
    candidate("allreduce/direct", |p, _, n| way(2.0, 2.0 * (p - 1.0), 2.0 * n, n)).meeting(|p, n| Meetings {
        count: 2.0,
        most: n,
        written: n + n / p,
        read: 2.0 * n,
        parts: 2.0 * (p - 1.0),
        folded: n,
    }),
    candidate("allreduce/linear", |p, _, n| way(1.0, p - 1.0, n * p, n * p)).meeting(|p, n| {
        let read = n * (p - 1.0);
        // It combines into what it sends, so that cannot be read where it lies.
        Meetings { count: 1.0, most: n, written: n, read, parts: f64::INFINITY, folded: read }
    }),
    candidate("allreduce/recursive_doubling", |_, lg, n| way(lg, lg, n * lg, n * lg)),
    candidate("allreduce/rabenseifner", |_, lg, n| way(2.0 * lg, 2.0 * lg, 2.0 * n, n)),
    candidate("allreduce/ring", |p, _, n| way(2.0 * (p - 1.0), 2.0 * (p - 1.0), 2.0 * n, n)),
];

/// `n` is all blocks.
const REDUCE_SCATTER: [Candidate; 3] = [
    candidate("reduce_scatter/linear", |p, _, n| way(1.0, p - 1.0, n, n)).meeting(|p, n| Meetings {
        count: 1.0,
        most: n,
        written: n,
        read: n,
        parts: p - 1.0,
        folded: n,
    }),
    candidate("reduce_scatter/pairwise", |p, _, n| way(p - 1.0, p - 1.0, n, n)),
    candidate("reduce_scatter/distance_halving", |_, lg, n| way(lg, lg, 2.0 * n, n)),
];

const ALLTOALL: [Candidate; 3] = [
    candidate("alltoall/linear", |p, _, n| way(1.0, p - 1.0, n, 0.0)).meeting(|p, n| Meetings {
        count: 1.0,
        most: n,
        written: n,
        read: n,
        parts: p - 1.0,
        folded: 0.0,
    }),
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
