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
use super::steps::{RangeResolver, Step, StepBuffers};
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
                    uses_segment |=
                        shared.lists.steps.iter().flatten().any(|step| matches!(step, Step::Publish { .. }));
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
            return Some(Self::from_lists(job, &resolver, lists).with_messages());
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
        Some(Self::from_sections(job, &resolver, steps, sections).with_messages())
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

    fn resolve_view_on(&self, rank: u32, view: u8, lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        self.schedule.resolve_view_on(rank, view, lo, len, run);
    }

    fn tie_break(&self, phase: u32, lane: u32) -> TieBreak {
        self.schedule.tie_break(phase, lane)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::rc::Rc;

    use treepie_collectives::registry::{self, CollectiveSpec};
    use treepie_fabric::{CallSignature, Singleton};
    use treepie_schedule::{BlockLayout, BlockLayouts};
    use treepie_topology::Network;

    use super::*;
    use crate::members::Members;

    /// Three hosts, whose ranks are placed round-robin; the last has one.
    fn network() -> Network {
        "flat:9,ppn=3@0+3+1+4+2+5+6".parse().unwrap()
    }

    fn hosts() -> [Vec<u32>; 3] {
        [vec![0, 2, 4], vec![1, 3, 5], vec![6]]
    }

    const SLOTS: SlotCapacities = SlotCapacities { line: 48, page: 4 << 10, bulk: 64 << 10, single_copy: false };

    /// The compiled schedule of each rank that can use its segment.
    fn compile(id: &str, operation: Operation, elements: usize) -> Vec<Option<CompiledSchedule>> {
        let network = network();
        let schedule: Arc<dyn Schedule> =
            registry::build(id, &CollectiveSpec::new(operation, &network)).unwrap().into();
        let layout = BlockLayout::Even { total: elements, blocks: schedule.blocks() };
        let mut endpoint = Endpoint::new(Box::new(Singleton::new()));
        (0..network.ranks())
            .map(|rank| {
                let job = CollectiveJob {
                    schedule: schedule.clone(),
                    layouts: BlockLayouts::symmetric(layout.clone()),
                    element: 8,
                    align: 8,
                    rank,
                    context: 0,
                    members: Rc::new(Members::All { ranks: network.ranks() }),
                    call: CallSignature::from_name("test"),
                };
                let members = hosts().into_iter().find(|host| host.contains(&rank)).unwrap();
                CompiledSchedule::over_hosts(&job, false, &members, &SLOTS, &mut endpoint)
            })
            .collect()
    }

    #[test]
    fn ranks_send_messages_only_between_leaders() {
        let operations = [
            (Operation::Barrier, [0, 1, 6]),
            (Operation::Bcast { root: 3 }, [0, 3, 6]),
            (Operation::Reduce { root: 4 }, [4, 1, 6]),
            (Operation::Allreduce, [0, 1, 6]),
            (Operation::Allgather, [0, 1, 6]),
        ];
        // Eager messages, and such as are not compiled.
        for elements in [7, 1 << 20] {
            for (operation, leaders) in operations {
                let elements = if operation == Operation::Barrier { 0 } else { elements };
                let id = format!("{}/smp", operation.name());
                for (rank, compiled) in (0..).zip(compile(&id, operation, elements)) {
                    let context = format!("{id} of {elements} on rank {rank}");
                    let Some(compiled) = compiled else {
                        assert_eq!(rank, 6, "{context}");
                        continue;
                    };
                    let is_leader = leaders.contains(&rank);
                    let others: BTreeSet<u32> = leaders.into_iter().filter(|leader| *leader != rank).collect();
                    let peers = compiled.steps().iter().filter_map(|step| match step {
                        Step::Send { to: peer, .. } | Step::Recv { from: peer, .. } => Some(*peer),
                        Step::RecvReduce { from: peer, .. } => Some(*peer),
                        _ => None,
                    });
                    let peers: BTreeSet<u32> = peers.collect();
                    let executed = compiled.sections().iter().filter(|part| matches!(part, Section::Phases(_))).count();
                    // The blocks of a host are not contiguous here.
                    let is_executed = elements > 7 || operation == Operation::Allgather;
                    let (is_long, has_peers) = (is_executed && is_leader, !peers.is_empty());
                    assert!(peers.is_subset(&others) && (is_leader || !has_peers), "{context}: {peers:?}");
                    assert_eq!((executed == 1, has_peers), (is_long, is_leader && !is_long), "{context}");
                    // Members are named by their places in the segment.
                    let read = compiled.steps().iter().filter_map(|step| match step {
                        Step::Read { from, .. } | Step::ReadReduce { from, .. } | Step::Wait { from } => Some(*from),
                        _ => None,
                    });
                    let leader = hosts()[rank as usize % 2].iter().position(|member| leaders.contains(member)).unwrap();
                    let read: BTreeSet<u32> = read.collect();
                    let own = hosts()[rank as usize % 2].iter().position(|member| *member == rank).unwrap() as u32;
                    let from_leader = BTreeSet::from([leader as u32]);
                    let from_others: BTreeSet<u32> = (0..3).filter(|member| *member != own).collect();
                    let expected = match operation {
                        Operation::Bcast { .. } if is_leader => BTreeSet::new(),
                        Operation::Reduce { .. } if !is_leader => BTreeSet::new(),
                        _ if is_leader => from_others,
                        _ => from_leader,
                    };
                    assert_eq!(read, expected, "{context}");
                }
            }
        }
    }

    #[test]
    fn a_schedule_without_phases_within_hosts_is_not_for_them() {
        let compiled = compile("allreduce/ring", Operation::Allreduce, 7);
        assert!(compiled.iter().all(Option::is_none));
    }
}
