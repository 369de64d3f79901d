//! Sample sort: samples of all ranks give the splitters, and each key goes to the rank whose part it falls into.
//! The book shows this program beside one with mpi4py (docs/tasks.md).

use treepie::prelude::*;

const KEYS: u64 = 12_000;

fn main() -> treepie::Result<()> {
    treepie::main(|world| {
        let (me, size) = (world.rank() as u64, world.size());
        let mut keys: Vec<u64> = (me..KEYS).step_by(size).map(|i| i * i * 7919 % 1_000_003).collect();
        keys.sort_unstable();
        let picked: Vec<u64> = (0..size).map(|i| keys[i * keys.len() / size]).collect();
        let mut samples = world.allgather(&picked)?;
        samples.sort_unstable();
        let splitters: Vec<u64> = samples.into_iter().step_by(size).skip(1).collect();
        let mut sorted = world.exchange_by_owner(keys, |key| splitters.partition_point(|split| split <= key))?;
        sorted.sort_unstable();
        let parts = world.gather_objects(&sorted, 0)?;
        if let Some(all) = parts.map(|parts| parts.concat()) {
            assert!(all.is_sorted());
            println!("{} keys from {} to {}, median {}", all.len(), all[0], all[all.len() - 1], all[all.len() / 2]);
        }
        Ok(())
    })
}
