//! Pipelines: a message in k segments along a tree takes T = (k-1) gamma + lambda.   [P-LogP paper 3.1 to 3.4]
//!
//! lambda is the time until one segment has reached all ranks, gamma the interval between two segments. All forms here
//! are the paper's upper bounds, which it uses for its choices.

use super::PLogP;

/// A link, as the cost of a tree depends on it.
///
/// For links of different classes, implement this by the slowest of those that a layer uses.
pub trait PLogPLink {
    /// s(m): when the sender can send the next message, to another rank.
    fn send_time(&self, bytes: f64) -> f64;
    /// r(m): when the receiver has the message.
    fn receive_time(&self, bytes: f64) -> f64;
    /// g(m): when the next message can follow over the same link.
    fn gap(&self, bytes: f64) -> f64;
    /// os(m): send overhead.
    fn send_overhead(&self, bytes: f64) -> f64;
    /// or(m): receive overhead.
    fn recv_overhead(&self, bytes: f64) -> f64;
    /// L: latency.
    fn latency(&self) -> f64;
}

/// A local network: s = g, r = L + g.
impl PLogPLink for PLogP {
    fn send_time(&self, bytes: f64) -> f64 {
        self.gap.at(bytes)
    }

    fn receive_time(&self, bytes: f64) -> f64 {
        self.latency + self.gap.at(bytes)
    }

    fn gap(&self, bytes: f64) -> f64 {
        self.gap.at(bytes)
    }

    fn send_overhead(&self, bytes: f64) -> f64 {
        self.send_overhead.at(bytes)
    }

    fn recv_overhead(&self, bytes: f64) -> f64 {
        self.recv_overhead.at(bytes)
    }

    fn latency(&self) -> f64 {
        self.latency
    }
}

/// A wide-area link behind a gateway of a local network: s_w = max(g_l, os_w), all else is that of the wide-area link.
#[derive(Clone, Copy, Debug)]
pub struct GatewayLink<'a> {
    /// The link between clusters.
    pub wan: &'a PLogP,
    /// The local network of the sender.
    pub lan: &'a PLogP,
}

impl PLogPLink for GatewayLink<'_> {
    fn send_time(&self, bytes: f64) -> f64 {
        self.lan.gap.at(bytes).max(self.wan.send_overhead.at(bytes))
    }

    fn receive_time(&self, bytes: f64) -> f64 {
        self.wan.receive_time(bytes)
    }

    fn gap(&self, bytes: f64) -> f64 {
        self.wan.gap.at(bytes)
    }

    fn send_overhead(&self, bytes: f64) -> f64 {
        self.wan.send_overhead.at(bytes)
    }

    fn recv_overhead(&self, bytes: f64) -> f64 {
        self.wan.recv_overhead.at(bytes)
    }

    fn latency(&self) -> f64 {
        self.wan.latency
    }
}

/// gamma and lambda of one segment size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PipelineCost {
    /// Interval between two segments.
    pub gamma: f64,
    /// Time until a segment has reached all ranks.
    pub lambda: f64,
}

impl PipelineCost {
    /// T = (k-1) gamma + lambda.
    pub fn time(&self, segments: f64) -> f64 {
        (segments - 1.0) * self.gamma + self.lambda
    }
}

/// The minimum height of a tree of P ranks with at most d children each: the least h with 1 + d + ... + d^h >= P.
pub fn tree_height(ranks: u32, degree: u32) -> u32 {
    if degree <= 1 {
        return if degree == 0 { 0 } else { ranks.saturating_sub(1) };
    }
    let (mut height, mut level, mut all) = (0, 1u64, 1u64);
    while all < u64::from(ranks) {
        level *= u64::from(degree);
        all += level;
        height += 1;
    }
    height
}

/// Broadcast down a tree of one layer: gamma = max(g, or + d s), lambda = h ((d-1) s + r).   [3.1.1]
pub fn tree_cost(link: &dyn PLogPLink, bytes: f64, degree: u32, height: u32) -> PipelineCost {
    if height == 0 {
        return PipelineCost { gamma: 0.0, lambda: 0.0 };
    }
    let (children, send_time) = (f64::from(degree), link.send_time(bytes));
    PipelineCost {
        gamma: link.gap(bytes).max(link.recv_overhead(bytes) + children * send_time),
        lambda: f64::from(height) * ((children - 1.0) * send_time + link.receive_time(bytes)),
    }
}

/// Broadcast over clusters and within them at once: gamma = max(g_w, or_w + d_w s_w + d_l s_l), and both lambdas.
/// [3.1.2]
///
/// Trees are (degree, height); a layer of a single rank has height 0.
pub fn two_layer_cost(
    wan: &dyn PLogPLink,
    lan: &dyn PLogPLink,
    bytes: f64,
    outer: (u32, u32),
    inner: (u32, u32),
) -> PipelineCost {
    let (over, within) = (tree_cost(wan, bytes, outer.0, outer.1), tree_cost(lan, bytes, inner.0, inner.1));
    if outer.1 == 0 || inner.1 == 0 {
        return if outer.1 == 0 { within } else { over };
    }
    let forwarded = f64::from(outer.0) * wan.send_time(bytes) + f64::from(inner.0) * lan.send_time(bytes);
    PipelineCost {
        gamma: wan.gap(bytes).max(wan.recv_overhead(bytes) + forwarded),
        lambda: over.lambda + within.lambda,
    }
}

/// The maximum degree within a cluster that does not slow the wide-area links: floor(gamma'/s_l) with gamma' = max(g_w
/// - or_w - d_w s_w, s_l).   [3.1.2]
pub fn max_lan_degree(wan: &dyn PLogPLink, lan: &dyn PLogPLink, bytes: f64, degree: u32) -> u32 {
    let send_time = lan.send_time(bytes);
    let left = wan.gap(bytes) - wan.recv_overhead(bytes) - f64::from(degree) * wan.send_time(bytes);
    if send_time > 0.0 { ((left.max(send_time) / send_time) as u32).max(1) } else { u32::MAX }
}

/// The number of clusters, and of ranks in the largest of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterSizes {
    /// P_w: number of clusters.
    pub count: u32,
    /// P_l: number of ranks in a cluster.
    pub ranks: u32,
}

/// Scatter from one rank to all, a segment of each rank's block in turn. In a single cluster nothing goes over the wide
/// area.   [3.2]
pub fn scatter_cost(wan: &dyn PLogPLink, lan: &dyn PLogPLink, bytes: f64, clusters: ClusterSizes) -> PipelineCost {
    if clusters.count <= 1 {
        let all = f64::from(clusters.ranks) * lan.send_time(bytes);
        return PipelineCost { gamma: all + lan.recv_overhead(bytes), lambda: all + lan.latency() };
    }
    let (others, ranks) = (f64::from(clusters.count) - 1.0, f64::from(clusters.ranks));
    let over = others * wan.send_time(bytes);
    // To one rank of each cluster.
    let turn = wan.gap(bytes).max(over + lan.send_time(bytes));
    PipelineCost {
        gamma: ranks * turn + lan.recv_overhead(bytes),
        lambda: (ranks - 1.0) * turn + over + wan.receive_time(bytes),
    }
}

/// Gather from all to one rank. In a single cluster nothing comes over the wide area.   [3.3]
pub fn gather_cost(wan: &dyn PLogPLink, lan: &dyn PLogPLink, bytes: f64, clusters: ClusterSizes) -> PipelineCost {
    let (others, ranks) = (f64::from(clusters.count) - 1.0, f64::from(clusters.ranks));
    if clusters.count <= 1 {
        let receiving = ranks * lan.recv_overhead(bytes);
        let first = lan.latency().max(lan.send_overhead(bytes));
        return PipelineCost { gamma: receiving + lan.send_overhead(bytes), lambda: first + receiving };
    }
    let crossing = ranks * wan.gap(bytes);
    let receiving = ranks * lan.recv_overhead(bytes) + others * ranks * wan.recv_overhead(bytes);
    PipelineCost {
        gamma: crossing.max(receiving + lan.send_overhead(bytes)),
        lambda: (wan.latency() + crossing).max(lan.latency().max(lan.send_overhead(bytes)) + receiving),
    }
}

/// Allgather among the coordinators of clusters. It is free with a single cluster.   [3.4]
pub fn allgather_cost(wan: &dyn PLogPLink, lan: &dyn PLogPLink, bytes: f64, clusters: u32) -> PipelineCost {
    if clusters <= 1 {
        return PipelineCost { gamma: 0.0, lambda: 0.0 };
    }
    let count = f64::from(clusters);
    let processing = (count - 1.0) * (wan.send_time(bytes) + lan.gap(bytes).max(wan.recv_overhead(bytes)));
    PipelineCost {
        gamma: processing.max(wan.gap(bytes)),
        lambda: (count - 2.0) * wan.send_time(bytes) + wan.gap(bytes) + wan.latency(),
    }
}
