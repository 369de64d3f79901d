//! Ordinary rank programs in virtual time.

mod checked;
mod costs;
mod ends;
mod losses;
mod results;
mod shared_tables;

use treepie::simulate::{LogGP, Noise, Settings, Simulated};
use treepie::{Network, Result};

/// Round numbers, so that times can be told by heart.
const MACHINE: LogGP = LogGP { latency: 10.0, overhead: 2.0, gap: 3.0, per_byte: 0.01 };

fn flat(ranks: u32) -> Network {
    Network::flat(ranks)
}

fn plain() -> Settings {
    MACHINE.into()
}

fn noisy(seed: u64) -> Settings {
    Settings { noise: Noise { seed, jitter: 30.0, ..Noise::default() }, ..plain() }
}

fn ok<R: std::fmt::Debug>(simulated: Simulated<Result<R>>) -> Vec<R> {
    simulated.into_results().into_iter().map(|result| result.expect("no rank fails")).collect()
}
