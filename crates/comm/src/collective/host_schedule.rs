//! Schedules over hosts: phases within hosts run over the segment that the ranks of each share, all others over messages.
//!
//! Each group of ranks that share a segment decides for itself: which phases of the schedule use it, and whether it is
//! still open. Others see no difference, as the messages between groups are the same.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use treepie_base::{Region, Result, borrow_scope};
use treepie_fabric::Endpoint;
use treepie_schedule::{BlockRun, BufferBlocks, Operation, Phase, RoundList, Schedule};
use treepie_topology::TieBreak;

use super::call::{Fold, ReduceFn};
use super::compiled_schedule::{CompiledSchedule, Instance, MAX_STEPS, Section, message_steps};
use super::dead_copies::eliminate_dead_copies;
use super::executor::Execution;
use super::job::{BufferAliasing, CollectiveBuffers, CollectiveJob};
use super::segment_schedule::{StepLists, segment_phase};
use super::steps::{RangeResolver, StepBuffers};
use crate::choice::{SharedTransport, SlotCapacities};

/// What becomes of a phase.
enum CompiledPhase {
    Steps(StepLists),
    Uncompiled(u32),
}

impl CompiledSchedule {
    /// Compiles a schedule whose ranks modify nothing that they send in a phase within hosts. `members` are the ranks
    /// that share the segment of this one. `None` if no phase can use it.
    pub(crate) fn over_hosts(
        job: &CollectiveJob,
        in_place: bool,
        members: &[u32],
        slots: &SlotCapacities,
        endpoint: &mut Endpoint,
    ) -> Option<Self> {
        let resolver = RangeResolver::new(job, in_place)?;
        let eager_limit = endpoint.eager_limit();
        let (mut phases, mut uses_segment, mut max_steps) = (Vec::new(), false, 0);
        for phase in 0..job.schedule.phases() {
            // Ranks without a host of their own have only messages.
            let transport = SharedTransport::PipelinedCopyInCopyOut;
            let shared = segment_phase(job, phase, members, slots, transport, &resolver)
                .filter(|shared| members.len() > 1 && max_steps + shared.max_steps <= MAX_STEPS);
            phases.push(match shared {
                Some(shared) => {
                    max_steps += shared.max_steps;
                    uses_segment |= shared.max_steps > 0;
                    CompiledPhase::Steps(shared.lists)
                }
                None => match message_steps(job, phase, &resolver, eager_limit, endpoint) {
                    Some(steps) => CompiledPhase::Steps(StepLists::once(steps)),
                    None => CompiledPhase::Uncompiled(phase),
                },
            });
        }
        if !uses_segment {
            return None;
        }
        if phases.iter().all(|phase| matches!(phase, CompiledPhase::Steps(_))) {
            let mut lists = StepLists::default();
            for phase in phases {
                if let CompiledPhase::Steps(steps) = phase {
                    lists.append(steps);
                }
            }
            // Where there are uncompiled phases, it is not known which copies these read.
            eliminate_dead_copies(&mut lists.steps);
            return Some(Self::from_lists(job, &resolver, lists));
        }
        let (mut steps, mut sections) = (Vec::new(), Vec::<Section>::new());
        for phase in phases {
            match (phase, sections.last_mut()) {
                (CompiledPhase::Steps(lists), _) => {
                    sections.extend(lists.concat_to(&mut steps).into_iter().map(Section::Steps))
                }
                (CompiledPhase::Uncompiled(phase), Some(Section::Phases(last))) => last.extend_to(phase),
                (CompiledPhase::Uncompiled(phase), _) => {
                    sections.push(Section::Phases(UncompiledPhases::new(job, in_place, &resolver, phase)));
                }
            }
        }
        Some(Self::from_sections(job, &resolver, steps, sections))
    }
}

/// Consecutive phases that are executed round by round, with the scratch memory of the steps before and after them.
pub(super) struct UncompiledPhases {
    /// The job, with a schedule of these phases.
    job: CollectiveJob,
    whole: Arc<dyn Schedule>,
    phases: Range<u32>,
    in_place: bool,
    /// The scratch buffers, in bytes of the scratch memory.
    temporaries: Vec<Range<usize>>,
    /// Unused staging memory.
    staging: RefCell<Vec<Region>>,
}

impl UncompiledPhases {
    fn new(job: &CollectiveJob, in_place: bool, resolver: &RangeResolver<'_>, phase: u32) -> Self {
        let mut phases = Self {
            job: job.clone(),
            whole: job.schedule.clone(),
            phases: phase..phase,
            in_place: in_place && job.aliasing() != BufferAliasing::Disjoint,
            temporaries: resolver.scratch_buffers(),
            staging: RefCell::default(),
        };
        phases.extend_to(phase);
        phases
    }

    /// Includes the phases up to this one.
    fn extend_to(&mut self, phase: u32) {
        self.phases.end = phase + 1;
        self.job.schedule = Arc::new(PhaseRange { schedule: self.whole.clone(), phases: self.phases.clone() });
    }

    /// The job, whose schedule has these phases only.
    pub(super) fn job(&self) -> &CollectiveJob {
        &self.job
    }

    /// Executes the phases.
    #[cold]
    pub(super) fn run(
        &self,
        endpoint: &mut Endpoint,
        instance: Instance,
        buffers: &mut StepBuffers<'_>,
        fold: &ReduceFn,
    ) -> Result<()> {
        let endpoint = RefCell::new(endpoint);
        borrow_scope(
            |lending, _| {
                let output = lending.region_mut(&mut *buffers.output);
                let buffer_pair = match self.in_place {
                    true => CollectiveBuffers::aliased(&self.job, output),
                    false => CollectiveBuffers::new(lending.region(buffers.input), output),
                };
                let scratch = lending.region_mut(&mut *buffers.scratch);
                let temporaries = self.temporaries.iter().map(|range| scratch.subregion(range.clone())).collect();
                let (job, fold, staging) = (self.job.clone(), Some(Fold::Borrowed(fold)), self.staging.take());
                let mut execution = Execution::with_temporaries(job, fold, buffer_pair, temporaries, staging);
                execution.start(instance.number);
                let result = endpoint.borrow_mut().run_task(&mut execution);
                self.staging.replace(execution.into_staging());
                result
            },
            |panicked| endpoint.borrow_mut().settle(panicked),
        )
    }
}

/// Some phases of a schedule, under their numbers: those before have no lanes.
struct PhaseRange {
    schedule: Arc<dyn Schedule>,
    phases: Range<u32>,
}

impl Schedule for PhaseRange {
    fn operation(&self) -> Operation {
        self.schedule.operation()
    }

    fn ranks(&self) -> u32 {
        self.schedule.ranks()
    }

    fn blocks(&self) -> u32 {
        self.schedule.blocks()
    }

    fn scratch_buffers(&self) -> u8 {
        self.schedule.scratch_buffers()
    }

    fn scratch_blocks(&self, tmp: u8, rank: u32) -> BufferBlocks {
        self.schedule.scratch_blocks(tmp, rank)
    }

    fn phases(&self) -> u32 {
        self.phases.end
    }

    fn phase(&self, phase: u32) -> Phase {
        if self.phases.contains(&phase) { self.schedule.phase(phase) } else { Phase::with_lanes(0) }
    }

    fn rounds(&self, rank: u32, phase: u32, lane: u32) -> u32 {
        self.schedule.rounds(rank, phase, lane)
    }

    fn emit(&self, rank: u32, phase: u32, lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        self.schedule.emit(rank, phase, lane, rounds, into);
    }

    fn resolve_view(&self, view: u8, lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        self.schedule.resolve_view(view, lo, len, run);
    }

    fn tie_break(&self, phase: u32, lane: u32) -> TieBreak {
        self.schedule.tie_break(phase, lane)
    }
}
