//! Large messages: one copy, from the sender's memory straight to the receiver's, and both ends at work on it.
//!
//! After the match the receiver opens a claim, invites the sender, and both copy chunks until none is left: the
//! receiver reads from the sender's memory, the sender writes to the receiver's. One core copies at half of what two do
//! (1 MiB: 14 against 28 GB/s), and a sender that is busy elsewhere just does not help.
//!
//! Neither side is told an address. The receiver finds the sender's memory by its key in the sender's
//! [`registry`](crate::registry), the sender the receiver's in the [`claim`](crate::claim) that it is invited to; both are
//! looked up and compared with what is to be copied before anything is.

use std::sync::Arc;

use treepie_base::Span;
use treepie_fabric::{Event, Invite, Refused};

use crate::arena::{Arena, CLAIMS};
use crate::claim::{Claim, Invitation};
use crate::reach::Reach;
use crate::registry::{Cell, Entry, NONE, Registry};

/// A quarter of the message, but not so little that the system call shows, nor so much that the other side waits long
/// for the last chunk.
fn chunk_bytes(len: usize) -> usize {
    (len / 4).next_multiple_of(4096).clamp(32 << 10, 256 << 10)
}

/// Chunks copied before records are looked at again: at most 16 MiB, a millisecond or two.
const CHUNKS_AT_ONCE: u32 = 64;

/// A transfer into this rank's memory.
struct Pull {
    peer: u32,
    slot: u32,
    span: Span,
    /// Where the sender's memory is registered.
    cell: &'static Cell,
    generation: u32,
    claims: Claims,
    /// Chunks that this rank took and could not copy.
    missed: u32,
    /// Whether the sender has taken its memory back.
    is_withdrawn: bool,
    /// Chunks that had been taken when the transfer was given up.
    given_up: Option<u32>,
}

/// A transfer out of this rank's memory, which the receiver has invited it to.
struct Help {
    peer: u32,
    slot: u32,
    span: Span,
    claim: &'static Claim,
    generation: u32,
    /// Where the receiver's memory begins, and how many chunks this rank may copy there.
    remote: u64,
    chunks: u32,
    /// Whether the receiver was seen to be gone before.
    peer_is_gone: bool,
}

/// Where a chunk of a message begins and how long it is.
fn extent(bytes: usize, chunk: u32) -> (usize, usize) {
    let first = chunk as usize * chunk_bytes(bytes);
    (first, chunk_bytes(bytes).min(bytes - first))
}

fn chunks(bytes: usize) -> u32 {
    bytes.div_ceil(chunk_bytes(bytes)) as u32
}

/// Who copies which chunk.
enum Claims {
    /// Both ends, as they claim them in this cell of the receiver's.
    Shared { claim: &'static Claim, cell: usize, generation: u32 },
    /// This rank, one after the other: all cells were in use.
    Alone { done: u32 },
}

impl Claims {
    fn take(&mut self, chunks: u32) -> Option<u32> {
        match self {
            Claims::Shared { claim, generation, .. } => claim.take(*generation, chunks),
            Claims::Alone { done } => (*done < chunks).then_some(*done),
        }
    }

    fn finish_one(&mut self) {
        match self {
            Claims::Shared { claim, .. } => claim.finish_one(),
            Claims::Alone { done } => *done += 1,
        }
    }

    fn finished(&self) -> u32 {
        match self {
            Claims::Shared { claim, .. } => claim.finished(),
            Claims::Alone { done } => *done,
        }
    }

    /// Lets nobody else take a chunk any more. Returns how many have been taken.
    fn close(&self, chunks: u32) -> u32 {
        match self {
            Claims::Shared { claim, .. } => claim.close(chunks),
            Claims::Alone { done } => *done,
        }
    }

    fn claimable(&self, chunks: u32) -> bool {
        match self {
            Claims::Shared { claim, generation, .. } => claim.claimable(*generation, chunks),
            Claims::Alone { done } => *done < chunks,
        }
    }
}

impl Pull {
    fn chunks(&self) -> u32 {
        chunks(self.span.len())
    }

    /// Copies a chunk that was taken, if the sender's memory is still what was offered.
    fn copy(&mut self, reach: &Reach, pid: i32, chunk: u32) {
        let copied = self.try_copy(reach, pid, chunk);
        // A process may have taken its memory back meanwhile: then who knows what was read. A thread waits until it is.
        let is_right = copied && matches!(reach, Reach::Thread);
        self.is_withdrawn = !(is_right || self.cell.is_open(self.generation));
        if copied && !self.is_withdrawn {
            self.claims.finish_one();
        } else {
            self.missed += 1;
        }
    }

    fn try_copy(&mut self, reach: &Reach, pid: i32, chunk: u32) -> bool {
        let (first, len) = extent(self.span.len(), chunk);
        let copying = match reach {
            Reach::Thread => self.cell.begin_copy(self.generation),
            _ => None,
        };
        let entry = match (&copying, reach) {
            (Some(copying), _) => Some(copying.entry),
            (None, Reach::Process(_)) => self.cell.look_up(self.generation),
            (None, _) => None,
        };
        let Some(entry) = entry.filter(|entry| (first + len) as u64 <= entry.len) else { return false };
        // SAFETY: the bytes lie inside of what a peer thread has registered for this rank, and that stays registered, so
        // that nobody writes or frees it, until `copying` is dropped. The chunk of the span was claimed by this rank.
        unsafe { reach.read(pid, entry.base + first as u64, &mut self.span, first, len) }
    }

    /// Whether nobody writes into the memory of a transfer that is given up.
    fn is_untouched(&mut self, reach: &Reach, peer_is_gone: bool) -> bool {
        let chunks = self.chunks();
        let taken = *self.given_up.get_or_insert_with(|| self.claims.close(chunks));
        // What was reported of a thread may be wrong, or too early; a process that was waited for is no more.
        let helper_is_gone = peer_is_gone && !matches!(reach, Reach::Thread);
        helper_is_gone || self.claims.finished() + self.missed >= taken
    }
}

/// The transfers that this rank takes part in.
pub(crate) struct Bulk {
    rank: u32,
    reach: Reach,
    registry: Registry,
    pulls: Vec<Pull>,
    helps: Vec<Help>,
    free_cells: Vec<usize>,
}

impl Bulk {
    pub(crate) fn new(arena: &Arc<Arena>, rank: u32) -> Self {
        Self {
            rank,
            reach: Reach::new(arena.has_threads()),
            registry: Registry::new(arena.clone(), rank),
            pulls: Vec::new(),
            helps: Vec::new(),
            free_cells: (0..CLAIMS).rev().collect(),
        }
    }

    /// Whether there are transfers to work on.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.pulls.is_empty() && self.helps.is_empty()
    }

    /// The key under which a peer may read the memory of a span.
    pub(crate) fn offer(&self, to: u32, span: &mut Span) -> u64 {
        if let Reach::Nowhere = self.reach { NONE } else { self.registry.register(to, span) }
    }

    /// Begins to receive. Gives the span back if the sender's memory cannot be reached.
    ///
    /// Also for 64 KiB, where the ring carries a stream of messages faster (8.7 against 7.2 GB/s) but a single one takes
    /// twice as long through it (9.3 against 4.7 us).
    pub(crate) fn pull(
        &mut self,
        arena: &Arena,
        from: u32,
        key: u64,
        slot: u32,
        span: Span,
    ) -> Result<Option<Invite>, Refused> {
        if key == NONE || matches!(self.reach, Reach::Nowhere) {
            return Err(Refused::not_here(span));
        }
        if !span.is_writable() {
            return Err(Refused::because(span, format!("what rank {from} offers is to go to memory for reading only")));
        }
        let (cell, generation, entry) = match self.registry.look_up(from, key, span.len()) {
            Ok(found) => found,
            Err(why) => return Err(Refused::because(span, why)),
        };
        // An empty message needs no reach, and its address none to be tried at.
        if !span.is_empty() && !self.reach.works(arena.pid(from), entry.base) {
            return Err(Refused::not_here(span));
        }
        // A single chunk is copied before an invitation would be read.
        let claim_cell = if chunks(span.len()) > 1 { self.free_cells.pop() } else { None };
        let (claims, invite) = match claim_cell {
            None => (Claims::Alone { done: 0 }, None),
            Some(cell) => {
                let claim = &arena.control(self.rank).claims[cell];
                let base = span.address().as_ptr().expose_provenance() as u64;
                let generation = claim.open(Entry { base, len: span.len() as u64, peer: from });
                let tag = u64::from(generation) << 32 | cell as u64;
                (Claims::Shared { claim, cell, generation }, Some([tag, 0, 0, 0]))
            }
        };
        self.pulls.push(Pull {
            peer: from,
            slot,
            span,
            cell,
            generation,
            claims,
            missed: 0,
            is_withdrawn: false,
            given_up: None,
        });
        Ok(invite)
    }

    /// Begins to help with a transfer that the receiver has invited this rank to.
    pub(crate) fn help(
        &mut self,
        arena: &Arena,
        to: u32,
        slot: u32,
        invite: Invite,
        span: Span,
    ) -> Result<(), Refused> {
        let (generation, cell) = ((invite[0] >> 32) as u32, invite[0] as u32 as usize);
        let claim = (to < arena.ranks()).then(|| arena.control(to).claims.get(cell)).flatten();
        let invitation = claim.map_or(Invitation::Unknown, |claim| claim.invited(generation));
        let (claim, remote, chunks) = match (claim, invitation) {
            // It is over, and its acknowledgement is on the way.
            (Some(claim), Invitation::Over) => (claim, 0, 0),
            (Some(claim), Invitation::Open(entry)) if (entry.peer, entry.len) == (self.rank, span.len() as u64) => {
                // A chunk that is claimed must be copied; so whoever cannot copy claims none, and only waits for the end.
                let able = self.reach.works(arena.pid(to), entry.base);
                (claim, entry.base, if able { chunks(span.len()) } else { 0 })
            }
            _ => {
                let (rank, len) = (self.rank, span.len());
                let why = format!("rank {to} has not invited rank {rank} to write {len} bytes by {:#x}", invite[0]);
                return Err(Refused::because(span, why));
            }
        };
        self.helps.push(Help { peer: to, slot, span, claim, generation, remote, chunks, peer_is_gone: false });
        Ok(())
    }

    /// The peer has acknowledged this rank's operation `slot`: gives its memory back if this rank was helping.
    pub(crate) fn acknowledged(&mut self, slot: u32) -> Option<Span> {
        let i = self.helps.iter().position(|help| help.slot == slot)?;
        Some(self.helps.swap_remove(i).span)
    }

    /// Copies chunks, for this rank's own sake or a peer's, and reports what has ended. The oldest transfer first, and
    /// as far as it goes: it is the one that somebody waits for. `all_read`: this rank has just read all records and
    /// acknowledgements.
    pub(crate) fn work(&mut self, arena: &Arena, all_read: bool) -> Option<Event<'static>> {
        let mut left = CHUNKS_AT_ONCE;
        for i in 0..self.pulls.len() {
            let pull = &mut self.pulls[i];
            while left > 0
                && pull.missed == 0
                && let Some(chunk) = pull.claims.take(pull.chunks())
            {
                left -= 1;
                pull.copy(&self.reach, arena.pid(pull.peer), chunk);
            }
            if pull.claims.finished() == pull.chunks() {
                let pull = self.end(i);
                return Some(Event::BulkReceived { slot: pull.slot, span: pull.span, tell_sender: true });
            }
            // The sender is gone, or has taken its memory back, and may be in the middle of a chunk of its own. One whose
            // memory cannot be read is going, and whoever waits for it is told by those who know how it ended.
            let is_gone = arena.is_gone(pull.peer);
            if (is_gone || pull.is_withdrawn) && pull.is_untouched(&self.reach, is_gone) {
                let pull = self.end(i);
                return Some(Event::BulkFailed { slot: pull.slot, span: pull.span, sending: false });
            }
        }
        for i in 0..self.helps.len() {
            let help = &mut self.helps[i];
            while left > 0
                && let Some(chunk) = help.claim.take(help.generation, help.chunks)
            {
                left -= 1;
                let (first, len) = extent(help.span.len(), chunk);
                let from = &help.span.as_slice()[first..first + len];
                // SAFETY: the receiver set this chunk aside for whoever takes it, which is this rank (it was invited, and
                // the lengths agree), and keeps its memory until the chunk is finished.
                let written = unsafe { self.reach.write(arena.pid(help.peer), help.remote + first as u64, from) };
                // A receiver that lives can be written to: that was tried before any chunk was taken.
                if written {
                    help.claim.finish_one();
                    arena.control(help.peer).bell.ring();
                }
            }
            // A receiver acknowledges before it leaves, and may have done both since this rank looked: so its acknowledgement is
            // looked for once more after it was seen to be gone.
            if std::mem::replace(&mut help.peer_is_gone, arena.is_gone(help.peer)) && all_read {
                let help = self.helps.swap_remove(i);
                return Some(Event::BulkFailed { slot: help.slot, span: help.span, sending: true });
            }
        }
        None
    }

    fn end(&mut self, i: usize) -> Pull {
        let pull = self.pulls.remove(i);
        pull.claims.close(pull.chunks());
        if let Claims::Shared { cell, .. } = pull.claims {
            self.free_cells.push(cell);
        }
        pull
    }

    /// Whether `work` would find something to do.
    pub(crate) fn has_work(&self, arena: &Arena) -> bool {
        let has_work = |p: &Pull| {
            let finished = p.claims.finished();
            let is_untouched = p.given_up.is_some_and(|taken| finished + p.missed >= taken);
            let may_go_on = p.missed == 0 && p.given_up.is_none() && p.claims.claimable(p.chunks());
            may_go_on || finished == p.chunks() || is_untouched || arena.is_gone(p.peer)
        };
        self.pulls.iter().any(has_work)
            || self.helps.iter().any(|p| p.claim.claimable(p.generation, p.chunks) || arena.is_gone(p.peer))
    }
}

impl Drop for Bulk {
    /// A peer may be writing to, or reading, memory of a transfer in flight. An endpoint ends them all before it drops its engine;
    /// if it could not (a panic), the memory is kept for ever rather than given back too early.
    fn drop(&mut self) {
        self.pulls.drain(..).for_each(|pull| std::mem::forget(pull.span));
        self.helps.drain(..).for_each(|help| std::mem::forget(help.span));
    }
}
