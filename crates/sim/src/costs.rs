//! What messages and computing cost. Microseconds and bytes, as the papers have them.

pub use treepie_model::LogGP;
pub use treepie_model::loggp::Handshake;
pub use treepie_model::plogp::{PLogP, Table};

use treepie_base::memory::with_capacity;
use treepie_model::Prices;
use treepie_topology::Network;

use crate::error::{Error, Result, at_most, bandwidth, not_negative, positive};
use crate::network::ways::Ways;
use crate::noise::Noise;

/// How messages find their way from one leaf of a Clos network to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Routing {
    /// Perfectly: all links of a leaf are one that is as wide as all of them.
    #[default]
    Ideal,
    /// The receiver's number chooses one of them.
    Static,
}

/// Start-ups and shared links.   [thesis 3.1]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Links {
    /// alpha: the CPU's time to start a send; those of a rank come one after the other.
    pub alpha: f64,
    /// delta: the time of a byte over a link that nobody else uses.
    pub delta: f64,
    /// beta: the same for the nodes' own links on a flat network, which has no others. delta if not given.
    pub beta: Option<f64>,
    /// What each link on the way adds until a message has arrived.
    pub hop: f64,
    /// How many messages a node drives at once; the network's number of ports if not given.
    pub ports: Option<u32>,
    /// What is left of a link's speed when a node drives all its ports: 0.93 with six ports in the thesis.
    pub efficiency: f64,
    /// From how many driven ports on that is so; all that the network has if not given.
    pub crowded: Option<u32>,
    /// How a Clos network is routed.
    pub routing: Routing,
}

impl Links {
    /// These start-ups and links, no time per hop, the network's ports, nothing lost when all are driven.
    pub const fn new(alpha: f64, delta: f64) -> Self {
        Self {
            alpha,
            delta,
            beta: None,
            hop: 0.0,
            ports: None,
            efficiency: 1.0,
            crowded: None,
            routing: Routing::Ideal,
        }
    }

    /// What a byte costs when so many ports of a node are driven, of `all` that it has.
    pub fn delta_driving(&self, driven: u32, all: u32) -> f64 {
        let crowded = self.crowded.unwrap_or(all);
        if all > 1 && driven >= crowded { self.delta / self.efficiency } else { self.delta }
    }
}

impl From<Prices> for Links {
    fn from(prices: Prices) -> Self {
        let Prices { alpha, beta, gamma: _, delta, ports, ports_share } = prices;
        let crowded = (ports > 0).then_some(ports);
        let efficiency = if ports > 0 { ports_share } else { 1.0 };
        Self { beta: Some(beta), efficiency, crowded, ..Self::new(alpha, delta) }
    }
}

/// A link from one cluster to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wide {
    /// From one gateway to the other.
    pub latency: f64,
    /// Bytes per microsecond.
    pub bandwidth: f64,
}

/// What a number of clusters asks memory for.
pub(crate) const LINKS: &str = "the links between all clusters";

/// Clusters with gateways, and a link for each ordered pair of clusters.   [P-LogP 3, 4]
#[derive(Clone, Debug, PartialEq)]
pub struct Clusters {
    /// Links within clusters, also to and from gateways.
    pub local: PLogP,
    /// From each cluster to each; those from a cluster to itself are not used.
    pub wide: Vec<Vec<Wide>>,
    /// Bytes that a gateway takes ahead of each of its links: a sender waits for room.
    pub window: u64,
}

impl Clusters {
    /// The window of the papers' wide-area links.
    pub const WINDOW: u64 = 64 << 10;

    /// The same link between all of so many clusters.
    pub fn uniform(local: PLogP, wide: Wide, clusters: u32) -> Self {
        Self { local, wide: vec![vec![wide; clusters as usize]; clusters as usize], window: Self::WINDOW }
    }

    /// The same, unless there is no memory for so many links.
    pub fn try_uniform(local: PLogP, wide: Wide, clusters: u32) -> Result<Self> {
        // Twice: they are copied for the machine. Given back at once.
        with_capacity::<[Wide; 2]>(clusters as usize * clusters as usize, LINKS)?;
        Ok(Self::uniform(local, wide, clusters))
    }

    fn check(&self) -> Result<()> {
        not_negative("the latency of a local link", self.local.latency)?;
        for (name, table) in [
            ("a send overhead", &self.local.send),
            ("a receive overhead", &self.local.receive),
            ("a gap", &self.local.gap),
        ] {
            table.points().iter().try_for_each(|(_, time)| not_negative(name, *time))?;
        }
        positive("the window of a gateway", self.window as f64)?;
        for (from, row) in self.wide.iter().enumerate() {
            for wide in row.iter().enumerate().filter(|(to, _)| *to != from).map(|(_, wide)| wide) {
                not_negative("the latency between clusters", wide.latency)?;
                bandwidth("the bandwidth between clusters", wide.bandwidth)?;
            }
        }
        Ok(())
    }
}

/// How messages are priced.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Costs {
    /// Without a network: each rank's CPU and interface.
    LogGp(LogGP),
    /// By the links of the network.
    Links(Links),
    /// By clusters and the links between them.
    Clusters(Clusters),
}

/// Everything that a simulation is told beside the network.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// What messages cost.
    pub costs: Costs,
    /// gamma: the CPU's time to combine or copy a byte. Programs pay it for combining only.
    pub gamma: f64,
    /// The CPU's time for a unit of work: what reactors and programs say that they have done, as messages sent and handled.
    pub work: f64,
    /// What it takes until all know that all are there, where a phase ends globally; 0 is for free.
    pub barrier: f64,
    /// What tells the sender of a synchronous message that it has been taken.
    pub handshake: Handshake,
    /// Bytes of messages that a rank can hold before it has asked for them.
    pub memory_cap: Option<u64>,
    /// What goes wrong.
    pub noise: Noise,
}

impl Settings {
    /// Computing is free, memory endless, and nothing goes wrong.
    pub fn new(costs: Costs) -> Self {
        let (gamma, work, barrier, handshake) = (0.0, 0.0, 0.0, Handshake::Answers);
        Self { costs, gamma, work, barrier, handshake, memory_cap: None, noise: Noise::default() }
    }

    /// Microseconds after which the sender of a synchronous message knows that it has been taken, if that takes no answer.
    pub(crate) fn known_after(&self) -> Option<f64> {
        match (self.handshake, &self.costs) {
            (Handshake::Answers, _) => None,
            (Handshake::Free, _) => Some(0.0),
            // What it takes longer than a message that is not synchronous.
            (Handshake::Latency(latency), Costs::LogGp(costs)) => Some((latency - costs.latency).max(0.0)),
            (Handshake::Latency(latency), _) => Some(latency),
        }
    }

    /// Refuses what no machine can have.
    pub fn check(&self) -> Result<()> {
        not_negative("gamma", self.gamma)?;
        not_negative("the time of a unit of work", self.work)?;
        not_negative("the time of a barrier", self.barrier)?;
        if let Handshake::Latency(latency) = self.handshake {
            not_negative("the latency of a synchronous message", latency)?;
        }
        self.noise.check()?;
        match &self.costs {
            Costs::LogGp(LogGP { latency, overhead, gap, per_byte }) => {
                not_negative("L", *latency)?;
                not_negative("o", *overhead)?;
                not_negative("g", *gap)?;
                not_negative("G", *per_byte)
            }
            Costs::Links(links) => {
                not_negative("alpha", links.alpha)?;
                positive("delta", links.delta)?;
                positive("beta", links.beta.unwrap_or(1.0))?;
                // A way has many of them.
                at_most("the time of a hop", links.hop, 1e6, "at most 1e6")?;
                not_negative("the time of a hop", links.hop)?;
                positive("the number of ports", f64::from(links.ports.unwrap_or(1)))?;
                if !(links.efficiency > 0.0 && links.efficiency <= 1.0) {
                    let (name, must) = ("the efficiency of all ports", "above 0 and at most 1");
                    return Err(Error::Parameter { name, must, value: links.efficiency });
                }
                Ok(())
            }
            Costs::Clusters(clusters) => clusters.check(),
        }
    }

    /// Also refuses ranks and links that are named and that a network does not have.
    pub fn check_on(&self, network: &Network) -> Result<()> {
        self.check()?;
        let ranks = network.ranks();
        let named = self.noise.slow_ranks.iter().chain(&self.noise.deaths).map(|(rank, _)| *rank);
        if let Some(rank) = named.into_iter().find(|rank| *rank >= ranks) {
            return Err(Error::NoRank { rank, ranks });
        }
        match &self.costs {
            _ if self.noise.slow_links.is_empty() => Ok(()),
            Costs::Links(links) => Ways::new(links, network, &self.noise, false).map(drop),
            _ => Err(Error::NoLinks),
        }
    }
}

impl From<LogGP> for Settings {
    fn from(costs: LogGP) -> Self {
        Self::new(Costs::LogGp(costs))
    }
}

impl From<Prices> for Settings {
    fn from(prices: Prices) -> Self {
        Self { gamma: prices.gamma, ..Links::from(prices).into() }
    }
}

impl From<Links> for Settings {
    fn from(costs: Links) -> Self {
        Self::new(Costs::Links(costs))
    }
}

impl From<Clusters> for Settings {
    fn from(costs: Clusters) -> Self {
        Self::new(Costs::Clusters(costs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_costs_are_refused_in_one_line() {
        let refusal = |settings: Settings| settings.check().unwrap_err().to_string();
        let loggp = LogGP { latency: 4.29, overhead: 2.87, gap: 2.04, per_byte: 0.00267 };
        assert_eq!(Settings::from(loggp).check(), Ok(()));
        let negative = LogGP { overhead: -1.0, ..loggp };
        assert_eq!(refusal(negative.into()), "o must be a number that is not negative, and is -1");
        assert!(refusal(LogGP { per_byte: f64::NAN, ..loggp }.into()).contains("NaN"));
        assert!(refusal(Links::new(1.0, 0.0).into()).starts_with("delta must be a number above 0"));
        assert!(refusal(Links { efficiency: 1.5, ..Links::new(1.0, 1.0) }.into()).contains("at most 1"));
        let local = PLogP::simple(20.0, 50.0);
        let wide = Wide { latency: 10_000.0, bandwidth: 0.0 };
        assert!(refusal(Clusters::uniform(local, wide, 2).into()).contains("bandwidth between clusters"));
    }

    #[test]
    fn what_would_take_longer_than_time_is_refused() {
        let refusal = |settings: Settings| settings.check().unwrap_err().to_string();
        assert_eq!(Settings::from(Links::new(1.0, 1e12)).check(), Ok(()));
        assert_eq!(refusal(Links::new(1.0, 1e15).into()), "delta must be at most 1e12, and is 1e15");
        assert!(refusal(Links { hop: 1e300, ..Links::new(1.0, 1.0) }.into()).ends_with("and is 1e300"));
        let noise = Noise { jitter: 1e300, ..Noise::default() };
        assert!(refusal(Settings { noise, ..Links::new(1.0, 1.0).into() }).contains("jitter must be at most"));
        let wide = Wide { latency: 1.0, bandwidth: 1e-13 };
        let clusters = Clusters::uniform(PLogP::simple(20.0, 50.0), wide, 2);
        assert!(refusal(clusters.into()).contains("must be at least 1e-12"));
    }

    #[test]
    fn who_is_named_must_be_there() {
        let network = "torus:8".parse().unwrap();
        let refusal = |noise| {
            let settings = Settings { noise, ..Links::new(1.0, 1.0).into() };
            settings.check_on(&network).unwrap_err().to_string()
        };
        let noise = Noise::default();
        assert!(refusal(Noise { slow_ranks: vec![(8, 2.0)], ..noise.clone() }).contains("rank 8 is named"));
        assert!(refusal(Noise { deaths: vec![(9, 2.0)], ..noise.clone() }).contains("rank 9 is named"));
        assert!(refusal(Noise { slow_links: vec![(16, 2.0)], ..noise.clone() }).contains("link 16 is named"));
        let inside = Noise { slow_ranks: vec![(7, 2.0)], slow_links: vec![(15, 2.0)], ..noise };
        assert_eq!(Settings { noise: inside, ..Links::new(1.0, 1.0).into() }.check_on(&network), Ok(()));
    }

    #[test]
    fn all_ports_together_are_slower() {
        let links = Links { efficiency: 0.93, ..Links::new(6.29, 1.0 / 375.0) };
        assert_eq!(links.delta_driving(5, 6), 1.0 / 375.0);
        assert_eq!(links.delta_driving(6, 6), 1.0 / 375.0 / 0.93);
        assert_eq!(links.delta_driving(1, 1), 1.0 / 375.0);
        // Prices say from how many ports on: the four of a torus in two dimensions are not six.
        let prices = treepie_model::Machine::Bgp.prices();
        let links = Links::from(prices);
        assert_eq!((links.alpha, links.beta, links.delta), (6.29, Some(1.0 / 375.0), 1.0 / 375.0));
        assert_eq!(links.delta_driving(4, 4), 1.0 / 375.0);
        assert_eq!(links.delta_driving(6, 6), 1.0 / 375.0 / 0.93);
        let combining = Settings::from(Prices { gamma: 0.5, ..prices });
        assert_eq!((combining.gamma, combining.costs), (0.5, Costs::Links(links)));
    }
}
