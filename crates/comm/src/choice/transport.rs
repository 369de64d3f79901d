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

/// With more ranks it takes long to count all of them, and to check that none modifies what it sends.
const MAX_CHECKED_RANKS: u32 = 64;

/// The transports over the shared segment that a schedule can use, and their times. With many ranks only the root and one
/// other are counted.
pub(super) fn predict_shared(
    schedule: &dyn Schedule,
    layouts: &BlockLayouts,
    (element, in_place): (f64, bool),
    costs: &MessageCosts<'_>,
    slots: &SlotCapacities,
) -> Option<Vec<(Prediction, SharedTransport)>> {
    let shared = costs.profile().shared_segment?;
    let ranks = schedule.ranks();
    let root = schedule.operation().root().unwrap_or(0);
    let is_checked = ranks <= MAX_CHECKED_RANKS;
    let counted = if is_checked { (0..ranks).collect() } else { vec![root, (root + 1) % ranks] };
    let of_rank = |rank: &u32| count_slots(schedule, layouts, *rank, in_place, MAX_ROUNDS);
    let counts: Vec<SlotCounts> = counted.iter().map(of_rank).collect::<Option<_>>()?;
    // In a round all ranks meet, so all have the same rounds. Along a tree they have not.
    if counts.iter().any(|rank| rank.rounds != counts[0].rounds) {
        return None;
    }
    // The busiest rank, or a core that ranks share: it does the work of all of them.
    let most = |of: fn(&SlotCounts) -> u64| counts.iter().map(of).max().unwrap_or(0) as f64;
    let work = |of: fn(&SlotCounts) -> u64| {
        let mean = match is_checked {
            true => counts.iter().map(|rank| of(rank) as f64).sum::<f64>() / f64::from(ranks),
            false => (of(&counts[0]) as f64 + of(&counts[1]) as f64 * f64::from(ranks - 1)) / f64::from(ranks),
        };
        most(of).max(mean * costs.sharing()) * element
    };
    let (written, read) = (work(|counts| counts.written), work(|counts| counts.read));
    let reads = most(|counts| counts.reads) * costs.sharing();
    let reductions = work(|counts| counts.combined) * costs.profile().reduce_per_byte;
    let rounds = f64::from(counts[0].rounds);
    // In a round a rank writes, and later sees that all others have written: it is scheduled twice.
    let round = shared.round + 2.0 * costs.delay();
    let max_written = most(|counts| counts.max_written) * element;
    let chunks = (max_written / slots.bulk as f64).ceil().max(1.0);
    let copies = written * shared.write_per_byte + read * shared.read_per_byte;
    // A single rank that modifies what others read would be one too many.
    let sends_unmodified = is_checked && counts.iter().all(|rank| rank.sends_unmodified);
    let prediction = |startups, bytes| Prediction { startups, bytes, reductions, congestion: 0.0 };
    let mut all = Vec::new();
    if chunks == 1.0 {
        all.push((prediction(rounds * round, copies), SharedTransport::CopyInCopyOut));
    } else if sends_unmodified {
        // A rank writes a chunk while others still read the one before.
        let pipelined = prediction(rounds * chunks * round / 2.0, copies);
        all.push((pipelined, SharedTransport::PipelinedCopyInCopyOut));
    }
    if slots.single_copy && sends_unmodified {
        let startups = (rounds + 1.0) * round + reads * shared.single_copy;
        all.push((prediction(startups, read * shared.single_copy_per_byte), SharedTransport::SingleCopy));
    }
    Some(all)
}
