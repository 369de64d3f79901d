//! Cost parameters: those of a machine, overridden by `--set`.

use std::fmt::Write;

use anyhow::{bail, ensure};
use treepie_model::CostParams;
use treepie_model::machines::PaperMachine;
use treepie_sim::costs::{
    ClusterCosts, CostModel, Handshake, LogGP, PLogP, Routing, Settings, SharedMemoryCosts, WanLink, WanLinks,
};
use treepie_sim::noise::Noise;
use treepie_topology::{Clusters, Network, NetworkKind};

use super::setting::{ParameterSetting, apply};

/// The settings of a simulation, and their description.
pub struct Parameters {
    /// The settings.
    pub settings: Settings,
    /// Parameters of the closed forms, where these apply.
    pub cost_params: Option<CostParams>,
    /// Name of the machine.
    pub machine: &'static str,
    /// The settings in words.
    pub description: String,
}

impl Parameters {
    /// The machine's settings, with the parameters that were set.
    pub fn new(machine: Option<PaperMachine>, set: &[ParameterSetting], network: &Network) -> anyhow::Result<Self> {
        let sets = |names: &[&str]| {
            set.iter().any(|setting| matches!(setting, ParameterSetting::Value { name, .. } if names.contains(name)))
        };
        let is_flat = matches!(network.kind(), NetworkKind::Flat(_));
        let loggp = machine.and_then(PaperMachine::loggp);
        let by_loggp =
            sets(&["L", "o", "g", "G"]) || (loggp.is_some() && is_flat && !sets(&["alpha", "beta", "delta"]));
        let name = machine.map(PaperMachine::name);
        let (mut settings, machine_name): (Settings, _) =
            if let (Some(clusters), Some(machine)) = (network.as_clusters(), machine) {
                (wan_clusters(machine, clusters)?.into(), machine.name())
            } else if network.as_clusters().is_some() {
                (Settings::for_network(network)?, "simulated wide-area links")
            } else if by_loggp {
                let zero = LogGP { latency: 0.0, overhead: 0.0, gap: 0.0, per_byte: 0.0 };
                (loggp.unwrap_or(zero).into(), name.filter(|_| loggp.is_some()).unwrap_or("set by hand"))
            } else {
                let settings = machine.map_or_else(|| Settings::for_network(network), |m| Ok(m.cost_params().into()));
                (settings?, name.unwrap_or(PaperMachine::Bgp.name()))
            };
        if let Some(time) = machine.and_then(PaperMachine::hardware_barrier) {
            settings.barrier_time = time;
        }
        for setting in set {
            apply(&mut settings, setting)?;
        }
        settings.check_on(network)?;
        let cost_params = cost_params(&settings, network);
        let description = describe(&settings, network);
        Ok(Self { settings, cost_params, machine: machine_name, description })
    }
}

/// The settings of a machine on a network, without overrides.
pub fn settings(machine: Option<PaperMachine>, network: &Network) -> anyhow::Result<Settings> {
    Parameters::new(machine, &[], network).map(|parameters| parameters.settings)
}

/// The same, with the measured cost of synchronous sends, where known.
pub fn settings_with_handshake(machine: Option<PaperMachine>, network: &Network) -> anyhow::Result<Settings> {
    let settings = settings(machine, network)?;
    let is_loggp = matches!(settings.costs, CostModel::LogGp(_));
    let measured = machine.and_then(PaperMachine::handshake).filter(|_| is_loggp);
    Ok(Settings { handshake: measured.unwrap_or(Handshake::AckMessage), ..settings })
}

/// The parameters of the closed forms, unless the settings have effects that these do not model.
fn cost_params(settings: &Settings, network: &Network) -> Option<CostParams> {
    let CostModel::Links(links) = &settings.costs else { return None };
    let has_shared_hosts = network.nodes_per_host() > 1;
    let is_known =
        links.per_hop == 0.0 && links.ports.is_none() && links.routing == Routing::Ideal && !has_shared_hosts;
    (is_known && is_noise_free(&settings.noise)).then(|| CostParams {
        alpha: links.alpha,
        beta: links.beta.unwrap_or(links.delta),
        gamma: settings.gamma,
        delta: links.delta,
        saturated_ports: links.saturated_ports.unwrap_or(network.ports()).max(2),
        port_efficiency: links.port_efficiency,
    })
}

/// Whether there is no noise; a seed alone is none.
fn is_noise_free(noise: &Noise) -> bool {
    *noise == Noise { seed: noise.seed, ..Noise::default() }
}

/// Size of a long message.
const LONG_BYTES: f64 = 1048576.0;

/// The machine's links between clusters.
fn wan_clusters(machine: PaperMachine, clusters: &Clusters) -> anyhow::Result<ClusterCosts> {
    let local = PLogP::from_latency_bandwidth(20.0, 50.0);
    let Some(links) = machine.wan_links() else {
        bail!("{machine} has no clusters: omit --machine, or use das");
    };
    ensure!(clusters.levels() == 1, "{machine} has no nested clusters");
    let count = clusters.count();
    ensure!(
        links.num_clusters() == count as usize,
        "{machine} has {} clusters, but the network has {count}",
        links.num_clusters()
    );
    let clusters = 0..links.num_clusters();
    let row = |from: usize| {
        let to = |to: usize| {
            let link = links.link(from, to);
            // From the gap of long messages; the link's start-up time is in the latency.
            let bandwidth = LONG_BYTES / (link.gap.at(2.0 * LONG_BYTES) - link.gap.at(LONG_BYTES));
            WanLink { latency: link.latency, bandwidth }
        };
        clusters.clone().map(to).collect()
    };
    let wan = WanLinks::Matrix(clusters.clone().map(row).collect());
    Ok(ClusterCosts { lan: local, wan, window: ClusterCosts::WINDOW })
}

/// The parameters in one line.
fn describe(settings: &Settings, network: &Network) -> String {
    let mut text = match &settings.costs {
        CostModel::LogGp(LogGP { latency, overhead, gap, per_byte }) => {
            format!("L {latency} us, o {overhead} us, g {gap} us, G {per_byte} us/B")
        }
        CostModel::Links(links) => {
            let mut text = format!("alpha {} us, delta {:.6} us/B", links.alpha, links.delta);
            if links.per_hop > 0.0 {
                let _ = write!(text, ", {} us per hop", links.per_hop);
            }
            if let Some(ports) = links.ports {
                let _ = write!(text, ", {ports} ports");
            }
            if links.routing == Routing::Static {
                text.push_str(", static routing");
            }
            if links.port_efficiency < 1.0 {
                let _ = write!(text, ", port efficiency {}", links.port_efficiency);
            }
            text
        }
        CostModel::Clusters(clusters) => {
            let (mut latency, mut bandwidth) = ((f64::MAX, 0.0f64), (f64::MAX, 0.0f64));
            for link in clusters.wan.iter() {
                latency = (latency.0.min(link.latency), latency.1.max(link.latency));
                bandwidth = (bandwidth.0.min(link.bandwidth), bandwidth.1.max(link.bandwidth));
            }
            let digits = |value: f64| (value * 1e6).round() / 1e6;
            let range = |(low, high): (f64, f64)| match (digits(low), digits(high)) {
                (low, high) if low < high => format!("{low} to {high}"),
                (_, high) => high.to_string(),
            };
            let (latency, bandwidth) = (range(latency), range(bandwidth));
            format!("between clusters {latency} us and {bandwidth} B/us, window {} B", clusters.window)
        }
        _ => String::new(),
    };
    if network.nodes_per_host() > 1 {
        let SharedMemoryCosts { latency, bandwidth } = settings.shared_memory;
        let _ = write!(text, ", within hosts {latency} us and {bandwidth} B/us");
    }
    if settings.gamma > 0.0 {
        let _ = write!(text, ", gamma {} us/B", settings.gamma);
    }
    if settings.barrier_time > 0.0 {
        let _ = write!(text, ", barrier {} us", settings.barrier_time);
    }
    if let Some(cap) = settings.memory_cap {
        let _ = write!(text, ", memory {cap} B");
    }
    if !is_noise_free(&settings.noise) {
        let _ = write!(text, ", noise with seed {}", settings.noise.seed);
    }
    text
}

#[cfg(test)]
mod tests {
    use treepie_sim::costs::LinkCosts;

    use super::*;

    fn parameters(machine: Option<PaperMachine>, set: &[&str], network: &str) -> anyhow::Result<Parameters> {
        let set: Vec<ParameterSetting> = set.iter().map(|text| text.parse().unwrap()).collect();
        Parameters::new(machine, &set, &network.parse().unwrap())
    }

    #[test]
    fn each_machine_uses_its_cost_model() {
        let costs = |machine, network| parameters(machine, &[], network).unwrap().settings.costs;
        assert!(matches!(costs(Some(PaperMachine::Intrepid), "flat:8"), CostModel::LogGp(LogGP { latency: 4.29, .. })));
        assert!(matches!(costs(Some(PaperMachine::Intrepid), "torus:4x4"), CostModel::Links(_)));
        assert!(matches!(
            costs(None, "torus:4x4"),
            CostModel::Links(LinkCosts { alpha: 6.29, port_efficiency: 0.93, .. })
        ));
        let CostModel::Clusters(das) = costs(Some(PaperMachine::Das), "clusters:4x2") else { panic!("clusters") };
        // Leiden to Delft has 3 Mb/s, and Delft to Leiden 4.5.
        for (from, to, bandwidth) in [(1, 3, 0.375), (3, 1, 0.5625)] {
            let WanLinks::Matrix(links) = &das.wan else { panic!("a link per pair") };
            assert!((links[from][to].bandwidth / bandwidth - 1.0f64).abs() < 1e-9, "from {from} to {to}");
        }
    }

    #[test]
    fn set_overrides_the_machine() {
        let links = parameters(None, &["alpha=5", "delta=0.01"], "torus:4x4").unwrap();
        assert!(matches!(links.settings.costs, CostModel::Links(LinkCosts { alpha: 5.0, delta: 0.01, .. })));
        let loggp = parameters(None, &["L=5", "o=1"], "flat:4").unwrap();
        assert!(matches!(loggp.settings.costs, CostModel::LogGp(LogGP { latency: 5.0, overhead: 1.0, .. })));
        assert!(loggp.cost_params.is_none() && links.cost_params.is_some());
    }

    #[test]
    fn loggp_starts_from_the_machine_on_any_network() {
        let intrepid = parameters(Some(PaperMachine::Intrepid), &["o=3"], "torus:4x4").unwrap();
        assert!(matches!(intrepid.settings.costs, CostModel::LogGp(LogGP { latency: 4.29, overhead: 3.0, .. })));
        assert_eq!(intrepid.machine, "intrepid");
        for machine in [None, Some(PaperMachine::Bgp)] {
            assert_eq!(parameters(machine, &["L=5"], "torus:4x4").unwrap().machine, "set by hand");
        }
        assert_eq!(parameters(None, &["alpha=5"], "torus:4x4").unwrap().machine, "bgp");
    }

    #[test]
    fn closed_forms_do_not_model_noise_hops_ports_and_routing() {
        for set in ["hop=1", "static=1", "ports=1", "slow_link=1:2", "slow_rank=1:2", "jitter=1", "dies=1:2"] {
            assert!(parameters(None, &[set], "clos:r10,t6,n24").unwrap().cost_params.is_none(), "{set}");
        }
        let quiet = parameters(None, &["seed=3", "gamma=1", "barrier=2"], "clos:r10,t6,n24").unwrap();
        assert!(quiet.cost_params.is_some() && !quiet.description.contains("noise"), "{}", quiet.description);
        let noisy =
            parameters(None, &["hop=2", "static=1", "ports=3", "memory=9", "jitter=1"], "clos:r10,t6,n24").unwrap();
        for part in ["2 us per hop", "3 ports", "static routing", "memory 9 B", "noise with seed 0"] {
            assert!(noisy.description.contains(part), "no {part} in {}", noisy.description);
        }
    }

    #[test]
    fn invalid_settings_are_one_line_errors() {
        let refusal = |machine, set: &[&str], network| {
            let error = parameters(machine, set, network).err().expect("an error").to_string();
            assert_eq!(error.lines().count(), 1, "{error}");
            error
        };
        assert!(refusal(None, &["alpha=-1"], "torus:4x4").contains("alpha must be"));
        assert!(refusal(None, &["wan=1"], "torus:4x4").contains("the cost model is links"));
        assert!(refusal(Some(PaperMachine::Das), &[], "clusters:3x2").contains("4 clusters"));
        assert!(refusal(Some(PaperMachine::Jaguar), &[], "clusters:3x2").contains("no clusters"));
        assert!(refusal(None, &["seed=1.5"], "flat:4").contains("whole number"));
        for (set, named) in [
            ("dies=8:1", "rank 8 does not exist"),
            ("slow_rank=9:2", "rank 9 does not exist"),
            ("slow_link=32:2", "link 32 does not exist"),
            ("delta=1e15", "delta must be at most 1e12, and is 1e15"),
            ("hop=1e300", "the time per hop must be at most"),
            ("jitter=1e300", "jitter must be at most"),
        ] {
            assert!(refusal(None, &[set], "torus:8").contains(named), "{set}");
        }
        assert!(refusal(None, &["slow_link=1:2", "L=1"], "flat:8").contains("slow links need link costs"));
        for set in ["wan_bandwidth=1e-13", "lan_bandwidth=1e-13"] {
            assert!(refusal(None, &[set], "clusters:2x2").contains("1e-12"), "{set}");
        }
        for bad in ["alpha", "alpha=x", "alpha=NaN", "beauty=1", "dies=3", "slow_rank=a:2"] {
            assert!(bad.parse::<ParameterSetting>().is_err(), "{bad}");
        }
    }
}
