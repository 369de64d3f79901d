//! Profiles: what a machine's communication costs, as every choice of an algorithm uses it.
//!
//! A profile is measured (`treepie tune`), read from a file ([`Profile::load`]), or the default of an engine
//! ([`Profile::default_for`]). No other place has a cost of a machine.
//!
//! It has a P-LogP link for each *level* of the machine: 0 is between the closest ranks, 1 between the groups of those
//! (hosts, clusters), and so on. Times are microseconds, and sizes are bytes.

mod defaults;
mod file;
mod fit;
mod levels;
mod scale;
mod text;

pub use fit::Fit;

use crate::plogp::{PLogP, PiecewiseLinear};

/// The costs of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Where it comes from.
    pub origin: ProfileOrigin,
    /// The links, from those between the closest ranks to those between the farthest. There is at least one.
    pub levels: Vec<LevelProfile>,
    /// All ranks in an order in which the groups of every level are consecutive; empty if that is 0, 1, 2, and so on.
    pub rank_order: Vec<u32>,
    /// To combine a byte of one operand with one of another.
    pub reduce_per_byte: f64,
    /// To copy a byte within the memory of a rank.
    pub copy_per_byte: f64,
    /// Number of active ports of a node from which they cannot all be saturated; 0 for none.   [thesis 3.5.6]
    pub saturated_ports: u32,
    /// Fraction of their bandwidth that is left then.
    pub port_efficiency: f64,
    /// Until a rank that waits runs, for each rank on its core, if there are more ranks than cores.
    pub scheduling: f64,
    /// Synchronous sends.
    pub synchronous: SynchronousSend,
    /// The barrier of the engine, if it has one: from the last arrival until all ranks know.
    pub barrier: Option<f64>,
    /// Collective operations through memory that all ranks share, where there is some.
    pub shared_segment: Option<SharedSegmentCosts>,
    /// Collective operations that the MPI library runs itself, if they were measured: candidates as any other.
    pub host_collectives: Vec<HostCollectiveTime>,
}

/// The time of a collective operation of the MPI library, with all ranks of the profile.
#[derive(Clone, Debug, PartialEq)]
pub struct HostCollectiveTime {
    /// The name of the operation.
    pub operation: String,
    /// For m bytes of all blocks, or of the vector.
    pub time: PiecewiseLinear,
}

/// What was measured, when and where.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileOrigin {
    /// The engine: `shm`, `threads`, `mpi` or `sim`.
    pub engine: String,
    /// The host, the processor and the number of cores, as text; empty for a default.
    pub machine: String,
    /// Number of ranks at the measurement; 0 for any.
    pub ranks: u32,
    /// Cores of the machine, if all ranks were on one; 0 if unknown.
    pub cores: u32,
    /// When it was measured, in UTC as `2026-11-18T01:02:03Z`; empty for a default.
    pub measured: String,
    /// The version of Treepie that measured it.
    pub version: String,
}

/// The links of a level.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelProfile {
    /// For people: `memory`, `host`, `wan`.
    pub name: String,
    /// The number of ranks of each group at this level: the ranks that reach each other over this and lower levels.
    /// Groups are of consecutive ranks (in [`Profile::rank_order`], if there is one), and empty stands for one group of
    /// all ranks. The groups of a level consist of whole groups of the level below.
    pub groups: Vec<u32>,
    /// The link, of the slowest pair of ranks.
    pub link: PLogP,
    /// The link in the opposite direction, from the higher rank of the measured pair to the lower one,
    /// where it differs. Its latency is the same: half a round trip.
    pub reverse: Option<PLogP>,
    /// Links between groups of the level below that are faster or slower than `link`, by their groups in increasing
    /// order.
    pub pairs: Vec<PairFactors>,
    /// Bytes that the gateway of a link accepts before it has carried them, if that is known: questions for long messages
    /// wait behind these.
    pub window: Option<f64>,
    /// The half width of the 90% confidence interval of a round trip, relative to it; the largest of all sizes.
    pub error: f64,
    /// Whether all sizes were measured; if not, the time was up, and curves are extrapolated beyond their last point.
    pub is_complete: bool,
    /// Bytes that the measurement put on such links.
    pub measured_bytes: u64,
    /// The bytes of a measurement that saturates the link with messages of each size.
    pub saturating_bytes: u64,
}

/// A link between two groups, compared with the others of its level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairFactors {
    /// The group of the senders, on the level below, in the order of [`Profile::rank_order`].
    pub from: u32,
    /// That of the receivers.
    pub to: u32,
    /// By what the latency of the level is multiplied.
    pub latency: f64,
    /// By what the time of bytes is multiplied.
    pub bytes: f64,
}

/// The cost of a synchronous send over a standard one.   [NBX paper, table 2: L_s and s_s]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SynchronousSend {
    /// Latency of a short synchronous message.
    pub latency: f64,
    /// Bytes from which on a synchronous send costs no more than a standard one: both use the rendezvous protocol.
    pub vanishes_at: f64,
}

/// Collective operations through a shared segment.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedSegmentCosts {
    /// A round, until all ranks know that all have written.
    pub round: f64,
    /// To write m bytes into a slot.
    pub copy_in: PiecewiseLinear,
    /// To read m bytes from another rank's slot.
    pub copy_out: PiecewiseLinear,
    /// To read m bytes of another rank's memory directly.
    pub single_copy: PiecewiseLinear,
}

impl LevelProfile {
    /// The latency and the time of bytes of a link between two groups of the level below, relative to those of `link`.
    pub fn factors(&self, from: u32, to: u32) -> (f64, f64) {
        let found = self.pairs.binary_search_by_key(&(from, to), |pair| (pair.from, pair.to));
        found.map_or((1.0, 1.0), |at| (self.pairs[at].latency, self.pairs[at].bytes))
    }

    /// A level of one group of all ranks, whose links were not measured.
    pub fn new(name: &str, link: PLogP) -> Self {
        Self {
            name: name.to_owned(),
            groups: Vec::new(),
            link,
            reverse: None,
            pairs: Vec::new(),
            window: None,
            error: 0.0,
            is_complete: true,
            measured_bytes: 0,
            saturating_bytes: 0,
        }
    }
}

impl Profile {
    /// The group of each rank at a level, numbered in the order of [`rank_order`](Self::rank_order). Empty if the
    /// profile was measured with another number of ranks, or has no such level.
    pub fn groups_of_ranks(&self, level: usize, ranks: u32) -> Vec<u32> {
        let Some(level) = self.levels.get(level) else { return Vec::new() };
        if level.groups.is_empty() {
            return vec![0; ranks as usize];
        }
        if level.groups.iter().map(|ranks| u64::from(*ranks)).sum::<u64>() != u64::from(ranks) {
            return Vec::new();
        }
        let in_order = (0..).zip(&level.groups).flat_map(|(group, ranks)| (0..*ranks).map(move |_| group));
        let mut groups = vec![0; ranks as usize];
        for (position, group) in in_order.enumerate() {
            groups[self.rank_order.get(position).map_or(position, |rank| *rank as usize)] = group;
        }
        groups
    }

    /// The time of a collective operation that the MPI library runs, if it was measured with this number of ranks.
    pub fn host_collective(&self, operation: &str, ranks: u32, bytes: f64) -> Option<f64> {
        let is_it = |measured: &&HostCollectiveTime| self.origin.ranks == ranks && measured.operation == operation;
        Some(self.host_collectives.iter().find(is_it)?.time.at(bytes))
    }

    /// The link between the closest ranks.
    pub fn link(&self) -> &PLogP {
        &self.levels[0].link
    }

    /// The link of a level; the last one if there are fewer.
    pub fn link_at(&self, level: usize) -> &PLogP {
        &self.level(level).link
    }

    /// A level; the last one if there are fewer.
    pub fn level(&self, level: usize) -> &LevelProfile {
        &self.levels[level.min(self.levels.len() - 1)]
    }
}
