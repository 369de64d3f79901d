//! What a collective operation is on one rank before it runs: its schedule and layouts, the tags of its messages, and its
//! buffers.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use treepie_base::Region;
use treepie_fabric::{self as fabric, Endpoint, GROUPS, OWN_BITS, Why, run_tag};
use treepie_schedule::{Buf, Held, Layouts, MOST_OPEN_LANES, Op, Operation, Places, Rounds, Schedule, held};

use crate::members::Members;

/// Combines the second into the first; the flag says that the second stands on the left.
pub(crate) type Fold = Rc<super::Folding>;

/// Everything that a collective operation is, apart from its buffers.
#[derive(Clone)]
pub(crate) struct Job {
    pub(crate) schedule: Arc<dyn Schedule>,
    pub(crate) layouts: Layouts,
    /// Bytes of an element, and its alignment.
    pub(crate) element: usize,
    pub(crate) align: usize,
    pub(crate) fold: Option<Fold>,
    pub(crate) rank: u32,
    pub(crate) context: u32,
    pub(crate) members: Rc<Members>,
    /// What its messages say that they belong to.
    pub(crate) call: fabric::Call,
}

impl Job {
    pub(crate) fn places(&self) -> Places<'_> {
        Places { schedule: &*self.schedule, layouts: &self.layouts, rank: self.rank }
    }

    /// How the buffers of this rank lie in the one that its caller has, where the operation is done in place.
    pub(crate) fn shared(&self) -> Shared {
        let own = self.layouts.output.offset(self.rank) * self.element;
        match self.schedule.operation() {
            Operation::Allreduce | Operation::Scan | Operation::Exscan => Shared::InputInOutput(0),
            Operation::Allgather => Shared::InputInOutput(own),
            Operation::Gather { root } if root == self.rank => Shared::InputInOutput(own),
            Operation::Reduce { root } if root == self.rank => Shared::InputInOutput(0),
            Operation::Scatter { root } if root == self.rank => Shared::OutputInInput(own),
            _ => Shared::Nothing,
        }
    }

    /// Whether the input can serve as the first scratch memory.
    pub(crate) fn may_overwrite_input(&self) -> bool {
        let schedule = &*self.schedule;
        schedule.temporaries() > 0 && held(schedule, self.rank, Buf::Tmp(0)) == Held::all(schedule.blocks())
    }

    /// The ranks of the world that are told when this rank gives the operation up: those to which it would send something, who
    /// tell theirs. If ranks are in different operations, all: what one waits for need not be sent in that of another.
    pub(crate) fn told(&self, why: Why, endpoint: &mut Endpoint) -> BTreeSet<u32> {
        if why == Why::Differs {
            return self.members.all_in_world(endpoint).into_iter().collect();
        }
        let mut receivers = BTreeSet::new();
        let mut list = Rounds::new();
        for phase in 0..self.schedule.phases() {
            for lane in 0..self.schedule.phase(phase).lanes {
                list.clear();
                self.schedule.emit(self.rank, phase, lane, 0..self.schedule.rounds(self.rank, phase, lane), &mut list);
                receivers.extend(list.iter().flatten().filter_map(|op| match op {
                    Op::Send { to, .. } => self.members.world(*to, endpoint).ok(),
                    _ => None,
                }));
            }
        }
        receivers
    }

    pub(crate) fn tag(&self, instance: u32, phase: u32, lane: u32) -> u64 {
        // The remainders cannot be mistaken for each other: messages of one tag meet in order, and both sides go through
        // phases in order, and through lanes that are so far apart, as these are not open at once (`Cursor`).
        const { assert!(1 << LANE_BITS == MOST_OPEN_LANES) }
        run_tag(instance) | u64::from((phase % (1 << PHASE_BITS)) << LANE_BITS) | u64::from(lane % (1 << LANE_BITS))
    }
}

/// Bits of a tag for the lane, and for the phase.
const LANE_BITS: u32 = 12;
const PHASE_BITS: u32 = OWN_BITS - LANE_BITS;

/// Where one buffer lies in the other, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shared {
    /// They are apart.
    Nothing,
    InputInOutput(usize),
    OutputInInput(usize),
}

/// Bits of a tag that tell the collectives of a communicator apart, from each other and from what is none. As many can be under
/// way as there are numbers of operations of an endpoint, which come to their end first.
pub(crate) const INSTANCE_MASK: u64 = run_tag(u32::MAX) | GROUPS;

/// Forgets what was given up under tags that are to be used again: those of this collective, which begins now, and those
/// that are as far from now as possible, so that neither late messages nor early ones are mistaken.
#[inline]
pub(crate) fn forget_given_up(endpoint: &mut Endpoint, context: u32, instance: u32) {
    let far = instance.wrapping_add(1 << 31);
    endpoint.forget_given_up(context, run_tag(instance), run_tag(far));
}

/// The same for the number of a collective that does not begin.
pub(crate) fn forget_far(endpoint: &mut Endpoint, context: u32, instance: u32) {
    let far = run_tag(instance.wrapping_add(1 << 31));
    endpoint.forget_given_up(context, far, far);
}

/// The memory of a collective operation; what it does not have is empty.
pub(crate) struct Buffers {
    pub(crate) input: Region,
    pub(crate) output: Region,
    /// Whether the input serves as the first scratch memory.
    pub(super) overwrite: bool,
}

impl Buffers {
    /// Lets the input serve as the first scratch memory.
    pub(crate) fn overwriting(self, overwrite: bool) -> Self {
        Self { overwrite, ..self }
    }

    /// Of an operation that leaves its input as it is.
    pub(crate) fn new(input: Region, output: Region) -> Self {
        Self { input, output, overwrite: false }
    }

    /// Both in one.
    pub(crate) fn shared(job: &Job, both: Region) -> Self {
        let part = |begin: usize, buf| both.sub(begin..begin + job.places().size(buf) * job.element);
        match job.shared() {
            Shared::InputInOutput(begin) => Self::new(part(begin, Buf::In), both),
            Shared::OutputInInput(begin) => Self::new(both.share(), part(begin, Buf::Out)),
            Shared::Nothing => unreachable!("asked for only where buffers are shared"),
        }
    }
}
