//! The profile of a simulated machine: what choices of algorithms on it use.

use treepie_model::plogp::PiecewiseLinear;
use treepie_model::profile::{LevelProfile, PairFactors, Profile, SynchronousSend};
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
            CostModel::Clusters(costs) => costs.profile_of("sim", costs.lan.clone(), |link| wan_link(costs, link)),
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

impl ClusterCosts {
    /// The links of each level: where they differ, the slowest.   [P-LogP paper 4]
    pub fn level_links(&self) -> Vec<WanLink> {
        let slowest = |one: WanLink, other: WanLink| {
            let time = |link: &WanLink| link.latency + self.window as f64 / link.bandwidth;
            if time(&other) > time(&one) { other } else { one }
        };
        match &self.wan {
            WanLinks::Matrix(_) => self.wan.iter().copied().reduce(slowest).into_iter().collect(),
            WanLinks::PerLevel(levels) => levels.clone(),
        }
    }

    /// A profile with these links within clusters and on each level, and with what makes those of a level differ.
    pub fn profile_of(&self, engine: &str, lan: PLogP, wan: impl Fn(WanLink) -> PLogP) -> Profile {
        let mut profile = Profile::of_link(engine, "lan", lan);
        for link in self.level_links() {
            let level = LevelProfile { name: "wan".to_owned(), link: wan(link), ..profile.levels[0].clone() };
            profile.levels.push(level);
        }
        if let (WanLinks::Matrix(rows), [base]) = (&self.wan, &self.level_links()[..]) {
            profile.levels[1].pairs = self.pairs(rows, *base);
        }
        profile
    }

    /// The links that differ from `base`.
    fn pairs(&self, rows: &[Vec<WanLink>], base: WanLink) -> Vec<PairFactors> {
        // To and from gateways.
        let local = 2.0 * self.lan.latency;
        let mut pairs = Vec::new();
        for (from, row) in (0..).zip(rows) {
            for (to, link) in (0..).zip(row).filter(|(to, link)| *to != from && **link != base) {
                let latency = (link.latency + local) / (base.latency + local);
                pairs.push(PairFactors { from, to, latency, bytes: base.bandwidth / link.bandwidth });
            }
        }
        pairs
    }
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
