//! The short form: one message type, one owner map, one handler.
//!
//! It is a runtime with one message type. The state of that runtime holds the owner map and the handler beside the
//! program's state, so both may borrow, and the handler is inlined into the loop over a buffer like any other.

use std::any::type_name;

use bytemuck::Pod;
use serde::Serialize;
use serde::de::DeserializeOwned;
use treepie_base::{Rank, Result};
use treepie_comm::Comm;

use crate::port::{Parcel, Port};
use crate::runtime::ActiveMessages;
use crate::send_path::SendPath;

/// Sends each message to its owner, where the handler gets it, in one epoch: when it returns, all messages of all
/// ranks have been handled. Returns the sum over all ranks of the values passed to [`OwnerContext::add_to_sum`].
///
/// A collective operation: all ranks call it with the same owner map and handler, each with its own messages, which may
/// be none. The handler may send further messages, and must not use the communicator.
///
/// ```
/// # fn main() -> treepie_base::Result<()> {
/// # let world = treepie_comm::Comm::world(Box::new(treepie_fabric::Singleton::new()));
/// // A histogram of 100 bins on each rank.
/// let mut bins = vec![0; 100];
/// let values = (0..1000_usize).map(|i| i * i % (100 * world.size()));
/// treepie_am::run(&world, &mut bins, values, |value| value / 100, |bins, _, value| bins[value % 100] += 1)?;
/// assert_eq!(bins.iter().sum::<u64>(), 1000);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::BadRank`](treepie_base::Error::BadRank) on a rank whose owner map returns a rank that does not exist; the
/// others then get [`Error::Aborted`](treepie_base::Error::Aborted).
/// [`Error::MessageTypeMismatch`](treepie_base::Error::MessageTypeMismatch) if ranks call it with different types.
pub fn run<S, M, O, H>(
    comm: &Comm,
    state: &mut S,
    messages: impl IntoIterator<Item = M>,
    owner: O,
    handler: H,
) -> Result<u64>
where
    M: Pod,
    O: Fn(&M) -> Rank,
    H: FnMut(&mut S, &mut OwnerContext<'_, Port<M>, O>, M),
{
    OwnerMessages::start(comm, state, owner, handler)?.epoch(messages)
}

/// [`run`] for messages of variable length: anything that serde can serialize.
///
/// ```
/// use std::collections::HashMap;
/// # fn main() -> treepie_base::Result<()> {
/// # let world = treepie_comm::Comm::world(Box::new(treepie_fabric::Singleton::new()));
/// let ranks = world.size();
/// let mut counts = HashMap::new();
/// let words = "to be or not to be".split(' ').map(str::to_owned);
/// treepie_am::run_objects(&world, &mut counts, words, |word| word.len() % ranks, |counts, _, word| {
///     *counts.entry(word).or_insert(0) += 1;
/// })?;
/// assert_eq!(counts["be"], 2);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Those of [`run`]; [`Error::Algorithm`](treepie_base::Error::Algorithm) if a message cannot be serialized.
pub fn run_objects<S, T, O, H>(
    comm: &Comm,
    state: &mut S,
    messages: impl IntoIterator<Item = T>,
    owner: O,
    handler: H,
) -> Result<u64>
where
    T: Serialize + DeserializeOwned,
    O: Fn(&T) -> Rank,
    H: FnMut(&mut S, &mut OwnerContext<'_, Parcel<T>, O>, T),
{
    OwnerMessages::start_objects(comm, state, owner, handler)?.epoch(messages)
}

/// Messages of one type to their owners, for several epochs: [`run`] is one epoch of it.
///
/// ```
/// # fn main() -> treepie_base::Result<()> {
/// # let world = treepie_comm::Comm::world(Box::new(treepie_fabric::Singleton::new()));
/// // Breadth-first search of a binary tree: an epoch for each level.
/// let ranks = world.size() as u64;
/// let mut next: Vec<u64> = Vec::new();
/// let owner = |vertex: &u64| (vertex % ranks) as usize;
/// let mut search = treepie_am::OwnerMessages::start(&world, &mut next, owner, |next, cx, vertex| {
///     next.push(vertex);
///     cx.add_to_sum(1);
/// })?;
/// let mut frontier = vec![1];
/// for level in 1..=10 {
///     let children = frontier.drain(..).flat_map(|vertex| [2 * vertex, 2 * vertex + 1]);
///     assert_eq!(search.epoch(children)?, 1 << level);
///     std::mem::swap(&mut frontier, search.state());
/// }
/// # Ok(())
/// # }
/// ```
pub struct OwnerMessages<'a, S, P, O, H> {
    am: ActiveMessages<OwnerState<'a, S, P, O, H>>,
    state: OwnerState<'a, S, P, O, H>,
}

/// The state of the runtime.
struct OwnerState<'a, S, P, O, H> {
    state: &'a mut S,
    port: P,
    owner: O,
    handler: H,
}

/// The interface of the handler of [`run`] or [`run_objects`]: sends to owners, and this rank.
pub struct OwnerContext<'a, P, O> {
    sends: &'a mut SendPath,
    port: P,
    owner: &'a O,
}

impl<P, O> OwnerContext<'_, P, O> {
    /// This rank.
    pub fn rank(&self) -> Rank {
        self.sends.rank as Rank
    }

    /// The number of ranks.
    pub fn ranks(&self) -> usize {
        self.sends.ranks as usize
    }

    /// Adds to the sum that the epoch returns.
    #[inline]
    pub fn add_to_sum(&mut self, value: u64) {
        self.sends.add_to_sum(value);
    }
}

impl<M: Pod, O: Fn(&M) -> Rank> OwnerContext<'_, Port<M>, O> {
    /// Sends a message to its owner. It is handled there before the epoch ends.
    #[inline(always)]
    pub fn send(&mut self, message: M) {
        self.sends.send(self.port, (self.owner)(&message), message);
    }
}

impl<T: Serialize, O: Fn(&T) -> Rank> OwnerContext<'_, Parcel<T>, O> {
    /// Sends a message to its owner. It is handled there before the epoch ends.
    pub fn send(&mut self, message: &T) {
        self.sends.send_parcel(self.port, (self.owner)(message), message);
    }
}

impl<S, P: Copy, O, H> OwnerState<'_, S, P, O, H> {
    /// Calls the handler.
    #[inline(always)]
    fn handle<M>(&mut self, sends: &mut SendPath, message: M)
    where
        H: FnMut(&mut S, &mut OwnerContext<'_, P, O>, M),
    {
        let Self { state, port, owner, handler } = self;
        handler(state, &mut OwnerContext { sends, port: *port, owner }, message);
    }
}

impl<S, P, O, H> OwnerMessages<'_, S, P, O, H> {
    /// The state that the handler works on.
    pub fn state(&mut self) -> &mut S {
        self.state.state
    }
}

impl<'a, S, M, O, H> OwnerMessages<'a, S, Port<M>, O, H>
where
    M: Pod,
    O: Fn(&M) -> Rank,
{
    /// Starts the runtime. All ranks call it, with the same owner map and handler.
    ///
    /// # Errors
    /// [`Error::MessageTypeMismatch`](treepie_base::Error::MessageTypeMismatch) on all ranks if their types differ.
    pub fn start(comm: &Comm, state: &'a mut S, owner: O, handler: H) -> Result<Self>
    where
        H: FnMut(&mut S, &mut OwnerContext<'_, Port<M>, O>, M),
    {
        let mut build = ActiveMessages::builder(comm);
        let port = build.port(type_name::<M>());
        build.on(port, |state: &mut OwnerState<'a, S, _, O, H>, context, message| {
            state.handle(&mut context.sends, message);
        });
        Ok(Self { am: build.start()?, state: OwnerState { state, port, owner, handler } })
    }

    /// Sends each message to its owner, in one epoch, as [`run`] does.
    pub fn epoch(&mut self, messages: impl IntoIterator<Item = M>) -> Result<u64> {
        self.am.epoch_for(&mut self.state, messages, |context, state, message| {
            context.send(state.port, (state.owner)(&message), message);
        })
    }
}

impl<'a, S, T, O, H> OwnerMessages<'a, S, Parcel<T>, O, H>
where
    T: Serialize + DeserializeOwned,
    O: Fn(&T) -> Rank,
{
    /// [`start`](Self::start) for messages of variable length: anything that serde can serialize.
    pub fn start_objects(comm: &Comm, state: &'a mut S, owner: O, handler: H) -> Result<Self>
    where
        H: FnMut(&mut S, &mut OwnerContext<'_, Parcel<T>, O>, T),
    {
        let mut build = ActiveMessages::builder(comm);
        let port = build.parcel(type_name::<T>());
        build.on_parcel(port, |state: &mut OwnerState<'a, S, _, O, H>, context, message| {
            state.handle(&mut context.sends, message);
        });
        Ok(Self { am: build.start()?, state: OwnerState { state, port, owner, handler } })
    }

    /// Sends each message to its owner, in one epoch, as [`run_objects`] does.
    pub fn epoch(&mut self, messages: impl IntoIterator<Item = T>) -> Result<u64> {
        self.am.epoch_for(&mut self.state, messages, |context, state, message| {
            context.send_parcel(state.port, (state.owner)(&message), &message);
        })
    }
}
