//! Nonblocking operations on borrowed slices.

use std::cell::RefCell;
use std::marker::PhantomData;

use bytemuck::{cast_slice, cast_slice_mut};
use treepie_base::{Lending, Pod, Rank, Result, Source, Status, Tag, TagMatch, lending};
use treepie_fabric::{Id, Started, Target};

use crate::comm::Comm;
use crate::point::whole;
use crate::request::{Finish, Request};

/// Begins operations on slices that are borrowed until the scope ends; made by [`Comm::scope`].
pub struct Scope<'scope, 'env> {
    comm: Comm,
    lending: &'scope Lending<'scope>,
    env: PhantomData<&'scope &'env ()>,
    /// What was begun in it, as far as the results were not taken when there was last no room for more.
    begun: RefCell<Vec<Id>>,
}

impl Comm {
    /// Runs `body`, in which nonblocking operations can borrow slices instead of owning vectors. When it returns `Ok`,
    /// everything that was begun in it and not waited for is waited for; when it returns an error or panics, receives
    /// without message are cancelled first.
    pub fn scope<'env, R>(&self, body: impl for<'s, 'scope> FnOnce(&'s Scope<'scope, 'env>) -> Result<R>) -> Result<R> {
        let settle = |panicked| self.endpoint().settle(panicked);
        lending(
            |lending, env| {
                let scope = Scope { comm: self.clone(), lending, env, begun: RefCell::default() };
                let result = body(&scope);
                scope.end(result)
            },
            settle,
        )
    }
}

impl<'scope> Scope<'scope, '_> {
    pub(crate) fn comm(&self) -> &Comm {
        &self.comm
    }

    pub(crate) fn lending(&self) -> &'scope Lending<'scope> {
        self.lending
    }

    /// Notes what was begun, so that its end can be seen to without a look at everything that goes on.
    pub(crate) fn note(&self, id: Id) {
        let mut begun = self.begun.borrow_mut();
        if begun.len() == begun.capacity() {
            let endpoint = self.comm.endpoint();
            begun.retain(|id| endpoint.is_known(*id));
            // At least as many can be noted before this is done again.
            let room = begun.len().max(64);
            begun.reserve(room);
        }
        begun.push(id);
    }

    /// Begins to send `data`.
    pub fn isend<T: Pod>(&self, data: &'scope [T], to: Rank, tag: Tag) -> Result<Request<'scope, ()>> {
        self.start_send(data, to, tag, false)
    }

    /// Begins to send `data`; the request is done when the receive has begun.
    pub fn issend<T: Pod>(&self, data: &'scope [T], to: Rank, tag: Tag) -> Result<Request<'scope, ()>> {
        self.start_send(data, to, tag, true)
    }

    fn start_send<T: Pod>(
        &self,
        data: &'scope [T],
        to: Rank,
        tag: Tag,
        synchronous: bool,
    ) -> Result<Request<'scope, ()>> {
        let address = self.comm.address(to, tag, synchronous)?;
        let data = cast_slice(data);
        let mut endpoint = self.comm.endpoint();
        if endpoint.send_now(address, data) {
            return Ok(Request::ready(Ok(())));
        }
        let started = endpoint.start_send(address, self.lending.lend(data))?;
        drop(endpoint);
        Ok(match started {
            Started::Done(_) => Request::ready(Ok(())),
            Started::Pending(id) => {
                self.note(id);
                Request::new(&self.comm, id, Finish::Envelope(|_, _| Ok(()))).kept()
            }
        })
    }

    /// Begins to receive into the front of `into`.
    pub fn irecv<T: Pod>(
        &self,
        into: &'scope mut [T],
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Request<'scope, Status>> {
        let select = self.comm.select(from, tag)?;
        let into = cast_slice_mut(into);
        let now = self.comm.endpoint().recv_now(select, into);
        if let Some(envelope) = now {
            return Ok(Request::ready(self.comm.status(envelope).and_then(whole::<T>)));
        }
        let span = self.lending.lend_mut(into);
        let id = self.comm.endpoint().start_recv(select, Target::Into(span));
        self.note(id);
        let finish = Finish::Envelope(|comm, envelope| comm.status(envelope).and_then(whole::<T>));
        Ok(Request::new(&self.comm, id, finish).kept())
    }

    /// Ends what nobody has waited for.
    fn end<R>(&self, result: Result<R>) -> Result<R> {
        if self.lending.all_returned() {
            return result;
        }
        let mut first_error = None;
        let mut endpoint = self.comm.endpoint();
        for id in self.begun.take() {
            if !endpoint.is_known(id) {
                continue;
            }
            if result.is_err() {
                if !endpoint.give_up(id) {
                    endpoint.abandon(id);
                }
            } else if let Err(error) = endpoint.wait_envelope(id) {
                first_error.get_or_insert(error);
            }
        }
        match first_error {
            Some(error) => Err(error),
            None => result,
        }
    }
}
