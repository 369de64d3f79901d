//! Persistent messages: prepared once, started many times.

use treepie_base::{Pod, Rank, Result, Source, Status, Tag, TagMatch};

use crate::comm::Comm;
use crate::request::Request;

/// A send to the same rank, under the same tag, again and again (`MPI_Send_init`).
///
/// It owns its data: change it, [`start`](Self::start), overlap other work, [`wait`](Self::wait). Dropping it while it is
/// active leaves the message to complete by itself.
pub struct PersistentSend<T> {
    comm: Comm,
    to: Rank,
    tag: Tag,
    data: Vec<T>,
    active: Option<Request<'static, Vec<T>>>,
}

/// A receive from the same source, under the same tag, again and again (`MPI_Recv_init`).
///
/// It owns the memory of the messages: [`start`](Self::start), overlap other work, [`wait`](Self::wait), read the
/// [`data`](Self::data). Dropping it while it is active cancels the receive, as with a [`Request`].
pub struct PersistentRecv<T> {
    comm: Comm,
    from: Source,
    tag: TagMatch,
    data: Vec<T>,
    /// Elements of the longest message.
    max_len: usize,
    /// Elements of the last message.
    len: usize,
    active: Option<Request<'static, (Vec<T>, Status)>>,
}

impl Comm {
    /// Prepares a send to a rank. A rank or tag that does not exist is refused at the start of a send.
    pub fn send_init<T: Pod>(&self, to: Rank, tag: Tag) -> PersistentSend<T> {
        PersistentSend { comm: self.clone(), to, tag, data: Vec::new(), active: None }
    }

    /// Prepares a receive of messages of at most `max_len` elements.
    pub fn recv_init<T: Pod>(
        &self,
        max_len: usize,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> PersistentRecv<T> {
        let (from, tag) = (from.into(), tag.into());
        PersistentRecv { comm: self.clone(), from, tag, data: Vec::new(), max_len, len: 0, active: None }
    }
}

impl<T: Pod> PersistentSend<T> {
    /// The data of the next message, of any length. It is empty at first, and after a send that failed.
    ///
    /// # Panics
    /// While the send is active.
    pub fn data(&mut self) -> &mut Vec<T> {
        assert!(self.active.is_none(), "changes the data of an active send");
        &mut self.data
    }

    /// Starts the send.
    ///
    /// # Panics
    /// While it is active.
    pub fn start(&mut self) -> Result<()> {
        assert!(self.active.is_none(), "starts an active send");
        self.active = Some(self.comm.isend(std::mem::take(&mut self.data), self.to, self.tag)?);
        Ok(())
    }

    /// Waits for completion; returns at once if the send is inactive.
    pub fn wait(&mut self) -> Result<()> {
        if let Some(request) = self.active.take() {
            self.data = request.wait()?;
        }
        Ok(())
    }

    /// Whether the send is complete, or inactive.
    pub fn test(&mut self) -> Result<bool> {
        let Some(request) = &mut self.active else { return Ok(true) };
        let Some(result) = request.test() else { return Ok(false) };
        self.active = None;
        self.data = result?;
        Ok(true)
    }
}

impl<T: Pod> PersistentRecv<T> {
    /// Starts the receive.
    ///
    /// # Panics
    /// While it is active.
    pub fn start(&mut self) -> Result<()> {
        assert!(self.active.is_none(), "starts an active receive");
        let mut into = std::mem::take(&mut self.data);
        // The first time, and after a failure, whose memory is gone.
        into.resize(self.max_len, T::zeroed());
        self.len = 0;
        self.active = Some(self.comm.irecv(into, self.from, self.tag)?);
        Ok(())
    }

    /// Waits for completion. `None` if the receive is inactive.
    pub fn wait(&mut self) -> Result<Option<Status>> {
        let Some(request) = self.active.take() else { return Ok(None) };
        let result = request.wait();
        self.complete(result).map(Some)
    }

    /// The status of the message, once it is complete. `None` before, and if the receive is inactive.
    pub fn test(&mut self) -> Result<Option<Status>> {
        let Some(result) = self.active.as_mut().and_then(Request::test) else { return Ok(None) };
        self.active = None;
        self.complete(result).map(Some)
    }

    /// Whether it was started and is not known to be complete.
    pub fn is_active(&self) -> bool {
        self.active.is_some()
    }

    /// The last message. Empty while the receive is active.
    pub fn data(&self) -> &[T] {
        &self.data[..self.len]
    }

    fn complete(&mut self, result: Result<(Vec<T>, Status)>) -> Result<Status> {
        let (data, status) = result?;
        (self.data, self.len) = (data, status.count::<T>());
        Ok(status)
    }
}
