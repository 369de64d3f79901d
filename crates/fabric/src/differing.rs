//! Ranks that are in another collective operation than this one, and whose messages nothing here waits for.
//!
//! A receive that takes a message of another call fails by itself. But ranks that call different operations also send what
//! the others never receive: of another phase, or of a protocol. So whoever has waited for a while, and would wait for ever,
//! looks whether there are messages under the number of its own operation that belong to another call, or whether somebody has
//! given it up for that reason, whose messages it may not wait for.

use std::collections::HashMap;

use treepie_base::{BuildNumberHasher, Error, Result};

use crate::bins::Key;
use crate::call::Call;
use crate::core::Core;
use crate::endpoint::Endpoint;
use crate::heard::number_of;
use crate::matching::Unexpected;
use crate::op::State;

/// So many messages and operations are looked at the first time that somebody has waited in vain, on average, and twice as many
/// each time after that: who waits for long has the time, and else what waiting costs does not grow with what waits.
const AT_ONCE: usize = 1024;

/// What is known of such ranks.
pub(crate) struct Differing {
    /// What the blocking receive that goes on waits for.
    awaited: Option<(Key, Call)>,
    /// The operation that ranks meet for at the board: its context, its tag, and what it is.
    at_board: Option<(u32, u64, Call)>,
    /// How many may be looked at.
    allowed: usize,
    found: Vec<Difference>,
    /// Memory for what has come, by context and number. It is looked at whenever a rank has slept, so it stays.
    came: HashMap<(u32, u32), Came, BuildNumberHasher>,
}

/// Calls that messages under one number belong to, each with the lowest rank that sent one. Two are enough: one of them is
/// another than this rank's, if any is.
#[derive(Default)]
struct Came([Option<(u32, Call)>; 2]);

impl Came {
    fn add(&mut self, source: u32, call: Call) {
        let same = self.0.iter_mut().find(|known| known.is_none_or(|(_, known)| known == call));
        if let Some(same) = same {
            *same = Some((same.map_or(source, |(known, _)| known.min(source)), call));
        }
    }

    /// One of another call than this.
    fn other_than(&self, own: Option<Call>) -> Option<(u32, Call)> {
        self.0.iter().flatten().filter(|(_, call)| own != Some(*call)).min_by_key(|(source, _)| *source).copied()
    }
}

/// A rank that is in another call under the number of an operation that this rank is in.
struct Difference {
    context: u32,
    number: u32,
    source: u32,
    /// Nothing if it is known only that that rank has given up because calls differ.
    theirs: Option<Call>,
}

impl Default for Differing {
    fn default() -> Self {
        let came = HashMap::with_capacity_and_hasher(16, BuildNumberHasher::default());
        Self { awaited: None, at_board: None, allowed: 0, found: Vec::new(), came }
    }
}

impl Differing {
    /// A blocking receive is about to wait.
    #[inline]
    pub(crate) fn awaits(&mut self, key: Key, call: Call) {
        if call.is_some() {
            self.awaited = Some((key, call));
        }
    }

    /// Ranks meet at the board for this operation.
    #[inline]
    pub(crate) fn meet_for(&mut self, context: u32, tag: u64, call: Call) {
        self.at_board = Some((context, tag, call));
    }

    /// An operation is over here.
    pub(crate) fn forget(&mut self, context: u32, tag: u64) {
        self.found.retain(|found| (found.context, found.number) != (context, number_of(tag)));
    }
}

impl Core {
    /// Looks for messages of other calls under the numbers of operations that are waited for. Returns whether there are any that
    /// were not known.
    fn find_differing(&mut self) -> bool {
        let Core { waiting, heard, ops, differing, given_up, .. } = self;
        let known = differing.found.len();
        let mut came = std::mem::take(&mut differing.came);
        let of_calls = waiting.iter().map(|Unexpected { key, call, .. }| (key.context, key.tag, key.source, *call));
        let unheard = heard.unheard().map(|(run, source, call)| (run.context, run.tag, source, call));
        for (context, tag, source, call) in of_calls.chain(unheard).filter(|(.., call)| call.is_some()) {
            came.entry((context, number_of(tag))).or_default().add(source, call);
        }
        let mut note = |context: u32, tag: u64, own: Option<Call>| {
            let number = number_of(tag);
            let other = came.get(&(context, number)).and_then(|came| came.other_than(own));
            let is_known = |found: &Difference| (found.context, found.number) == (context, number);
            let other = other.map(|(source, call)| (source, Some(call)));
            let other = other.or_else(|| given_up.differing(context, tag).map(|source| (source, None)));
            if let Some((source, theirs)) = other
                && !differing.found.iter().any(is_known)
            {
                differing.found.push(Difference { context, number, source, theirs });
            }
        };
        if let Some((key, call)) = differing.awaited.take() {
            note(key.context, key.tag, Some(call));
        }
        // What is done at the board, and what protocols do, is done without messages that are matched.
        if let Some((context, tag, _)) = differing.at_board {
            note(context, tag, None);
        }
        heard.listened().for_each(|run| note(run.context, run.tag, None));
        let posted = ops.iter().filter(|(_, op)| matches!(op.state, State::Posted(_)) && op.call.is_some());
        posted.for_each(|(_, op)| note(op.key.context, op.key.tag, Some(op.call)));
        came.clear();
        differing.came = came;
        differing.found.len() > known
    }
}

impl Endpoint {
    /// Looks for ranks that are in other operations than those that this one waits in, when it has waited so often in vain that
    /// it may; without a number in any case. Returns whether there are any that were not known.
    pub(crate) fn look_for_differing(&mut self, waited: Option<u32>) -> bool {
        let Core { waiting, heard, ops, differing, given_up, .. } = &mut self.core;
        let may = waited.map_or(usize::MAX, |times| AT_ONCE << times.min(24));
        differing.allowed = differing.allowed.saturating_add(may);
        if differing.allowed < ops.looks() + waiting.looks() + heard.runs() {
            return false;
        }
        differing.allowed = 0;
        if !waiting.has_calls() && !given_up.has_differing() && heard.unheard().next().is_none() {
            return false;
        }
        let any = self.core.find_differing();
        if any {
            // Tasks look at their own.
            self.core.due.mark_all();
        }
        any
    }

    /// An error if somebody is in another operation than this one, which has such a number and is that call.
    #[inline]
    pub fn fail_differing(&self, context: u32, tag: u64, call: Call) -> Result<()> {
        if self.core.differing.found.is_empty() { Ok(()) } else { self.fail_differing_now(context, tag, call) }
    }

    #[cold]
    fn fail_differing_now(&self, context: u32, tag: u64, call: Call) -> Result<()> {
        let is_it = |found: &&Difference| (found.context, found.number) == (context, number_of(tag));
        let found = self.core.differing.found.iter().find(is_it);
        match found {
            None => Ok(()),
            Some(Difference { source, theirs: None, .. }) => Err(Error::GaveUp { rank: *source as usize }),
            Some(Difference { source, theirs: Some(theirs), .. }) => {
                Err(call.differs(self.core.rank, *theirs, *source))
            }
        }
    }

    pub(crate) fn fail_differing_at_board(&self) -> Result<()> {
        match self.core.differing.at_board {
            Some((context, tag, call)) => self.fail_differing(context, tag, call),
            None => Ok(()),
        }
    }
}
