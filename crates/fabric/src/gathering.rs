//! Barriers of all ranks on counters of the engine's, each with some bits that ranks bring along.

use std::collections::{HashMap, VecDeque};

use treepie_base::BuildNumberHasher;

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
        // A rank arrives once at a time; the next barrier begins when this one has ended.
        if !self.is_gathering(cell) && !self.fabric.arrive(cell, census) {
            return None;
        }
        let id = self.core.ops.insert(Op::other(What::Gather));
        self.core.gatherings.entry(cell).or_default().push_back(Gathering { op: id, census, until: 0 });
        self.fail_if_hopeless(id);
        Some(id)
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
