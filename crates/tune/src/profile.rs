//! The measurement of a whole machine.

use treepie_comm::{Comm, Rank};
use treepie_model::Profile;
use treepie_model::profile::{LevelProfile, ProfileOrigin};

use crate::latency::{MachineLevels, find_machine_levels};
use crate::levels::order_groups;
use crate::links::unequal_links;
use crate::pair::{PairMeasurement, measure_pair};
use crate::{Error, Result, TuneConfig, date, host_mpi, local, segment};

/// The rank whose costs count, and that writes the profile.
const ROOT: Rank = 0;

/// Microseconds from which on a latency is that of a wide-area network.
const WIDE_AREA: f64 = 500.0;
const WIDE_AREA_NAME: &str = "wide-area";

/// Measures the profile of the machine that the ranks of a communicator run on. Collective: all ranks call it with the
/// same configuration, do nothing else meanwhile, and get the same profile.
///
/// # Errors
/// If a rank is lost, all others get an error. As after any failed collective operation, they should end.
///
/// ```
/// use treepie_tune::{TuneConfig, measure};
///
/// let machine = treepie::simulate::LogGP { latency: 4.0, overhead: 1.0, gap: 2.0, per_byte: 0.01 };
/// let simulated = treepie::simulate(&treepie::Network::flat(4), &machine.into(), |world| {
///     Ok(measure(&world, &TuneConfig::default())?)
/// })?;
/// let profile = &simulated.into_results()[0];
/// assert!((profile.link().gap.at(0.0) - 2.0).abs() < 0.02);
/// # treepie::Result::Ok(())
/// ```
pub fn measure(comm: &Comm, config: &TuneConfig) -> Result<Profile> {
    if comm.size() < 2 {
        return Err(Error::OneRank);
    }
    // Messages of the program must not be taken for those of the measurement.
    let own = comm.dup()?;
    let found = find_machine_levels(&own, config)?;
    let measured =
        found.pairs.iter().map(|pair| measure_pair(&own, *pair, config)).collect::<Result<Vec<PairMeasurement>>>()?;
    let (nearest, farthest) = (&measured[0].link, &measured[measured.len() - 1].link);
    let synchronous = local::synchronous_send(&own, found.pairs[found.pairs.len() - 1], farthest)?;
    let scheduling = local::scheduling(&own, nearest)?;
    // The shared segment and the engine's barrier belong to the communicator of the program.
    let barrier = local::barrier(comm, scheduling)?;
    let shared_segment = segment::shared_segment(comm, scheduling)?;
    let (reduce_per_byte, copy_per_byte) = per_byte(&own)?;
    let host_collectives = if config.collectives { host_mpi::host_collectives(comm)? } else { Vec::new() };
    let (rank_order, mut levels) = levels(comm, &found, measured);
    for (number, level) in levels.iter_mut().enumerate().filter(|(_, level)| level.name.starts_with(WIDE_AREA_NAME)) {
        level.pairs = unequal_links(&own, &found, number, &level.link, config)?;
    }
    let profile = Profile {
        saturated_ports: 0,
        port_efficiency: 1.0,
        origin: origin(comm, config),
        levels,
        rank_order,
        reduce_per_byte,
        copy_per_byte,
        scheduling,
        synchronous,
        barrier,
        shared_segment,
        host_collectives,
    };
    share(&own, &profile)
}

/// Costs of combining and copying, on the root; others wait. Copying takes no virtual time.
pub(crate) fn per_byte(comm: &Comm) -> Result<(f64, f64)> {
    if local::is_simulated(comm) {
        return Ok((local::simulated_reduce_per_byte(comm)?, 0.0));
    }
    let costs = if comm.rank() == ROOT { local::per_byte() } else { (0.0, 0.0) };
    comm.barrier()?;
    Ok(costs)
}

/// All ranks get the profile of the root, as a file would have it.
fn share(comm: &Comm, profile: &Profile) -> Result<Profile> {
    let text = (comm.rank() == ROOT).then(|| profile.to_toml());
    Ok(Profile::parse(&comm.bcast_object(text, ROOT)?)?)
}

pub(crate) fn origin(comm: &Comm, config: &TuneConfig) -> ProfileOrigin {
    let cores = comm.ranks_per_core().map_or(0.0, |ranks| comm.size() as f64 / ranks);
    // An engine behind emulated links has the name of the one that it wraps; the profile of its world tells.
    let emulated = Profile::emulated_engine(comm.engine());
    let engine = if comm.profile().origin.engine == emulated { emulated } else { comm.engine().to_owned() };
    ProfileOrigin {
        engine,
        machine: config.machine.clone(),
        ranks: comm.size() as u32,
        cores: cores.round() as u32,
        measured: date::now(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// The order of ranks, unless it is that of their numbers, and the levels.
fn levels(comm: &Comm, found: &MachineLevels, measured: Vec<PairMeasurement>) -> (Vec<u32>, Vec<LevelProfile>) {
    let (order, sizes) = order_groups(&found.groups);
    let mut levels: Vec<LevelProfile> = Vec::new();
    for (groups, pair) in sizes.into_iter().zip(measured) {
        let PairMeasurement { link, reverse, error, is_complete, measured_bytes, saturating_bytes } = pair;
        let name = match link.latency + link.gap.at(0.0) {
            _ if comm.ranks_per_core().is_some() => "memory",
            latency if latency >= WIDE_AREA => WIDE_AREA_NAME,
            _ => "network",
        };
        let alike = levels.iter().filter(|level| level.name.starts_with(name)).count();
        let name = if alike == 0 { name.to_owned() } else { format!("{name}-{}", alike + 1) };
        let groups = if groups.len() == 1 { Vec::new() } else { groups };
        levels.push(LevelProfile {
            name,
            groups,
            link,
            reverse,
            pairs: Vec::new(),
            window: None,
            error,
            is_complete,
            measured_bytes,
            saturating_bytes,
        });
    }
    let is_numbered = order.iter().copied().eq(0..order.len() as u32);
    (if is_numbered { Vec::new() } else { order }, levels)
}
