//! The runtime of one rank, and an epoch of it as a [`Reactor`]: buffers in, buffers out.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use treepie_base::{Bytes, Error, Result};
use treepie_comm::Comm;
use treepie_fabric::{Gathered, Needs, Reactor, Transmit};

use crate::builder::{Builder, Planted};
use crate::config::Style;
use crate::context::{Context, Local};
use crate::epoch::Epoch;
use crate::handler::{Batch, Handler};
use crate::statistics::{EpochStatistics, Memory, TypeStatistics};
use crate::tag::{Kind, kind, wave_tag};
use crate::termination::{Detection, Report, Verdict};
use crate::weaving::Woven;

/// Active messages on a communicator, with handlers that work on a state `S`.
///
/// ```
/// use treepie_am::ActiveMessages;
/// # fn main() -> treepie_base::Result<()> {
/// # let world = treepie_comm::Comm::world(Box::new(treepie_fabric::Alone::new()));
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
    pub(crate) machinery: Machinery<S>,
    /// Bytes that may wait before the body is slowed down.
    pub(crate) cap: usize,
    pub(crate) slowed: u64,
    /// Of the next epoch.
    pub(crate) name: Option<String>,
    /// Epochs so far.
    pub(crate) epochs: u64,
    pub(crate) named: Vec<EpochStatistics>,
}

impl<S> ActiveMessages<S> {
    /// Begins a registration.
    pub fn builder(comm: &Comm) -> Builder<S> {
        Builder::new(comm)
    }

    pub(crate) fn new(comm: Comm, machinery: Machinery<S>, cap: usize) -> Self {
        Self { comm, machinery, cap, slowed: 0, name: None, epochs: 0, named: Vec::new() }
    }

    /// Names the next epoch, for [statistics](Self::epochs) and traces.
    pub fn named(&mut self, name: impl Into<String>) -> &mut Self {
        self.name = Some(name.into());
        self
    }

    /// An epoch whose body is called for each item. What has come is handled between items. When it returns, every message
    /// that was sent in it anywhere, by bodies or handlers, has been handled. Returns the sum of what was
    /// [added](Context::add) on all ranks.
    ///
    /// All ranks call it, with items or without. Bodies and handlers must not use the communicator.
    ///
    /// One item should not send very much: what it sends before the next is polled for takes memory.
    pub fn epoch_for<I>(
        &mut self,
        state: &mut S,
        items: impl IntoIterator<Item = I>,
        mut body: impl FnMut(&mut Context<S>, &mut S, I),
    ) -> Result<u64> {
        let mut epoch = Epoch::begin(self, state)?;
        let mut items = items.into_iter();
        while epoch.do_some(&mut items, &mut body) {
            epoch.poll()?;
        }
        epoch.finish()
    }

    /// An epoch with one body, which lets the runtime get on by [`Epoch::progress`] where it likes. Else like
    /// [`epoch_for`](Self::epoch_for).
    pub fn epoch(&mut self, state: &mut S, body: impl FnOnce(&mut Epoch<'_, S>) -> Result<()>) -> Result<u64> {
        let mut epoch = Epoch::begin(self, state)?;
        body(&mut epoch)?;
        epoch.finish()
    }

    /// What has become of messages so far, by type.
    pub fn statistics(&self) -> Vec<TypeStatistics> {
        self.machinery.context.lanes.iter().map(|lane| lane.statistics()).collect()
    }

    /// How long epochs took that had a name, or while a trace was recorded, by name.
    pub fn epochs(&self) -> &[EpochStatistics] {
        &self.named
    }

    /// What memory was needed for sends that waited.
    pub fn memory(&self) -> Memory {
        Memory { deferred: self.machinery.context.outgoing.peak, slowed: self.slowed }
    }

    /// Writes what this rank did when, in the format that Chrome and Perfetto show. Empty without [`Builder::trace`].
    pub fn write_trace(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let names = &self.machinery.names.types;
        match &self.machinery.context.trace {
            Some(trace) => trace.write(path.as_ref(), names),
            None => crate::trace::Trace::new(self.comm.rank() as u32).write(path.as_ref(), names),
        }
    }
}

/// Everything of a runtime but the communicator.
pub(crate) struct Machinery<S> {
    pub(crate) handlers: Vec<Handler<S>>,
    pub(crate) names: Names,
    pub(crate) context: Context<S>,
    detection: Detection,
    /// Buffers sent and received in this epoch.
    sent: u64,
    received: u64,
    /// The sum, when the epoch is over.
    pub(crate) over: Option<u64>,
    /// What was kept is to be handled.
    round_is_over: bool,
    /// Buffers may wait to be handled between items of the body: there are more of them, and soon.
    pub(crate) may_weave: bool,
    /// The buffer that is.
    pub(crate) woven: Option<Woven>,
    /// Buffers of the next round, from ranks that have heard before this one that this round is over: who sent them, the tag
    /// and what they hold. Handled or passed on now, what follows from them would be sent in a round that is over for others.
    early: Vec<(u32, u32, Vec<u8>)>,
    pub(crate) planted: Option<Planted>,
    /// Buffers that were sent and not counted.
    late: u64,
}

/// So many buffers of its own a rank handles before it looks again what others have sent.
const AT_ONCE: usize = 16;

impl<S> Machinery<S> {
    pub(crate) fn new(
        handlers: Vec<Handler<S>>,
        mut context: Context<S>,
        detection: Detection,
        planted: Option<Planted>,
    ) -> Self {
        // A trace shows whole buffers.
        let is_traced = context.trace.is_some();
        for (lane, handler) in context.lanes.iter_mut().zip(&handlers) {
            lane.can_be_woven = handler.can_weave() && lane.style == Style::Am && !is_traced;
        }
        Self {
            handlers,
            names: Names {
                rank: context.rank(),
                types: context.lanes.iter().map(|lane| lane.statistics.name.clone()).collect(),
            },
            context,
            detection,
            sent: 0,
            received: 0,
            over: None,
            round_is_over: false,
            may_weave: false,
            woven: None,
            early: Vec::new(),
            planted,
            late: 0,
        }
    }

    /// Begins an epoch. One before that failed may have left something behind.
    pub(crate) fn begin(&mut self) {
        self.detection.begin();
        let ended = self.over.take().is_some();
        (self.sent, self.received, self.round_is_over, self.late) = (0, 0, false, 0);
        self.may_weave = false;
        self.context.clock.look(None);
        (self.context.sum, self.context.round, self.context.fault) = (0, 0, None);
        if !ended {
            self.early.clear();
            self.woven = None;
            self.context.clear();
        }
    }

    /// Handles a buffer of messages that are all for this rank.
    fn dispatch(&mut self, state: &mut S, index: usize, batch: Batch<'_>) {
        let context = &mut self.context;
        let naming = Naming { names: &self.names, index };
        let lane = &mut context.lanes[index];
        let begun = lane.stopwatch.begin().then(Instant::now);
        let traced = context.trace.as_ref().map(|trace| trace.now());
        let handled = self.handlers[index].run(state, context, batch);
        std::mem::forget(naming);
        let lane = &mut context.lanes[index];
        lane.statistics.handled += handled;
        if let Some(begun) = begun {
            lane.stopwatch.took(begun.elapsed(), handled);
        }
        if let (Some(trace), Some(begun)) = (&mut context.trace, traced) {
            trace.handled(index, batch.from, handled, begun);
        }
    }

    /// Takes a buffer in.
    fn take_in(&mut self, state: &mut S, from: u32, tag: u32, body: &[u8]) -> Result<()> {
        let (index, mixed, round) = match kind(tag) {
            Kind::Data { index, mixed, round } => (index, mixed, round),
            Kind::Wave { tag } => {
                let words: Vec<u64> = body.chunks_exact(8).map(bytemuck::pod_read_unaligned).collect();
                self.detection.on_message(tag, &words);
                self.look();
                return Ok(());
            }
        };
        if index >= self.handlers.len() {
            // Another collective operation than an epoch of these types.
            return Err(Error::OtherOperation { rank: from as usize });
        }
        if round != self.context.round {
            self.early.push((from, tag, body.to_vec()));
            return Ok(());
        }
        self.received += 1;
        if mixed {
            self.context.pass_on(index, body);
        } else if self.context.lanes[index].style == Style::Bsp {
            self.context.lanes[index].keep(from, body.to_vec());
        } else if self.may_weave && self.context.lanes[index].can_be_woven {
            self.context.queue(index, from, body);
        } else {
            let batch = Batch::whole(body, from, self.context.lanes[index].frame);
            self.dispatch(state, index, batch);
        }
        Ok(())
    }

    /// Handles what this rank has sent to itself, and what a round has left for the next. If `all`, also what is in buffers
    /// that are not full. Returns whether there was anything.
    pub(crate) fn work(&mut self, state: &mut S, all: bool) -> bool {
        let mut any = false;
        if std::mem::take(&mut self.round_is_over) {
            self.begin_round(state);
            any = true;
        }
        for _ in 0..AT_ONCE {
            if !all && self.begin_weaving(state) {
                break;
            }
            let Some(Local { index, from, mut room, used, handled, .. }) = self.next_local(all) else { break };
            any = true;
            self.context.outgoing.forget_local(used);
            if self.context.lanes[index].style == Style::Bsp {
                room.truncate(used);
                self.context.lanes[index].keep(from, room);
            } else {
                let batch = Batch::whole(&room[handled..used], from, self.context.lanes[index].frame);
                self.dispatch(state, index, batch);
                let lane = &mut self.context.lanes[index];
                lane.statistics.handled += lane.frame.messages_in(handled, false);
                self.context.recycle(room);
            }
        }
        any
    }

    /// The next buffer that waits here.
    fn next_local(&mut self, all: bool) -> Option<Local> {
        if self.woven.is_some() {
            return self.unweave();
        }
        if self.context.local.is_empty() && all {
            self.context.flush_own();
        }
        self.context.local.pop_front()
    }

    /// Handles what was sent in the round that is over; what is sent now belongs to the next.
    fn begin_round(&mut self, state: &mut S) {
        self.context.round = 1 - self.context.round;
        for index in 0..self.handlers.len() {
            for (from, body) in self.context.lanes[index].take_kept() {
                self.dispatch(state, index, Batch::whole(&body, from, self.context.lanes[index].frame));
                self.context.recycle(body);
            }
        }
        for (from, tag, body) in std::mem::take(&mut self.early) {
            self.take_in(state, from, tag, &body).expect("it is of a type that there is");
        }
    }

    /// There is nothing else to do: sends what is in buffers. If there is nothing on its way from here, and the body is over,
    /// tells the detector. Returns whether there is something to be sent now.
    pub(crate) fn rest(&mut self, body_is_over: bool) -> bool {
        if self.context.flush() {
            return true;
        }
        let waits = self.round_is_over || self.over.is_some();
        if !body_is_over || waits || !self.context.is_passive() || self.woven.is_some() {
            return false;
        }
        let kept = self.context.lanes.iter().map(|lane| lane.kept.len() as u64).sum();
        let Self { sent, received, .. } = *self;
        self.detection.report(Report { sent, received, kept, sum: self.context.sum });
        self.sent += std::mem::take(&mut self.late);
        self.look();
        false
    }

    /// Looks what waves have shown.
    fn look(&mut self) {
        match self.detection.poll_verdict() {
            None => return,
            Some(Verdict::Over(sum)) => self.over = Some(sum),
            Some(Verdict::NextRound) => self.round_is_over = true,
        }
        if let Some(trace) = &mut self.context.trace {
            trace.wave();
        }
    }
}

/// What is said of handlers that panic.
pub(crate) struct Names {
    rank: usize,
    types: Vec<String>,
}

/// Says whose handler panicked, while the panic goes on. It is forgotten where there was none.
pub(crate) struct Naming<'a> {
    pub(crate) names: &'a Names,
    pub(crate) index: usize,
}

impl Drop for Naming<'_> {
    fn drop(&mut self) {
        let Names { rank, types } = self.names;
        eprintln!("treepie: rank {rank}: the handler of `{}` panicked", types[self.index]);
    }
}

/// An epoch that goes on.
pub(crate) struct Reacting<'a, S> {
    pub(crate) machinery: &'a mut Machinery<S>,
    pub(crate) state: &'a mut S,
}

impl<S> Reactor for Reacting<'_, S> {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        let Machinery { context, detection, sent, late, planted, .. } = &mut *self.machinery;
        if let Some((to, waiting)) = context.outgoing.pop() {
            let count = if *planted == Some(Planted::CountsLate) { late } else { sent };
            *count += 1;
            let transmit = Transmit::new(to, waiting.tag, Bytes::from(waiting.data));
            return Some(if detection.is_synchronous() { transmit.synchronous() } else { transmit });
        }
        let (to, tag, words) = detection.poll_transmit()?;
        self.machinery.look();
        Some(Transmit::new(to, wave_tag(tag), Bytes::from(words)))
    }

    fn on_message(&mut self, _now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        self.on_body(from, tag, bytes.as_slice())
    }

    fn on_body(&mut self, from: u32, tag: u32, body: &[u8]) -> Result<()> {
        self.machinery.take_in(self.state, from, tag, body)
    }

    fn reads_in_place(&self) -> bool {
        true
    }

    fn on_sent(&mut self, to: u32, tag: u32, memory: Option<Bytes>) {
        if let Kind::Wave { .. } = kind(tag) {
            return;
        }
        let context = &mut self.machinery.context;
        context.outgoing.taken(to);
        if let Some(memory) = memory.and_then(|memory| memory.into_vec::<u8>().ok()) {
            context.recycle(memory);
        }
    }

    fn poll_arrive(&mut self) -> Option<u64> {
        match &mut self.machinery.detection {
            Detection::NbxLike(nbx_like) => nbx_like.poll_arrive(),
            Detection::Counting(_) => None,
        }
    }

    fn on_gathered(&mut self, gathered: Gathered) -> Result<()> {
        if let Detection::NbxLike(nbx_like) = &mut self.machinery.detection {
            nbx_like.on_gathered(gathered.census);
        }
        self.machinery.look();
        Ok(())
    }

    fn meets_again(&self) -> bool {
        matches!(&self.machinery.detection, Detection::NbxLike(nbx_like) if nbx_like.meets_again())
    }

    fn name(&self) -> &'static str {
        "an epoch of active messages"
    }

    fn needs(&self, rank: u32) -> Needs {
        match &*self.machinery {
            Machinery { over: Some(_), .. } => Needs::Nothing,
            machinery if machinery.detection.needs(rank) => Needs::Message,
            _ => Needs::Perhaps,
        }
    }

    fn is_done(&self) -> bool {
        self.machinery.over.is_some()
    }
}
