//! How messages of a type travel, apart from what they mean.   [paper 3.2]
//!
//! An algorithm says which messages there are and what their handlers do. Everything here can be changed without touching it,
//! by whoever runs it: by [`Builder::configure`](crate::Builder::configure), or for what the program says nothing about by the
//! environment variable `TREEPIE_AM`, as `TREEPIE_AM=routing=rook,coalescing=512`.

use std::fmt;
use std::str::FromStr;

use treepie_base::{Error, Result, environment};
use treepie_comm::Network;

/// The configuration of a message type. All ranks have the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// How many messages go together.
    pub coalescing: Coalescing,
    /// Which way they go.
    pub routing: Routing,
    /// Whether messages that the type lets combine are looked for.
    pub reductions: Reductions,
    /// When they are handled.
    pub style: Style,
}

/// How many messages to one neighbour go together in a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coalescing {
    /// So many.
    Messages(usize),
    /// As many as fit into so many bytes, at least one.
    Bytes(usize),
    /// Buffers that grow while they fill up, and shrink when they are sent half empty because there was nothing else to do.
    #[default]
    Adaptive,
}

/// Which way messages go. All but the first pass other ranks, so that a rank has buffers for fewer neighbours, and those fill
/// up faster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Routing {
    /// Straight to their destination: a buffer for each rank.
    #[default]
    Direct,
    /// Along the row and the column of a grid that is about square: two hops, 2 sqrt(P) buffers.
    Rook,
    /// Dimension by dimension of a grid with these sides, the last one fastest.
    Grid(Vec<u32>),
    /// Bit by bit: log2 P hops and buffers.
    Hypercube,
    /// Between clusters of consecutive ranks, so many in each, through one pair of ranks for each pair of clusters.
    Clusters(Vec<u32>),
}

/// Whether messages are combined on their way, where their type says how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reductions {
    /// Never.
    Off,
    /// In a direct-mapped cache of so many messages for each neighbour.
    Entries(usize),
    /// In one that is switched on where enough is combined in samples, and off where not.
    #[default]
    Adaptive,
}

/// When messages are handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// When they arrive.
    #[default]
    Am,
    /// In rounds: what is sent in one, all ranks handle after it.
    Bsp,
}

/// The most messages or bytes of a buffer.
const MOST_COALESCED: usize = 1 << 28;

/// The most entries of a cache.
const MOST_ENTRIES: usize = 1 << 24;

impl Routing {
    /// Along the clusters of a network, if it has any and its ranks lie in them one after the other.
    pub fn clusters_of(network: &Network) -> Option<Self> {
        let clusters = network.clusters_kind()?;
        let of = |rank| clusters.cluster_of(network.place(rank));
        let mut sizes: Vec<u32> = Vec::new();
        for rank in 0..network.ranks() {
            match sizes.last_mut() {
                Some(size) if of(rank) == of(rank - 1) => *size += 1,
                _ => sizes.push(1),
            }
        }
        let mut starts = sizes.iter().scan(0, |start, size| Some(std::mem::replace(start, *start + size)));
        let mut seen: Vec<_> = starts.by_ref().map(of).collect();
        let pieces = seen.len();
        seen.sort_unstable();
        seen.dedup();
        (seen.len() == pieces).then_some(Self::Clusters(sizes))
    }
}

impl Config {
    /// The same with another coalescing.
    pub fn coalescing(self, coalescing: Coalescing) -> Self {
        Self { coalescing, ..self }
    }

    /// The same with another routing.
    pub fn routing(self, routing: Routing) -> Self {
        Self { routing, ..self }
    }

    /// The same with other reductions.
    pub fn reductions(self, reductions: Reductions) -> Self {
        Self { reductions, ..self }
    }

    /// The same in another style.
    pub fn style(self, style: Style) -> Self {
        Self { style, ..self }
    }

    /// Refuses what would need more memory than there is.
    pub(crate) fn check(&self) -> Result<()> {
        let refused = |what: String| Err(Error::Algorithm(what));
        match (self.coalescing, self.reductions) {
            (Coalescing::Messages(n) | Coalescing::Bytes(n), _) if n > MOST_COALESCED => {
                refused(format!("coalescing={} is more than {MOST_COALESCED}", self.coalescing))
            }
            (Coalescing::Messages(0) | Coalescing::Bytes(0), _) => refused("coalescing=0 sends nothing".to_owned()),
            (_, Reductions::Entries(n)) if n > MOST_ENTRIES => {
                refused(format!("reductions={n} is more than {MOST_ENTRIES}"))
            }
            (_, Reductions::Entries(0)) => refused("reductions=0 has no room; there is `off`".to_owned()),
            _ => Ok(()),
        }
    }

    /// What the environment says, or else the default.
    pub(crate) fn from_environment() -> Result<Self> {
        let Some(text) = environment::text(environment::AM)? else { return Ok(Self::default()) };
        let config = text.parse().and_then(|config: Self| config.check().map(|()| config));
        config.map_err(|error| environment::refused(environment::AM, &text, error.to_string()))
    }
}

/// Refuses a `TREEPIE_AM` that says nothing, before anybody needs it.
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
            |numbers: &[u32], between: &str| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(between);
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
                "coalescing" => config.coalescing = coalescing(value).ok_or_else(|| refused("adaptive, N or Nb"))?,
                "routing" => {
                    let kinds = "direct, rook, grid:AxB, hypercube or clusters:A+B";
                    config.routing = routing(value).ok_or_else(|| refused(kinds))?;
                }
                "reductions" => {
                    config.reductions = reductions(value).ok_or_else(|| refused("off, adaptive or N"))?;
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

fn coalescing(text: &str) -> Option<Coalescing> {
    if text == "adaptive" {
        return Some(Coalescing::Adaptive);
    }
    match text.strip_suffix('b') {
        Some(bytes) => positive(bytes).map(Coalescing::Bytes),
        None => positive(text).map(Coalescing::Messages),
    }
}

fn routing(text: &str) -> Option<Routing> {
    let list = |text: &str, between| {
        text.split(between).map(|number| number.parse().ok().filter(|number| *number > 0)).collect::<Option<Vec<u32>>>()
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

fn reductions(text: &str) -> Option<Reductions> {
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
    fn what_is_written_is_read_again() {
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
    fn bounds_are_met_and_not_passed() {
        let checked = |text: String| text.parse::<Config>().expect("it can be read").check();
        for unit in ["", "b"] {
            assert!(checked(format!("coalescing={MOST_COALESCED}{unit}")).is_ok());
            let error = checked(format!("coalescing={}{unit}", MOST_COALESCED + 1)).unwrap_err();
            assert!(error.to_string().ends_with("is more than 268435456"), "{error}");
        }
        assert!(checked(format!("reductions={MOST_ENTRIES}")).is_ok());
        let error = checked(format!("reductions={}", MOST_ENTRIES + 1)).unwrap_err();
        assert_eq!(error.to_string(), "reductions=16777217 is more than 16777216");
    }

    #[test]
    fn mistakes_are_named() {
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
