//! Trees over ranks, and the rounds of each rank on the way down or up.

use std::ops::Range;

use treepie_schedule::{BlockRun, RoundList};

use super::tree::Tree;

/// A tree over ranks with any root.
#[derive(Clone, Debug)]
pub struct RankTree {
    tree: Tree,
    /// The rank of each virtual rank.
    ranks: Vec<u32>,
    /// The data of each rank in one entry: emitting a round takes less time than lookups in several tables.
    entries: Vec<RankEntry>,
    /// The root, if the order of ranks is a rotation.
    rotation: Option<u32>,
    lockstep: bool,
}

/// A rank's data in the tree.
#[derive(Clone, Copy, Debug)]
struct RankEntry {
    vrank: u32,
    /// The rank of its parent.
    parent: u32,
    /// The range of its children in the tree's lists.
    child_range: (u32, u32),
    /// The first step in which it can send.
    first_step: u32,
}

/// The peers of a rank in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreePeers<'a> {
    /// The rank of its parent.
    Parent(u32),
    /// The virtual ranks of some of its children; empty in an idle round.
    Children(&'a [u32]),
}

impl RankTree {
    /// With virtual rank v on rank v + root (mod P).
    pub fn with_root(tree: Tree, root: u32) -> Self {
        let ranks = tree.vranks();
        Self::with_order(tree, (0..ranks).map(|vrank| (vrank + root) % ranks).collect())
    }

    /// With the ranks in this order of virtual ranks, the root first.
    pub fn with_order(tree: Tree, ranks: Vec<u32>) -> Self {
        let count = ranks.len() as u32;
        let entry = |vrank: u32| {
            let parent = ranks[tree.parent(vrank) as usize];
            RankEntry { vrank, parent, child_range: tree.child_range(vrank), first_step: tree.first_send_step(vrank) }
        };
        let mut entries = vec![entry(0); ranks.len()];
        (0..).zip(&ranks).for_each(|(vrank, rank)| entries[*rank as usize] = entry(vrank));
        let root = ranks[0];
        let rotation = (0..).zip(&ranks).all(|(vrank, rank)| (vrank + root) % count == *rank).then_some(root);
        Self { tree, ranks, entries, rotation, lockstep: false }
    }

    /// This tree in lockstep: a rank has one message per round, and all ranks advance together. It is for trees in
    /// which each rank can send in every step after it has received, such as binomial ones. The number of rounds is
    /// then that of the tree's steps, and links not shared within a step are never shared. Otherwise a rank sends to
    /// all its children in one round.
    pub fn lockstep(self) -> Self {
        Self { lockstep: true, ..self }
    }

    /// Whether all ranks are in lockstep.
    pub fn is_lockstep(&self) -> bool {
        self.lockstep
    }

    /// Whether every virtual rank is its rank: then contributions are combined in rank order.
    pub fn is_rank_ordered(&self) -> bool {
        self.rotation == Some(0)
    }

    /// The root.
    pub fn root(&self) -> u32 {
        self.ranks[0]
    }

    /// The number of ranks.
    pub fn ranks(&self) -> u32 {
        self.tree.vranks()
    }

    /// The tree over virtual ranks.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The virtual rank of a rank.
    pub fn vrank(&self, rank: u32) -> u32 {
        self.entries[rank as usize].vrank
    }

    /// The rank of a virtual rank.
    pub fn rank_at(&self, vrank: u32) -> u32 {
        self.ranks[vrank as usize]
    }

    /// The parent of a rank; that of the root is the root.
    pub fn parent(&self, rank: u32) -> u32 {
        self.rank_at(self.tree.parent(self.vrank(rank)))
    }

    /// Whether a rank has children.
    pub fn has_children(&self, rank: u32) -> bool {
        self.tree.subtree_size(self.vrank(rank)) > 1
    }

    /// The children of a rank, in send order.
    pub fn children(&self, rank: u32) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.tree.children(self.vrank(rank)).iter().map(|vrank| self.rank_at(*vrank))
    }

    /// Resolves the view whose positions are virtual ranks, over one block per rank.
    pub fn resolve_view(&self, lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        if let Some(root) = self.rotation {
            let ranks = self.ranks();
            let first = (lo + root) % ranks;
            let contiguous = len.min(ranks - first);
            run(BlockRun::whole_blocks(first, contiguous));
            if contiguous < len {
                run(BlockRun::whole_blocks(0, len - contiguous));
            }
            return;
        }
        let mut joined = BlockRun::whole_blocks(0, 0);
        for block in &self.ranks[lo as usize..(lo + len) as usize] {
            if joined.blocks > 0 && joined.block + joined.blocks == *block {
                joined.blocks += 1;
            } else {
                if joined.blocks > 0 {
                    run(joined);
                }
                joined = BlockRun::whole_blocks(*block, 1);
            }
        }
        if joined.blocks > 0 {
            run(joined);
        }
    }

    /// A rank's position in the tree.
    #[inline]
    pub fn position(&self, rank: u32) -> TreePosition<'_> {
        let RankEntry { vrank, parent, child_range, first_step } = self.entries[rank as usize];
        let (children, children_by_vrank) = self.tree.children_in(child_range);
        let count = children.len() as u32;
        // In lockstep, every rank has a round for each step before its first.
        let (first_send_round, first_recv_round) = match self.lockstep {
            true => (first_step, self.tree.steps() - first_step - count),
            false => (u32::from(vrank != 0), 0),
        };
        TreePosition {
            vrank,
            parent,
            children,
            children_by_vrank,
            first_send_round,
            first_recv_round,
            lockstep: self.lockstep,
        }
    }
}

/// A rank's position in a tree, and its rounds: idle ones in lockstep, then those with its parent and its children on
/// the way down, or with its children and its parent on the way up.
#[derive(Clone, Copy, Debug)]
pub struct TreePosition<'a> {
    vrank: u32,
    parent: u32,
    children: &'a [u32],
    children_by_vrank: &'a [u32],
    first_send_round: u32,
    first_recv_round: u32,
    lockstep: bool,
}

impl<'a> TreePosition<'a> {
    /// The virtual rank; that of the root is 0.
    pub fn vrank(&self) -> u32 {
        self.vrank
    }

    /// Whether it has children.
    pub fn has_children(&self) -> bool {
        !self.children.is_empty()
    }

    /// Rounds with children: one per child in lockstep, otherwise one for all.
    fn children_rounds(&self) -> u32 {
        let children = self.children.len() as u32;
        if self.lockstep { children } else { children.min(1) }
    }

    /// The number of rounds on the way down.
    pub fn down_rounds(&self) -> u32 {
        self.first_send_round + self.children_rounds()
    }

    /// The round on the way down in which it sends to its first child.
    pub fn first_send_round(&self) -> u32 {
        self.first_send_round
    }

    /// Appends rounds of the way down: `write` gets the round and its peers, and writes the operations.
    #[inline]
    pub fn emit_down(
        &self,
        rounds: Range<u32>,
        into: &mut RoundList,
        mut write: impl FnMut(&mut RoundList, u32, TreePeers<'a>),
    ) {
        let first = self.first_send_round;
        for round in emit_idle_before(first.saturating_sub(1), rounds, into) {
            write(
                into,
                round,
                match round.checked_sub(first) {
                    None => TreePeers::Parent(self.parent),
                    Some(number) if self.lockstep => TreePeers::Children(self.child(number)),
                    Some(_) => TreePeers::Children(self.children),
                },
            );
            into.end_round();
        }
    }

    /// The number of rounds on the way up.
    pub fn up_rounds(&self) -> u32 {
        self.first_recv_round + self.children_rounds() + u32::from(self.vrank != 0)
    }

    /// The round on the way up in which it receives from its first child.
    pub fn first_recv_round(&self) -> u32 {
        self.first_recv_round
    }

    /// Appends rounds of the way up, as [`emit_down`](Self::emit_down); several children are in the order of virtual
    /// ranks.
    #[inline]
    pub fn emit_up(
        &self,
        rounds: Range<u32>,
        into: &mut RoundList,
        mut write: impl FnMut(&mut RoundList, u32, TreePeers<'a>),
    ) {
        let last = self.first_recv_round + self.children_rounds();
        for round in emit_idle_before(self.first_recv_round, rounds, into) {
            write(
                into,
                round,
                match last.checked_sub(round + 1) {
                    // A single rank may have a round, but has neither parent nor children.
                    None if self.vrank == 0 => TreePeers::Children(&[]),
                    None => TreePeers::Parent(self.parent),
                    // The steps of the way down, in reverse.
                    Some(number) if self.lockstep => TreePeers::Children(self.child(number)),
                    Some(_) => TreePeers::Children(self.children_by_vrank),
                },
            );
            into.end_round();
        }
    }

    fn child(&self, number: u32) -> &'a [u32] {
        self.children.get(number as usize).map_or(&[], std::slice::from_ref)
    }
}

/// Appends the idle ones of some rounds, those before `first`, and returns the others.
#[inline]
fn emit_idle_before(first: u32, rounds: Range<u32>, into: &mut RoundList) -> Range<u32> {
    let start = rounds.end.min(first).max(rounds.start);
    into.push_idle(start - rounds.start);
    start..rounds.end
}
