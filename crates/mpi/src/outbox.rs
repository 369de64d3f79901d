//! Records on their way out: each is copied, so that its sender need not wait for MPI.
//!
//! Most sends are done when MPI returns and use one buffer again and again. The others wait here; when one rank takes
//! no records, it can hold only a part of the buffers, and the rest is left for those who do.

use std::ptr::NonNull;

use treepie_fabric::Head;

use crate::record::{Buffers, LONGEST, MAX_BODY, TAG};
use crate::shim::{Request, Shim};

const BUFFERS: u8 = 64;

/// Buffers that wait for one rank, at most.
const PER_RANK: u8 = BUFFERS / 4;

pub(crate) struct Outbox {
    buffers: Buffers,
    free: Vec<u8>,
    /// Sends that are not done, and what they hold: two lists in the same order, because MPI wants the first alone.
    requests: Vec<Request>,
    held: Vec<Held>,
    /// By rank, how many buffers wait for it.
    waiting: Vec<u8>,
}

struct Held {
    buffer: u8,
    to: u32,
}

impl Outbox {
    pub(crate) fn new(ranks: u32) -> Self {
        Self {
            buffers: Buffers::new(BUFFERS.into()),
            free: (0..BUFFERS).rev().collect(),
            requests: Vec::with_capacity(BUFFERS.into()),
            held: Vec::with_capacity(BUFFERS.into()),
            waiting: vec![0; ranks as usize],
        }
    }

    /// Sends a record, unless there is no room for it.
    pub(crate) fn try_send(&mut self, shim: &Shim, to: u32, head: Head, body: &[u8]) -> bool {
        assert!(body.len() <= MAX_BODY, "a record's body of {} bytes is too long", body.len());
        if self.is_full(to) {
            self.reap(shim);
            if self.is_full(to) {
                return false;
            }
        }
        let Some(buffer) = self.free.pop() else { return false };
        let record = self.buffers.at(buffer.into());
        debug_assert!(size_of::<Head>() + body.len() <= LONGEST);
        // SAFETY: the buffer is free, so neither MPI nor anybody else uses it; it is aligned for a head and has room
        // for the longest body, as was asserted.
        unsafe {
            record.cast::<Head>().write(head);
            record.add(size_of::<Head>()).copy_from_nonoverlapping(NonNull::from(body).cast(), body.len());
        }
        // SAFETY: buffers live for ever, and this one is not written before its send is done.
        match unsafe { shim.isend(record.as_ptr(), size_of::<Head>() + body.len(), to, TAG) } {
            None => self.free.push(buffer),
            Some(request) => {
                self.requests.push(request);
                self.held.push(Held { buffer, to });
                self.waiting[to as usize] += 1;
            }
        }
        true
    }

    fn is_full(&self, to: u32) -> bool {
        self.free.is_empty() || self.waiting[to as usize] >= PER_RANK
    }

    /// Takes the buffers back whose sends are done.
    #[inline]
    pub(crate) fn reap(&mut self, shim: &Shim) {
        while let Some(index) = shim.test_any(&self.requests) {
            self.requests.swap_remove(index);
            let held = self.held.swap_remove(index);
            self.free.push(held.buffer);
            self.waiting[held.to as usize] -= 1;
        }
    }

    /// Whether all sends are done.
    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }
}
