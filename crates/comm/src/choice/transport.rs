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
    /// Within hosts through slots of the segments that their ranks share, between hosts by messages.
    Hosts,
    /// As the MPI library does: it runs the operation.
    HostMpi,
}

/// What a call can use besides messages between all ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Resources {
    /// The shared segment of all ranks.
    pub slots: Option<SlotCapacities>,
    /// Those that the ranks of each host of the network share.
    pub host_slots: Option<HostSlots>,
    /// Collective operations of the MPI library.
    pub host_mpi: bool,
}

/// The shared segments of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HostSlots {
    /// Their slots.
    pub slots: SlotCapacities,
    /// The most ranks for each core of a host, rounded up.
    pub ranks_per_core: u32,
}

impl HostSlots {
    /// Those of hosts on which each rank has a core, with the slots that segments of more than two ranks have.
    pub const DEDICATED: Self = Self {
        slots: SlotCapacities { line: 48, page: 4 << 10, bulk: 64 << 10, single_copy: false },
        ranks_per_core: 1,
    };
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
            Transport::Hosts => "shared segments of hosts, point-to-point between them",
            Transport::HostMpi => "the MPI library",
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

/// How much longer it takes to read what its owner has just modified: 512 KiB that two ranks have combined took 2.5
/// times as long as those that they had at first.
const MODIFIED: f64 = 2.5;

/// With more rounds of all ranks, messages between some of them are faster.
const MAX_ROUNDS: u32 = 4;

/// With more ranks it takes long to count all of them, and to check that none modifies what it sends.
pub(super) const MAX_COUNTED_RANKS: u32 = 64;

/// The transports over the shared segment that a schedule can use, and their times. With many ranks only the root and
/// one other are counted.
pub(super) fn predict_shared(
    schedule: &dyn Schedule,
    layouts: &BlockLayouts,
    (element, in_place): (f64, bool),
    costs: &MessageCosts<'_>,
    slots: &SlotCapacities,
) -> Option<Vec<(Prediction, SharedTransport)>> {
    let profile = costs.profile();
    let shared = profile.shared_segment.as_ref()?;
    let ranks = schedule.ranks();
    let root = schedule.operation().root().unwrap_or(0);
    let is_checked = ranks <= MAX_COUNTED_RANKS;
    // A rank, and the number of ranks that do as much.
    let counted = match is_checked {
        true => (0..ranks).map(|rank| (rank, 1)).collect(),
        false => vec![(root, 1), ((root + 1) % ranks, ranks - 1)],
    };
    let of_rank = |(rank, like): &(u32, u32)| {
        Some((count_slots(schedule, layouts, *rank, in_place, MAX_ROUNDS)?, f64::from(*like)))
    };
    let counts: Vec<(SlotCounts, f64)> = counted.iter().map(of_rank).collect::<Option<_>>()?;
    let rounds = counts[0].0.rounds;
    // In a round all ranks meet, so all have the same rounds. Along a tree they have not.
    if counts.iter().any(|(rank, _)| rank.rounds != rounds) {
        return None;
    }
    let rounds = f64::from(rounds);
    // The longest that a rank takes for one kind of work, and what all take.
    let busiest = |time: &dyn Fn(&SlotCounts) -> f64| counts.iter().map(|(rank, _)| time(rank)).fold(0.0, f64::max);
    let all_ranks =
        |time: &dyn Fn(&SlotCounts) -> f64| counts.iter().map(|(rank, like)| time(rank) * like).sum::<f64>();
    let bytes = |elements: u64, parts: f64| elements as f64 * element / parts.max(1.0);
    let copy_in = |rank: &SlotCounts| rounds * shared.copy_in.at(bytes(rank.written, rounds));
    let copy_out = |rank: &SlotCounts| {
        let reads = rank.reads as f64;
        reads * shared.copy_out.at(bytes(rank.read, reads))
    };
    // In later rounds a rank reads what another has just written, from the cache of that.
    let later = (rounds - 1.0).max(0.0) / rounds.max(1.0);
    let read_directly = |rank: &SlotCounts| {
        let reads = rank.reads as f64;
        reads * shared.single_copy.at(bytes(rank.read, reads)) * (1.0 + later * (MODIFIED - 1.0))
    };
    // Only what something is combined with is worth counting: a rank copies the rest while it waits, or not at all
    // (`dead_copies.rs`).
    let copied = |rank: &SlotCounts| bytes(rank.copied.min(rank.combined), 1.0) * profile.copy_per_byte;
    // What is read directly is combined in chunks, which are in the cache then.
    let from_cache = (profile.reduce_per_byte - profile.copy_per_byte / 2.0).max(0.0);
    let combined = |rank: &SlotCounts| bytes(rank.combined, 1.0) * from_cache;
    // Operands are combined from the slot in which they are, instead of copied.
    let from_slot = (profile.reduce_per_byte - profile.copy_per_byte).max(0.0);
    let combined_from_slot = |rank: &SlotCounts| bytes(rank.combined, 1.0) * from_slot;
    // In a round a rank writes, and later sees that all others have written: it is scheduled twice.
    let round = shared.round + 2.0 * costs.delay();
    let prediction = |startups: f64, bytes: f64, reductions: f64, work: f64| {
        let on_cores = costs.on_cores(bytes + reductions, work);
        Prediction { startups, bytes, reductions, congestion: 0.0 }.at_least(startups + on_cores)
    };
    let max_written = busiest(&|rank| bytes(rank.max_written, 1.0));
    let chunks = (max_written / slots.bulk as f64).ceil().max(1.0);
    let reductions = busiest(&combined_from_slot);
    let work = all_ranks(&|rank| copy_in(rank) + copy_out(rank) + copied(rank) + combined_from_slot(rank));
    // A single rank that modifies what others read would be one too many.
    let sends_unmodified = is_checked && counts.iter().all(|(rank, _)| rank.sends_unmodified);
    let mut all = Vec::new();
    if chunks == 1.0 {
        let bytes = busiest(&copy_in) + busiest(&copy_out) + busiest(&copied);
        all.push((prediction(rounds * round, bytes, reductions, work), SharedTransport::CopyInCopyOut));
    } else if sends_unmodified {
        // A rank writes a chunk while others still read the one before; nobody can read before the first is written.
        let busy = busiest(&|rank| copy_in(rank) + copy_out(rank) + copied(rank));
        let bytes = busy.max(busiest(&copy_in) / chunks + busiest(&|rank| copy_out(rank) + copied(rank)));
        let pipelined = prediction(rounds * chunks * round / 2.0, bytes, reductions, work);
        all.push((pipelined, SharedTransport::PipelinedCopyInCopyOut));
    }
    if slots.single_copy && sends_unmodified {
        let bytes = busiest(&|rank| read_directly(rank) + copied(rank));
        let work = all_ranks(&|rank| read_directly(rank) + copied(rank) + combined(rank));
        all.push((prediction((rounds + 1.0) * round, bytes, busiest(&combined), work), SharedTransport::SingleCopy));
    }
    Some(all)
}
