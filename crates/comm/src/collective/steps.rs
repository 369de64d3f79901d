//! What a schedule becomes for the short ways: a list of steps on ranges of bytes of three memories, the caller's input
//! and output and scratch memory.

use std::ops::Range;

use treepie_base::copy_short;
use treepie_fabric::Room;
use treepie_schedule::{Buf, Op, Part, Places, Side};

use super::job::{Job, Shared};

/// Which memory: the caller's input or output, or scratch memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    Input,
    Output,
    Scratch,
}

/// A range of bytes of a memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bit {
    pub(super) memory: Memory,
    pub(super) range: Range<usize>,
}

impl Bit {
    /// A piece of it: the number of the piece, and how long pieces are.
    #[inline]
    pub(super) fn piece(&self, (number, len): (usize, usize)) -> Self {
        let Range { start, end } = self.range;
        let begin = start.saturating_add(number * len).min(end);
        Self { memory: self.memory, range: begin..begin.saturating_add(len).min(end) }
    }
}

/// `left`: what comes stands on the left of what is there.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Copy {
        from: Bit,
        to: Bit,
    },
    Reduce {
        from: Bit,
        into: Bit,
        left: bool,
    },
    /// By messages.
    Send {
        to: u32,
        tag: u64,
        bit: Bit,
    },
    Recv {
        from: u32,
        tag: u64,
        bit: Bit,
    },
    RecvReduce {
        from: u32,
        tag: u64,
        bit: Bit,
        left: bool,
    },
    /// Over the board: data, and where data lies.
    Write {
        room: Room,
        at: usize,
        bit: Bit,
    },
    Show {
        room: Room,
        at: usize,
        bit: Bit,
    },
    /// Waits until a rank has published.
    Wait {
        from: u32,
    },
    /// Publishes; `all` waits until all have.
    Meet {
        room: Room,
        all: bool,
    },
    Read {
        from: u32,
        room: Room,
        at: usize,
        bit: Bit,
    },
    ReadReduce {
        from: u32,
        room: Room,
        at: usize,
        bit: Bit,
        left: bool,
    },
    /// The same from where it lies.
    Fetch {
        from: u32,
        room: Room,
        at: usize,
        bit: Bit,
    },
    FetchReduce {
        from: u32,
        room: Room,
        at: usize,
        bit: Bit,
        left: bool,
    },
}

impl Step {
    /// To whom it sends a message, if it does.
    pub(super) fn receiver(&self) -> Option<u32> {
        match self {
            Self::Send { to, .. } => Some(*to),
            _ => None,
        }
    }
}

/// The most that an element may be aligned to.
pub(super) const MOST_ALIGN: usize = align_of::<u128>();

/// Turns parts of a rank's buffers into ranges of its memories.
pub(super) struct Bits<'a> {
    job: &'a Job,
    /// Where the buffers lie in the memory that the caller gives. One that both are in is given as the output.
    input: (Memory, usize),
    output: usize,
    /// Where each scratch buffer begins.
    begins: Vec<usize>,
    /// Bytes of scratch memory.
    pub(super) scratch: usize,
}

impl<'a> Bits<'a> {
    /// None if elements need more alignment than scratch memory has.
    pub(super) fn new(job: &'a Job, in_place: bool) -> Option<Self> {
        if job.align > MOST_ALIGN {
            return None;
        }
        let (mut begins, mut scratch) = (Vec::new(), 0);
        for tmp in 0..job.schedule.temporaries() {
            begins.push(scratch);
            scratch += (job.places().size(Buf::Tmp(tmp)) * job.element).next_multiple_of(MOST_ALIGN);
        }
        let (input, output) = match if in_place { job.shared() } else { Shared::Nothing } {
            Shared::Nothing => ((Memory::Input, 0), 0),
            Shared::InputInOutput(begin) => ((Memory::Output, begin), 0),
            Shared::OutputInInput(begin) => ((Memory::Output, 0), begin),
        };
        Some(Self { job, input, output, begins, scratch })
    }

    /// Where a part lies, if that is one range.
    pub(super) fn bit(&self, part: Part) -> Option<Bit> {
        let (memory, begin) = match part.buf {
            Buf::In => self.input,
            Buf::Out => (Memory::Output, self.output),
            Buf::Tmp(tmp) => (Memory::Scratch, self.begins[tmp as usize]),
        };
        let element = self.job.element;
        let range = single(self.job.places(), part)?;
        Some(Bit { memory, range: begin + range.start * element..begin + range.end * element })
    }

    /// The step of an operation without messages, if it is one and does anything; an error if a part is not one range.
    pub(super) fn local(&self, op: Op) -> Option<Option<Step>> {
        Some(match op {
            Op::Send { .. } | Op::Recv { .. } | Op::RecvReduce { .. } => None,
            Op::Copy { from, to } => {
                let (from, to) = (self.bit(from)?, self.bit(to)?);
                (from != to).then_some(Step::Copy { from, to })
            }
            Op::Reduce { from, into, side } => {
                Some(Step::Reduce { from: self.bit(from)?, into: self.bit(into)?, left: side == Side::Left })
            }
        })
    }
}

/// The elements of a part, if they are one range.
pub(super) fn single(places: Places<'_>, part: Part) -> Option<Range<usize>> {
    let (mut found, mut several) = (0..0, false);
    places.ranges(part, |range| {
        several |= !found.is_empty();
        found = range;
    });
    (!several).then_some(found)
}

/// Memory while a list of steps is run.
pub(super) struct Memories<'a> {
    pub(super) input: &'a [u8],
    pub(super) output: &'a mut [u8],
    pub(super) scratch: &'a mut [u8],
}

impl Memories<'_> {
    #[inline]
    pub(super) fn get(&self, bit: &Bit) -> &[u8] {
        let memory = match bit.memory {
            Memory::Input => self.input,
            Memory::Output => &*self.output,
            Memory::Scratch => &*self.scratch,
        };
        &memory[bit.range.clone()]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, bit: &Bit) -> &mut [u8] {
        let memory = match bit.memory {
            Memory::Output => &mut *self.output,
            Memory::Scratch => &mut *self.scratch,
            Memory::Input => unreachable!("nothing is written into the input"),
        };
        &mut memory[bit.range.clone()]
    }

    #[inline]
    pub(super) fn copy(&mut self, from: &Bit, to: &Bit) {
        let (range, begin) = (from.range.clone(), to.range.start);
        match (from.memory, to.memory) {
            (Memory::Output, Memory::Output) => self.output.copy_within(range, begin),
            (Memory::Scratch, Memory::Scratch) => self.scratch.copy_within(range, begin),
            (Memory::Scratch, _) => copy_short(&mut self.output[to.range.clone()], &self.scratch[range]),
            (Memory::Output, _) => copy_short(&mut self.scratch[to.range.clone()], &self.output[range]),
            (Memory::Input, _) => {
                let input = self.input;
                copy_short(self.get_mut(to), &input[range]);
            }
        }
    }
}
