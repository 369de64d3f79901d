//! Errors in network descriptions.

/// Result of describing a network.
pub type Result<T> = std::result::Result<T, Error>;

/// An invalid network description.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No dimension, too many, or one of size 0.
    #[error(
        "bad dimensions {dims:?}: a torus or mesh has 1 to {} dimensions, each of size 1 or more",
        crate::MAX_DIMENSIONS
    )]
    Dimensions {
        /// The given sizes.
        dims: Vec<u32>,
    },
    /// The number of wrap flags differs from the number of dimensions.
    #[error("{wraps} values of wrap for {dims} dimensions: one per dimension is needed")]
    Wrap {
        /// The number of wrap flags given.
        wraps: usize,
        /// The number of dimensions of the torus.
        dims: usize,
    },
    /// Link ids would not fit in 32 bits.
    #[error("the network would have {links} links; the maximum is {}", u32::MAX)]
    TooLarge {
        /// The number of directed links.
        links: u128,
    },
    /// Leaf switches without terminals or without uplinks.
    #[error("a leaf switch of radix {radix} cannot have {terminals} terminals, only 1 to {}", radix.saturating_sub(1))]
    Terminals {
        /// Ports of a switch.
        radix: u32,
        /// Requested nodes per leaf switch.
        terminals: u32,
    },
    /// The given mu differs from the one that radix and terminals determine.
    #[error("mu={mu} contradicts radix {radix} with {terminals} terminals, which give mu={actual}")]
    MuMismatch {
        /// The given ratio.
        mu: f64,
        /// The ratio of this radix and number of terminals.
        actual: f64,
        /// Ports of a switch.
        radix: u32,
        /// Nodes per leaf switch.
        terminals: u32,
    },
    /// No cluster, or an empty one.
    #[error("bad cluster sizes {sizes:?}: one or more clusters are needed, each of 1 or more ranks")]
    Clusters {
        /// The given sizes.
        sizes: Vec<u32>,
    },
    /// Groups of nested clusters that do not contain each group of the level below once.
    #[error(
        "bad groups of clusters: on level {level} each has 1 or more of the {below} below, and each of these is in one"
    )]
    ClusterGroups {
        /// The level; clusters are level 0.
        level: usize,
        /// The number of groups on the level below.
        below: usize,
    },
    /// Too many levels of nested clusters.
    #[error("clusters can be nested on {} levels, and there are {levels}", crate::MAX_CLUSTER_LEVELS)]
    ClusterLevels {
        /// The number of levels.
        levels: usize,
    },
    /// The allocation failed.
    #[error("cannot allocate a list of {entries} nodes or clusters")]
    OutOfMemory {
        /// The number of nodes or clusters given.
        entries: usize,
    },
    /// No ranks.
    #[error("a network needs at least one rank")]
    NoRanks,
    /// The network has a fixed number of ranks that differs from the requested one.
    #[error("{asked} ranks requested, but the network `{network}` has {ranks}")]
    RankCountMismatch {
        /// Requested ranks.
        asked: u32,
        /// Ranks of the network.
        ranks: u32,
        /// The network as text.
        network: String,
    },
    /// Two ranks on one node.
    #[error("ranks {first} and {second} are both at node {node}")]
    DuplicateNode {
        /// The node.
        node: u32,
        /// The first rank placed there.
        first: u32,
        /// The second rank placed there.
        second: u32,
    },
    /// A rank is placed on a node that the network does not have.
    #[error("rank {rank} is at node {node}, but the network has nodes 0 to {}", nodes - 1)]
    NodeOutOfRange {
        /// The rank.
        rank: u32,
        /// Its node.
        node: u32,
        /// The number of nodes of the network.
        nodes: u32,
    },
    /// Text that does not describe a network.
    #[error("`{text}` is not a network: expected {expected}")]
    Text {
        /// The given text.
        text: String,
        /// The accepted forms.
        expected: &'static str,
    },
    /// A network file with missing, unknown or inapplicable keys.
    #[error("bad network file: {0}")]
    Toml(String),
    /// A network file that cannot be read.
    #[error("cannot read the network file {path}: {reason}")]
    File {
        /// The file's path.
        path: String,
        /// The message of the system.
        reason: String,
    },
}

impl std::fmt::Debug for Error {
    /// Writes the Display text on one line in one write: `main` prints its error by `Debug`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.to_string().replace('\n', " | "))
    }
}

/// Converts a number of links to the type of link ids; an error if they do not fit.
pub(crate) fn link_count(links: u128) -> Result<u32> {
    u32::try_from(links).map_err(|_| Error::TooLarge { links })
}
