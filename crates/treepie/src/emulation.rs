//! Worlds behind emulated wide-area links (`TREEPIE_EMULATE`).

use std::rc::Rc;
use std::sync::Once;

use treepie_base::{Error, Result, environment as variables};
use treepie_comm::Comm;
use treepie_emulation::{EmulatedFabric, Emulation, Profile};
use treepie_fabric::Fabric;

/// The clusters that `TREEPIE_EMULATE` describes, if it is set.
pub(crate) fn requested() -> Result<Option<Emulation>> {
    let Some(text) = variables::text(variables::EMULATE)? else { return Ok(None) };
    let invalid = |reason: String| variables::invalid_value(variables::EMULATE, &text, reason);
    if variables::text(variables::NETWORK)?.is_some() {
        return Err(invalid("it gives the network, and so does TREEPIE_NETWORK: set only one".to_owned()));
    }
    text.trim().parse::<Emulation>().map(Some).map_err(|refusal| invalid(refusal.to_string()))
}

/// Rejects an invalid description. If `ranks` is given, it must be for that number of ranks.
pub(crate) fn check(ranks: Option<u32>) -> Result<()> {
    let (Some(emulation), Some(ranks)) = (requested()?, ranks) else { return Ok(()) };
    emulation.check_ranks(ranks).map_err(|refusal| {
        let text = variables::text(variables::EMULATE).ok().flatten().unwrap_or_default();
        variables::invalid_value(variables::EMULATE, &text, refusal.to_string())
    })
}

/// Rejects emulation on an engine that cannot be wrapped.
pub(crate) fn refuse_on(engine: &str) -> Result<()> {
    match requested()? {
        None => Ok(()),
        Some(_) => Err(Error::Engine(format!(
            "TREEPIE_EMULATE is set, but links are emulated between ranks of one machine (treepie run -n or --threads), \
             not on {engine}"
        ))),
    }
}

/// The world of an engine. Behind emulated links, its network is that of the emulation, and its profile what they cost,
/// unless `TREEPIE_PROFILE` names one that was measured over emulated links.
pub(crate) fn world_of(engine: impl Fabric + 'static, emulation: Option<&Emulation>) -> Result<Comm> {
    let Some(emulation) = emulation else { return Ok(Comm::world(Box::new(engine))) };
    let profile = profile_of(emulation, &engine)?;
    let fabric = EmulatedFabric::new(engine, emulation)?;
    let world = Comm::world(Box::new(fabric)).on_network(Rc::new(emulation.network().clone()))?;
    Ok(world.with_profile(Rc::new(profile)))
}

/// The profile of `TREEPIE_PROFILE`, if it was measured over emulated links, or else what the links cost.
fn profile_of(emulation: &Emulation, engine: &dyn Fabric) -> Result<Profile> {
    let path = variables::text(variables::PROFILE)?.filter(|path| path != variables::MEASURE);
    let eager_limit = variables::eager_limit_of(engine.max_body());
    let Some(path) = path else { return Ok(emulation.profile(engine.name(), eager_limit)) };
    let (profile, difference) = emulation
        .profile_from(&path, engine.name(), eager_limit)
        .map_err(|error| variables::invalid_value(variables::PROFILE, &path, error.to_string()))?;
    if let Some(difference) = difference.filter(|_| engine.rank() == 0) {
        static SAID: Once = Once::new();
        SAID.call_once(|| eprintln!("treepie: TREEPIE_PROFILE: {difference}"));
    }
    Ok(profile)
}
