//! Completion queues: find the completed ones among many operations without a scan.
//!
//! A watched operation enters its queue when it completes, so waiting for any of many operations costs by completed
//! operations, not by pending ones. An operation of a task marks its task as ready.

use std::collections::VecDeque;

use crate::backoff::Backoff;
use crate::endpoint::Endpoint;
use crate::endpoint_state::{CompletedOps, EndpointState};
use crate::op::{OnCompletion, Op, WaitReason};
use crate::protocol_queues::ProtocolInstance;
use crate::slab::OpId;

/// A handle of a completion queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletionQueue(OpId);

impl EndpointState {
    /// Notifies the queue, task or protocol of a completed operation.
    #[cold]
    pub(crate) fn notify_completion(&mut self, id: OpId) {
        let Some(op) = self.ops.get(id) else { return };
        match op.on_completion {
            OnCompletion::Keep => {}
            OnCompletion::Discard => self.ops.remove(id),
            OnCompletion::Task(task) => self.ready_tasks.mark(task),
            OnCompletion::Protocol => {
                let key = op.key;
                self.unblock_protocol(ProtocolInstance::from_key(key), key.source);
            }
            OnCompletion::Queue { queue, token } => {
                if let Some(completed) = self.completion_queues.get_mut(queue) {
                    completed.operations.push_back((id, token));
                    completed.task.into_iter().for_each(|task| self.ready_tasks.mark(task));
                }
            }
        }
    }
}

impl Endpoint {
    /// Creates a completion queue. If a task creates it, completions mark the task as ready.
    pub fn create_completion_queue(&mut self) -> CompletionQueue {
        let completed = CompletedOps { operations: VecDeque::new(), task: self.task };
        CompletionQueue(self.state.completion_queues.insert(completed))
    }

    /// Removes a completion queue. Watched operations continue, unwatched.
    pub fn remove_completion_queue(&mut self, queue: CompletionQueue) {
        self.state.completion_queues.remove(queue.0);
    }

    /// Watches an operation: it enters the queue with this token when it completes, or at once if it is complete. At
    /// most one queue watches an operation.
    pub fn watch_operation(&mut self, id: OpId, queue: CompletionQueue, token: u32) {
        let Some(op) = self.state.ops.get_mut(id) else { return };
        op.on_completion = OnCompletion::Queue { queue: queue.0, token };
        if op.is_complete() {
            self.state.notify_completion(id);
        }
    }

    /// Stops watching an operation.
    pub fn unwatch_operation(&mut self, id: OpId) {
        if let Some(op) = self.state.ops.get_mut(id)
            && let OnCompletion::Queue { .. } = op.on_completion
        {
            op.on_completion = OnCompletion::Keep;
        }
    }

    /// Removes the operation that completed first from a queue. The caller still has to take its result.
    #[inline]
    pub fn poll_completion(&mut self, queue: CompletionQueue) -> Option<(OpId, u32)> {
        self.state.completion_queues.get_mut(queue.0)?.operations.pop_front()
    }

    /// As [`poll_completion`](Self::poll_completion), but waits until a watched operation completes. `single`: the
    /// watched operation, if there is just one. `all`: all watched operations; called only where nothing can be
    /// received.
    pub fn wait_completion(
        &mut self,
        queue: CompletionQueue,
        single: Option<OpId>,
        all: impl Fn() -> Vec<OpId>,
    ) -> (OpId, u32) {
        let mut backoff = Backoff::default();
        loop {
            if let Some(completed) = self.poll_completion(queue) {
                return completed;
            }
            if self.progress() {
                backoff.reset();
                continue;
            }
            let is_deadlocked = match single {
                Some(id) => self.fail_if_deadlocked(&[id]),
                None => !self.fabric.is_current_rank() && self.fail_if_deadlocked(&all()),
            };
            if !is_deadlocked {
                let reason = single.and_then(|id| self.state.wait_reason(id));
                self.backoff(&mut backoff, reason.unwrap_or(WaitReason::For("any of several requests")));
            }
        }
    }

    /// As [`poll_completion`](Self::poll_completion), but makes progress once if the queue is empty.
    pub fn test_completion(&mut self, queue: CompletionQueue) -> Option<(OpId, u32)> {
        if let Some(completed) = self.poll_completion(queue) {
            return Some(completed);
        }
        self.try_progress();
        self.poll_completion(queue)
    }

    /// Assigns an operation that a task starts to that task, which its completion marks as ready.
    #[inline]
    pub(crate) fn with_current_task(&self, op: Op) -> Op {
        if self.in_task { op.owned_by_task(self.task) } else { op }
    }
}
