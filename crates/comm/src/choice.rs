//! The choice of algorithms: the minimum of predicted times.
//!
//! For a call, all registered algorithms that apply are candidates, with the arguments that could pay: degrees of trees
//! that lower their height, the number of segments by halving and hill climbing, cores of composed algorithms
//! (`variants.rs`). The time of a candidate is predicted from a [`Profile`](treepie_model::Profile): by a closed form,
//! or by walking over the messages of its schedule, or by counting what it moves through the shared segment. The costs
//! of a machine are in its profile. What is not: that data just modified takes longer to read directly, that more than
//! some rounds over the segment do not pay (`transport.rs`), and that pipelines do not on shared cores (`variants.rs`).
//! All ranks choose alike, since the choice depends on nothing that they do not all know.

mod hierarchical;
mod hosts;
mod ports;
#[cfg(test)]
mod tests;
mod transport;
mod variants;

use treepie_collectives::registry::{self, Algorithm, CollectiveSpec, NetworkRequirement, Parameter};
use treepie_model::closed_form::{self, Arguments};
use treepie_model::predict::{MessageCosts, Prediction, Work};
use treepie_model::walk;
use treepie_schedule::count::{WorkCounts, count_work};
use treepie_schedule::{BlockLayout, BlockLayouts, Operation, Schedule};
use treepie_topology::{Network, NetworkKind};

pub use transport::{HostSlots, Resources, SharedTransport, SlotCapacities, Transport};

/// Up to this number of ranks, algorithms without a closed form are walked over; on more, only trees and estimated ones
/// are candidates.
const MAX_WALKED_RANKS: u32 = 256;

/// And with at most this number of messages: a millisecond or less. All-to-alls with more are estimated.
const MAX_WALKED_MESSAGES: usize = 1 << 13;

/// Segments of a pipeline that are walked over; the time of others is extrapolated.
const MIN_WALKED_SEGMENTS: u32 = 16;

/// On more ranks, of which only a few candidates are walked over.
const MAX_WALKED_OF_MANY: usize = 1 << 14;

/// The largest size of the class for which an algorithm is chosen: four classes to each power of two. Classes end at
/// powers of two, where protocols change.
pub fn size_class(bytes: u64) -> u64 {
    let step = (bytes.checked_next_power_of_two().unwrap_or(1 << 63) / 8).max(1);
    bytes.div_ceil(step).saturating_mul(step)
}

/// What an algorithm is chosen for.
#[derive(Clone, Copy, Debug)]
pub struct ChoiceInput<'a> {
    /// The call.
    pub spec: CollectiveSpec<'a>,
    /// Bytes of all blocks, or of the vector.
    pub bytes: u64,
    /// Bytes of an element.
    pub element: u64,
    /// The costs of messages on its network.
    pub costs: MessageCosts<'a>,
    /// What it can use besides messages.
    pub resources: Resources,
}

/// The arguments with which an algorithm is a candidate.
type ArgumentSearch = fn(&ChoiceInput<'_>, &Algorithm) -> Vec<Arguments<'static>>;

/// A candidate.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// The algorithm.
    pub algorithm: &'static Algorithm,
    /// Its arguments.
    pub arguments: Arguments<'static>,
    /// How its data is transferred.
    pub transport: Transport,
    /// Its predicted time.
    pub prediction: Prediction,
}

impl Candidate {
    /// The id, with the arguments that the algorithm has.
    pub fn id(&self) -> String {
        variants::id(self.algorithm, &self.arguments)
    }
}

impl ChoiceInput<'_> {
    /// All candidates, the fastest first. If none has a predicted time on this network, all are
    /// predicted as if it were flat, with its slowest links.
    pub fn candidates(&self) -> Vec<Candidate> {
        let known = self.known_candidates();
        if !known.is_empty() {
            return known;
        }
        let flat = Network::flat(self.spec.ranks);
        ChoiceInput { costs: self.costs.as_if_flat(&flat), ..*self }.known_candidates()
    }

    fn known_candidates(&self) -> Vec<Candidate> {
        self.candidates_with(variants::variants)
    }

    /// All candidates, with the best of all arguments within bounds, instead of those that the paper's rules leave.
    /// Takes long: for comparison.
    pub fn exhaustive_candidates(&self) -> Vec<Candidate> {
        let known = self.candidates_with(variants::exhaustive);
        if known.is_empty() { self.candidates() } else { known }
    }

    fn candidates_with(&self, arguments: ArgumentSearch) -> Vec<Candidate> {
        let applicable = registry::applicable(&self.spec).into_iter();
        let mut all: Vec<Candidate> =
            applicable.flat_map(|algorithm| self.candidates_of(algorithm, arguments)).collect();
        all.extend(self.host_candidate());
        all.sort_by(|one, other| one.prediction.total().total_cmp(&other.prediction.total()));
        all
    }

    /// The fastest candidate whose schedule can be built: a composed algorithm may have requirements beyond those in
    /// the registry's table, such as a commutative operator.
    pub fn best(&self) -> Option<Candidate> {
        let known = self.best_known();
        let flat = Network::flat(self.spec.ranks);
        known.or_else(|| ChoiceInput { costs: self.costs.as_if_flat(&flat), ..*self }.best_known())
    }

    /// Best first: the work of all ranks, which takes long to count, is counted only for candidates whose critical path
    /// is not longer than the time of another.
    fn best_known(&self) -> Option<Candidate> {
        let mut queue: Vec<(Candidate, bool)> = Vec::new();
        for algorithm in registry::applicable(&self.spec) {
            for arguments in variants::variants(self, algorithm) {
                if let Some(prediction) = self.critical_path(algorithm, &arguments) {
                    let transport = Transport::PointToPoint;
                    queue.push((Candidate { algorithm, arguments, transport, prediction }, false));
                }
            }
            queue.extend(self.shared_candidates(algorithm).into_iter().map(|candidate| (candidate, true)));
            queue.extend(self.candidates_over_hosts(algorithm).into_iter().map(|candidate| (candidate, true)));
        }
        queue.extend(self.host_candidate().map(|candidate| (candidate, true)));
        loop {
            let time = |(candidate, _): &(Candidate, bool)| candidate.prediction.total();
            let least = (0..queue.len()).min_by(|one, other| time(&queue[*one]).total_cmp(&time(&queue[*other])))?;
            let (candidate, is_complete) = queue[least];
            let Candidate { algorithm, arguments, prediction, .. } = candidate;
            if !is_complete {
                let prediction = self.with_work(prediction, algorithm, &arguments);
                queue[least] = (Candidate { prediction, ..candidate }, true);
            } else if self.can_be_built(&candidate) {
                return Some(candidate);
            } else {
                // Of several that take as long the first one is chosen, so their order stays.
                queue.remove(least);
            }
        }
    }

    /// What the MPI library does, if that was measured.
    fn host_candidate(&self) -> Option<Candidate> {
        let CollectiveSpec { operation, ranks, .. } = self.spec;
        let algorithm = registry::of_host_mpi(operation).filter(|_| self.resources.host_mpi)?;
        let profile = self.costs.profile();
        let short = profile.host_collective(operation.name(), ranks, 0.0)?;
        let time = profile.host_collective(operation.name(), ranks, self.bytes as f64)?;
        let startups = short.min(time);
        let prediction = Prediction { startups, bytes: time - startups, ..Prediction::default() };
        Some(Candidate { algorithm, arguments: Arguments::default(), transport: Transport::HostMpi, prediction })
    }

    fn can_be_built(&self, candidate: &Candidate) -> bool {
        if candidate.transport == Transport::HostMpi {
            return true;
        }
        // Of many ranks only formulas are evaluated, and an inapplicable core has none.
        let has_formula =
            self.spec.ranks > MAX_WALKED_RANKS || !candidate.algorithm.parameters.contains(&Parameter::Core);
        let is_known = self.spec.commutative && self.spec.uniform && has_formula;
        is_known || registry::build(&candidate.id(), &self.spec).is_ok()
    }

    /// The predicted time of a candidate, with what its messages take longer because they share links apart from their
    /// bytes.
    pub fn with_congestion(&self, candidate: &Candidate) -> Prediction {
        let all = candidate.prediction;
        let shares_links = !matches!(self.costs.network().kind(), NetworkKind::Flat(_));
        if !shares_links || candidate.transport != Transport::PointToPoint {
            return all;
        }
        let flat = Network::flat(self.spec.ranks);
        let alone = ChoiceInput { costs: self.costs.as_if_flat(&flat), ..*self };
        let alone = alone.predict_messages(candidate.algorithm, &candidate.arguments).unwrap_or(all);
        let congestion = (all.total() - alone.total()).clamp(0.0, all.bytes.max(0.0));
        Prediction { bytes: all.bytes - congestion, congestion, ..all }
    }

    /// The candidates of one algorithm, over messages and over the shared segment.
    fn candidates_of(&self, algorithm: &'static Algorithm, arguments: ArgumentSearch) -> Vec<Candidate> {
        let mut all = Vec::new();
        for arguments in arguments(self, algorithm) {
            if let Some(prediction) = self.predict_messages(algorithm, &arguments) {
                all.push(Candidate { algorithm, arguments, transport: Transport::PointToPoint, prediction });
            }
        }
        // Only the fastest of them: candidates are for comparing algorithms.
        all.sort_by(|one, other| one.prediction.total().total_cmp(&other.prediction.total()));
        all.truncate(1);
        all.extend(self.shared_candidates(algorithm));
        all.extend(self.candidates_over_hosts(algorithm).into_iter().next());
        all
    }

    /// An id that was set, with the number of segments of a call over messages.
    pub(crate) fn with_segments(&self, id: &str) -> String {
        let names_segments = id.split([':', ',']).any(|argument| argument.starts_with("segments="));
        let (segments, _) = self.complete(id, None);
        if names_segments || segments == 1 {
            return id.to_owned();
        }
        let separator = if id.contains(':') { ',' } else { ':' };
        format!("{id}{separator}segments={segments}")
    }

    /// For an id that was set: the number of segments, which counts if the id names none, and the transport, which may
    /// have been set too.
    pub(crate) fn complete(&self, id: &str, set: Option<Transport>) -> (u32, Transport) {
        let by_messages = (1, Transport::PointToPoint);
        let Ok(algorithm) = registry::find(id) else { return by_messages };
        if self.resources.host_mpi
            && registry::of_host_mpi(self.spec.operation).is_some_and(|own| own.id == algorithm.id)
        {
            return (1, Transport::HostMpi);
        }
        let Some(given) = arguments_of(id) else { return by_messages };
        let can_use_hosts = self.resources.host_slots.is_some() && hosts::is_over_hosts(algorithm);
        if can_use_hosts && set.is_none_or(|set| set == Transport::Hosts) {
            return (self.segments_of_leaders(&given).unwrap_or(given.segments), Transport::Hosts);
        }
        let segments = variants::segments(self, algorithm, &given);
        let arguments = Arguments { segments, ..given };
        let messages = self.closed_form(algorithm, &arguments);
        let messages = messages.map(|critical| self.with_work(critical, algorithm, &arguments));
        let mut shared = self.predict_shared(algorithm, id);
        match set {
            Some(set) => shared.retain(|(_, transport)| Transport::SharedSegment(*transport) == set),
            // Without a closed form it has many rounds, or its ranks wait for each other, more than for a slot.
            None => shared.retain(|(time, _)| messages.is_none_or(|messages| time.total() < messages.total())),
        }
        match shared.into_iter().min_by(|one, other| one.0.total().total_cmp(&other.0.total())) {
            Some((_, transport)) => (1, Transport::SharedSegment(transport)),
            None => (segments, Transport::PointToPoint),
        }
    }

    /// The candidates over the shared segment, whose chunks replace segments.
    fn shared_candidates(&self, algorithm: &'static Algorithm) -> Vec<Candidate> {
        let candidate = |(prediction, transport)| {
            let transport = Transport::SharedSegment(transport);
            Candidate { algorithm, arguments: Arguments::default(), transport, prediction }
        };
        self.predict_shared(algorithm, &algorithm.id).into_iter().map(candidate).collect()
    }

    fn predict_shared(&self, algorithm: &Algorithm, id: &str) -> Vec<(Prediction, SharedTransport)> {
        let Some(slots) = &self.resources.slots else { return Vec::new() };
        if algorithm.requires.network != NetworkRequirement::Any {
            return Vec::new();
        }
        let Ok(schedule) = registry::build(id, &self.spec) else { return Vec::new() };
        let layouts = self.layouts(&*schedule);
        let element = (self.element as f64, self.spec.in_place);
        transport::predict_shared(&*schedule, &layouts, element, &self.costs, slots).unwrap_or_default()
    }

    /// The predicted time of an algorithm over messages, in microseconds.
    pub(crate) fn predicted_over_messages(&self, id: &str) -> Option<f64> {
        let time = self.predict_messages(registry::find(id).ok()?, &arguments_of(id)?);
        time.map(|prediction| prediction.total())
    }

    /// The predicted time over messages.
    fn predict_messages(&self, algorithm: &Algorithm, arguments: &Arguments<'_>) -> Option<Prediction> {
        Some(self.with_work(self.critical_path(algorithm, arguments)?, algorithm, arguments))
    }

    /// The time of the critical path over messages.
    fn critical_path(&self, algorithm: &Algorithm, arguments: &Arguments<'_>) -> Option<Prediction> {
        let by_formula = self.closed_form(algorithm, arguments);
        by_formula.or_else(|| self.walk(algorithm, arguments)).or_else(|| self.estimate(algorithm, arguments))
    }

    /// The time of a hierarchical algorithm on more ranks than are walked over, or of an all-to-all with more messages.
    fn estimate(&self, algorithm: &Algorithm, arguments: &Arguments<'_>) -> Option<Prediction> {
        if self.spec.ranks <= MAX_WALKED_RANKS && self.spec.operation != Operation::Alltoall {
            return None;
        }
        let (name, operation) = (algorithm.name(), self.spec.operation);
        let (network, profile) = (self.costs.network(), self.costs.profile());
        let time = closed_form::estimate_on_clusters(name, arguments, operation, network, self.n(), profile)?;
        let startups = time.min(profile.link_at(usize::MAX).latency);
        Some(Prediction { startups, bytes: time - startups, ..Prediction::default() })
    }

    /// The same, or the time of all work on the cores of one machine or at the port of a host, if that is longer.
    fn with_work(&self, critical: Prediction, algorithm: &Algorithm, arguments: &Arguments<'_>) -> Prediction {
        let critical = match ports::least_time(self, algorithm, arguments) {
            Some(least) => critical.at_least(least),
            None => critical,
        };
        let work = self.work(algorithm, arguments).map(|work| with_segments(work, arguments.segments));
        self.costs.at_least_work(critical, work.as_ref())
    }

    /// What all ranks do together without segments, if that counts: that of the root, and of all others or a sample.
    fn work(&self, algorithm: &Algorithm, arguments: &Arguments<'_>) -> Option<Work> {
        self.costs.cores()?;
        let whole = Arguments { segments: 1, ..*arguments };
        let schedule = registry::build(&variants::id(algorithm, &whole), &self.spec).ok()?;
        let (ranks, layouts) = (self.spec.ranks, self.layouts(&*schedule));
        let root = self.spec.operation.root().unwrap_or(0);
        let others = (ranks - 1).min(transport::MAX_COUNTED_RANKS);
        let step = spread(ranks);
        let sample = (1..=others).map(|at| (u64::from(root) + u64::from(at) * step) % u64::from(ranks));
        let of_root = count_work(&*schedule, &layouts, [root]);
        let of_others = count_work(&*schedule, &layouts, sample.map(|rank| rank as u32));
        let like = f64::from(ranks - 1) / f64::from(others.max(1));
        let all = |count: fn(&WorkCounts) -> u64| count(&of_root) as f64 + like * count(&of_others) as f64;
        let bytes = |elements: fn(&WorkCounts) -> u64| all(elements) * self.element as f64;
        Some(Work {
            messages: all(|work| work.messages),
            waits: all(|work| work.waits),
            bytes: bytes(|work| work.sent),
            combined: bytes(|work| work.combined),
            copied: bytes(|work| work.copied),
        })
    }

    fn closed_form(&self, algorithm: &Algorithm, arguments: &Arguments<'_>) -> Option<Prediction> {
        let (operation, network) = (self.spec.operation, self.costs.network());
        if let Some(clusters) = network.as_clusters() {
            if !network.has_identity_placement() {
                return None;
            }
            let (name, profile) = (algorithm.name(), self.costs.profile());
            // Segments are whole elements, and the longest counts.
            let (element, segments) = (self.element as f64, f64::from(arguments.segments));
            let n = ((self.n() / element).ceil() / segments).ceil() * element * segments;
            let time = closed_form::time_on_clusters(name, arguments, operation, clusters, n, profile)?;
            let startups = time.min(profile.link_at(1).latency);
            return Some(Prediction { startups, bytes: time - startups, ..Prediction::default() });
        }
        // Formulas know no ports that ranks share; where there are too many messages to walk over them, that is all.
        if network.nodes_per_host() > 1 && self.spec.ranks <= MAX_WALKED_RANKS {
            return None;
        }
        let terms = closed_form::terms_with(algorithm.name(), *arguments, operation, network, self.n())?;
        let time = self.costs.time(&terms);
        // Where ranks share cores, each segment has to wait for them.
        let waits = self.costs.delay() * f64::from(arguments.segments - 1);
        Some(Prediction { startups: time.startups + waits, ..time })
    }

    /// n of the closed forms: of a rank, or the vector.
    fn n(&self) -> f64 {
        let bytes = self.bytes as f64;
        match self.spec.operation {
            Operation::Allgather | Operation::ReduceScatter | Operation::Gather { .. } | Operation::Scatter { .. } => {
                bytes / f64::from(self.spec.ranks)
            }
            _ => bytes,
        }
    }

    fn layouts(&self, schedule: &dyn Schedule) -> BlockLayouts {
        let elements = (self.bytes / self.element.max(1)) as usize;
        BlockLayouts::symmetric(BlockLayout::Even { total: elements, blocks: schedule.blocks() })
    }

    /// The time of a schedule that has no closed form, from message to message. A pipeline is walked over for some of
    /// its segments, and for half as many: each further segment takes what those between took.
    fn walk(&self, algorithm: &Algorithm, arguments: &Arguments<'_>) -> Option<Prediction> {
        let segments = arguments.segments;
        let walked = self.walked_segments(algorithm, arguments)?;
        let time = if segments <= walked {
            self.walk_segments(algorithm, arguments, segments)?
        } else {
            let half = self.walk_segments(algorithm, arguments, walked / 2)?;
            let all = self.walk_segments(algorithm, arguments, walked)?;
            all + f64::from(segments - walked) * (all - half).max(0.0) / f64::from(walked - walked / 2)
        };
        let startups = time.min(self.costs.latency() + self.costs.gap(0.0));
        Some(Prediction { startups, bytes: time - startups, ..Prediction::default() })
    }

    /// The number of segments that are walked over, if they are few enough: a multiple of the coordinators, and at
    /// least the number that fills the windows of wide-area links twice, since only later ones wait for these.
    fn walked_segments(&self, algorithm: &Algorithm, arguments: &Arguments<'_>) -> Option<u32> {
        let is_few = self.spec.ranks <= MAX_WALKED_RANKS;
        let segments = arguments.segments;
        let Some(of_segment) = hierarchical::messages_of_segment(self, algorithm, arguments) else {
            // It may have any number of messages, and the schedules of many ranks take long to build, too.
            return is_few.then_some(segments);
        };
        let least = if is_few { MIN_WALKED_SEGMENTS } else { MIN_WALKED_SEGMENTS / 4 };
        let filling = hierarchical::filling_segments(self, algorithm, arguments);
        let walked = least.max(filling).next_multiple_of(2 * arguments.coordinators).min(segments);
        let twice = if walked < segments { walked / 2 } else { 0 };
        let most = if is_few { MAX_WALKED_MESSAGES } else { MAX_WALKED_OF_MANY };
        (is_few && segments == 1 || u64::from(walked + twice) * of_segment <= most as u64).then_some(walked)
    }

    /// The time of the first of the segments.
    fn walk_segments(&self, algorithm: &Algorithm, arguments: &Arguments<'_>, segments: u32) -> Option<f64> {
        let of_all = arguments.segments;
        let arguments = Arguments { segments, ..*arguments };
        let schedule = registry::build(&variants::id(algorithm, &arguments), &self.spec).ok()?;
        let bytes = self.bytes as f64 * f64::from(segments) / f64::from(of_all);
        let elements = (bytes / self.element.max(1) as f64).round() as usize;
        let layouts = BlockLayouts::symmetric(BlockLayout::Even { total: elements, blocks: schedule.blocks() });
        let most = if self.spec.ranks <= MAX_WALKED_RANKS { MAX_WALKED_MESSAGES } else { usize::MAX };
        walk::time(&*schedule, &layouts, self.element as f64, &self.costs, most)
    }
}

/// A step by which all ranks are reached, and few steps reach ranks of all kinds: in trees, what a rank does depends on
/// the bits of its number.
fn spread(ranks: u32) -> u64 {
    let golden = (f64::from(ranks) * 0.618) as u32;
    (golden.max(1)..).find(|step| gcd(*step, ranks) == 1).unwrap_or(1).into()
}

fn gcd(one: u32, other: u32) -> u32 {
    if other == 0 { one } else { gcd(other, one % other) }
}

/// The arguments in an id.
fn arguments_of(id: &str) -> Option<Arguments<'_>> {
    Arguments::parse(id.split_once(':').map_or("", |(_, arguments)| arguments))
}

/// The same with each message in segments.
fn with_segments(work: Work, segments: u32) -> Work {
    Work { messages: work.messages * f64::from(segments), waits: work.waits * f64::from(segments), ..work }
}
