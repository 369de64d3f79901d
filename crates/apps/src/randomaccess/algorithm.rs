//! The algorithms by name.

use std::fmt;
use std::str::FromStr;

use treepie_am::{Config, Routing};
use treepie_base::Error;

/// How updates reach the ranks of their words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// Among all-to-alls the one with the least predicted time; where ranks share cores, buckets.
    #[default]
    Auto,
    /// One rank.
    Serial,
    /// HPCC's: buckets for all ranks, of which the fullest is sent.
    BufferedAsync,
    /// An all-to-all of lists on a grid.
    Alltoall(Dimensions),
    /// An all-to-all on a hypercube; the number of ranks is a power of two.
    Hypercube(Order),
    /// Recursive halving, for any number of ranks.
    HypercubeAny,
    /// An active message for each update.
    ActiveMessages(Routing),
}

/// The dimensions of a grid of all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimensions {
    /// This number of dimensions, of about equal sides.
    Number(u32),
    /// A dimension for each prime factor of the number of ranks.
    All,
}

/// Which rank has which corner of the hypercube.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The corner of its own number.
    Ranks,
    /// The nodes of a torus in Morton order, wherever its ranks are: partners differ in one coordinate. Ranks in the order of the nodes
    /// have the same partners without it.
    Morton,
}

/// Ids of all algorithms and what they are.
pub const ALGORITHMS: [(&str, &str); 13] = [
    ("serial", "one rank"),
    ("buffered_async", "HPCC's: buckets for all ranks; the fullest is sent"),
    ("alltoall_1d", "an all-to-all of lists: P - 1 messages a round"),
    ("alltoall_2d", "the same on a grid of two dimensions: 2 (sqrt(P) - 1) messages"),
    ("alltoall_3d", "the same on a grid of three dimensions"),
    ("alltoall_nd", "the same with a dimension for each prime factor of P"),
    ("hypercube", "an all-to-all in log2(P) stages; P is a power of two"),
    ("hypercube:order=morton", "the same, by the nodes of a torus, wherever their ranks are"),
    ("hypercube_any", "recursive halving, for any P"),
    ("am", "an active message for each update, sent directly"),
    ("am:routing=rook", "the same over rows and columns"),
    ("am:routing=grid", "the same on a grid of three dimensions"),
    ("am:routing=hypercube", "the same on a hypercube"),
];

impl Algorithm {
    /// Whether it has the refinements of the paper: all that work in rounds do.
    pub fn has_refinements(&self) -> bool {
        !matches!(self, Self::BufferedAsync | Self::ActiveMessages(_))
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Serial => f.write_str("serial"),
            Self::BufferedAsync => f.write_str("buffered_async"),
            Self::Alltoall(Dimensions::Number(dimensions)) => write!(f, "alltoall_{dimensions}d"),
            Self::Alltoall(Dimensions::All) => f.write_str("alltoall_nd"),
            Self::Hypercube(Order::Ranks) => f.write_str("hypercube"),
            Self::Hypercube(Order::Morton) => f.write_str("hypercube:order=morton"),
            Self::HypercubeAny => f.write_str("hypercube_any"),
            Self::ActiveMessages(Routing::Direct) => f.write_str("am"),
            Self::ActiveMessages(Routing::Grid(sides)) if sides.is_empty() => f.write_str("am:routing=grid"),
            Self::ActiveMessages(routing) => write!(f, "am:routing={routing}"),
        }
    }
}

impl FromStr for Algorithm {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (name, arguments) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let algorithm = match (name, arguments) {
            ("auto", None) => Some(Self::Auto),
            ("serial", None) => Some(Self::Serial),
            ("buffered_async", None) => Some(Self::BufferedAsync),
            ("alltoall_1d", None) => Some(Self::Alltoall(Dimensions::Number(1))),
            ("alltoall_2d", None) => Some(Self::Alltoall(Dimensions::Number(2))),
            ("alltoall_3d", None) => Some(Self::Alltoall(Dimensions::Number(3))),
            ("alltoall_nd", None) => Some(Self::Alltoall(Dimensions::All)),
            ("hypercube", None) => Some(Self::Hypercube(Order::Ranks)),
            ("hypercube", Some("order=morton")) => Some(Self::Hypercube(Order::Morton)),
            ("hypercube_any", None) => Some(Self::HypercubeAny),
            ("am", None) => Some(Self::ActiveMessages(Routing::Direct)),
            // Its sides follow from the number of ranks.
            ("am", Some("routing=grid")) => Some(Self::ActiveMessages(Routing::Grid(Vec::new()))),
            ("am", Some(routing)) if routing.starts_with("routing=") => {
                let config: Config = routing.parse()?;
                let is_only_routing = config == Config::default().routing(config.routing.clone());
                is_only_routing.then_some(Self::ActiveMessages(config.routing))
            }
            _ => None,
        };
        algorithm.ok_or_else(|| {
            let known: Vec<&str> = ALGORITHMS.iter().map(|(id, _)| *id).collect();
            Error::Algorithm(format!("there is no algorithm `{text}` of RandomAccess; there are {}", known.join(", ")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids() {
        for id in ALGORITHMS.map(|(id, _)| id).into_iter().chain(["auto", "am:routing=grid:2x3"]) {
            assert_eq!(id.parse::<Algorithm>().unwrap().to_string(), id);
        }
        for wrong in
            ["", "alltoall_4d", "hypercube:order=x", "am:3", "serial:1", "am:routing=x", "am:routing=rook,style=bsp"]
        {
            assert!(wrong.parse::<Algorithm>().is_err(), "{wrong}");
        }
    }
}
