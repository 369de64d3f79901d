//! The context: what bodies and handlers may do.

use bytemuck::{Pod, Zeroable};
use treepie_base::Rank;

use crate::port::{Port, Target};
use crate::send_path::SendPath;
use crate::type_channel::TypeChannel;

/// The interface of bodies and handlers: sends, and this rank.
///
/// It exists only during an epoch, so nothing can be sent outside. It cannot escape the epoch:
///
/// ```compile_fail,E0521
/// # use treepie_am::{ActiveMessages, Port};
/// # fn run(mut am: ActiveMessages<u64>, port: Port<u64>) -> treepie_base::Result<()> {
/// let mut carried = None;
/// am.epoch_for(&mut 0, 0..1, |cx, _, _| carried = Some(cx))?;
/// carried.unwrap().send(port, 0, 1);
/// # Ok(())
/// # }
/// ```
pub struct Context<S> {
    pub(crate) sends: SendPath,
    pub(crate) continuations: Continuations<S>,
    /// The message type of spawned closures.
    pub(crate) spawn_type: Option<usize>,
}

impl<S> Context<S> {
    pub(crate) fn new(rank: u32, ranks: u32, channels: Vec<TypeChannel>) -> Self {
        let sends = SendPath::new(rank, ranks, channels);
        Self { sends, continuations: Continuations::default(), spawn_type: None }
    }

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

    /// Sends a message. Its handler runs on that rank before the epoch ends.
    #[inline(always)]
    pub fn send<M: Pod>(&mut self, port: Port<M>, to: Rank, message: M) {
        self.sends.send(port, to, message);
    }

    /// Sends a message to the rank given by the owner map of its type.
    #[inline(always)]
    pub fn send_to_owner<M: Pod, F: Fn(&M) -> Rank>(&mut self, target: &Target<M, F>, message: M) {
        self.send(target.port, target.owner_of(&message), message);
    }

    /// Sends several messages to one rank.
    pub fn send_slice<M: Pod>(&mut self, port: Port<M>, to: Rank, messages: &[M]) {
        messages.iter().for_each(|message| self.send(port, to, *message));
    }

    /// Discards what a failed epoch has left.
    pub(crate) fn clear(&mut self) {
        self.sends.clear();
        self.continuations.clear();
    }
}

/// The number of a closure that waits for a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct ContinuationId(u32);

pub(crate) type Continuation<S> = Box<dyn FnOnce(&mut S, &mut Context<S>, &[u8])>;

/// Closures that wait for replies.
pub(crate) struct Continuations<S> {
    waiting: Vec<Option<Continuation<S>>>,
    free: Vec<u32>,
}

impl<S> Default for Continuations<S> {
    fn default() -> Self {
        Self { waiting: Vec::new(), free: Vec::new() }
    }
}

impl<S> Continuations<S> {
    pub(crate) fn insert(&mut self, then: Continuation<S>) -> ContinuationId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.waiting.push(None);
            self.waiting.len() as u32 - 1
        });
        self.waiting[id as usize] = Some(then);
        ContinuationId(id)
    }

    pub(crate) fn take(&mut self, ContinuationId(id): ContinuationId) -> Option<Continuation<S>> {
        let then = self.waiting.get_mut(id as usize)?.take();
        self.free.push(id);
        then
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}
