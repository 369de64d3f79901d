//! What can be wrong with a simulation.

/// Why a simulation cannot be begun, or did not come to its end.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter that no machine can have.
    #[error("{name} must be {must}, and is {}", shown(*.value))]
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
    /// Noise and what else only shows message by message, where ranks are in step.
    #[error(
        "rounds in step know no jitter, slow ranks, deaths, caps of memory and numbers of ports: those need every message as events"
    )]
    InStep,
    /// A matrix of links between clusters that has another size.
    #[error("there are {clusters} clusters, and links from {given}")]
    Matrix {
        /// Clusters of the network.
        clusters: u32,
        /// Rows of the matrix, or entries of one.
        given: usize,
    },
    /// A machine that is too large to be simulated on this one.
    #[error(transparent)]
    TooLarge(#[from] treepie_base::Error),
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
    /// A rank died before it was done.
    #[error("rank {rank} died at {micros} us{}", after_death(*.others, *.waiting))]
    Died {
        /// The first that did.
        rank: u32,
        /// When.
        micros: f64,
        /// How many died after it.
        others: u32,
        /// How many live, and wait for what never comes.
        waiting: u32,
    },
    /// Something would happen after the end of time.
    #[error("the simulation goes beyond {} days of virtual time", crate::time::END / PICOSECONDS_OF_A_DAY)]
    TooLong,
    /// Programs or reactors of ranks wait for what never comes.
    #[error("deadlock: {}", crate::engine::list_of_waiting(.ranks, .waiting))]
    Deadlock {
        /// How many ranks there are.
        ranks: u32,
        /// Those that wait, and for what, as far as that is known.
        waiting: Vec<(u32, String)>,
    },
    /// Programs of ranks go on beyond the time that was given to them.
    #[error(
        "{} of {ranks} ranks have not ended after {micros} us, the limit of virtual time: {}", .unfinished.len(), crate::engine::named(.unfinished)
    )]
    Limit {
        /// The limit.
        micros: f64,
        /// How many ranks there are.
        ranks: u32,
        /// Those that have not ended, and what they wait for, as far as that is known.
        unfinished: Vec<(u32, String)>,
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

treepie_base::debug_by_display!(Error);

/// What may go wrong here.
pub type Result<T> = std::result::Result<T, Error>;

const PICOSECONDS_OF_A_DAY: u64 = 86_400_000_000_000_000;

/// More microseconds no duration has, and no factor is larger: it is eleven days.
const MOST: f64 = 1e12;

/// A number that may be very large, in few digits.
fn shown(value: f64) -> String {
    if value.abs() < 1e15 { value.to_string() } else { format!("{value:e}") }
}

fn after_death(others: u32, waiting: u32) -> String {
    let others = if others > 0 { format!(", and {others} more after it") } else { String::new() };
    match waiting {
        0 => format!("{others}; all who live came to their end"),
        1 => format!("{others}; 1 rank waits for what never comes"),
        _ => format!("{others}; {waiting} ranks wait for what never comes"),
    }
}

/// Refuses what is not a number from 0 on, or larger than anything is.
pub(crate) fn not_negative(name: &'static str, value: f64) -> Result<()> {
    if value.is_finite() && value >= 0.0 {
        return at_most(name, value, MOST, "at most 1e12");
    }
    Err(Error::Parameter { name, must: "a number that is not negative", value })
}

/// Refuses what is not a number above 0, or larger than anything is.
pub(crate) fn positive(name: &'static str, value: f64) -> Result<()> {
    if value.is_finite() && value > 0.0 {
        return at_most(name, value, MOST, "at most 1e12");
    }
    Err(Error::Parameter { name, must: "a number above 0", value })
}

/// Refuses a number of bytes a microsecond with which a byte takes longer than anything does.
pub(crate) fn bandwidth(name: &'static str, value: f64) -> Result<()> {
    positive(name, value)?;
    if value < 1.0 / MOST { Err(Error::Parameter { name, must: "at least 1e-12", value }) } else { Ok(()) }
}

/// Refuses what is above a bound.
pub(crate) fn at_most(name: &'static str, value: f64, most: f64, must: &'static str) -> Result<()> {
    if value > most { Err(Error::Parameter { name, must, value }) } else { Ok(()) }
}
