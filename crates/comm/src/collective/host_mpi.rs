//! Collective operations that the MPI library runs itself: blocking calls on the world of an MPI job.
//!
//! They are candidates where a profile has their times (`treepie tune --collectives`), or an id sets them
//! (`allreduce/mpi`). All ranks take the same way, since it depends only on what they all know of a call.

use treepie_base::{Result, borrow_scope};
use treepie_fabric::{CallSignature, HostCollective, HostOperation};
use treepie_schedule::Operation;

use super::call::{BlockCounts, CollectiveCall};
use crate::comm::Comm;

impl Comm {
    /// Whether the engine has collective operations of its own for this communicator: the world, in an MPI job.
    pub fn has_host_collectives(&self) -> bool {
        self.context() == 0 && self.is_whole_world() && self.is_in_mpi_job()
    }

    pub(super) fn is_in_mpi_job(&self) -> bool {
        self.endpoint().fabric().capabilities().host_collectives
    }

    /// The call as one of the MPI library, if it has such an operation.
    pub(super) fn host_collective(&self, call: &CollectiveCall<'_>) -> Option<HostCollective> {
        if !self.has_host_collectives() {
            return None;
        }
        let operation = match call.operation {
            Operation::Barrier => HostOperation::Barrier,
            Operation::Bcast { .. } => HostOperation::Bcast,
            Operation::Scatter { .. } => HostOperation::Scatter,
            Operation::Gather { .. } => HostOperation::Gather,
            Operation::Allgather => HostOperation::Allgather,
            Operation::Alltoall => HostOperation::Alltoall,
            Operation::Allreduce => HostOperation::Allreduce,
            Operation::Reduce { .. } => HostOperation::Reduce,
            Operation::ReduceScatter => HostOperation::ReduceScatterBlock,
            Operation::Scan => HostOperation::Scan,
            // MPI leaves the output of rank 0 undefined, where it is unchanged here.
            Operation::Exscan => return None,
        };
        // In place, the one buffer is laid out as MPI's only where input and output are alike.
        if call.in_place && call.operation != Operation::Allreduce {
            return None;
        }
        let (BlockCounts::Uniform(elements) | BlockCounts::Vector(elements)) = call.counts else { return None };
        if call.operation.is_reduction() && call.predefined.is_none() {
            return None;
        }
        let count = if call.predefined.is_some() { elements } else { elements.checked_mul(call.element)? };
        Some(HostCollective {
            operation,
            count: i32::try_from(count).ok()?,
            reduction: call.predefined,
            root: call.operation.root().unwrap_or(0),
            in_place: call.in_place,
        })
    }

    pub(super) fn run_host_collective(
        &self,
        collective: HostCollective,
        instance: (u32, u64),
        signature: CallSignature,
        (input, output): (&[u8], &mut [u8]),
    ) -> Result<()> {
        borrow_scope(
            |lending, _| {
                let spans = (lending.lend(input), lending.lend_mut(output));
                self.endpoint().run_host_collective(instance, signature, collective, spans)
            },
            |panicked| self.endpoint().settle(panicked),
        )
    }
}
