//! Errors of simulations.

/// Why a simulation could not start or did not complete.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter out of its range.
    #[error("{name} must be {must}, and is {}", format_value(*.value))]
    Parameter {
        /// Its name.
        name: &'static str,
        /// The accepted range.
        must: &'static str,
        /// Its value.
        value: f64,
    },
    /// A network without a number of ranks.
    #[error("the network `{0}` does not specify the number of ranks")]
    OpenNetwork(String),
    /// The schedule and the network differ in their number of ranks.
    #[error("the schedule is for {schedule} ranks, and the network has {network}")]
    RankCountMismatch {
        /// Ranks of the schedule.
        schedule: u32,
        /// Ranks of the network.
        network: u32,
    },
    /// Cluster costs on a network without clusters.
    #[error("cluster costs need a cluster network, and the network is `{0}`")]
    ClusterNetworkRequired(String),
    /// Lockstep rounds without link costs.
    #[error("lockstep rounds need link costs: alpha and delta")]
    LinkCostsRequired,
    /// Slow links without link costs.
    #[error("slow links need link costs: alpha and delta")]
    SlowLinksUnsupported,
    /// Settings that need events: noise other than slow links, a memory cap, a port limit, hosts of several ranks.
    #[error(
        "lockstep rounds do not support jitter, slow ranks, rank failures, memory caps, port limits or hosts of several \
         ranks: simulate every message as events"
    )]
    LockstepUnsupported,
    /// A WAN link matrix of the wrong size.
    #[error("the WAN link matrix needs {clusters} rows and columns, and has {given}")]
    WanMatrixSize {
        /// Clusters of the network.
        clusters: u32,
        /// Rows of the matrix, or entries of a row.
        given: usize,
    },
    /// WAN links for another number of levels than the clusters have.
    #[error("the clusters have {levels} levels of WAN links, and the costs {given}: a matrix is for one level")]
    WanLevels {
        /// Levels of the network's clusters.
        levels: u32,
        /// Levels of the costs.
        given: usize,
    },
    /// A machine that does not fit into memory.
    #[error(transparent)]
    TooLarge(#[from] treepie_base::Error),
    /// A rank that does not exist.
    #[error("rank {rank} does not exist: there are {ranks} ranks")]
    InvalidRank {
        /// The rank.
        rank: u32,
        /// The number of ranks or links.
        ranks: u32,
    },
    /// A link that does not exist.
    #[error("link {link} does not exist: there are {links} links")]
    InvalidLink {
        /// The link.
        link: u32,
        /// The number of ranks or links.
        links: u32,
    },
    /// A rank's unexpected messages exceed its memory cap.
    #[error("rank {rank} ran out of memory at {micros} us: {held} bytes of unexpected messages, and its cap is {cap}")]
    OutOfMemory {
        /// The rank.
        rank: u32,
        /// Virtual time in microseconds.
        micros: f64,
        /// Bytes of unexpected messages.
        held: u64,
        /// The memory cap in bytes.
        cap: u64,
    },
    /// No event is left, and some ranks have not completed the schedule.
    #[error("deadlock: {waiting} ranks wait forever, the first of them rank {rank} in phase {phase}")]
    ScheduleDeadlock {
        /// The number of waiting ranks.
        waiting: u32,
        /// The first of them.
        rank: u32,
        /// Its phase.
        phase: u32,
    },
    /// A rank failed before it completed the schedule.
    #[error("rank {rank} failed at {micros} us{}", format_after_failure(*.others, *.waiting))]
    RankFailed {
        /// The first rank that failed.
        rank: u32,
        /// Virtual time in microseconds.
        micros: f64,
        /// The number of ranks that failed after it.
        others: u32,
        /// The number of live ranks that wait forever.
        waiting: u32,
    },
    /// An event lies beyond [`MAX_TIME`](crate::time::MAX_TIME).
    #[error("the simulation exceeds {} days of virtual time", crate::time::MAX_TIME / PICOSECONDS_PER_DAY)]
    TimeOverflow,
    /// Programs or reactors wait forever.
    #[error("deadlock: {}", crate::engine::format_waiting(.ranks, .waiting))]
    Deadlock {
        /// The number of ranks.
        ranks: u32,
        /// The waiting ranks and what each waits for, if known.
        waiting: Vec<(u32, String)>,
    },
    /// Programs exceed the virtual time limit.
    #[error(
        "{} of {ranks} ranks have not finished by {micros} us, the virtual time limit: {}",
        .unfinished.len(),
        crate::engine::format_ranks(.unfinished)
    )]
    TimeLimit {
        /// The limit.
        micros: f64,
        /// The number of ranks.
        ranks: u32,
        /// The unfinished ranks and what each waits for, if known.
        unfinished: Vec<(u32, String)>,
    },
    /// The stack of a rank could not be allocated.
    #[error("no stack for rank {rank} of {ranks}: {why}")]
    StackAllocation {
        /// The first rank without a stack.
        rank: u32,
        /// The number of ranks or links.
        ranks: u32,
        /// The system's error.
        why: String,
    },
    /// The number of reactors differs from the number of ranks.
    #[error("there are {reactors} reactors, and the network has {network} ranks")]
    ReactorCountMismatch {
        /// The number of reactors.
        reactors: usize,
        /// Ranks of the network.
        network: u32,
    },
    /// A reactor returned an error.
    #[error("rank {rank} ended with an error: {error}")]
    Reactor {
        /// The rank.
        rank: u32,
        /// Its error.
        error: treepie_base::Error,
    },
    /// A simulation was started during unwinding: its ranks could not be suspended.
    #[error("programs cannot be simulated while a panic unwinds")]
    Panicking,
}

treepie_base::debug_by_display!(Error);

/// Result of a simulation.
pub type Result<T> = std::result::Result<T, Error>;

const PICOSECONDS_PER_DAY: u64 = 86_400_000_000_000_000;

/// Upper bound of all durations in microseconds (eleven days), and of all factors.
const MAX_VALUE: f64 = 1e12;

/// Formats a value; very large ones in scientific notation.
fn format_value(value: f64) -> String {
    if value.abs() < 1e15 { value.to_string() } else { format!("{value:e}") }
}

fn format_after_failure(others: u32, waiting: u32) -> String {
    let others = if others > 0 { format!(", and {others} more after it") } else { String::new() };
    match waiting {
        0 => format!("{others}; all other ranks finished"),
        1 => format!("{others}; 1 rank waits forever"),
        _ => format!("{others}; {waiting} ranks wait forever"),
    }
}

/// Refuses negative, non-finite and excessive values.
pub(crate) fn not_negative(name: &'static str, value: f64) -> Result<()> {
    if value.is_finite() && value >= 0.0 {
        return at_most(name, value, MAX_VALUE, "at most 1e12");
    }
    Err(Error::Parameter { name, must: "a non-negative number", value })
}

/// Refuses values that are not positive, finite and at most [`MAX_VALUE`].
pub(crate) fn positive(name: &'static str, value: f64) -> Result<()> {
    if value.is_finite() && value > 0.0 {
        return at_most(name, value, MAX_VALUE, "at most 1e12");
    }
    Err(Error::Parameter { name, must: "a positive number", value })
}

/// Refuses bandwidths (bytes per microsecond) so low that a byte exceeds the longest duration.
pub(crate) fn bandwidth(name: &'static str, value: f64) -> Result<()> {
    positive(name, value)?;
    if value < 1.0 / MAX_VALUE { Err(Error::Parameter { name, must: "at least 1e-12", value }) } else { Ok(()) }
}

/// Refuses values above a bound.
pub(crate) fn at_most(name: &'static str, value: f64, max: f64, must: &'static str) -> Result<()> {
    if value > max { Err(Error::Parameter { name, must, value }) } else { Ok(()) }
}
