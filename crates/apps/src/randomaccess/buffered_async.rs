//! The scheme that HPCC provides: each rank keeps a bucket of data for every other one, and when it has as many data as it
//! may keep, sends the fullest bucket. Messages are handled as they arrive, in the engine's memory; nothing is
//! synchronized. It ends when as many messages have been received as were sent: ranks that have sent all of theirs add up
//! both in waves, mostly two. In HPCC each rank tells each other one that it has ended: P (P - 1) messages in all.
//!
//! Cost: a message carries about half of the look-ahead among few ranks, and only a few data among many; ceil(log2 P)
//! messages of a rank for each wave.   Any P.
//! [RandomAccess paper, section 2; HPCC, MPIRandomAccess]

use std::time::Duration;

use bytemuck::{pod_collect_to_vec, try_cast_slice};
use treepie_am::AllreduceWave;
use treepie_base::{Bytes, Result};
use treepie_fabric::{PeerDependency, Reactor, Transmit};

use super::partition::Partition;
use super::stages::{self, Binned, Stage};
use super::stream::Stream;
use super::work::Work;

/// The name of its protocol.
pub(super) const NAME: &str = "RandomAccess with buckets";

/// All updates of a stream.
pub(super) fn run<'a>(
    partition: Partition,
    look_ahead: usize,
    stream: &mut Stream,
    work: Work<'a>,
) -> Result<Work<'a>> {
    let comm = work.comm.clone();
    let mut run = comm.begin_protocol(Buckets::new(partition, look_ahead, work), align_of::<u64>())?;
    loop {
        let progressed = run.step()?;
        if run.is_complete() {
            return Ok(run.into_reactor().work);
        }
        let generated = run.reactor().generate(stream);
        let units = run.reactor().work.take_units();
        comm.account_work(units);
        if progressed || generated {
            run.reset_backoff();
        } else {
            run.wait();
        }
    }
}

/// The buckets of a rank.
struct Buckets<'a> {
    work: Work<'a>,
    partition: Partition,
    /// All ranks as bins; none if this rank is alone.
    stage: Option<Stage>,
    look_ahead: usize,
    list: Vec<u64>,
    binned: Binned,
    buckets: Vec<Vec<u64>>,
    /// Data in all buckets.
    pending: usize,
    /// Whether the stream has ended.
    is_flushing: bool,
    /// Messages that the engine has not sent yet.
    in_flight: usize,
    free: Vec<Vec<u64>>,
    /// Messages with data.
    sent: u64,
    received: u64,
    wave: AllreduceWave,
    has_ended: bool,
}

/// The tag of messages with data: no message of a wave has it.
const DATA: u32 = 1 << AllreduceWave::TAG_BITS;

/// Messages that wait for the engine, as in HPCC: besides the look-ahead in buckets there is one send buffer.
const MAX_IN_FLIGHT: usize = 1;

impl<'a> Buckets<'a> {
    fn new(partition: Partition, look_ahead: usize, work: Work<'a>) -> Self {
        let (ranks, rank) = (partition.ranks(), work.comm.rank() as u32);
        Self {
            work,
            partition,
            stage: stages::grid(&[ranks], partition, rank).pop(),
            look_ahead,
            list: Vec::new(),
            binned: Binned::default(),
            buckets: vec![Vec::new(); ranks as usize],
            pending: 0,
            is_flushing: false,
            in_flight: 0,
            free: Vec::new(),
            sent: 0,
            received: 0,
            wave: AllreduceWave::new(rank, ranks),
            has_ended: false,
        }
    }

    /// Whether to send before generating more: an eighth of the look-ahead is the least that is generated at once.
    fn is_full(&self) -> bool {
        self.pending > self.look_ahead - self.look_ahead.div_ceil(8)
    }

    /// Generates as many data as there is room for. Own ones are applied at once.
    fn generate(&mut self, stream: &mut Stream) -> bool {
        if self.is_flushing || self.is_full() {
            return false;
        }
        let count = self.look_ahead - self.pending;
        self.work.generate(stream, &mut self.list, count);
        self.is_flushing = self.list.len() < count;
        let Some(stage) = &self.stage else {
            self.work.update_all(&self.list);
            return true;
        };
        self.work.divide(&mut self.binned, std::iter::once(&self.list[..]), stage, &self.partition);
        for (bin, bucket) in self.buckets.iter_mut().enumerate() {
            let data = self.binned.bin(bin);
            if bin == stage.own {
                self.work.update_all(data);
            } else {
                bucket.extend_from_slice(data);
                self.pending += data.len();
            }
        }
        true
    }
}

impl Buckets<'_> {
    /// A rank joins a wave after its last message with data, so each wave has the final number of those sent: equal sums
    /// mean that all have been received. Otherwise another wave begins.
    fn join_waves(&mut self) {
        while self.is_flushing && self.pending == 0 && !self.has_ended {
            match self.wave.poll_sum() {
                Some([sent, received, ..]) => self.has_ended = sent == received,
                None if self.wave.has_begun() => return,
                None => self.wave.begin([self.sent, self.received, 0, 0]),
            }
        }
    }
}

impl Reactor for Buckets<'_> {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        if self.pending > 0 && (self.is_flushing || self.is_full()) {
            if self.in_flight >= MAX_IN_FLIGHT {
                return None;
            }
            // Among hundreds of ranks the search takes as long as a few updates, and sending much longer.
            let fullest = (0..self.buckets.len()).max_by_key(|to| self.buckets[*to].len())?;
            let data = std::mem::replace(&mut self.buckets[fullest], self.free.pop().unwrap_or_default());
            self.pending -= data.len();
            self.in_flight += 1;
            self.sent += 1;
            self.work.count_message(data.len());
            return Some(Transmit::new(fullest as u32, DATA, data));
        }
        if !self.is_flushing || self.has_ended {
            return None;
        }
        self.join_waves();
        let transmit = self.wave.poll_transmit()?;
        self.in_flight += 1;
        Some(transmit)
    }

    fn on_message(&mut self, _: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        self.on_message_in_place(from, tag, bytes.as_slice())
    }

    fn on_message_in_place(&mut self, from: u32, tag: u32, body: &[u8]) -> Result<()> {
        if tag != DATA {
            self.wave.on_message(from, tag, body.to_vec().into())?;
            self.join_waves();
            return Ok(());
        }
        self.received += 1;
        match try_cast_slice(body) {
            Ok(data) => self.work.update_all(data),
            // An engine whose messages are not aligned.
            Err(_) => self.work.update_all(&pod_collect_to_vec(body)),
        }
        Ok(())
    }

    fn accepts_in_place(&self) -> bool {
        true
    }

    fn on_sent(&mut self, _: u32, _: u32, memory: Option<Bytes>) {
        self.in_flight -= 1;
        if let Some(mut memory) = memory.and_then(|memory| memory.into_vec::<u64>().ok()) {
            memory.clear();
            self.free.push(memory);
        }
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn dependency_on(&self, rank: u32) -> PeerDependency {
        match self.has_ended {
            true => PeerDependency::Nothing,
            false if self.wave.needs(rank) => PeerDependency::Required,
            false => PeerDependency::Possible,
        }
    }

    fn is_done(&self) -> bool {
        self.has_ended
    }
}
