//! A histogram whose bins are distributed over the ranks: every rank adds to bins of all others.
//!
//! ```text
//! cargo build --release --examples
//! treepie run -n 4 target/release/examples/histogram      four processes on this machine
//! mpirun -n 4 target/release/examples/histogram           the same under MPI
//! target/release/examples/histogram                       alone: a world of one
//! ```

use treepie::am;
use treepie::prelude::*;

/// Bins of the histogram, for values from 0 to 1.
const BINS: usize = 20;

/// Samples of all ranks.
const SAMPLES: u64 = 100_000;

fn main() -> treepie::Result<()> {
    treepie::main(|world| {
        let (me, size) = (world.rank(), world.size());

        // 1. Each rank owns a block of bins; the last ranks may have none.
        let block = BINS.div_ceil(size);
        let local = (me * block).min(BINS)..((me + 1) * block).min(BINS);
        let mut bins = vec![0_u64; local.len()];

        // 2. A message is the bin of a sample; its owner counts it. When `run` returns, all samples of all ranks have
        //    been counted.
        let samples = (me as u64..SAMPLES).step_by(size).map(|i| (sample(i) * BINS as f64) as usize);
        am::run(&world, &mut bins, samples, |bin| bin / block, |bins, _, bin| bins[bin % block] += 1)?;

        // 3. Each rank prints its bins, in the order of ranks.
        let lines = local.zip(&bins).map(|(bin, count)| {
            format!("rank {me}: {:.2} {:5} {}", bin as f64 / BINS as f64, count, "*".repeat(*count as usize / 200))
        });
        let all = world.gather_objects(&lines.collect::<Vec<_>>(), 0)?;
        let samples = world.reduce_one(bins.iter().sum::<u64>(), Sum, 0)?;
        if let (Some(all), Some(samples)) = (all, samples) {
            all.concat().iter().for_each(|line| println!("{line}"));
            assert_eq!(samples, SAMPLES, "samples were lost");
            println!("rank 0: {samples} samples");
        }
        Ok(())
    })
}

/// The mean of four random numbers between 0 and 1.
fn sample(number: u64) -> f64 {
    let random = |k: u64| {
        let hash = (4 * number + k + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = (hash ^ hash >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (hash >> 11) as f64 / (1_u64 << 53) as f64
    };
    (0..4).map(random).sum::<f64>() / 4.0
}
