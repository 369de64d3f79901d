//! What a message in k segments costs along a tree: T = (k-1) gamma + lambda.   [P-LogP paper 3.1 to 3.4]
//!
//! lambda is the time until one segment is everywhere, gamma the time between two segments. All forms here are the
//! paper's upper bounds, which it uses for its choices.

use super::PLogP;

/// A link as a tree's cost is made of it.
///
/// Someone whose links are not all alike implements this by the slowest of those that a layer uses.
pub trait Link {
    /// s(m): when the sender can send the next message, to somebody else.
    fn sent(&self, bytes: f64) -> f64;
    /// r(m): when the receiver has it.
    fn received(&self, bytes: f64) -> f64;
    /// g(m): when the next message can follow over the same link.
    fn gap(&self, bytes: f64) -> f64;
    /// os(m).
    fn sending(&self, bytes: f64) -> f64;
    /// or(m).
    fn receiving(&self, bytes: f64) -> f64;
    /// L.
    fn latency(&self) -> f64;
}

/// A local network: s = g, r = L + g.
impl Link for PLogP {
    fn sent(&self, bytes: f64) -> f64 {
        self.gap.at(bytes)
    }

    fn received(&self, bytes: f64) -> f64 {
        self.latency + self.gap.at(bytes)
    }

    fn gap(&self, bytes: f64) -> f64 {
        self.gap.at(bytes)
    }

    fn sending(&self, bytes: f64) -> f64 {
        self.send.at(bytes)
    }

    fn receiving(&self, bytes: f64) -> f64 {
        self.receive.at(bytes)
    }

    fn latency(&self) -> f64 {
        self.latency
    }
}

/// A wide-area link behind a local network, by a gateway: s_w = max(g_l, os_w), the rest is that of the wide-area link.
#[derive(Clone, Copy, Debug)]
pub struct Wide<'a> {
    /// Between clusters.
    pub wan: &'a PLogP,
    /// Within the sender's.
    pub lan: &'a PLogP,
}

impl Link for Wide<'_> {
    fn sent(&self, bytes: f64) -> f64 {
        self.lan.gap.at(bytes).max(self.wan.send.at(bytes))
    }

    fn received(&self, bytes: f64) -> f64 {
        self.wan.received(bytes)
    }

    fn gap(&self, bytes: f64) -> f64 {
        self.wan.gap.at(bytes)
    }

    fn sending(&self, bytes: f64) -> f64 {
        self.wan.send.at(bytes)
    }

    fn receiving(&self, bytes: f64) -> f64 {
        self.wan.receive.at(bytes)
    }

    fn latency(&self) -> f64 {
        self.wan.latency
    }
}

/// gamma and lambda of one segment size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Between two segments.
    pub gamma: f64,
    /// Until a segment is everywhere.
    pub lambda: f64,
}

impl Pace {
    /// T = (k-1) gamma + lambda.
    pub fn time(&self, segments: f64) -> f64 {
        (segments - 1.0) * self.gamma + self.lambda
    }
}

/// The least height of a tree with so many ranks, none of which has more than `degree` children: the least h with
/// 1 + d + ... + d^h >= P.
pub fn height(ranks: u32, degree: u32) -> u32 {
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
pub fn tree(link: &dyn Link, bytes: f64, degree: u32, height: u32) -> Pace {
    if height == 0 {
        return Pace { gamma: 0.0, lambda: 0.0 };
    }
    let (children, sent) = (f64::from(degree), link.sent(bytes));
    Pace {
        gamma: link.gap(bytes).max(link.receiving(bytes) + children * sent),
        lambda: f64::from(height) * ((children - 1.0) * sent + link.received(bytes)),
    }
}

/// Broadcast over clusters and within them at once: gamma = max(g_w, or_w + d_w s_w + d_l s_l), and both lambdas.
/// [3.1.2]
///
/// Trees are (degree, height); a layer of a single rank has height 0.
pub fn layers(wan: &dyn Link, lan: &dyn Link, bytes: f64, outer: (u32, u32), inner: (u32, u32)) -> Pace {
    let (over, within) = (tree(wan, bytes, outer.0, outer.1), tree(lan, bytes, inner.0, inner.1));
    if outer.1 == 0 || inner.1 == 0 {
        return if outer.1 == 0 { within } else { over };
    }
    let forwarded = f64::from(outer.0) * wan.sent(bytes) + f64::from(inner.0) * lan.sent(bytes);
    Pace { gamma: wan.gap(bytes).max(wan.receiving(bytes) + forwarded), lambda: over.lambda + within.lambda }
}

/// The most children within a cluster that do not slow the wide-area links: floor(gamma'/s_l) with
/// gamma' = max(g_w - or_w - d_w s_w, s_l).   [3.1.2]
pub fn lan_degrees(wan: &dyn Link, lan: &dyn Link, bytes: f64, degree: u32) -> u32 {
    let sent = lan.sent(bytes);
    let left = wan.gap(bytes) - wan.receiving(bytes) - f64::from(degree) * wan.sent(bytes);
    if sent > 0.0 { ((left.max(sent) / sent) as u32).max(1) } else { u32::MAX }
}

/// How many clusters, and how many ranks in the largest of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clusters {
    /// P_w.
    pub count: u32,
    /// P_l.
    pub ranks: u32,
}

/// Scatter from one rank to all, a segment of each one's block in turn. In a single cluster nothing goes over the wide
/// area.   [3.2]
pub fn scatter(wan: &dyn Link, lan: &dyn Link, bytes: f64, clusters: Clusters) -> Pace {
    if clusters.count <= 1 {
        let all = f64::from(clusters.ranks) * lan.sent(bytes);
        return Pace { gamma: all + lan.receiving(bytes), lambda: all + lan.latency() };
    }
    let (others, ranks) = (f64::from(clusters.count) - 1.0, f64::from(clusters.ranks));
    let over = others * wan.sent(bytes);
    // To one rank of each cluster.
    let turn = wan.gap(bytes).max(over + lan.sent(bytes));
    Pace { gamma: ranks * turn + lan.receiving(bytes), lambda: (ranks - 1.0) * turn + over + wan.received(bytes) }
}

/// Gather from all to one rank. In a single cluster nothing comes over the wide area.   [3.3]
pub fn gather(wan: &dyn Link, lan: &dyn Link, bytes: f64, clusters: Clusters) -> Pace {
    let (others, ranks) = (f64::from(clusters.count) - 1.0, f64::from(clusters.ranks));
    if clusters.count <= 1 {
        let receiving = ranks * lan.receiving(bytes);
        let first = lan.latency().max(lan.sending(bytes));
        return Pace { gamma: receiving + lan.sending(bytes), lambda: first + receiving };
    }
    let crossing = ranks * wan.gap(bytes);
    let receiving = ranks * lan.receiving(bytes) + others * ranks * wan.receiving(bytes);
    Pace {
        gamma: crossing.max(receiving + lan.sending(bytes)),
        lambda: (wan.latency() + crossing).max(lan.latency().max(lan.sending(bytes)) + receiving),
    }
}

/// Allgather among the coordinators of clusters. One alone has everything.   [3.4]
pub fn allgather(wan: &dyn Link, lan: &dyn Link, bytes: f64, clusters: u32) -> Pace {
    if clusters <= 1 {
        return Pace { gamma: 0.0, lambda: 0.0 };
    }
    let count = f64::from(clusters);
    let processing = (count - 1.0) * (wan.sent(bytes) + lan.gap(bytes).max(wan.receiving(bytes)));
    Pace {
        gamma: processing.max(wan.gap(bytes)),
        lambda: (count - 2.0) * wan.sent(bytes) + wan.gap(bytes) + wan.latency(),
    }
}
