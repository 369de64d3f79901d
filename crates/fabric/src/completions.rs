//! Completion queues: which of many operations have ended, without a look at each of them.
//!
//! An operation that is watched puts itself into its queue when it ends, so whoever waits for any of many pays for those that
//! have ended, not for those that wait. Operations of tasks mark their task, which is stepped then.

use std::collections::VecDeque;

use crate::core::Core;
use crate::endpoint::Endpoint;
use crate::heard::Run;
use crate::op::{Heed, Op, Waiting};
use crate::slab::Id;
use crate::waiting::Patience;

/// The name of a completion queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletionQueue(Id);

/// Operations that have ended, in that order, each with the token under which it is watched.
pub(crate) struct Ended {
    operations: VecDeque<(Id, u32)>,
    /// The task whose operations they are.
    task: Option<u32>,
}

/// Room for so many tasks at first: as seldom more go on at once, nothing is allocated for them later.
pub(crate) const ROOM: usize = 64;

/// The tasks that have something to do.
pub(crate) struct Due {
    list: Vec<u32>,
    /// By task, whether it is in the list.
    is_listed: Vec<bool>,
    all: bool,
}

impl Default for Due {
    fn default() -> Self {
        Self { list: Vec::with_capacity(ROOM), is_listed: Vec::with_capacity(ROOM), all: false }
    }
}

impl Due {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty() && !self.all
    }

    /// A task has something to do.
    pub(crate) fn mark(&mut self, task: u32) {
        if self.is_listed.len() <= task as usize {
            self.is_listed.resize(task as usize + 1, false);
        }
        if !std::mem::replace(&mut self.is_listed[task as usize], true) {
            self.list.push(task);
        }
    }

    /// Something has happened that may concern every task.
    pub(crate) fn mark_all(&mut self) {
        self.all = true;
    }

    /// Takes those that are marked, and says whether all are. What is marked from now on is new, and comes into the memory that
    /// `into` had: tasks are stepped all the time, and nothing is allocated for it.
    pub(crate) fn take(&mut self, into: &mut Vec<u32>) -> bool {
        into.clear();
        std::mem::swap(&mut self.list, into);
        into.iter().for_each(|task| self.is_listed[*task as usize] = false);
        std::mem::take(&mut self.all)
    }
}

impl Core {
    /// Tells whoever is to be told that an operation has ended.
    #[cold]
    pub(crate) fn tell_end(&mut self, id: Id) {
        let Some(op) = self.ops.get(id) else { return };
        match op.heed {
            Heed::Kept => {}
            Heed::Nobody => self.ops.remove(id),
            Heed::Task(task) => self.due.mark(task),
            Heed::Run => {
                let key = op.key;
                self.moved(Run::of(key), key.source);
            }
            Heed::Queue { queue, token } => {
                if let Some(ended) = self.completions.get_mut(queue) {
                    ended.operations.push_back((id, token));
                    ended.task.into_iter().for_each(|task| self.due.mark(task));
                }
            }
        }
    }
}

impl Endpoint {
    /// Makes a completion queue. One that is made by a task has the task stepped when something ends.
    pub fn make_completion_queue(&mut self) -> CompletionQueue {
        let ended = Ended { operations: VecDeque::new(), task: self.task };
        CompletionQueue(self.core.completions.insert(ended))
    }

    /// Removes a completion queue. Operations that it watches go on as if it had never been.
    pub fn remove_completion_queue(&mut self, queue: CompletionQueue) {
        self.core.completions.remove(queue.0);
    }

    /// Has an operation put into a queue when it ends, with this token; at once if it has ended. An operation is in one queue at
    /// most.
    pub fn watch_operation(&mut self, id: Id, queue: CompletionQueue, token: u32) {
        let Some(op) = self.core.ops.get_mut(id) else { return };
        op.heed = Heed::Queue { queue: queue.0, token };
        if op.is_over() {
            self.core.tell_end(id);
        }
    }

    /// Ends the watch of an operation.
    pub fn unwatch_operation(&mut self, id: Id) {
        if let Some(op) = self.core.ops.get_mut(id)
            && let Heed::Queue { .. } = op.heed
        {
            op.heed = Heed::Kept;
        }
    }

    /// Takes the operation out of a queue that ended first. Its result is still to be taken.
    #[inline]
    pub fn next_ended(&mut self, queue: CompletionQueue) -> Option<(Id, u32)> {
        self.core.completions.get_mut(queue.0)?.operations.pop_front()
    }

    /// The same; waits for one that is watched to end. `alone`: the only one that is watched. `all`: those that are, asked for
    /// only where nothing can come.
    pub fn wait_ended(&mut self, queue: CompletionQueue, alone: Option<Id>, all: impl Fn() -> Vec<Id>) -> (Id, u32) {
        let mut patience = Patience::default();
        loop {
            if let Some(ended) = self.next_ended(queue) {
                return ended;
            }
            if self.progress() {
                patience.stir();
                continue;
            }
            let is_circular = match alone {
                Some(id) => self.fail_if_circular(&[id]),
                None => !self.fabric.is_here() && self.fail_if_circular(&all()),
            };
            if !is_circular {
                let what = alone.and_then(|id| self.core.describe(id));
                self.pause(&mut patience, what.unwrap_or(Waiting::For("any of several requests")));
            }
        }
    }

    /// Looks whether one that is watched has ended; makes progress once if not.
    pub fn test_ended(&mut self, queue: CompletionQueue) -> Option<(Id, u32)> {
        if let Some(ended) = self.next_ended(queue) {
            return Some(ended);
        }
        self.try_progress();
        self.next_ended(queue)
    }

    /// An operation of whoever begins it: a task's end is told to that.
    #[inline]
    pub(crate) fn owned(&self, op: Op) -> Op {
        if self.in_task { op.of_task(self.task) } else { op }
    }
}
