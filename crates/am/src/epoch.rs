//! Epochs: when an epoch ends, every message sent in it has been handled.

use std::time::Duration;

use treepie_base::{Error, Result};
use treepie_comm::Comm;
use treepie_comm::protocol::ProtocolRun;

use crate::context::Context;
use crate::interleaving::{CATCH_UP, CHUNK};
use crate::runtime::{ActiveMessages, EpochReactor};
use crate::send_path::SendPath;
use crate::statistics::EpochStatistics;

/// An epoch during its body.
pub struct Epoch<'a, S> {
    run: ProtocolRun<EpochReactor<'a, S>>,
    comm: &'a Comm,
    memory_limit: usize,
    throttled: &'a mut u64,
    epoch_statistics: &'a mut Vec<EpochStatistics>,
    pace: PollPacing,
    /// Its name and start time, if it is named or traced.
    record: Option<(String, Duration)>,
    /// The error that prevents its end.
    failed: Option<Error>,
    /// The last `progress` found nothing.
    was_idle: bool,
    /// Time is virtual, and work is charged to the simulation.
    is_simulated: bool,
}

/// How often a body is interrupted to poll.
struct PollPacing {
    /// Items between polls, unless a buffer fills up before.
    items_per_poll: u32,
    /// There were more than a few items between the last two polls.
    is_long: bool,
    /// Times the local queue was handled since the last poll.
    local_passes: u32,
    last_poll: Duration,
    last_flush: Duration,
}

/// Items between polls, initial and maximum.
const ITEMS_PER_POLL: (u32, u32) = (8, 4096);

/// Target time between polls: polling costs 1% of it, and bounds the delay of other ranks.
const POLL_INTERVAL: Duration = Duration::from_micros(20);

/// Minimum items between polls for interleaving: with fewer, messages would wait too long.
const MIN_INTERLEAVED_ITEMS: u32 = 128;

/// Maximum times the local queue is handled between polls.
const MAX_LOCAL_PASSES: u32 = 4;

/// Maximum time messages of a body stay in buffers, approximately.
const FLUSH_INTERVAL: Duration = Duration::from_millis(1);

/// Idle polls after which a throttled body continues, as the receivers may not be in the epoch.
const MAX_IDLE_POLLS: u32 = 2000;

/// Alignment of messages that are not read in place.
const ALIGN: usize = 16;

impl<S> ActiveMessages<S> {
    /// Runs an epoch that calls the body for each item and handles received messages between items. When it returns,
    /// every message sent in it on any rank, by bodies or handlers, has been handled. Returns the sum over all ranks of
    /// the values passed to [`Context::add_to_sum`].
    ///
    /// A collective operation; a rank may have no items. Bodies and handlers must not use the communicator.
    ///
    /// One item should not send very much: messages stay in memory until the next poll.
    pub fn epoch_for<I>(
        &mut self,
        state: &mut S,
        items: impl IntoIterator<Item = I>,
        mut body: impl FnMut(&mut Context<S>, &mut S, I),
    ) -> Result<u64> {
        let mut epoch = Epoch::begin(self, state)?;
        let mut items = items.into_iter();
        while epoch.run_items(&mut items, &mut body) {
            epoch.poll()?;
        }
        epoch.finish()
    }

    /// Runs an epoch with a single body, which calls [`Epoch::progress`] to make progress. Otherwise like
    /// [`epoch_for`](Self::epoch_for).
    pub fn epoch(&mut self, state: &mut S, body: impl FnOnce(&mut Epoch<'_, S>) -> Result<()>) -> Result<u64> {
        let mut epoch = Epoch::begin(self, state)?;
        body(&mut epoch)?;
        epoch.finish()
    }
}

impl PollPacing {
    /// Updates the pacing at a poll. Returns whether to flush buffers.
    fn on_poll(&mut self, now: Duration) -> bool {
        let took = now.saturating_sub(std::mem::replace(&mut self.last_poll, now));
        let items =
            if took > 2 * POLL_INTERVAL { self.items_per_poll / 2 } else { self.items_per_poll.saturating_mul(2) };
        self.items_per_poll = items.clamp(1, ITEMS_PER_POLL.1);
        self.local_passes = 0;
        let flushes = now.saturating_sub(self.last_flush) > FLUSH_INTERVAL;
        if flushes {
            self.last_flush = now;
        }
        flushes
    }
}

impl<'a, S> Epoch<'a, S> {
    pub(crate) fn begin(am: &'a mut ActiveMessages<S>, state: &'a mut S) -> Result<Self> {
        let ActiveMessages { comm, runtime, memory_limit, throttled, name, num_epochs, epoch_statistics } = am;
        runtime.begin();
        *num_epochs += 1;
        let name = name.take();
        let (now, is_simulated) = (comm.now(), comm.engine() == "sim");
        if let Some(trace) = &mut runtime.context.sends.trace {
            trace.sync_clock(now, !is_simulated);
        }
        let is_recorded = name.is_some() || runtime.context.sends.trace.is_some();
        let record = is_recorded.then(|| (name.unwrap_or_else(|| num_epochs.to_string()), now));
        #[cfg(feature = "fault-injection")]
        let is_untagged = runtime.context.sends.faults.is(crate::InjectedFault::UntaggedEpochs);
        let reactor = EpochReactor { runtime, state };
        #[cfg(feature = "fault-injection")]
        let run = if is_untagged { comm.begin_untagged(reactor, ALIGN)? } else { comm.begin_protocol(reactor, ALIGN)? };
        #[cfg(not(feature = "fault-injection"))]
        let run = comm.begin_protocol(reactor, ALIGN)?;
        let pace = PollPacing {
            items_per_poll: ITEMS_PER_POLL.0,
            is_long: false,
            local_passes: 0,
            last_poll: now,
            last_flush: now,
        };
        Ok(Self {
            run,
            comm,
            memory_limit: *memory_limit,
            throttled,
            epoch_statistics,
            pace,
            record,
            failed: None,
            was_idle: false,
            is_simulated,
        })
    }

    /// The state and the context.
    #[inline]
    pub fn parts(&mut self) -> (&mut S, &mut Context<S>) {
        let EpochReactor { runtime, state } = self.run.reactor();
        (state, &mut runtime.context)
    }

    /// The state.
    pub fn state(&mut self) -> &mut S {
        self.parts().0
    }

    /// The context, which sends messages.
    pub fn context(&mut self) -> &mut Context<S> {
        self.parts().1
    }

    /// Handles received messages. If there are none for the second time in a row, flushes the buffers.
    pub fn progress(&mut self) -> Result<()> {
        let received = self.step(true)?;
        if received {
            self.was_idle = false;
        } else if std::mem::replace(&mut self.was_idle, true) && self.run.reactor().runtime.on_idle(false) {
            self.step(true)?;
        }
        self.throttle_if_due()
    }

    /// Calls the body for items, interleaved with handlers, until the next poll is due or a buffer is full. Returns
    /// whether there may be more items.
    #[inline(always)]
    pub(crate) fn run_items<I>(
        &mut self,
        items: &mut impl Iterator<Item = I>,
        body: &mut impl FnMut(&mut Context<S>, &mut S, I),
    ) -> bool {
        let max_items = self.pace.items_per_poll;
        let EpochReactor { runtime, state } = self.run.reactor();
        let (runtime, state) = (&mut **runtime, &mut **state);
        let chunk = if runtime.interleaving.is_active() { max_items.min(CHUNK) } else { max_items };
        runtime.context.sends.needs_progress = false;
        for done in 0..max_items / chunk {
            for at in 0..chunk {
                let Some(item) = items.next() else { return false };
                body(&mut runtime.context, state, item);
                if runtime.context.sends.needs_progress {
                    self.pace.is_long = done > 0 || at >= CHUNK;
                    runtime.interleave(state);
                    return true;
                }
            }
            runtime.interleave(state);
            if runtime.context.sends.local_queue.len() >= CATCH_UP {
                runtime.interleave(state);
            }
        }
        self.pace.is_long = true;
        true
    }

    /// Handles the local queue; polls the engine if there is something to send or the last poll was too long ago.
    pub(crate) fn poll(&mut self) -> Result<()> {
        let EpochReactor { runtime, state } = self.run.reactor();
        runtime.interleaving.is_allowed = self.pace.items_per_poll >= MIN_INTERLEAVED_ITEMS && self.pace.is_long;
        let SendPath { local_queue, outgoing, .. } = &runtime.context.sends;
        let is_local = !local_queue.is_empty() && !runtime.interleaving.is_active() && outgoing.pending_buffers == 0;
        if is_local && outgoing.queued_bytes() <= self.memory_limit && self.pace.local_passes < MAX_LOCAL_PASSES {
            self.pace.local_passes += 1;
            runtime.handle_local(state, false);
            return Ok(());
        }
        let now = self.comm.now();
        runtime.context.sends.clock.update(Some(now));
        let flushes = self.pace.on_poll(now);
        if !self.step(false)? && flushes && self.run.reactor().runtime.on_idle(false) {
            self.step(false)?;
        }
        self.throttle_if_due()
    }

    /// Bytes queued for slow neighbors or for this rank itself.
    fn queued_bytes(&mut self) -> usize {
        self.run.reactor().runtime.context.sends.outgoing.queued_bytes()
    }

    #[inline]
    fn throttle_if_due(&mut self) -> Result<()> {
        if self.queued_bytes() > self.memory_limit { self.throttle() } else { Ok(()) }
    }

    #[cold]
    fn throttle(&mut self) -> Result<()> {
        *self.throttled += 1;
        // There are no items between which messages could be handled.
        self.run.reactor().runtime.interleaving.is_allowed = false;
        let mut idle_polls = 0;
        while self.queued_bytes() > self.memory_limit / 2 && idle_polls < MAX_IDLE_POLLS {
            let before = self.queued_bytes();
            if self.step(false)? || self.queued_bytes() < before {
                idle_polls = 0;
                self.run.reset_backoff();
            } else {
                idle_polls += 1;
                self.run.wait();
            }
        }
        Ok(())
    }

    /// Sends, and handles received and local messages. Returns whether there were any.
    #[inline]
    fn step(&mut self, all: bool) -> Result<bool> {
        if self.record.is_some() {
            self.sync_trace_clock();
        }
        // Messages leave after the work that produced them.
        self.charge_if_simulated();
        let received = self.run.step();
        let EpochReactor { runtime, state } = self.run.reactor();
        let send_error = || runtime.context.sends.error.clone();
        if let Some(error) = self.failed.clone().or_else(|| received.as_ref().err().cloned()).or_else(send_error) {
            self.failed = Some(error.clone());
            return Err(error);
        }
        let handled = runtime.handle_local(state, all);
        self.charge_if_simulated();
        Ok(received.is_ok_and(|received| received) || handled)
    }

    #[inline]
    fn charge_if_simulated(&mut self) {
        if self.is_simulated {
            self.comm.account_work(self.run.reactor().runtime.context.sends.take_work());
        }
    }

    #[cold]
    fn sync_trace_clock(&mut self) {
        if let Some(trace) = &mut self.run.reactor().runtime.context.sends.trace {
            trace.sync_clock(self.comm.now(), !self.is_simulated);
        }
    }

    /// Waits until every message of all ranks has been handled.
    pub(crate) fn finish(mut self) -> Result<u64> {
        let runtime = &mut self.run.reactor().runtime;
        runtime.interleaving.is_allowed = false;
        runtime.context.sends.clock.update(None);
        if runtime.context.sends.is_idle() {
            // Reporting at once saves a third of the time of an empty epoch.
            runtime.on_idle(true);
        }
        loop {
            let received = self.step(true)?;
            if self.run.is_complete() {
                break;
            }
            if received {
                self.run.reset_backoff();
            } else if !self.run.reactor().runtime.on_idle(true) {
                // Messages of the detector are sent before waiting.
                if !self.step(true)? && !self.run.is_complete() {
                    self.run.wait();
                }
            }
        }
        let Self { run, comm, epoch_statistics, record, .. } = self;
        let EpochReactor { runtime, .. } = run.into_reactor();
        if let Some((name, begun)) = record {
            EpochStatistics::record(epoch_statistics, &name, comm.now().saturating_sub(begun));
            if let Some(trace) = &mut runtime.context.sends.trace {
                trace.record_epoch(name, begun);
            }
        }
        Ok(runtime.final_sum.expect("the epoch is over"))
    }
}
