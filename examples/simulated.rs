//! One program, on threads of this machine and on a simulated torus.
//!
//! ```text
//! cargo run --release --example simulated             8 threads, then 512 ranks of a torus
//! ```

use std::time::Duration;

use treepie::prelude::*;
use treepie::simulate::{LinkCosts, Settings};
use treepie::{Network, Result};

/// An ordinary rank program, independent of the engine. Each rank owns 1,000 numbers of a ring, smooths them with those
/// of its neighbors ten times, and an allreduce computes the sum of squares.
fn smooth(world: &Comm) -> Result<f64> {
    let (me, size) = (world.rank(), world.size());
    let mut numbers: Vec<f64> = (0..1000).map(|i| ((me * 1000 + i) % 7) as f64).collect();
    for _ in 0..10 {
        // The first number goes to the left, the last to the right.
        let (left, right) = ((me + size - 1) % size, (me + 1) % size);
        let sending = [world.isend(vec![numbers[0]], left, 0)?, world.isend(vec![numbers[999]], right, 1)?];
        let (after, _) = world.recv_vec::<f64>(right, 0)?;
        let (before, _) = world.recv_vec::<f64>(left, 1)?;
        wait_all(sending)?;
        let padded: Vec<f64> = [before, numbers, after].concat();
        numbers = padded.windows(3).map(|three| three.iter().sum::<f64>() / 3.0).collect();
        // The cost of that on the simulated machine. On a real one it has taken its time already.
        world.compute(Duration::from_micros(2));
    }
    let local = numbers.iter().map(|number| number * number).sum::<f64>();
    Ok(world.allreduce(&[local], Sum)?[0])
}

fn main() -> Result<()> {
    let on_threads = treepie::launch(8, |world| smooth(&world))?;
    println!("8 threads: {}", on_threads[0]);

    // 6.29 us to start a message, 375 MB/s for each direction of each link.
    let machine = Settings::from(LinkCosts::new(6.29, 1.0 / 375.0));
    for network in [Network::flat(8), Network::torus(&[8, 8, 8], &[true; 3]).expect("a torus of 512")] {
        let simulated = treepie::simulate(&network, &machine, |world| smooth(&world))?;
        let (time, messages) = (simulated.micros(), simulated.messages);
        let left = simulated.into_results().swap_remove(0);
        println!("{} simulated ranks: {left}, {messages} messages in {time:.1} us", network.ranks());
    }
    Ok(())
}
