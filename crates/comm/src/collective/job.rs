//! The job of a collective operation on one rank: its schedule and layouts, the tags of its messages, and its buffers.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use treepie_base::Region;
use treepie_fabric::{self as fabric, AbortReason, Endpoint, GROUP_TAG_BIT, SUBTAG_BITS, operation_tag};
use treepie_schedule::{
    BlockLayouts, Buf, BufferBlocks, BufferMap, MAX_OPEN_LANES, Operation, RoundList, Schedule, ScheduleOp,
    buffer_blocks,
};

use crate::members::Members;

/// A collective operation without its buffers and its operator.
#[derive(Clone)]
pub(crate) struct CollectiveJob {
    pub(crate) schedule: Arc<dyn Schedule>,
    pub(crate) layouts: BlockLayouts,
    /// Size and alignment of an element, in bytes.
    pub(crate) element: usize,
    pub(crate) align: usize,
    pub(crate) rank: u32,
    pub(crate) context: u32,
    pub(crate) members: Rc<Members>,
    /// The signature that its messages carry.
    pub(crate) call: fabric::CallSignature,
}

impl CollectiveJob {
    pub(crate) fn buffer_map(&self) -> BufferMap<'_> {
        BufferMap { schedule: &*self.schedule, layouts: &self.layouts, rank: self.rank }
    }

    /// How input and output of this rank overlap in the caller's buffer, if the operation is in place.
    pub(crate) fn aliasing(&self) -> BufferAliasing {
        let own_block = self.layouts.output.offset(self.rank) * self.element;
        match self.schedule.operation() {
            Operation::Allreduce | Operation::Scan | Operation::Exscan => BufferAliasing::InputInOutput(0),
            Operation::Allgather => BufferAliasing::InputInOutput(own_block),
            Operation::Gather { root } if root == self.rank => BufferAliasing::InputInOutput(own_block),
            Operation::Reduce { root } if root == self.rank => BufferAliasing::InputInOutput(0),
            Operation::Scatter { root } if root == self.rank => BufferAliasing::OutputInInput(own_block),
            _ => BufferAliasing::Disjoint,
        }
    }

    /// Whether the input can serve as the first scratch buffer.
    pub(crate) fn may_overwrite_input(&self) -> bool {
        let schedule = &*self.schedule;
        schedule.scratch_buffers() > 0
            && buffer_blocks(schedule, self.rank, Buf::Tmp(0)) == BufferBlocks::all(schedule.blocks())
    }

    /// The world ranks to notify when this rank aborts the operation: those to which it would send, which notify
    /// theirs. On a mismatch of calls, all ranks: what one waits for need not be sent in the operation of another.
    pub(crate) fn ranks_to_notify(&self, why: AbortReason, endpoint: &mut Endpoint) -> BTreeSet<u32> {
        if why == AbortReason::CallMismatch {
            return self.members.world_ranks(endpoint).into_iter().collect();
        }
        let mut receivers = BTreeSet::new();
        let mut list = RoundList::new();
        for phase in 0..self.schedule.phases() {
            for lane in 0..self.schedule.phase(phase).lanes {
                list.clear();
                self.schedule.emit(self.rank, phase, lane, 0..self.schedule.rounds(self.rank, phase, lane), &mut list);
                receivers.extend(list.iter().flatten().filter_map(|op| match op {
                    ScheduleOp::Send { to, .. } => self.members.world_rank(*to, endpoint).ok(),
                    _ => None,
                }));
            }
        }
        receivers
    }

    pub(crate) fn tag(&self, instance: u32, phase: u32, lane: u32) -> u64 {
        // The remainders are unambiguous: messages with one tag match in order, both sides traverse the phases in
        // order, and lanes this far apart are never open at once (`Cursor`).
        const { assert!(1 << LANE_BITS == MAX_OPEN_LANES) }
        operation_tag(instance)
            | u64::from((phase % (1 << PHASE_BITS)) << LANE_BITS)
            | u64::from(lane % (1 << LANE_BITS))
    }
}

/// Bits of a tag for the lane, and for the phase.
const LANE_BITS: u32 = 12;
const PHASE_BITS: u32 = SUBTAG_BITS - LANE_BITS;

/// How one buffer overlaps the other; offsets in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BufferAliasing {
    Disjoint,
    InputInOutput(usize),
    OutputInInput(usize),
}

/// Bits of a tag that distinguish the collectives of a communicator, from each other and from other messages. The
/// operation numbers of an endpoint run out before these do.
pub(crate) const INSTANCE_MASK: u64 = operation_tag(u32::MAX) | GROUP_TAG_BIT;

/// Forgets aborts under tags that are about to be reused: those of this collective, which starts now, and those of the
/// instance farthest from it, so that neither late nor early messages are mistaken.
#[inline]
pub(crate) fn forget_aborted(endpoint: &mut Endpoint, context: u32, instance: u32) {
    let far = instance.wrapping_add(1 << 31);
    endpoint.forget_aborts(context, operation_tag(instance), operation_tag(far));
}

/// The same for an instance number that no collective uses.
pub(crate) fn forget_aborted_ahead(endpoint: &mut Endpoint, context: u32, instance: u32) {
    let far = operation_tag(instance.wrapping_add(1 << 31));
    endpoint.forget_aborts(context, far, far);
}

/// The buffers of a collective operation; those that it does not use are empty.
pub(crate) struct CollectiveBuffers {
    pub(crate) input: Region,
    pub(crate) output: Region,
    /// Whether the input serves as the first scratch buffer.
    pub(super) overwrite: bool,
}

impl CollectiveBuffers {
    /// Lets the input serve as the first scratch buffer.
    pub(crate) fn overwriting(self, overwrite: bool) -> Self {
        Self { overwrite, ..self }
    }

    /// Buffers of an operation that does not modify its input.
    pub(crate) fn new(input: Region, output: Region) -> Self {
        Self { input, output, overwrite: false }
    }

    /// Input and output in one buffer.
    pub(crate) fn aliased(job: &CollectiveJob, both: Region) -> Self {
        let part = |begin: usize, buf| both.subregion(begin..begin + job.buffer_map().buffer_len(buf) * job.element);
        match job.aliasing() {
            BufferAliasing::InputInOutput(begin) => Self::new(part(begin, Buf::In), both),
            BufferAliasing::OutputInInput(begin) => Self::new(both.share(), part(begin, Buf::Out)),
            BufferAliasing::Disjoint => unreachable!("called only where the buffers overlap"),
        }
    }
}
