//! Checked mode: before each collective operation, ranks compare their calls.
//!
//! The comparison is a collective operation itself, with the instance number before that of the operation. Every call
//! takes both numbers, whichever call it is and however it ends, so that ranks stay in step after a mismatch.

mod comparison;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use treepie_base::{BorrowScopeId, Error, Result};
use treepie_fabric::{AbortReason, Endpoint, OpId, PROTOCOL_TAG_BIT, ProtocolInstance, Task, operation_tag};
use treepie_schedule::Operation;

use crate::collective::job::{INSTANCE_MASK, forget_aborted_ahead};
use crate::comm::{Comm, CommInner};
use crate::reactor_task::ReactorTask;
pub(crate) use comparison::name_profile;
use comparison::{CallComparison, RankCall};

impl Comm {
    /// A handle of the same communicator in checked mode: before each collective operation, ranks compare their calls.
    /// If the calls differ, every rank gets [`Error::CollectiveMismatch`], which names both calls, and can continue.
    /// Communicators created from this handle are checked as well. All ranks of a call must use a checked handle.
    /// `TREEPIE_CHECKED=1` enables checked mode for the world.
    pub fn checked(&self) -> Comm {
        let mut choice = self.collectives.choice.clone();
        choice.checked = true;
        self.with_choice(choice)
    }

    /// The same, not checked.
    pub(crate) fn unchecked(&self) -> Comm {
        let mut choice = self.collectives.choice.clone();
        choice.checked = false;
        self.with_choice(choice)
    }

    /// Whether ranks compare their calls on this handle.
    #[inline]
    pub fn is_checked(&self) -> bool {
        self.collectives.choice.checked
    }

    /// Whether this call is to be compared. A call that is part of a compared one is not.
    #[inline]
    pub(crate) fn needs_comparison(&self) -> bool {
        self.is_checked() && !self.inner.in_checked_call.get()
    }

    /// Takes the instance number of the comparison, if there is to be one. The caller takes that of its operation next.
    /// If the result is dropped unused, the other ranks learn that the call is refused here.
    #[inline]
    pub(crate) fn announce(&self, call: impl FnOnce() -> String) -> AnnouncedCall {
        AnnouncedCall(if self.needs_comparison() { Some(Box::new(self.start_comparison(call()))) } else { None })
    }

    #[cold]
    fn start_comparison(&self, call: String) -> ComparisonTask {
        let instance = self.next_instance();
        let comparison = CallComparison::new(self.rank() as u32, self.size() as u32, call);
        let running = self.reactor_task(comparison, instance);
        let next = operation_tag(instance.wrapping_add(1));
        ComparisonTask {
            running,
            comm: self.inner.clone(),
            context: self.collective_context(),
            next,
            is_awaited: false,
        }
    }

    /// Compares a composed call, including the algorithms selected for the operations it consists of. These operations
    /// are not compared while the returned guard lives.
    pub(crate) fn compare_call(
        &self,
        operations: &[Operation],
        call: impl FnOnce() -> String,
    ) -> Result<ComparedGuard<'_>> {
        if !self.needs_comparison() {
            return Ok(ComparedGuard(None));
        }
        let mut unused = Unused(Some(self));
        self.announce(|| call() + &self.describe_choice(operations)).wait_for_agreement()?;
        unused.0 = None;
        self.inner.in_checked_call.set(true);
        Ok(ComparedGuard(Some(&self.inner.in_checked_call)))
    }

    /// Takes part in the comparison of a call that is refused here, and in nothing else.
    pub(crate) fn compare_refused_call(&self, call: impl FnOnce() -> String) {
        drop(self.announce(call));
        self.skip_instance();
    }

    /// Takes an instance number that no operation uses. Aborts recorded under it are kept.
    fn skip_instance(&self) {
        let instance = self.inner.instances.get();
        self.inner.instances.set(instance.wrapping_add(1));
        forget_aborted_ahead(&mut self.endpoint(), self.collective_context(), instance);
    }

    /// Starts an operation in the background, after its comparison.
    pub(crate) fn spawn(
        &self,
        announced: AnnouncedCall,
        task: Rc<RefCell<dyn Task>>,
        lender: Option<BorrowScopeId>,
    ) -> OpId {
        let task = announced.gate(task);
        self.endpoint().spawn(task, lender)
    }
}

/// The instance number of an operation that does not start, because its comparison fails or an operator panics
/// meanwhile.
struct Unused<'a>(Option<&'a Comm>);

impl Drop for Unused<'_> {
    fn drop(&mut self) {
        if let Some(comm) = self.0 {
            comm.skip_instance();
        }
    }
}

/// Suppresses comparisons within a call that was compared, while it lives.
pub(crate) struct ComparedGuard<'a>(Option<&'a Cell<bool>>);

impl Drop for ComparedGuard<'_> {
    fn drop(&mut self) {
        if let Some(compared) = self.0 {
            compared.set(false);
        }
    }
}

/// A call that is announced and not yet compared; empty outside of checked mode.
pub(crate) struct AnnouncedCall(Option<Box<ComparisonTask>>);

impl AnnouncedCall {
    /// Waits until all ranks have announced a call; an error if the calls differ.
    #[inline]
    pub(crate) fn wait_for_agreement(self) -> Result<()> {
        if self.0.is_some() { self.run_comparison() } else { Ok(()) }
    }

    #[cold]
    fn run_comparison(mut self) -> Result<()> {
        let Some(comparing) = &mut self.0 else { return Ok(()) };
        comparing.is_awaited = true;
        let comm = comparing.comm.clone();
        // Aborted by `drop` if an operator panics meanwhile.
        let result = comm.endpoint().run_task(&mut **comparing);
        self.0 = None;
        result
    }

    /// The task, gated by the comparison.
    fn gate(mut self, task: Rc<RefCell<dyn Task>>) -> Rc<RefCell<dyn Task>> {
        match self.0.take() {
            None => task,
            comparing => Rc::new(RefCell::new(GatedTask { comparing, task })),
        }
    }
}

impl Drop for AnnouncedCall {
    fn drop(&mut self) {
        let Some(mut comparing) = self.0.take() else { return };
        let comm = comparing.comm.clone();
        let mut endpoint = comm.endpoint();
        if comparing.is_awaited {
            comparing.abort(&mut endpoint);
            return;
        }
        // The call was refused. The comparison continues in the background; this rank ignores its result.
        comparing.running.reactor_mut().refuse();
        let id = endpoint.spawn(Rc::new(RefCell::new(*comparing)), None);
        endpoint.abandon(id);
    }
}

/// A comparison in progress.
struct ComparisonTask {
    running: ReactorTask<CallComparison>,
    comm: Rc<CommInner>,
    context: u32,
    /// Tag of the operation that follows.
    next: u64,
    /// Whether a caller waits for it.
    is_awaited: bool,
}

impl ComparisonTask {
    fn result(&mut self, endpoint: &mut Endpoint) -> Result<()> {
        if self.running.reactor_mut().ended_early() {
            self.running.finish_early(CallComparison::departure_messages, endpoint);
        }
        let Some(both) = self.running.reactor_mut().difference() else { return Ok(()) };
        // Errors name world ranks.
        let mut world =
            |rank_call: &RankCall| self.comm.members.world_rank(rank_call.rank, endpoint).map(|rank| rank as usize);
        let (first, second) = (world(&both[0])?, world(&both[1])?);
        Err(Error::CollectiveMismatch { first, second, calls: Box::new(both.map(|rank_call| rank_call.call)) })
    }

    /// Others may know already that all calls agree, and be in the operation: notifies them that this rank will not
    /// take part.
    fn abort_next(&self, endpoint: &mut Endpoint, mask: u64, why: AbortReason) {
        let bits = self.next | mask & PROTOCOL_TAG_BIT;
        endpoint.abort_messages(self.context, mask, bits, why);
        // If that is a protocol, its messages may be queued here for an instance that will not start.
        endpoint.close_protocol(ProtocolInstance { context: self.context, tag: self.next | PROTOCOL_TAG_BIT });
        let others = self.comm.members.world_ranks(endpoint);
        endpoint.announce_abort(self.context, mask, bits, why, others.into_iter());
    }
}

impl Task for ComparisonTask {
    fn step(&mut self, endpoint: &mut Endpoint) -> Option<Result<()>> {
        let result = self.running.step(endpoint)?;
        let Err(error) = result else { return Some(self.result(endpoint)) };
        self.abort_next(endpoint, INSTANCE_MASK, AbortReason::from_error(&error));
        Some(Err(error))
    }

    fn abort(&mut self, endpoint: &mut Endpoint) {
        self.running.abort(endpoint);
        self.abort_next(endpoint, INSTANCE_MASK, AbortReason::Unspecified);
    }

    /// A rank that waits for a message of a finalized rank notices that, but a rank that runs a protocol does not. A
    /// rank that calls something else must learn of the mismatch, not of a lost peer.
    fn on_finalize(&mut self, endpoint: &mut Endpoint) {
        self.running.send_all(CallComparison::departure_messages, endpoint);
        self.running.on_finalize(endpoint);
        let own = endpoint.rank();
        self.abort_next(endpoint, INSTANCE_MASK | PROTOCOL_TAG_BIT, AbortReason::PeerLost(own));
    }
}

/// An operation that starts after its comparison.
struct GatedTask {
    comparing: Option<Box<ComparisonTask>>,
    task: Rc<RefCell<dyn Task>>,
}

impl GatedTask {
    fn with_current<R>(&mut self, use_it: impl FnOnce(&mut dyn Task) -> R) -> R {
        match &mut self.comparing {
            Some(comparing) => use_it(&mut **comparing),
            None => use_it(&mut *self.task.borrow_mut()),
        }
    }
}

impl Task for GatedTask {
    fn step(&mut self, endpoint: &mut Endpoint) -> Option<Result<()>> {
        if let Some(comparing) = &mut self.comparing {
            match comparing.step(endpoint)? {
                Ok(()) => self.comparing = None,
                Err(error) => return Some(Err(error)),
            }
        }
        self.task.borrow_mut().step(endpoint)
    }

    fn abort(&mut self, endpoint: &mut Endpoint) {
        self.with_current(|task| task.abort(endpoint));
    }

    fn on_finalize(&mut self, endpoint: &mut Endpoint) {
        self.with_current(|task| task.on_finalize(endpoint));
    }
}
