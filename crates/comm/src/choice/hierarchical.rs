//! The arguments with which a hierarchical algorithm is a candidate.
//!
//! Trees and segments of broadcasts and reductions are those of the P-LogP paper's optimizer. For others, and for
//! several coordinators, there is no closed form: their schedules are walked over, so only a few arguments are tried, one
//! parameter after the other. On many ranks their time is estimated.

use treepie_collectives::registry::{Algorithm, Parameter};
use treepie_model::closed_form::{Arguments, TreeLayer};
use treepie_model::plogp::{GatewayLink, plan_bcast};
use treepie_schedule::Operation;
use treepie_topology::{Clusters, LinkClasses};

use super::variants::MAX_SEGMENTS;
use super::{ChoiceInput, MAX_WALKED_RANKS};

/// Segments of less over a link between groups are not worth their messages.
const MIN_SEGMENT: u64 = 512;

/// The arguments that could be the fastest.
pub(super) fn variants(input: &ChoiceInput<'_>, algorithm: &Algorithm) -> Vec<Arguments<'static>> {
    let base = Arguments::default();
    let Some(clusters) = input.spec.network.occupied_clusters() else { return vec![base] };
    let clusters = &*clusters;
    let mut all = match input.spec.operation {
        Operation::Bcast { .. } | Operation::Reduce { .. } if clusters.levels() == 1 => planned(input, clusters),
        _ => vec![base],
    };
    for found in searched(input, algorithm, clusters, all[0]) {
        if !all.contains(&found) {
            all.push(found);
        }
    }
    all
}

/// Trees over clusters and within them, and the segments: those of the P-LogP paper's optimizer, and its original
/// shapes.
fn planned(input: &ChoiceInput<'_>, clusters: &Clusters) -> Vec<Arguments<'static>> {
    let base = Arguments::default();
    let profile = input.costs.profile();
    let (lan, wan) = (profile.link(), profile.link_at(clusters.levels() as usize));
    let (count, largest) = (clusters.count(), clusters.sizes().max().unwrap_or(1));
    let unit = input.element.max(input.bytes.div_ceil(MAX_SEGMENTS));
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

/// The same where times are estimated, which takes no time.
const ESTIMATED_SEGMENTS: [u32; 4] = [4, 16, 64, 128];

/// Algorithms that do not know the clusters are tried with at most this number.
const MAX_FLAT_SEGMENTS: u32 = 16;

/// The number of segments with the least time, among a few, of an algorithm with these arguments.
pub(super) fn segments(input: &ChoiceInput<'_>, algorithm: &Algorithm, arguments: &Arguments<'_>) -> u32 {
    let Some(clusters) = input.spec.network.occupied_clusters() else { return 1 };
    let Some(bounds) = Bounds::new(input, algorithm, &clusters) else { return 1 };
    let time = |segments| Some(input.critical_path(algorithm, &Arguments { segments, ..*arguments })?.total());
    let Some(whole) = time(1) else { return 1 };
    // Where a few segments do not help, none do.
    let mut best = (whole, 1);
    let worth = |segments: &u32| *segments <= MAX_FLAT_SEGMENTS && bounds.is_worth(input, *segments);
    for segments in SEGMENTS.into_iter().filter(worth) {
        match time(segments).filter(|time| *time < best.0) {
            Some(time) => best = (time, segments),
            None => break,
        }
    }
    best.1
}

/// The messages of a segment, if they are few enough for walking over those of many ranks: along trees.
pub(super) fn messages_of_segment(
    input: &ChoiceInput<'_>,
    algorithm: &Algorithm,
    arguments: &Arguments<'_>,
) -> Option<u64> {
    let clusters = input.spec.network.occupied_clusters()?;
    let ranks = u64::from(input.spec.ranks);
    match input.spec.operation {
        Operation::Bcast { .. } | Operation::Reduce { .. } | Operation::Scatter { .. } | Operation::Gather { .. } => {
            // The others have their place on few ranks.
            let is_few = input.spec.ranks <= MAX_WALKED_RANKS;
            let name = algorithm.name();
            let is_tree = matches!(name, "chain" | "binomial" | "knomial" | "kary");
            (matches!(name, "hierarchical" | "in_turn" | "flat") || is_few && is_tree).then_some(ranks)
        }
        Operation::Scan | Operation::Exscan if algorithm.name() == "linear" => Some(ranks),
        Operation::Alltoall => None,
        _ if !algorithm.name().starts_with("hierarchical") => None,
        _ => {
            let level = if arguments.levels == "innermost" { 0 } else { clusters.levels() - 1 };
            Some(2 * ranks + u64::from(clusters.groups(level)).pow(2))
        }
    }
}

/// The segments of a pipeline that fill the window of a link between the outermost groups twice; none if all fit.
pub(super) fn filling_segments(input: &ChoiceInput<'_>, algorithm: &Algorithm, arguments: &Arguments<'_>) -> u32 {
    let clusters = input.spec.network.occupied_clusters();
    let Some(bounds) = clusters.and_then(|clusters| Bounds::new(input, algorithm, &clusters)) else { return 1 };
    let link = input.costs.profile().link_at(usize::MAX);
    let Some(window) = link.send_overhead.knees().next() else { return 1 };
    // A link carries the segments of one coordinator.
    let coordinators = arguments.coordinators.min(bounds.groups - 1);
    let of_link = match input.spec.operation {
        Operation::Bcast { .. } | Operation::Reduce { .. } => bounds.message / u64::from(coordinators),
        _ => bounds.message,
    };
    let segments = 2.0 * window * f64::from(arguments.segments) / of_link.max(1) as f64;
    if of_link as f64 <= window { 1 } else { segments.ceil() as u32 }
}

/// What bounds a search.
#[derive(Clone, Copy)]
struct Bounds {
    /// Outermost groups of which there are several.
    groups: u32,
    /// Ranks of the smallest of them, and of the largest.
    smallest: u32,
    largest: u32,
    /// Bytes of a message over a link between two of them, of all segments.
    message: u64,
    /// The time of those links, which no arguments can avoid.
    least: f64,
}

impl Bounds {
    /// None if there is only one group.
    fn new(input: &ChoiceInput<'_>, algorithm: &Algorithm, clusters: &Clusters) -> Option<Self> {
        let level = (1..=clusters.levels()).rev().find(|level| clusters.groups(level - 1) > 1)?;
        let (groups, link) = (clusters.groups(level - 1), input.costs.profile().link_at(level as usize));
        let sizes = || (0..groups).map(|group| clusters.group_members(level - 1, group).len() as u32);
        let (smallest, largest) = (sizes().min()?, sizes().max()?);
        let part = input.bytes / u64::from(groups);
        // Messages one after the other, their bytes, and those that the busiest link carries.
        let (crossings, message, over_link) = match input.spec.operation {
            Operation::Allreduce if algorithm.name() == "hierarchical" => (2.0, part, part),
            Operation::Allgather | Operation::ReduceScatter | Operation::Scatter { .. } | Operation::Gather { .. } => {
                (1.0, part, part)
            }
            // Several coordinators divide it among the links of the root.
            Operation::Bcast { .. } | Operation::Reduce { .. } => {
                (1.0, input.bytes, input.bytes / u64::from(groups - 1))
            }
            Operation::Barrier => (1.0, 0, 0),
            // The blocks of each rank of one group for each of another.
            Operation::Alltoall => {
                let between = (input.bytes / u64::from(input.spec.ranks)).saturating_mul(u64::from(smallest).pow(2));
                (1.0, between, between)
            }
            _ => (1.0, input.bytes, input.bytes),
        };
        // Where links differ it is not known which of them carry it.
        let is_known = input.costs.profile().level(level as usize).pairs.is_empty();
        let carrying = input.costs.least_link_time(level as usize, over_link as f64);
        let least = if is_known { crossings * (link.latency + carrying) } else { 0.0 };
        Some(Self { groups, smallest, largest, message, least })
    }

    /// Whether segments are not too short.
    fn is_worth(&self, input: &ChoiceInput<'_>, segments: u32) -> bool {
        let elements = (input.n() as u64 / input.element.max(1)).max(1);
        segments == 1 || self.message / u64::from(segments) >= MIN_SEGMENT && u64::from(segments) <= elements
    }
}

/// The classes of the links between the outermost groups, where they differ: from the root, or to it.
fn link_classes(input: &ChoiceInput<'_>) -> Option<LinkClasses> {
    let clusters = input.spec.network.as_clusters()?;
    let (groups, level) =
        (clusters.groups(clusters.levels() - 1), input.costs.profile().level(clusters.levels() as usize));
    let time = |from, to| {
        let (latency, bytes) = level.factors(from, to);
        level.link.latency * latency + level.link.gap.at(input.bytes as f64) * bytes
    };
    if level.pairs.is_empty() {
        return None;
    }
    match input.spec.operation {
        Operation::Bcast { .. } | Operation::Scatter { .. } => LinkClasses::from_times(groups, time),
        Operation::Reduce { .. } | Operation::Gather { .. } => {
            LinkClasses::from_times(groups, |from, to| time(to, from))
        }
        _ => None,
    }
}

/// A search for the best arguments, one parameter after the other, each with the best of those before.
struct Search<'a> {
    input: &'a ChoiceInput<'a>,
    algorithm: &'a Algorithm,
    best: (f64, Arguments<'static>),
    bounds: Bounds,
}

impl Search<'_> {
    /// The time of candidates: of many ranks it is estimated, as walks take long, and only the best are walked over.
    fn time(&self, arguments: &Arguments<'_>) -> Option<f64> {
        let time = match self.is_estimated() {
            true => self.input.estimate(self.algorithm, arguments),
            false => self.input.critical_path(self.algorithm, arguments),
        };
        time.map(|time| time.total())
    }

    fn is_estimated(&self) -> bool {
        self.input.spec.ranks > MAX_WALKED_RANKS
    }

    fn consider(&mut self, arguments: Arguments<'static>) {
        if self.is_done() || arguments == self.best.1 && self.best.0.is_finite() {
            return;
        }
        if let Some(time) = self.time(&arguments).filter(|time| *time < self.best.0) {
            self.best = (time, arguments);
        }
    }

    /// Whether other arguments would hardly help.
    fn is_done(&self) -> bool {
        self.best.0 <= 1.02 * self.bounds.least
    }

    fn best(&self) -> Arguments<'static> {
        self.best.1
    }

    fn has(&self, parameter: Parameter) -> bool {
        self.algorithm.parameters.contains(&parameter)
    }

    /// Segments, a multiple of the coordinators.
    fn consider_segments(&mut self) {
        let counts: &[u32] = if self.is_estimated() { &ESTIMATED_SEGMENTS } else { &SEGMENTS };
        for segments in [&[1], counts].concat() {
            let segments = segments.next_multiple_of(self.best().coordinators);
            if self.has(Parameter::Segments) && self.bounds.is_worth(self.input, segments) {
                self.consider(Arguments { segments, ..self.best() });
            }
        }
    }

    /// Coordinators, one for each rank of the smallest group at most; of an all-to-all, one for each rank.
    fn consider_coordinators(&mut self) {
        let Bounds { groups, smallest, largest, .. } = self.bounds;
        if self.input.spec.operation == Operation::Alltoall {
            for coordinators in [2, 4, largest].into_iter().filter(|count| (2..=largest).contains(count)) {
                if self.has(Parameter::Coordinators) {
                    self.consider(Arguments { coordinators, ..self.best() });
                }
            }
            return;
        }
        // Trees with a root lead to another group each.
        let has_root = matches!(self.input.spec.operation, Operation::Bcast { .. } | Operation::Reduce { .. });
        let most = if has_root { smallest.min(groups - 1) } else { smallest };
        let mut counts = vec![2, 4, groups - 1, groups];
        counts.sort_unstable();
        counts.dedup();
        for coordinators in counts.into_iter().filter(|count| (2..=most).contains(count)) {
            for segments in [16, 64].map(|segments: u32| segments.next_multiple_of(coordinators)) {
                if self.has(Parameter::Coordinators) && self.bounds.is_worth(self.input, segments) {
                    self.consider(Arguments { coordinators, segments, ..self.best() });
                }
            }
        }
    }

    fn consider_shapes(&mut self) {
        for lan in [TreeLayer::Flat, TreeLayer::Chain, TreeLayer::Binomial] {
            if self.has(Parameter::Lan) {
                self.consider(Arguments { lan, ..self.best() });
            }
        }
        for wan in [TreeLayer::Flat, TreeLayer::Chain, TreeLayer::Binomial] {
            if self.has(Parameter::Wan) {
                self.consider(Arguments { wan, ..self.best() });
            }
        }
        if let Some(classes) = link_classes(self.input).filter(|_| self.has(Parameter::Wan)) {
            let wan = TreeLayer::Links(classes);
            self.consider(Arguments { wan, ..self.best() });
            // A deeper tree needs segments, which those before may not have gained from.
            for segments in [self.best().segments, 16, 64] {
                if segments == 1 || self.has(Parameter::Segments) && self.bounds.is_worth(self.input, segments) {
                    self.consider(Arguments { wan, segments, coordinators: 1, ..self.best() });
                }
            }
        }
    }
}

/// The best arguments: segments, then coordinators, shapes and levels.
fn searched(
    input: &ChoiceInput<'_>,
    algorithm: &Algorithm,
    clusters: &Clusters,
    base: Arguments<'static>,
) -> Vec<Arguments<'static>> {
    let Some(bounds) = Bounds::new(input, algorithm, clusters) else { return Vec::new() };
    let mut search = Search { input, algorithm, best: (f64::INFINITY, base), bounds };
    search.consider(base);
    search.consider_segments();
    search.consider_coordinators();
    search.consider_shapes();
    search.consider_segments();
    let mut all = vec![search.best()];
    if clusters.levels() == 1 || search.is_done() {
        return all;
    }
    let levels = ["innermost", "outermost"];
    if search.is_estimated() {
        // Pipelines are bound by the slowest links, which carry the least if all levels are distinguished.
        let is_short = search.best().segments == 1;
        all.extend(levels.map(|levels| Arguments { levels, ..search.best() }).into_iter().filter(|_| is_short));
        return all;
    }
    for levels in levels {
        // What is best for two levels may be far from what is best for all of them.
        let start = Arguments { levels, ..search.best() };
        let time = search.time(&start).unwrap_or(f64::INFINITY);
        let mut of_levels = Search { input, algorithm, best: (time, start), bounds: search.bounds };
        of_levels.consider_shapes();
        if input.spec.operation == Operation::Alltoall {
            of_levels.consider(Arguments { coordinators: 1, ..of_levels.best() });
            of_levels.consider_coordinators();
        }
        all.push(of_levels.best());
    }
    all
}
