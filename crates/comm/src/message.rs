//! Messages matched by a probe.

use std::rc::Rc;

use bytemuck::cast_slice_mut;
use treepie_base::{Error, Pod, Result, Status};
use treepie_fabric::MatchedUnexpected;

use crate::comm::{Comm, CommInner, tag_of};

/// A message matched by [`mprobe`](Comm::mprobe), which only its holder can receive. If it is dropped, it returns to
/// its position in the queue of unexpected messages.
pub struct MatchedMessage {
    comm: Rc<CommInner>,
    found: Option<MatchedUnexpected>,
    status: Status,
}

impl MatchedMessage {
    pub(crate) fn new(comm: &Comm, found: MatchedUnexpected) -> Result<Self> {
        let envelope = found.envelope();
        let unknown = Status { source: 0, tag: tag_of(envelope), bytes: envelope.bytes };
        // If the rank of its sender cannot be looked up, the message is requeued as well.
        let mut message = Self { status: unknown, comm: comm.inner.clone(), found: Some(found) };
        message.status = comm.status(envelope)?;
        Ok(message)
    }

    /// Its source, tag and length.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Receives the message into the beginning of `into`. If it is too long, it is requeued.
    pub fn recv<T: Pod>(mut self, into: &mut [T]) -> Result<Status> {
        let found = self.found.take().expect("a message is received once");
        let received = self.comm.endpoint().mrecv(found, cast_slice_mut(into));
        match received {
            Ok(_) => check_whole_elements::<T>(self.status),
            Err((error, found)) => {
                self.found = found;
                Err(error)
            }
        }
    }

    /// Receives the message.
    pub fn recv_vec<T: Pod>(mut self) -> Result<Vec<T>> {
        check_whole_elements::<T>(self.status)?;
        let found = self.found.take().expect("a message is received once");
        let (_, bytes) = self.comm.endpoint().mrecv_alloc(found, align_of::<T>())?;
        Ok(bytes.into_vec().expect("the length was checked"))
    }
}

impl Drop for MatchedMessage {
    fn drop(&mut self) {
        if let Some(found) = self.found.take() {
            self.comm.endpoint().requeue(found);
        }
    }
}

/// Refuses a message that is not a whole number of elements.
pub(crate) fn check_whole_elements<T>(status: Status) -> Result<Status> {
    match size_of::<T>() as u64 {
        1 => Ok(status),
        0 if status.bytes == 0 => Ok(status),
        0 => Err(Error::PartialElement { bytes: status.bytes, element: 0 }),
        size if status.bytes.is_multiple_of(size) => Ok(status),
        _ => Err(Error::PartialElement { bytes: status.bytes, element: size_of::<T>() }),
    }
}
