//! Operations over clusters: the P-LogP paper's pipelines along trees over clusters and within them.   [P-LogP paper 3]
//!
//! MagPIe's originals are the same without segments: T_w + T_l, over a flat tree and a binomial one.   [3.1.3]

use treepie_schedule::Operation;
use treepie_topology::Clusters;

use super::arguments::Arguments;
use super::tree_layer::TreeLayer;
use crate::Profile;
use crate::plogp::{ClusterSizes, GatewayLink, PipelineCost, gather_cost, scatter_cost, two_layer_cost};

/// The time of an algorithm for clusters in microseconds, if there is a formula for it. `bytes` is n as in
/// [`terms`](super::terms).
pub fn time_on_clusters(
    name: &str,
    arguments: &Arguments<'_>,
    operation: Operation,
    clusters: &Clusters,
    bytes: f64,
    profile: &Profile,
) -> Option<f64> {
    // Trees over several levels have other pipelines, and formulas know only one link between clusters.
    let are_links_alike = profile.level(1).pairs.is_empty() && !matches!(arguments.wan, TreeLayer::Links(_));
    if clusters.levels() > 1 || arguments.coordinators > 1 || !are_links_alike {
        return None;
    }
    let (lan, wan) = (profile.link(), profile.link_at(1));
    let gateway = GatewayLink { wan, lan };
    let sizes = ClusterSizes { count: clusters.count(), ranks: clusters.sizes().max()? };
    let segments = f64::from(arguments.segments);
    let segment = bytes / segments;
    // Nor do they know that a rendezvous waits for its receiver, and that the next ones go on meanwhile.
    if segment > profile.synchronous.vanishes_at {
        return None;
    }
    let layer = |layer: TreeLayer, ranks: u32| match ranks {
        0 | 1 => (0, 0),
        _ => (layer.degree(ranks) as u32, layer.height(ranks) as u32),
    };
    let tree = || {
        let (over, within) = (layer(arguments.wan, sizes.count), layer(arguments.lan, sizes.ranks));
        two_layer_cost(&gateway, lan, segment, over, within)
    };
    // A binomial tree of p ranks takes lg p messages one after the other.
    let original = || {
        let over = layer(TreeLayer::Flat, sizes.count);
        let steps = TreeLayer::Binomial.steps(sizes.ranks) as u32;
        two_layer_cost(&gateway, lan, segment, over, (steps.min(1), steps))
    };
    let pipeline: PipelineCost = match (name, operation) {
        ("magpie", Operation::Bcast { .. }) => original(),
        ("magpie", Operation::Scatter { .. }) => scatter_cost(&gateway, lan, segment, sizes),
        ("magpie", Operation::Gather { .. }) => gather_cost(&gateway, lan, segment, sizes),
        ("hierarchical", Operation::Bcast { .. }) => tree(),
        ("hierarchical", Operation::Reduce { .. }) => {
            let PipelineCost { gamma, lambda } = tree();
            // Each received segment is combined.
            let combining = segment * profile.reduce_per_byte;
            let (over, within) = (arguments.wan.degree(sizes.count), arguments.lan.degree(sizes.ranks));
            PipelineCost { gamma: gamma + (over + within) * combining, lambda: lambda + (over + within) * combining }
        }
        ("in_turn", Operation::Scatter { .. }) => scatter_cost(&gateway, lan, segment, sizes),
        ("in_turn", Operation::Gather { .. }) => gather_cost(&gateway, lan, segment, sizes),
        _ => return None,
    };
    // A rank that sends over the wide area can send its next segment, and has completed, when its send has: a long one
    // waits for flow control.
    let sent = match operation {
        Operation::Gather { .. } | Operation::Reduce { .. } if sizes.count > 1 => wan.send_overhead.at(segment),
        _ => 0.0,
    };
    let PipelineCost { gamma, lambda } = pipeline;
    Some(PipelineCost { gamma: gamma.max(sent), lambda: lambda.max(sent) }.time(segments))
}
