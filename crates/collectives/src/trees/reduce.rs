//! Tree reduction, pipelined in segments: each rank combines its children's vectors with its own and sends the result
//! to its parent.
//!
//! Cost with s segments: (s-1) gamma + lambda of the tree, as a broadcast; a binomial tree with one segment takes lg P
//! (alpha + n beta), a chain in s segments (P-2+s)(alpha + n/s beta).   Any P, any tree.   [P-LogP 3.1; thesis 3.2.1]
//!
//! Children are combined in the order of virtual ranks, so a non-commutative operator is supported if every virtual
//! rank is its rank. For another root, the ordered form reduces along such a tree to rank 0, which sends the result to
//! the root.

use std::ops::Range;
use std::sync::Arc;

use treepie_schedule::{BlockRange, Buf, BufferBlocks, OperandSide, Operation, Phase, RoundList, Schedule, ScheduleOp};

use super::rank_tree::{RankTree, TreePeers, TreePosition};

/// A reduction up a tree, or up several with the same root that carry the segments in turn.
pub struct Reduce {
    trees: Vec<Arc<RankTree>>,
    root: u32,
    segments: u32,
    window: u32,
}

impl Reduce {
    /// To the root of the tree, in `segments` segments, of which at most `window` are in flight on a rank.
    pub fn new(tree: Arc<RankTree>, segments: u32, window: u32) -> Self {
        Self { root: tree.root(), trees: vec![tree], segments: segments.max(1), window }
    }

    /// Up several trees, in `segments` segments, rounded up to a multiple of the trees; all are in flight at once
    /// unless there is a window of each tree.
    pub fn along_trees(trees: Vec<Arc<RankTree>>, segments: u32, window: Option<u32>) -> Self {
        let window = window.map_or(u32::MAX, |window| window.saturating_mul(trees.len() as u32));
        let segments = segments.max(1).next_multiple_of(trees.len() as u32);
        Self { root: trees[0].root(), trees, segments, window }
    }

    fn tree(&self, lane: u32) -> &RankTree {
        &self.trees[lane as usize % self.trees.len()]
    }

    /// In rank order to any root: every virtual rank of the tree must be its rank.
    pub fn ordered(tree: Arc<RankTree>, root: u32, segments: u32, window: u32) -> Self {
        assert!(tree.is_rank_ordered(), "a reduction in rank order needs a rank-ordered tree");
        Self { root, trees: vec![tree], segments: segments.max(1), window }
    }

    /// The buffer that a rank sends to its parent: leaves send their input.
    fn buffer(&self, rank: u32, position: &TreePosition<'_>) -> Buf {
        match combines(position) {
            false => Buf::In,
            true if rank == self.root => Buf::Out,
            true => Buf::Tmp(0),
        }
    }

    /// Rounds before those in the tree: ranks that combine copy their input. In lockstep all ranks have one.
    fn load_rounds(&self, position: &TreePosition<'_>) -> u32 {
        u32::from(self.tree(0).is_lockstep() || combines(position))
    }

    /// Whether a rank takes part in sending the result from the tree's root to the operation's.
    fn relays(&self, rank: u32) -> bool {
        self.tree(0).root() != self.root && (rank == self.root || rank == self.tree(0).root())
    }
}

impl Schedule for Reduce {
    fn operation(&self) -> Operation {
        Operation::Reduce { root: self.root }
    }

    fn ranks(&self) -> u32 {
        self.tree(0).ranks()
    }

    fn blocks(&self) -> u32 {
        1
    }

    fn scratch_buffers(&self) -> u8 {
        1
    }

    fn scratch_blocks(&self, _tmp: u8, rank: u32) -> BufferBlocks {
        let combines = |tree: &Arc<RankTree>| self.buffer(rank, &tree.position(rank)) == Buf::Tmp(0);
        if self.trees.iter().any(combines) { BufferBlocks::all(1) } else { BufferBlocks::Empty }
    }

    fn phase(&self, _phase: u32) -> Phase {
        Phase::with_lanes(self.segments).with_window(self.window)
    }

    fn rounds(&self, rank: u32, _phase: u32, lane: u32) -> u32 {
        let position = self.tree(lane).position(rank);
        self.load_rounds(&position) + position.up_rounds() + u32::from(self.relays(rank))
    }

    fn emit(&self, rank: u32, _phase: u32, lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        let of_buf = |buf| BlockRange::new(buf, 0, 1).segment(lane, self.segments);
        let tree = self.tree(lane);
        let position = tree.position(rank);
        let part = of_buf(self.buffer(rank, &position));
        let load_rounds = self.load_rounds(&position);
        let last = load_rounds + position.up_rounds();
        // The requested rounds within from..to, relative to `from`.
        let within = |from: u32, to: u32| rounds.start.clamp(from, to) - from..rounds.end.clamp(from, to) - from;
        for _ in within(0, load_rounds) {
            if combines(&position) {
                into.push(ScheduleOp::Copy { from: of_buf(Buf::In), to: part });
            }
            into.end_round();
        }
        position.emit_up(within(load_rounds, last), into, |into, _, peers| match peers {
            TreePeers::Parent(to) => into.push(ScheduleOp::Send { to, part }),
            // Virtual ranks of a subtree follow that of its parent.
            TreePeers::Children(children) => children.iter().for_each(|child| {
                into.push(ScheduleOp::RecvReduce { from: tree.rank_at(*child), part, side: OperandSide::Right });
            }),
        });
        for _ in within(last, u32::MAX) {
            into.push(match rank == self.root {
                true => ScheduleOp::Recv { from: tree.root(), part: of_buf(Buf::Out) },
                false => ScheduleOp::Send { to: self.root, part },
            });
            into.end_round();
        }
    }
}

/// Whether a rank combines anything, or is the root.
fn combines(position: &TreePosition<'_>) -> bool {
    position.vrank() == 0 || position.has_children()
}
