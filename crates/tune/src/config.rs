//! How long and how exactly to measure.

use std::time::Duration;

use treepie_comm::Comm;
use treepie_model::plogp::MeasureConfig;

/// Parameters of a measurement; the same on all ranks.
#[derive(Clone, Debug, PartialEq)]
pub struct TuneConfig {
    /// The criteria of the P-LogP measurement of each level.
    pub plogp: MeasureConfig,
    /// How long a level may take.
    pub budget: Duration,
    /// Maximum number of ranks between all pairs of which latencies are measured.
    pub max_sampled_ranks: usize,
    /// Round trips of each pair, of which the fastest counts.
    pub latency_trips: u32,
    /// Latencies that differ by more than this factor, with none in between, are those of different levels.
    pub level_ratio: f64,
    /// The opposite direction of a link is measured and kept if a message takes longer or shorter there by this
    /// fraction.
    pub asymmetry: f64,
    /// Whether to measure the MPI library's own collective operations, too, so that they can be chosen.
    pub collectives: bool,
    /// The description of the machine in the profile.
    pub machine: String,
}

impl Default for TuneConfig {
    /// For networks: the paper's criteria, but at least three trips instead of five, and two of large messages, at most
    /// 64 Ki messages in a row, and 26 s for each level. That is enough for a link of 10 ms and 1 MB/s.
    fn default() -> Self {
        let plogp = MeasureConfig {
            min_trips: 3,
            min_large_trips: 2,
            max_power: 24,
            max_messages: 1 << 16,
            ..MeasureConfig::default()
        };
        Self {
            plogp,
            budget: Duration::from_secs(26),
            max_sampled_ranks: 64,
            latency_trips: 4,
            level_ratio: 2.0,
            asymmetry: 0.05,
            collectives: false,
            machine: String::new(),
        }
    }
}

impl TuneConfig {
    /// The defaults for the ranks of a communicator. Within a machine messages are fast and cheap, and other processes
    /// and the system disturb them: there are more round trips, 0.4 s for each level, and only what differs by more
    /// than noise does counts as different.
    pub fn for_comm(comm: &Comm) -> Self {
        let default = Self::default();
        if comm.ranks_per_core().is_none() {
            return default;
        }
        let plogp = MeasureConfig {
            tolerance: 0.03,
            min_size_step: 512,
            min_trips: 5,
            min_large_trips: 3,
            max_large_trips: 6,
            max_power: 22,
            ..default.plogp
        };
        Self {
            plogp,
            budget: Duration::from_millis(400),
            latency_trips: 20,
            level_ratio: 3.0,
            asymmetry: 0.3,
            ..default
        }
    }
}
