//! A broadcast over emulated wide-area links: MagPIe's original algorithm, and the one that is chosen.
//!
//! ```text
//! cargo run --release --example wide_area                                        four clusters of two threads
//! treepie run --emulate clusters:4x4,wan=10ms/1MBps target/release/examples/wide_area    sixteen processes
//! ```

use treepie::prelude::*;
use treepie::{Comm, Operation};

const BYTES: usize = 256 << 10;

fn main() -> treepie::Result<()> {
    if std::env::var_os("TREEPIE_EMULATE").is_some() {
        return treepie::main(|world| compare(&world));
    }
    treepie::launch_emulated("clusters:4x2,wan=5ms/4MBps,lan=20us/200MBps", |world| compare(&world)).map(drop)
}

fn compare(world: &Comm) -> treepie::Result<()> {
    let original = time(&world.with_algorithm("bcast/magpie")?)?;
    let chosen = time(world)?;
    let id = world.chosen_algorithm(Operation::Bcast { root: 0 }, BYTES, size_of::<u64>())?;
    if world.rank() == 0 {
        println!("bcast of {BYTES} bytes: {:.0} ms by MagPIe's original algorithm", 1e3 * original);
        println!("bcast of {BYTES} bytes: {:.0} ms by {id}", 1e3 * chosen);
    }
    Ok(())
}

/// Seconds of the slowest rank.
fn time(comm: &Comm) -> treepie::Result<f64> {
    let mut data: Vec<u64> = if comm.rank() == 0 { (0..BYTES as u64 / 8).collect() } else { vec![0; BYTES / 8] };
    comm.barrier()?;
    let start = comm.now();
    comm.bcast(&mut data, 0)?;
    let seconds = (comm.now() - start).as_secs_f64();
    assert!(data.iter().zip(0..).all(|(value, expected)| *value == expected));
    comm.allreduce_one(seconds, Max)
}
