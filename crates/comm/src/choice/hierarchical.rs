//! The arguments with which a hierarchical algorithm is a candidate.
//!
//! Trees and segments of broadcasts and reductions are those of the P-LogP paper's optimizer. For others, and for
//! several coordinators, there is no closed form: their schedules are walked over, so only a few arguments are tried, one
//! parameter after the other. On many ranks their time is estimated.

use std::borrow::Cow;

use treepie_collectives::registry::{Algorithm, Parameter};
use treepie_model::closed_form::{Arguments, TreeLayer};
use treepie_model::plogp::{GatewayLink, plan_bcast};
use treepie_schedule::Operation;
use treepie_topology::{Clusters, Network};

use super::variants::MAX_SEGMENTS;
use super::{ChoiceInput, MAX_WALKED_MESSAGES, MAX_WALKED_RANKS};

/// Segments of less over a link between groups are not worth their messages.
const MIN_SEGMENT: u64 = 4 << 10;

/// The arguments that could be the fastest.
pub(super) fn variants(input: &ChoiceInput<'_>, algorithm: &Algorithm) -> Vec<Arguments<'static>> {
    let base = Arguments::default();
    let Some(clusters) = clusters_of(input.spec.network) else { return vec![base] };
    let clusters = &*clusters;
    let mut all = match input.spec.operation {
        Operation::Bcast { .. } | Operation::Reduce { .. } => planned(input, clusters),
        _ => vec![base],
    };
    all.extend(searched(input, algorithm, clusters, all[0]));
    all
}

/// The clusters of a network, or its hosts.
fn clusters_of(network: &Network) -> Option<Cow<'_, Clusters>> {
    if !network.has_hosts() {
        return network.as_clusters().map(Cow::Borrowed);
    }
    let mut hosts: Vec<u32> = (0..network.ranks()).map(|rank| network.host_of(rank)).collect();
    hosts.sort_unstable();
    let sizes: Vec<u32> = hosts.chunk_by(|a, b| a == b).map(|host| host.len() as u32).collect();
    Network::clusters(&sizes).ok()?.as_clusters().cloned().map(Cow::Owned)
}

/// Trees over clusters and within them, and the segments: those of the P-LogP paper's optimizer, and its original
/// shapes.
fn planned(input: &ChoiceInput<'_>, clusters: &Clusters) -> Vec<Arguments<'static>> {
    let base = Arguments::default();
    let profile = input.costs.profile();
    let (lan, wan) = (profile.link(), profile.link_at(clusters.levels() as usize));
    let (count, largest) = (clusters.count(), clusters.sizes().max().unwrap_or(1));
    let unit = input.element.max(input.bytes.div_ceil(MAX_SEGMENTS));
    // Without a formula its messages are walked over.
    let unit = match clusters.levels() {
        1 => unit,
        _ => unit.max(input.bytes * u64::from(input.spec.ranks) / MAX_WALKED_MESSAGES as u64),
    };
    let plan = plan_bcast(&GatewayLink { wan, lan }, lan, count, largest, input.bytes, unit);
    let layer = |ranks: u32, degree: u32| match degree {
        0 | 1 if ranks <= 2 => TreeLayer::Flat,
        degree if degree + 1 >= ranks => TreeLayer::Flat,
        1 => TreeLayer::Chain,
        degree => TreeLayer::Kary(degree),
    };
    let planned = Arguments {
        wan: layer(count, plan.shape.wan),
        lan: layer(largest, plan.shape.lan),
        segments: plan.segments as u32,
        ..base
    };
    vec![planned, base, Arguments { segments: planned.segments, ..base }]
}

/// Numbers of segments that are tried where there is no formula.
const SEGMENTS: [u32; 3] = [4, 16, 64];

/// The number of segments with the least time, among a few, of an algorithm with these arguments.
pub(super) fn segments(input: &ChoiceInput<'_>, algorithm: &Algorithm, arguments: &Arguments<'_>) -> u32 {
    let Some(clusters) = clusters_of(input.spec.network) else { return 1 };
    let Some(bounds) = Bounds::new(input, algorithm, &clusters) else { return 1 };
    let worth = [1].into_iter().chain(SEGMENTS).filter(|segments| bounds.is_worth(input, *segments));
    let time = |segments| Some(input.critical_path(algorithm, &Arguments { segments, ..*arguments })?.total());
    let timed = worth.filter_map(|segments| Some((time(segments)?, segments)));
    timed.min_by(|one, other| one.0.total_cmp(&other.0)).map_or(1, |(_, segments)| segments)
}

/// What bounds a search.
struct Bounds {
    /// Outermost groups of which there are several.
    groups: u32,
    /// Ranks of the smallest of them.
    smallest: u32,
    /// Bytes over a link between two of them.
    over_link: u64,
    /// The time of those links, which no arguments can avoid.
    least: f64,
}

impl Bounds {
    /// None if there is only one group.
    fn new(input: &ChoiceInput<'_>, algorithm: &Algorithm, clusters: &Clusters) -> Option<Self> {
        let level = (1..=clusters.levels()).rev().find(|level| clusters.groups(level - 1) > 1)?;
        let (groups, link) = (clusters.groups(level - 1), input.costs.profile().link_at(level as usize));
        // One after the other.
        let (crossings, over_link) = match input.spec.operation {
            Operation::Allreduce if algorithm.name() == "hierarchical" => (2.0, input.bytes / u64::from(groups)),
            Operation::Allgather | Operation::ReduceScatter | Operation::Scatter { .. } | Operation::Gather { .. } => {
                (1.0, input.bytes / u64::from(groups))
            }
            Operation::Bcast { .. } | Operation::Reduce { .. } => (1.0, input.bytes / u64::from(groups - 1)),
            Operation::Barrier => (1.0, 0),
            _ => (1.0, input.bytes),
        };
        let least = crossings * (link.latency + link.gap.at(over_link as f64));
        let smallest = (0..groups).map(|group| clusters.group_members(level - 1, group).len() as u32).min()?;
        Some(Self { groups, smallest, over_link, least })
    }

    /// Whether segments are not too short, and not too many to walk over.
    fn is_worth(&self, input: &ChoiceInput<'_>, segments: u32) -> bool {
        let messages = 2 * u64::from(input.spec.ranks) + u64::from(self.groups).pow(2);
        let elements = (input.n() as u64 / input.element.max(1)).max(1);
        let is_walked = input.spec.ranks <= MAX_WALKED_RANKS;
        segments == 1
            || self.over_link / u64::from(segments) >= MIN_SEGMENT
                && u64::from(segments) <= elements
                && (!is_walked || u64::from(segments) * messages <= MAX_WALKED_MESSAGES as u64 / 2)
    }
}

/// A search by walking over schedules.
struct Search<'a> {
    input: &'a ChoiceInput<'a>,
    algorithm: &'a Algorithm,
    best: Option<(f64, Arguments<'static>)>,
    /// The time of the links between the outermost groups, which no arguments can avoid.
    least: f64,
}

impl Search<'_> {
    fn consider(&mut self, arguments: Arguments<'static>) {
        if self.is_done() {
            return;
        }
        let time = self.input.critical_path(self.algorithm, &arguments).map(|time| time.total());
        if let Some(time) = time.filter(|time| self.best.is_none_or(|(least, _)| *time < least)) {
            self.best = Some((time, arguments));
        }
    }

    /// Whether other arguments would hardly help.
    fn is_done(&self) -> bool {
        self.best.is_some_and(|(time, _)| time <= 1.05 * self.least)
    }

    fn best_or(&self, other: Arguments<'static>) -> Arguments<'static> {
        self.best.map_or(other, |(_, arguments)| arguments)
    }
}

/// The best arguments by walking over the schedule: segments, then coordinators, shapes and levels, each with the best
/// of those before.
fn searched(
    input: &ChoiceInput<'_>,
    algorithm: &Algorithm,
    clusters: &Clusters,
    base: Arguments<'static>,
) -> Option<Arguments<'static>> {
    let has = |parameter| algorithm.parameters.contains(&parameter);
    let bounds = Bounds::new(input, algorithm, clusters)?;
    let groups = bounds.groups;
    let is_worth = |segments| bounds.is_worth(input, segments);
    let mut search = Search { input, algorithm, best: None, least: bounds.least };
    search.consider(base);
    if has(Parameter::Segments) {
        for segments in SEGMENTS.into_iter().filter(|segments| is_worth(*segments)) {
            search.consider(Arguments { segments, ..base });
        }
    }
    if has(Parameter::Coordinators) {
        // One for each rank of the smallest group at most.
        let most = bounds.smallest;
        for coordinators in [2, 4, groups - 1].into_iter().filter(|coordinators| (2..=most).contains(coordinators)) {
            // Each coordinator has segments of its own, and they need not be as short as those of one tree.
            let best = search.best_or(base);
            let counts = [best.segments, 64, 16, 4].map(|segments| segments.next_multiple_of(coordinators));
            if let Some(segments) = counts.into_iter().find(|segments| is_worth(*segments)) {
                search.consider(Arguments { coordinators, segments, ..best });
            }
        }
    }
    if has(Parameter::Lan) {
        for lan in [TreeLayer::Flat, TreeLayer::Chain] {
            let best = search.best_or(base);
            search.consider(Arguments { wan: TreeLayer::Flat, lan, ..best });
        }
    }
    if clusters.levels() > 1 {
        for levels in ["innermost", "outermost"] {
            let best = search.best_or(base);
            search.consider(Arguments { levels, ..best });
        }
    }
    search.best.map(|(_, arguments)| arguments)
}
