//! Operations over hosts of several ranks, one phase after the other: within each host to its leader, among the leaders
//! by any algorithm of the operation, and within each host from its leader.
//!
//! Cost: that of the algorithm on one rank of each host, and a round of each host before and after it, of n for each of
//! its ranks.   Clusters, of nested ones the innermost, hosts, or a Clos network; in rank order if the algorithm is, and
//! the ranks of each host are consecutive.   [MPICH, intra-communicator `smp` algorithms; Open MPI, HAN]
//!
//! All ranks of a host have the same rounds within it, and it has a few ranks: so these rounds can run over a segment of
//! shared memory that its ranks have, while leaders exchange messages. What is pipelined over all levels instead is in
//! the other files of this folder.

use std::collections::HashMap;
use std::ops::Range;

use treepie_schedule::{
    BlockRange, BlockRun, Buf, BufferBlocks, OperandSide, Operation, Phase, RoundList, Schedule, ScheduleOp,
};
use treepie_topology::{Network, TieBreak};

use crate::trees::Levels;
use crate::trees::shape::groups;

/// The ranks of each host, and their leaders.
#[derive(Clone, Debug)]
pub struct Hosts {
    /// The ranks of each host, ascending; hosts are in the order of their lowest ranks.
    ranks: Vec<Vec<u32>>,
    /// The host of each rank.
    host_of: Vec<u32>,
    /// The root of the operation on its host, the lowest rank on others.
    leaders: Vec<u32>,
}

impl Hosts {
    /// The hosts of a network; `None` if it has none.
    pub fn new(network: &Network, root: Option<u32>) -> Option<Self> {
        let groups = groups(network, Levels::Innermost)?.swap_remove(0);
        let (mut ranks, mut host_of, mut numbers) = (Vec::<Vec<u32>>::new(), Vec::new(), HashMap::new());
        for (rank, group) in (0..).zip(groups) {
            let host = *numbers.entry(group).or_insert(ranks.len());
            ranks.resize_with(ranks.len().max(host + 1), Vec::new);
            ranks[host].push(rank);
            host_of.push(host as u32);
        }
        let mut leaders: Vec<u32> = ranks.iter().map(|ranks| ranks[0]).collect();
        if let Some(root) = root {
            leaders[host_of[root as usize] as usize] = root;
        }
        Some(Self { ranks, host_of, leaders })
    }

    /// The leader of each host.
    pub fn leaders(&self) -> &[u32] {
        &self.leaders
    }

    /// Whether the ranks of each host are consecutive.
    pub fn are_consecutive(&self) -> bool {
        self.host_of.is_sorted()
    }

    /// The ranks of each host, ascending.
    pub fn ranks(&self) -> &[Vec<u32>] {
        &self.ranks
    }

    /// The number of ranks of each host.
    pub fn sizes(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranks.iter().map(|ranks| ranks.len() as u32)
    }

    /// The operation of the leaders, in which a rank is the number of its host.
    pub fn among_leaders(&self, operation: Operation) -> Operation {
        let root = operation.root().map_or(0, |root| self.host_of[root as usize]);
        Operation::from_name(operation.name(), root).expect("an operation has its name")
    }
}

/// An operation over hosts.
pub struct Smp {
    operation: Operation,
    hosts: Hosts,
    inter: Box<dyn Schedule>,
}

/// A phase of the operation.
enum Stage {
    ToLeader,
    AmongLeaders(u32),
    FromLeader,
}

impl Smp {
    /// A barrier, broadcast, reduction, allreduce or allgather; `inter` is [that of the leaders](Hosts::among_leaders),
    /// in place.
    pub fn new(operation: Operation, hosts: Hosts, inter: Box<dyn Schedule>) -> Self {
        assert!(inter.operation() == hosts.among_leaders(operation) && inter.ranks() as usize == hosts.leaders.len());
        Self { operation, hosts, inter }
    }

    fn is_allgather(&self) -> bool {
        self.operation == Operation::Allgather
    }

    fn stage(&self, phase: u32) -> Stage {
        let to_leader = u32::from(!matches!(self.operation, Operation::Bcast { .. }));
        match phase.checked_sub(to_leader) {
            None => Stage::ToLeader,
            Some(phase) if phase < self.inter.phases() => Stage::AmongLeaders(phase),
            Some(_) => Stage::FromLeader,
        }
    }

    /// The host of which a rank is the leader.
    fn led_by(&self, rank: u32) -> Option<u32> {
        let host = self.hosts.host_of[rank as usize];
        (self.hosts.leaders[host as usize] == rank).then_some(host)
    }

    /// Where a leader combines the contributions of its host: in the result, if it has one.
    fn sum_of(&self, leader: u32) -> Buf {
        match self.operation {
            Operation::Reduce { root } if root != leader => Buf::Tmp(self.inter.scratch_buffers()),
            _ => Buf::Out,
        }
    }

    fn emit_to_leader(&self, rank: u32, rounds: Range<u32>, into: &mut RoundList) {
        let whole = |buf| BlockRange::new(buf, 0, self.blocks());
        let block = |buf, rank| BlockRange::new(buf, rank, 1);
        let host = &self.hosts.ranks[self.hosts.host_of[rank as usize] as usize];
        let leader = self.hosts.leaders[self.hosts.host_of[rank as usize] as usize];
        for round in rounds {
            match (self.operation, round) {
                // Operands are combined with what a round before has copied.
                (Operation::Reduce { .. } | Operation::Allreduce, 0) => {
                    if rank == leader {
                        into.push(ScheduleOp::Copy { from: whole(Buf::In), to: whole(self.sum_of(rank)) });
                    }
                }
                (Operation::Reduce { .. } | Operation::Allreduce, _) if rank == leader => {
                    // In rank order: from the leader to the first of its host, then to the last.
                    let (below, above) = host.split_at(host.partition_point(|other| *other < rank));
                    let part = whole(self.sum_of(rank));
                    let operand = |side| move |from: &u32| ScheduleOp::RecvReduce { from: *from, part, side };
                    below.iter().rev().map(operand(OperandSide::Left)).for_each(|op| into.push(op));
                    above[1..].iter().map(operand(OperandSide::Right)).for_each(|op| into.push(op));
                }
                (operation, _) if rank != leader => {
                    let part = match operation {
                        Operation::Barrier => BlockRange::EMPTY,
                        Operation::Allgather => block(Buf::In, rank),
                        _ => whole(Buf::In),
                    };
                    into.push(ScheduleOp::Send { to: leader, part });
                }
                (operation, _) => {
                    if operation == Operation::Allgather {
                        into.push(ScheduleOp::Copy { from: block(Buf::In, rank), to: block(Buf::Out, rank) });
                    }
                    for from in host.iter().copied().filter(|other| *other != rank) {
                        let part = match operation {
                            Operation::Allgather => block(Buf::Out, from),
                            _ => BlockRange::EMPTY,
                        };
                        into.push(ScheduleOp::Recv { from, part });
                    }
                }
            }
            into.end_round();
        }
    }

    fn emit_from_leader(&self, rank: u32, into: &mut RoundList) {
        let part = match self.operation {
            Operation::Barrier => BlockRange::EMPTY,
            _ => BlockRange::new(Buf::Out, 0, self.blocks()),
        };
        let host = &self.hosts.ranks[self.hosts.host_of[rank as usize] as usize];
        match self.hosts.leaders[self.hosts.host_of[rank as usize] as usize] {
            leader if leader == rank => {
                let others = host.iter().copied().filter(|other| *other != rank);
                others.for_each(|to| into.push(ScheduleOp::Send { to, part }));
            }
            from => into.push(ScheduleOp::Recv { from, part }),
        }
        into.end_round();
    }

    /// The operation of a leader on the buffers of its rank. A copy from its input is one to itself, in place.
    fn of_leader(&self, leader: u32, op: ScheduleOp) -> Option<ScheduleOp> {
        let rank = |host: u32| self.hosts.leaders[host as usize];
        let part = |part: BlockRange| BlockRange {
            buf: if part.buf == Buf::In { self.sum_of(leader) } else { part.buf },
            view: part.view + u8::from(self.is_allgather()),
            ..part
        };
        Some(match op {
            ScheduleOp::Send { to, part: sent } => ScheduleOp::Send { to: rank(to), part: part(sent) },
            ScheduleOp::Recv { from, part: received } => ScheduleOp::Recv { from: rank(from), part: part(received) },
            ScheduleOp::RecvReduce { from, part: operand, side } => {
                ScheduleOp::RecvReduce { from: rank(from), part: part(operand), side }
            }
            ScheduleOp::Copy { from, to } if part(from) == part(to) => return None,
            ScheduleOp::Copy { from, to } => ScheduleOp::Copy { from: part(from), to: part(to) },
            ScheduleOp::Reduce { from, into, side } => ScheduleOp::Reduce { from: part(from), into: part(into), side },
        })
    }
}

impl Schedule for Smp {
    fn operation(&self) -> Operation {
        self.operation
    }

    fn ranks(&self) -> u32 {
        self.hosts.host_of.len() as u32
    }

    fn blocks(&self) -> u32 {
        if self.is_allgather() { self.ranks() } else { self.inter.blocks() }
    }

    fn scratch_buffers(&self) -> u8 {
        self.inter.scratch_buffers() + u8::from(matches!(self.operation, Operation::Reduce { .. }))
    }

    fn scratch_blocks(&self, tmp: u8, rank: u32) -> BufferBlocks {
        let Some(host) = self.led_by(rank) else { return BufferBlocks::Empty };
        if tmp == self.inter.scratch_buffers() {
            return if self.sum_of(rank) == Buf::Out { BufferBlocks::Empty } else { BufferBlocks::all(self.blocks()) };
        }
        match self.inter.scratch_blocks(tmp, host) {
            blocks if !self.is_allgather() => blocks,
            // The blocks of a host are several, and those of consecutive hosts need not be consecutive.
            BufferBlocks::OwnBlock | BufferBlocks::ViewRange { view: 0, .. } => BufferBlocks::all(self.blocks()),
            BufferBlocks::ViewRange { view, lo, len } => BufferBlocks::ViewRange { view: view + 1, lo, len },
            BufferBlocks::Empty => BufferBlocks::Empty,
            BufferBlocks::Uniform { .. } => unreachable!("hosts have blocks of unequal length"),
        }
    }

    fn phases(&self) -> u32 {
        let within_hosts = match self.operation {
            Operation::Bcast { .. } | Operation::Reduce { .. } => 1,
            _ => 2,
        };
        within_hosts + self.inter.phases()
    }

    fn phase(&self, phase: u32) -> Phase {
        match self.stage(phase) {
            Stage::AmongLeaders(phase) => self.inter.phase(phase),
            _ => Phase::SINGLE_LANE,
        }
    }

    fn rounds(&self, rank: u32, phase: u32, lane: u32) -> u32 {
        match self.stage(phase) {
            Stage::ToLeader if self.operation.is_reduction() => 2,
            Stage::ToLeader | Stage::FromLeader => 1,
            Stage::AmongLeaders(phase) => self.led_by(rank).map_or(0, |host| self.inter.rounds(host, phase, lane)),
        }
    }

    fn emit(&self, rank: u32, phase: u32, lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        match self.stage(phase) {
            Stage::ToLeader => self.emit_to_leader(rank, rounds, into),
            Stage::FromLeader => rounds.for_each(|_| self.emit_from_leader(rank, into)),
            Stage::AmongLeaders(phase) => {
                let Some(host) = self.led_by(rank) else { return };
                let mut inter = RoundList::new();
                self.inter.emit(host, phase, lane, rounds, &mut inter);
                for round in inter.iter() {
                    round.iter().filter_map(|op| self.of_leader(rank, *op)).for_each(|op| into.push(op));
                    into.end_round();
                }
            }
        }
    }

    fn resolve_view(&self, view: u8, lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        if !self.is_allgather() {
            return self.inter.resolve_view(view, lo, len, run);
        }
        // A block of the leaders is those of a host.
        let mut of_hosts = |hosts: BlockRun| {
            for host in &self.hosts.ranks[hosts.block as usize..(hosts.block + hosts.blocks) as usize] {
                for ranks in host.chunk_by(|one, next| one + 1 == *next) {
                    run(BlockRun { block: ranks[0], blocks: ranks.len() as u32, ..hosts });
                }
            }
        };
        match view {
            1 => of_hosts(BlockRun::whole_blocks(lo, len)),
            view => self.inter.resolve_view(view - 1, lo, len, &mut of_hosts),
        }
    }

    fn tie_break(&self, phase: u32, lane: u32) -> TieBreak {
        match self.stage(phase) {
            Stage::AmongLeaders(phase) => self.inter.tie_break(phase, lane),
            _ => TieBreak::Parity,
        }
    }
}
