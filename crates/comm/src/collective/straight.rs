//! The short ways: a schedule, turned once into a list of steps ([`steps`](super::steps)), and run on the caller's own
//! slices. Nothing is allocated, nothing is looked up, and nothing has to be watched: a step is over when the next begins.
//!
//! By messages, these are short: they need no answer, each send is over when it was begun, and receives are waited for one
//! after the other. Over a board, see [`meetings`](super::meetings).

use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

use treepie_base::{Bytes, Error, Result, Span, copy_short};
use treepie_fabric::{self as fabric, Address, Board, Endpoint, Life, Room, Select, Started, Why, run_tag};
use treepie_schedule::{Op, Operation, Rounds, Side};

use super::Folding;
use super::described::signature;
use super::job::{INSTANCE_MASK, Job};
use super::steps::{Bits, MOST_ALIGN, Memories, Step};
use crate::members::Members;

/// More operations than this are not worth the memory of the list.
pub(super) const MOST_STEPS: usize = 512;

/// Bytes that are fetched at a time to be combined: few enough to be in the nearest cache when they are.
pub(super) const PIECE: usize = 32 << 10;

/// A schedule of one rank as a list.
pub(crate) struct Straight {
    steps: Vec<Step>,
    /// Parts of the list that are run one after the other, each as often as its data has pieces.
    runs: Vec<Pieces>,
    /// Scratch memory, in units that align any element it is used for; its end is for operands that have come.
    scratch: Vec<u128>,
    staging: Range<usize>,
    /// Bytes of an element.
    element: usize,
    /// What all ranks must have in common: how much there is of what. To meet at a board, and for messages.
    about: u64,
    call: fabric::Call,
    members: Rc<Members>,
    /// Whether it goes over a board.
    meets: bool,
}

/// Steps that are run again and again, with another piece of their ranges each time.
#[derive(Clone, Debug)]
pub(super) struct Pieces {
    pub(super) steps: Range<usize>,
    pub(super) count: usize,
    /// Bytes of a piece of a range.
    pub(super) len: usize,
}

/// A collective operation: the context of its messages, its tag among them, its number.
#[derive(Clone, Copy)]
pub(crate) struct Instance {
    pub(crate) context: u32,
    pub(crate) number: u32,
}

impl Straight {
    pub(super) fn of(job: &Job, bits: &Bits<'_>, steps: Vec<Step>, runs: Vec<Pieces>) -> Self {
        let operand = |step: &Step| match step {
            Step::RecvReduce { bit, .. } | Step::Reduce { from: bit, .. } => bit.range.len(),
            Step::FetchReduce { bit, .. } => bit.range.len().min(PIECE.max(job.element)),
            _ => 0,
        };
        let staging = steps.iter().map(operand).max().unwrap_or(0);
        let units = (bits.scratch + staging).div_ceil(MOST_ALIGN);
        Self {
            meets: steps.iter().any(|step| matches!(step, Step::Meet { .. })),
            call: job.call,
            members: job.members.clone(),
            steps,
            runs,
            scratch: vec![0; units],
            staging: bits.scratch..bits.scratch + staging,
            element: job.element,
            about: about(job),
        }
    }

    /// The list, if there is a short way: one lane, parts that are single ranges, messages of at most `short` bytes.
    pub(crate) fn by_messages(job: &Job, in_place: bool, short: usize, endpoint: &mut Endpoint) -> Option<Self> {
        let schedule = &*job.schedule;
        let bits = Bits::new(job, in_place)?;
        let mut steps = Vec::new();
        for phase in 0..schedule.phases() {
            if schedule.phase(phase).lanes > 1 {
                return None;
            }
            for lane in 0..schedule.phase(phase).lanes {
                let tag = job.tag(0, phase, lane);
                let mut rounds = Rounds::new();
                schedule.emit(job.rank, phase, lane, 0..schedule.rounds(job.rank, phase, lane), &mut rounds);
                for round in rounds.iter() {
                    // What others wait for comes first.
                    for op in round {
                        if let Op::Send { to, part } = *op {
                            let bit = bits.bit(part).filter(|bit| bit.range.len() <= short)?;
                            steps.push(Step::Send { to: job.members.world(to, endpoint).ok()?, tag, bit });
                        }
                    }
                    for op in round {
                        match *op {
                            Op::Recv { from, part } => {
                                let from = job.members.world(from, endpoint).ok()?;
                                steps.push(Step::Recv { from, tag, bit: bits.bit(part)? });
                            }
                            Op::RecvReduce { from, part, side } => {
                                let from = job.members.world(from, endpoint).ok()?;
                                let (bit, left) = (bits.bit(part)?, side == Side::Left);
                                steps.push(Step::RecvReduce { from, tag, bit, left });
                            }
                            op => steps.extend(bits.local(op)?),
                        }
                    }
                    if steps.len() > MOST_STEPS {
                        return None;
                    }
                }
            }
        }
        let all = Pieces { steps: 0..steps.len(), count: 1, len: usize::MAX };
        Some(Self::of(job, &bits, steps, vec![all]))
    }

    /// Whether it goes over a board.
    pub(super) fn meets(&self) -> bool {
        self.meets
    }

    /// Runs the list.
    pub(crate) fn run(
        &mut self,
        endpoint: &mut Endpoint,
        instance: Instance,
        input: &[u8],
        output: &mut [u8],
        fold: Option<&Folding>,
    ) -> Result<()> {
        let Self { steps, runs, scratch, staging, element, about, call, members, meets } = self;
        let (call, meets) = (*call, *meets);
        if meets {
            endpoint.meet_for(instance.context, instance.tag(), call);
        }
        let (scratch, operands) = bytemuck::cast_slice_mut::<u128, u8>(scratch).split_at_mut(staging.start);
        let about = numbered(instance, *about);
        let fold = fold.unwrap_or(&|_, _, _| unreachable!("an operation that combines has an operator"));
        let memories = Memories { input, output, scratch };
        let element = *element;
        let (is_over, why) = (false, Why::Unsaid);
        let mut run = Run {
            endpoint,
            instance,
            call,
            memories,
            operands,
            element,
            about,
            fold,
            steps,
            members,
            meets,
            is_over,
            why,
        };
        for Pieces { steps: range, count, len } in runs.iter() {
            for piece in 0..*count {
                for step in &steps[range.clone()] {
                    if let Err(error) = run.step(step, (piece, *len)) {
                        run.why = Why::of(&error);
                        return Err(error);
                    }
                }
            }
        }
        run.is_over = true;
        Ok(())
    }
}

/// A list while it is run. If it does not come to its end, by an error or by a panic of the operator, others are told.
struct Run<'a> {
    endpoint: &'a mut Endpoint,
    instance: Instance,
    call: fabric::Call,
    memories: Memories<'a>,
    operands: &'a mut [u8],
    element: usize,
    about: u64,
    fold: &'a Folding,
    steps: &'a [Step],
    members: &'a Members,
    meets: bool,
    is_over: bool,
    /// What others are told if it does not come to its end.
    why: Why,
}

impl Run<'_> {
    #[inline]
    fn step(&mut self, step: &Step, piece: (usize, usize)) -> Result<()> {
        let Self { endpoint, memories, operands, about, fold, call, .. } = self;
        match step {
            Step::Copy { from, to } => memories.copy(from, to),
            Step::Reduce { from, into, left } => {
                let operand = &mut operands[..from.range.len()];
                operand.copy_from_slice(memories.get(from));
                fold(memories.get_mut(into), operand, *left);
                endpoint.fabric().combined(operand.len());
            }
            Step::Send { to, tag, bit } => {
                let Instance { context, .. } = self.instance;
                let tag = tag | self.instance.tag();
                let address = Address { context, to: *to, tag, synchronous: false, call: *call };
                send(endpoint, address, memories.get(bit))?;
            }
            Step::Recv { from, tag, bit } => {
                receive(endpoint, self.instance.select(*from, *tag, *call), memories.get_mut(bit))?;
            }
            Step::RecvReduce { from, tag, bit, left } => {
                let operand = &mut operands[..bit.range.len()];
                receive(endpoint, self.instance.select(*from, *tag, *call), operand)?;
                fold(memories.get_mut(bit), operand, *left);
                endpoint.fabric().combined(operand.len());
            }
            Step::Write { room, at, bit } => {
                let bit = bit.piece(piece);
                if !bit.range.is_empty() {
                    write(endpoint, *room, *at, memories.get(&bit))?;
                }
            }
            Step::Show { room, at, bit } => {
                let data = memories.get(bit);
                endpoint.wait_at_board(|board| board.try_show(*room, *at, data).then_some(()))?;
            }
            Step::Meet { room, all } => {
                meet(endpoint, *room, *about)?;
                if *all {
                    await_all(endpoint, *about)?;
                }
            }
            Step::Wait { from } => await_rank(endpoint, *from, *about)?,
            Step::Read { from, room, at, bit } => {
                let bit = bit.piece(piece);
                if !bit.range.is_empty() {
                    let data = read(endpoint, *from, *about, (*room, *at, bit.range.len()))?;
                    copy_short(memories.get_mut(&bit), data);
                }
            }
            Step::ReadReduce { from, room, at, bit, left } => {
                let bit = bit.piece(piece);
                if !bit.range.is_empty() {
                    let operand = read(endpoint, *from, *about, (*room, *at, bit.range.len()))?;
                    fold(memories.get_mut(&bit), operand, *left);
                }
            }
            Step::Fetch { from, room, at, bit } => {
                await_rank(endpoint, *from, *about)?;
                fetch(endpoint, *from, (*room, *at), 0, memories.get_mut(bit))?;
            }
            Step::FetchReduce { from, room, at, bit, left } => {
                await_rank(endpoint, *from, *about)?;
                let mut first = 0;
                let piece = (PIECE / self.element).max(1) * self.element;
                for into in memories.get_mut(bit).chunks_mut(piece) {
                    let operand = &mut operands[..into.len()];
                    fetch(endpoint, *from, (*room, *at), first, operand)?;
                    fold(into, operand, *left);
                    first += into.len();
                }
            }
        }
        Ok(())
    }

    /// Ends what others may wait for: messages for this operation are refused, and those that will not come are said not
    /// to; the board is left.
    #[cold]
    fn give_up(&mut self) {
        let (Instance { context, .. }, tag) = (self.instance, self.instance.tag());
        // First: whoever is told below goes on to the next operation, and must not come to the board for it.
        if self.meets {
            self.endpoint.leave_board(self.why);
        }
        self.endpoint.give_up_messages(context, INSTANCE_MASK, tag, self.why);
        // As `Job::told` says, of a list.
        let told: BTreeSet<u32> = match self.why {
            Why::Differs => self.members.all_in_world(self.endpoint).into_iter().collect(),
            _ => self.steps.iter().filter_map(Step::receiver).collect(),
        };
        self.endpoint.tell_gave_up(context, INSTANCE_MASK, tag, self.why, told.into_iter());
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.give_up();
        }
    }
}

impl Instance {
    pub(super) fn tag(&self) -> u64 {
        run_tag(self.number)
    }

    fn select(&self, from: u32, tag: u64, call: fabric::Call) -> Select {
        Select { context: self.context, source: Some(from), tag: Some(tag | self.tag()), call }
    }
}

#[inline]
fn board(endpoint: &mut Endpoint) -> &mut dyn Board {
    endpoint.board().expect("a list over a board is run where there is one")
}

/// Writes for the next meeting.
#[inline]
pub(super) fn write(endpoint: &mut Endpoint, room: Room, at: usize, data: &[u8]) -> Result<()> {
    endpoint.wait_at_board(|board| board.try_write(room, at, data).then_some(()))
}

/// Publishes this rank's part of the next meeting.
#[inline]
pub(super) fn meet(endpoint: &mut Endpoint, room: Room, about: u64) -> Result<()> {
    endpoint.wait_at_board(|board| board.try_publish(room, about).then_some(()))
}

/// Waits until all have come to the meeting.
#[inline]
pub(super) fn await_all(endpoint: &mut Endpoint, about: u64) -> Result<()> {
    let this = endpoint.rank();
    (0..endpoint.size()).filter(|rank| *rank != this).try_for_each(|rank| await_rank(endpoint, rank, about))
}

/// Waits until a rank has come to the meeting, and makes sure that it is there for the same operation.
#[inline]
fn await_rank(endpoint: &mut Endpoint, from: u32, about: u64) -> Result<()> {
    let its = endpoint.wait_at_board(|board| board.about(from))?;
    if its == about { Ok(()) } else { Err(disagreement(endpoint.rank(), from, its, about)) }
}

/// What a meeting is about, in 48 bits: the number of the operation, which one it is, its root, and how many bytes there
/// are, as far as the bits go.
const BYTES: u32 = 30;
const ROOT: u32 = BYTES + 6;
const KIND: u32 = ROOT + 4;

#[cold]
fn disagreement(own: u32, rank: u32, its: u64, about: u64) -> Error {
    let [mine, theirs] = [about, its].map(call_of);
    if mine == theirs {
        // The same again, by a rank that has come to the board more often or less.
        return Error::OtherOperation { rank: rank as usize };
    }
    mine.differs(own, theirs, rank)
}

/// The call that a meeting is about.
fn call_of(about: u64) -> fabric::Call {
    let (root, bytes) = ((about >> BYTES) as u32 % 64, about % (1 << BYTES));
    let operation =
        Operation::all(root).into_iter().find(|operation| about_call(*operation, bytes) == about % (1 << KIND));
    operation.map_or(fabric::Call::named(LONG), |operation| signature(operation, Some(bytes)))
}

/// What ranks are in that agree about something before an operation.
pub(super) const LONG: &str = "a collective operation on 8 KiB or more";

/// What the meetings of an operation are about, apart from its number.
fn about(job: &Job) -> u64 {
    about_call(job.schedule.operation(), (job.layouts.output.total() * job.element) as u64)
}

/// The same for an operation on so many bytes.
pub(super) fn about_call(operation: Operation, bytes: u64) -> u64 {
    let (kind, root) = match operation {
        Operation::Barrier => (0, 0),
        Operation::Bcast { root } => (1, root),
        Operation::Scatter { root } => (2, root),
        Operation::Gather { root } => (3, root),
        Operation::Allgather => (4, 0),
        Operation::Reduce { root } => (5, root),
        Operation::Allreduce => (6, 0),
        Operation::ReduceScatter => (7, 0),
        Operation::Alltoall => (8, 0),
        Operation::Scan => (9, 0),
        Operation::Exscan => (10, 0),
    };
    kind << ROOT | u64::from(root % 64) << BYTES | bytes & ((1 << BYTES) - 1)
}

/// That with the number of the operation.
#[inline]
pub(super) fn numbered(instance: Instance, about: u64) -> u64 {
    u64::from(instance.number as u8) << KIND | about
}

/// What a meeting is about at which ranks agree about something before an operation.
pub(super) const AGREEMENT: u64 = 15 << ROOT;

/// What a rank has written for the meeting, once it has come to it for the same operation.
#[inline]
pub(super) fn read(endpoint: &mut Endpoint, from: u32, about: u64, place: (Room, usize, usize)) -> Result<&[u8]> {
    let (room, at, len) = place;
    if board(endpoint).about(from) != Some(about) {
        await_rank(endpoint, from, about)?;
    }
    Ok(board(endpoint).read(from, room, at, len))
}

/// Reads what a rank shows at this place, from its byte `first` on.
fn fetch(endpoint: &mut Endpoint, from: u32, (room, at): (Room, usize), first: usize, into: &mut [u8]) -> Result<()> {
    if board(endpoint).fetch(from, room, at, first, into) {
        return Ok(());
    }
    // That memory can be read was found out before. This rank is gone, or has left the operation, or it is memory of
    // another kind.
    let rank = from as usize;
    Err(match (endpoint.fabric().life(from), board(endpoint).left()) {
        (Life::Here, Some(why)) => why.error(from),
        (Life::Here, None) => Error::Unreadable { rank },
        _ => Error::PeerLost { rank },
    })
}

#[inline]
fn send(endpoint: &mut Endpoint, address: Address, data: &[u8]) -> Result<()> {
    if endpoint.send_now(address, data) {
        return Ok(());
    }
    // No room, or the receiver has too much unreceived. Waiting here could be waiting in a circle, so a copy goes on by
    // itself.
    if let Started::Pending(id) = endpoint.start_send(address, Span::from(Bytes::from(data.to_vec())))? {
        endpoint.abandon(id);
    }
    Ok(())
}

#[inline]
fn receive(endpoint: &mut Endpoint, select: Select, into: &mut [u8]) -> Result<()> {
    let expected = into.len() as u64;
    let got = match endpoint.recv(select, into) {
        Ok(envelope) => envelope.bytes,
        Err(Error::Truncated { got, .. }) => got,
        Err(error) => return Err(error),
    };
    if got == expected { Ok(()) } else { Err(Error::Disagreement { got, expected }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_compared_up_to_the_bound() {
        let about = |bytes| about_call(Operation::Bcast { root: 63 }, bytes);
        let longest = (1 << 30) - 1;
        assert_ne!(about(longest), about(longest - 1));
        assert_eq!(call_of(about(longest)), signature(Operation::Bcast { root: 63 }, Some(longest)));
        // A remainder does not touch the root or the operation.
        assert_eq!((about(1 << 30), about((1 << 40) + 5)), (about(0), about(5)));
    }
}
