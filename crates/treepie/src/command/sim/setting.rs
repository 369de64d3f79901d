//! `--set`: single parameters by name.

use std::str::FromStr;

use anyhow::ensure;
use treepie_sim::costs::{Clusters, Costs, Links, LogGP, PLogP, Routing, Settings, Wide};

use super::super::bytes::Bytes;
use super::super::complaint::did_you_mean;

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

/// Of these, what may have units as other numbers of bytes have: memory=64K.
const BYTES: [&str; 2] = ["window", "memory"];

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
        let (name, value) =
            text.split_once('=').ok_or("not a parameter as alpha=5; `treepie sim OP --set help` lists them")?;
        let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
        let wrong = || format!("{value} is no number for {name}");
        if let Some((name, _)) = NAMES.iter().find(|(known, _)| *known == name) {
            let bytes = || value.parse().ok().filter(|_| BYTES.contains(name)).map(|Bytes(bytes)| bytes as f64);
            return Ok(Setting::Value { name, value: number(value).or_else(bytes).ok_or_else(wrong)? });
        }
        let Some((name, form)) = OF.iter().find(|(known, _)| *known == name) else {
            let near = did_you_mean(name, NAMES.iter().chain(&OF).map(|(known, _)| *known));
            return Err(format!("there is no parameter {name}; `treepie sim OP --set help` lists them{near}"));
        };
        let parts = value.split_once(':').and_then(|(which, value)| Some((which.parse().ok()?, number(value)?)));
        let (which, value) = parts.ok_or_else(|| format!("{value} is not of the form {form}"))?;
        Ok(Setting::Of { name, which, value })
    }
}

/// Sets a parameter.
pub(super) fn apply(settings: &mut Settings, setting: &Setting) -> anyhow::Result<()> {
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
        "{name} must be a whole number up to 2^53, and is {value:?}"
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
            ensure!((1e-12..=1e12).contains(&value), "lan_bandwidth must be from 1e-12 to 1e12, and is {value:?}");
            clusters.local = PLogP::simple(clusters.local.latency, value);
        }
        "wan" => wide(clusters, |wide, value| wide.latency = value),
        "wan_bandwidth" => wide(clusters, |wide, value| wide.bandwidth = value),
        "window" => clusters.window = whole(name, value)?,
        _ => return Ok(false),
    }
    Ok(true)
}
