//! The links between clusters, measured again: how they compare with what a profile says.
//!
//! The first ranks of each two groups exchange short and long messages, as in [`refine`](crate::refine()): the curves
//! of the level keep their shape. `treepie tune` measures the curves.

use treepie_comm::{Comm, Rank};
use treepie_model::Profile;
use treepie_model::plogp::Probe;
use treepie_model::profile::PairFactors;

use crate::pair::on_pair;
use crate::refine::{factor, fastest_trips};
use crate::{Result, refine};

/// Links that differ by less from those of their level are like them.
const ALIKE: f64 = 1.1;

/// A message that is long enough to show what a byte costs, and short enough to be quick on slow links.
const LONG: u64 = 64 << 10;

/// The profile with each link between clusters as it is now. Collective: all ranks call it with the same profile, do
/// nothing else meanwhile, and get the same. Links are measured one after the other: four of 10 ms and 1 MB/s take a
/// second. Without clusters, the whole profile is scaled ([`refine`](crate::refine())).
///
/// ```
/// use treepie::tune::measure_links;
///
/// let profiles = treepie::launch_emulated("clusters:2x1,wan=1ms/10MBps,slow:0-1=4@0s", |world| {
///     Ok(measure_links(&world, world.profile())?)
/// })?;
/// let (_, bytes) = profiles[0].level(1).factors(0, 1);
/// assert!(bytes > 2.0, "{bytes}");
/// # treepie::Result::Ok(())
/// ```
pub fn measure_links(comm: &Comm, profile: &Profile) -> Result<Profile> {
    let network = comm.network()?;
    let Some(clusters) = network.as_clusters().filter(|_| comm.ranks_per_core().is_none()) else {
        return refine(comm, profile);
    };
    // Messages of the program must not be taken for those of the measurement.
    let own = comm.dup()?;
    let mut measured = profile.clone();
    for level in 1..=clusters.levels() {
        let at = (level as usize).min(measured.levels.len() - 1);
        let mut pairs = Vec::new();
        let first_rank = |group| {
            let is_in_it = |rank: &u32| clusters.group_of(level - 1, network.node_of(*rank)) == group;
            (0..network.ranks()).find(is_in_it).map(|rank| rank as Rank)
        };
        let first: Vec<Option<Rank>> = (0..clusters.groups(level - 1)).map(first_rank).collect();
        for (from, &sender) in (0..).zip(&first) {
            for (to, &receiver) in (0..).zip(&first) {
                let (Some(sender), Some(receiver)) = (sender, receiver) else { continue };
                let meet = clusters.meeting_level(network.node_of(sender as u32), network.node_of(receiver as u32));
                if meet != level || from == to {
                    continue;
                }
                let (latency, bytes) = measure_link(&own, (sender, receiver), profile, level as usize)?;
                let differs = |factor: f64| !(1.0 / ALIKE..=ALIKE).contains(&factor);
                if differs(latency) || differs(bytes) {
                    pairs.push(PairFactors { from, to, latency, bytes });
                }
            }
        }
        measured.levels[at].pairs = pairs;
    }
    Ok(measured)
}

/// The latency and the time of bytes of a link, relative to those of its level.
fn measure_link(comm: &Comm, pair: (Rank, Rank), profile: &Profile, level: usize) -> Result<(f64, f64)> {
    let (short, long) = on_pair(comm, pair, |probe| {
        // Grows the memory of both.
        probe.round_trip(LONG)?;
        fastest_trips(probe, LONG)
    })?;
    let link = &profile.level(level).link;
    // A round trip is twice the latency and a gap in each direction.
    let latency = factor(short / 2.0, link.latency + link.gap.at(0.0));
    // A long message is asked for first.
    let gap = link.gap.at(LONG as f64);
    let is_asked_for = LONG as f64 > profile.synchronous.vanishes_at && gap > 2.0 * link.latency;
    let handshake = if is_asked_for { 2.0 * link.latency } else { 0.0 };
    Ok((latency, factor(long - short - latency * handshake, gap - link.gap.at(0.0) - handshake)))
}
