//! Programs in virtual time, on a simulated machine.

use std::rc::Rc;

use treepie_base::all_ok;
use treepie_comm::{Comm, Error, Network, Result};
use treepie_sim::engine;

use crate::launch::{adapting, run_rank};

pub use treepie_sim::costs::{
    ClusterCosts, CostModel, Handshake, LinkCosts, LogGP, PLogP, PiecewiseLinear, Routing, Settings, SharedMemoryCosts,
    WanLink, WanLinks,
};
pub use treepie_sim::engine::{Options, ProgramResult};
pub use treepie_sim::noise::Noise;
pub use treepie_sim::trace::SimTrace;

/// Runs `body` on each rank of a simulated network, as [`launch`](crate::launch()) does on threads. All ranks run in
/// this thread, one at a time, in virtual time: the settings give the cost of messages, the program that of computation
/// ([`Comm::compute`]). The world knows its network ([`Comm::with_network`]), so algorithms are selected for it. The
/// same settings give the same run.
///
/// If a rank returns an error or panics, the others get [`Error::PeerLost`] where they wait for it; when all have
/// ended, the error is returned with its rank, or the panic resumes here. A deadlock is an error that names the waiting
/// ranks.
///
/// ```
/// use treepie::simulate::LogGP;
/// use treepie::{Network, Sum};
///
/// let machine = LogGP { latency: 4.0, overhead: 1.0, gap: 2.0, per_byte: 0.001 };
/// let simulated = treepie::simulate(&Network::flat(1000), &machine.into(), |world| {
///     world.allreduce_one(world.rank(), Sum)
/// })?;
/// println!("{} messages in {} us", simulated.messages, simulated.micros());
/// assert!(simulated.into_results().iter().all(|sum| *sum == 499_500));
/// # treepie::Result::Ok(())
/// ```
pub fn simulate<T>(
    network: &Network,
    settings: &Settings,
    body: impl Fn(Comm) -> Result<T>,
) -> Result<ProgramResult<T>> {
    simulate_with(network, settings, &Options::default(), body)
}

/// [`simulate`] with options: stack size, cost of a poll, trace.
pub fn simulate_with<T>(
    network: &Network,
    settings: &Settings,
    options: &Options,
    body: impl Fn(Comm) -> Result<T>,
) -> Result<ProgramResult<T>> {
    // The simulated network overrides that of the environment.
    crate::environment::check(None)?;
    crate::environment::warn();
    let (shared_network, profile) = (Rc::new(network.clone()), Rc::new(settings.profile(network)));
    let simulated = engine::run(network, settings, options, |fabric| {
        let world = Comm::world(fabric).with_profile(profile.clone());
        let world = world.on_network(shared_network.clone()).expect("the network has the ranks of its world");
        run_rank(world, |world| body(adapting(world)?))
    });
    let simulated = simulated.map_err(|error| Error::Engine(error.to_string()))?;
    // A rank that the settings let fail has no result.
    simulated.try_map_results(|results| all_ok(results.into_iter().map(Option::transpose)))
}
