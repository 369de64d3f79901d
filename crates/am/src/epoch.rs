//! Epochs of a program: when they are over, everything that was sent in them has been handled.

use std::time::Duration;

use treepie_base::{Error, Result};
use treepie_comm::Comm;
use treepie_comm::protocol::ProtocolRun;

use crate::builder::Planted;
use crate::context::Context;
use crate::runtime::{ActiveMessages, Reacting};
use crate::statistics::EpochStatistics;
use crate::weaving::{CATCH_UP, PIECE};

/// An epoch whose body runs.
pub struct Epoch<'a, S> {
    run: ProtocolRun<Reacting<'a, S>>,
    comm: &'a Comm,
    cap: usize,
    slowed: &'a mut u64,
    named: &'a mut Vec<EpochStatistics>,
    pace: Pace,
    /// Its name, and when it began, if that is of interest.
    noted: Option<(String, Duration)>,
    /// Why it cannot end any more.
    failed: Option<Error>,
    /// The last `progress` was in vain.
    in_vain: bool,
    /// Time is virtual, and work costs what a simulation says.
    is_simulated: bool,
}

/// How often a body is interrupted to look what has come.
struct Pace {
    /// After so many items, if they do not fill buffers before.
    items: u32,
    /// There were more than a few items between the last two looks.
    is_long: bool,
    /// What waits here was handled so often since.
    passed: u32,
    looked: Duration,
    flushed: Duration,
}

/// Items between two looks, at first and at most.
const ITEMS: (u32, u32) = (8, 4096);

/// Items should take about so long: looking costs a hundredth of it, and who waits for this rank waits no longer.
const LOOKS: Duration = Duration::from_micros(20);

/// Messages are handled between items if there are so many of these between two looks: else they would wait for long.
const QUICK: u32 = 128;

/// How often what waits here is handled between two looks.
const PASSED: u32 = 4;

/// What a body has sent does not stay longer than about this in buffers, however slowly they fill.
const FLUSHES: Duration = Duration::from_millis(1);

/// A body that is slowed down goes on after having waited in vain so often, as nobody may be there to take what waits.
const SLOWED: u32 = 2000;

/// Of memory for messages that are not read in place.
const ALIGN: usize = 16;

impl Pace {
    /// It is looked now. Returns whether buffers are to be sent as they are.
    fn look(&mut self, now: Duration) -> bool {
        let took = now.saturating_sub(std::mem::replace(&mut self.looked, now));
        let items = if took > 2 * LOOKS { self.items / 2 } else { self.items.saturating_mul(2) };
        self.items = items.clamp(1, ITEMS.1);
        self.passed = 0;
        let flushes = now.saturating_sub(self.flushed) > FLUSHES;
        if flushes {
            self.flushed = now;
        }
        flushes
    }
}

impl<'a, S> Epoch<'a, S> {
    pub(crate) fn begin(am: &'a mut ActiveMessages<S>, state: &'a mut S) -> Result<Self> {
        let ActiveMessages { comm, machinery, cap, slowed, name, epochs, named } = am;
        machinery.begin();
        *epochs += 1;
        let name = name.take();
        let (now, is_simulated) = (comm.now(), comm.engine() == "sim");
        if let Some(trace) = &mut machinery.context.trace {
            trace.look(now, !is_simulated);
        }
        let is_noted = name.is_some() || machinery.context.trace.is_some();
        let noted = is_noted.then(|| (name.unwrap_or_else(|| epochs.to_string()), now));
        let untagged = machinery.planted == Some(Planted::Untagged);
        let reacting = Reacting { machinery, state };
        let run = if untagged { comm.begin_untagged(reacting, ALIGN)? } else { comm.begin_protocol(reacting, ALIGN)? };
        let pace = Pace { items: ITEMS.0, is_long: false, passed: 0, looked: now, flushed: now };
        Ok(Self { run, comm, cap: *cap, slowed, named, pace, noted, failed: None, in_vain: false, is_simulated })
    }

    /// The state, and what messages are sent by.
    #[inline]
    pub fn parts(&mut self) -> (&mut S, &mut Context<S>) {
        let Reacting { machinery, state } = self.run.reactor();
        (state, &mut machinery.context)
    }

    /// The state.
    pub fn state(&mut self) -> &mut S {
        self.parts().0
    }

    /// What messages are sent by.
    pub fn context(&mut self) -> &mut Context<S> {
        self.parts().1
    }

    /// Handles what has come. If nothing has, and nothing had the last time, sends what is in buffers.
    pub fn progress(&mut self) -> Result<()> {
        let came = self.step(true)?;
        if came {
            self.in_vain = false;
        } else if std::mem::replace(&mut self.in_vain, true) && self.run.reactor().machinery.rest(false) {
            self.step(true)?;
        }
        self.slow_down_if_due()
    }

    /// Calls the body for items, and handles what is woven into it, until it is time to look what has come: some have passed, or a
    /// buffer is full. Returns whether there may be more items.
    #[inline(always)]
    pub(crate) fn do_some<I>(
        &mut self,
        items: &mut impl Iterator<Item = I>,
        body: &mut impl FnMut(&mut Context<S>, &mut S, I),
    ) -> bool {
        let most = self.pace.items;
        let Reacting { machinery, state } = self.run.reactor();
        let (machinery, state) = (&mut **machinery, &mut **state);
        let piece = if machinery.woven.is_some() { most.min(PIECE) } else { most };
        machinery.context.is_due = false;
        for done in 0..most / piece {
            for at in 0..piece {
                let Some(item) = items.next() else { return false };
                body(&mut machinery.context, state, item);
                if machinery.context.is_due {
                    self.pace.is_long = done > 0 || at >= PIECE;
                    machinery.weave(state);
                    return true;
                }
            }
            machinery.weave(state);
            if machinery.context.local.len() >= CATCH_UP {
                machinery.weave(state);
            }
        }
        self.pace.is_long = true;
        true
    }

    /// Handles what this rank has sent to itself, and what has come, if something is to be sent or it was not looked for long.
    pub(crate) fn poll(&mut self) -> Result<()> {
        let Reacting { machinery, state } = self.run.reactor();
        machinery.may_weave = self.pace.items >= QUICK && self.pace.is_long;
        let Context { local, outgoing, .. } = &machinery.context;
        let is_here = !local.is_empty() && machinery.woven.is_none() && outgoing.buffers == 0;
        if is_here && outgoing.waiting() <= self.cap && self.pace.passed < PASSED {
            self.pace.passed += 1;
            machinery.work(state, false);
            return Ok(());
        }
        let now = self.comm.now();
        machinery.context.clock.look(Some(now));
        let flushes = self.pace.look(now);
        if !self.step(false)? && flushes && self.run.reactor().machinery.rest(false) {
            self.step(false)?;
        }
        self.slow_down_if_due()
    }

    /// Bytes that wait for slow neighbours, or for this rank itself.
    fn waiting(&mut self) -> usize {
        self.run.reactor().machinery.context.outgoing.waiting()
    }

    #[inline]
    fn slow_down_if_due(&mut self) -> Result<()> {
        if self.waiting() > self.cap { self.slow_down() } else { Ok(()) }
    }

    #[cold]
    fn slow_down(&mut self) -> Result<()> {
        *self.slowed += 1;
        // Nothing would be handled between items that are not done.
        self.run.reactor().machinery.may_weave = false;
        let mut in_vain = 0;
        while self.waiting() > self.cap / 2 && in_vain < SLOWED {
            let before = self.waiting();
            if self.step(false)? || self.waiting() < before {
                in_vain = 0;
                self.run.stir();
            } else {
                in_vain += 1;
                self.run.wait();
            }
        }
        Ok(())
    }

    /// Sends, and handles what has come and what this rank has sent to itself. Returns whether there was anything.
    #[inline]
    fn step(&mut self, all: bool) -> Result<bool> {
        if self.noted.is_some() {
            self.look_at_clock();
        }
        // What is sent now leaves after the work that it took.
        self.charge_if_simulated();
        let came = self.run.step();
        let Reacting { machinery, state } = self.run.reactor();
        let fault = || machinery.context.fault.clone();
        if let Some(error) = self.failed.clone().or_else(|| came.as_ref().err().cloned()).or_else(fault) {
            self.failed = Some(error.clone());
            return Err(error);
        }
        let worked = machinery.work(state, all);
        self.charge_if_simulated();
        Ok(came.is_ok_and(|came| came) || worked)
    }

    #[inline]
    fn charge_if_simulated(&mut self) {
        if self.is_simulated {
            self.comm.worked(self.run.reactor().machinery.context.take_work());
        }
    }

    #[cold]
    fn look_at_clock(&mut self) {
        if let Some(trace) = &mut self.run.reactor().machinery.context.trace {
            trace.look(self.comm.now(), !self.is_simulated);
        }
    }

    /// Waits until everything that was sent anywhere has been handled.
    pub(crate) fn finish(mut self) -> Result<u64> {
        let machinery = &mut self.run.reactor().machinery;
        machinery.may_weave = false;
        machinery.context.clock.look(None);
        if machinery.context.is_unused() {
            // There is nothing to be handled before: that saves a third of the time of an empty epoch.
            machinery.rest(true);
        }
        loop {
            let came = self.step(true)?;
            if self.run.is_over() {
                break;
            }
            if came {
                self.run.stir();
            } else if !self.run.reactor().machinery.rest(true) {
                // What the detector has to say is sent before anybody waits.
                if !self.step(true)? && !self.run.is_over() {
                    self.run.wait();
                }
            }
        }
        let Self { run, comm, named, noted, .. } = self;
        let Reacting { machinery, .. } = run.into_reactor();
        if let Some((name, begun)) = noted {
            EpochStatistics::note(named, &name, comm.now().saturating_sub(begun));
            if let Some(trace) = &mut machinery.context.trace {
                trace.epoch(name, begun);
            }
        }
        Ok(machinery.over.expect("it is over"))
    }
}
