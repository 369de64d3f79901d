//! The runtime of one rank, and an epoch of it as a [`Reactor`]: buffers in, buffers out.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use treepie_base::{Bytes, Error, Result};
use treepie_comm::Comm;
use treepie_fabric::{BarrierResult, CallSignature, PeerDependency, ProtocolFamily, Reactor, Transmit};

use crate::config::Style;
use crate::context::Context;
use crate::handler::{Batch, Handler, Handlers};
use crate::interleaving::Interleaving;
use crate::send_path::LocalBuffer;
use crate::statistics::{EpochStatistics, MemoryStatistics, TypeStatistics};
use crate::tag::{TagKind, tag_kind, wave_tag};
use crate::termination::{RankReport, TerminationDetector, WaveOutcome};

/// Active messages on a communicator, with handlers that work on a state `S`.
///
/// ```
/// use treepie_am::ActiveMessages;
/// # fn main() -> treepie_base::Result<()> {
/// # let world = treepie_comm::Comm::world(Box::new(treepie_fabric::Singleton::new()));
/// let ranks = world.size();
/// let mut build = ActiveMessages::<Vec<u64>>::builder(&world);
/// let update = build.port::<u64>("update");
/// build.on(update, |table, _, at| table[at as usize] += 1);
/// let mut am = build.start()?;
///
/// let mut table = vec![0; 100];
/// am.epoch_for(&mut table, 0..1000_u64, |cx, _, i| {
///     let at = i * i % (100 * ranks as u64);
///     cx.send(update, (at / 100) as usize, at % 100);
/// })?;
/// assert_eq!(table.iter().sum::<u64>(), 1000);
/// # Ok(())
/// # }
/// ```
pub struct ActiveMessages<S> {
    pub(crate) comm: Comm,
    pub(crate) runtime: RuntimeState<S>,
    /// Queued bytes above which the body is throttled.
    pub(crate) memory_limit: usize,
    pub(crate) throttled: u64,
    /// The name of the next epoch.
    pub(crate) name: Option<String>,
    /// Epochs started.
    pub(crate) num_epochs: u64,
    pub(crate) epoch_statistics: Vec<EpochStatistics>,
}

impl<S> ActiveMessages<S> {
    pub(crate) fn new(comm: Comm, runtime: RuntimeState<S>, memory_limit: usize) -> Self {
        Self { comm, runtime, memory_limit, throttled: 0, name: None, num_epochs: 0, epoch_statistics: Vec::new() }
    }

    /// Names the next epoch, for [statistics](Self::epoch_statistics) and traces.
    pub fn named(&mut self, name: impl Into<String>) -> &mut Self {
        self.name = Some(name.into());
        self
    }

    /// Statistics of messages so far, by type.
    pub fn statistics(&self) -> Vec<TypeStatistics> {
        self.runtime.context.sends.channels.iter().map(|channel| channel.statistics()).collect()
    }

    /// Times of named or traced epochs, by name.
    pub fn epoch_statistics(&self) -> &[EpochStatistics] {
        &self.epoch_statistics
    }

    /// Memory statistics of queued sends.
    pub fn memory_statistics(&self) -> MemoryStatistics {
        MemoryStatistics { peak_queued_bytes: self.runtime.context.sends.outgoing.peak, throttled: self.throttled }
    }

    /// Writes the trace of this rank in the format of Chrome and Perfetto. Empty without
    /// [`Builder::trace`](crate::Builder::trace).
    pub fn write_trace(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let names = &self.runtime.handlers.names;
        match &self.runtime.context.sends.trace {
            Some(trace) => trace.write(path.as_ref(), names),
            None => crate::trace::Trace::new(self.comm.rank() as u32).write(path.as_ref(), names),
        }
    }
}

/// The runtime without the communicator.
pub(crate) struct RuntimeState<S> {
    pub(crate) handlers: Handlers<S>,
    pub(crate) context: Context<S>,
    detector: TerminationDetector,
    /// The signature of epochs.
    call: CallSignature,
    /// Buffers sent and received in this epoch.
    sent: u64,
    received: u64,
    /// The sum over all ranks, when the epoch is over.
    pub(crate) final_sum: Option<u64>,
    /// The deferred messages are to be handled.
    round_is_over: bool,
    pub(crate) interleaving: Interleaving,
    /// Buffers of the next round, from ranks that know before this one that this round is over: source, tag and body.
    /// Handled or forwarded now, they would cause sends in a round that is over for other ranks.
    early: Vec<(u32, u32, Vec<u8>)>,
}

/// Local buffers handled before the next poll of the engine.
const LOCAL_BUFFERS_PER_POLL: usize = 16;

impl<S> RuntimeState<S> {
    pub(crate) fn new(handlers: Vec<Handler<S>>, mut context: Context<S>, detector: TerminationDetector) -> Self {
        // A trace shows whole buffers.
        let is_traced = context.sends.trace.is_some();
        for (channel, handler) in context.sends.channels.iter_mut().zip(&handlers) {
            channel.can_interleave = handler.can_interleave() && channel.style == Style::Am && !is_traced;
        }
        Self {
            handlers: Handlers::new(handlers, &context),
            context,
            detector,
            call: CallSignature::from_name(EPOCH),
            sent: 0,
            received: 0,
            final_sum: None,
            round_is_over: false,
            interleaving: Interleaving::default(),
            early: Vec::new(),
        }
    }

    /// Starts an epoch. Discards what a failed one has left.
    pub(crate) fn begin(&mut self) {
        self.detector.begin();
        let ended = self.final_sum.take().is_some();
        (self.sent, self.received, self.round_is_over) = (0, 0, false);
        self.context.sends.faults.take_uncounted_sends();
        self.interleaving.is_allowed = false;
        self.context.sends.clock.update(None);
        (self.context.sends.sum, self.context.sends.round, self.context.sends.error) = (0, 0, None);
        if !ended {
            self.early.clear();
            self.interleaving = Interleaving::default();
            self.context.clear();
        }
    }

    /// Handles a buffer of messages that are all for this rank.
    fn dispatch(&mut self, state: &mut S, index: usize, batch: Batch<'_>) {
        let context = &mut self.context;
        let channel = &mut context.sends.channels[index];
        let begun = channel.stopwatch.begin().then(Instant::now);
        let traced = context.sends.trace.as_ref().map(|trace| trace.now());
        let handled = self.handlers.call(index, |handler| handler.run(state, context, batch));
        let channel = &mut context.sends.channels[index];
        channel.statistics.handled += handled;
        if let Some(begun) = begun {
            channel.stopwatch.took(begun.elapsed(), handled);
        }
        if let (Some(trace), Some(begun)) = (&mut context.sends.trace, traced) {
            trace.record_handled(index, batch.from, handled, begun);
        }
    }

    /// Handles a chunk of the interleaved buffer, if there is one.
    #[inline(always)]
    pub(crate) fn interleave(&mut self, state: &mut S) {
        self.interleaving.step(&mut self.handlers, &mut self.context, state);
    }

    /// Processes a received buffer.
    fn receive(&mut self, state: &mut S, from: u32, tag: u32, body: &[u8]) -> Result<()> {
        let (index, has_destination, round) = match tag_kind(tag) {
            TagKind::Data { index, has_destination, round } => (index, has_destination, round),
            TagKind::Wave { tag } => {
                self.detector.on_message(from, tag, Bytes::copy_of(body, align_of::<u64>()))?;
                self.poll_detector();
                return Ok(());
            }
        };
        if index >= self.handlers.len() {
            // Another collective operation than an epoch of these types.
            return Err(Error::CollectiveOrderMismatch { rank: from as usize });
        }
        if round != self.context.sends.round {
            self.early.push((from, tag, body.to_vec()));
            return Ok(());
        }
        self.received += 1;
        if has_destination {
            self.context.sends.forward(index, body);
        } else if self.context.sends.channels[index].style == Style::Bsp {
            self.context.sends.channels[index].defer(from, body.to_vec());
        } else if self.interleaving.is_allowed && self.context.sends.channels[index].can_interleave {
            self.context.sends.enqueue_local(index, from, body);
        } else {
            let batch = Batch::new(body, from, self.context.sends.channels[index].frame);
            self.dispatch(state, index, batch);
        }
        Ok(())
    }

    /// Handles the local queue, and the deferred messages at the end of a round. If `all`, also local buffers that are
    /// not full. Returns whether there were any messages.
    pub(crate) fn handle_local(&mut self, state: &mut S, all: bool) -> bool {
        let mut any = false;
        if std::mem::take(&mut self.round_is_over) {
            self.begin_round(state);
            any = true;
        }
        for _ in 0..LOCAL_BUFFERS_PER_POLL {
            if !all && self.interleaving.begin(&mut self.handlers, &mut self.context.sends, state) {
                break;
            }
            let Some(LocalBuffer { index, from, mut storage, used, handled, .. }) = self.next_local(all) else {
                break;
            };
            any = true;
            self.context.sends.outgoing.remove_local(used);
            if self.context.sends.channels[index].style == Style::Bsp {
                storage.truncate(used);
                self.context.sends.channels[index].defer(from, storage);
            } else {
                let batch = Batch::new(&storage[handled..used], from, self.context.sends.channels[index].frame);
                self.dispatch(state, index, batch);
                let channel = &mut self.context.sends.channels[index];
                channel.statistics.handled += channel.frame.messages_in(handled, false);
                self.context.sends.recycle(storage);
            }
        }
        any
    }

    /// The next local buffer.
    fn next_local(&mut self, all: bool) -> Option<LocalBuffer> {
        if self.interleaving.is_active() {
            return self.interleaving.stop();
        }
        if self.context.sends.local_queue.is_empty() && all {
            self.context.sends.flush_local();
        }
        self.context.sends.local_queue.pop_front()
    }

    /// Handles the messages of the round that is over; sends from now on belong to the next round.
    fn begin_round(&mut self, state: &mut S) {
        self.context.sends.round = 1 - self.context.sends.round;
        for index in 0..self.handlers.len() {
            for (from, body) in self.context.sends.channels[index].take_deferred() {
                self.dispatch(state, index, Batch::new(&body, from, self.context.sends.channels[index].frame));
                self.context.sends.recycle(body);
            }
        }
        for (from, tag, body) in std::mem::take(&mut self.early) {
            self.receive(state, from, tag, &body).expect("its type was checked");
        }
    }

    /// Called when the rank is idle: flushes the buffers. If they were empty, the body is over and the rank is passive,
    /// reports to the detector. Returns whether there is something to send.
    pub(crate) fn on_idle(&mut self, body_is_over: bool) -> bool {
        if self.context.sends.flush() {
            return true;
        }
        let waits = self.round_is_over || self.final_sum.is_some();
        if !body_is_over || waits || !self.context.sends.is_passive() || self.interleaving.is_active() {
            return false;
        }
        let deferred = self.context.sends.channels.iter().map(|channel| channel.deferred.len() as u64).sum();
        let Self { sent, received, .. } = *self;
        self.detector.report(RankReport { sent, received, deferred, sum: self.context.sends.sum });
        self.sent += self.context.sends.faults.take_uncounted_sends();
        self.poll_detector();
        false
    }

    /// Applies the outcome of termination waves.
    fn poll_detector(&mut self) {
        match self.detector.poll_outcome() {
            None => return,
            Some(WaveOutcome::Terminated(sum)) => self.final_sum = Some(sum),
            Some(WaveOutcome::NextRound) => self.round_is_over = true,
        }
        if let Some(trace) = &mut self.context.sends.trace {
            trace.record_wave();
        }
    }
}

const EPOCH: &str = "an epoch of active messages";

/// The protocols of this crate.
pub static PROTOCOLS: ProtocolFamily = ProtocolFamily { place: 2, protocols: &[(EPOCH, "")] };

/// An active epoch as a reactor.
pub(crate) struct EpochReactor<'a, S> {
    pub(crate) runtime: &'a mut RuntimeState<S>,
    pub(crate) state: &'a mut S,
}

impl<S> Reactor for EpochReactor<'_, S> {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        let RuntimeState { context, detector, sent, .. } = &mut *self.runtime;
        if let Some((to, buffer)) = context.sends.outgoing.pop() {
            *context.sends.faults.send_counter(sent) += 1;
            let transmit = Transmit::new(to, buffer.tag, Bytes::from(buffer.data));
            return Some(if detector.is_synchronous() { transmit.synchronous() } else { transmit });
        }
        let transmit = detector.poll_transmit()?;
        self.runtime.poll_detector();
        Some(Transmit { tag: wave_tag(transmit.tag), ..transmit })
    }

    fn on_message(&mut self, _now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        self.on_message_in_place(from, tag, bytes.as_slice())
    }

    fn on_message_in_place(&mut self, from: u32, tag: u32, body: &[u8]) -> Result<()> {
        self.runtime.receive(self.state, from, tag, body)
    }

    fn accepts_in_place(&self) -> bool {
        true
    }

    fn on_sent(&mut self, to: u32, tag: u32, memory: Option<Bytes>) {
        if let TagKind::Wave { .. } = tag_kind(tag) {
            return;
        }
        let context = &mut self.runtime.context;
        context.sends.outgoing.on_sent(to);
        if let Some(memory) = memory.and_then(|memory| memory.into_vec::<u8>().ok()) {
            context.sends.recycle(memory);
        }
    }

    fn poll_barrier(&mut self) -> Option<u64> {
        match &mut self.runtime.detector {
            TerminationDetector::Consensus(consensus) => consensus.poll_barrier(),
            TerminationDetector::FourCounter(_) => None,
        }
    }

    fn on_barrier(&mut self, result: BarrierResult) -> Result<()> {
        if let TerminationDetector::Consensus(consensus) = &mut self.runtime.detector {
            consensus.on_barrier(result.bits);
        }
        self.runtime.poll_detector();
        Ok(())
    }

    fn expects_barrier(&self) -> bool {
        matches!(&self.runtime.detector, TerminationDetector::Consensus(consensus) if consensus.expects_barrier())
    }

    fn name(&self) -> &'static str {
        EPOCH
    }

    fn call(&self) -> CallSignature {
        self.runtime.call
    }

    fn dependency_on(&self, rank: u32) -> PeerDependency {
        match &*self.runtime {
            RuntimeState { final_sum: Some(_), .. } => PeerDependency::Nothing,
            runtime if runtime.detector.needs(rank) => PeerDependency::Required,
            _ => PeerDependency::Possible,
        }
    }

    fn is_done(&self) -> bool {
        self.runtime.final_sum.is_some()
    }
}
