//! A broadcast over emulated links: the chosen algorithm fills them, MagPIe's original uses one after the other.

use anyhow::{Context, ensure};
use treepie::{Comm, Max, Operation};
use treepie_bench::program_error;

const LINKS: &str = "clusters:4x2,wan=5ms/4MBps,lan=20us/200MBps";
const BYTES: usize = 256 << 10;

/// The number of ranks, and what was measured, in words.
pub(super) fn run() -> anyhow::Result<(u32, String)> {
    let results = treepie::launch_emulated(LINKS, |world| compare(&world).map_err(program_error))?;
    let ranks = results.len() as u32;
    let (original, chosen, id) = results.into_iter().next().context("a rank has a result")?;
    // The original sends three times 256 KiB one after the other, at 4 MB/s.
    let least = 3.0 * BYTES as f64 / 4e6;
    ensure!(original >= least, "three messages took {original} s, and one after the other they take {least} s");
    let ratio = original / chosen;
    let detail =
        format!("emulated links of 5 ms; bcast of 256 KiB by {id}, {ratio:.1} times as fast as MagPIe's original");
    Ok((ranks, detail))
}

fn compare(world: &Comm) -> anyhow::Result<(f64, f64, String)> {
    let time = |comm: &Comm| -> anyhow::Result<f64> {
        let mut data = vec![comm.rank() as u64; BYTES / 8];
        comm.barrier()?;
        let begin = comm.now();
        comm.bcast(&mut data, 0)?;
        let seconds = (comm.now() - begin).as_secs_f64();
        ensure!(data.iter().all(|value| *value == 0), "a wrong result");
        Ok(comm.allreduce_one(seconds, Max)?)
    };
    let original = time(&world.with_algorithm("bcast/magpie")?)?;
    let id = world.chosen_algorithm(Operation::Bcast { root: 0 }, BYTES, 8)?;
    Ok((original, time(world)?, id))
}
