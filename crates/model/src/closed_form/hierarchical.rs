//! Hierarchical operations over clusters on any number of levels, for more ranks than can be walked over.
//!
//! As the P-LogP paper's pipelines, T = (s-1) gamma + lambda: lambda is the time of a segment up the trees of all levels,
//! among the coordinators and down again, gamma that of the busiest link or port. All groups of a level are as large as
//! the largest, and where links differ all are as slow as the slowest that is used. An estimate, within about a quarter
//! of the walk; of an all-to-all, half.   [P-LogP paper 3.1.2, 3.4]

use treepie_schedule::{Operation, SEGMENTS_IN_FLIGHT};
use treepie_topology::{Clusters, Network};

use super::arguments::Arguments;
use super::group_tree::GroupTree;
use super::tree_layer::TreeLayer;
use crate::Profile;
use crate::plogp::{GatewayLink, PLogP, PLogPLink, PipelineCost};

/// A layer of the trees: within clusters, or over the groups of a level within one of the next.
struct Layer<'a> {
    link: &'a PLogP,
    shape: TreeLayer,
    /// Members of the tree, and the ranks of each.
    members: u32,
    ranks: u32,
}

/// The trees of an outermost group, and the links to the others.
struct Hierarchy<'a> {
    lan: &'a PLogP,
    wan: &'a PLogP,
    layers: Vec<Layer<'a>>,
    coordinators: f64,
    /// The time to combine a byte.
    combining: f64,
}

/// Bytes of a segment.
struct SegmentBytes {
    /// Of a message over a link between outermost groups.
    exchanged: f64,
    /// The number of these that follow each other, and of the sends before them on their coordinators.
    crossings: f64,
    waits: f64,
    /// The number that a link carries, or the port of a host, and that a coordinator sends.
    link_share: f64,
    fanout: f64,
    up: Upward,
    down: f64,
    /// Whether a root is the only coordinator of its group, and sends each segment to one other group.
    has_root: bool,
    /// The share of ranks that have a segment back only when it was everywhere.
    waiting: f64,
}

/// Bytes on the way up.
enum Upward {
    Nothing,
    Vector(f64),
    /// The block of each rank.
    Blocks(f64),
}

/// The time of a hierarchical algorithm that distinguishes all levels or the innermost clusters, or of an all-to-all
/// that may know none, over clusters or hosts, in microseconds. `bytes` is n as in [`terms`](super::terms).
pub fn estimate_on_clusters(
    name: &str,
    arguments: &Arguments<'_>,
    operation: Operation,
    network: &Network,
    bytes: f64,
    profile: &Profile,
) -> Option<f64> {
    let clusters = &*network.occupied_clusters()?;
    let outermost = (1..=clusters.levels()).rev().find(|level| clusters.groups(level - 1) > 1)?;
    // Hosts have a port for all others, clusters a link to each other.
    let has_ports = network.has_hosts();
    if operation == Operation::Alltoall {
        return alltoall(name, arguments, clusters, has_ports, bytes, profile);
    }
    let is_innermost = match arguments.levels {
        "all" => false,
        // Several coordinators lead through other clusters, of which some are near.
        "innermost" if arguments.coordinators == 1 => true,
        _ => return None,
    };
    let bytes = if operation == Operation::Barrier { 0.0 } else { bytes };
    let segment = bytes / f64::from(arguments.segments);
    let outermost_groups = f64::from(clusters.groups(outermost - 1));
    // Pairs of clusters share the links between outermost groups.
    let (groups, sharing) = match is_innermost {
        true => (f64::from(clusters.count()), f64::from(clusters.count()) / outermost_groups),
        false => (outermost_groups, 1.0),
    };
    let p = f64::from(clusters.nodes());
    let (coordinators, others) = (f64::from(arguments.coordinators), groups - 1.0);
    let vector = |exchanged, crossings: f64| {
        let (up, down) = (Upward::Vector(segment), segment);
        let link_share = if has_ports { crossings * others } else { crossings * sharing * sharing };
        SegmentBytes {
            exchanged,
            crossings,
            waits: crossings * (others - 1.0),
            link_share,
            fanout: crossings * others,
            up,
            down,
            has_root: false,
            waiting: 1.0,
        }
    };
    let level = profile.level(outermost as usize);
    let outermost_tree = GroupTree::new(network, (outermost, level), operation, arguments, groups as u32);
    let sizes = match (name, operation) {
        ("hierarchical", Operation::Barrier) => vector(segment, 1.0),
        ("hierarchical", Operation::Scan | Operation::Exscan) => {
            // The first group waits for no other.
            SegmentBytes { waiting: (groups - 1.0) / groups, ..vector(segment, 1.0) }
        }
        // A reduction is a broadcast backwards. Several trees lead through another group.
        ("hierarchical", Operation::Bcast { .. } | Operation::Reduce { .. }) => {
            let coordinators = coordinators.min(others);
            // Each host sends once up a tree; ports of receivers are not modelled, as in the walk.
            let of_port = |sent: f64| if matches!(operation, Operation::Reduce { .. }) { 1.0 } else { sent };
            let relayed = SegmentBytes { up: Upward::Nothing, has_root: true, waiting: 0.0, ..vector(segment, 2.0) };
            if coordinators > 1.0 {
                let relaying = of_port(((others - 1.0) / coordinators).max(1.0));
                SegmentBytes { link_share: if has_ports { relaying } else { sharing / coordinators }, ..relayed }
            } else {
                let GroupTree { height, steps, degree, .. } = outermost_tree;
                SegmentBytes {
                    crossings: height,
                    waits: steps - height,
                    link_share: if has_ports { of_port(degree) } else { sharing },
                    fanout: degree,
                    has_root: false,
                    ..relayed
                }
            }
        }
        ("hierarchical", Operation::Allgather | Operation::ReduceScatter) => {
            SegmentBytes { up: Upward::Blocks(segment), down: segment * p, ..vector(segment * p / groups, 1.0) }
        }
        ("hierarchical", Operation::Allreduce) => vector(segment / groups, 2.0),
        ("hierarchical_linear", Operation::Allreduce) => vector(segment, 1.0),
        _ => return None,
    };
    let combines = operation.is_reduction();
    let mut layers = Vec::new();
    let mut ranks = 1;
    for level in 0..if is_innermost { 1 } else { outermost } {
        let members = match level {
            0 => clusters.sizes().max()?,
            _ => (0..clusters.groups(level)).map(|group| clusters.subgroups(level, group).len() as u32).max()?,
        };
        let shape = if level == 0 { arguments.lan } else { arguments.wan };
        layers.push(Layer { link: profile.link_at(level as usize), shape, members, ranks });
        ranks *= members;
    }
    let wan = outermost_tree.slowest_link(level);
    let hierarchy = Hierarchy {
        lan: profile.link(),
        wan: &wan,
        layers,
        coordinators: f64::from(arguments.coordinators.min(ranks)),
        combining: if combines { profile.reduce_per_byte + profile.copy_per_byte } else { 0.0 },
    };
    let segments = f64::from(arguments.segments);
    Some(hierarchy.pipeline(&sizes, segments).time(segments))
}

/// The groups of a level. Each rank is one, and so are all ranks.
#[derive(Clone, Copy)]
struct LevelGroups {
    /// Ranks of the largest.
    largest: f64,
    /// Pairs of ranks of the two largest: the blocks between them.
    pairs: f64,
}

impl LevelGroups {
    fn new(sizes: impl Iterator<Item = usize>) -> Self {
        let (mut largest, mut second) = (0, 0);
        for size in sizes {
            (largest, second) = if size > largest { (size, largest) } else { (largest, second.max(size)) };
        }
        Self { largest: largest as f64, pairs: (largest * second.max(1)) as f64 }
    }
}

/// An all-to-all, of `bytes` of each rank: at once, or in a stage for each of some levels. Messages have the average
/// length, and links carry what the largest groups exchange.
fn alltoall(
    name: &str,
    arguments: &Arguments<'_>,
    clusters: &Clusters,
    has_ports: bool,
    bytes: f64,
    profile: &Profile,
) -> Option<f64> {
    let levels = clusters.levels() as usize;
    let ranks = clusters.nodes();
    let mut groups = vec![LevelGroups { largest: 1.0, pairs: 1.0 }];
    for level in 0..clusters.levels() {
        let sizes = (0..clusters.groups(level)).map(|group| clusters.group_members(level, group).len());
        groups.push(LevelGroups::new(sizes));
    }
    groups.push(LevelGroups::new([ranks as usize].into_iter()));
    let ends: Vec<usize> = match (name, arguments.levels) {
        ("linear", _) => vec![0, levels + 1],
        ("hierarchical", "all") => (0..=levels + 1).collect(),
        ("hierarchical", "innermost") => vec![0, 1, levels + 1],
        ("hierarchical", "outermost") => vec![0, levels, levels + 1],
        _ => return None,
    };
    // The most groups of a level in one of another.
    let most_groups = |inner: usize, outer: usize| match (inner as u32, outer) {
        (0, _) => groups[outer].largest,
        (inner, outer) if outer > levels => f64::from(clusters.groups(inner - 1)),
        (inner, outer) => {
            let number = |group| {
                let nodes = clusters.group_members(outer as u32 - 1, group);
                clusters.group_of(inner - 1, nodes.end - 1) - clusters.group_of(inner - 1, nodes.start) + 1
            };
            f64::from((0..clusters.groups(outer as u32 - 1)).map(number).max().unwrap_or(1))
        }
    };
    // The busiest rank at the start of a stage has this number of times the blocks of others.
    let mut share = 1.0;
    let mut time = 0.0;
    for ends in ends.windows(2).rev() {
        let (inner, outer) = (ends[0], ends[1]);
        let link = |level: usize| profile.link_at(level);
        let peers = most_groups(inner, outer);
        if peers <= 1.0 {
            continue;
        }
        let coordinators = f64::from(arguments.coordinators).min(groups[inner].largest);
        // Ranks of which each sends what all of them have for some of the other groups.
        let team = groups[inner].largest / coordinators;
        let sent = share * bytes / peers;
        if team > 1.0 {
            let message = sent * (peers - 1.0) / team.min(peers - 1.0);
            let own = link(inner - 1);
            time += own.latency + own.gap.at(message) + (team - 2.0).max(0.0) * link(0).gap.at(message);
        }
        let message = sent * team;
        let send = |level: usize| match level {
            0 => link(0).gap.at(message),
            _ => GatewayLink { wan: link(level), lan: link(0) }.send_time(message),
        };
        // Between two groups a coordinator of one has a message for each subgroup of the other.
        let longest = bytes * groups[inner].largest / groups[outer].largest * team;
        let carried = |level: usize| match level {
            0 => 0.0,
            // The port of a group carries what it has for all others.
            _ if has_ports => {
                let own = groups[level].largest;
                own * (groups[outer].largest - own) / (groups[inner].largest * team) * link(level).gap.at(longest)
            }
            _ => groups[level].pairs / (groups[inner].largest * team) * link(level).gap.at(longest),
        };
        let busiest = (inner..outer).map(carried).fold(0.0, f64::max);
        // At once all ranks of a group send to the same other group first: where the messages do not fit into the window
        // of that link, they wait for it while others are idle.
        let window = link(outer - 1).send_overhead.knees().next().unwrap_or(f64::INFINITY);
        let at_once = groups[outer - 1].pairs * bytes / groups[outer].largest;
        let is_blocked = !has_ports && outer - inner > 1 && at_once > window;
        let busiest = if is_blocked { busiest * (most_groups(outer - 1, outer) - 1.0) } else { busiest };
        let messages = ((peers - 1.0) / team).ceil();
        time += link(outer - 1).latency + busiest.max(messages * send(outer - 1));
        // Where few messages arrive, few ranks have what the others wait for.
        share = (groups[inner].largest / ((peers - 1.0) * coordinators)).max(1.0);
    }
    Some(time)
}

impl Hierarchy<'_> {
    fn pipeline(&self, sizes: &SegmentBytes, segments: f64) -> PipelineCost {
        let port = |bytes: f64| self.lan.gap.at(bytes);
        let exchanged = sizes.exchanged;
        // Long messages wait for flow control.
        let (send, carry) =
            (GatewayLink { wan: self.wan, lan: self.lan }.send_time(exchanged), self.wan.gap.at(exchanged));
        let queued = sizes.crossings * (sizes.link_share / sizes.crossings).max(1.0) * carry;
        let mut lambda = sizes.crossings * (self.wan.latency + self.combining * exchanged)
            + queued.max(sizes.waits * send + sizes.crossings * carry);
        let mut busiest = sizes.link_share * carry;
        // What the coordinator sends, and combines.
        let mut sent = sizes.fanout * (send + self.combining * exchanged);
        let mut sent_by_root = send + self.combining * exchanged;
        for layer in self.layers.iter().filter(|layer| layer.members > 1) {
            let Layer { link, shape, members, ranks } = *layer;
            let (steps, height) = (shape.steps(members), shape.height(members).max(1.0));
            let hops =
                |bytes: f64| height * (link.latency + link.gap.at(bytes)) + (steps - height).max(0.0) * port(bytes);
            let up = match sizes.up {
                Upward::Nothing => 0.0,
                Upward::Vector(bytes) => hops(bytes) + height * self.combining * bytes,
                // They arrive one after the other, whatever the tree.
                Upward::Blocks(block) => {
                    let arriving = port(block * f64::from(ranks)).min(link.gap.at(block));
                    height * link.latency + f64::from(members - 1) * arriving
                }
            };
            lambda += up + hops(sizes.down);
            let send = if ranks == 1 {
                port(sizes.down)
            } else {
                GatewayLink { wan: link, lan: self.lan }.send_time(sizes.down)
            };
            let to_children = shape.degree(members) * (send + self.combining * sizes.down);
            sent += to_children;
            sent_by_root += to_children;
            // Coordinators are in different groups of the level below first.
            busiest = busiest.max(link.gap.at(sizes.down) / self.coordinators.min(f64::from(members)));
        }
        // Another segment starts when the first is back.
        let turns = (segments / (f64::from(SEGMENTS_IN_FLIGHT) * self.coordinators) - 1.0).max(0.0);
        let window = sizes.waiting * turns * lambda / (segments - 1.0).max(1.0);
        let bound = if sizes.has_root { sent_by_root } else { window };
        PipelineCost { gamma: busiest.max(bound).max(sent / self.coordinators), lambda }
    }
}
