//! A rank's end of everything: the engine, and matching and protocols above it.
//!
//! The way of a message: [`send`](Endpoint::send) hands short ones to the engine as they are, as long as the receiver
//! has not too many unreceived (credit); others, and those that are over the credit, are announced (an offer) and their
//! data waits here. The receiver's [`progress`](Endpoint::progress) polls its engine and matches what comes. A message
//! that was announced moves once it is matched: by the engine, memory to memory, or else in records.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use treepie_base::BuildNumberHasher;

use crate::core::{Core, Foreground};
use crate::engine::{Event, Fabric};
use crate::loss::Group;
use crate::receive::Looking;
use crate::tasks::Tasks;
use crate::waiting::Patience;

/// Events handled before whoever waits looks at its own matter again.
pub(crate) const BATCH: usize = 64;

/// One rank's end: the engine, and matching and protocols above it.
pub struct Endpoint {
    pub(crate) fabric: Box<dyn Fabric>,
    pub(crate) core: Core,
    pub(crate) eager_limit: usize,
    /// The engine's news when losses were last looked for; none if never.
    pub(crate) news: Option<u32>,
    pub(crate) tasks: Tasks,
    pub(crate) stall: Option<Duration>,
    pub(crate) settling: Patience,
    /// This rank has left, and there is no engine any more.
    pub(crate) ended: bool,
    next_context: u32,
    pub(crate) looking: Looking,
    /// A task is being stepped.
    pub(crate) in_task: bool,
    /// Its number, if it is one of those that were spawned.
    pub(crate) task: Option<u32>,
    /// Messages may have come while somebody waited for something else, also those for a receive that goes on.
    pub(crate) came_past: bool,
    /// The ranks of contexts, by half their number, that have not all ranks.
    pub(crate) groups: HashMap<u32, Rc<dyn Group>, BuildNumberHasher>,
    /// Bytes that the engine was last told to be held.
    told_held: u64,
    /// What ranks that are lost had sent is being read.
    pub(crate) finding_losses: bool,
    /// How often somebody who does not wait has asked for something that had not come.
    pub(crate) tried_in_vain: u32,
}

impl Endpoint {
    /// An endpoint on this engine.
    pub fn new(fabric: Box<dyn Fabric>) -> Self {
        let (rank, size) = (fabric.rank(), fabric.size());
        Self {
            core: Core::new(rank, size),
            eager_limit: fabric.max_body(),
            // A rank may have ended before this one began.
            news: None,
            fabric,
            tasks: Tasks::default(),
            // A bad value was refused where the world began.
            stall: treepie_base::environment::stall().unwrap_or_default(),
            settling: Patience::default(),
            ended: false,
            next_context: 2,
            looking: Looking::default(),
            in_task: false,
            task: None,
            came_past: false,
            groups: HashMap::default(),
            told_held: 0,
            finding_losses: false,
            tried_in_vain: 0,
        }
    }

    /// This rank of the world.
    pub fn rank(&self) -> u32 {
        self.core.rank
    }

    /// Ranks of the world.
    pub fn size(&self) -> u32 {
        self.core.peers.len() as u32
    }

    /// The engine.
    pub fn fabric(&mut self) -> &mut dyn Fabric {
        &mut *self.fabric
    }

    /// The engine's name.
    pub fn engine(&self) -> &'static str {
        self.fabric.name()
    }

    /// How many cores all ranks share, if they are on one machine.
    pub fn cores(&self) -> Option<u32> {
        self.fabric.cores()
    }

    /// The longest message that is sent without asking the receiver.
    pub fn eager_limit(&self) -> usize {
        self.eager_limit
    }

    /// The lowest context that this rank has never used.
    pub fn next_context(&self) -> u32 {
        self.next_context
    }

    /// Marks all contexts below `context` as used.
    pub fn use_contexts_below(&mut self, context: u32) {
        self.next_context = self.next_context.max(context);
    }

    /// Handles what has come. Returns whether anything has.
    #[inline]
    pub fn progress(&mut self) -> bool {
        self.progress_for(&mut None)
    }

    #[inline]
    pub(crate) fn progress_for(&mut self, foreground: &mut Option<Foreground<'_>>) -> bool {
        let mut any = self.begin_progress();
        let mut is_all = false;
        for _ in 0..BATCH {
            let Some(event) = self.fabric.poll() else {
                is_all = true;
                break;
            };
            any = true;
            Self::handle(&mut self.core, event, foreground.as_mut());
            if !self.core.actions.is_empty() {
                self.act();
            }
            if foreground.as_ref().is_some_and(|foreground| foreground.outcome.is_some()) {
                break;
            }
        }
        self.end_progress(is_all);
        any
    }

    /// Sends what has waited for room. Returns whether anything got through, or tasks have something to do.
    #[inline]
    pub(crate) fn begin_progress(&mut self) -> bool {
        // A send that ends by this is what a task may wait for.
        self.tasks_are_due() | (!self.core.outbox.is_empty() && self.flush())
    }

    /// Lets tasks get on for which something has happened. Says whether all that has come was looked at.
    #[inline]
    pub(crate) fn end_progress(&mut self, is_all: bool) {
        self.look_at_given_up(is_all);
        if self.tasks_are_due() {
            self.step_tasks();
        }
        self.tell_held();
    }

    #[inline]
    pub(crate) fn handle(core: &mut Core, event: Event<'_>, foreground: Option<&mut Foreground<'_>>) {
        if let Event::Record { from, head, body } = event {
            core.record(from, head, body, foreground);
        } else {
            Self::other_event(core, event);
        }
    }

    /// Lets the engine know if other bytes are held than it was told last.
    #[inline]
    pub(crate) fn tell_held(&mut self) {
        let held = self.core.waiting.held() + self.core.heard.held();
        if held != self.told_held {
            self.told_held = held;
            self.fabric.holds(held);
        }
    }

    /// Handles all that has come. Tasks get on with it when this rank next makes progress: this may be called by one.
    pub fn drain(&mut self) {
        while let Some(event) = self.fabric.poll() {
            Self::handle(&mut self.core, event, None);
            if !self.core.actions.is_empty() {
                self.act();
            }
        }
    }
}
