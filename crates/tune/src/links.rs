//! Wide-area links that differ: each of them compared with the one whose parameters were measured.
//!
//! The P-LogP paper measures the slowest link and uses it for all. Here every other link of a level takes two round
//! trips in each direction, an empty one and one that is long enough for its rate.

use treepie_comm::{Comm, Rank};
use treepie_model::plogp::{PLogP, Probe};
use treepie_model::profile::PairFactors;

use crate::latency::MachineLevels;
use crate::levels::order_groups;
use crate::pair::on_pair;
use crate::{MessageProbe, Result, TuneConfig};

/// Levels with more links than this are taken to be uniform.
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

/// An empty round trip, and one with a long message there.
type Trips = (f64, f64);

/// The links of a level that differ from `base`, which is that between `pair`. Collective; all ranks get the same.
pub(crate) fn unequal_links(
    comm: &Comm,
    found: &MachineLevels,
    level: usize,
    base: &PLogP,
    config: &TuneConfig,
) -> Result<Vec<PairFactors>> {
    let links = links(&found.groups, level);
    let Some(bytes) = length(base, links.len(), config).filter(|_| links.len() <= MAX_LINKS) else {
        return Ok(Vec::new());
    };
    let trips = |pair| on_pair(comm, pair, |probe| round_trips(probe, bytes));
    let rendezvous = if bytes as usize > comm.eager_limit() { 1.0 } else { 0.0 };
    // A request and an answer, and so an empty round trip, precede a long message.
    let of_bytes = |(empty, long): Trips| (long - (1.0 + rendezvous) * empty).max(f64::MIN_POSITIVE);
    let reference = trips(found.pairs[level])?;
    let mut all = Vec::new();
    for ((from, to), pair) in links {
        if pair == found.pairs[level] {
            continue;
        }
        let measured = trips(pair)?;
        let (latency, bytes) = (measured.0 / reference.0, of_bytes(measured) / of_bytes(reference));
        if differs(latency) || differs(bytes) {
            all.push(PairFactors { from, to, latency, bytes });
        }
    }
    Ok(all)
}

/// The links between groups of the level below, as ordered pairs in increasing order, and a rank of each end. The
/// groups below the lowest level are ranks.
fn links(groups: &[Vec<u32>], level: usize) -> Vec<((u32, u32), (Rank, Rank))> {
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

/// The length of a message that shows the rate of a link, if there is time for that many links.
fn length(base: &PLogP, links: usize, config: &TuneConfig) -> Option<u64> {
    let time = config.budget.as_secs_f64() * 1e6 * BUDGET_SHARE / links.max(1) as f64;
    let longest = time.min(LATENCIES * base.latency);
    let lengths = std::iter::successors(Some(LENGTHS.0), |bytes| (*bytes < LENGTHS.1).then_some(2 * bytes));
    let fits = |bytes: &u64| base.gap.at(*bytes as f64) <= longest;
    lengths.take_while(fits).last().filter(|bytes| base.gap.at(*bytes as f64) >= MIN_LATENCIES * base.latency)
}

fn round_trips(probe: &mut MessageProbe<'_>, bytes: u64) -> Result<Trips> {
    let empty = probe.round_trip(0)?.1.min(probe.round_trip(0)?.1);
    Ok((empty, probe.round_trip(bytes)?.1))
}

fn differs(factor: f64) -> bool {
    !(1.0 / (1.0 + DIFFERENCE)..=1.0 + DIFFERENCE).contains(&factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_join_groups_of_the_level_below() {
        let groups = [vec![0, 1, 0, 2, 1, 3], vec![0, 1, 0, 1, 1, 0], vec![0; 6]];
        // In their order ranks are 0, 2, 5, 1, 4, 3, with the groups 0 2, 5, 1 4, 3.
        assert_eq!(links(&groups, 1), [((0, 1), (0, 5)), ((1, 0), (5, 0)), ((2, 3), (1, 3)), ((3, 2), (3, 1))]);
        assert_eq!(links(&groups, 2), [((0, 1), (0, 1)), ((1, 0), (1, 0))]);
        assert_eq!(links(&groups[..1], 0)[..2], [((0, 1), (0, 2)), ((1, 0), (2, 0))]);
    }
}
