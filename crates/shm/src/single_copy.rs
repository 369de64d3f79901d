//! Large messages: a single copy from the sender's memory to the receiver's, made by both ends.
//!
//! After the match the receiver opens a claim and sends a CTS, and both ends copy chunks until none is left: the
//! receiver reads from the sender's memory, the sender writes to the receiver's. One core copies at half the rate of
//! two (1 MiB: 14 against 28 GB/s), and a sender that is busy elsewhere just claims no chunks.
//!
//! Neither side receives an address. The receiver finds the sender's memory by its key in the sender's
//! [`registry`](crate::registry), the sender finds the receiver's in the [`claim`](crate::claim) of the CTS. Both look
//! up the region and check it against the transfer before they copy.

use std::sync::Arc;

use treepie_base::Span;
use treepie_fabric::{BulkDescriptor, BulkError, FabricEvent};

use crate::arena::{Arena, MAX_CLAIMS};
use crate::claim::{Claim, CtsState};
use crate::peer_access::PeerAccess;
use crate::registry::{MemoryRegion, NO_KEY, RegistrationCell, Registry};

/// A quarter of the message, but not so little that the system call shows, nor so much that the other side waits long
/// for the last chunk.
fn chunk_bytes(len: usize) -> usize {
    (len / 4).next_multiple_of(4096).clamp(32 << 10, 256 << 10)
}

/// Chunks copied between two polls for records: at most 16 MiB, a millisecond or two.
const MAX_CHUNKS_PER_POLL: u32 = 64;

/// A transfer into this rank's memory.
struct Pull {
    peer: u32,
    slot: u32,
    span: Span,
    /// Where the sender's memory is registered.
    cell: &'static RegistrationCell,
    generation: u32,
    chunk_claims: ChunkClaims,
    /// Chunks that this rank claimed and could not copy.
    failed_chunks: u32,
    /// Whether the sender has deregistered its memory.
    is_deregistered: bool,
    /// Chunks that had been claimed when the transfer was aborted.
    claimed_at_abort: Option<u32>,
}

/// A transfer out of this rank's memory for which the receiver has sent a CTS.
struct Push {
    peer: u32,
    slot: u32,
    span: Span,
    claim: &'static Claim,
    generation: u32,
    /// Address of the receiver's memory, and the number of chunks that this rank may copy there.
    remote_base: u64,
    chunks: u32,
    /// Whether the last poll found the receiver gone.
    peer_is_gone: bool,
}

/// Offset and length of a chunk of a message.
fn chunk_range(bytes: usize, chunk: u32) -> (usize, usize) {
    let first = chunk as usize * chunk_bytes(bytes);
    (first, chunk_bytes(bytes).min(bytes - first))
}

fn num_chunks(bytes: usize) -> u32 {
    bytes.div_ceil(chunk_bytes(bytes)) as u32
}

/// The assignment of chunks to the two ends.
enum ChunkClaims {
    /// Both ends claim chunks in this cell of the receiver's.
    Shared { claim: &'static Claim, cell: usize, generation: u32 },
    /// This rank copies all chunks: every claim cell was in use.
    Alone { done: u32 },
}

impl ChunkClaims {
    fn claim_next(&mut self, chunks: u32) -> Option<u32> {
        match self {
            ChunkClaims::Shared { claim, generation, .. } => claim.claim_next(*generation, chunks),
            ChunkClaims::Alone { done } => (*done < chunks).then_some(*done),
        }
    }

    fn complete_chunk(&mut self) {
        match self {
            ChunkClaims::Shared { claim, .. } => claim.complete_chunk(),
            ChunkClaims::Alone { done } => *done += 1,
        }
    }

    fn completed_chunks(&self) -> u32 {
        match self {
            ChunkClaims::Shared { claim, .. } => claim.completed_chunks(),
            ChunkClaims::Alone { done } => *done,
        }
    }

    /// Stops further claims. Returns the number of claimed chunks.
    fn close(&self, chunks: u32) -> u32 {
        match self {
            ChunkClaims::Shared { claim, .. } => claim.close(chunks),
            ChunkClaims::Alone { done } => *done,
        }
    }

    fn has_unclaimed(&self, chunks: u32) -> bool {
        match self {
            ChunkClaims::Shared { claim, generation, .. } => claim.has_unclaimed(*generation, chunks),
            ChunkClaims::Alone { done } => *done < chunks,
        }
    }
}

impl Pull {
    fn num_chunks(&self) -> u32 {
        num_chunks(self.span.len())
    }

    /// Copies a claimed chunk, if the sender's memory is still registered.
    fn copy(&mut self, peer_access: &PeerAccess, pid: i32, chunk: u32) {
        let copied = self.try_copy(peer_access, pid, chunk);
        // A process may have deregistered its memory meanwhile, so the data may be wrong. A thread waits for the copy.
        let is_right = copied && matches!(peer_access, PeerAccess::SharedAddressSpace);
        self.is_deregistered = !(is_right || self.cell.is_open(self.generation));
        if copied && !self.is_deregistered {
            self.chunk_claims.complete_chunk();
        } else {
            self.failed_chunks += 1;
        }
    }

    fn try_copy(&mut self, peer_access: &PeerAccess, pid: i32, chunk: u32) -> bool {
        let (first, len) = chunk_range(self.span.len(), chunk);
        let copying = match peer_access {
            PeerAccess::SharedAddressSpace => self.cell.begin_copy(self.generation),
            _ => None,
        };
        let entry = match (&copying, peer_access) {
            (Some(copying), _) => Some(copying.entry),
            (None, PeerAccess::Cma(_)) => self.cell.look_up(self.generation),
            (None, _) => None,
        };
        let Some(entry) = entry.filter(|entry| (first + len) as u64 <= entry.len) else { return false };
        // SAFETY: the bytes lie inside the region that a peer thread has registered for this rank, and that stays
        // registered, so that nobody writes or frees it, until `copying` is dropped. This rank has claimed the chunk of
        // the span.
        unsafe { peer_access.read(pid, entry.base + first as u64, &mut self.span, first, len) }
    }

    /// Whether nobody writes to the memory of an aborted transfer.
    fn is_quiescent(&mut self, peer_access: &PeerAccess, peer_is_gone: bool) -> bool {
        let chunks = self.num_chunks();
        let claimed = *self.claimed_at_abort.get_or_insert_with(|| self.chunk_claims.close(chunks));
        // A report about a thread may be wrong or early; a process that was waited for no longer exists.
        let sender_is_gone = peer_is_gone && !matches!(peer_access, PeerAccess::SharedAddressSpace);
        sender_is_gone || self.chunk_claims.completed_chunks() + self.failed_chunks >= claimed
    }
}

/// The transfers that this rank takes part in.
pub(crate) struct SingleCopy {
    rank: u32,
    peer_access: PeerAccess,
    registry: Registry,
    pulls: Vec<Pull>,
    pushes: Vec<Push>,
    free_claims: Vec<usize>,
}

impl SingleCopy {
    pub(crate) fn new(arena: &Arc<Arena>, rank: u32) -> Self {
        Self {
            rank,
            peer_access: PeerAccess::new(arena.has_threads()),
            registry: Registry::new(arena.clone(), rank),
            pulls: Vec::new(),
            pushes: Vec::new(),
            free_claims: (0..MAX_CLAIMS).rev().collect(),
        }
    }

    /// Whether there are transfers to work on.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.pulls.is_empty() && self.pushes.is_empty()
    }

    /// Registers a span for a peer and returns the key.
    pub(crate) fn register_send(&self, to: u32, span: &mut Span) -> u64 {
        if let PeerAccess::Unavailable = self.peer_access { NO_KEY } else { self.registry.register(to, span) }
    }

    /// Begins to receive. Returns the span if the sender's memory cannot be accessed.
    ///
    /// Also for 64 KiB, where the ring carries a stream of messages faster (8.7 against 7.2 GB/s) but a single one
    /// takes twice as long through it (9.3 against 4.7 us).
    pub(crate) fn pull(
        &mut self,
        arena: &Arena,
        from: u32,
        key: u64,
        slot: u32,
        span: Span,
    ) -> Result<Option<BulkDescriptor>, BulkError> {
        if key == NO_KEY || matches!(self.peer_access, PeerAccess::Unavailable) {
            return Err(BulkError::unsupported(span));
        }
        if !span.is_writable() {
            return Err(BulkError::invalid(
                span,
                format!("the receive buffer for the message of rank {from} is read-only"),
            ));
        }
        let (cell, generation, entry) = match self.registry.look_up(from, key, span.len()) {
            Ok(found) => found,
            Err(why) => return Err(BulkError::invalid(span, why)),
        };
        // An empty message needs no access, and has no address to test it at.
        if !span.is_empty() && !self.peer_access.is_available(arena.pid(from), entry.base) {
            return Err(BulkError::unsupported(span));
        }
        // A single chunk is copied before a CTS would be read.
        let claim_cell = if num_chunks(span.len()) > 1 { self.free_claims.pop() } else { None };
        let (chunk_claims, cts) = match claim_cell {
            None => (ChunkClaims::Alone { done: 0 }, None),
            Some(cell) => {
                let claim = &arena.control(self.rank).claims[cell];
                let base = span.address().as_ptr().expose_provenance() as u64;
                let generation = claim.open(MemoryRegion { base, len: span.len() as u64, peer: from });
                let tag = u64::from(generation) << 32 | cell as u64;
                (ChunkClaims::Shared { claim, cell, generation }, Some([tag, 0, 0, 0]))
            }
        };
        self.pulls.push(Pull {
            peer: from,
            slot,
            span,
            cell,
            generation,
            chunk_claims,
            failed_chunks: 0,
            is_deregistered: false,
            claimed_at_abort: None,
        });
        Ok(cts)
    }

    /// Begins to push chunks of a transfer for which the receiver has sent a CTS.
    pub(crate) fn push(
        &mut self,
        arena: &Arena,
        to: u32,
        slot: u32,
        cts: BulkDescriptor,
        span: Span,
    ) -> Result<(), BulkError> {
        let (generation, cell) = ((cts[0] >> 32) as u32, cts[0] as u32 as usize);
        let claim = (to < arena.ranks()).then(|| arena.control(to).claims.get(cell)).flatten();
        let cts_state = claim.map_or(CtsState::Unknown, |claim| claim.cts_state(generation));
        let (claim, remote_base, chunks) = match (claim, cts_state) {
            // It is finished, and its acknowledgement is on the way.
            (Some(claim), CtsState::Finished) => (claim, 0, 0),
            (Some(claim), CtsState::Open(entry)) if (entry.peer, entry.len) == (self.rank, span.len() as u64) => {
                // A claimed chunk must be copied; so a rank that cannot copy claims none and only waits for completion.
                let able = self.peer_access.is_available(arena.pid(to), entry.base);
                (claim, entry.base, if able { num_chunks(span.len()) } else { 0 })
            }
            _ => {
                let (rank, len) = (self.rank, span.len());
                let why = format!("rank {to} has sent rank {rank} no CTS {:#x} for {len} bytes", cts[0]);
                return Err(BulkError::invalid(span, why));
            }
        };
        self.pushes.push(Push { peer: to, slot, span, claim, generation, remote_base, chunks, peer_is_gone: false });
        Ok(())
    }

    /// The peer has acknowledged this rank's operation `slot`: returns its span if this rank was pushing.
    pub(crate) fn complete_push(&mut self, slot: u32) -> Option<Span> {
        let i = self.pushes.iter().position(|push| push.slot == slot)?;
        Some(self.pushes.swap_remove(i).span)
    }

    /// Copies chunks of this rank's transfers and reports completions. The oldest transfer first, and as far as
    /// possible: it is the one that a rank waits for. `all_read`: this rank has just read all records and
    /// acknowledgements.
    pub(crate) fn progress(&mut self, arena: &Arena, all_read: bool) -> Option<FabricEvent<'static>> {
        let mut budget = MAX_CHUNKS_PER_POLL;
        for i in 0..self.pulls.len() {
            let pull = &mut self.pulls[i];
            while budget > 0
                && pull.failed_chunks == 0
                && let Some(chunk) = pull.chunk_claims.claim_next(pull.num_chunks())
            {
                budget -= 1;
                pull.copy(&self.peer_access, arena.pid(pull.peer), chunk);
            }
            if pull.chunk_claims.completed_chunks() == pull.num_chunks() {
                let pull = self.finish_pull(i);
                return Some(FabricEvent::BulkReceived { slot: pull.slot, span: pull.span, tell_sender: true });
            }
            // The sender is gone, or has deregistered its memory, and may still be copying a chunk. A sender whose
            // memory cannot be read is ending; failure detection reports how.
            let is_gone = arena.is_gone(pull.peer);
            if (is_gone || pull.is_deregistered) && pull.is_quiescent(&self.peer_access, is_gone) {
                let pull = self.finish_pull(i);
                return Some(FabricEvent::BulkFailed { slot: pull.slot, span: pull.span, sending: false });
            }
        }
        for i in 0..self.pushes.len() {
            let push = &mut self.pushes[i];
            while budget > 0
                && let Some(chunk) = push.claim.claim_next(push.generation, push.chunks)
            {
                budget -= 1;
                let (first, len) = chunk_range(push.span.len(), chunk);
                let from = &push.span.as_slice()[first..first + len];
                // SAFETY: the receiver reserves this chunk for the rank that claims it, which is this one (it has the
                // CTS, and the lengths agree), and keeps its memory until the chunk is completed.
                let written =
                    unsafe { self.peer_access.write(arena.pid(push.peer), push.remote_base + first as u64, from) };
                // A receiver that is alive can be written to: that was tested before any chunk was claimed.
                if written {
                    push.claim.complete_chunk();
                    arena.control(push.peer).doorbell.notify();
                }
            }
            // A receiver acknowledges before it finalizes, and may have done both since this rank polled: so this rank
            // polls for the acknowledgement once more after it has seen the receiver gone.
            if std::mem::replace(&mut push.peer_is_gone, arena.is_gone(push.peer)) && all_read {
                let push = self.pushes.swap_remove(i);
                return Some(FabricEvent::BulkFailed { slot: push.slot, span: push.span, sending: true });
            }
        }
        None
    }

    fn finish_pull(&mut self, i: usize) -> Pull {
        let pull = self.pulls.remove(i);
        pull.chunk_claims.close(pull.num_chunks());
        if let ChunkClaims::Shared { cell, .. } = pull.chunk_claims {
            self.free_claims.push(cell);
        }
        pull
    }

    /// Whether `progress` would find something to do.
    pub(crate) fn can_progress(&self, arena: &Arena) -> bool {
        let has_work = |p: &Pull| {
            let completed = p.chunk_claims.completed_chunks();
            let is_quiescent = p.claimed_at_abort.is_some_and(|claimed| completed + p.failed_chunks >= claimed);
            let can_claim =
                p.failed_chunks == 0 && p.claimed_at_abort.is_none() && p.chunk_claims.has_unclaimed(p.num_chunks());
            can_claim || completed == p.num_chunks() || is_quiescent || arena.is_gone(p.peer)
        };
        self.pulls.iter().any(has_work)
            || self.pushes.iter().any(|p| p.claim.has_unclaimed(p.generation, p.chunks) || arena.is_gone(p.peer))
    }
}

impl Drop for SingleCopy {
    /// A peer may be writing to, or reading, memory of a transfer in flight. An endpoint completes them all before it
    /// drops its engine; if it could not (a panic), the memory is leaked rather than freed too early.
    fn drop(&mut self) {
        self.pulls.drain(..).for_each(|pull| std::mem::forget(pull.span));
        self.pushes.drain(..).for_each(|push| std::mem::forget(push.span));
    }
}
