//! Nonblocking barriers over all ranks on counters of the engine. Each barrier also combines bits of all ranks by OR.
//!
//! Barriers of a cell are numbered: the n-th call of each rank belongs to barrier n. The invariant, for any number of
//! calls and any lost ranks: *barrier n succeeds on a rank only if every rank has arrived at it*. Two rules ensure it.
//! A rank arrives at barrier n + 1 only after barrier n has succeeded locally, so the sum of arrivals is unambiguous.
//! And a lost rank never arrives again: each barrier beyond its last arrival has failed on all ranks, and a call to it
//! fails at once without arriving.

use treepie_base::Error;

use crate::endpoint::Endpoint;
use crate::endpoint_state::{Action, EndpointState, PendingBarrier};
use crate::op::{Envelope, Op, OpKind};
use crate::slab::OpId;

impl EndpointState {
    /// Completes a barrier at which every rank has arrived, with the OR of all bits. Arrives at the next queued one.
    pub(crate) fn complete_barrier(&mut self, cell: u32, bits: u64) {
        let queue = self.barriers.entry(cell).or_default();
        let mut first = queue.pop_front();
        if let Some(PendingBarrier { op, repeat_until, .. }) = first
            && repeat_until != 0
            && bits & repeat_until == 0
        {
            queue.push_front(PendingBarrier { op, bits: repeat_until, repeat_until });
            first = None;
        }
        if let Some(next) = queue.front() {
            self.actions.push(Action::Arrive { cell, bits: next.bits });
        }
        if let Some(PendingBarrier { op, .. }) = first {
            self.complete(op, Envelope { bytes: bits, ..Envelope::default() });
        }
    }
}

impl Endpoint {
    /// Whether a barrier of the cell is pending.
    #[inline]
    pub fn has_barrier(&self, cell: u32) -> bool {
        self.state.barriers.get(&cell).is_some_and(|queue| !queue.is_empty())
    }

    /// Starts a barrier over all ranks of the world on a shared counter; nothing if the engine has none. Each rank
    /// contributes bits. On completion, `bytes` of the envelope is the OR of all of them.
    pub fn ibarrier(&mut self, cell: u32, bits: u64) -> Option<OpId> {
        if let Some(rank) = self.missing_at_next_barrier(cell) {
            let id = self.state.ops.insert(Op::local(OpKind::Barrier));
            self.state.fail(id, Error::PeerLost { rank: rank as usize });
            return Some(id);
        }
        // A rank arrives at one barrier at a time; the next one starts when this one has completed.
        if !self.has_barrier(cell) && !self.fabric.arrive(cell, bits) {
            return None;
        }
        let id = self.state.ops.insert(Op::local(OpKind::Barrier));
        self.state.barriers.entry(cell).or_default().push_back(PendingBarrier { op: id, bits, repeat_until: 0 });
        Some(id)
    }

    /// The first lost rank that will not arrive at the barrier of the next call, if any.
    pub fn missing_at_next_barrier(&self, cell: u32) -> Option<u32> {
        if self.state.liveness.all_alive() { None } else { self.first_missing(cell, self.next_barrier(cell)) }
    }

    /// The number of the barrier of the next call. This rank has arrived at the first pending one.
    fn next_barrier(&self, cell: u32) -> u64 {
        let pending = self.state.barriers.get(&cell).map_or(0, |queue| queue.len()) as u64;
        self.fabric.arrivals(self.state.rank, cell) + pending.max(1)
    }

    /// The first lost rank that has not arrived at a barrier, which therefore never completes.
    fn first_missing(&self, cell: u32, barrier: u64) -> Option<u32> {
        let liveness = &self.state.liveness;
        (0..self.size()).find(|rank| liveness.is_lost(*rank) && self.fabric.arrivals(*rank, cell) < barrier)
    }

    /// Fails the pending barriers at which a lost rank has not arrived.
    pub(crate) fn fail_barriers(&mut self) {
        for cell in self.state.barriers.keys().copied().collect::<Vec<_>>() {
            let first = self.fabric.arrivals(self.state.rank, cell);
            let pending = self.state.barriers[&cell].len();
            let broken = (0..pending).find_map(|i| Some((i, self.first_missing(cell, first + i as u64)?)));
            let Some((succeeding, rank)) = broken else { continue };
            let queue = self.state.barriers.get_mut(&cell).expect("just found");
            for PendingBarrier { op, .. } in queue.split_off(succeeding) {
                self.state.fail(op, Error::PeerLost { rank: rank as usize });
            }
        }
    }

    /// Aborts a barrier at which this rank has arrived. Ranks keep arriving until a barrier completes with a bit of
    /// `until` set; this rank does so in the background and contributes these bits. So all ranks stay in step,
    /// whichever barrier they are in when they notice the abort.
    pub fn abort_barrier(&mut self, cell: u32, id: OpId, until: u64) {
        match self.take_envelope(id) {
            Some(Ok(envelope)) if envelope.bytes & until == 0 => {
                if let Some(next) = self.ibarrier(cell, until) {
                    self.abandon(next);
                }
            }
            Some(_) => {}
            None => {
                let queue = self.state.barriers.get_mut(&cell).into_iter().flatten();
                queue.filter(|barrier| barrier.op == id).for_each(|barrier| barrier.repeat_until = until);
                self.abandon(id);
            }
        }
    }
}
