//! The time of a schedule: its rounds, on ranks that send one message at a time and receive one at a time.
//!
//! This is where predicted times come from. Closed forms ([`closed_form`](crate::closed_form)) are a faster evaluation
//! of the same for the schedules that have one, and are tested against it.
//!
//! A rank sends the messages of a round in their order. A message of m bytes takes its sender s(m), and arrives L +
//! g(m) after it began, or g(m) after the one before it over the same link. Between clusters the link is that of the
//! pair of clusters, otherwise the receiver's. Received operands are combined one after the other. A rank begins a
//! round of a lane when it has completed the one before; the messages of several lanes share its ports in the order in
//! which they are ready or arrive.   [P-LogP paper 2.1]
//!
//! A long message over a link between clusters is a rendezvous: its sender asks for it, the receiver answers when the
//! receive is posted, and the sender has completed it when the link has carried it. Question and answer wait behind what
//! gateways have accepted for their links. Parts of long messages share the ports of both.
//!
//! On a torus, mesh or Clos network a rank starts its messages one after the other, and their bytes share the links on
//! their routes.   [thesis 3.1]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use treepie_schedule::{BlockLayouts, BlockRange, BufferMap, Schedule, ScheduleOp, ScheduleReader};

use crate::predict::{MessageCosts, Transfer};

/// More links than this are too many to keep a time for each.
const MAX_LINKS: usize = 1 << 17;

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
        if walk.messages.len() > max_messages {
            return None;
        }
    }
    while walk.handle_next() {
        if walk.messages.len() > max_messages {
            return None;
        }
    }
    debug_assert!(walk.ranks.iter().all(|rank| rank.reader.is_done(schedule)), "a rank waits forever");
    Some(walk.ranks.iter().map(|rank| rank.now).fold(0.0, f64::max))
}

/// A message.
struct Message {
    from: u32,
    to: u32,
    bytes: f64,
    /// When its sender can send it.
    ready: f64,
    channel: Channel,
    /// The slot of its sender's round.
    slot: u32,
    /// When its last byte is there, if the receiver's port is free; before, when the question for it is, and then when
    /// the answer is.
    arrival: f64,
    /// The time that the receiver's port takes for it.
    receive: f64,
}

/// A phase and a lane. Messages between two ranks are matched in order within it.
type Channel = (u32, u32);

/// What waits to be matched, by lane: sender, phase, and the rest. Most are matched in order.
struct MatchQueues<T>(Vec<VecDeque<(u32, u32, T)>>);

impl MatchQueues<Posted> {
    /// Matches a rendezvous with the oldest receive that has none under way. Returns since when it is posted.
    fn match_rendezvous(&mut self, from: u32, (phase, lane): Channel) -> Option<f64> {
        let lane = self.0.get_mut(lane as usize)?;
        let mut entries = lane.iter_mut().filter(|entry| (entry.0, entry.1) == (from, phase));
        let (.., posted) = entries.find(|(.., posted)| !posted.is_matched)?;
        posted.is_matched = true;
        Some(posted.since)
    }
}

impl<T> MatchQueues<T> {
    fn push(&mut self, from: u32, (phase, lane): Channel, entry: T) {
        if self.0.len() <= lane as usize {
            self.0.resize_with(lane as usize + 1, VecDeque::new);
        }
        self.0[lane as usize].push_back((from, phase, entry));
    }

    /// The oldest entry.
    fn pop(&mut self, from: u32, (phase, lane): Channel) -> Option<T> {
        let lane = self.0.get_mut(lane as usize)?;
        let at = lane.iter().position(|entry| (entry.0, entry.1) == (from, phase))?;
        lane.remove(at).map(|(.., entry)| entry)
    }
}

/// The bytes of block ranges. A scattered range is slow to measure, and the same for all segments.
struct LengthCache(Vec<(BlockRange, usize)>);

impl LengthCache {
    const CAPACITY: usize = 512;

    fn new() -> Self {
        Self(vec![(BlockRange::EMPTY, 0); Self::CAPACITY])
    }

    /// The mean number of elements of a range's segments.
    fn elements(&mut self, buffers: BufferMap<'_>, part: BlockRange) -> f64 {
        let whole = BlockRange { segment: 0, segments: 1, ..part };
        let key = u64::from(part.lo) << 32 ^ u64::from(part.view) << 24 ^ u64::from(part.len);
        let entry = &mut self.0[(key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 55) as usize];
        if entry.0 != whole {
            *entry = (whole, buffers.range_len(whole));
        }
        entry.1 as f64 / f64::from(part.segments)
    }
}

/// The running round of a lane: operations that are pending, and the latest completion of the others.
#[derive(Clone, Copy, Default)]
struct OpenRound {
    pending: usize,
    latest: f64,
}

/// A receive without a message.
struct Posted {
    slot: u32,
    since: f64,
    /// The time that combining takes.
    combining: f64,
    /// Whether its message is a rendezvous that is under way.
    is_matched: bool,
}

struct RankState {
    reader: ScheduleReader,
    /// Messages that wait for the port, by the time when they are ready.
    sends: BinaryHeap<Reverse<(u64, usize)>>,
    /// When its port can send, and has sent the parts of long messages.
    out_free: f64,
    parts_sent: f64,
    /// When its port can receive, and has received the parts of long messages.
    in_free: f64,
    parts_received: f64,
    /// When it can combine.
    cpu_free: f64,
    /// By slot: the running round of its lane, which the next one follows.
    rounds: Vec<OpenRound>,
    /// Slots whose round has no pending operations.
    completed: Vec<u32>,
    phase: u32,
    phase_start: f64,
    /// Arrivals that no receive has asked for.
    unexpected: MatchQueues<f64>,
    posted: MatchQueues<Posted>,
    /// Rendezvous that no receive has asked for.
    asked: MatchQueues<usize>,
    now: f64,
}

impl RankState {
    fn new(reader: ScheduleReader) -> Self {
        Self {
            reader,
            sends: BinaryHeap::new(),
            out_free: 0.0,
            parts_sent: 0.0,
            in_free: 0.0,
            parts_received: 0.0,
            cpu_free: 0.0,
            rounds: Vec::new(),
            completed: Vec::new(),
            phase: 0,
            phase_start: 0.0,
            unexpected: MatchQueues(Vec::new()),
            posted: MatchQueues(Vec::new()),
            asked: MatchQueues(Vec::new()),
            now: 0.0,
        }
    }

    /// Completes an operation of a round.
    fn complete(&mut self, slot: u32, time: f64) {
        let round = &mut self.rounds[slot as usize];
        round.pending -= 1;
        round.latest = round.latest.max(time);
        if round.pending == 0 {
            self.completed.push(slot);
        }
    }

    /// When what has arrived is combined.
    fn combined(&mut self, arrival: f64, combining: f64) -> f64 {
        if combining == 0.0 {
            return arrival;
        }
        self.cpu_free = arrival.max(self.cpu_free) + combining;
        self.cpu_free
    }

    /// When a round can start: after the one before it in its lane. The first of a lane starts when another lane was
    /// closed, that of a phase when all were.
    fn start_of(&mut self, slot: u32, phase: u32, is_first: bool, closed: f64) -> f64 {
        if phase != self.phase {
            (self.phase, self.phase_start) = (phase, self.now);
            self.rounds.clear();
        }
        if self.rounds.len() <= slot as usize {
            self.rounds.resize(slot as usize + 1, OpenRound { pending: 0, latest: self.phase_start });
        }
        let before = self.rounds[slot as usize].latest;
        if is_first { before.max(closed) } else { before }
    }
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A message arrives.
    Arrival(usize),
    /// A rendezvous of a rank's round, by its slot, has been carried.
    Carried(u32, u32),
    /// The port of a rank may be free, and a message ready.
    Send(u32),
    /// The receiver of a long message is asked for it.
    Asked(usize),
    /// Its sender has the answer.
    Answered(usize),
}

struct Walk<'a> {
    schedule: &'a dyn Schedule,
    layouts: &'a BlockLayouts,
    element: f64,
    costs: &'a MessageCosts<'a>,
    ranks: Vec<RankState>,
    /// By time in picoseconds.
    events: BinaryHeap<Reverse<(u64, Event)>>,
    /// When each link that messages share has carried all bytes so far.
    links: Vec<f64>,
    /// All messages so far.
    messages: Vec<Message>,
    lengths: LengthCache,
}

/// Microseconds as integers that compare.
fn picoseconds(micros: f64) -> u64 {
    (micros * 1e6) as u64
}

impl<'a> Walk<'a> {
    fn new(schedule: &'a dyn Schedule, layouts: &'a BlockLayouts, element: f64, costs: &'a MessageCosts<'a>) -> Self {
        let ranks = (0..schedule.ranks()).map(|rank| RankState::new(ScheduleReader::new(schedule, rank))).collect();
        Self {
            schedule,
            layouts,
            element,
            costs,
            ranks,
            events: BinaryHeap::new(),
            links: vec![0.0; costs.num_links()],
            messages: Vec::new(),
            lengths: LengthCache::new(),
        }
    }

    /// Schedules the next send of a rank.
    fn queue(&mut self, rank: u32) {
        let state = &self.ranks[rank as usize];
        if let Some(Reverse((ready, _))) = state.sends.peek() {
            self.events.push(Reverse(((*ready).max(picoseconds(state.out_free)), Event::Send(rank))));
        }
    }

    /// Handles the next event. Returns whether there was one.
    fn handle_next(&mut self) -> bool {
        let Some(Reverse((time, event))) = self.events.pop() else { return false };
        match event {
            Event::Arrival(message) => self.arrive(message),
            Event::Carried(from, slot) => {
                self.ranks[from as usize].complete(slot, time as f64 / 1e6);
                self.advance(from);
            }
            Event::Send(from) => {
                let state = &mut self.ranks[from as usize];
                // Another message may have taken the port since.
                let can_send = state
                    .sends
                    .peek()
                    .is_some_and(|Reverse((ready, _))| (*ready).max(picoseconds(state.out_free)) <= time);
                if can_send {
                    let Reverse((_, message)) = state.sends.pop().expect("there is a message");
                    self.send(message);
                }
            }
            Event::Asked(at) => {
                let Message { from, to, channel, arrival, .. } = self.messages[at];
                let receiver = &mut self.ranks[to as usize];
                match receiver.posted.match_rendezvous(from, channel) {
                    Some(since) => self.answer(at, arrival.max(since)),
                    None => receiver.asked.push(from, channel, at),
                }
            }
            Event::Answered(at) => self.transfer(at),
        }
        true
    }

    /// When a record without data that is sent now over the link of a message leaves it: after what is ahead of it.
    fn passes(&self, now: f64, transfer: &Transfer) -> f64 {
        let Some((link, _)) = transfer.link else { return now };
        now.max(self.links[link].min(now + transfer.ahead))
    }

    /// Sends a message, or asks its receiver for it.
    fn send(&mut self, at: usize) {
        let Message { from, to, bytes, ready, channel, slot, .. } = self.messages[at];
        let sender = &mut self.ranks[from as usize];
        let begin = ready.max(sender.out_free);
        let transfer = self.costs.transfer(from, to, bytes);
        if transfer.handshake.is_some() {
            sender.out_free = begin + self.costs.transfer(from, to, 0.0).send.min(transfer.send);
            let asked = self.passes(begin, &transfer) + transfer.latency;
            self.messages[at].arrival = asked;
            self.events.push(Reverse((picoseconds(asked), Event::Asked(at))));
            self.queue(from);
            return;
        }
        let mut arrival = begin + transfer.latency + transfer.gap;
        let mut free = begin + transfer.send;
        if let Some((link, window)) = transfer.link {
            arrival = arrival.max(self.links[link] + transfer.latency + transfer.gap);
            self.links[link] = arrival - transfer.latency;
            free = free.max(self.links[link] - window);
        }
        sender.out_free = if transfer.overlaps { begin + transfer.send } else { free };
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
        let message = &mut self.messages[at];
        (message.arrival, message.receive) = (arrival, transfer.receive);
        self.events.push(Reverse((picoseconds(arrival), Event::Arrival(at))));
        self.queue(from);
        self.advance(from);
    }

    /// Answers the question for a message at a time.
    fn answer(&mut self, at: usize, time: f64) {
        let Message { from, to, .. } = self.messages[at];
        let answer = self.costs.transfer(to, from, 0.0);
        let answered = self.passes(time, &answer) + answer.latency;
        self.messages[at].arrival = answered;
        self.events.push(Reverse((picoseconds(answered), Event::Answered(at))));
    }

    /// Transfers a message whose question was answered.
    fn transfer(&mut self, at: usize) {
        let Message { from, to, bytes, slot, arrival: begin, .. } = self.messages[at];
        let Transfer { send, latency, gap, receive, link, handshake, .. } = self.costs.transfer(from, to, bytes);
        let sender = &mut self.ranks[from as usize];
        sender.parts_sent = sender.parts_sent.max(begin) + send;
        let gap = gap - handshake.unwrap_or(0.0);
        let mut carried = (begin + gap).max(sender.parts_sent);
        if let Some((link, _)) = link {
            carried = carried.max(self.links[link] + gap);
            self.links[link] = carried;
        }
        let receiver = &mut self.ranks[to as usize];
        receiver.parts_received = receiver.parts_received.max(begin + latency) + receive;
        let arrival = (carried + latency).max(receiver.parts_received);
        let message = &mut self.messages[at];
        (message.arrival, message.receive) = (arrival, 0.0);
        self.events.push(Reverse((picoseconds(arrival), Event::Arrival(at))));
        self.events.push(Reverse((picoseconds(carried), Event::Carried(from, slot))));
    }

    /// The receiver's port takes a message.
    fn arrive(&mut self, at: usize) {
        let Message { from, to, channel, arrival, receive, .. } = self.messages[at];
        let receiver = &mut self.ranks[to as usize];
        let arrival = arrival.max(receiver.in_free + receive);
        receiver.in_free = arrival;
        match receiver.posted.pop(from, channel) {
            Some(Posted { slot, since, combining, .. }) => {
                let time = receiver.combined(arrival.max(since), combining);
                receiver.complete(slot, time);
                self.advance(to);
            }
            None => receiver.unexpected.push(from, channel, arrival),
        }
    }

    /// Ends completed rounds of a rank, and begins those that can begin.
    fn advance(&mut self, rank: u32) {
        let (schedule, costs) = (self.schedule, self.costs);
        let state = &mut self.ranks[rank as usize];
        let first = state.sends.peek().copied();
        let mut closed: f64 = 0.0;
        let mut wanted: Vec<(usize, f64)> = Vec::new();
        loop {
            while let Some(slot) = state.completed.pop() {
                let latest = state.rounds[slot as usize].latest;
                closed = closed.max(latest);
                state.now = state.now.max(latest);
                state.reader.finish_round(slot);
            }
            let Some(begun) = state.reader.start_round(schedule) else { break };
            let buffers = BufferMap { schedule, layouts: self.layouts, rank };
            let (element, lengths) = (self.element, &mut self.lengths);
            let mut bytes = |part| lengths.elements(buffers, part) * element;
            let (channel, slot) = ((begun.phase, begun.lane), begun.slot);
            let start = state.start_of(slot, begun.phase, begun.round == 0, closed);
            let (mut pending, mut latest, mut copied) = (0, start, 0.0);
            for at in 0..state.reader.ops(slot).len() {
                match state.reader.ops(slot)[at] {
                    ScheduleOp::Send { to, part } => {
                        pending += 1;
                        state.sends.push(Reverse((picoseconds(start), self.messages.len())));
                        let (bytes, ready) = (bytes(part), start);
                        let message =
                            Message { from: rank, to, bytes, ready, channel, slot, arrival: 0.0, receive: 0.0 };
                        self.messages.push(message);
                    }
                    ScheduleOp::Recv { from, .. } | ScheduleOp::RecvReduce { from, .. } => {
                        let combining = match state.reader.ops(slot)[at] {
                            ScheduleOp::RecvReduce { part, .. } => costs.reduction(bytes(part)),
                            _ => 0.0,
                        };
                        match state.unexpected.pop(from, channel) {
                            Some(arrival) => latest = latest.max(state.combined(arrival.max(start), combining)),
                            None => {
                                pending += 1;
                                let asked = state.asked.pop(from, channel);
                                let posted = Posted { slot, since: start, combining, is_matched: asked.is_some() };
                                state.posted.push(from, channel, posted);
                                wanted.extend(asked.map(|message| (message, start)));
                            }
                        }
                    }
                    ScheduleOp::Reduce { into, .. } => copied += costs.reduction(bytes(into)),
                    ScheduleOp::Copy { to, .. } => copied += costs.copy(bytes(to)),
                }
            }
            state.rounds[slot as usize] = OpenRound { pending, latest: latest + copied };
            if pending == 0 {
                state.completed.push(slot);
            }
        }
        if state.sends.peek().copied() != first {
            self.queue(rank);
        }
        for (message, posted) in wanted {
            self.answer(message, posted.max(self.messages[message].arrival));
        }
    }
}
