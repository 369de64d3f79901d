//! The time of a schedule: its rounds, on ranks that send one message at a time and receive one at a time.
//!
//! This is where predicted times come from. Closed forms ([`closed_form`](crate::closed_form)) are a faster evaluation
//! of the same for the schedules that have one, and are tested against it.
//!
//! A rank sends the messages of a round in their order. A message of m bytes takes its sender s(m), and arrives L +
//! g(m) after it began, or g(m) after the one before it over the same link. Between clusters the link is that of the
//! pair of clusters, otherwise the receiver's. Received operands are combined one after the other. A rank begins a
//! round of a lane when it has completed the one before; sends of several lanes share its port.   [P-LogP paper 2.1]
//!
//! On a torus, mesh or Clos network a rank starts its messages one after the other, and their bytes share the links on
//! their routes.   [thesis 3.1]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use treepie_schedule::{BlockLayouts, BufferMap, Schedule, ScheduleOp, ScheduleReader};

use crate::predict::MessageCosts;

/// More links than this are too many to keep a time for each.
const MAX_LINKS: usize = 1 << 16;

/// Microseconds until the last rank has completed the schedule; `None` if it has more than `max_messages` messages, or
/// if the network has too many links. `layouts` are those of all ranks, with elements of `element` bytes.
pub fn time(
    schedule: &dyn Schedule,
    layouts: &BlockLayouts,
    element: f64,
    costs: &MessageCosts<'_>,
    max_messages: usize,
) -> Option<f64> {
    if costs.num_links() > MAX_LINKS {
        return None;
    }
    let mut walk = Walk::new(schedule, layouts, element, costs);
    for rank in 0..schedule.ranks() {
        walk.advance(rank);
        if walk.messages > max_messages {
            return None;
        }
    }
    while walk.send_next() {
        if walk.messages > max_messages {
            return None;
        }
    }
    debug_assert!(walk.ranks.iter().all(|rank| rank.reader.is_done(schedule)), "a rank waits forever");
    Some(walk.ranks.iter().map(|rank| rank.now).fold(0.0, f64::max))
}

/// A message that waits for the port of its sender.
struct Send {
    to: u32,
    bytes: f64,
    ready: f64,
    channel: Channel,
    slot: u32,
}

/// A phase and a lane. Messages between two ranks are matched in order within it.
type Channel = (u32, u32);

/// The running round of a lane: operations that are pending, and the latest completion of the others.
struct OpenRound {
    slot: u32,
    pending: usize,
    latest: f64,
}

struct RankState {
    reader: ScheduleReader,
    sends: VecDeque<Send>,
    /// When its port can send, its port can receive, and it can combine.
    out_free: f64,
    in_free: f64,
    cpu_free: f64,
    rounds: Vec<OpenRound>,
    /// Arrivals that no receive has asked for.
    unexpected: Vec<((u32, Channel), f64)>,
    /// Receives without a message, the slot of their round, and the time that combining takes.
    posted: Vec<((u32, Channel), u32, f64)>,
    now: f64,
}

impl RankState {
    /// Completes an operation of a round.
    fn complete(&mut self, slot: u32, time: f64) {
        let round = self.rounds.iter_mut().find(|round| round.slot == slot).expect("the round is running");
        round.pending -= 1;
        round.latest = round.latest.max(time);
    }

    /// When what has arrived is combined.
    fn combined(&mut self, arrival: f64, combining: f64) -> f64 {
        if combining == 0.0 {
            return arrival;
        }
        self.cpu_free = arrival.max(self.cpu_free) + combining;
        self.cpu_free
    }
}

struct Walk<'a> {
    schedule: &'a dyn Schedule,
    layouts: &'a BlockLayouts,
    element: f64,
    costs: &'a MessageCosts<'a>,
    ranks: Vec<RankState>,
    /// Ranks whose next send can begin, by its time in picoseconds.
    ready: BinaryHeap<Reverse<(u64, u32)>>,
    /// When each link that messages share has carried all bytes so far.
    links: Vec<f64>,
    /// Messages so far, sent or queued.
    messages: usize,
}

impl<'a> Walk<'a> {
    fn new(schedule: &'a dyn Schedule, layouts: &'a BlockLayouts, element: f64, costs: &'a MessageCosts<'a>) -> Self {
        let rank = |rank| RankState {
            reader: ScheduleReader::new(schedule, rank),
            sends: VecDeque::new(),
            out_free: 0.0,
            in_free: 0.0,
            cpu_free: 0.0,
            rounds: Vec::new(),
            unexpected: Vec::new(),
            posted: Vec::new(),
            now: 0.0,
        };
        let ranks = (0..schedule.ranks()).map(rank).collect();
        Self {
            schedule,
            layouts,
            element,
            costs,
            ranks,
            ready: BinaryHeap::new(),
            links: vec![0.0; costs.num_links()],
            messages: 0,
        }
    }

    /// Queues the rank for its next send.
    fn queue(&mut self, rank: u32) {
        let state = &self.ranks[rank as usize];
        if let Some(send) = state.sends.front() {
            let begin = send.ready.max(state.out_free);
            self.ready.push(Reverse(((begin * 1e6) as u64, rank)));
        }
    }

    /// Sends the message that can begin first. Returns whether there was one.
    fn send_next(&mut self) -> bool {
        let Some(Reverse((_, from))) = self.ready.pop() else { return false };
        let sender = &mut self.ranks[from as usize];
        let Send { to, bytes, ready, channel, slot } = sender.sends.pop_front().expect("the rank has a message");
        let begin = ready.max(sender.out_free);
        let transfer = self.costs.transfer(from, to, bytes);
        let mut arrival = begin + transfer.latency + transfer.gap;
        let mut free = begin + transfer.send;
        if let Some((link, window)) = transfer.link {
            arrival = arrival.max(self.links[link] + transfer.latency + transfer.gap);
            self.links[link] = arrival - transfer.latency;
            free = free.max(self.links[link] - window);
        }
        sender.out_free = free;
        sender.complete(slot, free);
        if self.costs.routed() {
            // Each link carries its messages one after the other: those of one size that share it evenly end together
            // with the last.
            let tie_break = self.schedule.tie_break(channel.0, channel.1);
            let (links, costs, at) = (&mut self.links, self.costs, begin + transfer.latency);
            costs.network().route(from, to, tie_break, |link| {
                let free = &mut links[link as usize];
                *free = free.max(at) + costs.link_time(link, bytes);
                arrival = arrival.max(*free);
            });
        }
        let receiver = &mut self.ranks[to as usize];
        arrival = arrival.max(receiver.in_free + transfer.receive);
        receiver.in_free = arrival;
        let key = (from, channel);
        match receiver.posted.iter().position(|(posted, ..)| *posted == key) {
            Some(at) => {
                let (_, slot, combining) = receiver.posted.remove(at);
                let time = receiver.combined(arrival, combining);
                receiver.complete(slot, time);
            }
            None => receiver.unexpected.push((key, arrival)),
        }
        self.queue(from);
        self.advance(from);
        self.advance(to);
        true
    }

    /// Ends completed rounds of a rank, and begins those that can begin.
    fn advance(&mut self, rank: u32) {
        let (schedule, costs) = (self.schedule, self.costs);
        let state = &mut self.ranks[rank as usize];
        let was_idle = state.sends.is_empty();
        loop {
            while let Some(at) = state.rounds.iter().position(|round| round.pending == 0) {
                let OpenRound { slot, latest, .. } = state.rounds.swap_remove(at);
                state.now = state.now.max(latest);
                state.reader.finish_round(slot);
            }
            let Some(begun) = state.reader.start_round(schedule) else { break };
            let buffers = BufferMap { schedule, layouts: self.layouts, rank };
            let bytes = |part| buffers.range_len(part) as f64 * self.element;
            let (channel, slot) = ((begun.phase, begun.lane), begun.slot);
            let (mut pending, mut latest, mut copied) = (0, state.now, 0.0);
            for at in 0..state.reader.ops(slot).len() {
                match state.reader.ops(slot)[at] {
                    ScheduleOp::Send { to, part } => {
                        pending += 1;
                        self.messages += 1;
                        state.sends.push_back(Send { to, bytes: bytes(part), ready: state.now, channel, slot });
                    }
                    ScheduleOp::Recv { from, .. } | ScheduleOp::RecvReduce { from, .. } => {
                        let combining = match state.reader.ops(slot)[at] {
                            ScheduleOp::RecvReduce { part, .. } => costs.reduction(bytes(part)),
                            _ => 0.0,
                        };
                        let key = (from, channel);
                        match state.unexpected.iter().position(|(arrived, _)| *arrived == key) {
                            Some(at) => {
                                let (_, arrival) = state.unexpected.remove(at);
                                let time = state.combined(arrival.max(state.now), combining);
                                latest = latest.max(time);
                            }
                            None => {
                                pending += 1;
                                state.posted.push((key, slot, combining));
                            }
                        }
                    }
                    ScheduleOp::Reduce { into, .. } => copied += costs.reduction(bytes(into)),
                    ScheduleOp::Copy { to, .. } => copied += costs.copy(bytes(to)),
                }
            }
            state.rounds.push(OpenRound { slot, pending, latest: latest + copied });
        }
        if was_idle {
            self.queue(rank);
        }
    }
}
