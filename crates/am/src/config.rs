//! Message configuration: coalescing, routing, reductions and style.   [Edmonds, Willcock, Lumsdaine, 3.2]
//!
//! An algorithm defines messages and handlers. The configuration can be changed without changing the algorithm, by
//! [`Builder::configure`](crate::Builder::configure) or, for types that the program does not configure, by the
//! environment variable `TREEPIE_AM`, as in `TREEPIE_AM=routing=rook,coalescing=512`.

use std::fmt;
use std::str::FromStr;

use treepie_base::{Error, Result, environment};
use treepie_comm::Network;

/// The configuration of a message type, the same on all ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// How messages are coalesced into buffers.
    pub coalescing: Coalescing,
    /// The route of messages.
    pub routing: Routing,
    /// Whether messages are combined, if the type allows it.
    pub reductions: Reductions,
    /// When messages are handled.
    pub style: Style,
}

/// The size of the buffer of messages to one neighbor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coalescing {
    /// A number of messages.
    Messages(usize),
    /// A number of bytes, at least one message.
    Bytes(usize),
    /// Buffers grow when they fill up, and shrink when an idle rank flushes them half empty.
    #[default]
    Adaptive,
}

/// The route of messages. All but direct routing forward messages over other ranks, so that a rank has buffers for
/// fewer neighbors, which fill up faster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Routing {
    /// One hop: a buffer for each rank.
    #[default]
    Direct,
    /// Along row and column of a nearly square grid: two hops, 2 sqrt(P) buffers.
    Rook,
    /// Dimension by dimension on a grid with these sides, the last one fastest.
    Grid(Vec<u32>),
    /// Dimension by dimension on a hypercube: log2 P hops and buffers.
    Hypercube,
    /// Between clusters of consecutive ranks with these sizes, over one pair of gateway ranks per pair of clusters.
    Clusters(Vec<u32>),
}

/// Whether messages are combined, if their type defines how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reductions {
    /// Never.
    Off,
    /// In a direct-mapped cache with this number of entries for each neighbor.
    Entries(usize),
    /// In a direct-mapped cache that is switched on while samples show that it pays.
    #[default]
    Adaptive,
}

/// When messages are handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// On arrival.
    #[default]
    Am,
    /// In rounds (bulk-synchronous): all ranks handle the messages of a round after its end.
    Bsp,
}

/// Maximum messages or bytes of a buffer.
const MAX_COALESCING: usize = 1 << 28;

/// Maximum entries of a cache.
const MAX_CACHE_ENTRIES: usize = 1 << 24;

impl Routing {
    /// Routing over the clusters of a network, if it has clusters and each has consecutive ranks.
    pub fn clusters_of(network: &Network) -> Option<Self> {
        let clusters = network.as_clusters()?;
        let cluster = |rank| clusters.cluster_of(network.node_of(rank));
        let mut sizes: Vec<u32> = Vec::new();
        for rank in 0..network.ranks() {
            match sizes.last_mut() {
                Some(size) if cluster(rank) == cluster(rank - 1) => *size += 1,
                _ => sizes.push(1),
            }
        }
        let mut starts = sizes.iter().scan(0, |start, size| Some(std::mem::replace(start, *start + size)));
        let mut seen: Vec<_> = starts.by_ref().map(cluster).collect();
        let runs = seen.len();
        seen.sort_unstable();
        seen.dedup();
        (seen.len() == runs).then_some(Self::Clusters(sizes))
    }
}

impl Config {
    /// Sets the coalescing.
    pub fn coalescing(self, coalescing: Coalescing) -> Self {
        Self { coalescing, ..self }
    }

    /// Sets the routing.
    pub fn routing(self, routing: Routing) -> Self {
        Self { routing, ..self }
    }

    /// Sets the reductions.
    pub fn reductions(self, reductions: Reductions) -> Self {
        Self { reductions, ..self }
    }

    /// Sets the style.
    pub fn style(self, style: Style) -> Self {
        Self { style, ..self }
    }

    /// Rejects values out of range.
    pub(crate) fn check(&self) -> Result<()> {
        let refused = |what: String| Err(Error::Algorithm(what));
        match (self.coalescing, self.reductions) {
            (Coalescing::Messages(n) | Coalescing::Bytes(n), _) if n > MAX_COALESCING => {
                refused(format!("coalescing={} is more than {MAX_COALESCING}", self.coalescing))
            }
            (Coalescing::Messages(0) | Coalescing::Bytes(0), _) => refused("coalescing=0 sends nothing".to_owned()),
            (_, Reductions::Entries(n)) if n > MAX_CACHE_ENTRIES => {
                refused(format!("reductions={n} is more than {MAX_CACHE_ENTRIES}"))
            }
            (_, Reductions::Entries(0)) => refused("reductions=0 has no room; there is `off`".to_owned()),
            _ => Ok(()),
        }
    }

    /// The configuration of the environment, or else the default.
    pub(crate) fn from_environment() -> Result<Self> {
        let Some(text) = environment::text(environment::AM)? else { return Ok(Self::default()) };
        let config = text.parse().and_then(|config: Self| config.check().map(|()| config));
        config.map_err(|error| environment::invalid_value(environment::AM, &text, error.to_string()))
    }
}

/// Rejects an invalid `TREEPIE_AM` early.
pub fn check_environment() -> Result<()> {
    Config::from_environment().map(drop)
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { coalescing, routing, reductions, style } = self;
        write!(f, "coalescing={coalescing},routing={routing},reductions={reductions},style={style}")
    }
}

impl fmt::Display for Coalescing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Messages(count) => write!(f, "{count}"),
            Self::Bytes(bytes) => write!(f, "{bytes}b"),
            Self::Adaptive => f.write_str("adaptive"),
        }
    }
}

impl fmt::Display for Routing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list =
            |numbers: &[u32], separator: &str| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(separator);
        match self {
            Self::Direct => f.write_str("direct"),
            Self::Rook => f.write_str("rook"),
            Self::Grid(sides) => write!(f, "grid:{}", list(sides, "x")),
            Self::Hypercube => f.write_str("hypercube"),
            Self::Clusters(sizes) => write!(f, "clusters:{}", list(sizes, "+")),
        }
    }
}

impl fmt::Display for Reductions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Entries(entries) => write!(f, "{entries}"),
            Self::Adaptive => f.write_str("adaptive"),
        }
    }
}

impl fmt::Display for Style {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Am => "am",
            Self::Bsp => "bsp",
        })
    }
}

impl FromStr for Config {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut config = Self::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let refused = |what: &str| Error::Algorithm(format!("`{part}` in a message configuration: {what}"));
            let (key, value) = part.split_once('=').ok_or_else(|| refused("not of the form key=value"))?;
            match key {
                "coalescing" => {
                    config.coalescing = parse_coalescing(value).ok_or_else(|| refused("adaptive, N or Nb"))?
                }
                "routing" => {
                    let kinds = "direct, rook, grid:AxB, hypercube or clusters:A+B";
                    config.routing = parse_routing(value).ok_or_else(|| refused(kinds))?;
                }
                "reductions" => {
                    config.reductions = parse_reductions(value).ok_or_else(|| refused("off, adaptive or N"))?;
                }
                "style" => {
                    config.style = match value {
                        "am" => Style::Am,
                        "bsp" => Style::Bsp,
                        _ => return Err(refused("am or bsp")),
                    }
                }
                _ => return Err(refused("there are coalescing, routing, reductions and style")),
            }
        }
        Ok(config)
    }
}

fn positive(text: &str) -> Option<usize> {
    text.parse().ok().filter(|number| *number > 0)
}

fn parse_coalescing(text: &str) -> Option<Coalescing> {
    if text == "adaptive" {
        return Some(Coalescing::Adaptive);
    }
    match text.strip_suffix('b') {
        Some(bytes) => positive(bytes).map(Coalescing::Bytes),
        None => positive(text).map(Coalescing::Messages),
    }
}

fn parse_routing(text: &str) -> Option<Routing> {
    let list = |text: &str, separator| {
        text.split(separator)
            .map(|number| number.parse().ok().filter(|number| *number > 0))
            .collect::<Option<Vec<u32>>>()
    };
    match text.split_once(':') {
        None => Some(match text {
            "direct" => Routing::Direct,
            "rook" => Routing::Rook,
            "hypercube" => Routing::Hypercube,
            _ => return None,
        }),
        Some(("grid", sides)) => list(sides, 'x').map(Routing::Grid),
        Some(("clusters", sizes)) => list(sizes, '+').map(Routing::Clusters),
        Some(_) => None,
    }
}

fn parse_reductions(text: &str) -> Option<Reductions> {
    match text {
        "off" => Some(Reductions::Off),
        "adaptive" => Some(Reductions::Adaptive),
        entries => positive(entries).map(Reductions::Entries),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_and_parse_round_trip() {
        let all = [
            "coalescing=adaptive,routing=direct,reductions=adaptive,style=am",
            "coalescing=512,routing=rook,reductions=off,style=bsp",
            "coalescing=4096b,routing=grid:4x3x2,reductions=1024,style=am",
            "coalescing=1,routing=hypercube,reductions=1,style=am",
            "coalescing=1b,routing=clusters:4+4+8,reductions=off,style=am",
        ];
        for text in all {
            assert_eq!(text.parse::<Config>().unwrap().to_string(), text);
        }
        assert_eq!("".parse::<Config>().unwrap(), Config::default());
    }

    #[test]
    fn bounds_are_inclusive() {
        let checked = |text: String| text.parse::<Config>().expect("it can be read").check();
        for unit in ["", "b"] {
            assert!(checked(format!("coalescing={MAX_COALESCING}{unit}")).is_ok());
            let error = checked(format!("coalescing={}{unit}", MAX_COALESCING + 1)).unwrap_err();
            assert!(error.to_string().ends_with("is more than 268435456"), "{error}");
        }
        assert!(checked(format!("reductions={MAX_CACHE_ENTRIES}")).is_ok());
        let error = checked(format!("reductions={}", MAX_CACHE_ENTRIES + 1)).unwrap_err();
        assert_eq!(error.to_string(), "reductions=16777217 is more than 16777216");
    }

    #[test]
    fn errors_name_the_accepted_values() {
        for (text, part) in [
            ("routing", "key=value"),
            ("routing=cube", "direct, rook"),
            ("routing=grid:4x0", "grid"),
            ("coalescing=0", "adaptive, N or Nb"),
            ("reductions=-1", "off"),
            ("style=late", "am or bsp"),
            ("stile=am", "there are"),
        ] {
            let error = text.parse::<Config>().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
