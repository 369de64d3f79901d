//! Counts of a schedule whose data is exchanged through slots of a shared segment: rounds of all ranks replace
//! messages.
//!
//! In each round a rank writes each part that it sends once, whatever the number of receivers, and reads or combines
//! what it receives.

use crate::layout::{BlockLayouts, BufferMap};
use crate::op::{BlockRange, Buf, RoundList, ScheduleOp};
use crate::schedule::Schedule;

/// What a rank does over the shared segment, in elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotCounts {
    /// Rounds of all ranks.
    pub rounds: u32,
    /// Elements that it writes in all rounds.
    pub written: u64,
    /// The most in one round.
    pub max_written: u64,
    /// Elements that it reads.
    pub read: u64,
    /// Number of its reads.
    pub reads: u64,
    /// Elements that it combines.
    pub combined: u64,
    /// Elements that it copies within its memory.
    pub copied: u64,
    /// Whether it modifies nothing that it sends in the same round.
    pub sends_unmodified: bool,
}

/// The counts of a rank, whose `In` and `Out` are the same memory if it is `in_place`. `None` if a phase has several
/// lanes, or if there are more than `max_rounds` rounds.
pub fn count_slots(
    schedule: &dyn Schedule,
    layouts: &BlockLayouts,
    rank: u32,
    in_place: bool,
    max_rounds: u32,
) -> Option<SlotCounts> {
    let phases = 0..schedule.phases();
    if phases.clone().any(|phase| schedule.phase(phase).lanes != 1) {
        return None;
    }
    let rounds: u32 = phases.clone().map(|phase| schedule.rounds(rank, phase, 0)).sum();
    if rounds > max_rounds {
        return None;
    }
    let mut counts = SlotCounts { sends_unmodified: true, ..SlotCounts::default() };
    let buffers = BufferMap { schedule, layouts, rank };
    let length = |part| buffers.range_len(part) as u64;
    let (mut ops, mut sent, mut sent_before) = (RoundList::new(), Vec::<BlockRange>::new(), Vec::new());
    for phase in phases {
        ops.clear();
        schedule.emit(rank, phase, 0, 0..schedule.rounds(rank, phase, 0), &mut ops);
        for round in ops.iter() {
            sent.clear();
            let mut written = 0;
            for op in round {
                match *op {
                    ScheduleOp::Send { part, .. } if !sent.contains(&part) => {
                        sent.push(part);
                        written += length(part);
                    }
                    ScheduleOp::Recv { part, .. } => {
                        (counts.read, counts.reads) = (counts.read + length(part), counts.reads + 1)
                    }
                    ScheduleOp::RecvReduce { part, .. } => {
                        (counts.read, counts.reads) = (counts.read + length(part), counts.reads + 1);
                        counts.combined += length(part);
                    }
                    ScheduleOp::Reduce { into, .. } => counts.combined += length(into),
                    ScheduleOp::Copy { to, .. } => counts.copied += length(to),
                    ScheduleOp::Send { .. } => {}
                }
            }
            // What others read must not change before the next round: neither by what this rank receives meanwhile, nor
            // by the copies with which it begins the next round.
            let modified = |to: &BlockRange, sent: &[BlockRange]| sent.iter().any(|part| overlaps(part, to, in_place));
            counts.sends_unmodified &= !round.iter().any(|op| match op {
                ScheduleOp::Recv { part: to, .. } | ScheduleOp::RecvReduce { part: to, .. } => modified(to, &sent),
                ScheduleOp::Reduce { into, .. } => modified(into, &sent) || modified(into, &sent_before),
                ScheduleOp::Copy { to, .. } => modified(to, &sent_before),
                ScheduleOp::Send { .. } => false,
            });
            // A round of copies needs no other rank.
            let is_local = |op: &ScheduleOp| matches!(op, ScheduleOp::Copy { .. } | ScheduleOp::Reduce { .. });
            if !round.iter().all(is_local) {
                counts.rounds += 1;
                // Others may read until the next round in which this rank meets them.
                std::mem::swap(&mut sent, &mut sent_before);
            }
            counts.written += written;
            counts.max_written = counts.max_written.max(written);
        }
    }
    Some(counts)
}

/// Whether two ranges share memory. Ranges of different views may, so they count as if they did; so may segments.
fn overlaps(one: &BlockRange, other: &BlockRange, in_place: bool) -> bool {
    let is_user = |range: &BlockRange| matches!(range.buf, Buf::In | Buf::Out);
    if one.buf != other.buf {
        // The positions of one in the other are not known here.
        return in_place && is_user(one) && is_user(other);
    }
    one.view != other.view || one.lo < other.lo + other.len && other.lo < one.lo + one.len
}
