//! A round of a lane: from its beginning to its end.

use std::collections::hash_map::Entry;

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
        let in_order = self.machine.has_links() && self.sends_twice(ops.round_or_none(0));
        for op in ops.round_or_none(0) {
            match *op {
                Op::Send { to, part } => {
                    let bytes = self.lengths.of(self.piece, rank, part);
                    let token = u64::from(channel) << 32 | u64::from(slot);
                    self.asks(slot, bytes, self.machine.sends_take_turns());
                    let message = Message { from: rank, to, bytes, channel, token, tie };
                    let sending = if in_order {
                        self.machine.send_in_order(now, message)
                    } else {
                        self.machine.send(now, message)
                    };
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
                    self.asks(slot, bytes, !self.machine.combines_for_free());
                    known = known.max(self.machine.combine(rank, now, bytes));
                }
            }
        }
        self.ops = ops;
        let entry = &mut self.lanes[slot];
        (entry.known, entry.waits) = (known, waits);
    }

    /// A lane asks for the CPU, if it takes its time: if only one rank is played, others may ask for it in another order.
    #[inline]
    fn asks(&mut self, slot: u32, bytes: u64, takes_time: bool) {
        if let Some(ties) = &mut self.ties
            && takes_time
        {
            ties.met |= ties.cpu.ask(self.machine.now(), ties.happening, (self.lanes[slot].lane, bytes));
        }
    }

    /// Whether two messages of a round go to the same rank. Where links are shared the later one may be there first if it is
    /// shorter, and must not be taken for the other. Messages of different rounds cannot: a round ends after its messages
    /// have flowed, and all of a pair in a lane go the same way.
    fn sends_twice(&mut self, ops: &[Op]) -> bool {
        let peer = |op: &Op| if let Op::Send { to, .. } = op { Some(*to) } else { None };
        let mut peers = ops.iter().filter_map(peer);
        let (Some(first), Some(second)) = (peers.next(), peers.next()) else { return false };
        self.peers.clear();
        self.peers.extend([first, second].into_iter().chain(peers));
        self.peers.sort_unstable();
        self.peers.windows(2).any(|two| two[0] == two[1])
    }

    /// Posts a receive. If its message is there already, when it has been received.
    fn post(&mut self, slot: u32, from: u32, channel: u32, part: Part, combine: bool) -> Option<Time> {
        let rank = self.lanes[slot].rank;
        let key = Key { to: rank, from, lane: channel };
        if !self.table.post(key, Posted { slot, combine }) {
            return None;
        }
        let bytes = self.lengths.of(self.piece, rank, part);
        if self.held.is_some() {
            self.let_go(key, bytes);
        }
        self.take(self.machine.now(), slot, bytes, combine)
    }

    /// What was held longest is asked for.
    fn let_go(&mut self, key: Key, expected: u64) {
        let Some(Entry::Occupied(mut line)) = self.held.as_mut().map(|held| held.entry(key)) else { return };
        let bytes = line.get_mut().pop_front().unwrap_or(0);
        debug_assert_eq!(bytes, expected, "a message to rank {} is as long as the receive that it meets", key.to);
        if line.get().is_empty() {
            line.remove();
        }
        self.machine.let_go(key.to, bytes);
    }

    /// The CPU takes a message that is there. When that is over, unless it has to be combined first: then the CPU may do
    /// something else before that.
    #[inline]
    pub(super) fn take(&mut self, now: Time, slot: u32, bytes: u64, combine: bool) -> Option<Time> {
        let rank = self.lanes[slot].rank;
        let combines = combine && bytes > 0 && !self.machine.combines_for_free();
        if let Some(ties) = &mut self.ties {
            let asked = (self.lanes[slot].lane, if combines { bytes } else { 0 });
            let instant = if self.machine.has_links() { &mut ties.taking } else { &mut ties.cpu };
            ties.met |= instant.ask(now, ties.happening, asked) && self.machine.receives_take_turns();
        }
        let there = self.machine.receive(rank, now, bytes);
        if !combines {
            return Some(there);
        }
        if there == now {
            self.asks(slot, bytes, true);
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
            self.asks(slot, bytes, true);
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
