//! Hierarchical allreduce of long vectors: local reduction, reduce-scatter and allgather among coordinators, local
//! broadcast.
//!
//! Cost on C groups: two latencies between groups, n/C over each link between two of them in each of both; n up and n
//! down each tree. In s segments all of that overlaps: a segment's allgather does not wait for the reduction of the
//! others.   Clusters on any number of levels, or a Clos network; not in rank order.   [P-LogP 3.4; Rabenseifner 2004]
//!
//! The vector has a block for each group, whatever the sizes of the groups. With several coordinators, each has every
//! k-th segment.

use std::ops::Range;

use treepie_schedule::{BlockRange, Buf, OperandSide, Operation, Phase, RoundList, Schedule, ScheduleOp};

use super::forest::{Forest, ForestPosition};

/// A hierarchical allreduce.
#[derive(Clone, Debug)]
pub struct HierarchicalAllreduce {
    /// One for each coordinator.
    forests: Vec<Forest>,
    segments: u32,
}

#[derive(Clone, Copy)]
enum Step {
    Load,
    ReduceChildren,
    ToParent,
    ReduceScatter,
    Allgather,
    FromParent,
    ToChildren,
}

/// The steps of a rank. A leaf sends its input.
fn steps(position: &ForestPosition<'_>, groups: u32) -> impl Iterator<Item = Step> + use<> {
    let (is_inner, is_root) = (!position.children.is_empty(), position.root_of.is_some());
    [
        (Step::Load, is_inner || is_root),
        (Step::ReduceChildren, is_inner),
        (Step::ToParent, !is_root),
        (Step::ReduceScatter, is_root && groups > 1),
        (Step::Allgather, is_root && groups > 1),
        (Step::FromParent, !is_root),
        (Step::ToChildren, is_inner),
    ]
    .into_iter()
    .filter_map(|(step, has)| has.then_some(step))
}

impl HierarchicalAllreduce {
    /// In `segments` segments, rounded up to a multiple of the forests.
    pub fn new(forests: Vec<Forest>, segments: u32) -> Self {
        let segments = segments.max(1).next_multiple_of(forests.len() as u32);
        Self { forests, segments }
    }

    fn forest(&self, lane: u32) -> &Forest {
        &self.forests[lane as usize % self.forests.len()]
    }
}

impl Schedule for HierarchicalAllreduce {
    fn operation(&self) -> Operation {
        Operation::Allreduce
    }

    fn ranks(&self) -> u32 {
        self.forests[0].ranks()
    }

    fn blocks(&self) -> u32 {
        self.forests[0].groups()
    }

    fn phase(&self, _phase: u32) -> Phase {
        Forest::pipeline(self.segments, self.forests.len())
    }

    fn rounds(&self, rank: u32, _phase: u32, lane: u32) -> u32 {
        let forest = self.forest(lane);
        steps(&forest.position(rank), forest.groups()).count() as u32
    }

    fn emit(&self, rank: u32, _phase: u32, lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        let forest = self.forest(lane);
        let position = forest.position(rank);
        let blocks = |buf, lo, len| BlockRange::new(buf, lo, len).segment(lane, self.segments);
        let all = |buf| blocks(buf, 0, forest.groups());
        let of_group = |group| blocks(Buf::Out, group, 1);
        let group = position.root_of.unwrap_or(0);
        for step in steps(&position, forest.groups()).skip(rounds.start as usize).take(rounds.len()) {
            match step {
                Step::Load => into.push(ScheduleOp::Copy { from: all(Buf::In), to: all(Buf::Out) }),
                Step::ReduceChildren => position.children_by_vrank.iter().for_each(|child| {
                    let (from, part) = (forest.rank_at(*child), all(Buf::Out));
                    into.push(ScheduleOp::RecvReduce { from, part, side: OperandSide::Right });
                }),
                Step::ToParent => {
                    let buf = if position.children.is_empty() { Buf::In } else { Buf::Out };
                    into.push(ScheduleOp::Send { to: position.parent, part: all(buf) });
                }
                Step::ReduceScatter => {
                    let part = of_group(group);
                    forest.for_other_roots(group, into, |other, from| ScheduleOp::RecvReduce {
                        from,
                        part,
                        side: OperandSide::of_peer(other, group),
                    });
                    forest.for_other_roots(group, into, |other, to| ScheduleOp::Send { to, part: of_group(other) });
                }
                Step::Allgather => {
                    forest.for_other_roots(group, into, |other, from| ScheduleOp::Recv { from, part: of_group(other) });
                    forest.for_other_roots(group, into, |_, to| ScheduleOp::Send { to, part: of_group(group) });
                }
                Step::FromParent => into.push(ScheduleOp::Recv { from: position.parent, part: all(Buf::Out) }),
                Step::ToChildren => position.children.iter().for_each(|child| {
                    into.push(ScheduleOp::Send { to: forest.rank_at(*child), part: all(Buf::Out) });
                }),
            }
            into.end_round();
        }
    }
}
