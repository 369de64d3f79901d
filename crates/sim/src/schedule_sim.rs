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
mod sim_result;
mod simulator;
mod workload;

use treepie_schedule::Schedule;
use treepie_topology::Network;

use crate::costs::Settings;
use crate::error::{Error, Result};
use crate::machine::Machine;
use crate::symmetric::SymmetryGroup;
use crate::trace::SimTrace;

pub(crate) use lengths::PartLengths;
pub use sim_result::SimResult;
use simulator::ScheduleSimulator;
pub use workload::{BlockSizes, Workload};

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
