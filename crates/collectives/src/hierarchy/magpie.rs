//! MagPIe's original algorithms for clusters: flat trees over the coordinators, binomial trees within clusters, whole
//! messages, and one phase after the other. They are what segmented, pipelined ones are compared with.
//!
//! Cost: T_w + T_l, each with one segment.   Clusters, of nested ones the innermost, or a Clos network; reductions are
//! not in rank order.   [P-LogP 3.1.3, 3.2, 3.4; Kielmann et al. 1999]

use std::ops::Range;
use std::sync::Arc;

use treepie_schedule::{BlockRange, BlockRun, Buf, OperandSide, Operation, RoundList, Schedule, ScheduleOp};
use treepie_topology::Network;

use super::forest::Forest;
use crate::trees::bcast::emit_bcast;
use crate::trees::shape::groups;
use crate::trees::{Levels, RankTree, TreePeers, TreeShape};

/// The tree of MagPIe's broadcast, reduction and barrier, with one message at a time; `None` if there are no clusters.
pub fn tree(network: &Network, root: u32) -> Option<Arc<RankTree>> {
    let clusters = groups(network, Levels::Innermost)?;
    Some(Arc::new(RankTree::two_layer(&clusters[0], root, TreeShape::Flat, TreeShape::Binomial).lockstep()))
}

/// The flat tree of MagPIe's scatter and gather, with one message at a time; `None` if there are no clusters.
pub fn flat_tree(network: &Network, root: u32) -> Option<Arc<RankTree>> {
    Some(Arc::new(RankTree::in_turn(&groups(network, Levels::Innermost)?[0], root).lockstep()))
}

/// MagPIe's allreduce: a reduction up its tree, then a broadcast down.
pub struct MagpieAllreduce {
    tree: Arc<RankTree>,
}

impl MagpieAllreduce {
    /// Along MagPIe's tree.
    pub fn new(tree: Arc<RankTree>) -> Self {
        Self { tree }
    }
}

impl Schedule for MagpieAllreduce {
    fn operation(&self) -> Operation {
        Operation::Allreduce
    }

    fn ranks(&self) -> u32 {
        self.tree.ranks()
    }

    fn blocks(&self) -> u32 {
        1
    }

    fn phases(&self) -> u32 {
        3
    }

    fn rounds(&self, rank: u32, phase: u32, _lane: u32) -> u32 {
        let position = self.tree.position(rank);
        match phase {
            0 => 1,
            1 => position.up_rounds(),
            _ => position.down_rounds(),
        }
    }

    fn emit(&self, rank: u32, phase: u32, _lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        let vector = |buf| BlockRange::new(buf, 0, 1);
        let (tree, part) = (&*self.tree, vector(Buf::Out));
        match phase {
            0 => {
                into.push(ScheduleOp::Copy { from: vector(Buf::In), to: part });
                into.end_round();
            }
            1 => tree.position(rank).emit_up(rounds, into, |into, _, peers| match peers {
                TreePeers::Parent(to) => into.push(ScheduleOp::Send { to, part }),
                TreePeers::Children(children) => children.iter().for_each(|child| {
                    let from = tree.rank_at(*child);
                    into.push(ScheduleOp::RecvReduce { from, part, side: OperandSide::Right });
                }),
            }),
            _ => emit_bcast(tree, part, rank, rounds, into),
        }
    }
}

/// MagPIe's allgather: a gather in each cluster, an exchange among the coordinators, and a broadcast of all blocks in
/// each cluster.
pub struct MagpieAllgather {
    forest: Forest,
}

impl MagpieAllgather {
    /// Over the clusters of a network; `None` if there are none.
    pub fn new(network: &Network) -> Option<Self> {
        Some(Self { forest: Forest::new(network, Levels::Innermost, TreeShape::Flat, TreeShape::Binomial)? })
    }
}

impl Schedule for MagpieAllgather {
    fn operation(&self) -> Operation {
        Operation::Allgather
    }

    fn ranks(&self) -> u32 {
        self.forest.ranks()
    }

    fn phases(&self) -> u32 {
        3
    }

    fn rounds(&self, rank: u32, phase: u32, _lane: u32) -> u32 {
        let position = self.forest.position(rank);
        let is_root = position.root_of.is_some();
        match phase {
            0 => 1 + u32::from(!is_root),
            1 => u32::from(is_root && self.forest.groups() > 1),
            _ => u32::from(!is_root) + position.children.len() as u32,
        }
    }

    fn emit(&self, rank: u32, phase: u32, _lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        let forest = &self.forest;
        let position = forest.position(rank);
        let range = |lo, len| BlockRange::in_view(Buf::Out, 1, lo, len);
        let subtree = |vrank| range(vrank, forest.subtree_size(vrank));
        let of_group = |group| {
            let (lo, len) = forest.group_interval(group);
            range(lo, len)
        };
        let all = BlockRange::new(Buf::Out, 0, self.blocks());
        for round in rounds {
            match (phase, round) {
                (0, 0) => {
                    let own = |buf| BlockRange::new(buf, rank, 1);
                    into.push(ScheduleOp::Copy { from: own(Buf::In), to: own(Buf::Out) });
                    position.children_by_vrank.iter().for_each(|child| {
                        into.push(ScheduleOp::Recv { from: forest.rank_at(*child), part: subtree(*child) });
                    });
                }
                (0, _) => into.push(ScheduleOp::Send { to: position.parent, part: subtree(position.vrank) }),
                (1, _) => {
                    let group = position.root_of.expect("only coordinators exchange");
                    forest.for_other_roots(group, into, |other, from| ScheduleOp::Recv { from, part: of_group(other) });
                    forest.for_other_roots(group, into, |_, to| ScheduleOp::Send { to, part: of_group(group) });
                }
                (_, 0) if position.root_of.is_none() => {
                    into.push(ScheduleOp::Recv { from: position.parent, part: all });
                }
                (_, round) => {
                    let number = round - u32::from(position.root_of.is_none());
                    let child = position.children[number as usize];
                    into.push(ScheduleOp::Send { to: forest.rank_at(child), part: all });
                }
            }
            into.end_round();
        }
    }

    fn resolve_view(&self, _view: u8, lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        self.forest.resolve_view(lo, len, run);
    }
}
