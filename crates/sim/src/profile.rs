//! The profile of a simulated machine: what choices of algorithms on it use.

use treepie_model::plogp::PiecewiseLinear;
use treepie_model::profile::{LevelProfile, Profile, SynchronousSend};
use treepie_topology::Network;

use crate::costs::{ClusterCosts, CostModel, Handshake, LogGP, PLogP, Settings, SharedMemoryCosts, WanLink, WanLinks};

impl Settings {
    /// The profile of the machine with these settings and this network, as a measurement would find it.
    pub fn profile(&self, network: &Network) -> Profile {
        let mut profile = match &self.costs {
            CostModel::LogGp(costs) => Profile::of_link("sim", "network", loggp_link(costs)),
            CostModel::Links(links) => {
                let link = linear(0.0, links.alpha, links.delta);
                let mut profile = Profile::of_link("sim", "network", link);
                profile.saturated_ports = links.saturated_ports.unwrap_or(0);
                profile.port_efficiency = links.port_efficiency;
                profile
            }
            CostModel::Clusters(costs) => clusters(costs),
        };
        if network.nodes_per_host() > 1 {
            let SharedMemoryCosts { latency, bandwidth } = self.shared_memory;
            let mut memory = profile.levels[0].clone();
            memory.name = "host".to_owned();
            memory.link = linear(latency, memory.link.send_overhead.at(0.0), 1.0 / bandwidth);
            profile.levels.insert(0, memory);
        }
        profile.reduce_per_byte = self.gamma;
        let latency = profile.link().latency;
        let synchronous = match self.handshake {
            Handshake::Free => latency,
            Handshake::Latency { latency, .. } => latency,
            Handshake::AckMessage => 2.0 * latency,
        };
        let vanishes_at = if let Handshake::Latency { below, .. } = self.handshake { below } else { f64::INFINITY };
        profile.synchronous = SynchronousSend { latency: synchronous, vanishes_at };
        profile
    }
}

/// A link whose gap is linear, and whose overheads are constant.
fn linear(latency: f64, overhead: f64, per_byte: f64) -> PLogP {
    let curve = |points: &[(f64, f64)]| PiecewiseLinear::new("a cost", points).expect("the settings were checked");
    let busy = curve(&[(0.0, overhead)]);
    let gap = curve(&[(0.0, overhead), (1.0, overhead + per_byte)]);
    PLogP { latency, send_overhead: busy.clone(), recv_overhead: busy, gap }
}

/// LogGP's L + 2o of a short message is L + g in P-LogP.   [P-LogP paper, table 1]
fn loggp_link(costs: &LogGP) -> PLogP {
    let interval = costs.message_interval();
    let mut link = linear(0.0, interval, costs.per_byte);
    link.latency = (costs.short_message_time() - interval).max(0.0);
    link.send_overhead = linear(0.0, costs.overhead, 0.0).send_overhead;
    link.recv_overhead = link.send_overhead.clone();
    link
}

/// The local network, and the slowest link between clusters: a tree and a segment size for all links are planned for
/// it.   [P-LogP paper 4]
fn clusters(costs: &ClusterCosts) -> Profile {
    let slowest = |one: WanLink, other: WanLink| {
        let time = |link: &WanLink| link.latency + costs.window as f64 / link.bandwidth;
        if time(&other) > time(&one) { other } else { one }
    };
    let links: Vec<WanLink> = match &costs.wan {
        WanLinks::Matrix(_) => costs.wan.iter().copied().reduce(slowest).into_iter().collect(),
        WanLinks::PerLevel(levels) => levels.clone(),
    };
    let mut profile = Profile::of_link("sim", "lan", costs.lan.clone());
    for link in links {
        let level = LevelProfile { name: "wan".to_owned(), link: wan_link(costs, link), ..profile.levels[0].clone() };
        profile.levels.push(level);
    }
    profile
}

/// A link between clusters, from rank to rank. A sender is free when its message is in the window of the gateway; that
/// of a longer message waits for the link and for the receiver's acknowledgement.
fn wan_link(costs: &ClusterCosts, link: WanLink) -> PLogP {
    let (lan, window) = (&costs.lan, costs.window as f64);
    let latency = link.latency + 2.0 * lan.latency;
    let carried = |bytes: f64| lan.gap.at(bytes).max(bytes / link.bandwidth);
    let blocked = |bytes: f64| lan.latency + carried(bytes) + 2.0 * link.latency;
    let send = |bytes: f64| lan.gap.at(bytes).max(lan.send_overhead.at(bytes));
    let curve = |points: &[(f64, f64)]| PiecewiseLinear::new("a cost", points).expect("the settings were checked");
    let send_overhead = curve(&[
        (0.0, send(0.0)),
        (window, send(window)),
        (window, blocked(window)),
        (2.0 * window, blocked(2.0 * window)),
    ]);
    let gap = curve(&[(0.0, carried(0.0)), (window, carried(window)), (2.0 * window, carried(2.0 * window))]);
    PLogP { latency, send_overhead, recv_overhead: lan.recv_overhead.clone(), gap }
}
