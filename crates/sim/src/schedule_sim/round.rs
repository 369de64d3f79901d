//! A round of a lane, from begin to end.

use std::collections::hash_map::Entry;

use treepie_schedule::cursor::StartedRound;
use treepie_schedule::{BlockRange, ScheduleOp};

use super::matching::{PostedRecv, SimMatchKey};
use super::simulator::{ActiveRound, COMBINE, PHASE_RELEASED, ScheduleSimulator};
use crate::machine::SimMessage;
use crate::time::Time;

impl ScheduleSimulator<'_> {
    /// Begins a round, and ends it if it takes no time.
    pub(super) fn begin_round(&mut self, rank: u32, started: StartedRound) {
        let now = self.machine.now();
        let StartedRound { slot, phase, lane, round } = started;
        self.lanes[slot].rank = rank;
        let state = &self.phases[phase as usize];
        let (channel, tie) = (state.first + lane, state.tie(lane));
        let mut ops = std::mem::take(&mut self.ops);
        ops.clear();
        self.workload.schedule.emit(rank, phase, lane, round..round + 1, &mut ops);
        let (mut known, mut pending) = (now, 0);
        let in_order = self.machine.has_links() && self.has_duplicate_destination(ops.round_or_empty(0));
        for op in ops.round_or_empty(0) {
            match *op {
                ScheduleOp::Send { to, part } => {
                    let bytes = self.part_lengths.bytes_of(self.workload, rank, part);
                    let token = u64::from(channel) << 32 | u64::from(slot);
                    self.note_cpu_request(slot, bytes, self.machine.is_send_order_significant());
                    let message = SimMessage { from: rank, to, bytes, channel, token, tie };
                    let timing = if in_order {
                        self.machine.send_in_order(now, message)
                    } else {
                        self.machine.send(now, message)
                    };
                    match timing.completion {
                        Some(completion) => known = known.max(completion),
                        None => pending += 1,
                    }
                }
                ScheduleOp::Recv { from, part } => match self.post_recv(slot, from, channel, part, false) {
                    Some(completion) => known = known.max(completion),
                    None => pending += 1,
                },
                ScheduleOp::RecvReduce { from, part, .. } => match self.post_recv(slot, from, channel, part, true) {
                    Some(completion) => known = known.max(completion),
                    None => pending += 1,
                },
                ScheduleOp::Copy { from: part, .. } | ScheduleOp::Reduce { from: part, .. } => {
                    let bytes = self.part_lengths.bytes_of(self.workload, rank, part);
                    self.note_cpu_request(slot, bytes, !self.machine.is_combine_free());
                    known = known.max(self.machine.combine(rank, now, bytes));
                }
            }
        }
        self.ops = ops;
        self.lanes[slot] = ActiveRound { rank, pending, known_completion: known };
        if pending > 0 {
            return;
        }
        if known > now {
            self.machine.schedule_wakeup(known, rank, u64::from(slot));
        } else {
            self.ranks[rank as usize].finish_round(&mut self.lanes, slot);
        }
    }

    /// Notes a lane's request for the CPU, if it takes time: other ranks than the representative may get it in another
    /// order.
    #[inline]
    fn note_cpu_request(&mut self, slot: u32, bytes: u64, takes_time: bool) {
        if let Some(ties) = &mut self.ties
            && takes_time
        {
            ties.has_tie |= ties.cpu.request(self.machine.now(), ties.event, (self.lanes.number(slot), bytes));
        }
    }

    /// Whether two messages of a round go to the same rank. On shared links the later one may arrive first if it is
    /// shorter, and must not match the other's receive. Messages of different rounds cannot: a round ends after its
    /// messages have flowed, and all of a pair in a lane take the same route.
    fn has_duplicate_destination(&mut self, ops: &[ScheduleOp]) -> bool {
        let peer = |op: &ScheduleOp| if let ScheduleOp::Send { to, .. } = op { Some(*to) } else { None };
        let mut peers = ops.iter().filter_map(peer);
        let (Some(first), Some(second)) = (peers.next(), peers.next()) else { return false };
        self.peers.clear();
        self.peers.extend([first, second].into_iter().chain(peers));
        self.peers.sort_unstable();
        self.peers.windows(2).any(|two| two[0] == two[1])
    }

    /// Posts a receive. If its message has arrived, returns when the receive completes.
    fn post_recv(&mut self, slot: u32, from: u32, channel: u32, part: BlockRange, combine: bool) -> Option<Time> {
        let rank = self.lanes[slot].rank;
        let key = SimMatchKey { to: rank, from, lane: channel };
        if !self.match_table.post(key, PostedRecv { slot, combine }) {
            return None;
        }
        let bytes = self.part_lengths.bytes_of(self.workload, rank, part);
        if self.unexpected.is_some() {
            self.release_unexpected(key, bytes);
        }
        self.receive(self.machine.now(), slot, bytes, combine)
    }

    /// Releases the oldest unexpected message of a key.
    fn release_unexpected(&mut self, key: SimMatchKey, expected: u64) {
        let Some(Entry::Occupied(mut queue)) = self.unexpected.as_mut().map(|held| held.entry(key)) else { return };
        let bytes = queue.get_mut().pop_front().unwrap_or(0);
        debug_assert_eq!(bytes, expected, "a message to rank {} is as long as its receive", key.to);
        if queue.get().is_empty() {
            queue.remove();
        }
        self.machine.release_unexpected(key.to, bytes);
    }

    /// Receives a delivered message. Returns when that completes, unless it must be combined later: the CPU may do
    /// other work before that.
    #[inline]
    pub(super) fn receive(&mut self, now: Time, slot: u32, bytes: u64, combine: bool) -> Option<Time> {
        let rank = self.lanes[slot].rank;
        let combines = combine && bytes > 0 && !self.machine.is_combine_free();
        if let Some(ties) = &mut self.ties {
            let request = (self.lanes.number(slot), if combines { bytes } else { 0 });
            let instant = if self.machine.has_links() { &mut ties.recv } else { &mut ties.cpu };
            ties.has_tie |= instant.request(now, ties.event, request) && self.machine.is_recv_order_significant();
        }
        let received = self.machine.receive(rank, now, bytes);
        if !combines {
            return Some(received);
        }
        if received == now {
            self.note_cpu_request(slot, bytes, true);
            return Some(self.machine.combine(rank, now, bytes));
        }
        let id = self.pending_combines.insert((slot, bytes));
        self.machine.schedule_wakeup(received, rank, COMBINE | u64::from(id));
        None
    }

    pub(super) fn on_wakeup(&mut self, now: Time, rank: u32, token: u64) {
        if token == PHASE_RELEASED {
            self.enter_next_phase(rank);
            self.advance(rank);
        } else if token & COMBINE != 0 {
            let (slot, bytes) = self.pending_combines[token as u32];
            self.pending_combines.remove(token as u32);
            self.note_cpu_request(slot, bytes, true);
            let completion = self.machine.combine(rank, now, bytes);
            self.complete_op(slot, completion);
        } else {
            self.end_round(token as u32);
        }
    }

    /// Completes a pending operation of a round, now or at a known time.
    #[inline]
    pub(super) fn complete_op(&mut self, slot: u32, at: Time) {
        let active = &mut self.lanes[slot];
        active.known_completion = active.known_completion.max(at);
        active.pending -= 1;
        let ActiveRound { rank, pending, known_completion } = *active;
        if pending > 0 {
            return;
        }
        if known_completion > self.machine.now() {
            self.machine.schedule_wakeup(known_completion, rank, u64::from(slot));
            return;
        }
        self.end_round(slot)
    }

    fn end_round(&mut self, slot: u32) {
        let rank = self.lanes[slot].rank;
        self.ranks[rank as usize].finish_round(&mut self.lanes, slot);
        self.advance(rank);
    }
}
