//! Hierarchical allgather core: local gather, exchange among coordinators, local broadcast.
//!
//! Cost on C groups: the blocks of a group over each link between two groups once, one latency there; all blocks within
//! each group. In s segments the steps of different segments overlap. The mirror image sums up within each group, then
//! a coordinator sends each other group its blocks.   Clusters on any number of levels, or a Clos network; the mirror
//! image is not in rank order.   [P-LogP 3.4]
//!
//! A rank sends the blocks of its subtree to its parent, coordinators exchange those of their groups, and a parent
//! sends a child all but those of its subtree. In a view of virtual ranks modulo P each of these is one range. With
//! several coordinators, each has every k-th segment.

use std::ops::Range;

use treepie_schedule::{AllgatherCore, BlockRange, BlockRun, Buf, Phase, RoundList, ScheduleOp};

use super::forest::{Forest, ForestStep};

/// The hierarchical core.
#[derive(Clone, Debug)]
pub struct HierarchicalCore {
    /// One for each coordinator.
    forests: Vec<Forest>,
    segments: u32,
}

impl HierarchicalCore {
    /// In `segments` segments, rounded up to a multiple of the forests.
    pub fn new(forests: Vec<Forest>, segments: u32) -> Self {
        let segments = segments.max(1).next_multiple_of(forests.len() as u32);
        Self { forests, segments }
    }
}

impl AllgatherCore for HierarchicalCore {
    fn ranks(&self) -> u32 {
        self.forests[0].ranks()
    }

    fn phase(&self, _phase: u32) -> Phase {
        Forest::pipeline(self.segments, self.forests.len())
    }

    fn rounds(&self, rank: u32, _phase: u32, lane: u32) -> u32 {
        let forest = &self.forests[lane as usize % self.forests.len()];
        forest.position(rank).steps(forest.groups()).count() as u32
    }

    fn emit(&self, rank: u32, _phase: u32, lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        let number = lane as usize % self.forests.len();
        let forest = &self.forests[number];
        let position = forest.position(rank);
        let range = |(lo, len)| BlockRange::in_view(Buf::Out, number as u8 + 1, lo, len).segment(lane, self.segments);
        let subtree = |vrank| range((vrank, forest.subtree_size(vrank)));
        let all_but_subtree = |vrank| {
            let size = forest.subtree_size(vrank);
            range((vrank + size, forest.ranks() - size))
        };
        let steps = position.steps(forest.groups()).skip(rounds.start as usize).take(rounds.len());
        for step in steps {
            match step {
                ForestStep::FromChildren => position.children_by_vrank.iter().for_each(|child| {
                    into.push(ScheduleOp::Recv { from: forest.rank_at(*child), part: subtree(*child) });
                }),
                ForestStep::ToParent => {
                    into.push(ScheduleOp::Send { to: position.parent, part: subtree(position.vrank) });
                }
                ForestStep::Exchange => {
                    let group = position.root_of.expect("only roots exchange");
                    let (of_group, own) = (|group| range(forest.group_interval(group)), forest.group_interval(group));
                    forest.for_other_roots(group, into, |other, from| ScheduleOp::Recv { from, part: of_group(other) });
                    forest.for_other_roots(group, into, |_, to| ScheduleOp::Send { to, part: range(own) });
                }
                ForestStep::FromParent => {
                    into.push(ScheduleOp::Recv { from: position.parent, part: all_but_subtree(position.vrank) });
                }
                ForestStep::ToChildren => position.children.iter().for_each(|child| {
                    into.push(ScheduleOp::Send { to: forest.rank_at(*child), part: all_but_subtree(*child) });
                }),
            }
            into.end_round();
        }
    }

    fn resolve_view(&self, view: u8, lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        self.forests[view as usize - 1].resolve_view(lo, len, run);
    }
}
