//! A default profile, refined by a measurement of a few milliseconds.
//!
//! The first and the last rank exchange short and long messages, and rank 0 combines and copies. That shows how fast
//! this machine is, compared with the one of the default, whose curves keep their shape. `treepie tune` measures the
//! curves.

use treepie_comm::Comm;
use treepie_model::Profile;
use treepie_model::plogp::Probe;
use treepie_model::profile::ProfileOrigin;

use crate::pair::on_pair;
use crate::profile::{origin, per_byte};
use crate::{Result, TuneConfig};

/// A message that is long enough to show what a byte costs, and short enough to be quick on slow links.
const LONG: u64 = 64 << 10;

/// Of as many round trips the fastest counts.
const TRIPS: u32 = 3;

/// What was measured must be wrong if it is that far from the default: a wide-area network is within.
const MAX_FACTOR: f64 = 1e4;

/// The profile `default`, adapted to the machine that the ranks of a communicator run on. Collective: all ranks call it
/// with the same profile, and get the same. `TREEPIE_PROFILE=measure` does that at the start of a program.
///
/// ```
/// use treepie_model::Profile;
///
/// let refined = treepie::launch(2, |world| Ok(treepie_tune::refine(&world, &Profile::shared_memory())?))?;
/// assert_eq!(refined[0], refined[1]);
/// # treepie::Result::Ok(())
/// ```
pub fn refine(comm: &Comm, default: &Profile) -> Result<Profile> {
    if comm.size() < 2 {
        return Ok(default.clone());
    }
    // Messages of the program must not be taken for those of the measurement.
    let own = comm.dup()?;
    let (short, long) = on_pair(&own, (0, comm.size() - 1), |probe| {
        let mut fastest = |bytes| -> Result<f64> {
            let trips = (0..TRIPS).map(|_| Ok(probe.round_trip(bytes)?.1)).collect::<Result<Vec<f64>>>()?;
            Ok(trips.into_iter().fold(f64::INFINITY, f64::min))
        };
        Ok((fastest(0)?, fastest(LONG)?))
    })?;
    // Where ranks share cores, two alone are as fast as if they had a core each.
    let alone = comm.ranks_per_core().map(|_| Profile::shared_memory());
    let link = alone.as_ref().unwrap_or(default).link_at(usize::MAX);
    // A round trip is twice the latency and a gap in each direction.
    let startups = factor(short / 2.0, link.latency + link.gap.at(0.0));
    let bytes = factor(long - short, link.gap.at(LONG as f64) - link.gap.at(0.0));
    // All ranks take part.
    let costs = per_byte(&own)?;
    let (reduce_per_byte, copy_per_byte) = own.bcast_object((comm.rank() == 0).then_some(costs), 0)?;
    let origin = ProfileOrigin { machine: String::new(), ..origin(comm, &TuneConfig::default()) };
    let mut refined = Profile { origin, reduce_per_byte, copy_per_byte, ..default.scaled(startups, bytes) };
    // The first and the last rank are as far apart as ranks are, and show nothing of closer ones.
    if let [near @ .., _] = &default.levels[..] {
        refined.levels[..near.len()].clone_from_slice(near);
    }
    Ok(refined)
}

fn factor(measured: f64, expected: f64) -> f64 {
    let factor = measured / expected;
    if (1.0 / MAX_FACTOR..=MAX_FACTOR).contains(&factor) { factor } else { 1.0 }
}
