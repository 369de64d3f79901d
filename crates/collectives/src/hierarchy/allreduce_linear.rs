//! Hierarchical allreduce of short vectors: local reduction, exchange of whole vectors among coordinators, local
//! broadcast.
//!
//! Cost: one latency between groups, n over each link between two groups; n up and n down each tree; memory for a
//! vector of each group on the coordinators.   Clusters on any number of levels, or a Clos network; in rank order if
//! the ranks of each group are consecutive on every level.   [P-LogP 3.4]
//!
//! All coordinators combine the vectors of the groups in the same order, so that results are identical.

use std::ops::Range;

use treepie_schedule::{
    BlockRange, BlockRun, Buf, BufferBlocks, OperandSide, Operation, Phase, RoundList, Schedule, ScheduleOp,
};

use super::forest::{Forest, ForestPosition};

/// A hierarchical allreduce with one exchange.
#[derive(Clone, Debug)]
pub struct HierarchicalLinear {
    forest: Forest,
    segments: u32,
}

#[derive(Clone, Copy)]
enum Step {
    Load,
    ReduceChildren,
    ToParent,
    Exchange,
    First,
    Combine,
    FromParent,
    ToChildren,
}

fn steps(position: &ForestPosition<'_>, groups: u32) -> impl Iterator<Item = Step> + use<> {
    let (is_inner, is_root) = (!position.children.is_empty(), position.root_of.is_some());
    [
        (Step::Load, is_inner || is_root),
        (Step::ReduceChildren, is_inner),
        (Step::ToParent, !is_root),
        (Step::Exchange, is_root && groups > 1),
        (Step::First, is_root),
        (Step::Combine, is_root && groups > 1),
        (Step::FromParent, !is_root),
        (Step::ToChildren, is_inner),
    ]
    .into_iter()
    .filter_map(|(step, has)| has.then_some(step))
}

impl HierarchicalLinear {
    /// In `segments` segments, of which at most eight are in flight.
    pub fn new(forest: Forest, segments: u32) -> Self {
        Self { forest, segments: segments.max(1) }
    }
}

/// The scratch buffer of a coordinator, which has the vectors of all groups. In its view every position is a vector.
const VECTORS: Buf = Buf::Tmp(0);

impl Schedule for HierarchicalLinear {
    fn operation(&self) -> Operation {
        Operation::Allreduce
    }

    fn ranks(&self) -> u32 {
        self.forest.ranks()
    }

    fn blocks(&self) -> u32 {
        1
    }

    fn scratch_buffers(&self) -> u8 {
        1
    }

    fn scratch_blocks(&self, _tmp: u8, rank: u32) -> BufferBlocks {
        match self.forest.position(rank).root_of {
            Some(_) => BufferBlocks::ViewRange { view: 1, lo: 0, len: self.forest.groups() },
            None => BufferBlocks::Empty,
        }
    }

    fn phase(&self, _phase: u32) -> Phase {
        Forest::pipeline(self.segments, 1)
    }

    fn rounds(&self, rank: u32, _phase: u32, _lane: u32) -> u32 {
        steps(&self.forest.position(rank), self.forest.groups()).count() as u32
    }

    fn emit(&self, rank: u32, _phase: u32, lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        let forest = &self.forest;
        let position = forest.position(rank);
        let vector = |buf| BlockRange::new(buf, 0, 1).segment(lane, self.segments);
        let of_group = |group| BlockRange::in_view(VECTORS, 1, group, 1).segment(lane, self.segments);
        // A coordinator sums up its group's vector among those of the others.
        let sum = position.root_of.map_or(vector(Buf::Out), of_group);
        let group = position.root_of.unwrap_or(0);
        for step in steps(&position, forest.groups()).skip(rounds.start as usize).take(rounds.len()) {
            match step {
                Step::Load => into.push(ScheduleOp::Copy { from: vector(Buf::In), to: sum }),
                Step::ReduceChildren => position.children_by_vrank.iter().for_each(|child| {
                    let from = forest.rank_at(*child);
                    into.push(ScheduleOp::RecvReduce { from, part: sum, side: OperandSide::Right });
                }),
                Step::ToParent => {
                    let part = if position.children.is_empty() { vector(Buf::In) } else { sum };
                    into.push(ScheduleOp::Send { to: position.parent, part });
                }
                Step::Exchange => {
                    forest.for_other_roots(group, into, |other, from| ScheduleOp::Recv { from, part: of_group(other) });
                    forest.for_other_roots(group, into, |_, to| ScheduleOp::Send { to, part: sum });
                }
                Step::First => into.push(ScheduleOp::Copy { from: of_group(0), to: vector(Buf::Out) }),
                Step::Combine => (1..forest.groups()).for_each(|group| {
                    let (from, to) = (of_group(group), vector(Buf::Out));
                    into.push(ScheduleOp::Reduce { from, into: to, side: OperandSide::Right });
                }),
                Step::FromParent => into.push(ScheduleOp::Recv { from: position.parent, part: vector(Buf::Out) }),
                Step::ToChildren => position.children.iter().for_each(|child| {
                    into.push(ScheduleOp::Send { to: forest.rank_at(*child), part: vector(Buf::Out) });
                }),
            }
            into.end_round();
        }
    }

    fn resolve_view(&self, _view: u8, _lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        (0..len).for_each(|_| run(BlockRun::whole_blocks(0, 1)));
    }
}
