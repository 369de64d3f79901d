//! Tasks: what goes on beside the caller, whenever this rank makes progress.
//!
//! Only those are stepped that have something to do ([`Due`](crate::completions::Due)), so that many that wait cost nothing.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use treepie_base::{Error, Lender, Result};

use crate::completions::ROOM;
use crate::effort;
use crate::endpoint::Endpoint;
use crate::op::{Envelope, Op, State, Waiting, What};
use crate::slab::{Id, Slab};
use crate::waiting::Patience;

/// Something that goes on beside the caller, until it returns its result. It is stepped when an operation that it has begun is
/// over, when a message has come for a run that it listens to, and when ranks are lost or give something up.
pub trait Task {
    /// Does all that can be done now. Must not wait.
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

/// The tasks that go on.
pub(crate) struct Tasks {
    all: Slab<Spawned>,
    /// How many there have been.
    spawned: u64,
    /// They are not stepped now: one of them is, or somebody waits who may be one.
    pub(crate) are_held: bool,
    /// Memory for those that are stepped.
    stepped: Vec<u32>,
}

struct Spawned {
    /// The operation that ends with it.
    op: Id,
    task: Rc<RefCell<dyn Task>>,
    /// Its place in the order of all that there have been.
    order: u64,
}

impl Default for Tasks {
    fn default() -> Self {
        Self { all: Slab::new(), spawned: 0, are_held: false, stepped: Vec::with_capacity(ROOM) }
    }
}

impl Tasks {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// All, in the order in which they were spawned.
    fn all_in_order(&self) -> Vec<u32> {
        let mut all = Vec::new();
        self.put_in_order(true, &mut all);
        all
    }

    /// Puts these, or all, into the order in which they were spawned.
    fn put_in_order(&self, all: bool, some: &mut Vec<u32>) {
        if all {
            some.clear();
            some.extend(self.all.iter().map(|(id, _)| id.index));
        }
        some.retain(|task| self.all.at(*task).is_some());
        some.sort_unstable_by_key(|task| self.all.at(*task).map(|spawned| spawned.order));
    }
}

impl Endpoint {
    /// Lets a task run beside the caller until it ends.
    /// `lender` is whose memory it uses, if that is lent; the operations that it begins are its own matter.
    ///
    /// A task that panics has failed, and the panic goes on in whoever makes progress; the endpoint stays of use.
    pub fn spawn(&mut self, task: Rc<RefCell<dyn Task>>, lender: Option<Lender>) -> Id {
        let op = self.core.ops.insert(Op { lender, ..Op::other(What::Task) });
        self.tasks.spawned += 1;
        let spawned = Spawned { op, task: task.clone(), order: self.tasks.spawned };
        let id = self.tasks.all.insert(spawned);
        self.core.ops.get_mut(op).expect("just made").state = State::Task(id);
        // What it begins may look for messages at once, which must not step it once more.
        let held = std::mem::replace(&mut self.tasks.are_held, true);
        let first = self.step(&mut *task.borrow_mut(), Some(id.index));
        self.tasks.are_held = held;
        match first {
            Ok(Some(result)) => {
                self.tasks.all.remove(id);
                self.end_task(op, result);
            }
            Ok(None) => {}
            Err(panic) => {
                // Nobody learns of this number.
                self.tasks.all.remove(id);
                self.core.ops.remove(op);
                resume_unwind(panic);
            }
        }
        op
    }

    /// Steps a task, which may be one of those that were spawned. What it begins meanwhile is its own: nobody who looks for
    /// operations on lent memory sees it.
    /// A panic in it (an operator is the program's) leaves the endpoint whole, and what the task has begun given up.
    fn step(&mut self, task: &mut dyn Task, number: Option<u32>) -> std::result::Result<Option<Result<()>>, Panic> {
        let before = (std::mem::replace(&mut self.in_task, true), std::mem::replace(&mut self.task, number));
        let result = catch_unwind(AssertUnwindSafe(|| task.step(self)));
        (self.in_task, self.task) = before;
        if result.is_err() {
            task.give_up(self);
        }
        result
    }

    /// Ends a task that goes on. False if it is none.
    pub fn give_up(&mut self, id: Id) -> bool {
        let Some(State::Task(task)) = self.core.ops.get(id).map(|op| &op.state) else { return false };
        let task = *task;
        let Some(spawned) = self.tasks.all.get(task) else { return false };
        let spawned = spawned.task.clone();
        // One that is being stepped goes on.
        let Ok(mut given_up) = spawned.try_borrow_mut() else { return false };
        self.tasks.all.remove(task);
        given_up.give_up(self);
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
        self.step(task, None).unwrap_or_else(|panic| resume_unwind(panic))
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
        for task in self.tasks.all_in_order() {
            let Some(task) = self.tasks.all.at(task).map(|spawned| spawned.task.clone()) else { continue };
            // One that panics right now has given up what it had begun.
            if let Ok(mut task) = task.try_borrow_mut() {
                task.leave(self);
            }
        }
    }

    pub(crate) fn drop_tasks(&mut self) {
        for task in self.tasks.all_in_order() {
            let dropped = self.tasks.all.id_at(task).and_then(|id| self.tasks.all.take(id));
            dropped.into_iter().for_each(|spawned| self.core.fail(spawned.op, Error::Cancelled));
        }
    }

    /// Whether tasks have something to do, and may be stepped.
    #[inline]
    pub(crate) fn tasks_are_due(&self) -> bool {
        !self.core.due.is_empty() && !self.tasks.are_held && !self.tasks.is_empty()
    }

    /// Steps those that have something to do. None of them steps the others.
    #[cold]
    pub(crate) fn step_tasks(&mut self) {
        if std::mem::replace(&mut self.tasks.are_held, true) {
            return;
        }
        let mut due = std::mem::take(&mut self.tasks.stepped);
        let all = self.core.due.take(&mut due);
        self.tasks.put_in_order(all, &mut due);
        let mut panicked = None;
        for &number in &due {
            effort::look();
            if panicked.is_some() {
                self.core.due.mark(number);
                continue;
            }
            let Some(id) = self.tasks.all.id_at(number) else { continue };
            let Some(Spawned { op, task, .. }) = self.tasks.all.get(id) else { continue };
            let (op, task) = (*op, task.clone());
            // One that leaves right now is stepped no more.
            let Ok(mut stepped) = task.try_borrow_mut() else { continue };
            let result = match self.step(&mut *stepped, Some(number)) {
                Ok(None) => continue,
                Ok(Some(result)) => result,
                Err(panic) => {
                    panicked = Some(panic);
                    Err(Error::Cancelled)
                }
            };
            self.tasks.all.remove(id);
            self.end_task(op, result);
        }
        self.tasks.stepped = due;
        self.tasks.are_held = false;
        if let Some(panic) = panicked {
            resume_unwind(panic);
        }
    }
}
