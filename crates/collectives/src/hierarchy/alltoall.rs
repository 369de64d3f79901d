//! Hierarchical all-to-all: the blocks between two groups are combined to one message for each coordinator.
//!
//! Cost on C groups of p, k coordinators, one level: a rank has p/k - 1 messages within its team at most, (C-1) k/p of
//! p^2/k blocks between groups on average, and p - 1 within its group. k = p: (p-1 + C-1) alpha, and each block is sent
//! twice; otherwise three times. Memory: P blocks of each rank on average, in each of up to three scratch buffers (two
//! of stages, one of teams). A message between groups is p^2/k of them, so with k = 1 and fewer groups than ranks
//! in one, some ranks have up to p^2 and others few.   Any P, any sizes and placements of groups, on any number of
//! levels; blocks of equal length.   [RandomAccess paper; Kielmann et al. 1999]
//!
//! There is a stage for each level, the outermost first, and a last one, in which each rank is a group. A stage brings
//! blocks into the group of their receivers:
//!
//! 1. The ranks of a group are divided among its coordinators into teams. In a team each rank has some of the other
//!    groups, to balance memory and traffic: the others send it what they hold for those.
//! 2. It sends that to a rank of each of these groups. All messages to a group are spread over its ranks.
//!
//! So at the start of a stage what a rank holds is a matrix: rows are the senders that it holds blocks of, columns the
//! receivers in its group. A message to another group is the columns of that group, and the receiver appends it to its
//! matrix as rows. In the last stage each rank has a column, and the rows are its output.
//!
//! No schedule can do that for blocks of different lengths (alltoallv): a rank knows only the lengths of what it sends
//! and receives itself, not of what it forwards. That takes messages that state their lengths, a reactor.

mod stage;

use std::ops::Range;

use treepie_schedule::{BlockRange, BlockRun, Buf, BufferBlocks, Operation, RoundList, Schedule, ScheduleOp};
use treepie_topology::Network;

use crate::trees::Levels;
use crate::trees::shape::groups;
use stage::{Stage, part_of, receiving_position};

/// A hierarchical all-to-all.
#[derive(Clone, Debug)]
pub struct HierarchicalAlltoall {
    /// The rank of each virtual rank: groups are intervals of virtual ranks on all levels.
    ranks: Vec<u32>,
    vranks: Vec<u32>,
    is_rank_ordered: bool,
    stages: Vec<Stage>,
    phases: Vec<StagePhase>,
    /// How many scratch buffers hold matrices.
    matrices: u8,
}

/// A phase of a stage, with the number of the stage.
#[derive(Clone, Copy, Debug)]
enum StagePhase {
    WithinTeams(usize),
    BetweenGroups(usize),
}

/// The rows in the order of senders, in the last stage.
const SENDERS: u8 = u8::MAX;

/// The view of a stage's matrices by target, row by row: the columns of each group after the own one, of each before
/// it, and of the own one.
const fn by_target(stage: usize) -> u8 {
    1 + 2 * stage as u8
}

/// The view of what a rank has received within its team, by sender: from each for one group after the other.
const fn by_member(stage: usize) -> u8 {
    2 + 2 * stage as u8
}

impl HierarchicalAlltoall {
    /// Over the groups of a network on these levels, with at most this number of coordinators in each. An error says
    /// what it requires.
    pub fn new(network: &Network, levels: Levels, coordinators: u32) -> Result<Self, String> {
        let levels =
            groups(network, levels).ok_or_else(|| "it requires clusters, hosts or a Clos network".to_owned())?;
        Self::over_groups(&levels, coordinators)
    }

    /// Over the groups of each rank on each level, the innermost first.
    fn over_groups(levels: &[Vec<u32>], coordinators: u32) -> Result<Self, String> {
        let count = levels[0].len() as u32;
        let mut ranks: Vec<u32> = (0..count).collect();
        ranks.sort_by_key(|rank| levels.iter().rev().map(|groups| groups[*rank as usize]).collect::<Vec<u32>>());
        let mut vranks = vec![0; ranks.len()];
        (0..).zip(&ranks).for_each(|(vrank, rank)| vranks[*rank as usize] = vrank);
        let begins = |groups: &Vec<u32>| {
            let of = |vrank: u32| groups[ranks[vrank as usize] as usize];
            let is_first = |vrank: &u32| *vrank == 0 || of(*vrank) != of(vrank - 1);
            (0..count).filter(is_first).chain([count]).collect::<Vec<u32>>()
        };
        // Levels that divide no group have no messages.
        let mut partitions: Vec<Vec<u32>> = vec![vec![0, count]];
        partitions.extend(levels.iter().rev().map(begins));
        partitions.push((0..=count).collect());
        partitions.dedup();
        if partitions.len() == 1 {
            partitions.push(vec![0, count]);
        }
        let mut stages: Vec<Stage> = Vec::new();
        for pair in partitions.windows(2) {
            let rows = stages.last().map_or_else(|| (0..=count.into()).collect(), Stage::next_rows);
            stages.push(Stage::new(pair[1].clone(), &pair[0], coordinators.max(1), rows));
        }
        let mut phases = Vec::new();
        for (number, stage) in stages.iter().enumerate() {
            phases.extend(stage.has_teams().then_some(StagePhase::WithinTeams(number)));
            phases.push(StagePhase::BetweenGroups(number));
        }
        let is_rank_ordered = (0..).zip(&ranks).all(|(vrank, rank)| vrank == *rank);
        let matrices = (stages.len() - 1).min(2) as u8;
        let this = Self { ranks, vranks, is_rank_ordered, stages, phases, matrices };
        let most = (0..count).map(|vrank| this.most_blocks(vrank)).max().unwrap_or(0);
        if most > u32::MAX.into() {
            return Err(format!("its coordinators would have {most} blocks, more than it can number"));
        }
        Ok(this)
    }

    /// The matrix of a rank at the start of a stage.
    fn matrix_blocks(&self, stage: usize, vrank: u32) -> u64 {
        let stage = &self.stages[stage];
        u64::from(stage.rows_of(vrank)) * u64::from(stage.position(vrank).outer_len)
    }

    fn most_blocks(&self, vrank: u32) -> u64 {
        let matrices = (0..self.stages.len()).map(|stage| self.matrix_blocks(stage, vrank));
        matrices.chain(self.stages.iter().map(|stage| stage.blocks_of_member(vrank))).max().unwrap_or(0)
    }

    /// The buffer of the matrices at the start of a stage.
    fn input_buf(&self, stage: usize) -> Buf {
        if stage == 0 { Buf::In } else { Buf::Tmp((stage as u8 - 1) % 2) }
    }

    fn is_last(&self, stage: usize) -> bool {
        stage + 1 == self.stages.len()
    }

    /// The buffer of what a rank receives within its team.
    fn team_buf(&self) -> Buf {
        Buf::Tmp(self.matrices)
    }

    /// Columns for some of the other groups in the matrix of a rank.
    fn for_others(&self, number: usize, vrank: u32, others: &Range<u32>) -> BlockRange {
        let stage = &self.stages[number];
        let (position, rows) = (stage.position(vrank), stage.rows_of(vrank));
        let (lo, len) = (stage.columns_before(&position, others.start), stage.columns(&position, others));
        BlockRange::in_view(self.input_buf(number), by_target(number), rows * lo, rows * len)
    }

    fn within_team(&self, number: usize, vrank: u32, into: &mut RoundList) {
        let stage = &self.stages[number];
        let (position, team) = (stage.position(vrank), stage.team_of(vrank));
        let own = position.others_of_member(team, vrank - team.first);
        let columns = stage.columns(&position, &own);
        let from_member = |member: u32| {
            let (before, rows) = (stage.rows(team.first..member), stage.rows_of(member));
            BlockRange::in_view(self.team_buf(), by_member(number), before * columns, rows * columns)
        };
        if !own.is_empty() {
            into.push(ScheduleOp::Copy { from: self.for_others(number, vrank, &own), to: from_member(vrank) });
            for member in (team.first..vrank).rev().chain((vrank + 1..team.end).rev()) {
                into.push(ScheduleOp::Recv { from: self.ranks[member as usize], part: from_member(member) });
            }
        }
        for member in (vrank + 1..team.end).chain(team.first..vrank) {
            let others = position.others_of_member(team, member - team.first);
            if !others.is_empty() {
                let part = self.for_others(number, vrank, &others);
                into.push(ScheduleOp::Send { to: self.ranks[member as usize], part });
            }
        }
    }

    fn between_groups(&self, number: usize, vrank: u32, into: &mut RoundList) {
        let stage = &self.stages[number];
        let (position, team) = (stage.position(vrank), stage.team_of(vrank));
        let rows_at = |row: u32, rows: u32| match self.is_last(number) {
            true => BlockRange::in_view(Buf::Out, SENDERS, row, rows),
            false => BlockRange::new(Buf::Tmp(number as u8 % 2), row * position.len, rows * position.len),
        };
        let rows = stage.rows_of(vrank);
        let own = BlockRange::in_view(
            self.input_buf(number),
            by_target(number),
            rows * (position.outer_len - position.len),
            rows * position.len,
        );
        into.push(ScheduleOp::Copy { from: own, to: rows_at(0, rows) });
        // The messages of groups after this one were sent last.
        let (mut row, mut before, mut after) = (rows, Vec::new(), Vec::new());
        stage.for_each_source(vrank, |team| {
            let at = part_of(position.others(), team.len(), position.number_in_others_of(team.group));
            let rows = stage.rows_of_team(team);
            let op = ScheduleOp::Recv { from: self.ranks[(team.first + at) as usize], part: rows_at(row, rows) };
            if team.group < position.group {
                before.push(op)
            } else {
                after.push(op)
            }
            row += rows;
        });
        before.into_iter().rev().chain(after.into_iter().rev()).for_each(|op| into.push(op));
        let others = position.others_of_member(team, vrank - team.first);
        for other in others.clone() {
            let group = position.other(other);
            let len = stage.len(group);
            let at = receiving_position(team.number, stage.teams_within(&position), len);
            let part = if team.len() == 1 {
                self.for_others(number, vrank, &(other..other + 1))
            } else {
                let rows = stage.rows_of_team(team);
                let before = stage.columns(&position, &(others.start..other));
                BlockRange::new(self.team_buf(), rows * before, rows * len)
            };
            into.push(ScheduleOp::Send { to: self.ranks[(stage.starts[group as usize] + at) as usize], part });
        }
    }

    /// The senders of the rows of a rank at the start of a stage: intervals of virtual ranks.
    fn for_each_sender(&self, stage: usize, vrank: u32, each: &mut dyn FnMut(Range<u32>)) {
        let Some(before) = stage.checked_sub(1) else { return each(vrank..vrank + 1) };
        self.for_each_sender(before, vrank, each);
        self.stages[before].for_each_source(vrank, |team| {
            if before == 0 {
                each(team.first..team.end);
            } else {
                (team.first..team.end).for_each(|member| self.for_each_sender(before, member, each));
            }
        });
    }

    /// The blocks of some virtual ranks.
    fn blocks_of(&self, vranks: Range<u32>, run: &mut dyn FnMut(BlockRun)) {
        if self.is_rank_ordered {
            run(BlockRun::whole_blocks(vranks.start, vranks.len() as u32));
        } else {
            vranks.for_each(|vrank| run(BlockRun::whole_blocks(self.ranks[vrank as usize], 1)));
        }
    }

    fn resolve_senders(&self, vrank: u32, lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        let last = self.stages.len() - 1;
        let stage = &self.stages[last];
        let position = stage.position(vrank);
        let (mut skipped, mut left) = (lo, len);
        let others = (position.outer_start..position.outer_start + position.outer_len).filter(|other| *other != vrank);
        for member in std::iter::once(vrank).chain(others) {
            let rows = stage.rows_of(member);
            if skipped >= rows {
                skipped -= rows;
                continue;
            }
            self.for_each_sender(last, member, &mut |senders: Range<u32>| {
                let skip = skipped.min(senders.len() as u32);
                let taken = left.min(senders.len() as u32 - skip);
                (skipped, left) = (skipped - skip, left - taken);
                if taken > 0 {
                    self.blocks_of(senders.start + skip..senders.start + skip + taken, run);
                }
            });
            if left == 0 {
                break;
            }
        }
    }

    fn resolve_targets(&self, number: usize, vrank: u32, lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        let stage = &self.stages[number];
        let (position, rows) = (stage.position(vrank), stage.rows_of(vrank));
        let mut at = lo;
        while at < lo + len {
            let (group, first, column) = stage.target_at(&position, at / rows);
            let width = stage.len(group);
            let (row, within) = ((at - rows * first) / width, (at - rows * first) % width);
            let blocks = (width - within).min(lo + len - at);
            let block = row * position.outer_len + column + within;
            if number == 0 {
                self.blocks_of(position.outer_start + block..position.outer_start + block + blocks, run);
            } else {
                run(BlockRun::whole_blocks(block, blocks));
            }
            at += blocks;
        }
    }

    fn resolve_members(&self, number: usize, vrank: u32, lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        let stage = &self.stages[number];
        let (position, team) = (stage.position(vrank), stage.team_of(vrank));
        let others = position.others_of_member(team, vrank - team.first);
        let (begin, columns) = (stage.columns_before(&position, others.start), stage.columns(&position, &others));
        let rows_of_team = stage.rows_of_team(team);
        let mut at = lo;
        while at < lo + len {
            // The member whose rows contain this position, then the group.
            let row = u64::from(at / columns) + stage.rows[team.first as usize];
            let members = &stage.rows[team.first as usize + 1..=team.end as usize];
            let member = team.first + members.partition_point(|end| *end <= row) as u32;
            let (before, rows) = (stage.rows(team.first..member), stage.rows_of(member));
            let within = at - before * columns;
            let (group, first, _) = stage.target_at(&position, begin + within / rows);
            let (width, first) = (stage.len(group), first - begin);
            let within = within - rows * first;
            let blocks = (rows * width - within).min(lo + len - at);
            run(BlockRun::whole_blocks(rows_of_team * first + before * width + within, blocks));
            at += blocks;
        }
    }
}

impl Schedule for HierarchicalAlltoall {
    fn operation(&self) -> Operation {
        Operation::Alltoall
    }

    fn ranks(&self) -> u32 {
        self.ranks.len() as u32
    }

    fn scratch_buffers(&self) -> u8 {
        self.matrices + u8::from(self.stages.iter().any(Stage::has_teams))
    }

    fn scratch_blocks(&self, tmp: u8, rank: u32) -> BufferBlocks {
        let vrank = self.vranks[rank as usize];
        let blocks = if tmp == self.matrices {
            self.stages.iter().map(|stage| stage.blocks_of_member(vrank)).max()
        } else {
            (1 + tmp as usize..self.stages.len()).step_by(2).map(|stage| self.matrix_blocks(stage, vrank)).max()
        };
        BufferBlocks::Uniform { blocks: blocks.unwrap_or(0) as u32 }
    }

    fn phases(&self) -> u32 {
        self.phases.len() as u32
    }

    fn rounds(&self, rank: u32, phase: u32, _lane: u32) -> u32 {
        match self.phases[phase as usize] {
            StagePhase::BetweenGroups(_) => 1,
            StagePhase::WithinTeams(stage) => {
                let (stage, vrank) = (&self.stages[stage], self.vranks[rank as usize]);
                u32::from(stage.team_of(vrank).len() > 1 && stage.position(vrank).others() > 0)
            }
        }
    }

    fn emit(&self, rank: u32, phase: u32, _lane: u32, rounds: Range<u32>, into: &mut RoundList) {
        let vrank = self.vranks[rank as usize];
        for _ in rounds {
            match self.phases[phase as usize] {
                StagePhase::WithinTeams(stage) => self.within_team(stage, vrank, into),
                StagePhase::BetweenGroups(stage) => self.between_groups(stage, vrank, into),
            }
            into.end_round();
        }
    }

    fn resolve_view_on(&self, rank: u32, view: u8, lo: u32, len: u32, run: &mut dyn FnMut(BlockRun)) {
        let vrank = self.vranks[rank as usize];
        let stage = (view as usize).wrapping_sub(1) / 2;
        if view == SENDERS {
            self.resolve_senders(vrank, lo, len, run);
        } else if view == by_target(stage) {
            self.resolve_targets(stage, vrank, lo, len, run);
        } else {
            self.resolve_members(stage, vrank, lo, len, run);
        }
    }
}
