//! Deferred frees: parts of shared tables whose communicators were dropped.
//!
//! Ranks drop a communicator independently, possibly while the endpoint is in use. So its memory is queued here and
//! freed when the next communicator is created. Mapped memory has a reference count in itself, and the last rank frees
//! it. Otherwise other ranks may still look up rows in a rank's part: all ranks take part in a barrier in the
//! background, after which the part is freed.

use std::cell::RefCell;
use std::rc::Rc;

use treepie_base::{Bytes, Result, Span};
use treepie_fabric::{Address, CallSignature, Endpoint, OpId, RecvTarget, Select, Started, Task};

use super::Members;
use crate::dissemination::RingPosition;

/// Something to free later.
pub(crate) enum DeferredFree {
    /// Shared memory that no rank uses.
    Memory { at: u64, bytes: u64 },
    /// A context whose group is not needed any more.
    Group { context: u32 },
    /// A part in which others may still look up rows, and the ranks of the communicator that was split.
    TablePart { window: u32, parent: Rc<Members>, rank: u32 },
}

/// What a rank has to free later.
#[derive(Default)]
pub(crate) struct DeferredFrees(RefCell<Vec<DeferredFree>>);

impl DeferredFrees {
    pub(super) fn push(&self, free: DeferredFree) {
        self.0.borrow_mut().push(free);
    }

    /// Deregisters the group of an unused context later; the endpoint is in use now.
    pub(crate) fn defer_group_removal(&self, context: u32) {
        self.push(DeferredFree::Group { context });
    }

    /// Frees what is queued. `stays`: the rank does not finalize now.
    pub(crate) fn run_frees(&self, endpoint: &mut Endpoint, stays: bool) {
        // What is queued meanwhile is freed the next time.
        for free in self.0.take() {
            match free {
                DeferredFree::Memory { at, bytes } => {
                    if let Some(heap) = endpoint.fabric().shared_heap() {
                        heap.release(at, bytes).expect("the memory was reserved");
                    }
                }
                DeferredFree::Group { context } => endpoint.deregister_group(context),
                DeferredFree::TablePart { window, parent, rank } if stays => {
                    let barrier = ReleaseBarrier { window, parent, rank, step: 0, receive: None };
                    let id = endpoint.spawn(Rc::new(RefCell::new(barrier)), None);
                    endpoint.abandon(id);
                }
                // Freed with the world.
                DeferredFree::TablePart { .. } => {}
            }
        }
    }
}

/// A dissemination barrier of all ranks that were split, after which the part is freed. If a rank is lost meanwhile,
/// the part stays until the rank finalizes. As long as some rank keeps its communicator, the receive of this barrier
/// stays posted on the others, which makes matching slightly slower.
///
/// Not a [`Dissemination`](crate::dissemination::Dissemination): the task that would drive it finds world ranks by the
/// members, which own this.
struct ReleaseBarrier {
    window: u32,
    parent: Rc<Members>,
    rank: u32,
    step: u32,
    receive: Option<OpId>,
}

impl ReleaseBarrier {
    /// Whether all ranks have arrived.
    fn advance(&mut self, endpoint: &mut Endpoint) -> Result<bool> {
        let position = RingPosition { rank: self.rank, ranks: self.parent.ranks() };
        while self.step < position.rounds() {
            let distance = 1 << self.step;
            let id = match self.receive {
                Some(id) => id,
                None => {
                    let to = self.parent.world_rank(position.ahead(distance), endpoint)?;
                    let from = self.parent.world_rank(position.behind(distance), endpoint)?;
                    let (context, tag, call) = (self.window, self.step.into(), CallSignature::NONE);
                    let address = Address { context, to, tag, synchronous: false, call };
                    if let Started::Pending(send) = endpoint.isend(address, empty())? {
                        endpoint.abandon(send);
                    }
                    let select = Select { context, source: Some(from), tag: Some(tag), call };
                    endpoint.irecv(select, RecvTarget::Into(empty()))
                }
            };
            self.receive = Some(id);
            let Some(result) = endpoint.take_envelope(id) else { return Ok(false) };
            self.receive = None;
            result?;
            self.step += 1;
        }
        Ok(true)
    }
}

impl Task for ReleaseBarrier {
    fn step(&mut self, endpoint: &mut Endpoint) -> Option<Result<()>> {
        match self.advance(endpoint) {
            Ok(false) => None,
            Ok(true) => {
                endpoint.window_free(self.window);
                Some(Ok(()))
            }
            Err(error) => Some(Err(error)),
        }
    }
}

fn empty() -> Span {
    Span::from(Bytes::from(Vec::<u8>::new()))
}
