//! The loop that plays.

use std::collections::{HashMap, VecDeque};

use treepie_schedule::{End, Phase, Rounds};
use treepie_topology::Tie;

use super::matching::{Key, Table};
use super::rank::{Lane, Rank};
use super::{Lengths, Piece, Played};
use crate::error::{Error, Result};
use crate::machine::{Happening, Machine, Memory, What};
use crate::slab::{NONE, Slab};
use crate::symmetric::{Group, Ties};
use crate::time::{END, Time, micros};

/// What a rank is woken for that is not the end of a lane's round: the end of a phase of all ranks,
pub(super) const RELEASED: u64 = u64::MAX;
/// or a message that has been received and is to be combined.
pub(super) const COMBINE: u64 = 1 << 63;

/// What is the same for all ranks in a phase.
#[derive(Debug)]
pub(super) struct Shape {
    phase: Phase,
    /// The number of its first lane among those of all phases.
    pub(super) first: u32,
    /// Of each lane, if they differ.
    ties: Vec<Tie>,
    /// Ranks that have come to its end, if all wait for all there.
    ended: u32,
}

impl Shape {
    pub(super) fn tie(&self, lane: u32) -> Tie {
        if self.ties.len() == 1 { self.ties[0] } else { self.ties[lane as usize] }
    }
}

pub(super) struct Player<'a> {
    pub(super) piece: Piece<'a>,
    pub(super) machine: Machine,
    /// How messages of rank 0 become those of others to it, if only rank 0 is played.
    folded: Option<Group>,
    /// What might have come in another order, then.
    pub(super) ties: Option<Ties>,
    pub(super) shapes: Vec<Shape>,
    pub(super) ranks: Vec<Rank>,
    pub(super) lanes: Slab<Lane>,
    pub(super) table: Table,
    /// Lane and bytes of messages that have been received and are to be combined.
    pub(super) received: Slab<(u32, u64)>,
    pub(super) lengths: Lengths,
    pub(super) ops: Rounds,
    /// Bytes of messages without receives, if memory is capped.
    pub(super) held: Option<HashMap<Key, VecDeque<u64>>>,
    /// To whom the round that begins sends.
    pub(super) peers: Vec<u32>,
    /// Ranks that died before they were done, and when.
    dead: Vec<(u32, Time)>,
    done: u32,
    first_done: Time,
    makespan: Time,
}

impl<'a> Player<'a> {
    pub(super) fn new(piece: Piece<'a>, machine: Machine, folded: Option<Group>) -> Self {
        let schedule = piece.schedule;
        let played = if folded.is_some() { 1 } else { schedule.ranks() };
        let mut first = 0;
        let shape = |number| {
            let phase = schedule.phase(number);
            let mut ties: Vec<Tie> = (0..phase.lanes.max(1)).map(|lane| schedule.tie(number, lane)).collect();
            if ties.windows(2).all(|two| two[0] == two[1]) {
                ties.truncate(1);
            }
            let shape = Shape { phase, first, ties, ended: 0 };
            first += phase.lanes;
            shape
        };
        Self {
            piece,
            shapes: (0..schedule.phases()).map(shape).collect(),
            ranks: vec![Rank { phase: 0, opened: 0, open: 0, head: NONE }; played as usize],
            lanes: Slab::new(),
            table: Table::new(played),
            received: Slab::new(),
            lengths: Lengths::new(piece.sizes),
            ops: Rounds::new(),
            peers: Vec::new(),
            held: machine.is_capped().then(HashMap::new),
            machine,
            ties: folded.is_some().then(Ties::default),
            folded,
            dead: Vec::new(),
            done: 0,
            first_done: Time::MAX,
            makespan: 0,
        }
    }

    /// Whether it came to its end: not if only rank 0 is played and others might be served in another order.
    pub(super) fn play(&mut self) -> Result<bool> {
        for rank in 0..self.ranks.len() as u32 {
            self.advance(rank);
            if self.machine.now() >= END {
                break;
            }
        }
        while let Some(Happening { time, rank, what }) = self.machine.next() {
            if let Some(ties) = &mut self.ties {
                ties.happening += 1;
                if ties.met || self.machine.has_tied() {
                    return Ok(false);
                }
            }
            match what {
                What::Delivered { from, bytes, token, .. } => {
                    let (rank, from) = match &self.folded {
                        None => (rank, from),
                        Some(group) => (0, group.inverse(rank)),
                    };
                    let key = Key { to: rank, from, lane: (token >> 32) as u32 };
                    match self.table.arrive(key) {
                        Some(posted) => {
                            if let Some(over) = self.take(time, posted.slot, bytes, posted.combine) {
                                self.over(posted.slot, over);
                            }
                        }
                        None => {
                            self.machine.hold(rank, bytes)?;
                            if let Some(held) = &mut self.held {
                                held.entry(key).or_default().push_back(bytes);
                            }
                        }
                    }
                }
                What::Sent { token } => self.over(token as u32, time),
                What::Woken { token } => self.woken(time, rank, token),
                What::Died => {
                    let is_new = self.dead.iter().all(|(dead, _)| *dead != rank);
                    if is_new && (self.ranks[rank as usize].phase as usize) < self.shapes.len() {
                        self.dead.push((rank, time));
                    }
                }
            }
        }
        Ok(!self.ties.as_ref().is_some_and(|ties| ties.met))
    }

    /// How it went.
    pub(super) fn played(self) -> Result<(Played, Machine)> {
        if self.machine.now() >= END {
            return Err(Error::TooLong);
        }
        if (self.done as usize) < self.ranks.len() {
            return Err(self.stuck());
        }
        let totals = self.machine.totals();
        let Memory { ranks, links, in_flight } = self.machine.memory();
        let ranks = ranks + self.ranks.capacity() * size_of::<Rank>() + self.lanes.memory() + self.table.memory();
        let in_flight = in_flight + self.received.memory() + self.peers.capacity() * size_of::<u32>();
        let played = Played {
            makespan: self.makespan,
            first_done: self.first_done,
            messages: totals.messages,
            bytes: totals.bytes,
            events: 3 * totals.messages,
            steps: totals.steps,
            worst_link: self.machine.busiest_link(),
            most_in_flight: totals.most_in_flight,
            memory: ranks + links + in_flight,
            memory_ranks: ranks,
            memory_links: links,
            memory_in_flight: in_flight,
        };
        Ok((played, self.machine))
    }

    /// Nothing happens any more, and not all are done.
    fn stuck(&self) -> Error {
        let left = self.ranks.len() as u32 - self.done;
        if let Some(&(rank, at)) = self.dead.first() {
            let dead = self.dead.len() as u32;
            return Error::Died { rank, micros: micros(at), others: dead - 1, waiting: left - dead };
        }
        let waits = |rank: &Rank| (rank.phase as usize) < self.shapes.len();
        let rank = self.ranks.iter().position(waits).unwrap_or(0) as u32;
        Error::Stuck { waiting: left, rank, phase: self.ranks[rank as usize].phase }
    }

    /// Opens what may be opened on a rank, and goes on to the next phase when a phase has ended there.
    pub(super) fn advance(&mut self, rank: u32) {
        loop {
            let Rank { phase, opened, open, .. } = self.ranks[rank as usize];
            let Some(shape) = self.shapes.get_mut(phase as usize) else { return };
            if opened < shape.phase.lanes {
                if !self.may_open(rank) {
                    return;
                }
                self.open_lane(rank, phase, opened);
                continue;
            }
            if open > 0 {
                return;
            }
            if shape.phase.end == End::Global {
                // A rank that waits there has opened one lane more than there are.
                if opened > shape.phase.lanes {
                    return;
                }
                self.ranks[rank as usize].opened += 1;
                shape.ended += 1;
                if shape.ended as usize == self.ranks.len() {
                    self.release(phase);
                }
                return;
            }
            self.enter_next(rank);
        }
    }

    /// All ranks have come to the end of a phase: they go on together.
    fn release(&mut self, phase: u32) {
        let at = self.machine.now() + self.machine.barrier();
        for rank in 0..self.ranks.len() as u32 {
            debug_assert_eq!(self.ranks[rank as usize].phase, phase);
            self.machine.wake(at, rank, RELEASED);
        }
    }

    pub(super) fn enter_next(&mut self, rank: u32) {
        let entry = &mut self.ranks[rank as usize];
        entry.phase += 1;
        (entry.opened, entry.open, entry.head) = (0, 0, NONE);
        if entry.phase as usize == self.shapes.len() {
            let now = self.machine.now();
            self.done += 1;
            self.first_done = self.first_done.min(now);
            self.makespan = self.makespan.max(now);
        }
    }

    /// Whether the window lets the next lane open: all lanes but the last `window` before it have closed.
    fn may_open(&self, rank: u32) -> bool {
        let Rank { phase, opened, head, .. } = self.ranks[rank as usize];
        let Phase { lanes, window, .. } = self.shapes[phase as usize].phase;
        if window >= lanes {
            return true;
        }
        let mut lowest = opened;
        let mut slot = head;
        while slot != NONE {
            lowest = lowest.min(self.lanes[slot].lane);
            slot = self.lanes[slot].next;
        }
        opened - lowest < window.max(1)
    }

    fn open_lane(&mut self, rank: u32, phase: u32, lane: u32) {
        let rounds = self.piece.schedule.rounds(rank, phase, lane);
        let entry = &mut self.ranks[rank as usize];
        entry.opened += 1;
        if rounds == 0 {
            return;
        }
        entry.open += 1;
        let slot = self.lanes.insert(Lane { rank, lane, round: 0, rounds, waits: 0, next: entry.head, known: 0 });
        entry.head = slot;
        self.run(slot)
    }

    /// Begins rounds of a lane until one has to be waited for, or the lane is over; then it is closed.
    pub(super) fn run(&mut self, slot: u32) {
        let now = self.machine.now();
        loop {
            let Lane { round, rounds, .. } = self.lanes[slot];
            if round == rounds {
                self.close(slot);
                return;
            }
            self.begin(slot);
            let Lane { waits, known, .. } = self.lanes[slot];
            if waits > 0 {
                return;
            }
            if known > now {
                self.machine.wake(known, self.lanes[slot].rank, u64::from(slot));
                return;
            }
            self.lanes[slot].round += 1;
        }
    }

    fn close(&mut self, slot: u32) {
        let Lane { rank, next, .. } = self.lanes[slot];
        let entry = &mut self.ranks[rank as usize];
        entry.open -= 1;
        if entry.head == slot {
            entry.head = next;
        } else {
            let mut before = entry.head;
            while self.lanes[before].next != slot {
                before = self.lanes[before].next;
            }
            self.lanes[before].next = next;
        }
        self.lanes.remove(slot);
    }
}
