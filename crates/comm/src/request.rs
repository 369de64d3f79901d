//! Operations that go on while the program does something else.

use std::marker::PhantomData;
use std::rc::Rc;

use treepie_base::Result;
use treepie_fabric::{Completion, Envelope, Id};

use crate::comm::{Comm, Inner};

/// An operation that was begun, and its result of type `T` when it is done.
///
/// A request that is dropped gives its operation up: a receive without message is cancelled, anything else ends
/// unheeded. No memory of the program is touched after that, as the operation owns its buffer, or the
/// [`Scope`](crate::Scope) that it borrows in waits for it.
#[must_use = "a receive whose request is dropped is cancelled"]
pub struct Request<'a, T> {
    state: State<T>,
    memory: PhantomData<&'a mut [u8]>,
}

enum State<T> {
    /// It was over at once.
    Ready(Result<T>),
    Pending(Pending<T>),
    /// Its result was taken.
    Spent,
}

struct Pending<T> {
    comm: Rc<Inner>,
    id: Id,
    finish: Finish<T>,
    /// Whether dropping the request leaves the operation alone.
    kept: bool,
}

/// How the result is made of what the operation leaves.
pub(crate) enum Finish<T> {
    /// Its memory is part of the result.
    Memory(fn(&Inner, Completion) -> Result<T>),
    /// Its memory is somebody else's.
    Envelope(fn(&Inner, Envelope) -> Result<T>),
    /// It is kept elsewhere, and taken from there once.
    Kept(Box<dyn Fn() -> Result<T>>),
}

impl<T> Finish<T> {
    fn result(&self, comm: &Inner, completion: Completion) -> Result<T> {
        match self {
            Finish::Memory(finish) => finish(comm, completion),
            Finish::Envelope(finish) => finish(comm, completion.envelope),
            Finish::Kept(take) => take(),
        }
    }
}

impl<T> Pending<T> {
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
            Finish::Kept(take) => {
                let envelope = self.comm.endpoint().wait_envelope(self.id);
                envelope.and_then(|_| take())
            }
        }
    }
}

impl<T> Request<'_, T> {
    pub(crate) fn new(comm: &Comm, id: Id, finish: Finish<T>) -> Self {
        let pending = Pending { comm: comm.inner.clone(), id, finish, kept: false };
        Self { state: State::Pending(pending), memory: PhantomData }
    }

    /// A request of an operation that is over.
    pub(crate) fn ready(result: Result<T>) -> Self {
        Self { state: State::Ready(result), memory: PhantomData }
    }

    /// A request whose operation goes on when it is dropped.
    pub(crate) fn kept(mut self) -> Self {
        if let State::Pending(pending) = &mut self.state {
            pending.kept = true;
        }
        self
    }

    fn take(&mut self) -> State<T> {
        std::mem::replace(&mut self.state, State::Spent)
    }

    fn pending(&self) -> Option<&Pending<T>> {
        match &self.state {
            State::Pending(pending) => Some(pending),
            _ => None,
        }
    }

    /// The operation, if it was not over at once and its result was not taken.
    pub(crate) fn watchable(&self) -> Option<(&Rc<Inner>, Id)> {
        self.pending().map(|pending| (&pending.comm, pending.id))
    }

    fn is_over(&self) -> bool {
        self.pending().is_none_or(|pending| pending.comm.endpoint().is_over(pending.id))
    }

    /// Waits until it is done.
    #[inline]
    pub fn wait(mut self) -> Result<T> {
        // Not moved out: most requests are waited for, and the move would cost as much as the rest.
        if let State::Pending(pending) = &self.state {
            let result = pending.wait();
            self.state = State::Spent;
            return result;
        }
        match self.take() {
            State::Ready(result) => result,
            _ => panic!("{SPENT}"),
        }
    }

    /// The result if it is done, or nothing yet. The result is given once; then the request is spent, and only good to
    /// be dropped.
    pub fn test(&mut self) -> Option<Result<T>> {
        match self.take() {
            State::Ready(result) => Some(result),
            State::Pending(pending) => {
                let completion = pending.comm.endpoint().test(pending.id);
                match completion {
                    Some(completion) => {
                        Some(completion.and_then(|completion| pending.finish.result(&pending.comm, completion)))
                    }
                    None => {
                        self.state = State::Pending(pending);
                        None
                    }
                }
            }
            State::Spent => panic!("{SPENT}"),
        }
    }

    /// Takes a receive back that has no message yet. Gives the request again if it has one, or is no receive: then it
    /// will be done.
    pub fn cancel(mut self) -> std::result::Result<(), Self> {
        let cancelled = self.pending().is_some_and(|pending| pending.comm.endpoint().cancel(pending.id));
        if cancelled {
            self.state = State::Spent;
            Ok(())
        } else {
            Err(self)
        }
    }
}

const SPENT: &str = "the result of this request was taken before";

impl<T> Drop for Request<'_, T> {
    fn drop(&mut self) {
        if let State::Pending(pending) = &self.state
            && !pending.kept
        {
            pending.comm.endpoint().abandon(pending.id);
        }
    }
}

impl<T> std::fmt::Debug for Request<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.state {
            State::Ready(_) => write!(f, "Request(done)"),
            State::Pending(pending) => write!(f, "Request({:?})", pending.id),
            State::Spent => write!(f, "Request(spent)"),
        }
    }
}

/// Waits for all requests and returns their results in order. If some fail, all are still waited for, and the first
/// error is returned.
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

/// Waits until one of the requests is done, takes it out of the vector (the last one gets its place, as by
/// [`Vec::swap_remove`]) and returns its place there and its result. Nothing if there are none. A call that has to wait looks
/// at all of them; of thousands, a [`RequestSet`](crate::RequestSet) waits for any at the price of one.
pub fn wait_any<T>(requests: &mut Vec<Request<'_, T>>) -> Option<(usize, Result<T>)> {
    let place = any_over(requests)?;
    Some((place, requests.swap_remove(place).wait()))
}

/// Waits until at least one of the requests is done, takes all that are out of the vector (the others keep their
/// order) and returns the places they had there and their results. Empty if there are none.
pub fn wait_some<T>(requests: &mut Vec<Request<'_, T>>) -> Vec<(usize, Result<T>)> {
    if any_over(requests).is_none() {
        return Vec::new();
    }
    let mut results = Vec::new();
    let mut rest = Vec::with_capacity(requests.len());
    for (place, request) in std::mem::take(requests).into_iter().enumerate() {
        if request.is_over() { results.push((place, request.wait())) } else { rest.push(request) }
    }
    *requests = rest;
    results
}

/// Waits for those near a place for as long as it takes to begin to wait for all.
fn wait_near<T>(requests: &[Request<'_, T>], one: &Pending<T>, place: usize) -> Option<usize> {
    const NEAR: usize = 4;
    const FOR_EACH: usize = 16;
    let range = place.saturating_sub(NEAR)..(place + NEAR).min(requests.len());
    (0..requests.len() / FOR_EACH).find_map(|_| {
        one.comm.endpoint().progress();
        range.clone().find(|near| requests[*near].is_over())
    })
}

/// Waits until one of the requests is over and returns its place. Nothing if there are none.
fn any_over<T>(requests: &[Request<'_, T>]) -> Option<usize> {
    // One that needs nobody is over, and whoever looked for others first would look at all of those again each time.
    let Some(first) = requests.first()?.pending() else { return Some(0) };
    // Requests mostly end in the order in which they were begun, or in the reverse: the next one is not far from the last one.
    let last = &first.comm.last_over;
    let (before, after) = requests.split_at(last.get().min(requests.len()));
    let place = after.iter().position(Request::is_over).map(|place| before.len() + place);
    let place = place.or_else(|| before.iter().rposition(Request::is_over));
    let place = place.or_else(|| wait_near(requests, first, before.len())).unwrap_or_else(|| {
        // None is over, so all are pending.
        let pending: Vec<&Pending<T>> = requests.iter().filter_map(Request::pending).collect();
        assert!(pending.iter().all(|other| other.comm.same_world(&first.comm)), "requests of one world are waited for");
        let ids: Vec<Id> = pending.iter().map(|pending| pending.id).collect();
        first.comm.endpoint().wait_any(&ids)
    });
    last.set(place);
    Some(place)
}
