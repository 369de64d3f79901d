//! Programs in virtual time, on machines that need not exist.

use treepie_comm::{Comm, Error, Network, Result};
use treepie_sim::engine;

pub use treepie_sim::costs::{Clusters, Costs, Handshake, Links, LogGP, PLogP, Routing, Settings, Table, Wide};
pub use treepie_sim::engine::{Options, Simulated};
pub use treepie_sim::noise::Noise;
pub use treepie_sim::trace::Trace;

/// Runs `body` on each rank of a simulated network, each with its own handle of their world, as [`launch`](crate::launch)
/// does on threads. All run in this thread, one at a time, in virtual time: messages cost what the settings say, and
/// computing what the program says ([`Comm::compute`]). The world knows its network ([`Comm::on`]), so algorithms are chosen
/// for it. The same settings give the same run.
///
/// If one panics, the others get [`Error::PeerLost`] where they wait for it, and the panic goes on here when all have
/// ended. Ranks that wait for what never comes are an error that names them.
///
/// ```
/// use treepie::simulate::LogGP;
/// use treepie::{Network, Sum};
///
/// let machine = LogGP { latency: 4.0, overhead: 1.0, gap: 2.0, per_byte: 0.001 };
/// let simulated = treepie::simulate(&Network::flat(1000), &machine.into(), |world| {
///     world.all_reduce(&[world.rank() as u64], Sum)
/// })?;
/// println!("{} messages in {} us", simulated.messages, simulated.micros());
/// assert!(simulated.into_results().iter().all(|sum| *sum == Ok(vec![499_500])));
/// # treepie::Result::Ok(())
/// ```
pub fn simulate<R>(network: &Network, settings: &Settings, body: impl Fn(Comm) -> R) -> Result<Simulated<R>> {
    simulate_with(network, settings, &Options::default(), body)
}

/// The same with other stacks, another price of polls, or a trace.
pub fn simulate_with<R>(
    network: &Network,
    settings: &Settings,
    options: &Options,
    body: impl Fn(Comm) -> R,
) -> Result<Simulated<R>> {
    // The network is the simulation's, whatever the environment says.
    crate::environment::check(None)?;
    crate::environment::warn();
    // Collective operations are chosen for the network, as if the program had named it.
    let named = network.to_string();
    let simulated = engine::run(network, settings, options, |fabric| {
        let world = Comm::world(fabric);
        // The engine itself ends a rank whose function has returned, whatever it forgot; handles may live on.
        body(world.on(&named).unwrap_or(world))
    });
    simulated.map_err(|error| Error::Engine(error.to_string()))
}
