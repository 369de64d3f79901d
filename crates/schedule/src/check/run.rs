//! The run of a proof.

mod verdict;

use super::batches::same_in_batches;
use super::contract;
use super::memory::{Access, Cells, Memory, outside};
use super::named::{Named, block_of, name, named, what};
use super::staging::Staging;
use super::value::{Contributions, Set, Unfit, Value};
use super::{At, Fault, Mode, Proof};
use crate::cursor::{Begun, Cursor};
use crate::layout::{Layouts, Places};
use crate::op::{Buf, Op, Part, Side};
use crate::schedule::Schedule;

/// Where something lies in a vector of its round.
type Span = (u32, u32);

/// An operation of a round that goes on.
struct Going {
    op: Op,
    /// What it writes, in the round's cells.
    target: Span,
    /// What it reads, as it was when the round began, or what it has received, in the round's data.
    data: Span,
    done: bool,
}

/// A round that goes on. Kept for the next one of the slot, so that its memory is used again.
#[derive(Default)]
struct Active {
    at: At,
    going: bool,
    ops: Vec<Going>,
    cells: Vec<Cells>,
    data: Vec<Value>,
    /// Messages that are not done.
    left: usize,
    /// Who was known to have begun the operation when the round began, and who was heard of in it.
    knows: Set,
    heard: Set,
}

struct Rank {
    layouts: Layouts,
    memory: Memory,
    cursor: Cursor,
    /// By the cursor's slots.
    active: Vec<Active>,
    /// The last phase with several lanes that has begun.
    phase: Option<u32>,
    /// Who is known to have begun.
    knows: Set,
    staging: Staging,
}

/// One end of a message that waits for the other.
struct Post {
    phase: u32,
    lane: u32,
    from: u32,
    sending: bool,
    slot: u32,
    /// Which operation of the round.
    op: usize,
}

pub(crate) struct Run<'a> {
    schedule: &'a dyn Schedule,
    ranks: Vec<Rank>,
    contributions: Contributions,
    /// For each receiver, ends of messages to it in the order in which they came.
    posts: Vec<Vec<Post>>,
    /// Ranks that may go on.
    ready: Vec<u32>,
    messages: u64,
}

impl<'a> Run<'a> {
    pub(crate) fn new(schedule: &'a dyn Schedule, layouts: &dyn Fn(u32) -> Layouts, mode: Mode) -> Self {
        let ranks = (0..schedule.ranks()).map(|rank| {
            let layouts = layouts(rank);
            let places = Places { schedule, layouts: &layouts, rank };
            let mut memory = Memory::new(places, mode.in_place);
            contract::initial(places, |buf, at, value| memory.set(buf, at, value));
            let cursor = Cursor::new(schedule, rank);
            let (knows, staging) = (Set::one(rank), Staging::default());
            Rank { layouts, memory, cursor, active: Vec::new(), phase: None, knows, staging }
        });
        Self {
            schedule,
            ranks: ranks.collect(),
            contributions: Contributions::new(schedule.ranks()),
            posts: (0..schedule.ranks()).map(|_| Vec::new()).collect(),
            ready: (0..schedule.ranks()).rev().collect(),
            messages: 0,
        }
    }

    pub(crate) fn prove(mut self) -> Result<Proof, Fault> {
        same_in_batches(self.schedule)?;
        while let Some(rank) = self.ready.pop() {
            while let Some(begun) = self.ranks[rank as usize].cursor.begin(self.schedule) {
                self.begin(rank, begun)?;
            }
        }
        self.all_ended()?;
        let (ordered, same) = self.results()?;
        let staging = self.ranks.iter_mut().map(|rank| rank.staging.most(self.schedule)).max().unwrap_or(0);
        Ok(Proof { ordered, same, messages: self.messages, staging })
    }

    fn places(&self, rank: u32) -> Places<'_> {
        Places { schedule: self.schedule, layouts: &self.ranks[rank as usize].layouts, rank }
    }

    fn begin(&mut self, rank: u32, begun: Begun) -> Result<(), Fault> {
        let Begun { slot, phase, lane, round } = begun;
        let at = At { rank, phase, lane, round };
        let ranks = self.schedule.ranks();
        let Rank { layouts, memory, cursor, active, phase: lanes_of, knows, .. } = &mut self.ranks[rank as usize];
        let places = Places { schedule: self.schedule, layouts, rank };
        if active.len() <= slot as usize {
            active.resize_with(slot as usize + 1, Active::default);
        }
        let this = &mut active[slot as usize];
        (this.at, this.going, this.left) = (at, true, 0);
        (this.knows, this.heard) = (*knows, Set::default());
        this.ops.clear();
        this.cells.clear();
        this.data.clear();

        let shape = self.schedule.phase(phase);
        if shape.lanes > 1 && *lanes_of != Some(phase) {
            *lanes_of = Some(phase);
            memory.next_phase();
        }
        memory.next_round();
        let touch = |memory: &mut Memory, part: Part, cells: &[Cells], access: Access| {
            let mut touched = memory.touch_in_round(cells, access);
            if touched.is_ok() && shape.lanes > 1 {
                touched = memory.touch_in_lane(cells, access, lane, shape.window);
            }
            touched.map_err(|k| Fault::Race { at, buf: name(part.buf), block: block_of(places, part, k) })
        };
        for &op in cursor.ops(slot) {
            let Named { peer, reads, writes, combines } = named(op);
            if let Some(peer) = peer.filter(|peer| *peer >= ranks || *peer == rank) {
                return Err(Fault::Peer { at, peer, ranks });
            }
            for part in reads.iter().chain(&writes) {
                if let Some(block) = outside(places, *part) {
                    return Err(Fault::Outside { at, buf: name(part.buf), block });
                }
            }
            if let Some(part) = writes.filter(|part| part.buf == Buf::In && part.len > 0) {
                return Err(Fault::Input { at, block: block_of(places, part, 0) });
            }
            let source = this.cells.len();
            if let Some(part) = reads {
                memory.locate(places, part, &mut this.cells);
            }
            let target = this.cells.len();
            if let Some(part) = writes {
                memory.locate(places, part, &mut this.cells);
            }
            let (source, target) = (source..target, target..this.cells.len());
            let is_message = peer.is_some();
            // A copy to where it is already: the two are the same memory.
            if matches!(op, Op::Copy { .. }) && this.cells[source.clone()] == this.cells[target.clone()] {
                continue;
            }
            let data = this.data.len();
            if let Some(part) = reads {
                touch(memory, part, &this.cells[source.clone()], Access::Read)?;
                memory.read(&this.cells[source], &mut this.data);
            }
            if let Some(part) = writes {
                let access = if combines { Access::Update } else { Access::Write };
                touch(memory, part, &this.cells[target.clone()], access)?;
                let room: usize = this.cells[target.clone()].iter().map(|cells| cells.len()).sum();
                if is_message {
                    this.data.resize(data + room, Value::NOTHING);
                } else if this.data.len() - data != room {
                    return Err(Fault::Mixed { at, block: block_of(places, part, 0) });
                }
            }
            this.left += usize::from(is_message);
            let target = (target.start as u32, target.end as u32);
            this.ops.push(Going { op, target, data: (data as u32, this.data.len() as u32), done: !is_message });
        }
        // Only now, since what is undefined because another operation of the round writes it is a race.
        for going in &this.ops {
            let Some(part) = named(going.op).reads else { continue };
            if let Some(k) = span(&this.data, going.data).iter().position(|value| value.is_nothing()) {
                return Err(Fault::Undefined { at, buf: name(part.buf), block: block_of(places, part, k) });
            }
        }
        for op in 0..this.ops.len() {
            self.post(rank, slot, op)?;
        }
        if self.ranks[rank as usize].active[slot as usize].left == 0 {
            self.end(rank, slot)?;
        }
        Ok(())
    }

    /// One end of a message is there; if the other is too, it is delivered.
    fn post(&mut self, rank: u32, slot: u32, op: usize) -> Result<(), Fault> {
        let this = &self.ranks[rank as usize].active[slot as usize];
        let At { phase, lane, .. } = this.at;
        let (from, to) = match this.ops[op].op {
            Op::Send { to, .. } => (rank, to),
            Op::Recv { from, .. } | Op::RecvReduce { from, .. } => (from, rank),
            _ => return Ok(()),
        };
        let sending = from == rank;
        let posts = &mut self.posts[to as usize];
        let is_other_end =
            |post: &Post| post.from == from && post.lane == lane && post.phase == phase && post.sending != sending;
        let Some(found) = posts.iter().position(is_other_end) else {
            posts.push(Post { phase, lane, from, sending, slot, op });
            return Ok(());
        };
        let other = posts.remove(found);
        self.messages += 1;
        let ((send_slot, send_op), (receive_slot, receive_op)) =
            if sending { ((slot, op), (other.slot, other.op)) } else { ((other.slot, other.op), (slot, op)) };
        let both = self.ranks.get_disjoint_mut([from as usize, to as usize]);
        let [sender, receiver] = both.expect("a rank sends to another");
        let send = &mut sender.active[send_slot as usize];
        let receive = &mut receiver.active[receive_slot as usize];
        let data = span(&send.data, send.ops[send_op].data);
        let Going { data: room, op: receipt, .. } = receive.ops[receive_op];
        if data.len() != (room.1 - room.0) as usize {
            let places = Places { schedule: self.schedule, layouts: &receiver.layouts, rank: to };
            let what = what(places, receipt);
            let (got, room) = (data.len(), (room.1 - room.0) as usize);
            return Err(Fault::Length { at: receive.at, peer: from, got, room, what });
        }
        receive.data[room.0 as usize..room.1 as usize].copy_from_slice(data);
        receive.heard = receive.heard.or(send.knows);
        (send.ops[send_op].done, receive.ops[receive_op].done) = (true, true);
        (send.left, receive.left) = (send.left - 1, receive.left - 1);
        // The round that is being posted is ended by whoever posts it.
        let (peer, peer_slot) = if sending { (to, receive_slot) } else { (from, send_slot) };
        if self.ranks[peer as usize].active[peer_slot as usize].left == 0 {
            self.end(peer, peer_slot)?;
        }
        Ok(())
    }

    /// All operations of a round are done: what they write is written.
    fn end(&mut self, rank: u32, slot: u32) -> Result<(), Fault> {
        let Rank { layouts, memory, cursor, active, knows, staging, .. } = &mut self.ranks[rank as usize];
        let places = Places { schedule: self.schedule, layouts, rank };
        let this = &mut active[slot as usize];
        let mut staged = 0;
        for Going { op, target, data, .. } in &this.ops {
            let (cells, data) = (span(&this.cells, *target), span(&this.data, *data));
            match *op {
                Op::Send { .. } => {}
                Op::Recv { .. } | Op::Copy { .. } => memory.each(cells, |k, value| *value = data[k]),
                Op::RecvReduce { part, side, .. } => {
                    staged += data.len();
                    combine(memory, &mut self.contributions, places, this.at, part, (cells, data), side)?;
                }
                Op::Reduce { into, side, .. } => {
                    combine(memory, &mut self.contributions, places, this.at, into, (cells, data), side)?;
                }
            }
        }
        staging.add(self.schedule, this.at, staged);
        *knows = knows.or(this.heard);
        this.going = false;
        cursor.end(slot);
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
    places: Places<'_>,
    at: At,
    part: Part,
    (cells, data): (&[Cells], &[Value]),
    side: Side,
) -> Result<(), Fault> {
    let mut fault = None;
    memory.each(cells, |k, value| {
        let block = || block_of(places, part, k);
        if value.is_nothing() {
            fault.get_or_insert_with(|| Fault::Undefined { at, buf: name(part.buf), block: block() });
            return;
        }
        let combined = match side {
            Side::Left => contributions.combine(data[k], *value),
            Side::Right => contributions.combine(*value, data[k]),
        };
        match combined {
            Ok(combined) => *value = combined,
            Err(unfit) => {
                fault.get_or_insert_with(|| match unfit {
                    Unfit::Different => Fault::Mixed { at, block: block() },
                    Unfit::Twice(twice) => Fault::Twice { at, twice, block: block() },
                });
            }
        }
    });
    fault.map_or(Ok(()), Err)
}
