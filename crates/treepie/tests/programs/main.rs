//! Rank programs in virtual time.

mod checked;
mod costs;
mod exchanges;
mod failures;
mod randomaccess;
mod results;
mod shared_tables;
mod termination;

use treepie::simulate::{LogGP, Noise, Options, ProgramResult, Settings};
use treepie::{Comm, Network, Result};

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

/// Runs ranks to their own results: one that gets an error leaves as one that succeeds does.
fn simulate<R>(network: &Network, settings: &Settings, body: impl Fn(Comm) -> R) -> Result<ProgramResult<R>> {
    simulate_with(network, settings, &Options::default(), body)
}

fn simulate_with<R>(
    network: &Network,
    settings: &Settings,
    options: &Options,
    body: impl Fn(Comm) -> R,
) -> Result<ProgramResult<R>> {
    treepie::simulate::simulate_with(network, settings, options, |world| Ok(body(world)))
}

fn launch<R: Send>(ranks: usize, body: impl Fn(Comm) -> R + Sync) -> Result<Vec<R>> {
    treepie::launch(ranks, |world| Ok(body(world)))
}

fn ok<R: std::fmt::Debug>(simulated: ProgramResult<Result<R>>) -> Vec<R> {
    simulated.into_results().into_iter().map(|result| result.expect("no rank fails")).collect()
}
