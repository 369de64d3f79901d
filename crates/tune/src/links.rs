//! Links between groups that differ, or have changed: each of them compared with what is known of its level.
//!
//! The P-LogP paper measures the slowest link and uses it for all. Here every link takes a few round trips in each
//! direction, empty ones and ones with a message that is long enough for its rate. The curves of the level keep their
//! shape.

use treepie_comm::protocol::log_choice;
use treepie_comm::{Comm, Rank};
use treepie_model::Profile;
use treepie_model::plogp::{PLogP, Probe};
use treepie_model::profile::PairFactors;

use crate::latency::MachineLevels;
use crate::levels::order_groups;
use crate::pair::on_pair;
use crate::{Result, TuneConfig, refine};

/// Links of levels with more of them are not measured one by one.
const MAX_LINKS: usize = 240;

/// The part of a level's budget that all of its links may take.
const BUDGET_SHARE: f64 = 0.5;

/// The bytes of a long message take this multiple of the latency, so that lost packets and delays average out.
const LATENCIES: f64 = 50.0;

/// If they can only take this multiple, the rate cannot be told from the latency.
const MIN_LATENCIES: f64 = 4.0;

/// The shortest and longest of these messages.
const LENGTHS: (u64, u64) = (1 << 12, 1 << 22);

/// Links that differ by less are alike.
const DIFFERENCE: f64 = 0.15;

/// The time of bytes of a trip that is repeated, as it is easily disturbed, in microseconds.
const SHORT_TRIP: f64 = 50_000.0;

/// A link: the groups of the level below, in this direction, and a rank of each.
type Link = ((u32, u32), (Rank, Rank));

/// The links of a level that differ from `base`, which was measured between `found.pairs[level]`. Collective; all ranks
/// get the same.
pub(crate) fn unequal_links(
    comm: &Comm,
    found: &MachineLevels,
    level: usize,
    base: &PLogP,
    config: &TuneConfig,
) -> Result<Vec<PairFactors>> {
    let unequal = compare(comm, &links(&found.groups, level), Some(found.pairs[level]), base, config)?;
    Ok(unequal.unwrap_or_default())
}

/// The profile with each link between clusters as it is now. Collective: all ranks call it with the same profile, do
/// nothing else meanwhile, and get the same. Links are measured one after the other: twelve of 10 ms and 1 MB/s take
/// ten seconds. Links of a level with more than 240 of them stay as they are known; `TREEPIE_LOG=choices` tells. Without
/// clusters, the whole profile is scaled ([`refine`](crate::refine())).
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
    let group_of = |level| (0..network.ranks()).map(move |rank| clusters.group_of(level, network.node_of(rank)));
    let mut groups: Vec<Vec<u32>> = (0..clusters.levels()).map(|level| group_of(level).collect()).collect();
    groups.push(vec![0; network.ranks() as usize]);
    let mut measured = profile.with_levels(groups.len());
    for (number, level) in measured.levels.iter_mut().enumerate().take(groups.len()).skip(1) {
        let links = links(&groups, number);
        match compare(&own, &links, None, &level.link, &TuneConfig::default())? {
            Some(pairs) => level.pairs = pairs,
            None => log_choice(comm, format_args!("{} links of level {number} are not measured", links.len())),
        }
    }
    Ok(measured)
}

/// The links that differ from `base`, as it is between two ranks now, or else as it is known. `None` if there are too
/// many to measure them.
fn compare(
    comm: &Comm,
    links: &[Link],
    reference: Option<(Rank, Rank)>,
    base: &PLogP,
    config: &TuneConfig,
) -> Result<Option<Vec<PairFactors>>> {
    let Some(bytes) = length(base, links.len(), config) else { return Ok(None) };
    // A request and an answer precede a long message.
    let crossings = if bytes as usize > comm.eager_limit() { 2.0 } else { 0.0 };
    // The time of an empty message, and of the bytes of a long one.
    let measure = |pair| {
        let (empty, long): (f64, f64) = on_pair(comm, pair, |probe| {
            let empty = probe.round_trip(0)?.1.min(probe.round_trip(0)?.1);
            let mut long = probe.round_trip(bytes)?.1;
            if long < SHORT_TRIP {
                long = long.min(probe.round_trip(bytes)?.1).min(probe.round_trip(bytes)?.1);
            }
            Ok((empty, long))
        })?;
        Ok::<_, crate::Error>((empty / 2.0, (long - empty - crossings * empty / 2.0).max(1e-3)))
    };
    let expected = match reference {
        Some(pair) => measure(pair)?,
        None => {
            let of_bytes = base.gap.at(bytes as f64) - base.gap.at(0.0) - crossings * base.latency;
            (base.latency + base.gap.at(0.0), of_bytes.max(1e-3))
        }
    };
    let mut all = Vec::new();
    for ((from, to), pair) in links.iter().copied().filter(|(_, pair)| Some(*pair) != reference) {
        let measured = measure(pair)?;
        let (latency, bytes) = (measured.0 / expected.0, measured.1 / expected.1);
        if differs(latency) || differs(bytes) {
            all.push(PairFactors { from, to, latency, bytes });
        }
    }
    Ok(Some(all))
}

/// The links between groups of the level below, as ordered pairs in increasing order, and a rank of each end. The
/// groups below the lowest level are ranks.
fn links(groups: &[Vec<u32>], level: usize) -> Vec<Link> {
    let (order, sizes) = order_groups(groups);
    let below = level.checked_sub(1).map_or_else(|| vec![1; order.len()], |below| sizes[below].clone());
    let ends = below.iter().scan(0, |next, size| {
        let first = order[*next as usize] as usize;
        *next += size;
        Some(first)
    });
    let ends: Vec<Rank> = ends.collect();
    let meet = |a: usize, b: usize| a != b && groups[level][ends[a]] == groups[level][ends[b]];
    let pairs = (0..ends.len()).flat_map(|a| (0..ends.len()).map(move |b| (a, b)));
    pairs.filter(|&(a, b)| meet(a, b)).map(|(a, b)| ((a as u32, b as u32), (ends[a], ends[b]))).collect()
}

/// The length of a message that shows the rate of a link, if there is time for this number of links.
fn length(base: &PLogP, links: usize, config: &TuneConfig) -> Option<u64> {
    if links > MAX_LINKS {
        return None;
    }
    let time = config.budget.as_secs_f64() * 1e6 * BUDGET_SHARE / links.max(1) as f64;
    let longest = time.min(LATENCIES * base.latency);
    let lengths = std::iter::successors(Some(LENGTHS.0), |bytes| (*bytes < LENGTHS.1).then_some(2 * bytes));
    let fits = |bytes: &u64| base.gap.at(*bytes as f64) <= longest;
    lengths.take_while(fits).last().filter(|bytes| base.gap.at(*bytes as f64) >= MIN_LATENCIES * base.latency)
}

fn differs(factor: f64) -> bool {
    !(1.0 / (1.0 + DIFFERENCE)..=1.0 + DIFFERENCE).contains(&factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_links_than_the_bound_are_taken_to_be_uniform() {
        let (profile, budget) = (Profile::network(), std::time::Duration::from_secs(3600));
        let length = |links| length(&profile.level(0).link, links, &TuneConfig { budget, ..TuneConfig::default() });
        assert!(length(MAX_LINKS).is_some() && length(MAX_LINKS + 1).is_none());
    }

    #[test]
    fn links_join_groups_of_the_level_below() {
        let groups = [vec![0, 1, 0, 2, 1, 3], vec![0, 1, 0, 1, 1, 0], vec![0; 6]];
        // In their order ranks are 0, 2, 5, 1, 4, 3, with the groups 0 2, 5, 1 4, 3.
        assert_eq!(links(&groups, 1), [((0, 1), (0, 5)), ((1, 0), (5, 0)), ((2, 3), (1, 3)), ((3, 2), (3, 1))]);
        assert_eq!(links(&groups, 2), [((0, 1), (0, 1)), ((1, 0), (1, 0))]);
        assert_eq!(links(&groups[..1], 0)[..2], [((0, 1), (0, 2)), ((1, 0), (2, 0))]);
    }
}
