//! Costs of collective operations over the shared segment, from timed ones.
//!
//! Algorithms of one round show them. An allgather of blocks of b bytes between P ranks takes
//!
//! - round + b write + (P - 1) b read through slots, which all blocks of less than 8 KiB together use;
//! - 2 round + single_copy + b single_copy_per_byte in a single copy, which long blocks of two ranks use where the system
//!   permits it. More ranks share what was written, and prefer slots: then these costs are the default's.
//!
//! A broadcast of n bytes through slots takes round + n write + n read, and separates writing from reading. Where ranks
//! share cores, each step waits until all of them were scheduled, and they share the bandwidth of the cores.

use treepie_comm::{Comm, Rank};
use treepie_model::Profile;
use treepie_model::profile::SharedSegmentCosts;

use crate::Result;
use crate::local::{oversubscription, time_collective, without_waiting};

/// Below, no block is copied directly.
const SLOT_BYTES: usize = 8 << 10;

/// Ranks that a shared segment has room for.
const MAX_RANKS: usize = 64;

/// Blocks that two ranks copy directly. They fit into caches, as longer ones would not.
const LONG_BLOCKS: [usize; 2] = [64 << 10, 512 << 10];

const ROOT: Rank = 0;

/// Measures them, where ranks share memory. Collective; rank 0 has the result.
pub(crate) fn shared_segment(comm: &Comm, scheduling: f64) -> Result<Option<SharedSegmentCosts>> {
    let Some(default) = Profile::default_for(comm.engine()).shared_segment else { return Ok(None) };
    let ranks = comm.size();
    if comm.ranks_per_core().is_none() || ranks > MAX_RANKS {
        return Ok(None);
    }
    let (allgather, bcast) = (comm.with_algorithm("allgather/linear")?, comm.with_algorithm("bcast/flat")?);
    let time_allgather = |bytes: usize, count: usize| {
        let (data, mut into) = (vec![1u8; bytes], vec![0u8; bytes * ranks]);
        time_collective(comm, count, || allgather.allgather_into(&data, &mut into))
    };
    let time_bcast = |bytes: usize| {
        let mut data = vec![1u8; bytes];
        time_collective(comm, 100, || bcast.bcast(&mut data, ROOT))
    };
    let share = oversubscription(comm).max(1.0);
    let (short, block) = (8, (SLOT_BYTES / ranks - 8) / 8 * 8);
    let round = time_allgather(short, 100)?;
    let per_byte =
        |long: f64, short_time: f64, bytes: usize| ((long - short_time) / (bytes - short) as f64 / share).max(0.0);
    let gathered = per_byte(time_allgather(block, 100)?, round, block);
    let broadcast_bytes = SLOT_BYTES / 2;
    let broadcast = per_byte(time_bcast(broadcast_bytes)?, time_bcast(short)?, broadcast_bytes);
    let (write_per_byte, read_per_byte) = separate(gathered, broadcast, ranks, default);
    let (single_copy, single_copy_per_byte) = if ranks == 2 {
        let times = [time_allgather(LONG_BLOCKS[0], 30)?, time_allgather(LONG_BLOCKS[1], 10)?];
        single_copy(times.map(|time| time / share), round / share)
            .unwrap_or((default.single_copy, default.single_copy_per_byte))
    } else {
        (default.single_copy, default.single_copy_per_byte)
    };
    let round = without_waiting(comm, round, scheduling);
    Ok(Some(SharedSegmentCosts { round, write_per_byte, read_per_byte, single_copy, single_copy_per_byte }))
}

/// Costs of a single copy, and of a byte in it, from the times of two lengths. None if noise contradicts itself.
fn single_copy([short, long]: [f64; 2], round: f64) -> Option<(f64, f64)> {
    let per_byte = (long - short) / (LONG_BLOCKS[1] - LONG_BLOCKS[0]) as f64;
    let overhead = short - 2.0 * round - per_byte * LONG_BLOCKS[0] as f64;
    (per_byte > 0.0 && overhead > 0.0).then_some((overhead, per_byte))
}

/// Costs of writing and of reading, from those of a gathered byte, write + (P - 1) read, and of a broadcast one, write +
/// read. Two ranks do not separate them, and noise may contradict itself: then their ratio is that of the default.
fn separate(gathered: f64, broadcast: f64, ranks: usize, default: SharedSegmentCosts) -> (f64, f64) {
    let read = if ranks > 2 { (gathered - broadcast) / (ranks - 2) as f64 } else { 0.0 };
    if read > 0.0 && broadcast > read {
        return (broadcast - read, read);
    }
    let ratio = default.write_per_byte / default.read_per_byte;
    let read = gathered / (ratio + (ranks - 1) as f64);
    (ratio * read, read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_and_reading_are_separated() {
        let default = Profile::shared_memory().shared_segment.unwrap();
        let near = |(write, read): (f64, f64), (w, r): (f64, f64)| (write - w).abs() < 1e-9 && (read - r).abs() < 1e-9;
        // write = 3, read = 2 of 5 ranks.
        assert!(near(separate(3.0 + 4.0 * 2.0, 3.0 + 2.0, 5, default), (3.0, 2.0)));
        let copied =
            |overhead: f64, per_byte: f64| LONG_BLOCKS.map(|bytes| 2.0 * 0.5 + overhead + per_byte * bytes as f64);
        assert!(single_copy(copied(1.5, 1e-4), 0.5).is_some_and(|costs| near(costs, (1.5, 1e-4))));
        assert_eq!((single_copy(copied(-1.5, 1e-4), 0.5), single_copy(copied(9.0, -1e-6), 0.5)), (None, None));
        // Two ranks, and noise: the ratio of the default, 11 to 7.
        assert!(near(separate(18.0, 18.0, 2, default), (11.0, 7.0)));
        assert!(near(separate(11.0 + 4.0 * 7.0, 50.0, 5, default), (11.0, 7.0)));
    }
}
