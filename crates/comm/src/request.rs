//! Requests: handles of nonblocking operations.

use std::marker::PhantomData;
use std::rc::Rc;

use treepie_base::Result;
use treepie_fabric::{Completion, Envelope, OpId};

use crate::comm::{Comm, CommInner};

/// A nonblocking operation, with a result of type `T` on completion.
///
/// Dropping a request abandons its operation: an unmatched receive is cancelled, anything else completes unobserved. No
/// memory of the program is accessed after that, as the operation owns its buffer, or the [`Scope`](crate::Scope) in
/// which it borrows waits for it.
#[must_use = "a receive whose request is dropped is cancelled"]
pub struct Request<'a, T> {
    state: RequestState<T>,
    memory: PhantomData<&'a mut [u8]>,
}

enum RequestState<T> {
    /// It was complete at once.
    Ready(Result<T>),
    Pending(PendingRequest<T>),
    /// Its result was taken.
    Consumed,
}

struct PendingRequest<T> {
    comm: Rc<CommInner>,
    id: OpId,
    finish: Finish<T>,
    /// Whether dropping the request leaves the operation alone.
    detached: bool,
}

/// How the result is made from the completed operation.
pub(crate) enum Finish<T> {
    /// The memory of the operation is part of the result.
    Memory(fn(&CommInner, Completion) -> Result<T>),
    /// The memory is owned elsewhere.
    Envelope(fn(&CommInner, Envelope) -> Result<T>),
    /// The result is stored elsewhere, and taken from there once.
    Deferred(Box<dyn Fn() -> Result<T>>),
}

impl<T> Finish<T> {
    fn result(&self, comm: &CommInner, completion: Completion) -> Result<T> {
        match self {
            Finish::Memory(finish) => finish(comm, completion),
            Finish::Envelope(finish) => finish(comm, completion.envelope),
            Finish::Deferred(take) => take(),
        }
    }
}

impl<T> PendingRequest<T> {
    #[inline]
    fn wait(&self) -> Result<T> {
        match &self.finish {
            Finish::Memory(finish) => {
                let completion = self.comm.endpoint().wait(self.id);
                finish(&self.comm, completion?)
            }
            Finish::Envelope(finish) => {
                let envelope = self.comm.endpoint().wait_envelope(self.id);
                finish(&self.comm, envelope?)
            }
            Finish::Deferred(take) => {
                let envelope = self.comm.endpoint().wait_envelope(self.id);
                envelope.and_then(|_| take())
            }
        }
    }
}

impl<T> Request<'_, T> {
    pub(crate) fn new(comm: &Comm, id: OpId, finish: Finish<T>) -> Self {
        let pending = PendingRequest { comm: comm.inner.clone(), id, finish, detached: false };
        Self { state: RequestState::Pending(pending), memory: PhantomData }
    }

    /// A request of a completed operation.
    pub(crate) fn ready(result: Result<T>) -> Self {
        Self { state: RequestState::Ready(result), memory: PhantomData }
    }

    /// A request whose operation continues when it is dropped.
    pub(crate) fn detached(mut self) -> Self {
        if let RequestState::Pending(pending) = &mut self.state {
            pending.detached = true;
        }
        self
    }

    fn take(&mut self) -> RequestState<T> {
        std::mem::replace(&mut self.state, RequestState::Consumed)
    }

    fn pending(&self) -> Option<&PendingRequest<T>> {
        match &self.state {
            RequestState::Pending(pending) => Some(pending),
            _ => None,
        }
    }

    /// The operation, if it was not complete at once and its result was not taken.
    pub(crate) fn pending_op(&self) -> Option<(&Rc<CommInner>, OpId)> {
        self.pending().map(|pending| (&pending.comm, pending.id))
    }

    fn is_complete(&self) -> bool {
        self.pending().is_none_or(|pending| pending.comm.endpoint().is_complete(pending.id))
    }

    /// Waits for completion.
    #[inline]
    pub fn wait(mut self) -> Result<T> {
        // Not moved out: most requests are waited for, and the move would cost as much as the rest.
        if let RequestState::Pending(pending) = &self.state {
            let result = pending.wait();
            self.state = RequestState::Consumed;
            return result;
        }
        match self.take() {
            RequestState::Ready(result) => result,
            _ => panic!("{CONSUMED}"),
        }
    }

    /// The result if the operation is complete, otherwise `None`. The result is returned once; then the request is
    /// consumed and must not be used again.
    pub fn test(&mut self) -> Option<Result<T>> {
        match self.take() {
            RequestState::Ready(result) => Some(result),
            RequestState::Pending(pending) => {
                let completion = pending.comm.endpoint().test(pending.id);
                match completion {
                    Some(completion) => {
                        Some(completion.and_then(|completion| pending.finish.result(&pending.comm, completion)))
                    }
                    None => {
                        self.state = RequestState::Pending(pending);
                        None
                    }
                }
            }
            RequestState::Consumed => panic!("{CONSUMED}"),
        }
    }

    /// Cancels an unmatched receive. Returns the request if it is matched, or is not a receive: then it will complete.
    pub fn cancel(mut self) -> std::result::Result<(), Self> {
        let cancelled = self.pending().is_some_and(|pending| pending.comm.endpoint().cancel(pending.id));
        if cancelled {
            self.state = RequestState::Consumed;
            Ok(())
        } else {
            Err(self)
        }
    }
}

const CONSUMED: &str = "the result of this request was taken before";

impl<T> Drop for Request<'_, T> {
    fn drop(&mut self) {
        if let RequestState::Pending(pending) = &self.state
            && !pending.detached
        {
            pending.comm.endpoint().abandon(pending.id);
        }
    }
}

impl<T> std::fmt::Debug for Request<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.state {
            RequestState::Ready(_) => write!(f, "Request(complete)"),
            RequestState::Pending(pending) => write!(f, "Request({:?})", pending.id),
            RequestState::Consumed => write!(f, "Request(consumed)"),
        }
    }
}

/// Waits for all requests and returns their results in order (`MPI_Waitall`). If some fail, it still waits for all, and
/// returns the first error.
pub fn wait_all<'a, T>(requests: impl IntoIterator<Item = Request<'a, T>>) -> Result<Vec<T>> {
    let requests = requests.into_iter();
    let mut values = Vec::with_capacity(requests.size_hint().0);
    let mut first_error = None;
    for request in requests {
        match request.wait() {
            Ok(value) => values.push(value),
            Err(error) => {
                first_error.get_or_insert(error);
            }
        }
    }
    first_error.map_or(Ok(values), Err)
}

/// Waits until one of the requests is complete, removes it from the vector by [`Vec::swap_remove`], and returns its
/// index there and its result (`MPI_Waitany`). `None` if the vector is empty. A call that has to wait polls all of
/// them; a [`RequestSet`](crate::RequestSet) of thousands waits for any at the cost of one.
pub fn wait_any<T>(requests: &mut Vec<Request<'_, T>>) -> Option<(usize, Result<T>)> {
    let index = any_complete(requests)?;
    Some((index, requests.swap_remove(index).wait()))
}

/// Waits until at least one of the requests is complete, removes all completed ones from the vector (the others keep
/// their order), and returns their indices there and their results (`MPI_Waitsome`). Empty if the vector is empty.
pub fn wait_some<T>(requests: &mut Vec<Request<'_, T>>) -> Vec<(usize, Result<T>)> {
    if any_complete(requests).is_none() {
        return Vec::new();
    }
    let mut results = Vec::new();
    let mut rest = Vec::with_capacity(requests.len());
    for (index, request) in std::mem::take(requests).into_iter().enumerate() {
        if request.is_complete() { results.push((index, request.wait())) } else { rest.push(request) }
    }
    *requests = rest;
    results
}

/// Polls the requests near an index for as long as it takes to start waiting for all.
fn wait_near<T>(requests: &[Request<'_, T>], one: &PendingRequest<T>, index: usize) -> Option<usize> {
    const NEAR: usize = 4;
    const REQUESTS_PER_POLL: usize = 16;
    let range = index.saturating_sub(NEAR)..(index + NEAR).min(requests.len());
    (0..requests.len() / REQUESTS_PER_POLL).find_map(|_| {
        one.comm.endpoint().progress();
        range.clone().find(|near| requests[*near].is_complete())
    })
}

/// Waits until one of the requests is complete and returns its index. `None` if there are none.
fn any_complete<T>(requests: &[Request<'_, T>]) -> Option<usize> {
    // A request that is not pending is complete, and searching for others first would poll all of them again each time.
    let Some(first) = requests.first()?.pending() else { return Some(0) };
    // Requests mostly complete in the order in which they were started, or in reverse: the next one is near the last
    // one.
    let last = &first.comm.last_completed;
    let (before, after) = requests.split_at(last.get().min(requests.len()));
    let index = after.iter().position(Request::is_complete).map(|index| before.len() + index);
    let index = index.or_else(|| before.iter().rposition(Request::is_complete));
    let index = index.or_else(|| wait_near(requests, first, before.len())).unwrap_or_else(|| {
        // None is complete, so all are pending.
        let pending: Vec<&PendingRequest<T>> = requests.iter().filter_map(Request::pending).collect();
        assert!(pending.iter().all(|other| other.comm.same_world(&first.comm)), "the requests belong to one world");
        let ids: Vec<OpId> = pending.iter().map(|pending| pending.id).collect();
        first.comm.endpoint().wait_any(&ids)
    });
    last.set(index);
    Some(index)
}
