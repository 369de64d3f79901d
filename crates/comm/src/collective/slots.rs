//! What ranks do in a shared segment: they write slots, publish them, and read those of others, under a call id by which
//! each sees whether the others are in the same operation.

use treepie_base::{Error, Result};
use treepie_fabric::{self as fabric, Endpoint, Liveness, SharedSegment, SlotClass};
use treepie_schedule::Operation;

use super::call::signature;
use super::compiled_schedule::Instance;
use super::job::CollectiveJob;

#[inline]
fn shared_segment(endpoint: &mut Endpoint) -> &mut dyn SharedSegment {
    endpoint.shared_segment().expect("a schedule over the shared segment runs only where there is one")
}

/// Writes into this rank's slot for the next round.
#[inline]
pub(super) fn write(endpoint: &mut Endpoint, slot: SlotClass, at: usize, data: &[u8]) -> Result<()> {
    endpoint.wait_segment(|segment| segment.try_write(slot, at, data).then_some(()))
}

/// Publishes this rank's slot for the round.
#[inline]
pub(super) fn publish(endpoint: &mut Endpoint, slot: SlotClass, call_id: u64) -> Result<()> {
    endpoint.wait_segment(|segment| segment.try_publish(slot, call_id).then_some(()))
}

/// Waits until all members of the segment have published their slots for the round.
#[inline]
pub(super) fn wait_for_all(endpoint: &mut Endpoint, call_id: u64) -> Result<()> {
    let segment = shared_segment(endpoint);
    let (this, members) = (segment.index(), segment.members().len() as u32);
    (0..members).filter(|member| *member != this).try_for_each(|member| wait_for_member(endpoint, member, call_id))
}

/// Waits until a member of the segment has published its slot for the round, and checks that it is in the same
/// operation.
#[inline]
pub(super) fn wait_for_member(endpoint: &mut Endpoint, from: u32, call_id: u64) -> Result<()> {
    let its = endpoint.wait_segment(|segment| segment.published_tag(from))?;
    if its == call_id { Ok(()) } else { Err(mismatch_error(endpoint.rank(), world_rank(endpoint, from), its, call_id)) }
}

/// The world rank of a member of the segment: errors name it.
#[cold]
fn world_rank(endpoint: &mut Endpoint, member: u32) -> u32 {
    shared_segment(endpoint).members()[member as usize]
}

/// A call id, in 48 bits: the instance number modulo 256, the kind of the operation, its root, and its number of bytes
/// modulo 2^30.
const ROOT_SHIFT: u32 = 30;
const KIND_SHIFT: u32 = ROOT_SHIFT + 6;
const NUMBER_SHIFT: u32 = KIND_SHIFT + 4;

#[cold]
fn mismatch_error(own: u32, rank: u32, its: u64, call_id: u64) -> Error {
    let [ours, theirs] = [call_id, its].map(decode_call_id);
    if ours == theirs {
        // The same call, by a rank that has completed more rounds or fewer.
        return Error::CollectiveOrderMismatch { rank: rank as usize };
    }
    ours.mismatch_error(own, theirs, rank)
}

/// The call of a call id.
fn decode_call_id(call_id: u64) -> fabric::CallSignature {
    let (root, bytes) = ((call_id >> ROOT_SHIFT) as u32 % 64, call_id % (1 << ROOT_SHIFT));
    let operation = Operation::all(root)
        .into_iter()
        .find(|operation| encode_call_id(*operation, bytes) == call_id % (1 << NUMBER_SHIFT));
    operation.map_or(fabric::CallSignature::from_name(LARGE_CALL), |operation| signature(operation, Some(bytes)))
}

/// What ranks are in that agree on the transport before an operation.
pub(super) const LARGE_CALL: &str = "a collective operation on 8 KiB or more";

/// The call id of a job, without instance number.
pub(super) fn job_call_id(job: &CollectiveJob) -> u64 {
    encode_call_id(job.schedule.operation(), (job.layouts.output.total() * job.element) as u64)
}

/// The call id of an operation on this number of bytes, without instance number.
pub(super) fn encode_call_id(operation: Operation, bytes: u64) -> u64 {
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
    kind << KIND_SHIFT | u64::from(root % 64) << ROOT_SHIFT | bytes & ((1 << ROOT_SHIFT) - 1)
}

/// The call id with the instance number.
#[inline]
pub(super) fn with_instance_number(instance: Instance, call_id: u64) -> u64 {
    u64::from(instance.number as u8) << NUMBER_SHIFT | call_id
}

/// The call id of the round in which ranks agree on the transport before an operation.
pub(super) const AGREEMENT_CALL_ID: u64 = 15 << KIND_SHIFT;

/// The data that a member of the segment has published for this round, once it has published for the same operation.
#[inline]
pub(super) fn read(
    endpoint: &mut Endpoint,
    from: u32,
    call_id: u64,
    location: (SlotClass, usize, usize),
) -> Result<&[u8]> {
    let (slot, at, len) = location;
    if shared_segment(endpoint).published_tag(from) != Some(call_id) {
        wait_for_member(endpoint, from, call_id)?;
    }
    Ok(shared_segment(endpoint).read(from, slot, at, len))
}

/// Reads data that a member of the segment exposes there, from its byte `first` on, with a single copy.
pub(super) fn single_copy_read(
    endpoint: &mut Endpoint,
    from: u32,
    (slot, at): (SlotClass, usize),
    first: usize,
    into: &mut [u8],
) -> Result<()> {
    if shared_segment(endpoint).read_exposed(from, slot, at, first, into) {
        return Ok(());
    }
    // A test has shown before that the memory is readable. The rank has died or left the operation, or this is memory
    // of another kind.
    let from = world_rank(endpoint, from);
    let rank = from as usize;
    Err(match (endpoint.fabric().liveness(from), shared_segment(endpoint).closed_reason()) {
        (Liveness::Alive, Some(why)) => why.to_error(from),
        (Liveness::Alive, None) => Error::Unreadable { rank },
        _ => Error::PeerLost { rank },
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_mismatch_in_a_group_names_world_ranks() {
        let arena = Arc::new(treepie_shm::Arena::create(70).unwrap());
        let mut endpoints = [40, 41].map(|rank| {
            Endpoint::new(Box::new(treepie_shm::Shm::join(arena.clone(), rank).expect("it is joined once")))
        });
        let calls = [Operation::Allgather, Operation::Bcast { root: 3 }].map(|operation| encode_call_id(operation, 64));
        for (endpoint, call) in endpoints.iter_mut().zip(calls) {
            publish(endpoint, SlotClass::Line, call).unwrap();
        }
        let error = wait_for_member(&mut endpoints[0], 41 - 35, calls[0]).unwrap_err();
        let Error::CollectiveMismatch { first, second, calls } = error else { panic!("{error}") };
        assert_eq!((first, second), (40, 41));
        assert!(calls[0].starts_with("allgather") && calls[1].starts_with("bcast"), "{calls:?}");
    }

    #[test]
    fn bytes_are_compared_up_to_the_bound() {
        let call_id = |bytes| encode_call_id(Operation::Bcast { root: 63 }, bytes);
        let longest = (1 << 30) - 1;
        assert_ne!(call_id(longest), call_id(longest - 1));
        assert_eq!(decode_call_id(call_id(longest)), signature(Operation::Bcast { root: 63 }, Some(longest)));
        // Truncated bytes do not overflow into the root or the operation.
        assert_eq!((call_id(1 << 30), call_id((1 << 40) + 5)), (call_id(0), call_id(5)));
    }
}
