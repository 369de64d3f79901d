//! Descriptions of emulated clusters as text.
//!
//! `NETWORK[,OPTION=VALUE]...`, where the network is that of clusters:
//!
//! | option | |
//! |---|---|
//! | `wan=10ms/1MBps` | latency and rate of the links between clusters, on all levels; `wan=das` for those of the DAS |
//! | `wan1=1ms/10MBps` | of the links of one level, where clusters are nested: 1 within the innermost groups |
//! | `link:0-2=4ms/3Mbps` | of the link from cluster 0 to cluster 2, where they are not |
//! | `lan=20us/50MBps` | within clusters, and to gateways |
//! | `window=64KiB` | bytes that a gateway accepts ahead of a link |
//! | `loss=1%`, `loss:0-2=1%` | packets that links lose, and send again |
//! | `slow:0-2=4@1.5s` | the link becomes 4 times slower 1.5 s after the start |

use std::ops::RangeInclusive;
use std::str::FromStr;

use treepie_model::PaperMachine;
use treepie_sim::Settings;
use treepie_sim::costs::{ClusterCosts, CostModel, PLogP, WanLink, WanLinks};
use treepie_topology::{Clusters, Network};

/// The clusters, and what messages between them take.
#[derive(Clone, Debug, PartialEq)]
pub struct Emulation {
    network: Network,
    costs: ClusterCosts,
    /// The fraction of packets that are lost, by link: the last that applies counts.
    pub(crate) losses: Vec<(LinkSet, f64)>,
    pub(crate) slowdowns: Vec<Slowdown>,
}

/// Links between clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkSet {
    All,
    /// From one cluster to another, where they are not nested.
    One(u32, u32),
}

/// A link that becomes slower.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Slowdown {
    pub(crate) link: LinkSet,
    pub(crate) factor: f64,
    /// Seconds after the start of the world.
    pub(crate) after: f64,
}

/// A description that cannot be emulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EmulationError(String);

type Result<T> = std::result::Result<T, EmulationError>;

fn refuse<T>(why: impl Into<String>) -> Result<T> {
    Err(EmulationError(why.into()))
}

impl LinkSet {
    pub(crate) fn contains(self, from: u32, to: u32) -> bool {
        match self {
            LinkSet::All => true,
            LinkSet::One(a, b) => (a, b) == (from, to),
        }
    }

    /// Whether a link is in both.
    fn intersects(self, other: Self) -> bool {
        self == other || self == LinkSet::All || other == LinkSet::All
    }
}

impl Emulation {
    /// The network of the clusters.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The clusters of the network.
    pub fn clusters(&self) -> &Clusters {
        self.network.as_clusters().expect("checked when the description was read")
    }

    /// Latencies and rates, in microseconds and bytes.
    pub fn costs(&self) -> &ClusterCosts {
        &self.costs
    }

    /// Refuses a world of another number of ranks.
    pub fn check_ranks(&self, ranks: u32) -> Result<()> {
        match self.network.ranks() {
            given if given == ranks => Ok(()),
            given => refuse(format!("{} has {given} ranks, but there are {ranks}", self.network)),
        }
    }

    /// The link from one group of a level to another.
    pub(crate) fn wan_link(&self, level: u32, from: u32, to: u32) -> WanLink {
        match &self.costs.wan {
            WanLinks::Matrix(rows) => rows[from as usize][to as usize],
            WanLinks::PerLevel(levels) => levels[level as usize - 1],
        }
    }

    fn apply(&mut self, name: &str, value: &str) -> Result<()> {
        let levels = self.clusters().levels();
        match name.split_once(':') {
            Some((option @ ("link" | "loss" | "slow"), pair)) => {
                let WanLinks::Matrix(rows) = &mut self.costs.wan else {
                    let instead = if option == "link" { "wan1, wan2 and so on" } else { option };
                    return refuse(format!("{option}: nested clusters have alike links on each level: use {instead}"));
                };
                let (from, to) = cluster_pair(pair, rows.len() as u32)?;
                let one = LinkSet::One(from, to);
                match option {
                    "link" => rows[from as usize][to as usize] = link(value)?,
                    "loss" => self.losses.push((one, fraction(value)?)),
                    _ => self.slowdowns.push(slowdown(one, value)?),
                }
            }
            Some(_) => return unknown(name),
            None => match name {
                "wan" if value == "das" => self.costs.wan = das(self.clusters())?,
                "wan" => {
                    let link = link(value)?;
                    self.costs.wan.iter_mut().for_each(|other| *other = link);
                }
                "lan" => {
                    let WanLink { latency, bandwidth } = link(value)?;
                    self.costs.lan = PLogP::from_latency_bandwidth(latency, bandwidth);
                }
                "window" => self.costs.window = bytes(value)?,
                "loss" => self.losses.push((LinkSet::All, fraction(value)?)),
                "slow" => self.slowdowns.push(slowdown(LinkSet::All, value)?),
                _ => {
                    let level = name.strip_prefix("wan").and_then(|level| level.parse::<u32>().ok());
                    let Some(level) = level else { return unknown(name) };
                    let WanLinks::PerLevel(links) = &mut self.costs.wan else {
                        return refuse(format!("{name}: the clusters are not nested: use wan"));
                    };
                    let Some(of_level) = links.get_mut((level as usize).wrapping_sub(1)) else {
                        return refuse(format!("{name}: there are levels 1 to {levels}"));
                    };
                    *of_level = link(value)?;
                }
            },
        }
        Ok(())
    }

    /// Refuses slowdowns of one link whose product is out of bounds.
    fn check_slowdowns(&self) -> Result<()> {
        let is_within = |one: &Slowdown| {
            let on_link = self.slowdowns.iter().filter(|other| other.link.intersects(one.link));
            let (mut slower, mut faster) = (1.0, 1.0);
            on_link.for_each(|other| if other.factor > 1.0 { slower *= other.factor } else { faster *= other.factor });
            SLOWDOWNS.contains(&slower) && SLOWDOWNS.contains(&faster)
        };
        if self.slowdowns.iter().all(is_within) {
            return Ok(());
        }
        refuse("slow: all factors of a link together are at most a million")
    }
}

/// What a link becomes slower by, or faster, in all.
const SLOWDOWNS: RangeInclusive<f64> = 1e-6..=1e6;

impl FromStr for Emulation {
    type Err = EmulationError;

    fn from_str(text: &str) -> Result<Self> {
        let mut parts = text.split(',');
        let network = Network::load(parts.next().unwrap_or_default()).map_err(|e| EmulationError(e.to_string()))?;
        if network.as_clusters().is_none() {
            return refuse(format!("{network} has no wide-area links: use clusters as clusters:4x16"));
        }
        let settings = Settings::for_network(&network).map_err(|e| EmulationError(e.to_string()))?;
        let CostModel::Clusters(costs) = settings.costs else { unreachable!("clusters have costs of clusters") };
        let mut emulation = Self { network, costs, losses: Vec::new(), slowdowns: Vec::new() };
        for part in parts {
            let Some((name, value)) = part.split_once('=') else {
                return refuse(format!("`{part}` is no option as wan=10ms/1MBps"));
            };
            emulation.apply(name, value)?;
        }
        let settings = Settings::from(emulation.costs.clone());
        settings.check().map_err(|e| EmulationError(e.to_string()))?;
        emulation.check_slowdowns()?;
        Ok(emulation)
    }
}

fn unknown<T>(name: &str) -> Result<T> {
    refuse(format!("there is no option {name}; the options are wan, wan1, lan, link:A-B, window, loss, slow"))
}

/// The links of the DAS, whose four clusters these are.   [P-LogP paper, table 2]
fn das(clusters: &Clusters) -> Result<WanLinks> {
    let links = PaperMachine::Das.wan_links().expect("the paper has them");
    if clusters.levels() != 1 || clusters.count() as usize != links.num_clusters() {
        return refuse(format!("the DAS has {} clusters: use clusters:4x1 or clusters:4x16", links.num_clusters()));
    }
    let link = |from, to| {
        let link = links.link(from, to);
        // Bytes per microsecond to a millionth: the table has tenths of megabits.
        WanLink { latency: link.latency, bandwidth: (link.bandwidth() * 1e6).round() / 1e6 }
    };
    let row = |from| (0..links.num_clusters()).map(|to| link(from, to)).collect();
    Ok(WanLinks::Matrix((0..links.num_clusters()).map(row).collect()))
}

/// Two of this many clusters as `0-2`.
fn cluster_pair(text: &str, count: u32) -> Result<(u32, u32)> {
    let pair = text.split_once('-').and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    match pair {
        Some((from, to)) if from < count && to < count && from != to => Ok((from, to)),
        _ => {
            let last = count - 1;
            refuse(format!("`{text}` is no pair of different clusters as 0-1: there are clusters 0 to {last}"))
        }
    }
}

/// A latency and a rate, as `10ms/1MBps`.
fn link(text: &str) -> Result<WanLink> {
    let parsed = text.split_once('/').and_then(|(latency, rate)| Some((micros(latency)?, bytes_per_micro(rate)?)));
    match parsed {
        Some((latency, bandwidth)) => Ok(WanLink { latency, bandwidth }),
        None => refuse(format!("`{text}` is no latency and rate as 10ms/1MBps")),
    }
}

/// A number with one of these units, multiplied by it.
fn with_unit(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    // `ms` ends with `s`: the longest unit counts.
    let fits = units.iter().filter(|(unit, _)| text.ends_with(unit));
    let (unit, factor) = fits.max_by_key(|(unit, _)| unit.len())?;
    let number: f64 = text[..text.len() - unit.len()].parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number * factor)
}

/// At most a day, so that times add up.
fn micros(text: &str) -> Option<f64> {
    with_unit(text, &[("us", 1.0), ("ms", 1e3), ("s", 1e6)]).filter(|micros| *micros <= 86_400e6)
}

/// `MBps` are 10^6 bytes per second, `Mbps` 10^6 bits.
fn bytes_per_micro(text: &str) -> Option<f64> {
    let units = [
        ("Bps", 1e-6),
        ("kBps", 1e-3),
        ("MBps", 1.0),
        ("GBps", 1e3),
        ("kbps", 1e-3 / 8.0),
        ("Mbps", 1.0 / 8.0),
        ("Gbps", 1e3 / 8.0),
    ];
    with_unit(text, &units).filter(|rate| (1e-6..=1e9).contains(rate))
}

fn bytes(text: &str) -> Result<u64> {
    let units = [("", 1.0), ("K", 1024.0), ("KiB", 1024.0), ("M", 1048576.0), ("MiB", 1048576.0)];
    match with_unit(text, &units) {
        Some(bytes) if bytes >= 1.0 => Ok(bytes as u64),
        _ => refuse(format!("`{text}` is no number of bytes as 64KiB")),
    }
}

/// At most half: beyond that, packets would take ever longer.
fn fraction(text: &str) -> Result<f64> {
    match with_unit(text, &[("", 1.0), ("%", 0.01)]) {
        Some(fraction) if fraction <= 0.5 => Ok(fraction),
        _ => refuse(format!("`{text}` is no fraction of lost packets as 1%, at most 50%")),
    }
}

fn slowdown(link: LinkSet, text: &str) -> Result<Slowdown> {
    let parsed = text.split_once('@').and_then(|(factor, after)| Some((factor.parse::<f64>().ok()?, micros(after)?)));
    match parsed {
        Some((factor, after)) if SLOWDOWNS.contains(&factor) => Ok(Slowdown { link, factor, after: after / 1e6 }),
        _ => refuse(format!("`{text}` is no factor and time as 4@1.5s")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_testbed_is_the_default() {
        let plain: Emulation = "clusters:8x1".parse().unwrap();
        let explicit: Emulation = "clusters:8x1,wan=10ms/1MBps,lan=20us/50MBps,window=64KiB".parse().unwrap();
        assert_eq!(plain, explicit);
        assert_eq!(plain.wan_link(1, 0, 7), WanLink { latency: 10_000.0, bandwidth: 1.0 });
        assert_eq!((plain.costs().window, plain.network().ranks()), (65536, 8));
    }

    #[test]
    fn links_differ() {
        let das: Emulation = "clusters:4x2,wan=das,link:0-1=8ms/8Mbps,loss:2-3=1%,slow:0-1=4@1500ms".parse().unwrap();
        assert_eq!(das.wan_link(1, 0, 1), WanLink { latency: 8_000.0, bandwidth: 1.0 });
        assert_eq!(das.wan_link(1, 1, 3), WanLink { latency: 4_000.0, bandwidth: 3.0 / 8.0 });
        assert_eq!(das.losses, [(LinkSet::One(2, 3), 0.01)]);
        assert_eq!(das.slowdowns, [Slowdown { link: LinkSet::One(0, 1), factor: 4.0, after: 1.5 }]);
        let slow = "clusters:4x1,slow:0-1=1e6@1s,slow:0-1=1e-6@2s,slow:1-0=1e6@1s".parse::<Emulation>().unwrap();
        assert_eq!(slow.slowdowns.len(), 3, "different links, and back again");
        let nested: Emulation = "clusters:2x2x2,wan1=200us/20MBps".parse().unwrap();
        assert_eq!(nested.wan_link(1, 0, 1), WanLink { latency: 200.0, bandwidth: 20.0 });
        assert_eq!(nested.wan_link(2, 0, 1), WanLink { latency: 10_000.0, bandwidth: 1.0 });
    }

    #[test]
    fn invalid_descriptions_are_refused_in_one_line() {
        for (text, reason) in [
            ("torus:4x4", "torus:4x4 has no wide-area links: use clusters as clusters:4x16"),
            ("clusters:4x4,fast", "`fast` is no option as wan=10ms/1MBps"),
            ("clusters:4x4,wan=10", "`10` is no latency and rate as 10ms/1MBps"),
            ("clusters:4x4,wan=10ms/0MBps", "`10ms/0MBps` is no latency and rate as 10ms/1MBps"),
            (
                "clusters:4x4,link:0-4=1ms/1MBps",
                "`0-4` is no pair of different clusters as 0-1: there are clusters 0 to 3",
            ),
            ("clusters:4x4,loss=60%", "`60%` is no fraction of lost packets as 1%, at most 50%"),
            ("clusters:4x4,wan1=1ms/1MBps", "wan1: the clusters are not nested: use wan"),
            ("clusters:2x2x2,wan3=1ms/1MBps", "wan3: there are levels 1 to 2"),
            ("clusters:2x2x2,wan=das", "the DAS has 4 clusters: use clusters:4x1 or clusters:4x16"),
            ("clusters:4x4,wan=1e300s/1MBps", "`1e300s/1MBps` is no latency and rate as 10ms/1MBps"),
            ("clusters:4x4,slow=4@1e30s", "`4@1e30s` is no factor and time as 4@1.5s"),
            (
                "clusters:2x2x2,link:0-1=1ms/1MBps",
                "link: nested clusters have alike links on each level: use wan1, wan2 and so on",
            ),
            ("clusters:2x2x2,loss:0-1=1%", "loss: nested clusters have alike links on each level: use loss"),
            ("clusters:2x2x2,slow:0-1=4@1s", "slow: nested clusters have alike links on each level: use slow"),
            ("clusters:4x4,slow=1e4@1s,slow:0-1=1e4@2s", "slow: all factors of a link together are at most a million"),
            ("clusters:4x4,window=0", "`0` is no number of bytes as 64KiB"),
        ] {
            assert_eq!(text.parse::<Emulation>().unwrap_err().to_string(), reason, "{text}");
        }
        let emulation: Emulation = "clusters:4x4".parse().unwrap();
        assert_eq!(emulation.check_ranks(8).unwrap_err().to_string(), "clusters:4x4 has 16 ranks, but there are 8");
    }
}
