//! Handles of message types. They are created before the handlers, so that handlers can send through them.

use std::fmt;
use std::marker::PhantomData;

use treepie_base::Rank;

/// A type of plain-data messages.
pub struct Port<M> {
    pub(crate) index: usize,
    message: PhantomData<fn(M)>,
}

impl<M> Port<M> {
    pub(crate) fn new(index: usize) -> Self {
        Self { index, message: PhantomData }
    }
}

impl<M> Clone for Port<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Port<M> {}

impl<M> fmt::Debug for Port<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Port({})", self.index)
    }
}

/// A type of plain-data messages whose destination follows from the message, by an owner map.
#[derive(Clone, Copy)]
pub struct Target<M, F> {
    /// The port, for registration and for sends to ranks other than the owner.
    pub port: Port<M>,
    pub(crate) owner: F,
}

impl<M, F: Fn(&M) -> Rank> Target<M, F> {
    pub(crate) fn new(port: Port<M>, owner: F) -> Self {
        Self { port, owner }
    }

    /// The destination of a message.
    pub fn owner_of(&self, message: &M) -> Rank {
        (self.owner)(message)
    }
}

impl<M, F> From<Target<M, F>> for Port<M> {
    fn from(target: Target<M, F>) -> Self {
        target.port
    }
}

impl<M, F> From<&Target<M, F>> for Port<M> {
    fn from(target: &Target<M, F>) -> Self {
        target.port
    }
}

/// A type of variable-length messages.
pub struct Parcel<T> {
    pub(crate) index: usize,
    message: PhantomData<fn(T)>,
}

impl<T> Parcel<T> {
    pub(crate) fn new(index: usize) -> Self {
        Self { index, message: PhantomData }
    }
}

impl<T> Clone for Parcel<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Parcel<T> {}

/// A type of requests `Q` with replies `R`. Each request carries a note `N` that returns with its reply.
pub struct Call<Q, R, N = u32> {
    pub(crate) request: usize,
    pub(crate) reply: usize,
    types: PhantomData<fn(Q, N) -> R>,
}

impl<Q, R, N> Call<Q, R, N> {
    pub(crate) fn new(request: usize, reply: usize) -> Self {
        Self { request, reply, types: PhantomData }
    }
}

impl<Q, R, N> Clone for Call<Q, R, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Q, R, N> Copy for Call<Q, R, N> {}

/// A message type of any kind, for [`Builder::configure`](crate::Builder::configure).
pub trait MessageType {
    /// The indices of the registered types that it consists of.
    fn indices(&self) -> Vec<usize>;
}

impl<M> MessageType for Port<M> {
    fn indices(&self) -> Vec<usize> {
        vec![self.index]
    }
}

impl<M, F> MessageType for Target<M, F> {
    fn indices(&self) -> Vec<usize> {
        self.port.indices()
    }
}

impl<T> MessageType for Parcel<T> {
    fn indices(&self) -> Vec<usize> {
        vec![self.index]
    }
}

impl<Q, R, N> MessageType for Call<Q, R, N> {
    fn indices(&self) -> Vec<usize> {
        vec![self.request, self.reply]
    }
}
