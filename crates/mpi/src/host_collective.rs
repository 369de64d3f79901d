//! The MPI library's own collective operations, as the engine's.
//!
//! They are started nonblocking and tested at every poll, since a rank that blocks in MPI would not answer the others.

use std::ptr::NonNull;

use treepie_base::{PredefinedOp, PredefinedReduction, PredefinedType, Span};
use treepie_fabric::{HostCollective, HostOperation};

use crate::shim::{CollectiveInfo, MpiRequest, Shim};

/// Where buffers without bytes are: Open MPI refuses input and output at the same address, and the address of an empty
/// slice may be that of `MPI_IN_PLACE`.
static EMPTY: [u8; 2] = [0; 2];

/// The operation in flight, if any.
#[derive(Default)]
pub(crate) struct HostCollectives {
    running: Option<Running>,
}

/// MPI uses the memory until the request is complete, and this is its only owner.
struct Running {
    request: MpiRequest,
    _memory: [Span; 2],
}

impl HostCollectives {
    /// Starts one, if none is in flight.
    ///
    /// # Panics
    /// If there is one, or a span is shorter than the operation of `ranks` ranks needs.
    pub(crate) fn start(
        &mut self,
        shim: &Shim,
        (rank, ranks): (u32, u32),
        collective: HostCollective,
        input: Span,
        mut output: Span,
    ) {
        assert!(self.running.is_none(), "a rank is in one collective operation of the host at a time");
        let (needed_input, needed_output) = needed_bytes(&collective, rank, ranks);
        assert!(input.len() >= needed_input && output.len() >= needed_output, "the buffers of {collective:?}");
        assert!(needed_output == 0 || output.is_writable(), "the output of {collective:?}");
        let from = if needed_input == 0 { &raw const EMPTY[0] } else { input.as_slice().as_ptr() };
        let into = match needed_output {
            0 => NonNull::from(&EMPTY[1]),
            _ => NonNull::from(output.as_mut_slice()).cast(),
        };
        // SAFETY: the buffers have the bytes that the operation needs (above), and the spans stay here until it is
        // complete.
        let request = unsafe { shim.icollective(&info(&collective), from, into) };
        self.running = Some(Running { request, _memory: [input, output] });
    }

    /// Makes progress. When the operation is complete, its memory is returned.
    #[inline]
    pub(crate) fn poll(&mut self, shim: &Shim) {
        if let Some(running) = &self.running
            && shim.test(&running.request).is_some()
        {
            self.running = None;
        }
    }

    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        self.running.is_none()
    }
}

/// Bytes that MPI reads and writes on a rank.
fn needed_bytes(collective: &HostCollective, rank: u32, ranks: u32) -> (usize, usize) {
    let HostCollective { operation, count, reduction, root, in_place } = *collective;
    let one =
        usize::try_from(count).expect("a count is not negative") * reduction.map_or(1, |of| element_bytes(of.element));
    let (all, is_root) = (one * ranks as usize, rank == root);
    let at_root = |bytes| if is_root { bytes } else { 0 };
    let (input, output) = match operation {
        HostOperation::Barrier => (0, 0),
        HostOperation::Bcast => (0, one),
        HostOperation::Scatter => (at_root(all), one),
        HostOperation::Gather => (one, at_root(all)),
        HostOperation::Allgather => (one, all),
        HostOperation::Alltoall => (all, all),
        HostOperation::Allreduce | HostOperation::Scan => (one, one),
        HostOperation::Reduce => (one, at_root(one)),
        HostOperation::ReduceScatterBlock => (all, one),
    };
    (if in_place { 0 } else { input }, output)
}

const fn element_bytes(element: PredefinedType) -> usize {
    match element {
        PredefinedType::I8 | PredefinedType::U8 => 1,
        PredefinedType::I16 | PredefinedType::U16 => 2,
        PredefinedType::I32 | PredefinedType::U32 | PredefinedType::F32 => 4,
        PredefinedType::I64 | PredefinedType::U64 | PredefinedType::F64 => 8,
    }
}

/// The numbers of the C file.
fn info(collective: &HostCollective) -> CollectiveInfo {
    let HostCollective { operation, count, reduction, root, in_place } = *collective;
    let operation = match operation {
        HostOperation::Barrier => 0,
        HostOperation::Bcast => 1,
        HostOperation::Scatter => 2,
        HostOperation::Gather => 3,
        HostOperation::Allgather => 4,
        HostOperation::Alltoall => 5,
        HostOperation::Allreduce => 6,
        HostOperation::Reduce => 7,
        HostOperation::ReduceScatterBlock => 8,
        HostOperation::Scan => 9,
    };
    let (op, element) = reduction.map_or((0, 0), |PredefinedReduction { op, element }| {
        let op = match op {
            PredefinedOp::Sum => 1,
            PredefinedOp::Prod => 2,
            PredefinedOp::Min => 3,
            PredefinedOp::Max => 4,
            PredefinedOp::And => 5,
            PredefinedOp::Or => 6,
            PredefinedOp::Xor => 7,
        };
        let element = match element {
            PredefinedType::I8 => 1,
            PredefinedType::I16 => 2,
            PredefinedType::I32 => 3,
            PredefinedType::I64 => 4,
            PredefinedType::U8 => 5,
            PredefinedType::U16 => 6,
            PredefinedType::U32 => 7,
            PredefinedType::U64 => 8,
            PredefinedType::F32 => 9,
            PredefinedType::F64 => 10,
        };
        (op, element)
    });
    CollectiveInfo { operation, element, op, count, root: root as i32, in_place: i32::from(in_place) }
}
