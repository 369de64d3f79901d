//! The queue of incoming records: receives that are posted before the messages arrive.
//!
//! MPI matches messages to receives in the order in which the receives were posted, so the oldest receive has the next
//! record and only that one is tested. The buffer of a returned record is posted again at the next poll.

use treepie_fabric::RecordHeader;

use crate::record::{MAX_RECORD, RECORD_TAG, RecordBuffers};
use crate::shim::{MpiRequest, Shim};

/// The number of posted receives. More than MPI delivers between two polls would be of no use.
const POSTED_RECEIVES: usize = 32;

/// Tests of a cancelled receive before it is abandoned.
const MAX_CANCEL_TESTS: usize = 10_000;

pub(crate) struct Inbox {
    buffers: RecordBuffers,
    /// By buffer; none for the one whose record `poll` has returned.
    requests: Vec<Option<MpiRequest>>,
    oldest: usize,
}

impl Inbox {
    pub(crate) fn new(shim: &Shim) -> Self {
        let mut inbox = Self { buffers: RecordBuffers::new(POSTED_RECEIVES), requests: Vec::new(), oldest: 0 };
        inbox.requests = (0..POSTED_RECEIVES).map(|index| Some(inbox.post(shim, index))).collect();
        inbox
    }

    fn post(&self, shim: &Shim, index: usize) -> MpiRequest {
        // SAFETY: buffers live for ever, and this one has no request and no borrowed record: `poll` lends a record for
        // as long as the inbox itself is borrowed.
        unsafe { shim.irecv(self.buffers.buffer(index), MAX_RECORD, None, RECORD_TAG) }
    }

    /// The next record, if it has arrived.
    pub(crate) fn poll(&mut self, shim: &Shim) -> Option<(u32, RecordHeader, &[u8])> {
        if self.requests[self.oldest].is_none() {
            self.requests[self.oldest] = Some(self.post(shim, self.oldest));
            self.oldest = (self.oldest + 1) % POSTED_RECEIVES;
        }
        let status = shim.test(self.requests[self.oldest].as_ref()?)?;
        self.requests[self.oldest] = None;
        let length = (status.length as usize).checked_sub(size_of::<RecordHeader>()).expect("a record has a head");
        let record = self.buffers.buffer(self.oldest);
        // SAFETY: the receive is complete, so MPI does not touch the buffer; every record begins with a header, which
        // is plain data, and buffers are aligned for it.
        let head = unsafe { record.cast::<RecordHeader>().read() };
        // SAFETY: as above; MPI wrote this many bytes after the header, and no more than fit the buffer. They stay
        // until the buffer is posted again, which needs the inbox mutably.
        let body = unsafe { std::slice::from_raw_parts(record.add(size_of::<RecordHeader>()).as_ptr(), length) };
        Some((status.source as u32, head, body))
    }

    /// Cancels all receives.
    pub(crate) fn close(&mut self, shim: &Shim) {
        for request in self.requests.iter_mut().filter_map(Option::take) {
            shim.cancel(&request);
            // One that was matched at the last moment completes with its record; if it does not, its buffer lives for
            // ever.
            let _ = (0..MAX_CANCEL_TESTS).find(|_| shim.test(&request).is_some());
        }
    }
}
