//! Checked mode: before each collective operation ranks compare what they call.
//!
//! The comparison is a collective operation of its own, under the number before that of the operation. All calls take both
//! numbers, whatever they are and however they end, so that ranks stay in step after a difference.

mod agreement;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::OnceLock;

use treepie_base::{Error, Lender, Result};
use treepie_fabric::{Endpoint, Id, PROTOCOL, Run, Task, Why, run_tag};
use treepie_schedule::Operation;

use crate::collective::job::{INSTANCE_MASK, forget_far};
use crate::comm::{Comm, Inner};
use crate::reactor::Running;
use agreement::{Agreement, Said};

/// Whether `TREEPIE_CHECKED` asks for it.
pub(crate) fn is_asked_for() -> bool {
    static ASKED: OnceLock<bool> = OnceLock::new();
    *ASKED.get_or_init(|| treepie_base::environment::checked().unwrap_or(false))
}

impl Comm {
    /// A handle of the same communicator in checked mode: before each operation of all ranks they compare what they call. If
    /// calls differ, every rank gets [`Error::CallsDiffer`], which says how, and can go on. Communicators that are made from
    /// it are checked as well. All ranks that take part in a call must use such a handle. `TREEPIE_CHECKED=1` does that for
    /// the world.
    pub fn checked(&self) -> Comm {
        let mut choice = self.collectives.choice.clone();
        choice.checked = true;
        self.with_choice(choice)
    }

    /// Whether ranks compare what they call on this handle.
    #[inline]
    pub fn is_checked(&self) -> bool {
        self.collectives.choice.checked
    }

    /// Whether this call is to be compared: not if it is a part of one that was.
    #[inline]
    pub(crate) fn compares(&self) -> bool {
        self.is_checked() && !self.inner.compared.get()
    }

    /// Takes the number of the comparison, if there is to be one. The caller takes that of its operation next. If what it
    /// gets is dropped without being used, others are told that the call is refused here.
    #[inline]
    pub(crate) fn announce(&self, call: impl FnOnce() -> String) -> Announced {
        Announced(if self.compares() { Some(Box::new(self.compare(call()))) } else { None })
    }

    #[cold]
    fn compare(&self, call: String) -> Comparing {
        let instance = self.next_instance();
        let agreement = Agreement::new(self.rank() as u32, self.size() as u32, call);
        let running = self.running(agreement, instance);
        let next = run_tag(instance.wrapping_add(1));
        Comparing { running, comm: self.inner.clone(), context: self.own_context(), next, begun: false }
    }

    /// Compares a call that is made of others, and what was said about these operations among them. They are not compared while
    /// what this returns is there.
    pub(crate) fn agree_on(&self, made_of: &[Operation], call: impl FnOnce() -> String) -> Result<Compared<'_>> {
        if !self.compares() {
            return Ok(Compared(None));
        }
        let mut unused = Unused(Some(self));
        self.announce(|| call() + &self.choice_in_words(made_of)).settle()?;
        unused.0 = None;
        self.inner.compared.set(true);
        Ok(Compared(Some(&self.inner.compared)))
    }

    /// Takes part in the comparison of a call that is refused here, and in nothing more.
    pub(crate) fn compare_refused(&self, call: impl FnOnce() -> String) {
        drop(self.announce(call));
        self.skip_instance();
    }

    /// Takes a number that nobody uses. What was given up under it is not forgotten.
    fn skip_instance(&self) {
        let instance = self.inner.instances.get();
        self.inner.instances.set(instance.wrapping_add(1));
        forget_far(&mut self.endpoint(), self.own_context(), instance);
    }

    /// Lets an operation run beside the caller, after the comparison.
    pub(crate) fn spawn(&self, announced: Announced, task: Rc<RefCell<dyn Task>>, lender: Option<Lender>) -> Id {
        let task = announced.before(task);
        self.endpoint().spawn(task, lender)
    }
}

/// The number of an operation that does not begin, if its comparison fails or somebody's operator panics meanwhile.
struct Unused<'a>(Option<&'a Comm>);

impl Drop for Unused<'_> {
    fn drop(&mut self) {
        if let Some(comm) = self.0 {
            comm.skip_instance();
        }
    }
}

/// While it is there, parts of a call that was compared go on.
pub(crate) struct Compared<'a>(Option<&'a Cell<bool>>);

impl Drop for Compared<'_> {
    fn drop(&mut self) {
        if let Some(compared) = self.0 {
            compared.set(false);
        }
    }
}

/// A call that was announced, and not yet compared; empty outside checked mode.
pub(crate) struct Announced(Option<Box<Comparing>>);

impl Announced {
    /// Waits until all ranks have announced a call, and returns whether it is the same.
    #[inline]
    pub(crate) fn settle(self) -> Result<()> {
        if self.0.is_some() { self.settle_now() } else { Ok(()) }
    }

    #[cold]
    fn settle_now(mut self) -> Result<()> {
        let Some(comparing) = &mut self.0 else { return Ok(()) };
        comparing.begun = true;
        let comm = comparing.comm.clone();
        // Given up by the drop if somebody's operator panics meanwhile.
        let result = comm.endpoint().run(&mut **comparing);
        self.0 = None;
        result
    }

    /// The task behind the comparison.
    fn before(mut self, task: Rc<RefCell<dyn Task>>) -> Rc<RefCell<dyn Task>> {
        match self.0.take() {
            None => task,
            comparing => Rc::new(RefCell::new(Gated { comparing, task })),
        }
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        let Some(mut comparing) = self.0.take() else { return };
        let comm = comparing.comm.clone();
        let mut endpoint = comm.endpoint();
        if comparing.begun {
            comparing.give_up(&mut endpoint);
            return;
        }
        // The call was refused. The comparison goes on beside the program, and nobody here heeds its result.
        comparing.running.reactor_mut().refuse();
        let id = endpoint.spawn(Rc::new(RefCell::new(*comparing)), None);
        endpoint.abandon(id);
    }
}

/// A comparison that goes on.
struct Comparing {
    running: Running<Agreement>,
    comm: Rc<Inner>,
    context: u32,
    /// Of the operation that is to follow.
    next: u64,
    /// Somebody waits for it.
    begun: bool,
}

impl Comparing {
    fn result(&mut self, endpoint: &mut Endpoint) -> Result<()> {
        if self.running.reactor_mut().ended_early() {
            self.running.end_with(Agreement::last_words, endpoint);
        }
        let Some(both) = self.running.reactor_mut().difference() else { return Ok(()) };
        // Errors name ranks of the world.
        let mut world = |said: &Said| self.comm.members.world(said.rank, endpoint).map(|rank| rank as usize);
        let (first, second) = (world(&both[0])?, world(&both[1])?);
        Err(Error::CallsDiffer { first, second, calls: Box::new(both.map(|said| said.call)) })
    }

    /// Others may know already that all agree, and be in the operation: they are told that this rank does not come.
    fn give_up_next(&self, endpoint: &mut Endpoint, mask: u64, why: Why) {
        let bits = self.next | mask & PROTOCOL;
        endpoint.give_up_messages(self.context, mask, bits, why);
        // If that is a protocol, messages of it may wait here for somebody to listen.
        endpoint.stop_listening(Run { context: self.context, tag: self.next | PROTOCOL });
        let others = self.comm.members.all_in_world(endpoint);
        endpoint.tell_gave_up(self.context, mask, bits, why, others.into_iter());
    }
}

impl Task for Comparing {
    fn step(&mut self, endpoint: &mut Endpoint) -> Option<Result<()>> {
        let result = self.running.step(endpoint)?;
        let Err(error) = result else { return Some(self.result(endpoint)) };
        self.give_up_next(endpoint, INSTANCE_MASK, Why::of(&error));
        Some(Err(error))
    }

    fn give_up(&mut self, endpoint: &mut Endpoint) {
        self.running.give_up(endpoint);
        self.give_up_next(endpoint, INSTANCE_MASK, Why::Unsaid);
    }

    /// Who waits for a message of a rank that has left notices that, but not who runs a protocol.
    /// Whoever calls something else is to hear that, and not that this rank is lost.
    fn leave(&mut self, endpoint: &mut Endpoint) {
        self.running.say(Agreement::last_words, endpoint);
        self.running.leave(endpoint);
        let own = endpoint.rank();
        self.give_up_next(endpoint, INSTANCE_MASK | PROTOCOL, Why::Lost(own));
    }
}

/// An operation that begins when the comparison is over.
struct Gated {
    comparing: Option<Box<Comparing>>,
    task: Rc<RefCell<dyn Task>>,
}

impl Gated {
    fn with_current<R>(&mut self, use_it: impl FnOnce(&mut dyn Task) -> R) -> R {
        match &mut self.comparing {
            Some(comparing) => use_it(&mut **comparing),
            None => use_it(&mut *self.task.borrow_mut()),
        }
    }
}

impl Task for Gated {
    fn step(&mut self, endpoint: &mut Endpoint) -> Option<Result<()>> {
        if let Some(comparing) = &mut self.comparing {
            match comparing.step(endpoint)? {
                Ok(()) => self.comparing = None,
                Err(error) => return Some(Err(error)),
            }
        }
        self.task.borrow_mut().step(endpoint)
    }

    fn give_up(&mut self, endpoint: &mut Endpoint) {
        self.with_current(|task| task.give_up(endpoint));
    }

    fn leave(&mut self, endpoint: &mut Endpoint) {
        self.with_current(|task| task.leave(endpoint));
    }
}
