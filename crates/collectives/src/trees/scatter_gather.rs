//! Tree scatter and gather. On the way down each rank receives the blocks of its subtree and sends those of its
//! children's subtrees on; on the way up it collects the blocks of its subtree and sends them together.
//!
//! Cost: flat (P-1)(alpha + n beta); binomial ceil(lg P) alpha + n(P-1) beta. Flat in segments, with the links to or
//! from clusters used round-robin: (s-1) gamma + lambda.   Any P, any tree.   [P-LogP 3.2, 3.3]
//!
//! An inner rank has only the blocks of its subtree in scratch memory. The root has them in its input or output; leaves
//! have only their own block.

use std::ops::Range;
use std::sync::Arc;

use treepie_schedule::{BlockRange, BlockRun, Buf, BufferBlocks, Operation, Phase, RoundList, Schedule, ScheduleOp};

use super::rank_tree::{RankTree, TreePeers};

/// A scatter or gather along a tree.
pub struct ScatterGather {
    direction: Direction,
    tree: Arc<RankTree>,
    segments: u32,
    window: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Down,
    Up,
}

impl ScatterGather {
    /// A scatter from the root, with each block in `segments` segments, of which at most `window` are in flight on a
    /// rank.
    pub fn scatter(tree: Arc<RankTree>, segments: u32, window: u32) -> Self {
        Self { direction: Direction::Down, tree, segments: segments.max(1), window }
    }

    /// A gather to the root, likewise.
    pub fn gather(tree: Arc<RankTree>, segments: u32, window: u32) -> Self {
        Self { direction: Direction::Up, tree, segments: segments.max(1), window }
    }
}

impl Schedule for ScatterGather {
    fn operation(&self) -> Operation {
        let root = self.tree.root();
        match self.direction {
            Direction::Down => Operation::Scatter { root },
            Direction::Up => Operation::Gather { root },
        }
    }

    fn ranks(&self) -> u32 {
        self.tree.ranks()
    }

    fn scratch_buffers(&self) -> u8 {
        1
    }

    fn scratch_blocks(&self, _tmp: u8, rank: u32) -> BufferBlocks {
        match self.tree.vrank(rank) {
            lo if lo > 0 && self.tree.has_children(rank) => {
                BufferBlocks::ViewRange { view: 1, lo, len: self.tree.tree().subtree_size(lo) }
            }
            _ => BufferBlocks::Empty,
        }
    }

    fn phase(&self, _phase: u32) -> Phase {
        Phase::with_lanes(self.segments).with_window(self.window)
    }

    fn rounds(&self, rank: u32, _phase: u32, _lane: u32) -> u32 {
        let position = self.tree.position(rank);
        // A single rank has a round for its copy.
        match self.direction {
            Direction::Down => position.down_rounds().max(1),
            Direction::Up => position.up_rounds().max(1),
        }
    }

    fn emit(&self, rank: u32, _phase: u32, lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        let is_root = rank == self.tree.root();
        let segment = (lane, self.segments);
        match self.direction {
            Direction::Down => {
                let buf = if is_root { Buf::In } else { Buf::Tmp(0) };
                emit_scatter(&self.tree, buf, segment, rank, rounds, into);
            }
            Direction::Up => {
                let buf = if is_root { Buf::Out } else { Buf::Tmp(0) };
                emit_gather(&self.tree, buf, segment, rank, rounds, into);
            }
        }
    }

    fn resolve_view(&self, _view: u8, lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        self.tree.resolve_view(lo, len, run);
    }
}

/// Appends rounds of the scatter of a segment of each block down a tree, whose virtual ranks are view 1. The root and
/// inner ranks have the blocks of their subtree in `buf`.
fn emit_scatter(
    tree: &RankTree,
    buf: Buf,
    (segment, segments): (u32, u32),
    rank: u32,
    rounds: Range<u32>,
    into: &mut RoundList,
) {
    let position = tree.position(rank);
    let (vrank, first) = (position.vrank(), position.first_send_round());
    let own = BlockRange::new(Buf::Out, rank, 1).segment(segment, segments);
    let positions = |vrank, len| BlockRange::in_view(buf, 1, vrank, len).segment(segment, segments);
    let forwards = vrank == 0 || position.has_children();
    position.emit_down(rounds, into, |into, round, peers| {
        match peers {
            TreePeers::Parent(from) => {
                let part = if forwards { positions(vrank, tree.tree().subtree_size(vrank)) } else { own };
                into.push(ScheduleOp::Recv { from, part });
            }
            TreePeers::Children(children) => children.iter().for_each(|child| {
                let part = positions(*child, tree.tree().subtree_size(*child));
                into.push(ScheduleOp::Send { to: tree.rank_at(*child), part });
            }),
        }
        if forwards && round == first {
            into.push(ScheduleOp::Copy { from: positions(vrank, 1), to: own });
        }
    });
}

/// Appends rounds of the gather of a segment of each block up a tree, likewise.
pub(crate) fn emit_gather(
    tree: &RankTree,
    buf: Buf,
    (segment, segments): (u32, u32),
    rank: u32,
    rounds: Range<u32>,
    into: &mut RoundList,
) {
    let position = tree.position(rank);
    let (vrank, first) = (position.vrank(), position.first_recv_round());
    let own = BlockRange::new(Buf::In, rank, 1).segment(segment, segments);
    let positions = |vrank, len| BlockRange::in_view(buf, 1, vrank, len).segment(segment, segments);
    let collects = vrank == 0 || position.has_children();
    position.emit_up(rounds, into, |into, round, peers| {
        if collects && round == first {
            into.push(ScheduleOp::Copy { from: own, to: positions(vrank, 1) });
        }
        match peers {
            TreePeers::Parent(to) => {
                let part = if collects { positions(vrank, tree.tree().subtree_size(vrank)) } else { own };
                into.push(ScheduleOp::Send { to, part });
            }
            TreePeers::Children(children) => children.iter().for_each(|child| {
                let part = positions(*child, tree.tree().subtree_size(*child));
                into.push(ScheduleOp::Recv { from: tree.rank_at(*child), part });
            }),
        }
    });
}
