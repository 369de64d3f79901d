//! How the data of a schedule is transferred, and what it costs through the shared segment of one machine.

use treepie_fabric::SlotClass;
use treepie_model::predict::{MessageCosts, Prediction};
use treepie_schedule::count::{SlotCounts, count_slots};
use treepie_schedule::{BlockLayouts, Schedule};

/// How the data of a schedule is transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// By messages.
    PointToPoint,
    /// Through slots of the shared segment.
    SharedSegment(SharedTransport),
}

/// How data gets to its readers through the shared segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedTransport {
    /// Through slots, as a whole.
    CopyInCopyOut,
    /// Through slots, in chunks. Only for algorithms whose ranks do not modify what they send in the same round.
    PipelinedCopyInCopyOut,
    /// Read directly from the sender's memory. For the same algorithms.
    SingleCopy,
}

impl std::fmt::Display for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Transport::PointToPoint => "point-to-point",
            Transport::SharedSegment(SharedTransport::CopyInCopyOut) => "shared segment, copy-in copy-out",
            Transport::SharedSegment(SharedTransport::PipelinedCopyInCopyOut) => {
                "shared segment, pipelined copy-in copy-out"
            }
            Transport::SharedSegment(SharedTransport::SingleCopy) => "shared segment, single copy",
        })
    }
}

/// The slot classes of the shared segment: bytes that a rank can write into each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotCapacities {
    /// A cache line.
    pub line: usize,
    /// A page.
    pub page: usize,
    /// The largest.
    pub bulk: usize,
    /// Whether all ranks can read each other's memory (single copy).
    pub single_copy: bool,
}

impl SlotCapacities {
    /// The smallest slot class for this number of bytes.
    pub(crate) fn slot_for(&self, bytes: usize) -> Option<SlotClass> {
        match bytes {
            bytes if bytes <= self.line => Some(SlotClass::Line),
            bytes if bytes <= self.page => Some(SlotClass::Page),
            bytes if bytes <= self.bulk => Some(SlotClass::Large),
            _ => None,
        }
    }
}

/// With more rounds of all ranks, messages between some of them are faster.
const MAX_ROUNDS: u32 = 4;

/// With more ranks it takes long to check that none of them modifies what it sends.
const MAX_CHECKED_RANKS: u32 = 64;

/// The transport over the shared segment that takes least, and its time; `None` if the schedule cannot use it. Counted
/// for the root and for one other rank, which all others are like.
pub(super) fn predict_shared(
    schedule: &dyn Schedule,
    layouts: &BlockLayouts,
    (element, in_place): (f64, bool),
    costs: &MessageCosts<'_>,
    slots: &SlotCapacities,
) -> Option<(Prediction, SharedTransport)> {
    let shared = costs.profile().shared_segment?;
    let ranks = schedule.ranks();
    let root = schedule.operation().root().unwrap_or(0);
    let of_rank = |rank| count_slots(schedule, layouts, rank, in_place, MAX_ROUNDS);
    let (of_root, of_other) = (of_rank(root)?, of_rank((root + 1) % ranks)?);
    // The busiest rank, or a core that ranks share: it does the work of all of them.
    let work = |of: fn(&SlotCounts) -> u64| {
        let (one, other) = (of(&of_root) as f64, of(&of_other) as f64);
        let mean = (one + other * f64::from(ranks - 1)) / f64::from(ranks);
        one.max(other).max(mean * costs.sharing()) * element
    };
    let (written, read) = (work(|counts| counts.written), work(|counts| counts.read));
    let reads = of_root.reads.max(of_other.reads) as f64 * costs.sharing();
    let reductions = work(|counts| counts.combined) * costs.profile().reduce_per_byte;
    let rounds = f64::from(of_root.rounds.max(of_other.rounds));
    // In a round a rank writes, and later sees that all others have written: it is scheduled twice.
    let round = shared.round + 2.0 * costs.delay();
    let max_written = of_root.max_written.max(of_other.max_written) as f64 * element;
    let chunks = (max_written / slots.bulk as f64).ceil().max(1.0);
    let copies = written * shared.write_per_byte + read * shared.read_per_byte;
    // Here all ranks count, as a single one would see wrong data.
    let is_unmodified = |rank| of_rank(rank).is_some_and(|counts| counts.sends_unmodified);
    let sends_unmodified = of_root.sends_unmodified
        && of_other.sends_unmodified
        && ranks <= MAX_CHECKED_RANKS
        && (chunks > 1.0 || slots.single_copy)
        && (0..ranks).all(is_unmodified);
    let prediction = |startups, bytes| Prediction { startups, bytes, reductions, congestion: 0.0 };
    let mut best = if chunks == 1.0 {
        Some((prediction(rounds * round, copies), SharedTransport::CopyInCopyOut))
    } else if sends_unmodified {
        // A rank writes a chunk while others still read the one before.
        Some((prediction(rounds * chunks * round / 2.0, copies), SharedTransport::PipelinedCopyInCopyOut))
    } else {
        None
    };
    if slots.single_copy && sends_unmodified {
        let startups = (rounds + 1.0) * round + reads * shared.single_copy;
        let single = prediction(startups, read * shared.single_copy_per_byte);
        if best.is_none_or(|(copied, _)| single.total() < copied.total()) {
            best = Some((single, SharedTransport::SingleCopy));
        }
    }
    best
}
