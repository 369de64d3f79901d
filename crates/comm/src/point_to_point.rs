//! Point-to-point messages.

use bytemuck::{cast_slice, cast_slice_mut};
use treepie_base::{Bytes, Pod, Rank, Result, Source, Span, Status, Tag, TagMatch};
use treepie_fabric::{Completion, RecvTarget, Started};

use crate::comm::Comm;
use crate::message::{MatchedMessage, check_whole_elements};
use crate::request::{Finish, Request};

impl Comm {
    /// Sends `data`. Returns when `data` may be reused, possibly before it is received.
    #[inline]
    pub fn send<T: Pod>(&self, data: &[T], to: Rank, tag: Tag) -> Result<()> {
        let address = self.address(to, tag, false)?;
        self.endpoint().send(address, cast_slice(data))
    }

    /// Synchronous send: returns when the matching receive has started.
    pub fn ssend<T: Pod>(&self, data: &[T], to: Rank, tag: Tag) -> Result<()> {
        let address = self.address(to, tag, true)?;
        self.endpoint().send(address, cast_slice(data))
    }

    /// Receives a message of at most `into.len()` elements into the beginning of `into`.
    #[inline]
    pub fn recv<T: Pod>(&self, into: &mut [T], from: impl Into<Source>, tag: impl Into<TagMatch>) -> Result<Status> {
        let select = self.select(from, tag)?;
        let envelope = self.endpoint().recv(select, cast_slice_mut(into))?;
        check_whole_elements::<T>(self.status(envelope)?)
    }

    /// Receives a message of any length. If there is no memory for it, that is an error, and it stays queued.
    pub fn recv_vec<T: Pod>(&self, from: impl Into<Source>, tag: impl Into<TagMatch>) -> Result<(Vec<T>, Status)> {
        let select = self.select(from, tag)?;
        let (envelope, bytes) = self.endpoint().recv_alloc(select, align_of::<T>())?;
        let status = check_whole_elements::<T>(self.status(envelope)?)?;
        Ok((bytes.into_vec().expect("the length was checked"), status))
    }

    /// Sends `data` and receives into `into` concurrently, so that ranks can exchange in pairs or rings.
    pub fn sendrecv<T: Pod, U: Pod>(
        &self,
        data: &[T],
        to: Rank,
        send_tag: Tag,
        into: &mut [U],
        from: impl Into<Source>,
        recv_tag: impl Into<TagMatch>,
    ) -> Result<Status> {
        let (from, recv_tag) = (from.into(), recv_tag.into());
        self.scope(|scope| {
            let receive = scope.irecv(into, from, recv_tag)?;
            let send = scope.isend(data, to, send_tag)?;
            let status = receive.wait()?;
            send.wait()?;
            Ok(status)
        })
    }

    /// Starts a send of `data`, which the request returns on completion.
    pub fn isend<T: Pod>(&self, data: Vec<T>, to: Rank, tag: Tag) -> Result<Request<'static, Vec<T>>> {
        self.start_send(data, to, tag, false)
    }

    /// Starts a synchronous send of `data`; the request completes when the matching receive has started.
    pub fn issend<T: Pod>(&self, data: Vec<T>, to: Rank, tag: Tag) -> Result<Request<'static, Vec<T>>> {
        self.start_send(data, to, tag, true)
    }

    fn start_send<T: Pod>(
        &self,
        data: Vec<T>,
        to: Rank,
        tag: Tag,
        synchronous: bool,
    ) -> Result<Request<'static, Vec<T>>> {
        let address = self.address(to, tag, synchronous)?;
        if self.endpoint().try_send(address, cast_slice(&data)) {
            return Ok(Request::ready(Ok(data)));
        }
        let started = self.endpoint().isend(address, Span::from(Bytes::from(data)))?;
        Ok(match started {
            Started::Done(span) => Request::ready(Ok(vector(span))),
            Started::Pending(id) => {
                Request::new(self, id, Finish::Memory(|_, completion| Ok(vector(memory(completion)))))
            }
        })
    }

    /// Starts a receive into the beginning of `into`, which the request returns in its full length on completion.
    pub fn irecv<T: Pod>(
        &self,
        mut into: Vec<T>,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Request<'static, (Vec<T>, Status)>> {
        let (from, tag) = (from.into(), tag.into());
        let select = self.select(from, tag)?;
        let now = self.endpoint().try_recv(select, cast_slice_mut(&mut into));
        if let Some(envelope) = now {
            let status = self.status(envelope).and_then(check_whole_elements::<T>);
            return Ok(Request::ready(status.map(|status| (into, status))));
        }
        self.start_recv(RecvTarget::Into(Span::from(Bytes::from(into))), from, tag)
    }

    /// Starts a receive of a message of any length.
    pub fn irecv_vec<T: Pod>(
        &self,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Request<'static, (Vec<T>, Status)>> {
        self.start_recv(RecvTarget::Allocate { align: align_of::<T>() }, from, tag)
    }

    fn start_recv<T: Pod>(
        &self,
        target: RecvTarget,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Request<'static, (Vec<T>, Status)>> {
        let select = self.select(from, tag)?;
        let id = self.endpoint().irecv(select, target);
        let finish = Finish::Memory(|comm, completion| {
            let status = check_whole_elements::<T>(comm.status(completion.envelope)?)?;
            Ok((vector(memory(completion)), status))
        });
        Ok(Request::new(self, id, finish))
    }

    /// Waits for a matching message without receiving it.
    pub fn probe(&self, from: impl Into<Source>, tag: impl Into<TagMatch>) -> Result<Status> {
        let select = self.select(from, tag)?;
        let envelope = self.endpoint().probe(select)?;
        self.status(envelope)
    }

    /// Tests for a matching message without receiving it.
    pub fn iprobe(&self, from: impl Into<Source>, tag: impl Into<TagMatch>) -> Result<Option<Status>> {
        let select = self.select(from, tag)?;
        let envelope = self.endpoint().iprobe(select)?;
        envelope.map(|envelope| self.status(envelope)).transpose()
    }

    /// Waits for a matching message and removes it from the queue: no other receive can match it.
    pub fn mprobe(&self, from: impl Into<Source>, tag: impl Into<TagMatch>) -> Result<MatchedMessage> {
        let select = self.select(from, tag)?;
        let found = self.endpoint().mprobe(select)?;
        MatchedMessage::new(self, found)
    }

    /// Removes a matching message from the queue, if there is one: no other receive can match it.
    pub fn improbe(&self, from: impl Into<Source>, tag: impl Into<TagMatch>) -> Result<Option<MatchedMessage>> {
        let select = self.select(from, tag)?;
        let found = self.endpoint().improbe(select)?;
        found.map(|found| MatchedMessage::new(self, found)).transpose()
    }
}

fn memory(completion: Completion) -> Span {
    completion.span.expect("a completed operation returns its memory")
}

/// The vector that an operation owned.
fn vector<T: Pod>(span: Span) -> Vec<T> {
    let bytes = span.into_bytes().expect("the operation owned its memory");
    bytes.into_vec().expect("it was allocated for these elements, and the length was checked")
}
