//! The steps of compiled schedules, on byte ranges of three buffers: the caller's input and output, and scratch memory.

use std::ops::Range;

use treepie_base::copy_short;
use treepie_fabric::SlotClass;
use treepie_schedule::{BlockRange, Buf, BufferMap, OperandSide, ScheduleOp};

use super::job::{BufferAliasing, CollectiveJob};

/// A buffer: the caller's input or output, or scratch memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BufferKind {
    Input,
    Output,
    Scratch,
}

/// A byte range of a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BufferRange {
    pub(super) buffer: BufferKind,
    pub(super) range: Range<usize>,
}

impl BufferRange {
    /// A chunk of it, given the index and the length of the chunk.
    #[inline]
    pub(super) fn chunk(&self, (index, len): (usize, usize)) -> Self {
        let Range { start, end } = self.range;
        let begin = start.saturating_add(index * len).min(end);
        Self { buffer: self.buffer, range: begin..begin.saturating_add(len).min(end) }
    }
}

/// A step; `left` if the received operand is the left one.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Copy {
        from: BufferRange,
        to: BufferRange,
    },
    Reduce {
        from: BufferRange,
        into: BufferRange,
        left: bool,
    },
    /// Over messages.
    Send {
        to: u32,
        tag: u64,
        data: BufferRange,
    },
    Recv {
        from: u32,
        tag: u64,
        data: BufferRange,
    },
    RecvReduce {
        from: u32,
        tag: u64,
        data: BufferRange,
        left: bool,
    },
    /// Over the shared segment: data, and addresses of data.
    Write {
        slot: SlotClass,
        at: usize,
        data: BufferRange,
    },
    Expose {
        slot: SlotClass,
        at: usize,
        data: BufferRange,
    },
    /// Waits until a rank has published.
    Wait {
        from: u32,
    },
    /// Publishes this rank's slot; with `all`, waits until all members of the segment have published.
    Publish {
        slot: SlotClass,
        all: bool,
    },
    Read {
        from: u32,
        slot: SlotClass,
        at: usize,
        data: BufferRange,
    },
    ReadReduce {
        from: u32,
        slot: SlotClass,
        at: usize,
        data: BufferRange,
        left: bool,
    },
    /// The same with a single copy.
    SingleCopyRead {
        from: u32,
        slot: SlotClass,
        at: usize,
        data: BufferRange,
    },
    SingleCopyReduce {
        from: u32,
        slot: SlotClass,
        at: usize,
        data: BufferRange,
        left: bool,
    },
}

impl Step {
    /// The destination of its message, if it sends one.
    pub(super) fn receiver(&self) -> Option<u32> {
        match self {
            Self::Send { to, .. } => Some(*to),
            _ => None,
        }
    }
}

/// The largest supported alignment of an element.
pub(super) const MAX_ALIGN: usize = align_of::<u128>();

/// Resolves parts of a rank's schedule buffers to byte ranges.
pub(super) struct RangeResolver<'a> {
    job: &'a CollectiveJob,
    /// Offsets of the buffers in those of the caller. A buffer with both input and output is passed as the output.
    input: (BufferKind, usize),
    output: usize,
    /// Start of each scratch buffer.
    begins: Vec<usize>,
    /// Bytes of scratch memory.
    pub(super) scratch: usize,
}

impl<'a> RangeResolver<'a> {
    /// `None` if elements need more alignment than scratch memory has.
    pub(super) fn new(job: &'a CollectiveJob, in_place: bool) -> Option<Self> {
        if job.align > MAX_ALIGN {
            return None;
        }
        let (mut begins, mut scratch) = (Vec::new(), 0);
        for tmp in 0..job.schedule.scratch_buffers() {
            begins.push(scratch);
            scratch += (job.buffer_map().buffer_len(Buf::Tmp(tmp)) * job.element).next_multiple_of(MAX_ALIGN);
        }
        let (input, output) = match if in_place { job.aliasing() } else { BufferAliasing::Disjoint } {
            BufferAliasing::Disjoint => ((BufferKind::Input, 0), 0),
            BufferAliasing::InputInOutput(begin) => ((BufferKind::Output, begin), 0),
            BufferAliasing::OutputInInput(begin) => ((BufferKind::Output, 0), begin),
        };
        Some(Self { job, input, output, begins, scratch })
    }

    /// The bytes of each scratch buffer in the scratch memory.
    pub(super) fn scratch_buffers(&self) -> Vec<Range<usize>> {
        let len = |tmp| self.job.buffer_map().buffer_len(Buf::Tmp(tmp)) * self.job.element;
        (0..).zip(&self.begins).map(|(tmp, begin)| *begin..begin + len(tmp)).collect()
    }

    /// The byte range of a part, if it is contiguous.
    pub(super) fn resolve(&self, part: BlockRange) -> Option<BufferRange> {
        let (buffer, begin) = match part.buf {
            Buf::In => self.input,
            Buf::Out => (BufferKind::Output, self.output),
            Buf::Tmp(tmp) => (BufferKind::Scratch, self.begins[tmp as usize]),
        };
        let element = self.job.element;
        let range = contiguous_range(self.job.buffer_map(), part)?;
        Some(BufferRange { buffer, range: begin + range.start * element..begin + range.end * element })
    }

    /// The step of a local operation, if it has an effect; `None` if a part is not contiguous.
    pub(super) fn local(&self, op: ScheduleOp) -> Option<Option<Step>> {
        Some(match op {
            ScheduleOp::Send { .. } | ScheduleOp::Recv { .. } | ScheduleOp::RecvReduce { .. } => None,
            ScheduleOp::Copy { from, to } => {
                let (from, to) = (self.resolve(from)?, self.resolve(to)?);
                (from != to).then_some(Step::Copy { from, to })
            }
            ScheduleOp::Reduce { from, into, side } => Some(Step::Reduce {
                from: self.resolve(from)?,
                into: self.resolve(into)?,
                left: side == OperandSide::Left,
            }),
        })
    }
}

/// The elements of a part, if they are contiguous.
pub(super) fn contiguous_range(buffers: BufferMap<'_>, part: BlockRange) -> Option<Range<usize>> {
    let (mut found, mut several) = (0..0, false);
    buffers.ranges(part, |range| {
        several |= !found.is_empty();
        found = range;
    });
    (!several).then_some(found)
}

/// The buffers of a run.
pub(super) struct StepBuffers<'a> {
    pub(super) input: &'a [u8],
    pub(super) output: &'a mut [u8],
    pub(super) scratch: &'a mut [u8],
}

impl StepBuffers<'_> {
    #[inline]
    pub(super) fn get(&self, data: &BufferRange) -> &[u8] {
        let buffer = match data.buffer {
            BufferKind::Input => self.input,
            BufferKind::Output => &*self.output,
            BufferKind::Scratch => &*self.scratch,
        };
        &buffer[data.range.clone()]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, data: &BufferRange) -> &mut [u8] {
        let buffer = match data.buffer {
            BufferKind::Output => &mut *self.output,
            BufferKind::Scratch => &mut *self.scratch,
            BufferKind::Input => unreachable!("nothing is written into the input"),
        };
        &mut buffer[data.range.clone()]
    }

    #[inline]
    pub(super) fn copy(&mut self, from: &BufferRange, to: &BufferRange) {
        let (range, begin) = (from.range.clone(), to.range.start);
        match (from.buffer, to.buffer) {
            (BufferKind::Output, BufferKind::Output) => self.output.copy_within(range, begin),
            (BufferKind::Scratch, BufferKind::Scratch) => self.scratch.copy_within(range, begin),
            (BufferKind::Scratch, _) => copy_short(&mut self.output[to.range.clone()], &self.scratch[range]),
            (BufferKind::Output, _) => copy_short(&mut self.scratch[to.range.clone()], &self.output[range]),
            (BufferKind::Input, _) => {
                let input = self.input;
                copy_short(self.get_mut(to), &input[range]);
            }
        }
    }
}
