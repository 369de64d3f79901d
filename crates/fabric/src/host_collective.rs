//! Collective operations of the host: those of the MPI library that an engine is made of.
//!
//! The engine starts one and tests it whenever it is polled, so that the endpoint makes progress meanwhile. The host cannot
//! end an operation that will not complete: if a rank refuses its call, calls another operation or is lost, the job ends.

use std::time::Duration;

use treepie_base::{Error, PredefinedReduction, Result, Span};

use crate::backoff::Backoff;
use crate::call_signature::CallSignature;
use crate::endpoint::Endpoint;
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

/// A rank that has left has done its part of an operation, or never will. What is left of it takes less than this.
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
        self.state.mismatches.set_segment_op(instance.0, instance.1, signature);
        self.fabric.start_host_collective(collective, input, output);
        let mut backoff = Backoff::default();
        let mut departure = None;
        loop {
            let progressed = self.progress();
            if self.fabric.host_collective_is_complete() {
                return Ok(());
            }
            if let Err(error) = self.check_host_collective(instance, &mut departure) {
                // The host still uses the memory of the call.
                self.fabric.announce_failure(Some(&error));
                return Err(error);
            }
            if progressed {
                backoff.reset();
            } else {
                self.backoff(&mut backoff, WaitReason::For("a collective operation of the host"));
            }
        }
    }

    /// An error if the operation cannot complete; `departure` is the time when a rank was found to have left.
    fn check_host_collective(&mut self, (context, tag): (u32, u64), departure: &mut Option<Duration>) -> Result<()> {
        self.check_segment_mismatch()?;
        if let Some(error) = self.abort_error(ProtocolInstance { context, tag: tag | PROTOCOL_TAG_BIT }, |_| true) {
            return Err(error);
        }
        if let Some(rank) = (0..self.size()).find(|rank| self.state.liveness.is_lost(*rank)) {
            let now = self.fabric.now();
            if now.saturating_sub(*departure.get_or_insert(now)) > TIME_AFTER_DEPARTURE {
                return Err(Error::PeerLost { rank: rank as usize });
            }
        }
        Ok(())
    }
}
