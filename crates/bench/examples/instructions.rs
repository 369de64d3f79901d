//! A send and a receive of 8 bytes, for callgrind to count their instructions, whatever else the machine does:
//!
//! ```sh
//! cargo build --release -p treepie-bench --example instructions
//! valgrind --tool=callgrind --toggle-collect='*send_all*' target/release/examples/instructions
//! valgrind --tool=callgrind --toggle-collect='*recv_all*' target/release/examples/instructions
//! ```
//!
//! What is collected, divided by the number of messages, is one send or one receive: the receiver starts when all
//! messages have arrived, so neither waits.

use treepie::{Comm, Result};

const ROUNDS: u64 = 1000;

/// Messages of a round, which the ring between two ranks has room for.
const BURST: u64 = 64;

fn main() -> Result<()> {
    treepie::launch(2, |world| {
        for round in 0..ROUNDS {
            if world.rank() == 0 {
                send_all(&world, round)?;
            }
            world.barrier()?;
            if world.rank() == 1 {
                recv_all(&world, round)?;
            }
            world.barrier()?;
        }
        Ok(())
    })?;
    println!("{} messages", ROUNDS * BURST);
    Ok(())
}

#[inline(never)]
fn send_all(world: &Comm, round: u64) -> Result<()> {
    (0..BURST).try_for_each(|index| world.send(&[round + index], 1, 0))
}

#[inline(never)]
fn recv_all(world: &Comm, round: u64) -> Result<()> {
    for index in 0..BURST {
        let mut value = [0];
        world.recv(&mut value, 0, 0)?;
        assert_eq!(value, [round + index]);
    }
    Ok(())
}
