//! Parts of shared tables whose communicators are gone.
//!
//! Communicators end by being dropped, on each rank when it likes, also while the endpoint is in use. So what they leave behind is
//! noted, and seen to when the next communicator is made. Shared memory is counted out in itself, and the last gives it back.
//! Elsewhere a rank may still be asked for its part: all ranks tell each other that they are done, beside whatever they do then.

use std::cell::RefCell;
use std::rc::Rc;

use treepie_base::{Bytes, Result, Span};
use treepie_fabric::{Address, Call, Endpoint, Id, Select, Started, Target, Task};

use super::Members;
use super::shared::Piece;

/// What is to be seen to.
pub(crate) enum Leftover {
    /// Shared memory that nobody uses.
    Memory { at: u64, bytes: u64 },
    /// A context whose ranks nobody needs to know any more.
    Group { context: u32 },
    /// A part for which others may still ask: all ranks of the communicator that was split, of which this is one.
    Part { window: u32, parent: Rc<Members>, rank: u32 },
}

/// What is to be seen to by a rank.
#[derive(Default)]
pub(crate) struct Leftovers(RefCell<Vec<Leftover>>);

impl Leftovers {
    pub(super) fn push(&self, leftover: Leftover) {
        self.0.borrow_mut().push(leftover);
    }

    /// The context is not used any more; the endpoint, which knows its ranks, is in use now.
    pub(crate) fn forget_group_later(&self, context: u32) {
        self.push(Leftover::Group { context });
    }

    /// This rank does not need a piece any more.
    pub(super) fn done_with(&self, piece: &Piece) {
        if piece.memory.fetch_add(0, 1) + 1 == u64::from(piece.layout.ranks) {
            self.push(Leftover::Memory { at: piece.at, bytes: piece.layout.bytes() });
        }
    }

    /// Sees to it. `stays`: the rank does not leave the world now.
    pub(crate) fn clear(&self, endpoint: &mut Endpoint, stays: bool) {
        // What comes up meanwhile is for the next time.
        for leftover in self.0.take() {
            match leftover {
                Leftover::Memory { at, bytes } => {
                    if let Some(heap) = endpoint.fabric().shared() {
                        heap.release(at, bytes).expect("what is left behind was reserved");
                    }
                }
                Leftover::Group { context } => endpoint.forget_group(context),
                Leftover::Part { window, parent, rank } if stays => {
                    let farewell = Farewell { window, parent, rank, step: 0, receive: None };
                    let id = endpoint.spawn(Rc::new(RefCell::new(farewell)), None);
                    endpoint.abandon(id);
                }
                // It goes with the world.
                Leftover::Part { .. } => {}
            }
        }
    }
}

/// A barrier of all ranks that were split, after which the part goes. If some rank is lost meanwhile, it stays until the end of the
/// world. As long as a rank keeps its communicator, the others carry this along, and receive a little slower for it.
struct Farewell {
    window: u32,
    parent: Rc<Members>,
    rank: u32,
    step: u32,
    receive: Option<Id>,
}

impl Farewell {
    fn rank(&self, distance: i64) -> u32 {
        (i64::from(self.rank) + distance).rem_euclid(self.parent.ranks().into()) as u32
    }

    /// Whether all have said that they are done.
    fn advance(&mut self, endpoint: &mut Endpoint) -> Result<bool> {
        while 1 << self.step < i64::from(self.parent.ranks()) {
            let distance = 1 << self.step;
            let id = match self.receive {
                Some(id) => id,
                None => {
                    let to = self.parent.world(self.rank(distance), endpoint)?;
                    let from = self.parent.world(self.rank(-distance), endpoint)?;
                    let (context, tag, call) = (self.window, self.step.into(), Call::NONE);
                    let address = Address { context, to, tag, synchronous: false, call };
                    if let Started::Pending(send) = endpoint.start_send(address, nothing())? {
                        endpoint.abandon(send);
                    }
                    let select = Select { context, source: Some(from), tag: Some(tag), call };
                    endpoint.start_recv(select, Target::Into(nothing()))
                }
            };
            self.receive = Some(id);
            let Some(ended) = endpoint.result_envelope(id) else { return Ok(false) };
            self.receive = None;
            ended?;
            self.step += 1;
        }
        Ok(true)
    }
}

impl Task for Farewell {
    fn step(&mut self, endpoint: &mut Endpoint) -> Option<Result<()>> {
        match self.advance(endpoint) {
            Ok(false) => None,
            Ok(true) => {
                endpoint.window_end(self.window);
                Some(Ok(()))
            }
            Err(error) => Some(Err(error)),
        }
    }
}

fn nothing() -> Span {
    Span::from(Bytes::from(Vec::<u8>::new()))
}
