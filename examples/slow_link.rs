//! A wide-area link becomes four times slower in mid-run: an adaptive handle notices, and chooses another broadcast.
//!
//! ```text
//! cargo run --release --example slow_link
//! ```

use treepie::prelude::*;
use treepie::{Comm, Operation};

const BYTES: usize = 256 << 10;
const LINKS: &str = "clusters:4x1,wan=2ms/16MBps,lan=20us/200MBps,slow:0-2=4@0.5s";

fn main() -> treepie::Result<()> {
    println!("{LINKS}");
    treepie::launch_emulated(LINKS, |world| broadcast(&world.adaptive()?)).map(drop)
}

fn broadcast(world: &Comm) -> treepie::Result<()> {
    let mut data: Vec<u64> = vec![0; BYTES / 8];
    let mut shown = String::new();
    for call in 0..100 {
        data.fill(if world.rank() == 0 { call } else { 0 });
        let start = world.now();
        world.bcast(&mut data, 0)?;
        let seconds = world.allreduce_one((world.now() - start).as_secs_f64(), Max)?;
        assert!(data.iter().all(|word| *word == call));
        let id = world.chosen_algorithm(Operation::Bcast { root: 0 }, BYTES, size_of::<u64>())?;
        if world.rank() == 0 && (id != shown || call % 20 == 19) {
            println!("call {call:3}: {:3.0} ms, generation {}, {id}", 1e3 * seconds, world.generation());
        }
        shown = id;
    }
    Ok(())
}
