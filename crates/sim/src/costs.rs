//! Cost models of communication and computation, in microseconds and bytes as in the papers.

mod cluster_costs;

pub use cluster_costs::{ClusterCosts, WanLink, WanLinkEnds, WanLinks, wan_link_ends};
pub(crate) use cluster_costs::{WAN_LINKS, sibling_groups};
pub use treepie_model::LogGP;
pub use treepie_model::loggp::Handshake;
pub use treepie_model::plogp::{PLogP, PiecewiseLinear};

use treepie_model::{CostParams, PaperMachine};
use treepie_topology::Network;

use crate::error::{Error, Result, at_most, bandwidth, not_negative, positive};
use crate::noise::Noise;
use crate::time::{Time, from_micros};

/// Routing between the leaves of a Clos network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Routing {
    /// Ideal: the uplinks of a leaf act as one link of their total capacity.
    #[default]
    Ideal,
    /// Static: the destination selects the uplink.
    Static,
}

/// Start-ups and shared links (alpha-delta model).   [thesis 3.1]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkCosts {
    /// alpha: CPU time to start a send; the sends of a rank serialize.
    pub alpha: f64,
    /// delta: time per byte over an uncontended link.
    pub delta: f64,
    /// beta: time per byte over the injection links of a flat network. `delta` if not given.
    pub beta: Option<f64>,
    /// Latency per hop.
    pub per_hop: f64,
    /// Messages that a node injects concurrently; the network's number of ports if not given.
    pub ports: Option<u32>,
    /// Fraction of a link's bandwidth that is left when a node drives all its ports: 0.93 with six ports in the thesis.
    pub port_efficiency: f64,
    /// Number of active ports from which `port_efficiency` applies; all ports of the network if not given.
    pub saturated_ports: Option<u32>,
    /// Routing of a Clos network.
    pub routing: Routing,
}

impl LinkCosts {
    /// Costs with alpha and delta, no time per hop, the network's ports, and full port efficiency.
    pub const fn new(alpha: f64, delta: f64) -> Self {
        Self {
            alpha,
            delta,
            beta: None,
            per_hop: 0.0,
            ports: None,
            port_efficiency: 1.0,
            saturated_ports: None,
            routing: Routing::Ideal,
        }
    }

    /// Time per byte when a node drives `active` of its `ports` ports.
    pub fn delta_with_ports(&self, active: u32, ports: u32) -> f64 {
        let saturated = self.saturated_ports.unwrap_or(ports);
        if ports > 1 && active >= saturated { self.delta / self.port_efficiency } else { self.delta }
    }
}

impl From<CostParams> for LinkCosts {
    fn from(params: CostParams) -> Self {
        let CostParams { alpha, beta, gamma: _, delta, saturated_ports, port_efficiency } = params;
        let port_efficiency = if saturated_ports > 0 { port_efficiency } else { 1.0 };
        let saturated_ports = (saturated_ports > 0).then_some(saturated_ports);
        Self { beta: Some(beta), port_efficiency, saturated_ports, ..Self::new(alpha, delta) }
    }
}

/// Messages between ranks of one host, which go through its memory.
///
/// A message of m bytes occupies the CPUs as others do, but takes this latency and bandwidth, and no network interface.
/// A rank writes its messages one after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharedMemoryCosts {
    /// Latency.
    pub latency: f64,
    /// Bytes per microsecond.
    pub bandwidth: f64,
}

impl Default for SharedMemoryCosts {
    /// Half a microsecond and 2 GB/s: a host of the time of the papers.
    fn default() -> Self {
        Self { latency: 0.5, bandwidth: 2000.0 }
    }
}

/// The cost model of messages.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CostModel {
    /// LogGP: the CPU and the network interface of each rank, no links.
    LogGp(LogGP),
    /// Start-ups, and links shared by messages.
    Links(LinkCosts),
    /// P-LogP within clusters, WAN links between them.
    Clusters(ClusterCosts),
}

/// All parameters of a simulation except the network.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The cost model of messages.
    pub costs: CostModel,
    /// gamma: CPU time to combine or copy a byte. Programs pay it only for combining.
    pub gamma: f64,
    /// CPU time per unit of work, as reported by reactors and programs: messages sent and handled.
    pub work_unit_time: f64,
    /// Time of a barrier after the last arrival, at the global end of a phase; 0 is free.
    pub barrier_time: f64,
    /// How the sender of a synchronous message learns of its match.
    pub handshake: Handshake,
    /// Messages within a host, where the network has hosts of several ranks ([`Network::nodes_per_host`]).
    pub shared_memory: SharedMemoryCosts,
    /// Bytes of unexpected messages that a rank can buffer.
    pub memory_cap: Option<u64>,
    /// What goes wrong.
    pub noise: Noise,
}

impl Settings {
    /// Free computation, unlimited memory, no noise.
    pub fn new(costs: CostModel) -> Self {
        Self {
            costs,
            gamma: 0.0,
            work_unit_time: 0.0,
            barrier_time: 0.0,
            handshake: Handshake::AckMessage,
            shared_memory: SharedMemoryCosts::default(),
            memory_cap: None,
            noise: Noise::default(),
        }
    }

    /// The default machine for a network: Blue Gene/P, or for clusters the P-LogP paper's simulated wide-area links, of
    /// 10 ms and 1 MB/s. Those are the outermost of nested clusters; from level to level, latency and bandwidth change
    /// by a constant factor, beginning with the 20 us and 50 MB/s within a cluster.
    pub fn for_network(network: &Network) -> Result<Self> {
        let Some(clusters) = network.as_clusters() else { return Ok(PaperMachine::Bgp.cost_params().into()) };
        ClusterCosts::wide_area(clusters).map(Self::from)
    }

    /// When a synchronous send completes after its match; none if it takes an ack message.
    pub(crate) fn ack_latency(&self) -> Option<AckLatency> {
        match (self.handshake, &self.costs) {
            (Handshake::AckMessage, _) => None,
            (Handshake::Free, _) => Some(AckLatency { surplus: 0, below: 0.0 }),
            (Handshake::Latency { latency, below }, costs) => {
                // The surplus over a message that is not synchronous.
                let plain = if let CostModel::LogGp(costs) = costs { costs.latency } else { 0.0 };
                Some(AckLatency { surplus: from_micros((latency - plain).max(0.0)), below })
            }
        }
    }

    /// Refuses parameters out of range.
    pub fn check(&self) -> Result<()> {
        not_negative("gamma", self.gamma)?;
        not_negative("the time per unit of work", self.work_unit_time)?;
        not_negative("the time of a barrier", self.barrier_time)?;
        if let Handshake::Latency { latency, below } = self.handshake {
            not_negative("the latency of a synchronous message", latency)?;
            if below.is_nan() || below < 0.0 {
                let (name, must) = ("the size of synchronous messages without extra latency", "a non-negative number");
                return Err(Error::Parameter { name, must, value: below });
            }
        }
        not_negative("the latency of shared memory", self.shared_memory.latency)?;
        bandwidth("the bandwidth of shared memory", self.shared_memory.bandwidth)?;
        self.noise.check()?;
        match &self.costs {
            CostModel::LogGp(LogGP { latency, overhead, gap, per_byte }) => {
                not_negative("L", *latency)?;
                not_negative("o", *overhead)?;
                not_negative("g", *gap)?;
                not_negative("G", *per_byte)
            }
            CostModel::Links(links) => {
                not_negative("alpha", links.alpha)?;
                positive("delta", links.delta)?;
                positive("beta", links.beta.unwrap_or(1.0))?;
                // A route has many hops.
                at_most("the time per hop", links.per_hop, 1e6, "at most 1e6")?;
                not_negative("the time per hop", links.per_hop)?;
                positive("the number of ports", f64::from(links.ports.unwrap_or(1)))?;
                if !(links.port_efficiency > 0.0 && links.port_efficiency <= 1.0) {
                    let (name, must) = ("the port efficiency", "above 0 and at most 1");
                    return Err(Error::Parameter { name, must, value: links.port_efficiency });
                }
                Ok(())
            }
            CostModel::Clusters(clusters) => clusters.check(),
        }
    }
}

/// The time from a match until the synchronous send completes, without an ack message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AckLatency {
    surplus: Time,
    /// Messages of this length, and longer ones, have none.
    below: f64,
}

impl AckLatency {
    /// Of a message of this length.
    pub(crate) fn of(self, bytes: u64) -> Time {
        if (bytes as f64) < self.below { self.surplus } else { 0 }
    }

    /// Whether all messages have the same.
    pub(crate) fn is_constant(self) -> bool {
        self.surplus == 0 || self.below == f64::INFINITY
    }
}

impl From<LogGP> for Settings {
    fn from(costs: LogGP) -> Self {
        Self::new(CostModel::LogGp(costs))
    }
}

impl From<CostParams> for Settings {
    fn from(params: CostParams) -> Self {
        Self { gamma: params.gamma, ..LinkCosts::from(params).into() }
    }
}

impl From<LinkCosts> for Settings {
    fn from(costs: LinkCosts) -> Self {
        Self::new(CostModel::Links(costs))
    }
}

impl From<ClusterCosts> for Settings {
    fn from(costs: ClusterCosts) -> Self {
        Self::new(CostModel::Clusters(costs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_out_of_range_are_refused_in_one_line() {
        let refusal = |settings: Settings| settings.check().unwrap_err().to_string();
        let loggp = LogGP { latency: 4.29, overhead: 2.87, gap: 2.04, per_byte: 0.00267 };
        assert_eq!(Settings::from(loggp).check(), Ok(()));
        let negative = LogGP { overhead: -1.0, ..loggp };
        assert_eq!(refusal(negative.into()), "o must be a non-negative number, and is -1");
        assert!(refusal(LogGP { per_byte: f64::NAN, ..loggp }.into()).contains("NaN"));
        assert!(refusal(LinkCosts::new(1.0, 0.0).into()).starts_with("delta must be a positive number"));
        assert!(refusal(LinkCosts { port_efficiency: 1.5, ..LinkCosts::new(1.0, 1.0) }.into()).contains("at most 1"));
        let lan = PLogP::from_latency_bandwidth(20.0, 50.0);
        let wan = WanLink { latency: 10_000.0, bandwidth: 0.0 };
        assert!(refusal(ClusterCosts::uniform(lan.clone(), wan, 2).into()).contains("bandwidth between clusters"));
        assert!(refusal(ClusterCosts::per_level(lan, vec![wan]).into()).contains("bandwidth between clusters"));
        let handshake = Handshake::Latency { latency: 25.4, below: f64::NAN };
        assert!(refusal(Settings { handshake, ..loggp.into() }).contains("non-negative number, and is NaN"));
        let shared_memory = SharedMemoryCosts { bandwidth: 0.0, ..SharedMemoryCosts::default() };
        assert!(refusal(Settings { shared_memory, ..loggp.into() }).starts_with("the bandwidth of shared memory"));
    }

    #[test]
    fn synchronous_messages_from_the_threshold_on_are_free() {
        let loggp = LogGP { latency: 9.9, overhead: 1.75, gap: 3.4, per_byte: 0.00058 };
        let handshake = Handshake::Latency { latency: 25.4, below: 1000.0 };
        let ack = Settings { handshake, ..loggp.into() }.ack_latency().unwrap();
        assert_eq!([0, 999, 1000, 1 << 40].map(|bytes| ack.of(bytes)), [15_500_000, 15_500_000, 0, 0]);
        let handshake = Handshake::Latency { latency: 25.4, below: f64::INFINITY };
        let ack = Settings { handshake, ..LinkCosts::new(1.0, 1.0).into() }.ack_latency().unwrap();
        assert_eq!((ack.of(u64::MAX), ack.is_constant()), (25_400_000, true));
    }

    #[test]
    fn costs_beyond_the_longest_duration_are_refused() {
        let refusal = |settings: Settings| settings.check().unwrap_err().to_string();
        assert_eq!(Settings::from(LinkCosts::new(1.0, 1e12)).check(), Ok(()));
        assert_eq!(refusal(LinkCosts::new(1.0, 1e15).into()), "delta must be at most 1e12, and is 1e15");
        assert!(refusal(LinkCosts { per_hop: 1e300, ..LinkCosts::new(1.0, 1.0) }.into()).ends_with("and is 1e300"));
        let noise = Noise { jitter: 1e300, ..Noise::default() };
        assert!(refusal(Settings { noise, ..LinkCosts::new(1.0, 1.0).into() }).contains("jitter must be at most"));
        let wan = WanLink { latency: 1.0, bandwidth: 1e-13 };
        let clusters = ClusterCosts::uniform(PLogP::from_latency_bandwidth(20.0, 50.0), wan, 2);
        assert!(refusal(clusters.into()).contains("must be at least 1e-12"));
    }

    #[test]
    fn ranks_and_links_must_exist() {
        let network = "torus:8".parse().unwrap();
        let refusal = |noise| {
            let settings = Settings { noise, ..LinkCosts::new(1.0, 1.0).into() };
            settings.check_on(&network).unwrap_err().to_string()
        };
        let noise = Noise::default();
        assert!(refusal(Noise { slow_ranks: vec![(8, 2.0)], ..noise.clone() }).contains("rank 8 does not exist"));
        assert!(refusal(Noise { failures: vec![(9, 2.0)], ..noise.clone() }).contains("rank 9 does not exist"));
        assert!(refusal(Noise { slow_links: vec![(16, 2.0)], ..noise.clone() }).contains("link 16 does not exist"));
        let inside = Noise { slow_ranks: vec![(7, 2.0)], slow_links: vec![(15, 2.0)], ..noise };
        assert_eq!(Settings { noise: inside, ..LinkCosts::new(1.0, 1.0).into() }.check_on(&network), Ok(()));
    }

    #[test]
    fn saturated_ports_are_slower() {
        let links = LinkCosts { port_efficiency: 0.93, ..LinkCosts::new(6.29, 1.0 / 375.0) };
        assert_eq!(links.delta_with_ports(5, 6), 1.0 / 375.0);
        assert_eq!(links.delta_with_ports(6, 6), 1.0 / 375.0 / 0.93);
        assert_eq!(links.delta_with_ports(1, 1), 1.0 / 375.0);
        // The parameters give the saturated ports: the four of a two-dimensional torus are not six.
        let params = treepie_model::PaperMachine::Bgp.cost_params();
        let links = LinkCosts::from(params);
        assert_eq!((links.alpha, links.beta, links.delta), (6.29, Some(1.0 / 375.0), 1.0 / 375.0));
        assert_eq!(links.delta_with_ports(4, 4), 1.0 / 375.0);
        assert_eq!(links.delta_with_ports(6, 6), 1.0 / 375.0 / 0.93);
        let combining = Settings::from(CostParams { gamma: 0.5, ..params });
        assert_eq!((combining.gamma, combining.costs), (0.5, CostModel::Links(links)));
    }
}
