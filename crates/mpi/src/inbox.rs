//! Records on their way in: a queue of receives that are posted before the messages come.
//!
//! MPI matches messages to receives in the order in which the receives were posted, so the oldest receive has the next
//! record and only that one is asked. The buffer of a record that was handed out is posted again when the engine is
//! polled the next time.

use treepie_fabric::Head;

use crate::record::{Buffers, LONGEST, TAG};
use crate::shim::{Request, Shim};

/// Receives that stand ready. More than MPI delivers between two polls would be of no use.
const POSTED: usize = 32;

/// Tests after which the end of a cancelled receive is not waited for any longer.
const PATIENCE: usize = 10_000;

pub(crate) struct Inbox {
    buffers: Buffers,
    /// By buffer; none for the one whose record is handed out.
    requests: Vec<Option<Request>>,
    oldest: usize,
}

impl Inbox {
    pub(crate) fn new(shim: &Shim) -> Self {
        let mut inbox = Self { buffers: Buffers::new(POSTED), requests: Vec::new(), oldest: 0 };
        inbox.requests = (0..POSTED).map(|index| Some(inbox.post(shim, index))).collect();
        inbox
    }

    fn post(&self, shim: &Shim, index: usize) -> Request {
        // SAFETY: buffers live for ever, and this one has no request and no borrowed record: `poll` lends a record for
        // as long as the inbox itself is borrowed.
        unsafe { shim.irecv(self.buffers.at(index), LONGEST, None, TAG) }
    }

    /// The next record, if it has come.
    pub(crate) fn poll(&mut self, shim: &Shim) -> Option<(u32, Head, &[u8])> {
        if self.requests[self.oldest].is_none() {
            self.requests[self.oldest] = Some(self.post(shim, self.oldest));
            self.oldest = (self.oldest + 1) % POSTED;
        }
        let outcome = shim.test(self.requests[self.oldest].as_ref()?)?;
        self.requests[self.oldest] = None;
        let length = (outcome.length as usize).checked_sub(size_of::<Head>()).expect("a record has a head");
        let record = self.buffers.at(self.oldest);
        // SAFETY: the receive is done, so MPI does not touch the buffer; every record begins with a head, which is
        // plain data, and buffers are aligned for it.
        let head = unsafe { record.cast::<Head>().read() };
        // SAFETY: as above; MPI wrote this many bytes after the head, and no more than there is room for. They stay
        // until the buffer is posted again, which needs the inbox back.
        let body = unsafe { std::slice::from_raw_parts(record.add(size_of::<Head>()).as_ptr(), length) };
        Some((outcome.source as u32, head, body))
    }

    /// Gives the receives back to MPI. Nothing is received any more.
    pub(crate) fn close(&mut self, shim: &Shim) {
        for request in self.requests.iter_mut().filter_map(Option::take) {
            shim.cancel(&request);
            // One that was matched in the last moment ends with its record; should it not, its buffer lives for ever.
            let _ = (0..PATIENCE).find(|_| shim.test(&request).is_some());
        }
    }
}
