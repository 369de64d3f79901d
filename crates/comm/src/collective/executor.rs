//! Runs a schedule on one rank: the cursor says which rounds may begin, their operations become sends and receives of
//! the endpoint, and a round ends when all of them have.
//!
//! A message is known by its tag: which collective of the communicator, which phase, which lane. Within a lane messages
//! of a pair meet in the order in which they were begun, as everywhere.
//!
//! A part that is one range is sent and received where it lies. A part of several ranges goes through staging memory, as
//! do operands that are to be combined. Operands of a round are combined in the order in which they are listed, so that
//! the result does not depend on who was faster.

use std::ops::Range;

use treepie_base::{Bytes, Error, Region, Result, Span};
use treepie_fabric::{Address, Endpoint, Id, Select, Started, Target, Task, Why, run_tag};
use treepie_schedule::{Buf, Cursor, Op, Part, Side};

use super::job::{Buffers, INSTANCE_MASK, Job};

/// A collective operation of one rank that goes on, or that can be started.
pub(crate) struct Execution {
    job: Job,
    instance: u32,
    buffers: Buffers,
    temporaries: Vec<Region>,
    cursor: Cursor,
    rounds: Vec<Round>,
    /// Rounds that have ended, for their memory.
    spare: Vec<Round>,
    /// Staging memory that is not in use.
    staging: Vec<Region>,
    /// Memory of a list of ranges.
    list: Vec<Range<usize>>,
}

/// A round that goes on.
#[derive(Default)]
struct Round {
    slot: u32,
    pending: Vec<Pending>,
    left: usize,
}

/// An operation of the endpoint, and what is to be done when it and all of its round are over.
struct Pending {
    id: Option<Id>,
    /// Bytes that a receive must get.
    expected: u64,
    then: Then,
}

enum Then {
    Nothing,
    /// What was staged is put to its ranges.
    Place(Part, Region),
    /// What was staged is combined.
    Combine(Part, Region, Side),
    /// What was staged for sending is used again.
    Release(Region),
}

/// Scratch memory longer than this is not kept.
const MOST_KEPT: usize = 64 << 20;

/// Memory of at least so many bytes, mostly some that has been used before.
fn take_scratch(scratch: &mut Vec<Region>, bytes: usize, align: usize) -> Region {
    let fits = |region: &Region| region.len() >= bytes && region.is_aligned(align);
    match scratch.iter().position(fits) {
        Some(place) => scratch.swap_remove(place),
        None => Region::from(Bytes::zeroed(bytes.next_power_of_two(), align.max(64))),
    }
}

impl Execution {
    /// `scratch` is memory that it may use.
    pub(crate) fn new(job: Job, buffers: Buffers, mut scratch: Vec<Region>) -> Self {
        let places = job.places();
        let mut temporaries = Vec::new();
        for tmp in 0..job.schedule.temporaries() {
            temporaries.push(match tmp {
                0 if buffers.overwrite => buffers.input.share(),
                tmp => take_scratch(&mut scratch, places.size(Buf::Tmp(tmp)) * job.element, job.align),
            });
        }
        let cursor = Cursor::new(&*job.schedule, job.rank);
        let (rounds, spare) = (Vec::new(), Vec::new());
        Self { job, instance: 0, buffers, temporaries, cursor, rounds, spare, staging: scratch, list: Vec::new() }
    }

    /// Makes the lists that it needs as long as they can become: so many rounds at once, of so many operations.
    pub(crate) fn reserve(&mut self, rounds: usize, ops: usize) {
        self.rounds.reserve(rounds);
        self.spare.extend((0..rounds).map(|_| Round { pending: Vec::with_capacity(ops), ..Round::default() }));
        // All staging memory of the rounds may be in use, and all of it free.
        self.staging.reserve(rounds * ops);
        for region in self.temporaries.iter().chain([&self.buffers.input, &self.buffers.output]) {
            region.reserve_parts(rounds * ops);
        }
        self.list.reserve(16);
    }

    /// Gives the scratch memory back, as much of it as is worth keeping.
    pub(crate) fn into_scratch(mut self) -> Vec<Region> {
        let own = if self.buffers.overwrite { 1 } else { 0 };
        self.staging.extend(self.temporaries.drain(..).skip(own));
        // Operations that were given up may still use some of it.
        self.staging.retain(|region| region.len() <= MOST_KEPT && region.is_alone());
        self.staging.truncate(8);
        self.staging
    }

    /// Makes it begin from the start, under this number among the collectives of its communicator.
    pub(crate) fn start(&mut self, instance: u32) {
        self.instance = instance;
        self.cursor.restart(&*self.job.schedule);
    }

    pub(crate) fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    /// Whether no operation uses its memory any more; those that were given up may do so for a while.
    pub(crate) fn is_alone(&self) -> bool {
        self.temporaries.iter().chain([&self.buffers.input, &self.buffers.output]).all(Region::is_alone)
    }

    /// Takes the output out; nothing is left in its place.
    pub(crate) fn take_output(&mut self) -> Region {
        std::mem::replace(&mut self.buffers.output, Region::from(Bytes::zeroed(0, 1)))
    }

    fn region(&self, buf: Buf) -> &Region {
        match buf {
            Buf::In => &self.buffers.input,
            Buf::Out => &self.buffers.output,
            Buf::Tmp(tmp) => &self.temporaries[tmp as usize],
        }
    }

    /// Calls `each` with the ranges of bytes of a part.
    fn ranges(&self, part: Part, mut each: impl FnMut(Range<usize>)) {
        let element = self.job.element;
        self.job.places().ranges(part, |range| each(range.start * element..range.end * element));
    }

    /// The bytes of a part: where they lie if that is one range, and how many they are.
    fn bytes(&self, part: Part) -> (Option<Range<usize>>, usize) {
        let (mut one, mut count, mut all) = (None, 0, 0);
        self.ranges(part, |range| {
            all += range.len();
            count += 1;
            one = Some(range);
        });
        match count {
            0 => (Some(0..0), 0),
            1 => (one, all),
            _ => (None, all),
        }
    }

    /// Staging memory of at least so many bytes.
    fn stage(&mut self, bytes: usize) -> Region {
        take_scratch(&mut self.staging, bytes, self.job.align)
    }

    /// Copies the ranges of a part one after the other into staging memory.
    fn gather(&mut self, part: Part, bytes: usize) -> Region {
        let staged = self.stage(bytes);
        let region = self.region(part.buf);
        let mut at = 0;
        self.ranges(part, |range| {
            let len = range.len();
            staged.copy(at..at + len, region, range);
            at += len;
        });
        staged
    }

    fn begin_round(&mut self, endpoint: &mut Endpoint) -> Option<Result<()>> {
        let begun = self.cursor.begin(&*self.job.schedule)?;
        let tag = self.job.tag(self.instance, begun.phase, begun.lane);
        let mut round = self.spare.pop().unwrap_or_default();
        (round.slot, round.left) = (begun.slot, 0);
        let count = self.cursor.ops(begun.slot).len();
        for i in 0..count {
            let op = self.cursor.ops(begun.slot)[i];
            if let Err(error) = self.issue(op, tag, &mut round, endpoint) {
                self.rounds.push(round);
                return Some(Err(error));
            }
        }
        if round.left == 0 {
            self.end_round(round, endpoint);
        } else {
            self.rounds.push(round);
        }
        Some(Ok(()))
    }

    fn issue(&mut self, op: Op, tag: u64, round: &mut Round, endpoint: &mut Endpoint) -> Result<()> {
        match op {
            Op::Send { to, part } => {
                let to = self.job.members.world(to, endpoint)?;
                let Job { context, call, .. } = self.job;
                let address = Address { context, to, tag, synchronous: false, call };
                let (range, bytes) = self.bytes(part);
                let (region, range, then) = match range {
                    Some(range) => (self.region(part.buf).share(), range, Then::Nothing),
                    None => {
                        let staged = self.gather(part, bytes);
                        (staged.share(), 0..bytes, Then::Release(staged))
                    }
                };
                if region.read(range.clone(), |data| endpoint.send_now(address, data)) {
                    if let Then::Release(staged) = then {
                        self.staging.push(staged);
                    }
                } else if let Started::Pending(id) = endpoint.start_send(address, region.part(range))? {
                    round.pending.push(Pending { id: Some(id), expected: 0, then });
                    round.left += 1;
                }
            }
            Op::Recv { from, part } => {
                let (range, bytes) = self.bytes(part);
                let (span, then) = match range {
                    Some(range) => (self.region(part.buf).part_mut(range), Then::Nothing),
                    None => {
                        let staged = self.stage(bytes);
                        (staged.part_mut(0..bytes), Then::Place(part, staged))
                    }
                };
                self.receive(from, tag, span, then, round, endpoint)?;
            }
            Op::RecvReduce { from, part, side } => {
                let bytes = self.bytes(part).1;
                let staged = self.stage(bytes);
                let span = staged.part_mut(0..bytes);
                self.receive(from, tag, span, Then::Combine(part, staged, side), round, endpoint)?;
            }
            Op::Copy { from, to } => self.copy(from, to),
            Op::Reduce { from, into, side } => {
                let bytes = self.bytes(from).1;
                let staged = self.gather(from, bytes);
                round.pending.push(Pending { id: None, expected: 0, then: Then::Combine(into, staged, side) });
            }
        }
        Ok(())
    }

    fn receive(
        &self,
        from: u32,
        tag: u64,
        span: Span,
        then: Then,
        round: &mut Round,
        endpoint: &mut Endpoint,
    ) -> Result<()> {
        let source = Some(self.job.members.world(from, endpoint)?);
        let select = Select { context: self.job.context, source, tag: Some(tag), call: self.job.call };
        let expected = span.len() as u64;
        let id = endpoint.start_recv(select, Target::Into(span));
        round.pending.push(Pending { id: Some(id), expected, then });
        round.left += 1;
        Ok(())
    }

    fn copy(&mut self, from: Part, to: Part) {
        let ((one, bytes), (other, _)) = (self.bytes(from), self.bytes(to));
        if let (Some(from_range), Some(to_range)) = (&one, other) {
            self.region(to.buf).copy(to_range, self.region(from.buf), from_range.clone());
            return;
        }
        // Both are lists of ranges: one after the other, whichever ends first.
        let mut list = std::mem::take(&mut self.list);
        list.clear();
        self.ranges(from, |range| list.push(range));
        let (mut source, mut rest) = (list.iter().cloned(), 0..0);
        let (target, origin) = (self.region(to.buf), self.region(from.buf));
        let mut copied = 0;
        self.ranges(to, |mut range| {
            while !range.is_empty() {
                if rest.is_empty() {
                    rest = source.next().expect("both sides of a copy have one length");
                }
                let len = rest.len().min(range.len());
                target.copy(range.start..range.start + len, origin, rest.start..rest.start + len);
                (range.start, rest.start, copied) = (range.start + len, rest.start + len, copied + len);
            }
        });
        debug_assert_eq!(copied, bytes);
        self.list = list;
    }

    /// Looks which operations are over, and ends rounds.
    fn look(&mut self, endpoint: &mut Endpoint) -> Result<()> {
        let mut i = 0;
        while i < self.rounds.len() {
            let round = &mut self.rounds[i];
            for pending in &mut round.pending {
                let Some(id) = pending.id else { continue };
                let Some(result) = endpoint.result_envelope(id) else { continue };
                pending.id = None;
                round.left -= 1;
                if let Err(Error::Truncated { got, .. }) = result {
                    return Err(Error::Disagreement { got, expected: pending.expected });
                }
                let got = result?.bytes;
                if got != pending.expected {
                    return Err(Error::Disagreement { got, expected: pending.expected });
                }
            }
            if round.left == 0 {
                let round = self.rounds.swap_remove(i);
                self.end_round(round, endpoint);
            } else {
                i += 1;
            }
        }
        Ok(())
    }

    /// All operations of a round are over: what was staged is put where it belongs, in the order it was listed.
    fn end_round(&mut self, mut round: Round, endpoint: &mut Endpoint) {
        for pending in round.pending.drain(..) {
            match pending.then {
                Then::Nothing => {}
                Then::Release(staged) => self.staging.push(staged),
                Then::Place(part, staged) => {
                    let region = self.region(part.buf);
                    let mut at = 0;
                    self.ranges(part, |range| {
                        let len = range.len();
                        region.copy(range, &staged, at..at + len);
                        at += len;
                    });
                    self.staging.push(staged);
                }
                Then::Combine(part, staged, side) => {
                    let fold = self.job.fold.as_ref().expect("an operation that combines has an operator");
                    let region = self.region(part.buf);
                    let mut at = 0;
                    self.ranges(part, |range| {
                        let len = range.len();
                        region.write_by(range, &staged, at..at + len, |into, operand| {
                            fold(into, operand, side == Side::Left);
                        });
                        at += len;
                    });
                    endpoint.fabric().combined(at);
                    self.staging.push(staged);
                }
            }
        }
        self.cursor.end(round.slot);
        self.spare.push(round);
    }

    /// Gives up what goes on. Whoever still sends something for it is refused, whoever waits for something of it is told.
    #[cold]
    fn abandon(&mut self, endpoint: &mut Endpoint, why: Why) {
        let (context, bits) = (self.job.context, run_tag(self.instance));
        endpoint.give_up_messages(context, INSTANCE_MASK, bits, why);
        for mut round in self.rounds.drain(..) {
            round.pending.drain(..).filter_map(|pending| pending.id).for_each(|id| endpoint.abandon(id));
        }
        let told = self.job.told(why, endpoint);
        endpoint.tell_gave_up(context, INSTANCE_MASK, bits, why, told.into_iter());
    }

    fn advance(&mut self, endpoint: &mut Endpoint) -> Result<bool> {
        loop {
            self.look(endpoint)?;
            endpoint.fail_differing(self.job.context, run_tag(self.instance), self.job.call)?;
            let Some(begun) = self.begin_round(endpoint) else {
                return Ok(self.rounds.is_empty() && self.cursor.is_done(&*self.job.schedule));
            };
            begun?;
            while let Some(begun) = self.begin_round(endpoint) {
                begun?;
            }
        }
    }
}

impl Task for Execution {
    fn step(&mut self, endpoint: &mut Endpoint) -> Option<Result<()>> {
        match self.advance(endpoint) {
            Ok(false) => None,
            Ok(true) => Some(Ok(())),
            Err(error) => {
                self.abandon(endpoint, Why::of(&error));
                Some(Err(error))
            }
        }
    }

    fn give_up(&mut self, endpoint: &mut Endpoint) {
        self.abandon(endpoint, Why::Unsaid);
    }
}
