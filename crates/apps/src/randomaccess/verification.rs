//! The updates of all ranks once more, by the all-to-all of the library instead of the algorithm that is verified.

use std::ops::Range;

use treepie_comm::{Comm, Result};

use super::partition::Partition;
use super::stages::{self, Binned};
use super::stream::Stream;
use super::table::Table;

/// Data of a rank in a round.
const ROUND: u64 = 1 << 16;

/// Applies the updates of all ranks after these positions of the stream.
pub(super) fn apply_again(comm: &Comm, partition: Partition, positions: Range<u64>, table: &mut Table) -> Result<()> {
    let (ranks, rank) = (partition.ranks(), comm.rank() as u64);
    // In other parts than before: ranks take turns.
    let updates = positions.end - positions.start;
    let rounds = updates.div_ceil(ROUND).div_ceil(u64::from(ranks));
    let stage = stages::grid(&[ranks], partition, rank as u32).pop();
    let (mut list, mut binned, mut received) = (Vec::new(), Binned::default(), Vec::new());
    for round in 0..rounds {
        let first = (round * u64::from(ranks) + rank) * ROUND;
        let count = updates.saturating_sub(first).min(ROUND);
        Stream::new(positions.start + first, count).fill(&mut list, count as usize);
        let Some(stage) = &stage else {
            table.update_all(&list);
            continue;
        };
        binned.divide(std::iter::once(&list[..]), list.len(), stage, &partition);
        let to: Vec<usize> = (0..ranks as usize).map(|bin| binned.bin(bin).len()).collect();
        let from = comm.alltoall_one(&to)?;
        received.resize(from.iter().sum(), 0);
        comm.alltoallv(binned.all(), &to, &mut received, &from)?;
        table.update_all(&received);
    }
    Ok(())
}
