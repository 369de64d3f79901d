//! Tasks: what goes on beside the caller, whenever this rank makes progress.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use treepie_base::{Error, Lender, Result};

use crate::endpoint::Endpoint;
use crate::op::{Envelope, Op, Waiting, What};
use crate::slab::Id;
use crate::waiting::Patience;

/// Something that goes on beside the caller: stepped when something has happened, until it returns its result.
pub trait Task {
    /// Does what can be done now. Must not wait.
    fn step(&mut self, endpoint: &mut Endpoint) -> Option<Result<()>>;

    /// Ends it before it is done: gives up the operations that it has begun. Also called after a panic in `step`.
    fn give_up(&mut self, endpoint: &mut Endpoint) {
        let _ = endpoint;
    }

    /// The rank leaves the world before it is done. Peers notice that by themselves where they wait for a message of it.
    fn leave(&mut self, endpoint: &mut Endpoint) {
        let _ = endpoint;
    }
}

/// What a panic carries.
type Panic = Box<dyn Any + Send>;

impl Endpoint {
    /// Lets a task run beside the caller until it ends.
    /// `lender` is whose memory it uses, if that is lent; the operations that it begins are its own matter.
    ///
    /// A task that panics has failed, and the panic goes on in whoever makes progress; the endpoint stays of use.
    pub fn spawn(&mut self, task: Rc<RefCell<dyn Task>>, lender: Option<Lender>) -> Id {
        let id = self.core.ops.insert(Op { lender, ..Op::other(What::Task) });
        let first = self.step(&mut *task.borrow_mut());
        match first {
            Ok(Some(result)) => self.end_task(id, result),
            Ok(None) => self.tasks.push((id, task)),
            Err(panic) => {
                // Nobody learns of this number.
                self.core.ops.remove(id);
                resume_unwind(panic);
            }
        }
        id
    }

    /// Steps a task. What it begins meanwhile is its own: nobody who looks for operations on lent memory sees it.
    /// A panic in it (an operator is the program's) leaves the endpoint whole, and what the task has begun given up.
    fn step(&mut self, task: &mut dyn Task) -> std::result::Result<Option<Result<()>>, Panic> {
        let before = std::mem::replace(&mut self.in_task, true);
        let result = catch_unwind(AssertUnwindSafe(|| task.step(self)));
        self.in_task = before;
        if result.is_err() {
            task.give_up(self);
        }
        result
    }

    /// Ends a task that goes on. False if it is none.
    pub fn give_up(&mut self, id: Id) -> bool {
        let Some(place) = self.tasks.iter().position(|(task, _)| *task == id) else { return false };
        let (_, task) = self.tasks.swap_remove(place);
        task.borrow_mut().give_up(self);
        self.core.ops.remove(id);
        true
    }

    /// Lets a task run until it ends.
    pub fn run(&mut self, task: &mut dyn Task) -> Result<()> {
        let mut patience = Patience::default();
        loop {
            if let Some(result) = self.step_on(task) {
                return result;
            }
            self.wait_on(&mut patience);
        }
    }

    /// Lets a task get on. The result, if it is over.
    #[inline]
    pub fn step_on(&mut self, task: &mut dyn Task) -> Option<Result<()>> {
        self.step(task).unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Handles what has come, or waits a little if there is nothing.
    #[inline]
    pub fn wait_on(&mut self, patience: &mut Patience) {
        if self.progress() {
            patience.stir();
        } else {
            self.rest(patience);
        }
    }

    /// Waits a little after nothing has come.
    #[inline]
    pub fn rest(&mut self, patience: &mut Patience) {
        self.pause(patience, Waiting::For("a collective operation"));
    }

    fn end_task(&mut self, id: Id, result: Result<()>) {
        match result {
            Ok(()) => self.core.complete(id, Envelope::default()),
            Err(error) => self.core.fail(id, error),
        }
    }

    pub(crate) fn leave_tasks(&mut self) {
        for (_, task) in self.tasks.clone() {
            // One that panics right now has given up what it had begun.
            if let Ok(mut task) = task.try_borrow_mut() {
                task.leave(self);
            }
        }
    }

    pub(crate) fn drop_tasks(&mut self) {
        for (id, _) in std::mem::take(&mut self.tasks) {
            self.core.fail(id, Error::Cancelled);
        }
    }

    #[cold]
    pub(crate) fn step_tasks(&mut self) {
        // Taken out while they run, as they use the endpoint; none of them steps the others.
        let mut running = std::mem::take(&mut self.tasks);
        let mut panicked = None;
        running.retain(|(id, task)| {
            if panicked.is_some() {
                return true;
            }
            match self.step(&mut *task.borrow_mut()) {
                Ok(None) => true,
                Ok(Some(result)) => {
                    self.end_task(*id, result);
                    false
                }
                Err(panic) => {
                    self.end_task(*id, Err(Error::Cancelled));
                    panicked = Some(panic);
                    false
                }
            }
        });
        running.append(&mut self.tasks);
        self.tasks = running;
        if let Some(panic) = panicked {
            resume_unwind(panic);
        }
    }
}
