//! Simulates a schedule on a machine, every message as events, without data.
//!
//! A rank takes a few words: its [`Cursor`](treepie_schedule::Cursor), which tells what rounds can start, and for each
//! open lane the pending operations of its round. The operations of a round are emitted when it begins, into memory
//! that all ranks share, and not stored; so a million ranks fit into memory.
//!
//! The operations of a round start in the listed order: sends begin, receives are posted, copies and reductions take
//! the CPU. The k-th message of a pair in a lane matches the k-th receive there. A received message is combined, if at
//! all, after its receive completes. The round ends when all its operations have completed.

mod lengths;
mod matching;
mod round;
mod simulator;

use treepie_schedule::{BlockLayouts, Schedule};
use treepie_topology::Network;

use crate::costs::Settings;
use crate::error::{Error, Result};
use crate::machine::Machine;
use crate::symmetric::SymmetryGroup;
use crate::time::{Time, to_micros};
use crate::trace::SimTrace;

pub(crate) use lengths::PartLengths;
use simulator::ScheduleSimulator;

/// Block sizes. A message must be as long as the receive that it matches.
#[derive(Clone, Debug)]
pub enum BlockSizes {
    /// The same layouts for all ranks.
    Shared(BlockLayouts),
    /// Layouts of each rank.
    PerRank(Vec<BlockLayouts>),
}

impl BlockSizes {
    /// The layouts of a rank.
    #[inline]
    pub fn layouts(&self, rank: u32) -> &BlockLayouts {
        match self {
            BlockSizes::Shared(layouts) => layouts,
            BlockSizes::PerRank(layouts) => &layouts[rank as usize],
        }
    }
}

/// What to simulate: a schedule with its block sizes.
#[derive(Clone, Copy)]
pub struct Workload<'a> {
    /// The schedule.
    pub schedule: &'a dyn Schedule,
    /// Its block sizes in elements.
    pub sizes: &'a BlockSizes,
    /// Bytes per element.
    pub element: u64,
}

/// Result of a simulated schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct SimResult {
    /// When the last rank completed.
    pub makespan: Time,
    /// When the first rank completed.
    pub first_completion: Time,
    /// Messages of all ranks.
    pub messages: u64,
    /// Bytes of all messages.
    pub bytes: u64,
    /// Three per message: sent, arrived, received.
    pub events: u64,
    /// Processed entries of the event queue.
    pub processed_events: u64,
    /// The link with the most bytes relative to its capacity, and its bytes, where links are simulated.
    pub busiest_link: Option<(u32, u64)>,
    /// Maximum number of messages in flight.
    pub max_in_flight: u64,
    /// Bytes of memory in use, without the schedule, the trace, and the sequence numbers of in-order delivery.
    pub memory: usize,
    /// Part of it for ranks and their lanes.
    pub memory_ranks: usize,
    /// Part of it for links.
    pub memory_links: usize,
    /// Part of it for messages in flight.
    pub memory_in_flight: usize,
}

impl SimResult {
    /// The makespan in microseconds.
    pub fn micros(&self) -> f64 {
        to_micros(self.makespan)
    }
}

/// Simulates a schedule.
pub fn simulate_schedule(workload: Workload<'_>, network: &Network, settings: &Settings) -> Result<SimResult> {
    Ok(simulate_on(workload, build_machine(workload, network, settings)?)?.0)
}

/// Simulates a schedule and records a trace.
pub fn simulate_schedule_traced(
    workload: Workload<'_>,
    network: &Network,
    settings: &Settings,
) -> Result<(SimResult, SimTrace)> {
    let mut machine = build_machine(workload, network, settings)?;
    machine.enable_trace();
    let (result, mut machine) = simulate_on(workload, machine)?;
    Ok((result, machine.take_trace().unwrap_or_default()))
}

fn simulate_on(workload: Workload<'_>, machine: Machine) -> Result<(SimResult, Machine)> {
    let mut simulator = ScheduleSimulator::new(workload, machine, None);
    simulator.run()?;
    simulator.into_result()
}

/// Simulates only rank 0 of a schedule whose ranks are copies of it, on a machine of one representative rank. None if
/// other ranks might be served in another order.
pub(crate) fn simulate_representative(
    workload: Workload<'_>,
    machine: Machine,
    group: SymmetryGroup,
) -> Result<Option<SimResult>> {
    let mut simulator = ScheduleSimulator::new(workload, machine, Some(group));
    if !simulator.run()? {
        return Ok(None);
    }
    let (result, _) = simulator.into_result()?;
    let ranks = u64::from(workload.schedule.ranks());
    let (messages, bytes, events) =
        (result.messages * ranks, result.bytes.saturating_mul(ranks), result.events * ranks);
    Ok(Some(SimResult { messages, bytes, events, max_in_flight: result.max_in_flight * ranks, ..result }))
}

fn build_machine(workload: Workload<'_>, network: &Network, settings: &Settings) -> Result<Machine> {
    let (schedule, ranks) = (workload.schedule.ranks(), network.ranks());
    let mut machine = Machine::new(network, settings)?;
    if schedule != ranks {
        return Err(Error::RankCountMismatch { schedule, network: ranks });
    }
    machine.set_active_ports(&settings.costs, max_concurrent_lanes(workload.schedule), network.ports());
    Ok(machine)
}

/// The maximum number of concurrent lanes of a phase: the ports that a rank drives.
pub(crate) fn max_concurrent_lanes(schedule: &dyn Schedule) -> u32 {
    (0..schedule.phases()).map(|phase| schedule.phase(phase).max_open_lanes()).max().unwrap_or(0)
}
