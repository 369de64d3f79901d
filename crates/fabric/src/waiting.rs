//! Waiting for operations, looking after them and giving them up.

use std::time::Duration;

use treepie_base::{Lender, Result};

use crate::effort;
use crate::endpoint::Endpoint;
use crate::engine::Sleep;
use crate::op::{Completion, Envelope, Heed, Op, State, Waiting};
use crate::slab::Id;

const EXISTS: &str = "an operation that is waited for exists";

/// How long somebody has waited.
#[derive(Default)]
pub struct Patience {
    round: u32,
    /// How often it was looked after since something came.
    watched: u32,
    since: Option<Duration>,
    told: u32,
    asked: u32,
}

impl Patience {
    /// Something has come: stay awake again. What is waited for has not, so the time goes on.
    #[inline]
    pub fn stir(&mut self) {
        self.round = 0;
        self.watched = 0;
    }

    pub(crate) fn waited(&self, now: Duration) -> Duration {
        self.since.map_or(Duration::ZERO, |since| now - since)
    }
}

impl Endpoint {
    /// The result of an operation, if it is over; makes progress once if not.
    pub fn test(&mut self, id: Id) -> Option<Result<Completion>> {
        if let Some(result) = self.core.take_result(id) {
            return Some(result);
        }
        self.try_progress();
        self.core.take_result(id)
    }

    /// Makes progress for somebody who only looks; if there was none, looks after what those who wait do, and lets
    /// others run where ranks outnumber cores, as a loop of fruitless looks would keep them from it.
    pub(crate) fn try_progress(&mut self) {
        if !self.progress() {
            self.look_for_losses();
            self.fabric.give_way();
            self.tried_in_vain = self.tried_in_vain.wrapping_add(1);
            if self.tried_in_vain.is_multiple_of(256) {
                self.look_for_differing(Some(0));
            }
        }
    }

    /// The result of an operation, if it is over; makes no progress.
    pub fn result(&mut self, id: Id) -> Option<Result<Completion>> {
        self.core.take_result(id)
    }

    /// The same for an operation whose memory nobody asks for.
    #[inline]
    pub fn result_envelope(&mut self, id: Id) -> Option<Result<Envelope>> {
        self.core.take_envelope(id)
    }

    /// Waits for an operation to end.
    pub fn wait(&mut self, id: Id) -> Result<Completion> {
        self.wait_one(id);
        self.core.take_result(id).expect(EXISTS)
    }

    /// Waits for an operation to end whose memory nobody asks for.
    #[inline]
    pub fn wait_envelope(&mut self, id: Id) -> Result<Envelope> {
        if let Some(result) = self.core.take_envelope(id) {
            return result;
        }
        self.wait_one(id);
        self.core.take_envelope(id).expect(EXISTS)
    }

    /// Waits until one of these is over and returns its place.
    pub fn wait_any(&mut self, ids: &[Id]) -> usize {
        if let [id] = ids {
            self.wait_one(*id);
            return 0;
        }
        if let Some(place) = ids.iter().position(|id| self.is_over(*id)) {
            return place;
        }
        let queue = self.make_completion_queue();
        for (token, id) in ids.iter().enumerate() {
            effort::look();
            self.watch_operation(*id, queue, token as u32);
        }
        let (_, first) = self.wait_ended(queue, None, || ids.to_vec());
        ids.iter().for_each(|id| self.unwatch_operation(*id));
        let others = std::iter::from_fn(|| self.next_ended(queue)).map(|(_, token)| token);
        let place = others.fold(first, u32::min) as usize;
        self.remove_completion_queue(queue);
        place
    }

    fn wait_one(&mut self, id: Id) {
        let mut patience = Patience::default();
        loop {
            if self.is_over(id) {
                return;
            }
            if self.progress() {
                patience.stir();
            } else if !self.fail_if_circular(&[id]) {
                let what = self.core.describe(id).expect(EXISTS);
                self.pause(&mut patience, what);
            }
        }
    }

    /// Whether an operation is over.
    #[inline]
    pub fn is_over(&self, id: Id) -> bool {
        self.core.ops.get(id).is_none_or(Op::is_over)
    }

    /// Whether an operation goes on, or its result has not been taken.
    pub fn is_known(&self, id: Id) -> bool {
        self.core.ops.get(id).is_some()
    }

    /// Whether a send, or its announcement, has been put on its way.
    pub fn is_on_its_way(&self, id: Id) -> bool {
        self.core.ops.get(id).is_none_or(|op| !matches!(op.state, State::Queued))
    }

    /// The operations on memory of this lending whose result has not been taken.
    pub fn lent_by(&self, lender: Lender) -> Vec<Id> {
        self.core.ops.iter().filter(|(_, op)| op.lender == Some(lender)).map(|(id, _)| id).collect()
    }

    /// Takes back a receive that has no message yet. False if it has, or if it is no receive.
    pub fn cancel(&mut self, id: Id) -> bool {
        let cancelled = self.core.unpost(id);
        if cancelled {
            self.core.ops.remove(id);
        }
        cancelled
    }

    /// Gives up an operation: a receive without message is cancelled, anything else goes on unheeded.
    pub fn abandon(&mut self, id: Id) {
        if self.cancel(id) {
            return;
        }
        match self.core.ops.get_mut(id) {
            Some(op) if op.is_over() => self.core.ops.remove(id),
            Some(op) => op.heed = Heed::Nobody,
            None => {}
        }
    }

    /// Waits a little after nothing has come, and looks after what only those who wait have time for.
    #[cold]
    pub(crate) fn pause(&mut self, patience: &mut Patience, what: Waiting) {
        if self.has_new_given_up() {
            return;
        }
        let sleep = self.fabric.sleep(patience.round);
        let differs = match sleep {
            Sleep::Brief => false,
            Sleep::AWhile => self.look_for_differing(Some(patience.watched)),
            Sleep::ForGood => self.look_for_differing(None),
        };
        if differs {
            return;
        }
        let slept = self.fabric.idle(patience.round);
        patience.round += 1;
        self.look_for_losses();
        if slept || patience.round.is_multiple_of(256) {
            if sleep == Sleep::Brief {
                self.look_for_differing(Some(patience.watched));
            }
            self.watch(patience, what);
        }
    }

    /// After a long time: says what is waited for, if asked to, and asks a silent peer whether it is still there.
    fn watch(&mut self, patience: &mut Patience, what: Waiting) {
        self.fabric.waits_for(&what);
        patience.watched += 1;
        let now = self.fabric.now();
        let waited = now - *patience.since.get_or_insert(now);
        if let Some(stall) = self.stall
            && waited >= stall * (patience.told + 1)
        {
            patience.told += 1;
            eprintln!("treepie: rank {} has waited {:.1} s in {what}", self.core.rank, waited.as_secs_f64());
        }
        if !self.fabric.knows_life() && waited >= Duration::from_millis(500) * (patience.asked + 1) {
            patience.asked += 1;
            self.ask_whether_they_are_there(what);
        }
    }
}
