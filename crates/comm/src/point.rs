//! Messages from one rank to another.

use bytemuck::{cast_slice, cast_slice_mut};
use treepie_base::{Bytes, Error, Pod, Rank, Result, Source, Span, Status, Tag, TagMatch};
use treepie_fabric::{Completion, Started, Target};

use crate::comm::Comm;
use crate::message::Message;
use crate::request::{Finish, Request};

impl Comm {
    /// Sends `data`. Returns when `data` may be used again, which can be before it is received.
    #[inline]
    pub fn send<T: Pod>(&self, data: &[T], to: Rank, tag: Tag) -> Result<()> {
        let address = self.address(to, tag, false)?;
        self.endpoint().send(address, cast_slice(data))
    }

    /// Sends `data` and returns when its receive has begun.
    pub fn ssend<T: Pod>(&self, data: &[T], to: Rank, tag: Tag) -> Result<()> {
        let address = self.address(to, tag, true)?;
        self.endpoint().send(address, cast_slice(data))
    }

    /// Receives a message of at most `into.len()` elements into the front of `into`.
    #[inline]
    pub fn recv<T: Pod>(&self, into: &mut [T], from: impl Into<Source>, tag: impl Into<TagMatch>) -> Result<Status> {
        let select = self.select(from, tag)?;
        let envelope = self.endpoint().recv(select, cast_slice_mut(into))?;
        whole::<T>(self.status(envelope)?)
    }

    /// Receives a message of any length.
    pub fn recv_vec<T: Pod>(&self, from: impl Into<Source>, tag: impl Into<TagMatch>) -> Result<(Vec<T>, Status)> {
        self.irecv_vec(from, tag)?.wait()
    }

    /// Sends `data` and receives into `into` at the same time, so that ranks can exchange in pairs or rings.
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

    /// Begins to send `data`, which comes back when the request is done.
    pub fn isend<T: Pod>(&self, data: Vec<T>, to: Rank, tag: Tag) -> Result<Request<'static, Vec<T>>> {
        self.start_send(data, to, tag, false)
    }

    /// Begins to send `data`; the request is done when the receive has begun.
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
        if self.endpoint().send_now(address, cast_slice(&data)) {
            return Ok(Request::ready(Ok(data)));
        }
        let started = self.endpoint().start_send(address, Span::from(Bytes::from(data)))?;
        Ok(match started {
            Started::Done(span) => Request::ready(Ok(vector(span))),
            Started::Pending(id) => {
                Request::new(self, id, Finish::Memory(|_, completion| Ok(vector(memory(completion)))))
            }
        })
    }

    /// Begins to receive into the front of `into`, which comes back, in its full length, when the request is done.
    pub fn irecv<T: Pod>(
        &self,
        mut into: Vec<T>,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Request<'static, (Vec<T>, Status)>> {
        let (from, tag) = (from.into(), tag.into());
        let select = self.select(from, tag)?;
        let now = self.endpoint().recv_now(select, cast_slice_mut(&mut into));
        if let Some(envelope) = now {
            let status = self.status(envelope).and_then(whole::<T>);
            return Ok(Request::ready(status.map(|status| (into, status))));
        }
        self.start_recv(Target::Into(Span::from(Bytes::from(into))), from, tag)
    }

    /// Begins to receive a message of any length.
    pub fn irecv_vec<T: Pod>(
        &self,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Request<'static, (Vec<T>, Status)>> {
        self.start_recv(Target::Fresh { align: align_of::<T>() }, from, tag)
    }

    fn start_recv<T: Pod>(
        &self,
        target: Target,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Request<'static, (Vec<T>, Status)>> {
        let select = self.select(from, tag)?;
        let id = self.endpoint().start_recv(select, target);
        let finish = Finish::Memory(|comm, completion| {
            let status = whole::<T>(comm.status(completion.envelope)?)?;
            Ok((vector(memory(completion)), status))
        });
        Ok(Request::new(self, id, finish))
    }

    /// Waits until a message is there, without receiving it.
    pub fn probe(&self, from: impl Into<Source>, tag: impl Into<TagMatch>) -> Result<Status> {
        let select = self.select(from, tag)?;
        let envelope = self.endpoint().probe(select)?;
        self.status(envelope)
    }

    /// Looks whether a message is there, without receiving it.
    pub fn iprobe(&self, from: impl Into<Source>, tag: impl Into<TagMatch>) -> Result<Option<Status>> {
        let select = self.select(from, tag)?;
        let envelope = self.endpoint().iprobe(select)?;
        envelope.map(|envelope| self.status(envelope)).transpose()
    }

    /// Waits until a message is there and takes it: no other receive can get it.
    pub fn mprobe(&self, from: impl Into<Source>, tag: impl Into<TagMatch>) -> Result<Message> {
        let select = self.select(from, tag)?;
        let found = self.endpoint().mprobe(select)?;
        Message::new(self, found)
    }

    /// Takes a message if one is there: no other receive can get it.
    pub fn improbe(&self, from: impl Into<Source>, tag: impl Into<TagMatch>) -> Result<Option<Message>> {
        let select = self.select(from, tag)?;
        let found = self.endpoint().improbe(select)?;
        found.map(|found| Message::new(self, found)).transpose()
    }
}

/// Refuses a message that is no whole number of elements.
pub(crate) fn whole<T>(status: Status) -> Result<Status> {
    match size_of::<T>() as u64 {
        1 => Ok(status),
        0 if status.bytes == 0 => Ok(status),
        0 => Err(Error::Mismatch { bytes: status.bytes, element: 0 }),
        size if status.bytes.is_multiple_of(size) => Ok(status),
        _ => Err(Error::Mismatch { bytes: status.bytes, element: size_of::<T>() }),
    }
}

fn memory(completion: Completion) -> Span {
    completion.span.expect("an operation that is over has its memory")
}

/// The vector that an operation owned.
fn vector<T: Pod>(span: Span) -> Vec<T> {
    let bytes = span.into_bytes().expect("the operation owned its memory");
    bytes.into_vec().expect("it was made for these elements, and the length was tested")
}
