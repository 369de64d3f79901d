//! The symbolic execution of a schedule.

mod verdict;

use super::batches::check_batch_invariance;
use super::contract;
use super::error::{ScheduleError, ScheduleLocation};
use super::memory::{Access, ElementRange, Memory, out_of_bounds_block};
use super::op_access::{OpAccess, block_of, buf_name, describe, op_access};
use super::staging::Staging;
use super::value::{CombineError, Contributions, RankSet, SymbolicValue};
use crate::cursor::StartedRound;
use crate::layout::{BlockLayouts, BufferMap};
use crate::op::{BlockRange, Buf, OperandSide, ScheduleOp};
use crate::reader::ScheduleReader;
use crate::schedule::Schedule;

/// Options of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// Buffers alias where the operation's in-place form lets them.
    pub in_place: bool,
}

/// Properties of a correct schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckReport {
    /// Contributions are combined in rank order, so the operator need not commute.
    pub rank_ordered: bool,
    /// For an allreduce: all ranks combine each element in the same order, so rounding gives identical results. True
    /// for other operations.
    pub identical_results: bool,
    /// Messages of all ranks.
    pub messages: u64,
    /// The maximum number of elements of received operands that a rank has to buffer.
    pub staging: usize,
}

/// A range of a vector of its round.
type Span = (u32, u32);

/// An operation of a running round.
struct ActiveOp {
    op: ScheduleOp,
    /// The elements it writes, in the round's `elements`.
    target: Span,
    /// The values that it read at the start of the round, or received, in the round's `data`.
    data: Span,
    done: bool,
}

/// A running round. The next round of the slot reuses its memory.
#[derive(Default)]
struct ActiveRound {
    at: ScheduleLocation,
    running: bool,
    ops: Vec<ActiveOp>,
    elements: Vec<ElementRange>,
    data: Vec<SymbolicValue>,
    /// Messages not yet matched.
    pending: usize,
    /// Ranks known to have entered the operation when the round started, and those learned of in it.
    known_arrived: RankSet,
    newly_arrived: RankSet,
}

struct RankState {
    layouts: BlockLayouts,
    memory: Memory,
    reader: ScheduleReader,
    /// Indexed by the slots of lanes.
    active: Vec<ActiveRound>,
    /// The last started phase with several lanes.
    phase: Option<u32>,
    /// Ranks known to have entered the operation.
    known_arrived: RankSet,
    staging: Staging,
}

/// A posted send or receive that is not yet matched.
struct PostedMessage {
    phase: u32,
    lane: u32,
    from: u32,
    sending: bool,
    slot: u32,
    /// The index of the operation in the round.
    op: usize,
}

pub(crate) struct Verifier<'a> {
    schedule: &'a dyn Schedule,
    ranks: Vec<RankState>,
    contributions: Contributions,
    /// For each receiver, the posted sends to it and its posted receives, in posting order.
    posted: Vec<Vec<PostedMessage>>,
    /// Ranks that can make progress.
    ready: Vec<u32>,
    messages: u64,
}

impl<'a> Verifier<'a> {
    pub(crate) fn new(
        schedule: &'a dyn Schedule,
        layouts: &dyn Fn(u32) -> BlockLayouts,
        options: CheckOptions,
    ) -> Self {
        let ranks = (0..schedule.ranks()).map(|rank| {
            let layouts = layouts(rank);
            let buffer_map = BufferMap { schedule, layouts: &layouts, rank };
            let mut memory = Memory::new(buffer_map, options.in_place);
            contract::initial_values(buffer_map, |buf, at, value| memory.set(buf, at, value));
            let reader = ScheduleReader::new(schedule, rank);
            let (known_arrived, staging) = (RankSet::single(rank), Staging::default());
            RankState { layouts, memory, reader, active: Vec::new(), phase: None, known_arrived, staging }
        });
        Self {
            schedule,
            ranks: ranks.collect(),
            contributions: Contributions::new(schedule.ranks()),
            posted: (0..schedule.ranks()).map(|_| Vec::new()).collect(),
            ready: (0..schedule.ranks()).rev().collect(),
            messages: 0,
        }
    }

    pub(crate) fn verify(mut self) -> Result<CheckReport, ScheduleError> {
        check_batch_invariance(self.schedule)?;
        while let Some(rank) = self.ready.pop() {
            while let Some(started) = self.ranks[rank as usize].reader.start_round(self.schedule) {
                self.begin_round(rank, started)?;
            }
        }
        self.check_termination()?;
        let (rank_ordered, identical_results) = self.check_results()?;
        let staging = self.ranks.iter_mut().map(|rank| rank.staging.peak(self.schedule)).max().unwrap_or(0);
        Ok(CheckReport { rank_ordered, identical_results, messages: self.messages, staging })
    }

    fn buffer_map(&self, rank: u32) -> BufferMap<'_> {
        BufferMap { schedule: self.schedule, layouts: &self.ranks[rank as usize].layouts, rank }
    }

    fn begin_round(&mut self, rank: u32, started: StartedRound) -> Result<(), ScheduleError> {
        let StartedRound { slot, phase, lane, round } = started;
        let at = ScheduleLocation { rank, phase, lane, round };
        let ranks = self.schedule.ranks();
        let RankState { layouts, memory, reader, active, phase: lanes_phase, known_arrived, .. } =
            &mut self.ranks[rank as usize];
        let buffer_map = BufferMap { schedule: self.schedule, layouts, rank };
        if active.len() <= slot as usize {
            active.resize_with(slot as usize + 1, ActiveRound::default);
        }
        let this = &mut active[slot as usize];
        (this.at, this.running, this.pending) = (at, true, 0);
        (this.known_arrived, this.newly_arrived) = (*known_arrived, RankSet::default());
        this.ops.clear();
        this.elements.clear();
        this.data.clear();

        let shape = self.schedule.phase(phase);
        if shape.lanes > 1 && *lanes_phase != Some(phase) {
            *lanes_phase = Some(phase);
            memory.next_phase();
        }
        memory.next_round();
        let record = |memory: &mut Memory, part: BlockRange, elements: &[ElementRange], access: Access| {
            let mut recorded = memory.record_round_access(elements, access);
            if recorded.is_ok() && shape.lanes > 1 {
                recorded = memory.record_lane_access(elements, access, lane, shape.window);
            }
            recorded.map_err(|k| ScheduleError::Race {
                at,
                buf: buf_name(part.buf),
                block: block_of(buffer_map, part, k),
            })
        };
        for &op in reader.ops(slot) {
            let OpAccess { peer, reads, writes, combines } = op_access(op);
            if let Some(peer) = peer.filter(|peer| *peer >= ranks || *peer == rank) {
                return Err(ScheduleError::InvalidPeer { at, peer, ranks });
            }
            for part in reads.iter().chain(&writes) {
                if let Some(block) = out_of_bounds_block(buffer_map, *part) {
                    return Err(ScheduleError::OutOfBounds { at, buf: buf_name(part.buf), block });
                }
            }
            if let Some(part) = writes.filter(|part| part.buf == Buf::In && part.len > 0) {
                return Err(ScheduleError::InputWritten { at, block: block_of(buffer_map, part, 0) });
            }
            let source = this.elements.len();
            if let Some(part) = reads {
                memory.locate(buffer_map, part, &mut this.elements);
            }
            let target = this.elements.len();
            if let Some(part) = writes {
                memory.locate(buffer_map, part, &mut this.elements);
            }
            let (source, target) = (source..target, target..this.elements.len());
            let is_message = peer.is_some();
            // A copy onto itself: the two ranges alias.
            if matches!(op, ScheduleOp::Copy { .. }) && this.elements[source.clone()] == this.elements[target.clone()] {
                continue;
            }
            let data = this.data.len();
            if let Some(part) = reads {
                record(memory, part, &this.elements[source.clone()], Access::Read)?;
                memory.read(&this.elements[source], &mut this.data);
            }
            if let Some(part) = writes {
                let access = if combines { Access::Update } else { Access::Write };
                record(memory, part, &this.elements[target.clone()], access)?;
                let room: usize = this.elements[target.clone()].iter().map(|elements| elements.len()).sum();
                if is_message {
                    this.data.resize(data + room, SymbolicValue::UNDEFINED);
                } else if this.data.len() - data != room {
                    return Err(ScheduleError::ElementMismatch { at, block: block_of(buffer_map, part, 0) });
                }
            }
            this.pending += usize::from(is_message);
            let target = (target.start as u32, target.end as u32);
            this.ops.push(ActiveOp { op, target, data: (data as u32, this.data.len() as u32), done: !is_message });
        }
        // Only now, since a value that is undefined because another operation of the round writes it is a race.
        for active in &this.ops {
            let Some(part) = op_access(active.op).reads else { continue };
            if let Some(k) = span(&this.data, active.data).iter().position(|value| value.is_undefined()) {
                return Err(ScheduleError::UninitializedRead {
                    at,
                    buf: buf_name(part.buf),
                    block: block_of(buffer_map, part, k),
                });
            }
        }
        for op in 0..this.ops.len() {
            self.post(rank, slot, op)?;
        }
        if self.ranks[rank as usize].active[slot as usize].pending == 0 {
            self.end_round(rank, slot)?;
        }
        Ok(())
    }

    /// Posts a send or receive, and delivers the message if it matches.
    fn post(&mut self, rank: u32, slot: u32, op: usize) -> Result<(), ScheduleError> {
        let this = &self.ranks[rank as usize].active[slot as usize];
        let ScheduleLocation { phase, lane, .. } = this.at;
        let (from, to) = match this.ops[op].op {
            ScheduleOp::Send { to, .. } => (rank, to),
            ScheduleOp::Recv { from, .. } | ScheduleOp::RecvReduce { from, .. } => (from, rank),
            _ => return Ok(()),
        };
        let sending = from == rank;
        let posted = &mut self.posted[to as usize];
        let matches_op = |post: &PostedMessage| {
            post.from == from && post.lane == lane && post.phase == phase && post.sending != sending
        };
        let Some(index) = posted.iter().position(matches_op) else {
            posted.push(PostedMessage { phase, lane, from, sending, slot, op });
            return Ok(());
        };
        let other = posted.remove(index);
        self.messages += 1;
        let ((send_slot, send_op), (receive_slot, receive_op)) =
            if sending { ((slot, op), (other.slot, other.op)) } else { ((other.slot, other.op), (slot, op)) };
        let both = self.ranks.get_disjoint_mut([from as usize, to as usize]);
        let [sender, receiver] = both.expect("a rank never sends to itself");
        let send = &mut sender.active[send_slot as usize];
        let receive = &mut receiver.active[receive_slot as usize];
        let data = span(&send.data, send.ops[send_op].data);
        let ActiveOp { data: room, op: receipt, .. } = receive.ops[receive_op];
        if data.len() != (room.1 - room.0) as usize {
            let buffer_map = BufferMap { schedule: self.schedule, layouts: &receiver.layouts, rank: to };
            let what = describe(buffer_map, receipt);
            let (got, expected) = (data.len(), (room.1 - room.0) as usize);
            return Err(ScheduleError::LengthMismatch { at: receive.at, peer: from, got, expected, what });
        }
        receive.data[room.0 as usize..room.1 as usize].copy_from_slice(data);
        receive.newly_arrived = receive.newly_arrived.union(send.known_arrived);
        (send.ops[send_op].done, receive.ops[receive_op].done) = (true, true);
        (send.pending, receive.pending) = (send.pending - 1, receive.pending - 1);
        // The caller ends the round that it is posting.
        let (peer, peer_slot) = if sending { (to, receive_slot) } else { (from, send_slot) };
        if self.ranks[peer as usize].active[peer_slot as usize].pending == 0 {
            self.end_round(peer, peer_slot)?;
        }
        Ok(())
    }

    /// Ends a round whose operations are all done: performs its writes.
    fn end_round(&mut self, rank: u32, slot: u32) -> Result<(), ScheduleError> {
        let RankState { layouts, memory, reader, active, known_arrived, staging, .. } = &mut self.ranks[rank as usize];
        let buffer_map = BufferMap { schedule: self.schedule, layouts, rank };
        let this = &mut active[slot as usize];
        let mut staged = 0;
        for ActiveOp { op, target, data, .. } in &this.ops {
            let (elements, data) = (span(&this.elements, *target), span(&this.data, *data));
            match *op {
                ScheduleOp::Send { .. } => {}
                ScheduleOp::Recv { .. } | ScheduleOp::Copy { .. } => {
                    memory.for_each_mut(elements, |k, value| *value = data[k])
                }
                ScheduleOp::RecvReduce { part, side, .. } => {
                    staged += data.len();
                    combine(memory, &mut self.contributions, buffer_map, this.at, part, (elements, data), side)?;
                }
                ScheduleOp::Reduce { into, side, .. } => {
                    combine(memory, &mut self.contributions, buffer_map, this.at, into, (elements, data), side)?;
                }
            }
        }
        staging.add(self.schedule, this.at, staged);
        *known_arrived = known_arrived.union(this.newly_arrived);
        this.running = false;
        reader.finish_round(slot);
        self.ready.push(rank);
        Ok(())
    }
}

fn span<T>(all: &[T], (from, to): Span) -> &[T] {
    &all[from as usize..to as usize]
}

fn combine(
    memory: &mut Memory,
    contributions: &mut Contributions,
    buffer_map: BufferMap<'_>,
    at: ScheduleLocation,
    part: BlockRange,
    (elements, data): (&[ElementRange], &[SymbolicValue]),
    side: OperandSide,
) -> Result<(), ScheduleError> {
    let mut first_error = None;
    memory.for_each_mut(elements, |k, value| {
        let block = || block_of(buffer_map, part, k);
        if value.is_undefined() {
            first_error.get_or_insert_with(|| ScheduleError::UninitializedRead {
                at,
                buf: buf_name(part.buf),
                block: block(),
            });
            return;
        }
        let combined = match side {
            OperandSide::Left => contributions.combine(data[k], *value),
            OperandSide::Right => contributions.combine(*value, data[k]),
        };
        match combined {
            Ok(combined) => *value = combined,
            Err(error) => {
                first_error.get_or_insert_with(|| match error {
                    CombineError::ElementMismatch => ScheduleError::ElementMismatch { at, block: block() },
                    CombineError::DuplicateRank(contributor) => {
                        ScheduleError::DuplicateContribution { at, contributor, block: block() }
                    }
                });
            }
        }
    });
    first_error.map_or(Ok(()), Err)
}
