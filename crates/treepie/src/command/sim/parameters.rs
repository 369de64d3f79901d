//! What things cost: a machine's parameters, and what the user sets.

use std::fmt::Write;
use std::str::FromStr;

use anyhow::{bail, ensure};
use treepie_model::Prices;
use treepie_model::machines::Machine;
use treepie_sim::costs::{Clusters, Costs, Links, LogGP, PLogP, Routing, Settings, Wide};
use treepie_topology::{Kind, Network};

/// A parameter that is set, or the wish to see which there are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Setting {
    Help,
    Value {
        name: &'static str,
        value: f64,
    },
    /// What happens to a rank or link: its number, and how much.
    Of {
        name: &'static str,
        which: u32,
        value: f64,
    },
}

/// Names, and what they are; times are in microseconds.
const NAMES: [(&str, &str); 21] = [
    ("alpha", "start-up of a message (links)"),
    ("beta", "time of a byte on a flat network (links)"),
    ("gamma", "time to combine or copy a byte"),
    ("delta", "time of a byte over a link (links)"),
    ("hop", "time of each link on the way (links)"),
    ("ports", "messages that a node drives at once (links)"),
    ("efficiency", "share of a link's speed when all ports are driven (links)"),
    ("static", "1: the receiver's number chooses the uplink of a Clos network (links)"),
    ("L", "latency (LogGP)"),
    ("o", "overhead of a send and of a receive (LogGP)"),
    ("g", "gap between messages (LogGP)"),
    ("G", "time of a byte (LogGP)"),
    ("lan", "latency within a cluster (clusters)"),
    ("lan_bandwidth", "bytes a microsecond within a cluster (clusters)"),
    ("wan", "latency between clusters (clusters)"),
    ("wan_bandwidth", "bytes a microsecond between clusters (clusters)"),
    ("window", "bytes that a gateway takes ahead (clusters)"),
    ("barrier", "time of a barrier by hardware, where an algorithm has all wait for all"),
    ("memory", "bytes of unexpected messages that a rank can hold"),
    ("jitter", "how much later messages come at most"),
    ("seed", "what everything random follows from"),
];

/// The same with the number of a rank or link: slow_rank=3:2.
const OF: [(&str, &str); 3] = [
    ("slow_rank", "RANK:FACTOR, a rank whose CPU takes so many times as long"),
    ("slow_link", "LINK:FACTOR, a link on which bytes take so many times as long (links)"),
    ("dies", "RANK:TIME, a rank that ends then"),
];

pub(super) fn print_help() {
    for (name, what) in NAMES.iter().chain(&OF) {
        say!("{name:<14} {what}");
    }
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "help" {
            return Ok(Setting::Help);
        }
        let (name, value) = text.split_once('=').ok_or("not a parameter as alpha=5; `--set help` lists them")?;
        let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
        let wrong = || format!("{value} is no number for {name}");
        if let Some((name, _)) = NAMES.iter().find(|(known, _)| *known == name) {
            return Ok(Setting::Value { name, value: number(value).ok_or_else(wrong)? });
        }
        let Some((name, form)) = OF.iter().find(|(known, _)| *known == name) else {
            return Err(format!("there is no parameter {name}; `--set help` lists those there are"));
        };
        let parts = value.split_once(':').and_then(|(which, value)| Some((which.parse().ok()?, number(value)?)));
        let (which, value) = parts.ok_or_else(|| format!("{value} is not of the form {form}"))?;
        Ok(Setting::Of { name, which, value })
    }
}

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
        let loggp = machine.and_then(Machine::loggp).filter(|_| is_flat && !sets(&["alpha", "beta", "delta"]));
        let mut settings: Settings = if network.clusters_kind().is_some() {
            clusters(machine, network)?.into()
        } else if loggp.is_some() || sets(&["L", "o", "g", "G"]) {
            let free = LogGP { latency: 0.0, overhead: 0.0, gap: 0.0, per_byte: 0.0 };
            loggp.unwrap_or(free).into()
        } else {
            machine.unwrap_or(Machine::Bgp).prices().into()
        };
        if let Some(time) = machine.and_then(Machine::hardware_barrier) {
            settings.barrier = time;
        }
        for setting in set {
            apply(&mut settings, setting)?;
        }
        settings.check()?;
        let prices = match &settings.costs {
            Costs::Links(links) => Some(Prices {
                alpha: links.alpha,
                beta: links.beta.unwrap_or(links.delta),
                gamma: settings.gamma,
                delta: links.delta,
                ports: links.crowded.unwrap_or(network.ports()).max(2),
                ports_share: links.efficiency,
            }),
            _ => None,
        };
        let named = match machine {
            Some(machine) => machine.name(),
            None if network.clusters_kind().is_some() => "simulated wide-area links",
            None => Machine::Bgp.name(),
        };
        let shown = show(&settings);
        Ok(Self { settings, prices, machine: named, shown })
    }
}

/// Bytes of a message that is long.
const LONG: f64 = 1048576.0;

/// The links between clusters: those of the machine, or the ones that the P-LogP paper simulates.
fn clusters(machine: Option<Machine>, network: &Network) -> anyhow::Result<Clusters> {
    let count = network.clusters_kind().map_or(0, treepie_topology::Clusters::count);
    let local = PLogP::simple(20.0, 50.0);
    let Some(machine) = machine else {
        return Ok(Clusters::uniform(local, Wide { latency: 10_000.0, bandwidth: 1.0 }, count));
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

fn apply(settings: &mut Settings, setting: &Setting) -> anyhow::Result<()> {
    match *setting {
        Setting::Help => {}
        Setting::Of { name: "slow_rank", which, value } => settings.noise.slow_ranks.push((which, value)),
        Setting::Of { name: "slow_link", which, value } => settings.noise.slow_links.push((which, value)),
        Setting::Of { which, value, .. } => settings.noise.deaths.push((which, value)),
        Setting::Value { name: "gamma", value } => settings.gamma = value,
        Setting::Value { name: "barrier", value } => settings.barrier = value,
        Setting::Value { name: "jitter", value } => settings.noise.jitter = value,
        Setting::Value { name: "seed", value } => settings.noise.seed = whole(name_of(setting), value)?,
        Setting::Value { name: "memory", value } => settings.memory_cap = Some(whole(name_of(setting), value)?),
        Setting::Value { name, value } => {
            let fits = match &mut settings.costs {
                Costs::Links(links) => set_links(links, name, value)?,
                Costs::LogGp(loggp) => set_loggp(loggp, name, value),
                Costs::Clusters(clusters) => set_clusters(clusters, name, value)?,
                _ => false,
            };
            let what = match &settings.costs {
                Costs::Links(_) => "links",
                Costs::LogGp(_) => "LogGP",
                _ => "clusters",
            };
            ensure!(fits, "{name} means nothing here: messages are priced by {what}");
        }
    }
    Ok(())
}

fn name_of(setting: &Setting) -> &'static str {
    match setting {
        Setting::Value { name, .. } | Setting::Of { name, .. } => name,
        Setting::Help => "help",
    }
}

fn whole(name: &str, value: f64) -> anyhow::Result<u64> {
    ensure!(
        value >= 0.0 && value.fract() == 0.0 && value < 2f64.powi(53),
        "{name} must be a whole number, and is {value}"
    );
    Ok(value as u64)
}

fn set_links(links: &mut Links, name: &str, value: f64) -> anyhow::Result<bool> {
    match name {
        "alpha" => links.alpha = value,
        "beta" => links.beta = Some(value),
        "delta" => {
            // Unless it is set too, a flat network's links are as fast.
            if links.beta == Some(links.delta) {
                links.beta = Some(value);
            }
            links.delta = value;
        }
        "hop" => links.hop = value,
        "ports" => links.ports = Some(u32::try_from(whole(name, value)?)?),
        "efficiency" => links.efficiency = value,
        "static" => links.routing = if value == 0.0 { Routing::Ideal } else { Routing::Static },
        _ => return Ok(false),
    }
    Ok(true)
}

fn set_loggp(loggp: &mut LogGP, name: &str, value: f64) -> bool {
    match name {
        "L" => loggp.latency = value,
        "o" => loggp.overhead = value,
        "g" => loggp.gap = value,
        "G" => loggp.per_byte = value,
        _ => return false,
    }
    true
}

fn set_clusters(clusters: &mut Clusters, name: &str, value: f64) -> anyhow::Result<bool> {
    let wide = |clusters: &mut Clusters, set: fn(&mut Wide, f64)| {
        clusters.wide.iter_mut().flatten().for_each(|wide| set(wide, value));
    };
    match name {
        "lan" => clusters.local.latency = value,
        "lan_bandwidth" => {
            ensure!(value > 0.0, "lan_bandwidth must be a number above 0, and is {value}");
            clusters.local = PLogP::simple(clusters.local.latency, value);
        }
        "wan" => wide(clusters, |wide, value| wide.latency = value),
        "wan_bandwidth" => wide(clusters, |wide, value| wide.bandwidth = value),
        "window" => clusters.window = whole(name, value)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// The parameters in one line.
fn show(settings: &Settings) -> String {
    let mut text = match &settings.costs {
        Costs::LogGp(LogGP { latency, overhead, gap, per_byte }) => {
            format!("L {latency} us, o {overhead} us, g {gap} us, G {per_byte} us/B")
        }
        Costs::Links(links) => {
            let mut text = format!("alpha {} us, delta {:.6} us/B", links.alpha, links.delta);
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
    if settings.noise != Default::default() {
        let _ = write!(text, ", noise of seed {}", settings.noise.seed);
    }
    text
}

#[cfg(test)]
mod tests {
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
        for bad in ["alpha", "alpha=x", "alpha=NaN", "beauty=1", "dies=3", "slow_rank=a:2"] {
            assert!(bad.parse::<Setting>().is_err(), "{bad}");
        }
    }
}
