//! Background tasks: advance whenever this rank makes progress.
//!
//! Progress steps only ready tasks (`ready_tasks`), so waiting tasks cost nothing.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use treepie_base::{BorrowScopeId, Error, Result};

use crate::backoff::Backoff;
use crate::endpoint::Endpoint;
use crate::op::{Envelope, Op, OpKind, OpState, WaitReason};
use crate::ready_tasks::TASK_CAPACITY;
use crate::search_depth;
use crate::slab::{OpId, Slab};

/// A background task, which runs until `step` returns its result. It is stepped when an operation that it has started
/// completes, when a message arrives for a protocol instance that it has opened, and when ranks are lost or abort.
pub trait Task {
    /// Advances as far as possible now. Must not wait.
    fn step(&mut self, endpoint: &mut Endpoint) -> Option<Result<()>>;

    /// Aborts the task: abandons the operations that it has started. Also called after a panic in `step`.
    fn abort(&mut self, endpoint: &mut Endpoint) {
        let _ = endpoint;
    }

    /// The rank finalizes before the task has completed. Peers that wait for its messages notice that by themselves.
    fn on_finalize(&mut self, endpoint: &mut Endpoint) {
        let _ = endpoint;
    }
}

/// The payload of a panic.
type Panic = Box<dyn Any + Send>;

/// The spawned tasks.
pub(crate) struct Tasks {
    all: Slab<Spawned>,
    /// Number of tasks ever spawned.
    spawned: u64,
    /// Tasks are not stepped now: one is being stepped, or the caller that waits may be one.
    pub(crate) are_suspended: bool,
    /// Scratch memory for the tasks to step.
    stepped: Vec<u32>,
}

struct Spawned {
    /// The operation that completes with it.
    op: OpId,
    task: Rc<RefCell<dyn Task>>,
    /// Its position in spawn order.
    order: u64,
}

impl Default for Tasks {
    fn default() -> Self {
        Self { all: Slab::new(), spawned: 0, are_suspended: false, stepped: Vec::with_capacity(TASK_CAPACITY) }
    }
}

impl Tasks {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// All tasks in spawn order.
    fn all_in_order(&self) -> Vec<u32> {
        let mut all = Vec::new();
        self.sort_by_order(true, &mut all);
        all
    }

    /// Sorts these tasks, or all, in spawn order.
    fn sort_by_order(&self, all: bool, some: &mut Vec<u32>) {
        if all {
            some.clear();
            some.extend(self.all.iter().map(|(id, _)| id.index));
        }
        some.retain(|task| self.all.at(*task).is_some());
        some.sort_unstable_by_key(|task| self.all.at(*task).map(|spawned| spawned.order));
    }
}

impl Endpoint {
    /// Spawns a task, which runs in the background until it completes.
    /// `scope` is the scope that its memory is borrowed in, if any; the task owns the operations that it starts.
    ///
    /// A task that panics has failed, and the panic resumes in the caller that makes progress; the endpoint stays
    /// usable.
    pub fn spawn(&mut self, task: Rc<RefCell<dyn Task>>, scope: Option<BorrowScopeId>) -> OpId {
        let op = self.state.ops.insert(Op { scope, ..Op::local(OpKind::Task) });
        self.tasks.spawned += 1;
        let spawned = Spawned { op, task: task.clone(), order: self.tasks.spawned };
        let id = self.tasks.all.insert(spawned);
        self.state.ops.get_mut(op).expect("just inserted").state = OpState::Task(id);
        // Operations that it starts may make progress, which must not step it again.
        let were_suspended = std::mem::replace(&mut self.tasks.are_suspended, true);
        let first = self.step_catching(&mut *task.borrow_mut(), Some(id.index));
        self.tasks.are_suspended = were_suspended;
        match first {
            Ok(Some(result)) => {
                self.tasks.all.remove(id);
                self.end_task(op, result);
            }
            Ok(None) => {}
            Err(panic) => {
                // The caller never gets this id.
                self.tasks.all.remove(id);
                self.state.ops.remove(op);
                resume_unwind(panic);
            }
        }
        op
    }

    /// Steps a task, spawned or not. It owns the operations that it starts: they do not count as operations of a scope.
    /// After a panic (a user-defined operator may panic) the endpoint is consistent, and the task is aborted.
    fn step_catching(
        &mut self,
        task: &mut dyn Task,
        number: Option<u32>,
    ) -> std::result::Result<Option<Result<()>>, Panic> {
        let before = (std::mem::replace(&mut self.in_task, true), std::mem::replace(&mut self.task, number));
        let result = catch_unwind(AssertUnwindSafe(|| task.step(self)));
        (self.in_task, self.task) = before;
        if result.is_err() {
            task.abort(self);
        }
        result
    }

    /// Aborts a task. False if the operation is no running task.
    pub fn abort_task(&mut self, id: OpId) -> bool {
        let Some(OpState::Task(task)) = self.state.ops.get(id).map(|op| &op.state) else { return false };
        let task = *task;
        let Some(spawned) = self.tasks.all.get(task) else { return false };
        let spawned = spawned.task.clone();
        // A task that is being stepped continues.
        let Ok(mut aborted) = spawned.try_borrow_mut() else { return false };
        self.tasks.all.remove(task);
        aborted.abort(self);
        self.state.ops.remove(id);
        true
    }

    /// Runs a task until it completes.
    pub fn run_task(&mut self, task: &mut dyn Task) -> Result<()> {
        let mut backoff = Backoff::default();
        loop {
            if let Some(result) = self.step_task(task) {
                return result;
            }
            self.progress_or_backoff(&mut backoff);
        }
    }

    /// Steps a task. Returns its result if it has completed.
    #[inline]
    pub fn step_task(&mut self, task: &mut dyn Task) -> Option<Result<()>> {
        self.step_catching(task, None).unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Makes progress, or backs off if there are no events.
    #[inline]
    pub fn progress_or_backoff(&mut self, backoff: &mut Backoff) {
        if self.progress() {
            backoff.reset();
        } else {
            self.backoff_collective(backoff);
        }
    }

    /// Backs off after progress without events.
    #[inline]
    pub fn backoff_collective(&mut self, backoff: &mut Backoff) {
        self.backoff(backoff, WaitReason::For("a collective operation"));
    }

    fn end_task(&mut self, id: OpId, result: Result<()>) {
        match result {
            Ok(()) => self.state.complete(id, Envelope::default()),
            Err(error) => self.state.fail(id, error),
        }
    }

    pub(crate) fn finalize_tasks(&mut self) {
        for task in self.tasks.all_in_order() {
            let Some(task) = self.tasks.all.at(task).map(|spawned| spawned.task.clone()) else { continue };
            // A task that is panicking has been aborted.
            if let Ok(mut task) = task.try_borrow_mut() {
                task.on_finalize(self);
            }
        }
    }

    pub(crate) fn cancel_tasks(&mut self) {
        for task in self.tasks.all_in_order() {
            let dropped = self.tasks.all.id_at(task).and_then(|id| self.tasks.all.take(id));
            dropped.into_iter().for_each(|spawned| self.state.fail(spawned.op, Error::Cancelled));
        }
    }

    /// Whether tasks are ready and may be stepped.
    #[inline]
    pub(crate) fn has_ready_tasks(&self) -> bool {
        !self.state.ready_tasks.is_empty() && !self.tasks.are_suspended && !self.tasks.is_empty()
    }

    /// Steps the ready tasks. Tasks do not step each other.
    #[cold]
    pub(crate) fn step_tasks(&mut self) {
        if std::mem::replace(&mut self.tasks.are_suspended, true) {
            return;
        }
        let mut ready = std::mem::take(&mut self.tasks.stepped);
        let all = self.state.ready_tasks.take(&mut ready);
        self.tasks.sort_by_order(all, &mut ready);
        let mut panicked = None;
        for &number in &ready {
            search_depth::count_step();
            if panicked.is_some() {
                self.state.ready_tasks.mark(number);
                continue;
            }
            let Some(id) = self.tasks.all.id_at(number) else { continue };
            let Some(Spawned { op, task, .. }) = self.tasks.all.get(id) else { continue };
            let (op, task) = (*op, task.clone());
            // A task in `on_finalize` is not stepped any more.
            let Ok(mut stepped) = task.try_borrow_mut() else { continue };
            let result = match self.step_catching(&mut *stepped, Some(number)) {
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
        self.tasks.stepped = ready;
        self.tasks.are_suspended = false;
        if let Some(panic) = panicked {
            resume_unwind(panic);
        }
    }
}
