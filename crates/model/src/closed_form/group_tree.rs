//! The tree over outermost groups: its steps, and the links that it uses.

use std::borrow::Cow;

use treepie_schedule::Operation;
use treepie_topology::Network;

use super::arguments::Arguments;
use super::tree_layer::TreeLayer;
use crate::plogp::PLogP;
use crate::profile::LevelProfile;

/// The tree over outermost groups of an operation with a root, or the exchange of all of them.
pub(super) struct GroupTree {
    /// Messages one after the other to the farthest group, and with the sends before them.
    pub(super) height: f64,
    pub(super) steps: f64,
    /// The most children of a group.
    pub(super) degree: f64,
    /// The factors of the slowest link that is used.
    slowest: (f64, f64),
}

impl GroupTree {
    /// The tree over `count` groups, whose messages meet at this level.
    pub(super) fn new(
        network: &Network,
        (number, level): (u32, &LevelProfile),
        operation: Operation,
        arguments: &Arguments<'_>,
        count: u32,
    ) -> Self {
        let shape = arguments.wan;
        let of_shape = Self {
            height: shape.height(count),
            steps: shape.steps(count),
            degree: shape.degree(count),
            slowest: (1.0, 1.0),
        };
        // Where links are alike, only their classes tell groups apart.
        if level.pairs.is_empty() && !matches!(shape, TreeLayer::Links(_)) {
            return of_shape;
        }
        let groups = occupied(network, number);
        let to_root = matches!(operation, Operation::Reduce { .. });
        let has_tree = to_root || matches!(operation, Operation::Bcast { .. });
        let Some(root) = operation.root().filter(|_| has_tree && groups.len() == count as usize) else {
            return Self { slowest: slowest_of_all(level, &groups, |_, _| true), ..of_shape };
        };
        let root = group_of(network, number, root);
        let directed = |parent, child| if to_root { (child, parent) } else { (parent, child) };
        let numbers: Vec<u32> =
            std::iter::once(root).chain(groups.iter().copied().filter(|group| *group != root)).collect();
        let parents = match shape {
            TreeLayer::Flat => vec![0; numbers.len()],
            TreeLayer::Links(classes) => classes.bottleneck_tree(&numbers),
            _ => return Self { slowest: slowest_of_all(level, &groups, |_, _| true), ..of_shape },
        };
        if arguments.coordinators > 1 {
            // Each tree leads through another group, and none back to the root's.
            let is_used = |from, to| directed(from, to).1 != root;
            return Self { slowest: slowest_of_all(level, &groups, is_used), ..of_shape };
        }
        let links = (1..parents.len()).map(|child| directed(numbers[parents[child]], numbers[child]));
        let slowest = links.map(|(from, to)| level.factors(from, to)).reduce(slower).unwrap_or((1.0, 1.0));
        let (height, steps, degree) = depths(&parents);
        Self { height, steps, degree, slowest }
    }

    /// The slowest of the links of this level that are used.
    pub(super) fn slowest_link<'a>(&self, level: &'a LevelProfile) -> Cow<'a, PLogP> {
        let (latency, bytes) = self.slowest;
        if self.slowest == (1.0, 1.0) {
            return Cow::Borrowed(&level.link);
        }
        let link = &level.link;
        Cow::Owned(PLogP { latency: link.latency * latency, gap: link.gap.scaled(bytes, bytes), ..link.clone() })
    }
}

fn slower(one: (f64, f64), other: (f64, f64)) -> (f64, f64) {
    (one.0.max(other.0), one.1.max(other.1))
}

/// The factors of the slowest of all used links between these groups, which are sorted. Links without factors are
/// as the level's.
fn slowest_of_all(level: &LevelProfile, groups: &[u32], is_used: impl Fn(u32, u32) -> bool) -> (f64, f64) {
    let has_ranks = |group: u32| groups.binary_search(&group).is_ok();
    let links = level.pairs.iter().filter(|pair| has_ranks(pair.from) && has_ranks(pair.to));
    let all = groups.len() * groups.len().saturating_sub(1);
    let unlisted = (links.clone().count() < all).then_some((1.0, 1.0));
    let used = links.filter(|pair| is_used(pair.from, pair.to)).map(|pair| (pair.latency, pair.bytes));
    used.chain(unlisted).reduce(slower).unwrap_or((1.0, 1.0))
}

/// The height of a tree, its steps, and the most children of a node, from the parent of each node; the first is the
/// root.
fn depths(parents: &[usize]) -> (f64, f64, f64) {
    let siblings = |node: usize| (1..=node).filter(move |child| parents[*child] == parents[node]).count();
    let (mut height, mut steps, mut degree) = (0, 0, 0);
    for node in 1..parents.len() {
        let path = std::iter::successors(Some(node), |node| Some(parents[*node])).take_while(|node| *node != 0);
        let (hops, sends) = path.fold((0, 0), |(hops, sends), node| (hops + 1, sends + siblings(node)));
        (height, steps, degree) = (height.max(hops), steps.max(sends), degree.max(siblings(node)));
    }
    (f64::from(height), steps as f64, degree as f64)
}

/// The group of a rank on the level below, numbered as links between groups are.
fn group_of(network: &Network, level: u32, rank: u32) -> u32 {
    match network.as_clusters() {
        Some(clusters) => clusters.group_of(level - 1, network.node_of(rank)),
        None => network.host_of(rank),
    }
}

/// All groups on the level below that have ranks.
fn occupied(network: &Network, level: u32) -> Vec<u32> {
    if let Some(clusters) = network.as_clusters().filter(|_| network.has_identity_placement()) {
        return (0..clusters.groups(level - 1)).collect();
    }
    let mut groups: Vec<u32> = (0..network.ranks()).map(|rank| group_of(network, level, rank)).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}
