//! Simulated measurements.

use treepie::simulate::{ClusterCosts, LogGP, PLogP, PiecewiseLinear, Settings, WanLink};
use treepie::{Comm, Error, Network, Result};
use treepie_model::Profile;
use treepie_tune::{TuneConfig, measure};

/// The lowest seeds, or more of them in long runs.
pub(crate) fn seeds(count: u64) -> std::ops::Range<u64> {
    let is_long = std::env::var_os("TREEPIE_LONG").is_some();
    1..1 + if is_long { 20 * count } else { count }
}

pub(crate) const LOGGP: LogGP = LogGP { latency: 40.0, overhead: 3.0, gap: 5.0, per_byte: 0.01 };

/// A local network with overheads, as P-LogP.
pub(crate) fn lan() -> PLogP {
    let curve = |start, per_byte| PiecewiseLinear::linear("a curve", start, per_byte).unwrap();
    PLogP::new(20.0, curve(4.0, 0.002), curve(5.0, 0.003), curve(10.0, 0.02)).unwrap()
}

/// Clusters with the same link between all of them.
pub(crate) fn clusters(count: u32, latency: f64, bandwidth: f64) -> Settings {
    ClusterCosts::uniform(lan(), WanLink { latency, bandwidth }, count).into()
}

/// The profile of a simulated machine, the same on all ranks, and the virtual seconds of the measurement.
pub(crate) fn measured_with(network: &Network, settings: &Settings, config: &TuneConfig) -> Result<(Profile, f64)> {
    let simulated = treepie::simulate(network, settings, |world: Comm| Ok::<_, Error>(measure(&world, config)?))?;
    let seconds = simulated.micros() / 1e6;
    let mut profiles = simulated.into_results();
    assert!(profiles.windows(2).all(|two| two[0] == two[1]), "all ranks get the same profile");
    Ok((profiles.swap_remove(0), seconds))
}

pub(crate) fn measured(network: &str, settings: &Settings) -> (Profile, f64) {
    measured_with(&network.parse().unwrap(), settings, &TuneConfig::default()).unwrap()
}

#[track_caller]
pub(crate) fn near(what: &str, got: f64, expected: f64, share: f64) {
    assert!((got - expected).abs() <= share * expected.abs(), "{what}: {got} instead of {expected}");
}
