//! The short way: a schedule of short messages, turned once into a list of sends and receives of ranges of bytes, and
//! run on the caller's own slices.
//!
//! Nothing is allocated, nothing is looked up, and as short messages need no answer, nothing has to be watched: each
//! send is over when it was begun, and receives are waited for one after the other.

use std::ops::Range;

use treepie_base::{Bytes, Error, Result, Span, copy_short};
use treepie_fabric::{Address, Endpoint, Select, Started};
use treepie_schedule::{Buf, Op, Part, Places, Rounds, Side};

use super::Folding;
use super::executor::{INSTANCE_MASK, Job, Shared};

/// More operations than this are not worth the memory of the list.
const MOST_STEPS: usize = 512;

/// Which memory: the caller's input or output, or scratch memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Memory {
    Input,
    Output,
    Scratch,
}

#[derive(Clone, Debug)]
struct Bit {
    memory: Memory,
    range: Range<usize>,
}

#[derive(Clone, Debug)]
enum Step {
    Send {
        to: u32,
        tag: u32,
        bit: Bit,
    },
    Recv {
        from: u32,
        tag: u32,
        bit: Bit,
    },
    RecvReduce {
        from: u32,
        tag: u32,
        bit: Bit,
        left: bool,
    },
    Copy {
        from: Bit,
        to: Bit,
    },
    Reduce {
        from: Bit,
        into: Bit,
        left: bool,
    },
    /// Writes on the board, reads from it, and combines what is there.
    Write {
        at: usize,
        bit: Bit,
    },
    Meet,
    Read {
        from: u32,
        at: usize,
        bit: Bit,
    },
    ReadReduce {
        from: u32,
        at: usize,
        bit: Bit,
        left: bool,
    },
}

/// A schedule of one rank as a list.
pub(crate) struct Straight {
    steps: Vec<Step>,
    /// Scratch memory, in units that align any element it is used for; its end is for operands that have come.
    scratch: Vec<u128>,
    staging: Range<usize>,
    /// What all ranks must have in common to meet at a board: how much there is of what.
    about: u32,
}

/// The most that an element may be aligned to.
pub(crate) const MOST_ALIGN: usize = align_of::<u128>();

impl Straight {
    /// The list, if there is a short way: one lane, parts that are single ranges, messages of at most `short` bytes.
    pub(crate) fn new(job: &Job, in_place: bool, short: usize) -> Option<Self> {
        let schedule = &*job.schedule;
        let places = job.places();
        if job.align > MOST_ALIGN {
            return None;
        }
        let (begins, scratch) = scratch_of(job);
        let own = Own::new(if in_place { job.shared() } else { Shared::Nothing });
        let bit = |part: Part| own.bit(places, part, job.element, &begins);
        let mut steps = Vec::new();
        let mut staging = 0;
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
                            let bit = bit(part)?;
                            if bit.range.len() > short {
                                return None;
                            }
                            steps.push(Step::Send { to, tag, bit });
                        }
                    }
                    for op in round {
                        match *op {
                            Op::Send { .. } => {}
                            Op::Recv { from, part } => steps.push(Step::Recv { from, tag, bit: bit(part)? }),
                            Op::RecvReduce { from, part, side } => {
                                let bit = bit(part)?;
                                staging = staging.max(bit.range.len());
                                steps.push(Step::RecvReduce { from, tag, bit, left: side == Side::Left });
                            }
                            Op::Copy { from, to } => {
                                let (from, to) = (bit(from)?, bit(to)?);
                                if from.memory != to.memory || from.range != to.range {
                                    steps.push(Step::Copy { from, to });
                                }
                            }
                            Op::Reduce { from, into, side } => {
                                let (from, into) = (bit(from)?, bit(into)?);
                                staging = staging.max(from.range.len());
                                steps.push(Step::Reduce { from, into, left: side == Side::Left });
                            }
                        }
                    }
                    if steps.len() > MOST_STEPS {
                        return None;
                    }
                }
            }
        }
        let units = (scratch + staging).div_ceil(MOST_ALIGN);
        Some(Self { steps, scratch: vec![0; units], staging: scratch..scratch + staging, about: about(job) })
    }

    /// The list over a board, if there is one: one lane, parts that are single ranges, messages that are received in the
    /// round in which they are sent, and room on the board.
    pub(crate) fn over_board(job: &Job, in_place: bool, capacity: usize) -> Option<Self> {
        let schedule = &*job.schedule;
        if job.align > MOST_ALIGN {
            return None;
        }
        let (begins, scratch) = scratch_of(job);
        let own = Own::new(if in_place { job.shared() } else { Shared::Nothing });
        let bit = |part: Part| own.bit(job.places(), part, job.element, &begins);
        let mut steps = Vec::new();
        let mut staging = 0;
        for phase in 0..schedule.phases() {
            if schedule.phase(phase).lanes != 1 {
                return None;
            }
            let of_ranks: Vec<Rounds> = (0..schedule.ranks())
                .map(|rank| {
                    let mut rounds = Rounds::new();
                    schedule.emit(rank, phase, 0, 0..schedule.rounds(rank, phase, 0), &mut rounds);
                    rounds
                })
                .collect();
            let most = of_ranks.iter().map(Rounds::len).max().unwrap_or(0);
            for k in 0..most {
                let ops = |rank: u32| of_ranks[rank as usize].round_or_none(k);
                let writings: Vec<Writing> =
                    (0..schedule.ranks()).map(|rank| Writing::new(job, rank, ops(rank))).collect();
                // All ranks must come to the same answer, so what holds for one is asked of all.
                let is_straight =
                    (0..schedule.ranks()).all(|rank| ops(rank).iter().all(|op| is_single(job, rank, *op)));
                let fits = writings.iter().all(|writing| writing.bytes <= capacity);
                if !is_straight || !fits || !meets(&writings, schedule.ranks(), ops) {
                    return None;
                }
                for (part, at) in &writings[job.rank as usize].parts {
                    steps.push(Step::Write { at: *at, bit: bit(*part)? });
                }
                let mut reads = Vec::new();
                let mut taken = vec![0usize; schedule.ranks() as usize];
                let mut next = |from: u32| {
                    taken[from as usize] += 1;
                    writings[from as usize].sent_to(job.rank).nth(taken[from as usize] - 1)
                };
                for op in ops(job.rank) {
                    match *op {
                        Op::Send { .. } => {}
                        Op::Recv { from, part } => reads.push(Step::Read { from, at: next(from)?, bit: bit(part)? }),
                        Op::RecvReduce { from, part, side } => {
                            let bit = bit(part)?;
                            reads.push(Step::ReadReduce { from, at: next(from)?, bit, left: side == Side::Left });
                        }
                        Op::Copy { from, to } => {
                            let (from, to) = (bit(from)?, bit(to)?);
                            if from.memory != to.memory || from.range != to.range {
                                steps.push(Step::Copy { from, to });
                            }
                        }
                        Op::Reduce { from, into, side } => {
                            let (from, into) = (bit(from)?, bit(into)?);
                            staging = staging.max(from.range.len());
                            reads.push(Step::Reduce { from, into, left: side == Side::Left });
                        }
                    }
                }
                if writings.iter().any(|writing| !writing.sends.is_empty()) {
                    steps.push(Step::Meet);
                }
                steps.append(&mut reads);
            }
        }
        let units = (scratch + staging).div_ceil(MOST_ALIGN);
        Some(Self { steps, scratch: vec![0; units], staging: scratch..scratch + staging, about: about(job) })
    }

    /// Runs the list, as the collective of this number in its communicator.
    pub(crate) fn run(
        &mut self,
        endpoint: &mut Endpoint,
        (context, instance_tag): (u32, u32),
        input: &[u8],
        output: &mut [u8],
        fold: Option<&Folding>,
    ) -> Result<()> {
        let result = self.run_steps(endpoint, (context, instance_tag), input, output, fold);
        if result.is_err() {
            endpoint.give_up_messages(context, INSTANCE_MASK, instance_tag);
        }
        result
    }

    fn run_steps(
        &mut self,
        endpoint: &mut Endpoint,
        (context, instance_tag): (u32, u32),
        input: &[u8],
        output: &mut [u8],
        fold: Option<&Folding>,
    ) -> Result<()> {
        let Self { steps, scratch, staging, about } = self;
        let about = u64::from(instance_tag) << 32 | u64::from(*about);
        let (scratch, operands) = bytemuck::cast_slice_mut::<u128, u8>(scratch).split_at_mut(staging.start);
        let fold = |into: &mut [u8], operand: &[u8], left: bool| {
            fold.expect("an operation that combines has an operator")(into, operand, left);
        };
        for step in steps.iter() {
            match step {
                Step::Write { at, bit } => {
                    let data = match bit.memory {
                        Memory::Input => &input[bit.range.clone()],
                        Memory::Output => &output[bit.range.clone()],
                        Memory::Scratch => &scratch[bit.range.clone()],
                    };
                    endpoint.wait_at_board(|fabric| fabric.board_is_free().then_some(()))?;
                    endpoint.fabric().board_write(*at, data);
                }
                Step::Meet => {
                    endpoint.wait_at_board(|fabric| fabric.board_is_free().then_some(()))?;
                    endpoint.fabric().board_publish(about);
                }
                Step::Read { from, at, bit } => {
                    let into = match bit.memory {
                        Memory::Output => &mut output[bit.range.clone()],
                        Memory::Scratch => &mut scratch[bit.range.clone()],
                        Memory::Input => unreachable!("nothing is received into the input"),
                    };
                    await_board(endpoint, *from, about)?;
                    endpoint.fabric().board_read(*from, *at, into.len(), &mut |data| copy_short(into, data));
                }
                Step::ReadReduce { from, at, bit, left } => {
                    let into = match bit.memory {
                        Memory::Output => &mut output[bit.range.clone()],
                        Memory::Scratch => &mut scratch[bit.range.clone()],
                        Memory::Input => unreachable!("nothing is combined into the input"),
                    };
                    await_board(endpoint, *from, about)?;
                    endpoint.fabric().board_read(*from, *at, into.len(), &mut |operand| fold(into, operand, *left));
                }
                Step::Send { to, tag, bit } => {
                    let data = match bit.memory {
                        Memory::Input => &input[bit.range.clone()],
                        Memory::Output => &output[bit.range.clone()],
                        Memory::Scratch => &scratch[bit.range.clone()],
                    };
                    send(endpoint, Address { context, to: *to, tag: tag | instance_tag, synchronous: false }, data)?;
                }
                Step::Recv { from, tag, bit } => {
                    let into = match bit.memory {
                        Memory::Output => &mut output[bit.range.clone()],
                        Memory::Scratch => &mut scratch[bit.range.clone()],
                        Memory::Input => unreachable!("nothing is received into the input"),
                    };
                    receive(endpoint, Select { context, source: Some(*from), tag: Some(tag | instance_tag) }, into)?;
                }
                Step::RecvReduce { from, tag, bit, left } => {
                    let operand = &mut operands[..bit.range.len()];
                    receive(endpoint, Select { context, source: Some(*from), tag: Some(tag | instance_tag) }, operand)?;
                    match bit.memory {
                        Memory::Output => fold(&mut output[bit.range.clone()], operand, *left),
                        Memory::Scratch => fold(&mut scratch[bit.range.clone()], operand, *left),
                        Memory::Input => unreachable!("nothing is combined into the input"),
                    }
                }
                Step::Copy { from, to } => {
                    let (begin, range) = (to.range.start, from.range.clone());
                    match (from.memory, to.memory) {
                        (Memory::Input, Memory::Output) => output[to.range.clone()].copy_from_slice(&input[range]),
                        (Memory::Input, Memory::Scratch) => scratch[to.range.clone()].copy_from_slice(&input[range]),
                        (Memory::Output, Memory::Output) => output.copy_within(range, begin),
                        (Memory::Scratch, Memory::Scratch) => scratch.copy_within(range, begin),
                        (Memory::Output, Memory::Scratch) => scratch[to.range.clone()].copy_from_slice(&output[range]),
                        (Memory::Scratch, Memory::Output) => output[to.range.clone()].copy_from_slice(&scratch[range]),
                        (_, Memory::Input) => unreachable!("nothing is copied into the input"),
                    }
                }
                Step::Reduce { from, into, left } => {
                    let operand = &mut operands[..from.range.len()];
                    operand.copy_from_slice(match from.memory {
                        Memory::Input => &input[from.range.clone()],
                        Memory::Output => &output[from.range.clone()],
                        Memory::Scratch => &scratch[from.range.clone()],
                    });
                    match into.memory {
                        Memory::Output => fold(&mut output[into.range.clone()], operand, *left),
                        Memory::Scratch => fold(&mut scratch[into.range.clone()], operand, *left),
                        Memory::Input => unreachable!("nothing is combined into the input"),
                    }
                }
            }
        }
        Ok(())
    }
}

/// Waits until a rank has come to the meeting, and makes sure that it is there for the same operation.
#[inline]
fn await_board(endpoint: &mut Endpoint, from: u32, about: u64) -> Result<()> {
    let its = endpoint.wait_at_board(|fabric| fabric.board_about(from))?;
    if its == about {
        return Ok(());
    }
    let bytes = |about: u64| about & u64::from(u32::MAX >> 4);
    Err(Error::Disagreement { got: bytes(its), expected: bytes(about) })
}

/// Which operation, and how many bytes all blocks have together.
fn about(job: &Job) -> u32 {
    let operation = job.schedule.operation();
    let kind = operation.name().bytes().map(u32::from).sum::<u32>() % 16;
    let bytes = (job.layouts.output.total() * job.element) as u32 & u32::MAX >> 4;
    kind << 28 | bytes
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

/// Where each scratch buffer begins, and how long they are together.
fn scratch_of(job: &Job) -> (Vec<usize>, usize) {
    let mut begins = Vec::new();
    let mut scratch = 0usize;
    for tmp in 0..job.schedule.temporaries() {
        begins.push(scratch);
        scratch += (job.places().size(Buf::Tmp(tmp)) * job.element).next_multiple_of(MOST_ALIGN);
    }
    (begins, scratch)
}

/// What a rank writes on the board in a round: each part once, whoever reads it.
struct Writing {
    parts: Vec<(Part, usize)>,
    /// To whom, and where it lies.
    sends: Vec<(u32, usize)>,
    bytes: usize,
}

impl Writing {
    fn new(job: &Job, rank: u32, ops: &[Op]) -> Self {
        let places = Places { rank, ..job.places() };
        let mut writing = Self { parts: Vec::new(), sends: Vec::new(), bytes: 0 };
        for op in ops {
            let Op::Send { to, part } = *op else { continue };
            let at = match writing.parts.iter().rev().find(|(other, _)| *other == part) {
                Some((_, at)) => *at,
                None => {
                    let at = writing.bytes;
                    writing.bytes += (places.len(part) * job.element).next_multiple_of(MOST_ALIGN);
                    writing.parts.push((part, at));
                    at
                }
            };
            writing.sends.push((to, at));
        }
        writing
    }

    /// Where the messages to a rank lie, in order.
    fn sent_to(&self, rank: u32) -> impl Iterator<Item = usize> + '_ {
        self.sends.iter().filter(move |(to, _)| *to == rank).map(|(_, at)| *at)
    }
}

/// Whether the parts of an operation are single ranges.
fn is_single(job: &Job, rank: u32, op: Op) -> bool {
    let places = Places { rank, ..job.places() };
    let single = |part: Part| {
        let mut ranges = 0;
        places.ranges(part, |_| ranges += 1);
        ranges < 2
    };
    match op {
        Op::Send { part, .. } | Op::Recv { part, .. } | Op::RecvReduce { part, .. } => single(part),
        Op::Copy { from, to } | Op::Reduce { from, into: to, .. } => single(from) && single(to),
    }
}

/// Whether all messages of a round are received in it.
fn meets<'a>(writings: &[Writing], ranks: u32, ops: impl Fn(u32) -> &'a [Op]) -> bool {
    (0..ranks).all(|rank| {
        let mut expected = vec![0usize; ranks as usize];
        for op in ops(rank) {
            if let Op::Recv { from, .. } | Op::RecvReduce { from, .. } = op {
                expected[*from as usize] += 1;
            }
        }
        expected.iter().zip(writings).all(|(count, writing)| *count == writing.sent_to(rank).count())
    })
}

/// Where a rank's buffers lie in the memory that it is given. A buffer that both are in is given as the output.
struct Own {
    input: (Memory, usize),
    output: usize,
}

impl Own {
    fn new(shared: Shared) -> Self {
        match shared {
            Shared::Nothing => Self { input: (Memory::Input, 0), output: 0 },
            Shared::InputInOutput(begin) => Self { input: (Memory::Output, begin), output: 0 },
            Shared::OutputInInput(begin) => Self { input: (Memory::Output, 0), output: begin },
        }
    }

    fn bit(&self, places: Places<'_>, part: Part, element: usize, begins: &[usize]) -> Option<Bit> {
        let (memory, begin) = match part.buf {
            Buf::In => self.input,
            Buf::Out => (Memory::Output, self.output),
            Buf::Tmp(tmp) => (Memory::Scratch, begins[tmp as usize]),
        };
        let (mut found, mut several) = (0..0, false);
        places.ranges(part, |range| {
            several |= !found.is_empty();
            found = begin + range.start * element..begin + range.end * element;
        });
        (!several).then_some(Bit { memory, range: found })
    }
}
