//! What algorithms cost, as far as a choice needs it.
//!
//! A rank's way through an algorithm is a number of steps, each of which waits for another rank, a number of messages, and
//! bytes that it moves and combines. Where ranks share cores, a step costs until all others have had their turn, and the
//! cores' bandwidth is shared. Over a board, meetings take the place of steps.

use treepie_fabric::Room;

use super::meetings::Manner;

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
    /// To write a byte on the board, and to read it there.
    written: f64,
    read: f64,
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
            byte: if crowd > 0.0 { 0.16e-9 * share } else { 0.1e-9 },
            fold: 0.05e-9 * share,
            answer: 0.8e-6 + 0.6e-6 * crowd,
            long: long as f64,
            meeting: 0.15e-6 + 1.3e-6 * crowd,
            written: 0.11e-9 * share,
            // Ranks of one core read what is in its cache already.
            read: if crowd > 0.0 { 0.06e-9 * share } else { 0.07e-9 },
            fetch: if crowd > 0.0 { 1.5e-6 * share } else { 1.0e-6 },
            fetched: if crowd > 0.0 { 0.12e-9 * share } else { 0.1e-9 },
        }
    }

    /// Of ranks on a network.
    pub(crate) fn network(long: usize) -> Self {
        Self {
            step: 1.5e-6,
            message: 0.5e-6,
            byte: 0.1e-9,
            fold: 0.1e-9,
            answer: 2e-6,
            long: long as f64,
            meeting: f64::INFINITY,
            written: f64::INFINITY,
            read: f64::INFINITY,
            fetch: f64::INFINITY,
            fetched: f64::INFINITY,
        }
    }

    /// As the models have them, in microseconds.
    pub(super) fn of_links(&self) -> treepie_model::Prices {
        let Self { step, message, byte, fold, .. } = *self;
        let (alpha, beta) = ((step + message) * 1e6, byte * 1e6);
        treepie_model::Prices { alpha, beta, delta: beta, gamma: fold * 1e6, ..treepie_model::Prices::FREE }
    }
}

/// How a schedule is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Messages,
    /// Over a board.
    Board(Manner),
}

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Way::Messages => "by messages",
            Way::Board(Manner::Writing) => "written on the board",
            Way::Board(Manner::WritingPieces) => "written on the board in pieces",
            Way::Board(Manner::Showing) => "shown on the board",
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
pub(super) struct Messages {
    pub(super) steps: f64,
    pub(super) messages: f64,
    pub(super) bytes: f64,
    pub(super) folded: f64,
}

impl Messages {
    pub(super) fn time(self, prices: &Prices) -> f64 {
        let long = self.messages > 0.0 && self.bytes / self.messages > prices.long;
        let answer = if long { self.steps * prices.answer } else { 0.0 };
        // What is combined comes into memory of its own first.
        self.steps * prices.step
            + self.messages * prices.message
            + self.bytes * prices.byte
            + self.folded * (prices.fold + prices.byte)
            + answer
    }
}

/// The same over a board.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meetings {
    pub(super) count: f64,
    /// The most bytes that a rank writes for a meeting.
    pub(super) most: f64,
    /// All bytes that ranks write on average, that one reads, in how many parts, and that it combines.
    pub(super) written: f64,
    pub(super) read: f64,
    pub(super) parts: f64,
    pub(super) folded: f64,
    /// Whether no rank writes what it sends in the same round, so that it can be sent in pieces, and read where it lies.
    pub(super) sends_what_stays: bool,
}

/// An algorithm that may be chosen, by its id.
pub(crate) struct Candidate {
    pub(crate) id: &'static str,
    pub(super) messages: fn(p: f64, lg: f64, n: f64) -> Messages,
    /// If its messages are received in the round in which they are sent.
    pub(super) meetings: Option<fn(p: f64, n: f64) -> Meetings>,
}

impl Candidate {
    /// How long it takes for `ranks` ranks and `bytes` bytes, which are those of all blocks or of the vector, and by which
    /// way. `rooms` are those of a board, if there is one.
    pub(crate) fn best(&self, prices: &Prices, ranks: u32, bytes: usize, rooms: Option<&Rooms>) -> (f64, Way) {
        let lg = f64::from(ranks.next_power_of_two().trailing_zeros());
        let (p, n) = (f64::from(ranks), bytes as f64);
        let mut best = ((self.messages)(p, lg, n).time(prices), Way::Messages);
        let (Some(rooms), Some(meetings)) = (rooms, self.meetings) else { return best };
        let Meetings { count, most, written, read, parts, folded, sends_what_stays } = meetings(p, n);
        let mut consider = |time: f64, manner| {
            if time < best.0 {
                best = (time, Way::Board(manner));
            }
        };
        let folding = folded * prices.fold;
        let pieces = (most / rooms.hall as f64).ceil().max(1.0);
        let writing = written * prices.written + read * prices.read + folding;
        if pieces == 1.0 {
            consider(count * prices.meeting + writing, Manner::Writing);
        } else if sends_what_stays {
            // A rank writes a piece while others still read the one before.
            consider(count * pieces * prices.meeting / 2.0 + writing, Manner::WritingPieces);
        }
        if rooms.shows && sends_what_stays {
            let fetching = parts * prices.fetch + read * prices.fetched;
            consider((count + 1.0) * prices.meeting + fetching + folding, Manner::Showing);
        }
        best
    }
}
