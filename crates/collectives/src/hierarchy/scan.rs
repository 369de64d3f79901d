//! Hierarchical scan: the totals of subtrees go up, and the prefixes before them down again.
//!
//! Cost: one latency between groups, n over each link between two groups; n up and n down each tree. In s segments
//! these overlap.   Clusters on any number of levels, or a Clos network, if the ranks of each group are consecutive on
//! every level; in rank order.   [P-LogP 3.4; Blelloch 1990]
//!
//! A rank collects the totals of its children's subtrees and combines them to inclusive prefixes, beginning with its
//! own input: the last is the total of its subtree, which is needed if a rank follows it. Each root sends its total to
//! all later roots, which combine those of the groups before theirs. Then each rank gets the prefix before its subtree,
//! which it combines with its prefixes for its children.

use std::ops::Range;

use treepie_schedule::{
    BlockRange, BlockRun, Buf, BufferBlocks, OperandSide, Operation, Phase, RoundList, Schedule, ScheduleOp,
};

use super::forest::{Forest, ForestPosition};
use crate::scan::ScanKind;

/// A hierarchical scan or exscan.
#[derive(Clone, Debug)]
pub struct HierarchicalScan {
    kind: ScanKind,
    forest: Forest,
    segments: u32,
}

#[derive(Clone, Copy)]
enum Step {
    /// Copies its input, and receives the totals of its children.
    Collect,
    /// Combines the prefix before this child with the child's total.
    Prefix(u32),
    /// Sends its total to its parent, and receives the prefix before its subtree.
    Parent,
    /// Sends its total to the roots of later groups, and receives those of earlier ones.
    Exchange,
    /// Combines the totals of earlier groups.
    Combine,
    /// Combines the prefix before its subtree with its own prefixes.
    Extend,
    /// Sends the prefix before each child's subtree, and has its result.
    ToChildren,
    /// A leaf sends its input.
    SendInput,
    /// A leaf copies its input, for an inclusive scan.
    CopyInput,
    /// A leaf gets its result.
    Result,
}

/// The scratch buffer of ranks with children and of roots: the prefixes up to itself and up to each child, then the
/// totals of groups before the previous one. In its view every position is a vector.
const PREFIXES: Buf = Buf::Tmp(0);

impl HierarchicalScan {
    /// Along a rank-ordered forest in `segments` segments, of which at most eight are in flight.
    pub fn new(kind: ScanKind, forest: Forest, segments: u32) -> Self {
        assert!(forest.is_rank_ordered(), "a scan needs a rank-ordered forest");
        Self { kind, forest, segments: segments.max(1) }
    }

    /// Whether no rank follows a subtree: its total is not needed.
    fn is_last(&self, vrank: u32) -> bool {
        vrank + self.forest.subtree_size(vrank) == self.forest.ranks()
    }

    /// The number of children whose totals are needed.
    fn collected(&self, position: &ForestPosition<'_>) -> u32 {
        let children = position.children.len() as u32;
        if self.is_last(position.vrank) { children.saturating_sub(1) } else { children }
    }

    fn steps(&self, position: &ForestPosition<'_>) -> impl Iterator<Item = Step> + use<> {
        let (children, is_root) = (position.children.len() as u32, position.root_of.is_some());
        let group = position.root_of.unwrap_or(0);
        let (uses_prefixes, inclusive) = (children > 0 || is_root, self.kind == ScanKind::Inclusive);
        let has_output = children > 0 || inclusive;
        let is_last = self.is_last(position.vrank);
        let before = [(Step::Collect, uses_prefixes), (Step::SendInput, !uses_prefixes && !is_last)];
        let after = [
            (Step::Parent, uses_prefixes && !is_root),
            (Step::Exchange, is_root && self.forest.groups() > 1),
            (Step::Combine, is_root && group > 1),
            (Step::Extend, uses_prefixes && position.vrank > 0 && has_output),
            (Step::ToChildren, uses_prefixes && has_output),
            (Step::CopyInput, !uses_prefixes && inclusive),
            (Step::Result, !uses_prefixes),
        ];
        let chosen = |(step, has): (Step, bool)| has.then_some(step);
        let prefixes = (1..=self.collected(position)).map(Step::Prefix);
        before.into_iter().filter_map(chosen).chain(prefixes).chain(after.into_iter().filter_map(chosen))
    }

    fn emit_step(&self, step: Step, position: &ForestPosition<'_>, lane: u32, into: &mut RoundList) {
        let forest = &self.forest;
        let vector = |buf| BlockRange::new(buf, 0, 1).segment(lane, self.segments);
        let at = |index| BlockRange::in_view(PREFIXES, 1, index, 1).segment(lane, self.segments);
        let (given, result) = (vector(Buf::In), vector(Buf::Out));
        let children = || (1..).zip(position.children_by_vrank).map(|(number, child)| (number, forest.rank_at(*child)));
        let (count, collected) = (position.children.len() as u32, self.collected(position));
        let (total, group) = (at(collected), position.root_of.unwrap_or(0));
        let earlier = |group: u32| at(collected + 1 + group);
        match step {
            Step::Collect => {
                into.push(ScheduleOp::Copy { from: given, to: at(0) });
                let needed = children().take(collected as usize);
                needed.for_each(|(number, from)| into.push(ScheduleOp::Recv { from, part: at(number) }));
            }
            Step::Prefix(number) => {
                into.push(ScheduleOp::Reduce { from: at(number - 1), into: at(number), side: OperandSide::Left });
            }
            Step::Parent => {
                into.push(ScheduleOp::Recv { from: position.parent, part: result });
                if !self.is_last(position.vrank) {
                    into.push(ScheduleOp::Send { to: position.parent, part: total });
                }
            }
            Step::Exchange => {
                for before in 0..group {
                    let part = if before + 1 == group { result } else { earlier(before) };
                    into.push(ScheduleOp::Recv { from: forest.root(before), part });
                }
                (group + 1..forest.groups())
                    .for_each(|after| into.push(ScheduleOp::Send { to: forest.root(after), part: total }));
            }
            Step::Combine => (0..group - 1).rev().for_each(|before| {
                into.push(ScheduleOp::Reduce { from: earlier(before), into: result, side: OperandSide::Left });
            }),
            // No child needs the prefix up to the last.
            Step::Extend => (0..count.max(1)).for_each(|number| {
                into.push(ScheduleOp::Reduce { from: result, into: at(number), side: OperandSide::Left });
            }),
            Step::ToChildren => {
                children().for_each(|(number, to)| into.push(ScheduleOp::Send { to, part: at(number - 1) }));
                if self.kind == ScanKind::Inclusive {
                    into.push(ScheduleOp::Copy { from: at(0), to: result });
                }
            }
            Step::SendInput => into.push(ScheduleOp::Send { to: position.parent, part: given }),
            Step::CopyInput => into.push(ScheduleOp::Copy { from: given, to: result }),
            Step::Result => into.push(match self.kind {
                ScanKind::Inclusive => {
                    ScheduleOp::RecvReduce { from: position.parent, part: result, side: OperandSide::Left }
                }
                ScanKind::Exclusive => ScheduleOp::Recv { from: position.parent, part: result },
            }),
        }
    }
}

impl Schedule for HierarchicalScan {
    fn operation(&self) -> Operation {
        self.kind.operation()
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
        let position = self.forest.position(rank);
        match position.root_of {
            None if position.children.is_empty() => BufferBlocks::Empty,
            root_of => {
                let len = self.collected(&position) + 1 + root_of.unwrap_or(0).saturating_sub(1);
                BufferBlocks::ViewRange { view: 1, lo: 0, len }
            }
        }
    }

    fn phase(&self, _phase: u32) -> Phase {
        Forest::pipeline(self.segments, 1)
    }

    fn rounds(&self, rank: u32, _phase: u32, _lane: u32) -> u32 {
        self.steps(&self.forest.position(rank)).count() as u32
    }

    fn emit(&self, rank: u32, _phase: u32, lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        let position = self.forest.position(rank);
        for step in self.steps(&position).skip(rounds.start as usize).take(rounds.len()) {
            self.emit_step(step, &position, lane, into);
            into.end_round();
        }
    }

    fn resolve_view(&self, _view: u8, _lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        (0..len).for_each(|_| run(BlockRun::whole_blocks(0, 1)));
    }
}
