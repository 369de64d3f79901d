//! Operations over clusters: the P-LogP paper's pipelines along trees over clusters and within them.   [P-LogP paper 3]

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
    // Trees over several levels have other pipelines.
    if clusters.levels() > 1 {
        return None;
    }
    let (lan, wan) = (profile.link(), profile.link_at(1));
    let gateway = GatewayLink { wan, lan };
    let sizes = ClusterSizes { count: clusters.count(), ranks: clusters.sizes().max()? };
    let segments = f64::from(arguments.segments);
    let segment = bytes / segments;
    let layer = |layer: TreeLayer, ranks: u32| match ranks {
        0 | 1 => (0, 0),
        _ => (layer.degree(ranks) as u32, layer.height(ranks) as u32),
    };
    let tree = || {
        let (over, within) = (layer(arguments.wan, sizes.count), layer(arguments.lan, sizes.ranks));
        two_layer_cost(&gateway, lan, segment, over, within)
    };
    let pipeline: PipelineCost = match (name, operation) {
        ("two_layer", Operation::Bcast { .. }) => tree(),
        ("two_layer", Operation::Reduce { .. }) => {
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
