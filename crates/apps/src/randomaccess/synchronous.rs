//! Rounds of a look-ahead, in which all ranks exchange lists in stages.   [RandomAccess paper, sections 2 and 4]
//!
//! ```text
//! round: generate Q data
//!        for each stage: divide the list into bins; send the bins of others; receive theirs
//!        update the table by what is left
//! ```
//!
//! A message is a bare list of data: the next hop of a datum follows from the datum. Received lists are divided where
//! they are, and data is copied only into messages.
//!
//! A rank receives Q data on average, but any number in the worst case. So a receive has room for twice what is expected and
//! some more, and a full message announces another one.

use treepie_comm::{Comm, Max, PersistentRecv, Rank, Request, Result, Status, Tag};

use super::partition::Partition;
use super::refinements::Refinements;
use super::stages::{Binned, Stage};
use super::stream::Stream;
use super::work::Work;

/// The exchange of a rank, with its buffers.
pub(super) struct Synchronous {
    link: Link,
    partition: Partition,
    stages: Vec<Stage>,
    refinements: Refinements,
    look_ahead: usize,
    /// Of even and odd rounds, which may overlap.
    rounds: [Round; 2],
}

/// How much is generated in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Data of a rank.
    pub chunk: usize,
    /// Whether the updates of a round wait until the next one has been sent.
    pub overlaps: bool,
}

impl Pace {
    /// With overlap two rounds are under way, which together look ahead as far as allowed.
    fn new(look_ahead: usize, overlaps: bool) -> Self {
        let overlaps = overlaps && look_ahead > 1;
        Self { chunk: if overlaps { look_ahead / 2 } else { look_ahead }, overlaps }
    }
}

/// How often each pace is tried, in turn, and rounds of a whole look-ahead that a trial has.
const TRIALS: usize = 4;
const TRIAL_ROUNDS: usize = 16;

/// How messages are sent and received.
struct Link {
    comm: Comm,
    /// The most data of a message of each stage.
    max_messages: Vec<usize>,
    is_nonblocking: bool,
    is_persistent: bool,
    /// Sends that may not have completed, oldest first.
    sends: Vec<Request<'static, Vec<u64>>>,
    /// The same of messages after full ones.
    continued: Vec<Request<'static, Vec<u64>>>,
    /// Memory of completed ones.
    free: Vec<Vec<u64>>,
    /// Memory for receives.
    free_receives: Vec<Vec<u64>>,
}

/// The buffers of a round. A stage needs those of the stage before, so two stages have all memory.
struct Round {
    list: Vec<u64>,
    /// Of even and odd stages.
    buffers: [StageBuffers; 2],
    /// The receives of each stage.
    receives: Vec<StageReceives>,
    /// Updates until the rest is discarded.
    room: usize,
}

/// The data of a stage.
#[derive(Default)]
struct StageBuffers {
    /// The bins of what this rank had, and with a late wait those of what it received in the stage before.
    kept: Binned,
    late: Binned,
    /// Messages, with their lengths.
    received: Vec<(Vec<u64>, usize)>,
}

/// The receives of a stage.
#[derive(Default)]
struct StageReceives {
    requests: Vec<Request<'static, (Vec<u64>, Status)>>,
    /// The receives, if they are persistent. They have their messages.
    persistent: Vec<PersistentRecv<u64>>,
}

/// Sends that may be incomplete with double buffers.
const DOUBLE_BUFFERS: usize = 2;

/// Messages after a full one have tags from here on.
const CONTINUED: Tag = 1 << 16;

/// The data that a receive of a stage has memory for: twice the mean of a bin, and four standard deviations.
fn room(look_ahead: usize, bins: usize) -> usize {
    let expected = look_ahead as f64 / bins as f64;
    (2.0 * expected + 4.0 * expected.sqrt()).ceil() as usize + 8
}

impl Synchronous {
    pub(super) fn new(
        comm: &Comm,
        partition: Partition,
        stages: Vec<Stage>,
        look_ahead: usize,
        refinements: Refinements,
    ) -> Self {
        let receives = || stages.iter().map(|_| StageReceives::default()).collect();
        let rounds =
            [(); 2].map(|()| Round { list: Vec::new(), buffers: Default::default(), receives: receives(), room: 0 });
        let link = Link {
            comm: comm.clone(),
            max_messages: stages.iter().map(|stage| room(look_ahead, stage.to.len())).collect(),
            is_nonblocking: refinements.double_buffer,
            is_persistent: refinements.persistent,
            sends: Vec::new(),
            continued: Vec::new(),
            free: Vec::new(),
            free_receives: Vec::new(),
        };
        Self { link, partition, stages, refinements, look_ahead, rounds }
    }

    /// All updates of a stream; `max_count` is the number of updates of the rank that has most. Returns the pace of most rounds.
    pub(super) fn run(&mut self, stream: &mut Stream, max_count: u64, work: &mut Work<'_>) -> Result<Pace> {
        let mut left = max_count;
        // Without stages there is nothing to overlap with.
        let overlaps = self.refinements.overlap && !self.stages.is_empty();
        let mut pace = Pace::new(self.look_ahead, overlaps);
        if self.refinements.adaptive && !self.stages.is_empty() {
            pace = self.fastest_pace(pace, stream, &mut left, work)?;
        }
        self.run_rounds(stream, pace, left.div_ceil(pace.chunk as u64), work)?;
        Ok(pace)
    }

    /// Tries several paces, if there are enough updates, and returns the one whose slowest rank is fastest.
    fn fastest_pace(
        &mut self,
        default: Pace,
        stream: &mut Stream,
        left: &mut u64,
        work: &mut Work<'_>,
    ) -> Result<Pace> {
        let all = [1, 2, 4].map(|part| Pace::new(self.look_ahead.div_ceil(part), false));
        let paces = [all[0], all[1], all[2], Pace::new(self.look_ahead, true)];
        let trials = (TRIALS * TRIAL_ROUNDS * self.look_ahead) as u64;
        if *left < 8 * trials {
            return Ok(default);
        }
        let mut nanos = [0.0; 4];
        for _ in 0..TRIALS {
            for (pace, nanos) in paces.into_iter().zip(&mut nanos) {
                let rounds = (TRIAL_ROUNDS * self.look_ahead / pace.chunk) as u64;
                let start = self.link.comm.now();
                self.run_rounds(stream, pace, rounds, work)?;
                *nanos += (self.link.comm.now() - start).as_nanos() as f64;
                *left -= rounds * pace.chunk as u64;
            }
        }
        let slowest = self.link.comm.allreduce(&nanos, Max)?;
        let fastest = (0..paces.len()).min_by(|a, b| slowest[*a].total_cmp(&slowest[*b])).expect("there are paces");
        Ok(paces[fastest])
    }

    fn run_rounds(&mut self, stream: &mut Stream, pace: Pace, rounds: u64, work: &mut Work<'_>) -> Result<()> {
        for round in 0..rounds {
            let current = if pace.overlaps { (round % 2) as usize } else { 0 };
            work.generate(stream, &mut self.rounds[current].list, pace.chunk);
            self.rounds[current].room = if self.refinements.discard { pace.chunk } else { usize::MAX };
            self.exchange(current, pace.overlaps && round > 0, work)?;
            if !pace.overlaps {
                self.finish(current, work)?;
            }
        }
        if pace.overlaps && rounds > 0 {
            self.finish(((rounds - 1) % 2) as usize, work)?;
        }
        self.link.complete_sends(0)
    }

    /// All stages of a round, but for what is received in the last one. The round before is finished meanwhile, if it is not.
    fn exchange(&mut self, current: usize, has_previous: bool, work: &mut Work<'_>) -> Result<()> {
        let Refinements { prepost, deferred, late_wait, .. } = self.refinements;
        if prepost {
            for (index, stage) in self.stages.iter().enumerate() {
                self.link.post(index, stage, &mut self.rounds[current].receives[index])?;
            }
        }
        for index in 0..self.stages.len() {
            self.divide(current, index, work)?;
            let (stage, round) = (&self.stages[index], &mut self.rounds[current]);
            if !prepost {
                self.link.post(index, stage, &mut round.receives[index])?;
            }
            work.account();
            self.link.send_bins(index, stage, &round.buffers[index % 2], work)?;
            if index == 0 && has_previous {
                self.finish(1 - current, work)?;
            }
            if index + 1 == self.stages.len() && !deferred {
                self.update_own(current, work);
            }
            if !late_wait {
                self.receive(current, index)?;
            }
        }
        Ok(())
    }

    /// Waits for the messages of a stage, unless that has been done.
    fn receive(&mut self, current: usize, index: usize) -> Result<()> {
        let Round { buffers, receives, .. } = &mut self.rounds[current];
        self.link.receive(index, &mut receives[index], &mut buffers[index % 2].received)
    }

    /// Divides what this rank has into the bins of a stage. With a late wait, what it has kept is divided before it waits
    /// for what the others have sent in the stage before.
    fn divide(&mut self, current: usize, index: usize, work: &mut Work<'_>) -> Result<()> {
        let (stage, partition, round) = (&self.stages[index], &self.partition, &mut self.rounds[current]);
        let [even, odd] = &mut round.buffers;
        let (before, StageBuffers { kept, late, .. }) = if index.is_multiple_of(2) { (odd, even) } else { (even, odd) };
        let Some(index_before) = index.checked_sub(1) else {
            work.divide(kept, std::iter::once(&round.list[..]), stage, partition);
            late.clear(stage);
            return Ok(());
        };
        let (own, receives) = (self.stages[index_before].own, &mut round.receives[index_before]);
        if self.refinements.late_wait {
            work.divide(kept, before.bin(own).into_iter(), stage, partition);
            work.account();
            self.link.receive(index_before, receives, &mut before.received)?;
            work.divide(late, before.lists(receives), stage, partition);
        } else {
            work.divide(kept, before.bin(own).into_iter().chain(before.lists(receives)), stage, partition);
            late.clear(stage);
        }
        Ok(())
    }

    /// What remains of a round when all its stages have been sent.
    fn finish(&mut self, current: usize, work: &mut Work<'_>) -> Result<()> {
        if let Some(last) = self.stages.len().checked_sub(1) {
            self.receive(current, last)?;
            if self.refinements.deferred {
                self.update_own(current, work);
            }
            let Round { buffers, receives, room, .. } = &mut self.rounds[current];
            buffers[last % 2].lists(&receives[last]).for_each(|list| work.update(list, room));
        } else {
            let Round { list, room, .. } = &mut self.rounds[current];
            work.update(list, room);
        }
        work.account();
        Ok(())
    }

    /// Updates by the data that was here before the last exchange.
    fn update_own(&mut self, current: usize, work: &mut Work<'_>) {
        let Round { buffers, room, .. } = &mut self.rounds[current];
        let last = self.stages.len() - 1;
        buffers[last % 2].bin(self.stages[last].own).into_iter().for_each(|list| work.update(list, room));
        work.account();
    }
}

impl StageBuffers {
    /// The data of a bin.
    fn bin(&self, bin: usize) -> [&[u64]; 2] {
        [self.kept.bin(bin), self.late.bin(bin)]
    }

    /// The lists that were received.
    fn lists<'a>(&'a self, receives: &'a StageReceives) -> impl Iterator<Item = &'a [u64]> + Clone {
        let received = self.received.iter().map(|(list, len)| &list[..*len]);
        receives.persistent.iter().map(PersistentRecv::data).chain(received)
    }
}

impl Link {
    /// Starts the receives of a stage.
    fn post(&mut self, index: usize, stage: &Stage, receives: &mut StageReceives) -> Result<()> {
        let StageReceives { requests, persistent } = receives;
        if self.is_persistent {
            if persistent.is_empty() {
                let prepare = |from: &u32| self.comm.recv_init(self.max_messages[index], *from as Rank, index as Tag);
                persistent.extend(stage.from.iter().map(prepare));
            }
            return persistent.iter_mut().try_for_each(PersistentRecv::start);
        }
        for from in &stage.from {
            let mut into = self.free_receives.pop().unwrap_or_default();
            into.resize(self.max_messages[index], 0);
            requests.push(self.comm.irecv(into, *from as Rank, index as Tag)?);
        }
        Ok(())
    }

    /// Waits for the messages of a stage, unless that has been done. What `received` had is no longer needed.
    fn receive(
        &mut self,
        index: usize,
        receives: &mut StageReceives,
        received: &mut Vec<(Vec<u64>, usize)>,
    ) -> Result<()> {
        let StageReceives { requests, persistent } = receives;
        if requests.is_empty() && !persistent.iter().any(PersistentRecv::is_active) {
            return Ok(());
        }
        // With continued messages there may be more than receives.
        let lists = received.drain(..).map(|(list, _)| list);
        self.free_receives.extend(lists.take(requests.len()));
        for request in requests.drain(..) {
            let (list, status) = request.wait()?;
            received.push((list, status.count::<u64>()));
            self.receive_continued(index, status, received)?;
        }
        for receive in persistent.iter_mut() {
            if let Some(status) = receive.wait()? {
                self.receive_continued(index, status, received)?;
            }
        }
        // Their receivers do not wait for this rank any more.
        self.continued.drain(..).try_for_each(|send| send.wait().map(drop))
    }

    /// Receives what did not fit into a message.
    fn receive_continued(&self, index: usize, first: Status, received: &mut Vec<(Vec<u64>, usize)>) -> Result<()> {
        let mut len = first.count::<u64>();
        while len == self.max_messages[index] {
            let (list, _) = self.comm.recv_vec(first.source, CONTINUED + index as Tag)?;
            len = list.len();
            received.push((list, len));
        }
        Ok(())
    }

    /// Sends all bins of a stage but the own one.
    fn send_bins(&mut self, index: usize, stage: &Stage, buffers: &StageBuffers, work: &mut Work<'_>) -> Result<()> {
        // Each rank begins with another peer, so that no two send to the same one at once.
        let bins = (stage.own + 1..stage.to.len()).chain(0..stage.own);
        for bin in bins {
            let (parts, [kept, late]) = (&stage.to[bin], buffers.bin(bin));
            let (mut begin, all) = (0, kept.len() + late.len());
            for part in parts {
                let end = part.end(all);
                let within =
                    |position: usize, list: &[u64], first: usize| position.clamp(first, first + list.len()) - first;
                let [kept, late] = [(kept, 0), (late, kept.len())]
                    .map(|(list, first)| &list[within(begin, list, first)..within(end, list, first)]);
                self.send(index, part.to as Rank, [kept, late], work)?;
                begin = end;
            }
        }
        Ok(())
    }

    /// Sends two lists as one message, or more if they do not fit.
    fn send(&mut self, index: usize, to: Rank, [first, second]: [&[u64]; 2], work: &mut Work<'_>) -> Result<()> {
        let (len, max) = (first.len() + second.len(), self.max_messages[index]);
        work.count_message(len.min(max));
        if len < max && second.is_empty() && !self.is_nonblocking {
            return self.comm.send(first, to, index as Tag);
        }
        let mut message = self.free.pop().unwrap_or_default();
        message.clear();
        message.extend_from_slice(first);
        message.extend_from_slice(second);
        if len < max && !self.is_nonblocking {
            self.comm.send(&message, to, index as Tag)?;
            self.free.push(message);
            return Ok(());
        }
        let mut rest = (len >= max).then(|| message.split_off(max));
        self.sends.push(self.comm.isend(message, to, index as Tag)?);
        // For these the receiver has posted no receive yet, and it may be sending itself: waiting here could be forever.
        while let Some(mut message) = rest.take() {
            rest = (message.len() >= max).then(|| message.split_off(max));
            work.count_message(message.len());
            self.continued.push(self.comm.isend(message, to, CONTINUED + index as Tag)?);
        }
        self.complete_sends(if self.is_nonblocking { DOUBLE_BUFFERS } else { 0 })
    }

    /// Waits until at most `outstanding` sends have not completed.
    fn complete_sends(&mut self, outstanding: usize) -> Result<()> {
        let completed = self.sends.len().saturating_sub(outstanding);
        for send in self.sends.drain(..completed) {
            self.free.push(send.wait()?);
        }
        Ok(())
    }
}
