//! The queue of outgoing records: each is copied, so that its sender need not wait for MPI.
//!
//! Most sends are complete when MPI returns and reuse one buffer. The others wait here; a rank that does not receive
//! can occupy only a part of the buffers, and the rest is left for others.

use std::ptr::NonNull;

use treepie_fabric::RecordHeader;

use crate::record::{MAX_BODY, MAX_RECORD, RECORD_TAG, RecordBuffers};
use crate::shim::{MpiRequest, Shim};

const BUFFERS: u8 = 64;

/// The most buffers with pending sends to one rank.
const MAX_PENDING_PER_RANK: u8 = BUFFERS / 4;

pub(crate) struct MpiSendQueue {
    buffers: RecordBuffers,
    free: Vec<u8>,
    /// Incomplete sends, and their buffers: two lists in the same order, because MPI takes an array of requests.
    requests: Vec<MpiRequest>,
    pending: Vec<PendingSend>,
    /// By rank, the number of its pending sends.
    pending_per_rank: Vec<u8>,
}

struct PendingSend {
    buffer: u8,
    to: u32,
}

impl MpiSendQueue {
    pub(crate) fn new(ranks: u32) -> Self {
        Self {
            buffers: RecordBuffers::new(BUFFERS.into()),
            free: (0..BUFFERS).rev().collect(),
            requests: Vec::with_capacity(BUFFERS.into()),
            pending: Vec::with_capacity(BUFFERS.into()),
            pending_per_rank: vec![0; ranks as usize],
        }
    }

    /// Sends a record; false if there is no buffer for it.
    pub(crate) fn try_send(&mut self, shim: &Shim, to: u32, head: RecordHeader, body: &[u8]) -> bool {
        assert!(body.len() <= MAX_BODY, "a record's body of {} bytes is too long", body.len());
        if self.is_full(to) {
            self.reap(shim);
            if self.is_full(to) {
                return false;
            }
        }
        let Some(buffer) = self.free.pop() else { return false };
        let record = self.buffers.buffer(buffer.into());
        debug_assert!(size_of::<RecordHeader>() + body.len() <= MAX_RECORD);
        // SAFETY: the buffer is free, so neither MPI nor anybody else uses it; it is aligned for a header and holds the
        // longest body, as was asserted.
        unsafe {
            record.cast::<RecordHeader>().write(head);
            record.add(size_of::<RecordHeader>()).copy_from_nonoverlapping(NonNull::from(body).cast(), body.len());
        }
        // SAFETY: buffers live for ever, and this one is not written before its send is complete.
        match unsafe { shim.isend(record.as_ptr(), size_of::<RecordHeader>() + body.len(), to, RECORD_TAG) } {
            None => self.free.push(buffer),
            Some(request) => {
                self.requests.push(request);
                self.pending.push(PendingSend { buffer, to });
                self.pending_per_rank[to as usize] += 1;
            }
        }
        true
    }

    fn is_full(&self, to: u32) -> bool {
        self.free.is_empty() || self.pending_per_rank[to as usize] >= MAX_PENDING_PER_RANK
    }

    /// Frees the buffers of completed sends.
    #[inline]
    pub(crate) fn reap(&mut self, shim: &Shim) {
        while let Some(index) = shim.test_any(&self.requests) {
            self.requests.swap_remove(index);
            let send = self.pending.swap_remove(index);
            self.free.push(send.buffer);
            self.pending_per_rank[send.to as usize] -= 1;
        }
    }

    /// Whether all sends are complete.
    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }
}
