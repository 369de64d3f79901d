//! Hierarchical barrier: fan-in to the coordinator of each group, one exchange among them, fan-out.
//!
//! Cost: one latency between groups, and twice that of the trees within.   Clusters on any number of levels, or a Clos
//! network.   [P-LogP 3.4]

use std::ops::Range;

use treepie_schedule::{BlockRange, Operation, RoundList, Schedule, ScheduleOp};

use super::forest::{Forest, ForestStep};

/// A hierarchical barrier.
#[derive(Clone, Debug)]
pub struct HierarchicalBarrier {
    forest: Forest,
}

impl HierarchicalBarrier {
    /// Along this forest.
    pub fn new(forest: Forest) -> Self {
        Self { forest }
    }
}

impl Schedule for HierarchicalBarrier {
    fn operation(&self) -> Operation {
        Operation::Barrier
    }

    fn ranks(&self) -> u32 {
        self.forest.ranks()
    }

    fn blocks(&self) -> u32 {
        0
    }

    fn rounds(&self, rank: u32, _phase: u32, _lane: u32) -> u32 {
        self.forest.position(rank).steps(self.forest.groups()).count() as u32
    }

    fn emit(&self, rank: u32, _phase: u32, _lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        let (forest, part) = (&self.forest, BlockRange::EMPTY);
        let position = forest.position(rank);
        for step in position.steps(forest.groups()).skip(rounds.start as usize).take(rounds.len()) {
            match step {
                ForestStep::FromChildren => position.children_by_vrank.iter().for_each(|child| {
                    into.push(ScheduleOp::Recv { from: forest.rank_at(*child), part });
                }),
                ForestStep::ToParent => into.push(ScheduleOp::Send { to: position.parent, part }),
                ForestStep::Exchange => {
                    let group = position.root_of.expect("only roots exchange");
                    forest.for_other_roots(group, into, |_, from| ScheduleOp::Recv { from, part });
                    forest.for_other_roots(group, into, |_, to| ScheduleOp::Send { to, part });
                }
                ForestStep::FromParent => into.push(ScheduleOp::Recv { from: position.parent, part }),
                ForestStep::ToChildren => position.children.iter().for_each(|child| {
                    into.push(ScheduleOp::Send { to: forest.rank_at(*child), part });
                }),
            }
            into.end_round();
        }
    }
}
