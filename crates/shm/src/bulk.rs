//! Large messages: one copy, from the sender's memory straight to the receiver's, and both ends at work on it.
//!
//! After the match the receiver opens a claim, invites the sender, and both copy chunks until none is left: the
//! receiver reads from the sender's memory, the sender writes to the receiver's. One core copies at half of what two do
//! (1 MiB: 14 against 28 GB/s), and a sender that is busy elsewhere just does not help.

use treepie_base::Span;
use treepie_fabric::{Event, Invite};

use crate::arena::{Arena, CLAIMS};
use crate::claim::Claim;
use crate::reach::Reach;

/// A quarter of the message, but not so little that the system call shows, nor so much that the other side waits long
/// for the last chunk.
fn chunk_bytes(len: usize) -> usize {
    (len / 4).next_multiple_of(4096).clamp(32 << 10, 256 << 10)
}

/// One transfer, from the view of one of its ends.
struct Part {
    peer: u32,
    slot: u32,
    span: Span,
    remote: u64,
    claim: &'static Claim,
    cell: usize,
    generation: u32,
    chunk: usize,
    chunks: u32,
}

impl Part {
    /// Where a chunk begins and how long it is.
    fn extent(&self, chunk: u32) -> (usize, usize) {
        let first = chunk as usize * self.chunk;
        (first, self.chunk.min(self.span.len() - first))
    }
}

/// The transfers that this rank takes part in.
pub(crate) struct Bulk {
    rank: u32,
    reach: Reach,
    pulls: Vec<Part>,
    helps: Vec<Part>,
    free_cells: Vec<usize>,
}

impl Bulk {
    pub(crate) fn new(rank: u32, reach: Reach) -> Self {
        Self { rank, reach, pulls: Vec::new(), helps: Vec::new(), free_cells: (0..CLAIMS).rev().collect() }
    }

    /// Whether there are transfers to work on.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.pulls.is_empty() && self.helps.is_empty()
    }

    /// Begins to receive. Gives the span back if the sender's memory cannot be reached, or all claims are in use.
    pub(crate) fn pull(
        &mut self,
        arena: &Arena,
        from: u32,
        remote: u64,
        slot: u32,
        span: Span,
    ) -> Result<Option<Invite>, Span> {
        let pid = arena.pid(from);
        if self.free_cells.is_empty() || !self.reach.works(pid, remote) {
            return Err(span);
        }
        let cell = self.free_cells.pop().expect("tested above");
        let claim = &arena.control(self.rank).claims[cell];
        let chunk = chunk_bytes(span.len());
        let chunks = span.len().div_ceil(chunk) as u32;
        let generation = claim.open();
        let invite =
            [u64::from(generation) << 32 | cell as u64, span.address().as_ptr() as u64, chunk as u64, chunks.into()];
        self.pulls.push(Part { peer: from, slot, span, remote, claim, cell, generation, chunk, chunks });
        Ok((chunks > 1).then_some(invite))
    }

    /// Begins to help with a transfer that the receiver has invited this rank to.
    pub(crate) fn help(&mut self, arena: &Arena, to: u32, slot: u32, invite: Invite, span: Span) {
        let [tag, remote, chunk, chunks] = invite;
        let (generation, cell) = ((tag >> 32) as u32, tag as u32 as usize);
        let claim = &arena.control(to).claims[cell];
        // A chunk that is claimed must be copied; so whoever cannot copy claims none, and only waits for the end.
        let able = self.reach.works(arena.pid(to), remote);
        let (chunk, chunks) = (chunk as usize, if able { chunks as u32 } else { 0 });
        self.helps.push(Part { peer: to, slot, span, remote, claim, cell, generation, chunk, chunks });
    }

    /// The peer has acknowledged this rank's operation `slot`: gives its memory back if this rank was helping.
    pub(crate) fn acknowledged(&mut self, slot: u32) -> Option<Span> {
        let i = self.helps.iter().position(|help| help.slot == slot)?;
        Some(self.helps.swap_remove(i).span)
    }

    /// Copies a chunk for this rank's own sake or a peer's, or reports what has ended.
    pub(crate) fn work(&mut self, arena: &Arena) -> Option<Event<'static>> {
        for i in 0..self.pulls.len() {
            let pull = &mut self.pulls[i];
            if let Some(chunk) = pull.claim.take(pull.generation, pull.chunks) {
                let (first, len) = pull.extent(chunk);
                let into = &mut pull.span.as_mut_slice()[first..first + len];
                if !self.reach.read(arena.pid(pull.peer), pull.remote + first as u64, into) {
                    return Some(self.failed(i));
                }
                pull.claim.finish_one();
            }
            if self.pulls[i].claim.finished() == self.pulls[i].chunks {
                // In order of arrival: the oldest transfer is the one somebody waits for.
                let pull = self.pulls.remove(i);
                self.free_cells.push(pull.cell);
                return Some(Event::BulkReceived { slot: pull.slot, span: pull.span, tell_sender: true });
            }
            if arena.is_gone(self.pulls[i].peer) {
                return Some(self.failed(i));
            }
        }
        for i in 0..self.helps.len() {
            let help = &self.helps[i];
            if let Some(chunk) = help.claim.take(help.generation, help.chunks) {
                let (first, len) = help.extent(chunk);
                let from = &help.span.as_slice()[first..first + len];
                // If the receiver is gone, its loss is noticed below.
                if self.reach.write(arena.pid(help.peer), help.remote + first as u64, from) {
                    help.claim.finish_one();
                    arena.control(help.peer).bell.ring();
                }
                return None;
            }
            if arena.is_gone(help.peer) {
                let help = self.helps.swap_remove(i);
                return Some(Event::BulkFailed { slot: help.slot, span: help.span, sending: true });
            }
        }
        None
    }

    /// Ends a transfer whose sender is gone: nobody but this rank touches the memory any more.
    fn failed(&mut self, i: usize) -> Event<'static> {
        let pull = self.pulls.remove(i);
        self.free_cells.push(pull.cell);
        Event::BulkFailed { slot: pull.slot, span: pull.span, sending: false }
    }

    /// Whether `work` would find something to do.
    pub(crate) fn has_work(&self, arena: &Arena) -> bool {
        let claimable = |p: &Part| p.claim.claimable(p.generation, p.chunks);
        self.pulls.iter().any(|p| claimable(p) || p.claim.finished() == p.chunks || arena.is_gone(p.peer))
            || self.helps.iter().any(|p| claimable(p) || arena.is_gone(p.peer))
    }
}

impl Drop for Bulk {
    /// A peer may be writing to memory of a transfer in flight. An endpoint ends them all before it drops its engine;
    /// if it could not (a panic), the memory is kept for ever rather than given back too early.
    fn drop(&mut self) {
        for part in self.pulls.drain(..) {
            std::mem::forget(part.span);
        }
    }
}
