//! What things cost: a machine's parameters, and what the user sets.

use std::fmt::Write;

use anyhow::{bail, ensure};
use treepie_model::Prices;
use treepie_model::machines::Machine;
use treepie_sim::costs::{Clusters, Costs, Handshake, LogGP, PLogP, Routing, Settings, Wide};
use treepie_sim::noise::Noise;
use treepie_topology::{Kind, Network};

use super::setting::{Setting, apply};

/// All that a simulation is told, and how it is told to people.
pub(super) struct Parameters {
    pub(super) settings: Settings,
    /// For closed forms, where they are priced by the same.
    pub(super) prices: Option<Prices>,
    pub(super) machine: &'static str,
    pub(super) shown: String,
}

impl Parameters {
    pub(super) fn new(machine: Option<Machine>, set: &[Setting], network: &Network) -> anyhow::Result<Self> {
        let sets = |names: &[&str]| {
            set.iter().any(|setting| matches!(setting, Setting::Value { name, .. } if names.contains(name)))
        };
        let is_flat = matches!(network.kind(), Kind::Flat(_));
        let loggp = machine.and_then(Machine::loggp);
        let by_loggp =
            sets(&["L", "o", "g", "G"]) || (loggp.is_some() && is_flat && !sets(&["alpha", "beta", "delta"]));
        let name = machine.map(Machine::name);
        let (mut settings, named): (Settings, _) = if network.clusters_kind().is_some() {
            (clusters(machine, network)?.into(), name.unwrap_or("simulated wide-area links"))
        } else if by_loggp {
            let free = LogGP { latency: 0.0, overhead: 0.0, gap: 0.0, per_byte: 0.0 };
            (loggp.unwrap_or(free).into(), name.filter(|_| loggp.is_some()).unwrap_or("set by hand"))
        } else {
            let machine = machine.unwrap_or(Machine::Bgp);
            (machine.prices().into(), machine.name())
        };
        if let Some(time) = machine.and_then(Machine::hardware_barrier) {
            settings.barrier = time;
        }
        for setting in set {
            apply(&mut settings, setting)?;
        }
        settings.check_on(network)?;
        let prices = prices(&settings, network);
        let shown = show(&settings);
        Ok(Self { settings, prices, machine: named, shown })
    }
}

/// What a machine's messages cost on a network, with nothing set by the user.
pub(crate) fn settings(machine: Option<Machine>, network: &Network) -> anyhow::Result<Settings> {
    Parameters::new(machine, &[], network).map(|parameters| parameters.settings)
}

/// The same, with what synchronous messages cost, where that was measured.
pub(crate) fn settings_with_handshake(machine: Option<Machine>, network: &Network) -> anyhow::Result<Settings> {
    let settings = settings(machine, network)?;
    let is_loggp = matches!(settings.costs, Costs::LogGp(_));
    let measured = machine.and_then(Machine::synchronous).filter(|_| is_loggp);
    let handshake = measured.map_or(Handshake::Answers, |(latency, _)| Handshake::Latency(latency));
    Ok(Settings { handshake, ..settings })
}

/// What closed forms are priced by, unless something counts of which they know nothing.
fn prices(settings: &Settings, network: &Network) -> Option<Prices> {
    let Costs::Links(links) = &settings.costs else { return None };
    let is_known = links.hop == 0.0 && links.ports.is_none() && links.routing == Routing::Ideal;
    (is_known && is_quiet(&settings.noise)).then(|| Prices {
        alpha: links.alpha,
        beta: links.beta.unwrap_or(links.delta),
        gamma: settings.gamma,
        delta: links.delta,
        ports: links.crowded.unwrap_or(network.ports()).max(2),
        ports_share: links.efficiency,
    })
}

/// A seed alone is no noise.
fn is_quiet(noise: &Noise) -> bool {
    *noise == Noise { seed: noise.seed, ..Noise::default() }
}

/// Bytes of a message that is long.
const LONG: f64 = 1048576.0;

/// The links between clusters: those of the machine, or the ones that the P-LogP paper simulates.
fn clusters(machine: Option<Machine>, network: &Network) -> anyhow::Result<Clusters> {
    let count = network.clusters_kind().map_or(0, treepie_topology::Clusters::count);
    let local = PLogP::simple(20.0, 50.0);
    let Some(machine) = machine else {
        return Ok(Clusters::try_uniform(local, Wide { latency: 10_000.0, bandwidth: 1.0 }, count)?);
    };
    let Some(links) = machine.links() else {
        bail!("{machine} has no clusters: leave --machine out, or take das");
    };
    ensure!(links.places() == count as usize, "{machine} has {} clusters, and the network has {count}", links.places());
    let places = 0..links.places();
    let wide = |from: usize| {
        let to = |to: usize| {
            let link = links.between(from, to);
            // What the gap of a long message says; the link's own start-up is in the latency.
            let bandwidth = LONG / (link.gap.at(2.0 * LONG) - link.gap.at(LONG));
            Wide { latency: link.latency, bandwidth }
        };
        places.clone().map(to).collect()
    };
    let wide = places.clone().map(wide).collect();
    Ok(Clusters { local, wide, window: Clusters::WINDOW })
}

/// The parameters in one line.
fn show(settings: &Settings) -> String {
    let mut text = match &settings.costs {
        Costs::LogGp(LogGP { latency, overhead, gap, per_byte }) => {
            format!("L {latency} us, o {overhead} us, g {gap} us, G {per_byte} us/B")
        }
        Costs::Links(links) => {
            let mut text = format!("alpha {} us, delta {:.6} us/B", links.alpha, links.delta);
            if links.hop > 0.0 {
                let _ = write!(text, ", {} us a hop", links.hop);
            }
            if let Some(ports) = links.ports {
                let _ = write!(text, ", {ports} ports");
            }
            if links.routing == Routing::Static {
                text.push_str(", routed statically");
            }
            if links.efficiency < 1.0 {
                let _ = write!(text, ", {} of it with all ports", links.efficiency);
            }
            text
        }
        Costs::Clusters(clusters) => {
            let between = clusters.wide.iter().enumerate().flat_map(|(from, row)| {
                row.iter().enumerate().filter(move |(to, _)| *to != from).map(|(_, wide)| *wide)
            });
            let (mut latency, mut bandwidth) = ((f64::MAX, 0.0f64), (f64::MAX, 0.0f64));
            for wide in between {
                latency = (latency.0.min(wide.latency), latency.1.max(wide.latency));
                bandwidth = (bandwidth.0.min(wide.bandwidth), bandwidth.1.max(wide.bandwidth));
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
    if settings.gamma > 0.0 {
        let _ = write!(text, ", gamma {} us/B", settings.gamma);
    }
    if settings.barrier > 0.0 {
        let _ = write!(text, ", barrier {} us", settings.barrier);
    }
    if let Some(cap) = settings.memory_cap {
        let _ = write!(text, ", memory {cap} B");
    }
    if !is_quiet(&settings.noise) {
        let _ = write!(text, ", noise of seed {}", settings.noise.seed);
    }
    text
}

#[cfg(test)]
mod tests {
    use treepie_sim::costs::Links;

    use super::*;

    fn parameters(machine: Option<Machine>, set: &[&str], network: &str) -> anyhow::Result<Parameters> {
        let set: Vec<Setting> = set.iter().map(|text| text.parse().unwrap()).collect();
        Parameters::new(machine, &set, &network.parse().unwrap())
    }

    #[test]
    fn machines_are_priced_by_what_is_known_of_them() {
        let costs = |machine, network| parameters(machine, &[], network).unwrap().settings.costs;
        assert!(matches!(costs(Some(Machine::Intrepid), "flat:8"), Costs::LogGp(LogGP { latency: 4.29, .. })));
        assert!(matches!(costs(Some(Machine::Intrepid), "torus:4x4"), Costs::Links(_)));
        assert!(matches!(costs(None, "torus:4x4"), Costs::Links(Links { alpha: 6.29, efficiency: 0.93, .. })));
        let Costs::Clusters(das) = costs(Some(Machine::Das), "clusters:4x2") else { panic!("clusters") };
        // Leiden to Delft has 3 Mb/s, and the way back 4.5.
        for (from, to, bandwidth) in [(1, 3, 0.375), (3, 1, 0.5625)] {
            assert!((das.wide[from][to].bandwidth / bandwidth - 1.0f64).abs() < 1e-9, "from {from} to {to}");
        }
    }

    #[test]
    fn what_is_set_wins() {
        let links = parameters(None, &["alpha=5", "delta=0.01"], "torus:4x4").unwrap();
        assert!(matches!(links.settings.costs, Costs::Links(Links { alpha: 5.0, delta: 0.01, .. })));
        let loggp = parameters(None, &["L=5", "o=1"], "flat:4").unwrap();
        assert!(matches!(loggp.settings.costs, Costs::LogGp(LogGP { latency: 5.0, overhead: 1.0, .. })));
        assert!(loggp.prices.is_none() && links.prices.is_some());
    }

    #[test]
    fn loggp_begins_with_the_machine_on_any_network() {
        let intrepid = parameters(Some(Machine::Intrepid), &["o=3"], "torus:4x4").unwrap();
        assert!(matches!(intrepid.settings.costs, Costs::LogGp(LogGP { latency: 4.29, overhead: 3.0, .. })));
        assert_eq!(intrepid.machine, "intrepid");
        for machine in [None, Some(Machine::Bgp)] {
            assert_eq!(parameters(machine, &["L=5"], "torus:4x4").unwrap().machine, "set by hand");
        }
        assert_eq!(parameters(None, &["alpha=5"], "torus:4x4").unwrap().machine, "bgp");
    }

    #[test]
    fn formulas_know_nothing_of_noise_hops_ports_and_routing() {
        for set in ["hop=1", "static=1", "ports=1", "slow_link=1:2", "slow_rank=1:2", "jitter=1", "dies=1:2"] {
            assert!(parameters(None, &[set], "clos:r10,t6,n24").unwrap().prices.is_none(), "{set}");
        }
        let quiet = parameters(None, &["seed=3", "gamma=1", "barrier=2"], "clos:r10,t6,n24").unwrap();
        assert!(quiet.prices.is_some() && !quiet.shown.contains("noise"), "{}", quiet.shown);
        let told =
            parameters(None, &["hop=2", "static=1", "ports=3", "memory=9", "jitter=1"], "clos:r10,t6,n24").unwrap();
        for part in ["2 us a hop", "3 ports", "routed statically", "memory 9 B", "noise of seed 0"] {
            assert!(told.shown.contains(part), "no {part} in {}", told.shown);
        }
    }

    #[test]
    fn what_cannot_be_is_refused_in_one_line() {
        let refusal = |machine, set: &[&str], network| {
            let error = parameters(machine, set, network).err().expect("it cannot be").to_string();
            assert_eq!(error.lines().count(), 1, "{error}");
            error
        };
        assert!(refusal(None, &["alpha=-1"], "torus:4x4").contains("alpha must be"));
        assert!(refusal(None, &["wan=1"], "torus:4x4").contains("priced by links"));
        assert!(refusal(Some(Machine::Das), &[], "clusters:3x2").contains("4 clusters"));
        assert!(refusal(Some(Machine::Jaguar), &[], "clusters:3x2").contains("no clusters"));
        assert!(refusal(None, &["seed=1.5"], "flat:4").contains("whole number"));
        for (set, named) in [
            ("dies=8:1", "rank 8 is named"),
            ("slow_rank=9:2", "rank 9 is named"),
            ("slow_link=32:2", "link 32 is named"),
            ("delta=1e15", "delta must be at most 1e12, and is 1e15"),
            ("hop=1e300", "the time of a hop must be at most"),
            ("jitter=1e300", "jitter must be at most"),
        ] {
            assert!(refusal(None, &[set], "torus:8").contains(named), "{set}");
        }
        assert!(refusal(None, &["slow_link=1:2", "L=1"], "flat:8").contains("slow links are named"));
        for set in ["wan_bandwidth=1e-13", "lan_bandwidth=1e-13"] {
            assert!(refusal(None, &[set], "clusters:2x2").contains("1e-12"), "{set}");
        }
        for bad in ["alpha", "alpha=x", "alpha=NaN", "beauty=1", "dies=3", "slow_rank=a:2"] {
            assert!(bad.parse::<Setting>().is_err(), "{bad}");
        }
    }
}
