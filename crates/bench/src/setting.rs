//! `--set`: single parameters by name.

use std::str::FromStr;

use anyhow::{Context, bail, ensure};
use treepie_sim::costs::{ClusterCosts, CostModel, LinkCosts, LogGP, PLogP, Routing, Settings, WanLink, WanLinks};

use crate::diagnostics::did_you_mean;
use treepie_base::units::ByteCount;

/// A parameter and its value, or the request to list the parameters.
#[derive(Clone, Debug, PartialEq)]
pub enum ParameterSetting {
    /// `help`: list the parameters.
    Help,
    /// A parameter of the whole machine.
    Value {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: f64,
    },
    /// A parameter of one rank, link or level, by its number.
    Indexed {
        /// Its name.
        name: &'static str,
        /// The rank, link or level.
        which: u32,
        /// Its value.
        value: f64,
    },
}

/// Names and descriptions; times are in microseconds.
const PARAMETER_NAMES: [(&str, &str); 23] = [
    ("alpha", "start-up time of a message (links)"),
    ("beta", "time per byte on a flat network (links)"),
    ("gamma", "time per byte to reduce or copy"),
    ("delta", "time per byte over a link (links)"),
    ("hop", "time per link of the route (links)"),
    ("ports", "messages that a node drives at once (links)"),
    ("efficiency", "fraction of a link's bandwidth when all ports are driven (links)"),
    ("static", "1: static routing, the destination selects the uplink of a Clos network (links)"),
    ("L", "latency (LogGP)"),
    ("o", "overhead of a send and of a receive (LogGP)"),
    ("g", "gap between messages (LogGP)"),
    ("G", "gap per byte (LogGP)"),
    ("lan", "latency within a cluster (clusters)"),
    ("lan_bandwidth", "bytes per microsecond within a cluster (clusters)"),
    ("wan", "latency between clusters (clusters)"),
    ("wan_bandwidth", "bytes per microsecond between clusters (clusters)"),
    ("shm", "latency within a host of several ranks (flat:64,ppn=4)"),
    ("shm_bandwidth", "bytes per microsecond within a host of several ranks"),
    ("window", "bytes that a gateway buffers (clusters)"),
    ("barrier", "time of a hardware barrier, where an algorithm synchronizes all ranks"),
    ("memory", "bytes of unexpected messages that a rank can hold"),
    ("jitter", "maximum random delay of a message"),
    ("seed", "seed of the random numbers"),
];

/// Parameters that accept byte units: memory=64K.
const BYTE_PARAMETERS: [&str; 2] = ["window", "memory"];

/// Parameters of one rank, link or level: slow_rank=3:2.
const INDEXED_PARAMETERS: [(&str, &str); 5] = [
    ("wan_level", "LEVEL:LATENCY, between groups on a level of nested clusters, 1 between clusters (clusters)"),
    ("wan_level_bandwidth", "LEVEL:BANDWIDTH, bytes per microsecond between groups on a level (clusters)"),
    ("slow_rank", "RANK:FACTOR, a rank whose CPU is slower by this factor"),
    ("slow_link", "LINK:FACTOR, a link that is slower by this factor (links)"),
    ("dies", "RANK:TIME, a rank that fails at this time"),
];

/// Lists the parameters.
pub fn print_help() {
    for (name, what) in PARAMETER_NAMES.iter().chain(&INDEXED_PARAMETERS) {
        say!("{name:<14} {what}");
    }
}

impl FromStr for ParameterSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "help" {
            return Ok(ParameterSetting::Help);
        }
        let (name, value) = text
            .split_once('=')
            .ok_or("expected a parameter such as alpha=5; `treepie sim OP --set help` lists them")?;
        let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
        let wrong = || format!("{value} is not a valid number for {name}");
        if let Some((name, _)) = PARAMETER_NAMES.iter().find(|(known, _)| *known == name) {
            let bytes =
                || value.parse().ok().filter(|_| BYTE_PARAMETERS.contains(name)).map(|ByteCount(bytes)| bytes as f64);
            return Ok(ParameterSetting::Value { name, value: number(value).or_else(bytes).ok_or_else(wrong)? });
        }
        let Some((name, form)) = INDEXED_PARAMETERS.iter().find(|(known, _)| *known == name) else {
            let near = did_you_mean(name, PARAMETER_NAMES.iter().chain(&INDEXED_PARAMETERS).map(|(known, _)| *known));
            return Err(format!("there is no parameter {name}; `treepie sim OP --set help` lists them{near}"));
        };
        let parts = value.split_once(':').and_then(|(which, value)| Some((which.parse().ok()?, number(value)?)));
        let (which, value) = parts.ok_or_else(|| format!("{value} is not of the form {form}"))?;
        Ok(ParameterSetting::Indexed { name, which, value })
    }
}

/// Sets a parameter.
pub fn apply(settings: &mut Settings, setting: &ParameterSetting) -> anyhow::Result<()> {
    match *setting {
        ParameterSetting::Help => {}
        ParameterSetting::Indexed { name: "slow_rank", which, value } => settings.noise.slow_ranks.push((which, value)),
        ParameterSetting::Indexed { name: "slow_link", which, value } => settings.noise.slow_links.push((which, value)),
        ParameterSetting::Indexed { name: name @ ("wan_level" | "wan_level_bandwidth"), which, value } => {
            set_wan_level(&mut settings.costs, name, which, value)?
        }
        ParameterSetting::Indexed { which, value, .. } => settings.noise.failures.push((which, value)),
        ParameterSetting::Value { name: "gamma", value } => settings.gamma = value,
        ParameterSetting::Value { name: "barrier", value } => settings.barrier_time = value,
        ParameterSetting::Value { name: "shm", value } => settings.shared_memory.latency = value,
        ParameterSetting::Value { name: "shm_bandwidth", value } => settings.shared_memory.bandwidth = value,
        ParameterSetting::Value { name: "jitter", value } => settings.noise.jitter = value,
        ParameterSetting::Value { name: "seed", value } => settings.noise.seed = to_integer(name_of(setting), value)?,
        ParameterSetting::Value { name: "memory", value } => {
            settings.memory_cap = Some(to_integer(name_of(setting), value)?)
        }
        ParameterSetting::Value { name, value } => {
            let applies = match &mut settings.costs {
                CostModel::Links(links) => set_links(links, name, value)?,
                CostModel::LogGp(loggp) => set_loggp(loggp, name, value),
                CostModel::Clusters(clusters) => set_clusters(clusters, name, value)?,
                _ => false,
            };
            let what = match &settings.costs {
                CostModel::Links(_) => "links",
                CostModel::LogGp(_) => "LogGP",
                _ => "clusters",
            };
            ensure!(applies, "{name} does not apply here: the cost model is {what}");
        }
    }
    Ok(())
}

fn name_of(setting: &ParameterSetting) -> &'static str {
    match setting {
        ParameterSetting::Value { name, .. } | ParameterSetting::Indexed { name, .. } => name,
        ParameterSetting::Help => "help",
    }
}

fn to_integer(name: &str, value: f64) -> anyhow::Result<u64> {
    ensure!(
        value >= 0.0 && value.fract() == 0.0 && value < 2f64.powi(53),
        "{name} must be a whole number up to 2^53, and is {value:?}"
    );
    Ok(value as u64)
}

fn set_links(links: &mut LinkCosts, name: &str, value: f64) -> anyhow::Result<bool> {
    match name {
        "alpha" => links.alpha = value,
        "beta" => links.beta = Some(value),
        "delta" => {
            // Unless beta is set too, it follows delta.
            if links.beta == Some(links.delta) {
                links.beta = Some(value);
            }
            links.delta = value;
        }
        "hop" => links.per_hop = value,
        "ports" => links.ports = Some(u32::try_from(to_integer(name, value)?)?),
        "efficiency" => links.port_efficiency = value,
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

fn set_wan_level(costs: &mut CostModel, name: &str, level: u32, value: f64) -> anyhow::Result<()> {
    let links = match costs {
        CostModel::Clusters(ClusterCosts { wan: WanLinks::PerLevel(links), .. }) => links,
        _ => bail!("{name} does not apply here: it is for nested clusters, such as clusters:2x4x8"),
    };
    let levels = links.len();
    let link = (level as usize).checked_sub(1).and_then(|index| links.get_mut(index));
    let link = link.with_context(|| format!("{name}: there is no level {level}; the levels are 1 to {levels}"))?;
    if name == "wan_level" {
        link.latency = value
    } else {
        link.bandwidth = value
    }
    Ok(())
}

fn set_clusters(clusters: &mut ClusterCosts, name: &str, value: f64) -> anyhow::Result<bool> {
    let set_all = |clusters: &mut ClusterCosts, set: fn(&mut WanLink, f64)| {
        clusters.wan.iter_mut().for_each(|link| set(link, value));
    };
    match name {
        "lan" => clusters.lan.latency = value,
        "lan_bandwidth" => {
            ensure!((1e-12..=1e12).contains(&value), "lan_bandwidth must be from 1e-12 to 1e12, and is {value:?}");
            clusters.lan = PLogP::from_latency_bandwidth(clusters.lan.latency, value);
        }
        "wan" => set_all(clusters, |link, value| link.latency = value),
        "wan_bandwidth" => set_all(clusters, |link, value| link.bandwidth = value),
        "window" => clusters.window = to_integer(name, value)?,
        _ => return Ok(false),
    }
    Ok(true)
}
