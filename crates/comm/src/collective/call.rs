//! Descriptions of collective calls: what all forms of an operation have in common. The constructors are in
//! [`operations`](super::operations).

use std::marker::PhantomData;
use std::ops::Deref;

use bytemuck::{cast_slice, cast_slice_mut};
use treepie_base::{Pod, PredefinedReduction, Reduction};
use treepie_schedule::{BlockLayout, BlockLayouts, BufferBlocks, Operation};

use crate::comm::Comm;

/// A collective call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CollectiveCall<'a> {
    pub(crate) operation: Operation,
    pub(crate) counts: BlockCounts<'a>,
    /// Size and alignment of an element, in bytes.
    pub(crate) element: usize,
    pub(crate) align: usize,
    /// Whether the operator is commutative.
    pub(crate) commutative: bool,
    /// The reduction, if an MPI library has it, too.
    pub(crate) predefined: Option<PredefinedReduction>,
    /// Whether input and output are one buffer.
    pub(crate) in_place: bool,
    /// Whether the program called the in-place form; otherwise in place is an implementation choice.
    pub(crate) user_in_place: bool,
}

/// The block lengths of a call, in elements.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BlockCounts<'a> {
    /// A block of this length for each rank.
    Uniform(usize),
    /// A vector of this length, which the algorithm partitions as it likes.
    Vector(usize),
    /// One count for each rank; all ranks know the list.
    PerRank(&'a [usize]),
    /// Counts of the input and output blocks. Each rank knows only its part of them, so no choice may depend on them.
    LocalOnly(&'a [usize], &'a [usize]),
}

/// The one buffer of an in-place call on a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InPlaceBuffer {
    /// The output, with the input in it, or the other way round.
    Output,
    /// The input; there is no output on this rank.
    Input,
    /// The input before and the output afterwards, which must not overlap while the operation runs.
    Separate,
}

impl CollectiveCall<'_> {
    /// The same in place. An all-to-all on a copy of its input does not differ from the other form.
    pub(crate) fn in_place(self) -> Self {
        let in_place = self.operation != Operation::Alltoall;
        Self { in_place, user_in_place: in_place, ..self }
    }

    /// The same on a copy of the input that becomes the output; the program does not see that.
    pub(crate) fn on_copy_of_input(self) -> Self {
        Self { in_place: true, ..self }
    }

    /// What an in-place call passes on this rank.
    pub(crate) fn in_place_buffer(&self, rank: u32) -> InPlaceBuffer {
        match self.operation {
            Operation::Gather { root } | Operation::Reduce { root } if root != rank => InPlaceBuffer::Input,
            Operation::ReduceScatter | Operation::Alltoall => InPlaceBuffer::Separate,
            _ => InPlaceBuffer::Output,
        }
    }

    /// Elements of a rank's input and output, if these are two buffers.
    pub(crate) fn lengths(&self, rank: u32, ranks: u32) -> (usize, usize) {
        let len = |blocks, counts: BlockCounts<'_>| match blocks {
            BufferBlocks::Empty | BufferBlocks::Uniform { .. } => 0,
            BufferBlocks::OwnBlock => counts.block(rank),
            BufferBlocks::ViewRange { .. } => counts.sum(ranks),
        };
        let (input, output) = match self.counts {
            BlockCounts::LocalOnly(input, output) => (BlockCounts::PerRank(input), BlockCounts::PerRank(output)),
            both => (both, both),
        };
        (len(self.operation.input_blocks(rank, ranks), input), len(self.operation.output_blocks(rank, ranks), output))
    }

    /// The signature that messages of this call carry.
    pub(crate) fn signature(&self, ranks: u32) -> treepie_fabric::CallSignature {
        let bytes = self.counts.total(ranks).map(|elements| elements.saturating_mul(self.element) as u64);
        signature(self.operation, bytes)
    }
}

impl<'a> BlockCounts<'a> {
    pub(crate) fn layouts(&self, blocks: u32) -> BlockLayouts {
        match self {
            BlockCounts::Uniform(each) => BlockLayouts::symmetric(BlockLayout::uniform(*each, blocks)),
            BlockCounts::Vector(total) => BlockLayouts::symmetric(BlockLayout::Even { total: *total, blocks }),
            BlockCounts::PerRank(counts) => BlockLayouts::symmetric(BlockLayout::from_counts(counts)),
            BlockCounts::LocalOnly(input, output) => {
                BlockLayouts { input: BlockLayout::from_counts(input), output: BlockLayout::from_counts(output) }
            }
        }
    }

    /// Elements of all blocks, if all ranks know that.
    pub(crate) fn total(&self, ranks: u32) -> Option<usize> {
        match self {
            BlockCounts::LocalOnly(..) => None,
            counts => Some(counts.sum(ranks)),
        }
    }

    /// Elements of all output blocks.
    fn sum(&self, ranks: u32) -> usize {
        match self {
            BlockCounts::Uniform(each) => each * ranks as usize,
            BlockCounts::Vector(total) => *total,
            BlockCounts::PerRank(counts) | BlockCounts::LocalOnly(_, counts) => counts.iter().sum(),
        }
    }

    /// Elements of the output block of a rank; a vector is one block.
    fn block(&self, rank: u32) -> usize {
        match self {
            BlockCounts::Uniform(elements) | BlockCounts::Vector(elements) => *elements,
            BlockCounts::PerRank(counts) | BlockCounts::LocalOnly(_, counts) => counts[rank as usize],
        }
    }

    /// What distinguishes two calls of one operation.
    pub(crate) fn key(&self) -> (usize, &'a [usize], &'a [usize]) {
        match *self {
            BlockCounts::Uniform(elements) | BlockCounts::Vector(elements) => (elements, &[], &[]),
            BlockCounts::PerRank(counts) => (usize::MAX, counts, &[]),
            BlockCounts::LocalOnly(input, output) => (usize::MAX, input, output),
        }
    }
}

/// The signature of an operation; `bytes` if all ranks know them.
pub(super) fn signature(operation: Operation, bytes: Option<u64>) -> treepie_fabric::CallSignature {
    treepie_fabric::CallSignature::new(operation.name(), operation.root().unwrap_or(0), bytes)
}

/// Reduces the second slice into the first; the flag is set if the second is the left operand.
pub(crate) type ReduceFn = dyn Fn(&mut [u8], &[u8], bool);

/// The operator of a reduction: the caller's in a blocking call, else the operation's own.
pub(crate) enum Fold<'a> {
    Borrowed(&'a ReduceFn),
    Owned(Box<ReduceFn>),
}

impl Deref for Fold<'_> {
    type Target = ReduceFn;

    fn deref(&self) -> &ReduceFn {
        match self {
            Fold::Borrowed(fold) => *fold,
            Fold::Owned(fold) => &**fold,
        }
    }
}

/// An operator on the bytes of elements.
pub(crate) trait ReduceBytes: Fn(&mut [u8], &[u8], bool) + 'static {}
impl<F: Fn(&mut [u8], &[u8], bool) + 'static> ReduceBytes for F {}

/// For operations without a reduction.
pub(crate) type NoReduceFn = fn(&mut [u8], &[u8], bool);

/// A call on elements of type `T`, with its operator if it reduces.
pub(crate) struct TypedCall<'a, T, F = NoReduceFn> {
    pub(crate) call: CollectiveCall<'a>,
    fold: Option<F>,
    elements: PhantomData<T>,
}

impl<'a, T: Pod> TypedCall<'a, T> {
    pub(super) fn new(operation: Operation, counts: BlockCounts<'a>) -> Self {
        let (element, align) = (size_of::<T>(), align_of::<T>());
        let call = CollectiveCall {
            operation,
            counts,
            element,
            align,
            commutative: true,
            predefined: None,
            in_place: false,
            user_in_place: false,
        };
        Self { call, fold: None, elements: PhantomData }
    }

    pub(super) fn reducing<R: Reduction<T>>(self, op: R) -> TypedCall<'a, T, impl ReduceBytes + use<T, R>> {
        let predefined = PredefinedReduction::of::<T, R>();
        let call = CollectiveCall { commutative: op.is_commutative(), predefined, ..self.call };
        let fold = move |into: &mut [u8], operand: &[u8], left: bool| {
            op.reduce_local(cast_slice_mut(into), cast_slice(operand), left);
        };
        TypedCall { call, fold: Some(fold), elements: PhantomData }
    }
}

impl<T, F: ReduceBytes> TypedCall<'_, T, F> {
    pub(crate) fn fold(&self) -> Option<&ReduceFn> {
        self.fold.as_ref().map(|fold| fold as &ReduceFn)
    }

    /// The operator of an operation that continues after the call.
    pub(crate) fn into_fold(self) -> Option<Fold<'static>> {
        self.fold.map(|fold| Fold::Owned(Box::new(fold)))
    }
}

/// Whether a call is blocking, nonblocking or persistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallMode {
    Blocking,
    Nonblocking,
    Persistent,
}

impl Comm {
    /// The part of a call in which ranks must agree, as text, which they compare in checked mode. It leaves out what a
    /// rank cannot state: the algorithm that a selector returns, and counts of which each rank knows only its part.
    pub(crate) fn describe(&self, call: &CollectiveCall<'_>, mode: CallMode) -> String {
        call.describe(mode) + &self.describe_choice(&[call.operation])
    }
}

impl CollectiveCall<'_> {
    /// The call without what the choice of its algorithm depends on.
    pub(crate) fn describe(&self, mode: CallMode) -> String {
        let mut words = match mode {
            CallMode::Blocking => String::new(),
            CallMode::Nonblocking => "i".to_owned(),
            CallMode::Persistent => "a persistent ".to_owned(),
        };
        words += self.operation.name();
        if self.user_in_place {
            words += " in place";
        }
        if let Some(root) = self.operation.root() {
            let preposition = match self.operation {
                Operation::Gather { .. } | Operation::Reduce { .. } => "to",
                _ => "from",
            };
            words += &format!(" {preposition} root {root}");
        }
        if self.operation != Operation::Barrier {
            let what = match self.counts {
                BlockCounts::Vector(elements) => elements.to_string(),
                BlockCounts::Uniform(elements) => format!("blocks of {elements}"),
                BlockCounts::PerRank(counts) => format!("blocks of {counts:?}"),
                // Each rank knows only its part of these.
                BlockCounts::LocalOnly(..) => "blocks of any number of".to_owned(),
            };
            words += &format!(" of {what} elements of {} bytes", self.element);
        }
        if !self.commutative {
            words += " by a non-commutative operator";
        }
        words
    }
}
