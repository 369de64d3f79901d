//! Checks of the environment variables before a world starts. Internal: programs do not call these.

use std::io::Write;
use std::sync::Once;

use treepie_base::{Result, environment};
use treepie_comm::Network;

use crate::emulation;

/// Rejects variables with invalid values. If `ranks` is given, the network must have that number of ranks.
pub fn check(ranks: Option<u32>) -> Result<()> {
    check_all_but_links(ranks)?;
    emulation::check(ranks)
}

/// The same for ranks whose emulated links are given: they override those of the environment.
pub fn check_all_but_links(ranks: Option<u32>) -> Result<()> {
    // The names of protocols, which `TREEPIE_ALGORITHM` and messages of other ranks may have.
    treepie_comm::protocol::PROTOCOLS.register();
    treepie_sparse::PROTOCOLS.register();
    treepie_am::PROTOCOLS.register();
    treepie_apps::randomaccess::PROTOCOLS.register();
    treepie_comm::check_environment(ranks)?;
    treepie_am::check_environment()?;
    requested_engine().map(drop)
}

/// Warns, once and on rank 0, of unknown `TREEPIE_` variables.
pub fn warn() {
    static WARNED: Once = Once::new();
    if std::env::var_os(treepie_shm::RANK_VAR).is_some_and(|rank| rank != "0") {
        return;
    }
    WARNED.call_once(|| {
        for line in environment::unknown_variables() {
            // A closed standard error is ignored.
            let _ = writeln!(std::io::stderr(), "treepie: warning: {line}");
        }
    });
}

/// An engine whose ranks share the process.
pub enum RequestedEngine {
    /// That many threads.
    Threads(usize),
    /// The simulator, with a rank for each of this network's.
    Simulator(Network),
}

/// The engine that `--threads` or `--sim` of `treepie run` has asked for (`TREEPIE_ENGINE`). None in a process that a
/// launcher has started as a rank: the variable may be left over from further out.
pub fn requested_engine() -> Result<Option<RequestedEngine>> {
    let Some(value) = environment::text(environment::ENGINE)? else { return Ok(None) };
    let invalid = |reason: String| environment::invalid_value(environment::ENGINE, &value, reason);
    let expected = || invalid(format!("expected {}", environment::ENGINE.accepts));
    let launched = std::env::var_os(treepie_shm::RANK_VAR).is_some() || treepie_mpi::running_under_mpi().is_some();
    match value.trim().split_once(':').ok_or_else(expected)? {
        ("threads", ranks) => match ranks.parse() {
            Ok(ranks) if ranks > 0 => Ok(Some(RequestedEngine::Threads(ranks)).filter(|_| !launched)),
            _ => Err(expected()),
        },
        ("sim", network) => {
            let network = Network::load(network).map_err(|error| invalid(error.to_string()))?;
            if network.ranks() == 0 {
                return Err(invalid("the network has no number of ranks".to_owned()));
            }
            Ok(Some(RequestedEngine::Simulator(network)).filter(|_| !launched))
        }
        _ => Err(expected()),
    }
}

#[cfg(test)]
mod tests {
    use treepie_comm::protocol::ProtocolFamily;

    use super::*;

    /// Registration panics if two crates have chosen the same place.
    #[test]
    fn protocols_of_all_crates_have_places_and_names_of_their_own() {
        check(None).unwrap();
        let _world = treepie_comm::Comm::world(Box::new(treepie_fabric::Singleton::new()));
        let mut names: Vec<&str> = ProtocolFamily::all_protocols().map(|(name, _)| name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!((names.len(), count), (19, 19), "{names:?}");
    }
}
