//! Rank programs in virtual time.

mod checked;
mod costs;
mod failures;
mod results;
mod shared_tables;
mod termination;

use treepie::simulate::{LogGP, Noise, ProgramResult, Settings};
use treepie::{Network, Result};

/// Round numbers, so that times are easy to compute.
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

fn ok<R: std::fmt::Debug>(simulated: ProgramResult<Result<R>>) -> Vec<R> {
    simulated.into_results().into_iter().map(|result| result.expect("no rank fails")).collect()
}
