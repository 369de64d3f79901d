//! Epochs of a program: when they are over, everything that was sent in them has been handled.

use std::time::Duration;

use treepie_base::Result;
use treepie_comm::protocol::ProtocolRun;

use crate::builder::Planted;
use crate::context::Context;
use crate::runtime::{ActiveMessages, Reacting};

/// An epoch whose body runs.
pub struct Epoch<'a, S> {
    run: ProtocolRun<Reacting<'a, S>>,
    cap: usize,
    slowed: &'a mut u64,
    /// How often it was not looked what has come.
    passed: u32,
    /// Its name, and when it began, if that is recorded.
    traced: Option<(String, Duration)>,
    comm: &'a treepie_comm::Comm,
}

/// It is looked what has come after so many items, if they do not fill buffers before.
const ITEMS: u32 = 512;

/// Nor after fewer buffers of the rank for itself, unless there is something to be sent.
const PASSED: u32 = 8;

/// A body that is slowed down goes on after having waited in vain so often, as nobody may be there to take what waits.
const SLOWED: u32 = 2000;

impl<'a, S> Epoch<'a, S> {
    pub(crate) fn begin(am: &'a mut ActiveMessages<S>, state: &'a mut S) -> Result<Self> {
        let ActiveMessages { comm, machinery, cap, slowed, name, epochs } = am;
        machinery.begin();
        *epochs += 1;
        let name = name.take();
        let untagged = machinery.planted == Some(Planted::Untagged);
        let mut traced = None;
        if let Some(trace) = &mut machinery.context.trace {
            trace.look(comm.now(), comm.engine() != "sim");
            traced = Some((name.unwrap_or_else(|| epochs.to_string()), trace.now()));
        }
        let reacting = Reacting { machinery, state };
        let run = if untagged { comm.begin_untagged(reacting, ALIGN)? } else { comm.begin_protocol(reacting, ALIGN)? };
        Ok(Self { run, cap: *cap, slowed, passed: 0, traced, comm })
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

    /// Handles what has come, and sends what is in buffers if nothing has.
    pub fn progress(&mut self) -> Result<()> {
        let came = self.step(true)?;
        if !came && self.run.reactor().machinery.rest(false) {
            self.step(true)?;
        }
        self.slow_down_if_due()
    }

    /// Calls the body for items until it is time to look what has come: some have passed, or a buffer is full. Returns whether
    /// there may be more items.
    #[inline(always)]
    pub(crate) fn do_some<I>(
        &mut self,
        items: &mut impl Iterator<Item = I>,
        body: &mut impl FnMut(&mut Context<S>, &mut S, I),
    ) -> bool {
        let (state, context) = self.parts();
        context.is_due = false;
        for _ in 0..ITEMS {
            let Some(item) = items.next() else { return false };
            body(context, state, item);
            if context.is_due {
                break;
            }
        }
        true
    }

    /// Handles what this rank has sent to itself, and what has come, if something is to be sent or it was not looked for long.
    pub(crate) fn poll(&mut self) -> Result<()> {
        self.passed += 1;
        let Reacting { machinery, state } = self.run.reactor();
        if machinery.context.outgoing.buffers == 0 && self.passed < PASSED {
            machinery.work(state, false);
            return Ok(());
        }
        self.passed = 0;
        self.step(false)?;
        self.slow_down_if_due()
    }

    #[inline]
    fn slow_down_if_due(&mut self) -> Result<()> {
        if self.waiting() > self.cap { self.slow_down() } else { Ok(()) }
    }

    /// Bytes that wait for slow neighbours.
    fn waiting(&mut self) -> usize {
        self.run.reactor().machinery.context.outgoing.bytes
    }

    #[cold]
    fn slow_down(&mut self) -> Result<()> {
        *self.slowed += 1;
        let mut in_vain = 0;
        while self.waiting() > self.cap / 2 && in_vain < SLOWED {
            let before = self.waiting();
            if self.step(false)? || self.waiting() < before {
                (in_vain, _) = (0, self.run.stir());
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
        if self.traced.is_some() {
            self.look_at_clock();
        }
        let came = self.run.step()?;
        let Reacting { machinery, state } = self.run.reactor();
        let worked = machinery.work(state, all);
        if let Some(fault) = machinery.context.fault.take() {
            return Err(fault);
        }
        Ok(came || worked)
    }

    #[cold]
    fn look_at_clock(&mut self) {
        let (now, goes_on) = (self.comm.now(), self.comm.engine() != "sim");
        if let Some(trace) = &mut self.run.reactor().machinery.context.trace {
            trace.look(now, goes_on);
        }
    }

    /// Waits until everything that was sent anywhere has been handled.
    pub(crate) fn finish(mut self) -> Result<u64> {
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
        let traced = self.traced.take();
        let Reacting { machinery, .. } = self.run.into_reactor();
        if let (Some(trace), Some((name, begun))) = (&mut machinery.context.trace, traced) {
            trace.epoch(name, begun);
        }
        Ok(machinery.over.expect("it is over"))
    }
}

/// Of memory for messages that are not read in place.
const ALIGN: usize = 16;
