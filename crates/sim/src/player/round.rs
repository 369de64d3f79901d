//! A round of a lane: from its beginning to its end.

use treepie_schedule::{Op, Part};

use super::matching::{Key, Posted};
use super::play::{COMBINE, Player, RELEASED};
use super::rank::Lane;
use crate::machine::Message;
use crate::time::Time;

impl Player<'_> {
    /// Begins the round of a lane.
    pub(super) fn begin(&mut self, slot: u32) {
        let now = self.machine.now();
        let Lane { rank, lane, round, .. } = self.lanes[slot];
        let phase = self.ranks[rank as usize].phase;
        let shape = &self.shapes[phase as usize];
        let (channel, tie) = (shape.first + lane, shape.tie(lane));
        let mut ops = std::mem::take(&mut self.ops);
        ops.clear();
        self.piece.schedule.emit(rank, phase, lane, round..round + 1, &mut ops);
        let (mut known, mut waits) = (now, 0);
        for op in ops.round_or_none(0) {
            match *op {
                Op::Send { to, part } => {
                    let bytes = self.lengths.of(self.piece, rank, part);
                    let token = u64::from(channel) << 32 | u64::from(slot);
                    let sending = self.machine.send(now, Message { from: rank, to, bytes, channel, token, tie });
                    match sending.over {
                        Some(over) => known = known.max(over),
                        None => waits += 1,
                    }
                }
                Op::Recv { from, part } => match self.post(slot, from, channel, part, false) {
                    Some(over) => known = known.max(over),
                    None => waits += 1,
                },
                Op::RecvReduce { from, part, .. } => match self.post(slot, from, channel, part, true) {
                    Some(over) => known = known.max(over),
                    None => waits += 1,
                },
                Op::Copy { from: part, .. } | Op::Reduce { from: part, .. } => {
                    let bytes = self.lengths.of(self.piece, rank, part);
                    known = known.max(self.machine.combine(rank, now, bytes));
                }
            }
        }
        self.ops = ops;
        let entry = &mut self.lanes[slot];
        (entry.known, entry.waits) = (known, waits);
    }

    /// Posts a receive. If its message is there already, when it has been received.
    fn post(&mut self, slot: u32, from: u32, channel: u32, part: Part, combine: bool) -> Option<Time> {
        let rank = self.lanes[slot].rank;
        if !self.table.post(Key { to: rank, from, lane: channel }, Posted { slot, combine }) {
            return None;
        }
        let bytes = self.lengths.of(self.piece, rank, part);
        self.machine.let_go(rank, bytes);
        self.take(self.machine.now(), slot, bytes, combine)
    }

    /// The CPU takes a message that is there. When that is over, unless it has to be combined first: then the CPU may do
    /// something else before that.
    #[inline]
    pub(super) fn take(&mut self, now: Time, slot: u32, bytes: u64, combine: bool) -> Option<Time> {
        let rank = self.lanes[slot].rank;
        let there = self.machine.receive(rank, now, bytes);
        if !combine || bytes == 0 || self.machine.combines_for_free() {
            return Some(there);
        }
        if there == now {
            return Some(self.machine.combine(rank, now, bytes));
        }
        let id = self.received.insert((slot, bytes));
        self.machine.wake(there, rank, COMBINE | u64::from(id));
        None
    }

    pub(super) fn woken(&mut self, now: Time, rank: u32, token: u64) {
        if token == RELEASED {
            self.enter_next(rank);
            self.advance(rank);
        } else if token & COMBINE != 0 {
            let (slot, bytes) = self.received[token as u32];
            self.received.remove(token as u32);
            let over = self.machine.combine(rank, now, bytes);
            self.over(slot, over);
        } else {
            self.round_ended(token as u32);
        }
    }

    /// Something that a round waited for is over, now or at a known time.
    #[inline]
    pub(super) fn over(&mut self, slot: u32, at: Time) {
        let lane = &mut self.lanes[slot];
        lane.known = lane.known.max(at);
        lane.waits -= 1;
        if lane.waits > 0 {
            return;
        }
        if lane.known > self.machine.now() {
            let (known, rank) = (lane.known, lane.rank);
            self.machine.wake(known, rank, u64::from(slot));
            return;
        }
        self.round_ended(slot)
    }

    fn round_ended(&mut self, slot: u32) {
        let rank = self.lanes[slot].rank;
        let open = self.ranks[rank as usize].open;
        self.lanes[slot].round += 1;
        self.run(slot);
        // Only a lane that has closed lets others open, or the phase end.
        if self.ranks[rank as usize].open < open {
            self.advance(rank);
        }
    }
}
