//! Barriers of all ranks on counters of the engine's, each with some bits that ranks bring along.
//!
//! Barriers of a cell are numbered: the n-th call of each rank belongs to barrier n. What holds, however often a rank calls
//! and whoever is lost: *barrier n succeeds on a rank only if every rank has arrived at it*. Two rules see to that. A rank
//! arrives at barrier n + 1 only after barrier n has succeeded there, so that a sum of arrivals tells who has come. And a
//! rank that is lost arrives nowhere any more: each barrier beyond its last arrival has failed, for everyone, and whoever
//! calls it is told at once and does not arrive either.

use std::collections::{HashMap, VecDeque};

use treepie_base::{BuildNumberHasher, Error};

use crate::core::{Action, Core};
use crate::endpoint::Endpoint;
use crate::op::{Envelope, Op, What};
use crate::slab::Id;

/// Barriers that go on, by their cell. The first of each has been arrived at.
pub(crate) type Gatherings = HashMap<u32, VecDeque<Gathering>, BuildNumberHasher>;

/// A barrier that goes on, or will.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gathering {
    pub(crate) op: Id,
    /// What this rank brings.
    census: u64,
    /// If nobody brings any of these bits, this rank comes again and brings them.
    until: u64,
}

impl Core {
    /// Every rank has come to a barrier, and they have brought these bits. The next one there begins.
    pub(crate) fn gathered(&mut self, cell: u32, census: u64) {
        let queue = self.gatherings.entry(cell).or_default();
        let mut first = queue.pop_front();
        if let Some(Gathering { op, until, .. }) = first
            && until != 0
            && census & until == 0
        {
            queue.push_front(Gathering { op, census: until, until });
            first = None;
        }
        if let Some(next) = queue.front() {
            self.actions.push(Action::Arrive { cell, census: next.census });
        }
        if let Some(Gathering { op, .. }) = first {
            self.complete(op, Envelope { bytes: census, ..Envelope::default() });
        }
    }
}

impl Endpoint {
    /// Whether a barrier goes on there.
    pub fn is_gathering(&self, cell: u32) -> bool {
        self.core.gatherings.get(&cell).is_some_and(|queue| !queue.is_empty())
    }

    /// Begins a barrier over all ranks of the world on a counter that they share, if the engine has such. Each rank brings
    /// some bits; in the end the envelope has all of theirs in place of a number of bytes.
    pub fn gather(&mut self, cell: u32, census: u64) -> Option<Id> {
        if let Some(rank) = self.misses_next(cell) {
            let id = self.core.ops.insert(Op::other(What::Gather));
            self.core.fail(id, Error::PeerLost { rank: rank as usize });
            return Some(id);
        }
        // A rank arrives once at a time; the next barrier begins when this one has ended.
        if !self.is_gathering(cell) && !self.fabric.arrive(cell, census) {
            return None;
        }
        let id = self.core.ops.insert(Op::other(What::Gather));
        self.core.gatherings.entry(cell).or_default().push_back(Gathering { op: id, census, until: 0 });
        Some(id)
    }

    /// The first rank that will not come to the barrier which the next call belongs to, if that is known already.
    pub fn misses_next(&self, cell: u32) -> Option<u32> {
        if self.core.lives.all_here() { None } else { self.absent(cell, self.next_barrier(cell)) }
    }

    /// The number of the barrier that the next call belongs to. This rank has arrived at the first of those that go on.
    fn next_barrier(&self, cell: u32) -> u64 {
        let under_way = self.core.gatherings.get(&cell).map_or(0, |queue| queue.len()) as u64;
        self.fabric.arrivals(self.core.rank, cell) + under_way.max(1)
    }

    /// The first rank that is lost and has not arrived at a barrier: that barrier will never end.
    fn absent(&self, cell: u32, barrier: u64) -> Option<u32> {
        let lives = &self.core.lives;
        (0..self.size()).find(|rank| lives.is_lost(*rank) && self.fabric.arrivals(*rank, cell) < barrier)
    }

    /// Fails the barriers that go on and will never end, because somebody is lost that has not arrived at them.
    pub(crate) fn fail_gatherings(&mut self) {
        for cell in self.core.gatherings.keys().copied().collect::<Vec<_>>() {
            let first = self.fabric.arrivals(self.core.rank, cell);
            let under_way = self.core.gatherings[&cell].len();
            let broken = (0..under_way).find_map(|i| Some((i, self.absent(cell, first + i as u64)?)));
            let Some((succeeding, rank)) = broken else { continue };
            let queue = self.core.gatherings.get_mut(&cell).expect("just found");
            for Gathering { op, .. } in queue.split_off(succeeding) {
                self.core.fail(op, Error::PeerLost { rank: rank as usize });
            }
        }
    }

    /// Gives up a barrier to which this rank has come, where ranks come again and again until somebody brings some bits: it
    /// comes until then too, and brings them itself. So all stay in step, whichever barrier they are at when they hear of it.
    pub fn give_up_gathering(&mut self, cell: u32, id: Id, until: u64) {
        match self.result_envelope(id) {
            Some(Ok(ended)) if ended.bytes & until == 0 => {
                if let Some(next) = self.gather(cell, until) {
                    self.abandon(next);
                }
            }
            Some(_) => {}
            None => {
                let queue = self.core.gatherings.get_mut(&cell).into_iter().flatten();
                queue.filter(|gathering| gathering.op == id).for_each(|gathering| gathering.until = until);
                self.abandon(id);
            }
        }
    }
}
