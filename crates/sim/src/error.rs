//! What can be wrong with a simulation.

/// Why a simulation cannot be begun, or did not come to its end.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter that no machine can have.
    #[error("{name} must be {must}, and is {value}")]
    Parameter {
        /// Which.
        name: &'static str,
        /// What it must be.
        must: &'static str,
        /// What it is.
        value: f64,
    },
    /// A network without ranks.
    #[error("the network `{0}` has no number of ranks yet")]
    OpenNetwork(String),
    /// A schedule for another number of ranks.
    #[error("the schedule is for {schedule} ranks, and the network has {network}")]
    Ranks {
        /// Of the schedule.
        schedule: u32,
        /// Of the network.
        network: u32,
    },
    /// Costs of clusters, on another network.
    #[error("costs of clusters need a network of clusters, and the network is `{0}`")]
    NotClusters(String),
    /// Costs without links, where the load of links is to be priced.
    #[error("rounds in step are priced by the load of links: they need costs with alpha and delta")]
    NotLinks,
    /// Slow links, where none are simulated.
    #[error("slow links are named, and the costs are not of links: they need costs with alpha and delta")]
    NoLinks,
    /// Noise, where ranks are in step.
    #[error("rounds in step know no jitter, no slow ranks and no deaths: those need every message as events")]
    InStep,
    /// A matrix of links between clusters that has another size.
    #[error("there are {clusters} clusters, and links from {given}")]
    Matrix {
        /// Clusters of the network.
        clusters: u32,
        /// Rows of the matrix, or entries of one.
        given: usize,
    },
    /// A rank that does not exist.
    #[error("rank {rank} is named, and there are {ranks} ranks")]
    NoRank {
        /// The rank.
        rank: u32,
        /// How many there are.
        ranks: u32,
    },
    /// A link that does not exist.
    #[error("link {link} is named, and there are {links} links")]
    NoLink {
        /// The link.
        link: u32,
        /// How many there are.
        links: u32,
    },
    /// A rank holds more unexpected messages than it has memory for.
    #[error(
        "rank {rank} ran out of memory at {micros} us: {held} bytes of messages that it had not asked for yet, and its cap is {cap}"
    )]
    Memory {
        /// The rank.
        rank: u32,
        /// When.
        micros: f64,
        /// What it would hold.
        held: u64,
        /// What it may hold.
        cap: u64,
    },
    /// Nothing happens any more, and not all are done.
    #[error("{waiting} ranks wait for what never comes, the first of them rank {rank} in phase {phase}")]
    Stuck {
        /// How many.
        waiting: u32,
        /// The first.
        rank: u32,
        /// Where it is.
        phase: u32,
    },
    /// Programs or reactors of ranks wait for what never comes.
    #[error("deadlock: {}", crate::engine::list_of_waiting(.ranks, .waiting))]
    Deadlock {
        /// How many ranks there are.
        ranks: u32,
        /// Those that wait, and for what, as far as that is known.
        waiting: Vec<(u32, String)>,
    },
    /// There is no room for the stacks of so many ranks.
    #[error("no stack for rank {rank} of {ranks}: {why}")]
    Stack {
        /// The first that got none.
        rank: u32,
        /// How many there are.
        ranks: u32,
        /// What the system says.
        why: String,
    },
    /// Another number of reactors than of ranks.
    #[error("there are {reactors} reactors, and the network has {network} ranks")]
    Reactors {
        /// Reactors.
        reactors: usize,
        /// Ranks of the network.
        network: u32,
    },
    /// A reactor has ended with an error.
    #[error("rank {rank} ended with an error: {error}")]
    Reactor {
        /// The rank.
        rank: u32,
        /// What it said.
        error: treepie_base::Error,
    },
    /// A simulation was begun where a panic goes on: its ranks could not wait.
    #[error("programs cannot be simulated while a panic unwinds")]
    Panicking,
}

/// What may go wrong here.
pub type Result<T> = std::result::Result<T, Error>;

/// Refuses what is not a number from 0 on.
pub(crate) fn not_negative(name: &'static str, value: f64) -> Result<()> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    Err(Error::Parameter { name, must: "a number that is not negative", value })
}

/// Refuses what is not a number above 0.
pub(crate) fn positive(name: &'static str, value: f64) -> Result<()> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err(Error::Parameter { name, must: "a number above 0", value })
}
