//! Costs of collective operations over the shared segment, from timed broadcasts of one round.
//!
//! A broadcast of n bytes from one rank to P - 1 others on C cores takes
//!
//! - round + 2 copy(n) through slots, as copying in and copying out cost about the same, or P copy(n) / C if that is more;
//! - the greater of copy(n) and P copy(n) / C in chunks, which are written while those before are read;
//! - 2 round + single_copy(n) if the receivers read the memory of the root, or (P - 1) / C times that if it is more.

use treepie_comm::choice::{SharedTransport, Transport};
use treepie_comm::{Comm, Rank};
use treepie_model::Profile;
use treepie_model::plogp::PiecewiseLinear;
use treepie_model::profile::SharedSegmentCosts;

use crate::Result;
use crate::local::{time_collective, without_waiting};

/// Ranks that a shared segment has room for.
const MAX_RANKS: usize = 64;

/// An empty round, in bytes.
const SHORT: usize = 8;

/// Sizes of the curves: a short message, the eager limit, a cache of the core, and beyond it.
const SIZES: [usize; 5] = [1 << 10, 8 << 10, 64 << 10, 512 << 10, 4 << 20];

/// Below, no rank reads another's memory directly.
const MIN_SINGLE_COPY: usize = 8 << 10;

const ROOT: Rank = 0;

/// Measures them, where ranks share memory. Collective; rank 0 has the result.
pub(crate) fn shared_segment(comm: &Comm, scheduling: f64) -> Result<Option<SharedSegmentCosts>> {
    let Some(sharing) = comm.ranks_per_core().filter(|_| comm.size() <= MAX_RANKS) else { return Ok(None) };
    let Some(default) = Profile::on_machine(sharing).shared_segment else { return Ok(None) };
    let time = |transport, bytes: usize| {
        let bcast = comm.with_candidate("bcast/flat", Transport::SharedSegment(transport))?;
        let mut data = vec![1u8; bytes];
        time_collective(comm, 100, || bcast.bcast(&mut data, ROOT))
    };
    let (ranks, cores) = (comm.size() as f64, comm.size() as f64 / sharing.max(1.0));
    let short = time(SharedTransport::CopyInCopyOut, SHORT)?;
    let mut copies = vec![(0.0, 0.0)];
    let mut single_copies = Vec::new();
    for bytes in SIZES {
        // In a long call ranks agree on single copy.
        let Some(slots) = comm.slot_capacities(bytes) else { return Ok(None) };
        let copy = if bytes <= slots.bulk {
            (time(SharedTransport::CopyInCopyOut, bytes)? - short) / f64::max(2.0, ranks / cores)
        } else {
            time(SharedTransport::PipelinedCopyInCopyOut, bytes)? / f64::max(1.0, ranks / cores)
        };
        copies.push((bytes as f64, copy.max(0.0)));
        let can_read_directly = comm.slot_capacities(bytes).is_some_and(|slots| slots.single_copy);
        if bytes >= MIN_SINGLE_COPY && can_read_directly {
            let read = time(SharedTransport::SingleCopy, bytes)? - 2.0 * short;
            single_copies.push((bytes as f64, (read / f64::max(1.0, (ranks - 1.0) / cores)).max(0.0)));
        }
    }
    let copy = PiecewiseLinear::new("copy", &copies)?;
    let single_copy = match single_copies.is_empty() {
        true => default.single_copy,
        false => PiecewiseLinear::new("single_copy", &single_copies)?,
    };
    let round = without_waiting(comm, short, scheduling);
    Ok(Some(SharedSegmentCosts { round, copy_in: copy.clone(), copy_out: copy, single_copy }))
}
