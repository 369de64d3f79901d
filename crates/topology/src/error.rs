//! What can be wrong with the description of a network.

/// Result of describing a network.
pub type Result<T> = std::result::Result<T, Error>;

/// A network that cannot be.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No dimension, too many, or one of size 0.
    #[error(
        "bad dimensions {dims:?}: a torus or mesh has 1 to {} dimensions, each of size 1 or more",
        crate::MAX_DIMENSIONS
    )]
    Dimensions {
        /// The sizes that were given.
        dims: Vec<u32>,
    },
    /// Not one answer per dimension to "does it wrap?".
    #[error("{wraps} values of wrap for {dims} dimensions: one per dimension is needed")]
    Wrap {
        /// Values that were given.
        wraps: usize,
        /// Dimensions of the torus.
        dims: usize,
    },
    /// The links cannot be numbered with 32 bits.
    #[error("the network would have {links} links, the most is {}", u32::MAX)]
    TooLarge {
        /// Directed links that the network would have.
        links: u128,
    },
    /// Switches with no room for nodes, or with no links upwards.
    #[error("a leaf switch of radix {radix} cannot have {terminals} terminals, only 1 to {}", radix.saturating_sub(1))]
    Terminals {
        /// Ports of a switch.
        radix: u32,
        /// Nodes per leaf switch that were asked for.
        terminals: u32,
    },
    /// A ratio mu that does not follow from the switches.
    #[error("mu={mu} contradicts radix {radix} with {terminals} terminals, which give mu={actual}")]
    Mu {
        /// The ratio that was given.
        mu: f64,
        /// The ratio that follows from the switches.
        actual: f64,
        /// Ports of a switch.
        radix: u32,
        /// Nodes per leaf switch.
        terminals: u32,
    },
    /// No cluster, or an empty one.
    #[error("bad cluster sizes {sizes:?}: one or more clusters are needed, each of 1 or more ranks")]
    Clusters {
        /// The sizes that were given.
        sizes: Vec<u32>,
    },
    /// More than memory has room for.
    #[error("there is no memory for a list of {entries} places or clusters")]
    Memory {
        /// Places or clusters that were given.
        entries: usize,
    },
    /// No rank at all.
    #[error("a network needs at least one rank")]
    NoRanks,
    /// The number of ranks is settled by the network, and is another one.
    #[error("{asked} ranks were asked for, but the network `{network}` has {ranks}")]
    Ranks {
        /// Ranks that were asked for.
        asked: u32,
        /// Ranks of the network.
        ranks: u32,
        /// The network as text.
        network: String,
    },
    /// Two ranks at one place.
    #[error("ranks {first} and {second} are both at place {place}")]
    PlaceTwice {
        /// The place.
        place: u32,
        /// The rank that was there.
        first: u32,
        /// The rank that came second.
        second: u32,
    },
    /// A rank outside the network.
    #[error("rank {rank} is at place {place}, but the network has places 0 to {}", places - 1)]
    PlaceOutside {
        /// The rank.
        rank: u32,
        /// Where it was put.
        place: u32,
        /// Places of the network.
        places: u32,
    },
    /// Text that is no network.
    #[error("`{text}` is no network: expected {expected}")]
    Text {
        /// The text as it was given.
        text: String,
        /// What would have been understood.
        expected: &'static str,
    },
    /// A network file with missing, unknown or unfitting keys.
    #[error("bad network file: {0}")]
    Toml(String),
    /// A network file that cannot be read.
    #[error("cannot read the network file {path}: {reason}")]
    File {
        /// The file's path.
        path: String,
        /// What the system said.
        reason: String,
    },
}

impl std::fmt::Debug for Error {
    /// The Display text in one line and in one write: `main` prints its error by `Debug`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.to_string().replace('\n', " | "))
    }
}

/// The number of links as an id type, if all of them can be numbered.
pub(crate) fn link_count(links: u128) -> Result<u32> {
    u32::try_from(links).map_err(|_| Error::TooLarge { links })
}
