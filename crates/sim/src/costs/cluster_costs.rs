//! Costs of clusters: a local network, and WAN links between clusters and groups of clusters.

use treepie_base::memory::with_capacity;
use treepie_topology::Clusters;

use super::PLogP;
use crate::error::{Result, bandwidth, not_negative, positive};

/// A WAN link from one cluster, or group of clusters, to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WanLink {
    /// Latency from gateway to gateway.
    pub latency: f64,
    /// Bytes per microsecond.
    pub bandwidth: f64,
}

/// Name of the WAN link matrix in out-of-memory errors.
pub(crate) const WAN_LINKS: &str = "the links between all clusters";

/// The WAN links of clusters, one for each ordered pair of groups of a level that are in one group of the level above.
#[derive(Clone, Debug, PartialEq)]
pub enum WanLinks {
    /// By source and destination, for clusters that are not nested; the diagonal is not used.
    Matrix(Vec<Vec<WanLink>>),
    /// Alike on each level: first those between the clusters of a group, last those between the outermost groups.
    PerLevel(Vec<WanLink>),
}

impl WanLinks {
    /// All links, to change them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut WanLink> {
        let (matrix, levels): (&mut [Vec<WanLink>], &mut [WanLink]) = match self {
            WanLinks::Matrix(rows) => (rows, &mut []),
            WanLinks::PerLevel(levels) => (&mut [], levels),
        };
        matrix.iter_mut().flatten().chain(levels)
    }

    /// All links that are used.
    pub fn iter(&self) -> impl Iterator<Item = &WanLink> {
        let (matrix, levels): (&[Vec<WanLink>], &[WanLink]) = match self {
            WanLinks::Matrix(rows) => (rows, &[]),
            WanLinks::PerLevel(levels) => (&[], levels),
        };
        let between = matrix
            .iter()
            .enumerate()
            .flat_map(|(from, row)| row.iter().enumerate().filter(move |(to, _)| *to != from).map(|(_, link)| link));
        between.chain(levels)
    }
}

/// Clusters with gateways, and WAN links between them.   [P-LogP 3, 4]
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterCosts {
    /// The local network of a cluster, also to and from its gateway.
    pub lan: PLogP,
    /// The WAN links.
    pub wan: WanLinks,
    /// Window of a gateway: bytes buffered ahead of each WAN link. A sender blocks until there is room.
    pub window: u64,
}

impl ClusterCosts {
    /// The window of the paper's wide-area links.
    pub const WINDOW: u64 = 64 << 10;

    /// The same WAN link between all clusters.
    pub fn uniform(lan: PLogP, wan: WanLink, clusters: u32) -> Self {
        let wan = WanLinks::Matrix(vec![vec![wan; clusters as usize]; clusters as usize]);
        Self { lan, wan, window: Self::WINDOW }
    }

    /// As [`uniform`](Self::uniform); fails if the matrix does not fit into memory.
    pub fn try_uniform(lan: PLogP, wan: WanLink, clusters: u32) -> Result<Self> {
        // Reserve for two matrices, as the machine copies this one; freed at once.
        with_capacity::<[WanLink; 2]>(clusters as usize * clusters as usize, WAN_LINKS)?;
        Ok(Self::uniform(lan, wan, clusters))
    }

    /// A WAN link for each level of nested clusters, from the innermost: `wan[0]` between the clusters of a group, the
    /// last between the outermost groups.
    pub fn per_level(lan: PLogP, wan: Vec<WanLink>) -> Self {
        Self { lan, wan: WanLinks::PerLevel(wan), window: Self::WINDOW }
    }

    /// The P-LogP paper's simulated wide-area links, of 10 ms and 1 MB/s, with 20 us and 50 MB/s within clusters.
    pub(super) fn wide_area(clusters: &Clusters) -> Result<Self> {
        let (lan, levels) = (PLogP::from_latency_bandwidth(20.0, 50.0), clusters.levels());
        let outermost = WanLink { latency: 10_000.0, bandwidth: 1.0 };
        if levels == 1 {
            return Self::try_uniform(lan, outermost, clusters.count());
        }
        let level = |level: u32| {
            let part = f64::from(level) / f64::from(levels);
            WanLink { latency: 20.0 * (10_000.0f64 / 20.0).powf(part), bandwidth: 50.0 * (1.0f64 / 50.0).powf(part) }
        };
        Ok(Self::per_level(lan, (1..levels).map(level).chain([outermost]).collect()))
    }

    pub(super) fn check(&self) -> Result<()> {
        not_negative("the latency of a local link", self.lan.latency)?;
        for (name, curve) in [
            ("a send overhead", &self.lan.send_overhead),
            ("a receive overhead", &self.lan.recv_overhead),
            ("a gap", &self.lan.gap),
        ] {
            curve.points().iter().try_for_each(|(_, time)| not_negative(name, *time))?;
        }
        positive("the window of a gateway", self.window as f64)?;
        for link in self.wan.iter() {
            not_negative("the latency between clusters", link.latency)?;
            bandwidth("the bandwidth between clusters", link.bandwidth)?;
        }
        Ok(())
    }
}

/// Groups of one level that are in one group of the level above. WAN links connect each pair of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SiblingGroups {
    /// The level above, and so that of the links.
    pub(crate) level: u32,
    /// The first of them, and their number.
    pub(crate) first: u32,
    pub(crate) count: u32,
    /// The id of the first of the count^2 links between them.
    pub(crate) first_link: u64,
}

/// All sibling groups, in the order of the ids of their links: level by level, group by group.
pub(crate) fn sibling_groups(clusters: &Clusters) -> impl Iterator<Item = SiblingGroups> {
    let parents =
        (1..=clusters.levels()).flat_map(|level| (0..clusters.groups(level)).map(move |group| (level, group)));
    parents.scan(0, |next_link, (level, group)| {
        let groups = clusters.subgroups(level, group);
        let (first, count, first_link) = (groups.start, groups.len() as u32, *next_link);
        *next_link += u64::from(count) * u64::from(count);
        Some(SiblingGroups { level, first, count, first_link })
    })
}

/// The groups that a WAN link connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WanLinkEnds {
    /// The level of the link: 1 between clusters, 2 between groups of clusters, and so on.
    pub level: u32,
    /// The group that it comes from, of the level below.
    pub from: u32,
    /// The group that it goes to.
    pub to: u32,
}

/// The groups that a WAN link connects, by its id: that from cluster a to b of C clusters has id a C + b. In nested
/// clusters the links of one group of clusters follow those of the one before, and the links of a level those of the
/// levels below.
pub fn wan_link_ends(clusters: &Clusters, link: u32) -> Option<WanLinkEnds> {
    let link = u64::from(link);
    let siblings = sibling_groups(clusters).take_while(|siblings| siblings.first_link <= link).last()?;
    let (count, index) = (u64::from(siblings.count), link - siblings.first_link);
    let (from, to) = (index / count, index % count);
    let end = |index: u64| siblings.first + index as u32;
    (from < count).then(|| WanLinkEnds { level: siblings.level, from: end(from), to: end(to) })
}

#[cfg(test)]
mod tests {
    use treepie_topology::Network;

    use super::*;

    fn clusters(text: &str) -> Clusters {
        text.parse::<Network>().unwrap().as_clusters().unwrap().clone()
    }

    #[test]
    fn links_are_numbered_level_by_level() {
        let plain = clusters("clusters:3x2");
        for link in 0..9 {
            let ends = WanLinkEnds { level: 1, from: link / 3, to: link % 3 };
            assert_eq!(wan_link_ends(&plain, link), Some(ends));
        }
        assert_eq!(wan_link_ends(&plain, 9), None);
        // Two sites, of two and three clusters: 4 + 9 links between clusters, 4 between sites.
        let nested = clusters("clusters:(4+4)+(8+2+2)");
        let ends = |link| wan_link_ends(&nested, link).map(|ends| (ends.level, ends.from, ends.to));
        assert_eq!((ends(1), ends(4), ends(9)), (Some((1, 0, 1)), Some((1, 2, 2)), Some((1, 3, 4))));
        assert_eq!((ends(13), ends(14), ends(17)), (Some((2, 0, 0)), Some((2, 0, 1)), None));
    }

    #[test]
    fn levels_are_slower_by_a_constant_factor() {
        let WanLinks::Matrix(plain) = ClusterCosts::wide_area(&clusters("clusters:4x2")).unwrap().wan else {
            panic!("a matrix for one level")
        };
        assert_eq!(plain[0][3], WanLink { latency: 10_000.0, bandwidth: 1.0 });
        let WanLinks::PerLevel(nested) = ClusterCosts::wide_area(&clusters("clusters:2x2x2x2")).unwrap().wan else {
            panic!("a link per level")
        };
        assert_eq!((nested.len(), nested[2]), (3, plain[0][3]));
        for (slow, fast) in [(nested[1].latency, nested[0].latency), (nested[2].latency, nested[1].latency)] {
            assert!((slow / fast / 500f64.cbrt() - 1.0).abs() < 1e-12);
        }
        assert!((nested[0].bandwidth / nested[1].bandwidth / 50f64.cbrt() - 1.0).abs() < 1e-12);
    }
}
