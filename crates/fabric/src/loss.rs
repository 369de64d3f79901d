//! Ranks that end: what becomes of operations that wait for them, and how this rank itself leaves.
//!
//! A receive fails as soon as its source starts nothing new (`Leaving`) and all it sent has been read. A send fails
//! when its receiver refuses it, which a rank that leaves does with everything it has not received, or when the
//! receiver is gone altogether, so that nobody touches the send's memory any more.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use treepie_base::{Error, Lender, Result, Settling, Span};

use crate::bins::{ANY, Key};
use crate::core::Core;
use crate::endpoint::Endpoint;
use crate::engine::{Head, Life};
use crate::given_up::Why;
use crate::kind;
use crate::matching::Arrived;
use crate::op::{Op, State, Waiting, What};
use crate::slab::Id;
use crate::waiting::Patience;

/// Some ranks of the world.
pub trait Group {
    /// How many.
    fn ranks(&self) -> u32;
    /// Whether this one is among them, if that is known.
    fn contains(&self, rank: u32) -> Option<bool>;
}

impl Endpoint {
    /// Notices ranks that have ended, and fails what waits for them.
    #[inline]
    pub fn look_for_losses(&mut self) {
        if self.news != Some(self.fabric.news()) || self.core.gone_said {
            self.find_losses();
        }
    }

    #[cold]
    fn find_losses(&mut self) {
        if !self.fabric.is_here() {
            return;
        }
        let known = self.news.replace(self.fabric.news());
        self.core.gone_said = false;
        let Core { lives, rank: own, peers, .. } = &mut self.core;
        self.fabric.changed_since(known, &mut |rank, life| {
            if rank != *own {
                lives.set(rank, life, peers.len() as u32);
            }
        });
        // What a rank did before it ended counts: read it all before anything fails.
        let finding = std::mem::replace(&mut self.finding_losses, true);
        let read = catch_unwind(AssertUnwindSafe(|| self.read_all()));
        self.finding_losses = finding;
        self.fail_receives();
        self.fail_sends();
        self.drop_offers_of_the_failed();
        if !self.core.lives.all_here() {
            self.fail_gatherings();
        }
        self.act();
        self.core.due.mark_all();
        if let Err(panic) = read {
            // That of a task; what is lost is lost all the same, and others hear of it.
            resume_unwind(panic);
        }
        self.step_tasks();
    }

    /// Reads everything that peers have sent until now.
    fn read_all(&mut self) {
        let begun = self.fabric.begun_for_this();
        loop {
            while self.progress() {}
            if self.fabric.has_read(begun) {
                return;
            }
            // Somebody is about to publish a record, and may have been interrupted there.
            std::thread::yield_now();
        }
    }

    fn is_gone(&self, rank: u32) -> bool {
        matches!(self.core.lives.of(rank), Life::Left | Life::Dead)
    }

    /// Why whoever asks can never get a message of this key: the rank that is lost.
    pub(crate) fn hopeless(&self, key: Key) -> Option<u32> {
        if self.fabric.is_here() { self.lost(key) } else { Some(self.lost_astray(key)) }
    }

    /// The rank that is named where nothing can be received because this is not the rank's own code.
    pub(crate) fn lost_astray(&self, key: Key) -> u32 {
        if key.source == ANY { self.core.rank } else { key.source }
    }

    /// Why a receive of this key can never get a message: the rank that is lost.
    fn lost(&self, key: Key) -> Option<u32> {
        let lives = &self.core.lives;
        if lives.all_here() {
            return None;
        }
        if key.source != ANY {
            return lives.is_lost(key.source).then_some(key.source);
        }
        match self.group_of(key.context) {
            None => lives.first_failed().or_else(|| lives.first().filter(|_| lives.lost() + 1 >= self.size())),
            Some(group) => {
                let lost = (0..self.size()).filter(|rank| lives.is_lost(*rank));
                let failed = lost.clone().find(|rank| lives.has_failed(*rank) && group.contains(*rank) != Some(false));
                let mut members = lost.filter(|rank| group.contains(*rank) == Some(true));
                let all = members.clone().count() as u32 + 1 >= group.ranks();
                // Where nobody is left at all, it does not matter who they were.
                let nobody = lives.first().filter(|_| lives.lost() + 1 >= self.size());
                failed.or_else(|| members.next().filter(|_| all)).or(nobody)
            }
        }
    }

    fn group_of(&self, context: u32) -> Option<&dyn Group> {
        self.groups.get(&(context / 2)).map(|group| &**group)
    }

    /// Says which ranks send messages of a context and of the odd one above it, if not all do: whoever waits for anybody's
    /// message there does not wait for others.
    pub fn name_group(&mut self, context: u32, group: Rc<dyn Group>) {
        self.groups.insert(context / 2, group);
    }

    /// The context is not used any more.
    pub fn forget_group(&mut self, context: u32) {
        self.groups.remove(&(context / 2));
        self.core.given_up.forget_contexts(|other| other / 2 == context / 2);
    }

    /// Fails an operation that was just begun if it waits for somebody who is lost already.
    #[inline]
    pub(crate) fn fail_if_hopeless(&mut self, id: Id) {
        // While what they sent is being read, its message may still come; then all are looked at.
        if !self.core.lives.all_here() && !self.finding_losses {
            self.fail_if_hopeless_now(id);
        }
    }

    #[cold]
    fn fail_if_hopeless_now(&mut self, id: Id) {
        let lost = match self.core.ops.get(id).map(|op| (op.what, op.key)) {
            Some((What::Receive, key)) => self.lost(key),
            _ => None,
        };
        let Some(rank) = lost else { return };
        while self.progress() {}
        if self.core.unpost(id) {
            self.core.fail(id, Error::PeerLost { rank: rank as usize });
        }
    }

    /// The receives that have no message.
    fn posted(&self) -> Vec<(Id, Key)> {
        let posted = |(id, op): (Id, &Op)| match op.state {
            State::Posted(_) => Some((id, op.key)),
            _ => None,
        };
        self.core.ops.iter().filter_map(posted).collect()
    }

    fn fail_receives(&mut self) {
        for (id, key) in self.posted() {
            if let Some(rank) = self.lost(key) {
                self.core.unpost(id);
                self.core.fail(id, Error::PeerLost { rank: rank as usize });
            }
        }
        let cut_off = |(id, op): (Id, &Op)| match &op.state {
            // The engine reports what it moves itself; then the memory is not here.
            State::Moving(moving) if op.span.is_some() && self.is_gone(moving.envelope.source) => {
                Some((id, moving.envelope.source))
            }
            _ => None,
        };
        for (id, rank) in self.core.ops.iter().filter_map(cut_off).collect::<Vec<_>>() {
            self.core.fail(id, Error::PeerLost { rank: rank as usize });
        }
    }

    fn fail_sends(&mut self) {
        for to in self.core.outbox.destinations() {
            if self.is_gone(to) {
                self.core.outbox.take(to);
            }
        }
        let unanswerable = |(id, op): (Id, &Op)| {
            let waits = matches!(op.state, State::Queued | State::Answering(_) | State::Streaming);
            // The engine reports what it moves itself; then the memory is not here.
            (op.is_send() && waits && op.span.is_some() && self.is_gone(op.key.source)).then_some((id, op.key.source))
        };
        for (id, rank) in self.core.ops.iter().filter_map(unanswerable).collect::<Vec<_>>() {
            if let Some(State::Answering(answer)) = self.core.ops.get(id).map(|op| &op.state) {
                let answer = *answer;
                self.core.answers.remove(answer);
            }
            self.core.fail(id, Error::PeerLost { rank: rank as usize });
        }
    }

    /// The data of an announced message is at its sender; one that has failed wants its memory back.
    fn drop_offers_of_the_failed(&mut self) {
        let lives = &self.core.lives;
        let void = self
            .core
            .waiting
            .select(|message| lives.has_failed(message.key.source) && matches!(message.what, Arrived::Offered(_)));
        for id in void {
            let message = self.core.waiting.take(id);
            self.core.refuse(message.key.source, &message.what, Why::Unsaid);
        }
        let Core { heard, lives, .. } = &mut self.core;
        let void = heard.take_early(|from, what| lives.has_failed(from) && matches!(what, Arrived::Offered(_)));
        void.iter().for_each(|(from, what)| self.core.refuse(*from, what, Why::Unsaid));
    }

    /// The first rank that is lost and that somebody misses, who is told whether it has failed; of those that have, if any.
    pub fn lost_for(&self, misses: impl Fn(u32, bool) -> bool) -> Option<u32> {
        if self.finding_losses { None } else { self.first_lost(misses) }
    }

    /// The same, whether everything has been read that those who are lost had sent or not.
    pub fn first_lost(&self, misses: impl Fn(u32, bool) -> bool) -> Option<u32> {
        let lives = &self.core.lives;
        if lives.all_here() {
            return None;
        }
        let failed = (0..self.size()).find(|rank| lives.has_failed(*rank) && misses(*rank, true));
        failed.or_else(|| (0..self.size()).find(|rank| lives.is_lost(*rank) && misses(*rank, false)))
    }

    /// The ranks that are lost.
    pub fn lost_ranks(&self) -> Vec<u32> {
        let lives = &self.core.lives;
        if lives.all_here() { Vec::new() } else { (0..self.size()).filter(|rank| lives.is_lost(*rank)).collect() }
    }

    /// Asks all ranks that a message is waited from whether they still will send any; those who leave answer. For
    /// engines that cannot know.
    pub(crate) fn ask_whether_they_are_there(&mut self, what: Waiting) {
        let mut sources: Vec<u32> = self.posted().into_iter().map(|(_, key)| key.source).collect();
        if let Waiting::Op(What::Receive, key) = what {
            sources.push(key.source);
        }
        if sources.contains(&ANY) || self.core.heard.listens() {
            sources = (0..self.size()).collect();
        }
        sources.sort_unstable();
        sources.dedup();
        for source in sources {
            if source != self.core.rank && !self.core.lives.is_lost(source) {
                // If there is no room now, it is asked again later.
                self.fabric.try_send(source, Head { kind: kind::ASK, ..Head::default() }, &[]);
            }
        }
    }

    /// Brings operations that hold borrowed memory nearer to their end; called until none does.
    pub fn settle(&mut self, why: impl Into<Settling>) {
        let Settling { lender, panicked } = why.into();
        if panicked && !self.core.leaving {
            self.fabric.fail();
            self.refuse_everything();
            self.settling = Patience::default();
        }
        self.fabric.settling(true);
        if panicked {
            self.let_go_of_lent(lender);
        }
        if !self.progress() {
            let mut patience = std::mem::take(&mut self.settling);
            self.pause(&mut patience, Waiting::For("the end of a scope, for borrowed memory to come back"));
            if panicked && patience.waited(self.fabric.now()).as_secs() >= 1 && self.fabric.rank_is_process() {
                // A peer that neither receives nor ends would keep this rank from ending; the launcher ends them all.
                std::process::exit(101);
            }
            self.settling = patience;
        }
        self.fabric.settling(false);
    }

    /// Nobody will ask for the results of operations on memory of a lending that panicked any more, so that they must not
    /// keep it. Those on memory of others, around it, may be asked for when the panic has been caught.
    fn let_go_of_lent(&mut self, by: Option<Lender>) {
        let is_lent = |(_, op): &(Id, &Op)| {
            let lender = op.span.as_ref().and_then(Span::lender);
            lender.is_some() && (by.is_none() || lender == by)
        };
        for id in self.core.ops.iter().filter(is_lent).map(|(id, _)| id).collect::<Vec<_>>() {
            self.abandon(id);
        }
    }

    /// From now on nothing is received any more.
    fn refuse_everything(&mut self) {
        self.leave_tasks();
        self.core.leaving = true;
        self.drop_tasks();
        for (_, queue) in std::mem::take(&mut self.core.gatherings) {
            queue.into_iter().for_each(|gathering| self.core.fail(gathering.op, Error::Cancelled));
        }
        for (id, _) in self.posted() {
            self.core.unpost(id);
            self.core.fail(id, Error::Cancelled);
        }
        for id in self.core.waiting.select(|_| true) {
            let message = self.core.waiting.take(id);
            self.core.refuse(message.key.source, &message.what, Why::Unsaid);
        }
        self.core.heard.close();
        let early = self.core.heard.take_early(|_, _| true);
        early.iter().for_each(|(from, what)| self.core.refuse(*from, what, Why::Unsaid));
        self.core.refuse_early_questions();
        self.act();
    }

    /// Whether anything of this rank is still under way. `last` is the operation that was when this was asked before: what ends in
    /// order is looked at once.
    fn is_busy(&self, last: &mut u32) -> bool {
        let under_way =
            |op: &Op| matches!(op.state, State::Queued | State::Answering(_) | State::Streaming | State::Moving(_));
        if !self.core.outbox.is_empty() {
            return true;
        }
        let found = self.core.ops.find_from(*last, under_way);
        *last = found.unwrap_or(*last);
        found.is_some()
    }

    /// Leaves in order: what was sent gets through, or its receiver leaves too.
    fn leave(&mut self) {
        self.refuse_everything();
        let (mut announced, mut last_busy) = (false, 0);
        let mut patience = Patience::default();
        loop {
            let any = self.progress();
            if !announced && self.core.outbox.is_empty() {
                self.fabric.depart();
                announced = true;
            }
            if announced && !self.is_busy(&mut last_busy) && !self.is_asked() && self.fabric.departed() {
                return;
            }
            if any {
                patience.stir();
            } else {
                self.pause(&mut patience, Waiting::For("the end of the world, for what was sent to be received"));
            }
        }
    }

    /// Whether others may still want to read a table of which this rank has a part. They are done when they leave as well.
    fn is_asked(&self) -> bool {
        // An engine that cannot know who has left stays until all have.
        self.core.memories.has_tables() && self.fabric.knows_life() && self.core.lives.lost() + 1 < self.size()
    }

    /// Leaves at once. Peers may still read what was offered to them, so that memory is never given back.
    fn desert(&mut self) {
        self.fabric.fail();
        let offered: Vec<Id> = self.core.ops.iter().map(|(id, _)| id).collect();
        for id in offered {
            std::mem::forget(self.core.ops.get_mut(id).and_then(|op| op.span.take()));
            self.core.fail(id, Error::Cancelled);
        }
    }

    /// Refuses to wait for a message that only this rank could send, which it will not while it waits.
    pub(crate) fn refuse_self_wait(&self, key: Key) -> Result<()> {
        let alone = || self.group_of(key.context).map_or(self.size(), Group::ranks) == 1;
        let only_me = key.source == self.core.rank || (key.source == ANY && alone());
        if only_me {
            return Err(Error::Deadlock { what: "a receive of a message to oneself that was not sent" });
        }
        Ok(())
    }

    /// Fails an operation that is waited for alone and that only this rank could complete.
    pub(crate) fn fail_if_circular(&mut self, ids: &[Id]) -> bool {
        if !self.fabric.is_here() {
            return self.fail_astray(ids);
        }
        let [id] = *ids else { return false };
        let error = match self.core.ops.get(id).map(|op| (op.what, op.key, &op.state)) {
            Some((What::Receive, key, State::Posted(_))) => self.refuse_self_wait(key).err(),
            Some((What::SynchronousSend, key, State::Running)) if key.source == self.core.rank => {
                Some(Error::Deadlock { what: "a synchronous send to oneself without a receive" })
            }
            _ => None,
        };
        let Some(error) = error else { return false };
        self.core.unpost(id);
        self.core.fail(id, error);
        true
    }

    /// Fails a receive that is waited for where nothing comes.
    ///
    /// # Panics
    /// If there is none among those that are waited for: peers take part in everything else, and go on with it.
    #[cold]
    fn fail_astray(&mut self, ids: &[Id]) -> bool {
        let receive = ids.iter().copied().find(|id| self.core.unpost(*id));
        let Some(id) = receive else {
            panic!("an operation of rank {} is waited for in the code of another", self.core.rank);
        };
        let key = self.core.ops.get(id).expect("just found").key;
        let rank = self.lost_astray(key) as usize;
        self.core.fail(id, Error::PeerLost { rank });
        true
    }
}

impl Endpoint {
    /// Ends this rank's part in the world and gives the engine up. Nothing can be sent or received any more.
    pub fn end(&mut self) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        if std::thread::panicking() || !self.fabric.is_here() {
            self.desert()
        } else {
            self.leave()
        }
        self.fabric = Box::new(crate::alone::Ended { rank: self.core.rank, size: self.size() });
        // Handles may outlive it: whoever waits by one looks who is there, and finds nobody.
        self.news = None;
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.end();
    }
}
