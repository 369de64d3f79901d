//! Collective operations of the host: those of the MPI library that an engine is made of.
//!
//! The engine starts one and tests it whenever it is polled, so that the endpoint makes progress meanwhile. The host
//! cannot end an operation that will not complete: if a rank refuses its call, calls another operation or is lost, the
//! job ends.

use std::time::Duration;

use treepie_base::{Error, PredefinedReduction, Result, Span};

use crate::backoff::Backoff;
use crate::call_signature::CallSignature;
use crate::endpoint::Endpoint;
use crate::mismatch::SegmentOp;
use crate::op::WaitReason;
use crate::protocol_queues::{PROTOCOL_TAG_BIT, ProtocolInstance};

/// An operation that a host may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are named after MPI's functions")]
pub enum HostOperation {
    Barrier,
    Bcast,
    Scatter,
    Gather,
    Allgather,
    Alltoall,
    Allreduce,
    Reduce,
    ReduceScatterBlock,
    Scan,
}

/// A call of such an operation, on all ranks of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostCollective {
    /// The operation.
    pub operation: HostOperation,
    /// Elements of a block or of the vector: bytes, if nothing is reduced.
    pub count: i32,
    /// The reduction, if it is one.
    pub reduction: Option<PredefinedReduction>,
    /// The root; 0 if there is none.
    pub root: u32,
    /// Whether the output has the input (`MPI_IN_PLACE`).
    pub in_place: bool,
}

impl HostOperation {
    /// Whether no rank completes it before all have started it.
    fn synchronizes(self) -> bool {
        use HostOperation::{Allgather, Allreduce, Alltoall, Barrier, ReduceScatterBlock};
        matches!(self, Barrier | Allgather | Alltoall | Allreduce | ReduceScatterBlock)
    }
}

/// A rank that has left a synchronizing operation has completed it, or will never start it. If it has completed it, all
/// have started, and the rest takes less than this.
const TIME_AFTER_DEPARTURE: Duration = Duration::from_secs(60);

impl Endpoint {
    /// Runs a collective operation of the host to its end; `instance` is that of the call.
    pub fn run_host_collective(
        &mut self,
        instance: (u32, u64),
        signature: CallSignature,
        collective: HostCollective,
        (input, output): (Span, Span),
    ) -> Result<()> {
        let (context, tag) = instance;
        self.state.mismatches.set_segment_op(SegmentOp { context, tag, call: signature, has_messages: false });
        self.fabric.start_host_collective(collective, input, output);
        let mut backoff = Backoff::default();
        let mut departure = None;
        loop {
            let progressed = self.progress();
            if self.fabric.host_collective_is_complete() {
                self.state.mismatches.clear_segment_op();
                return Ok(());
            }
            if let Err(error) = self.check_host_collective(instance, collective.operation, &mut departure) {
                // The host still uses the memory of the call.
                self.fabric.announce_failure(Some(&error));
                return Err(error);
            }
            if progressed {
                backoff.reset();
            } else {
                self.backoff(&mut backoff, WaitReason::HostCollective);
            }
        }
    }

    /// An error if the operation cannot complete; `departure` is the time when a rank was found to have left.
    fn check_host_collective(
        &mut self,
        (context, tag): (u32, u64),
        operation: HostOperation,
        departure: &mut Option<Duration>,
    ) -> Result<()> {
        self.check_segment_mismatch()?;
        if let Some(error) = self.abort_error(ProtocolInstance { context, tag: tag | PROTOCOL_TAG_BIT }, |_| true) {
            return Err(error);
        }
        let Some(rank) = self.state.liveness.first_lost() else { return Ok(()) };
        // From others a rank may leave before the next has started, and that one may start at any time.
        let all_others = || (0..self.size()).all(|rank| rank == self.state.rank || self.state.liveness.is_lost(rank));
        let now = self.fabric.now();
        if now.saturating_sub(*departure.get_or_insert(now)) > TIME_AFTER_DEPARTURE
            && (operation.synchronizes() || all_others())
        {
            return Err(Error::PeerLost { rank: rank as usize });
        }
        Ok(())
    }
}
