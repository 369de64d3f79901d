//! One entry point for every engine.

use std::io::Write;

use treepie_base::{Error, Result};
use treepie_comm::{Comm, Network};
use treepie_sim::Settings;

use crate::emulation;
use crate::environment::{self, RequestedEngine};
use crate::launch::run_rank;
use crate::simulate::{Options, simulate_with};

/// Runs `body` on every rank of the engine that the environment asks for. Ranks of which one returns an error end, as
/// with [`launch`](crate::launch()).
///
/// | started by | ranks |
/// |---|---|
/// | `treepie run -n 4 PROGRAM` | processes on this machine; this is one of them |
/// | `treepie run --threads 4 PROGRAM` | threads of this process |
/// | `treepie run --sim torus:4x4 PROGRAM` | simulated ranks, in virtual time |
/// | `mpirun -n 4 PROGRAM`, `srun` | MPI processes; this is one of them |
/// | `PROGRAM` | one |
///
/// A rank whose `body` returns an error has failed; under MPI the job is then aborted at once, so nothing after `main`
/// is reached there.
///
/// Threads and simulated ranks share the process, so what it does before and after `main` is done once, and errors name
/// their rank. A simulation prints its virtual time to standard error.
///
/// ```
/// use treepie::prelude::*;
///
/// fn main() -> treepie::Result<()> {
///     treepie::main(|world| {
///         let sum = world.allreduce_one(world.rank(), Sum)?;
///         assert_eq!(sum, world.size() * (world.size() - 1) / 2);
///         Ok(())
///     })
/// }
/// ```
pub fn main(body: impl Fn(Comm) -> Result<()> + Sync) -> Result<()> {
    match environment::requested_engine()? {
        None => run_rank(crate::init()?, body),
        Some(RequestedEngine::Threads(ranks)) => crate::launch(ranks, body).map(drop),
        Some(RequestedEngine::Simulator(network)) => run_simulated(&network, body),
    }
}

/// As much stack as a thread has, as long as there is address space: the program was not written for the simulator.
fn stack_size(ranks: u32) -> usize {
    if ranks <= 1 << 14 { 2 << 20 } else { Options::default().stack_size }
}

fn run_simulated(network: &Network, body: impl Fn(Comm) -> Result<()>) -> Result<()> {
    emulation::refuse_on("the simulator")?;
    let settings = Settings::for_network(network).map_err(|error| Error::Engine(error.to_string()))?;
    let options = Options { stack_size: stack_size(network.ranks()), ..Options::default() };
    let simulated = simulate_with(network, &settings, &options, body)?;
    let (micros, messages) = (simulated.micros(), simulated.messages);
    // The program's own output is complete without it.
    let _ = writeln!(
        std::io::stderr(),
        "treepie: {} ranks of {network}: {messages} messages in {micros:.3} us of virtual time",
        network.ranks()
    );
    Ok(())
}
