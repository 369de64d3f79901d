//! A message that a matched probe has taken.

use std::rc::Rc;

use bytemuck::cast_slice_mut;
use treepie_base::{Pod, Result, Status};
use treepie_fabric::Found;

use crate::comm::{Comm, Inner, tag_of};
use crate::point::whole;

/// A message that [`mprobe`](Comm::mprobe) has taken and only its holder can receive. Dropped, it goes back to its
/// place among those that wait.
pub struct Message {
    comm: Rc<Inner>,
    found: Option<Found>,
    status: Status,
}

impl Message {
    pub(crate) fn new(comm: &Comm, found: Found) -> Result<Self> {
        let envelope = found.envelope();
        let unknown = Status { source: 0, tag: tag_of(envelope), bytes: envelope.bytes };
        // If nobody can say which rank its sender is, it goes back too.
        let mut message = Self { status: unknown, comm: comm.inner.clone(), found: Some(found) };
        message.status = comm.status(envelope)?;
        Ok(message)
    }

    /// What is known of it.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Receives it into the front of `into`. If it is too long, it goes back to its place.
    pub fn recv<T: Pod>(mut self, into: &mut [T]) -> Result<Status> {
        let found = self.found.take().expect("a message is received once");
        let received = self.comm.endpoint().recv_found(found, cast_slice_mut(into));
        match received {
            Ok(_) => whole::<T>(self.status),
            Err((error, found)) => {
                self.found = found;
                Err(error)
            }
        }
    }

    /// Receives it.
    pub fn recv_vec<T: Pod>(mut self) -> Result<Vec<T>> {
        whole::<T>(self.status)?;
        let found = self.found.take().expect("a message is received once");
        let (_, bytes) = self.comm.endpoint().recv_found_fresh(found, align_of::<T>())?;
        Ok(bytes.into_vec().expect("the length was tested"))
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        if let Some(found) = self.found.take() {
            self.comm.endpoint().put_back(found);
        }
    }
}
