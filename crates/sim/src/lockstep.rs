//! Lockstep rounds: the cost of a schedule if all ranks begin each round together.   [thesis 3.1]
//!
//! A phase costs alpha for each message of the rank that sends or receives most in it, and delta per round for the
//! bytes on the busiest link of any route ([`treepie_schedule::count`]). The closed forms of the papers are at this
//! level. Its running time does not depend on the number of concurrent messages, so it suits algorithms that send P^2
//! of them.
//!
//! A phase also costs gamma for each byte of the rank that combines and copies most in it, and a barrier if it ends
//! globally. The closed forms count combined bytes, not copies.
//!
//! Clos networks are routed as the costs say, and slow links have less capacity. Other noise, a memory cap, a port
//! limit and hosts of several ranks are refused: their effect needs events.
//!
//! It equals the events of [`crate::schedule_sim`] where a rank sends one message at a time and ranks stay in step:
//! ring, bucket, recursive doubling with one lane. With several lanes it is higher: the start-ups of all lanes of a
//! round precede its transfers here, while in events the start-up of one lane overlaps the transfer of another.

use treepie_schedule::count::{PhaseCost, ScheduleCost, count, count_on_links};
use treepie_schedule::{PhaseEnd, RoundList, ScheduleOp};
use treepie_topology::{Network, NetworkKind};

use crate::costs::{CostModel, LinkCosts, Settings};
use crate::error::{Error, Result};
use crate::network::link_routes::RouteTable;
use crate::noise::Noise;
use crate::schedule_sim::{PartLengths, Workload, max_concurrent_lanes};

/// The cost of a schedule in lockstep rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct LockstepCost {
    /// The time in microseconds.
    pub micros: f64,
    /// Start-ups on the critical path.
    pub startups: u64,
    /// Bytes over a link on the critical path.
    pub bytes_over_link: f64,
    /// Messages of all ranks.
    pub messages: u64,
    /// Bytes of all messages.
    pub bytes: u64,
    /// Microseconds of each phase.
    pub phases: Vec<f64>,
    /// The longest route in hops.
    pub hops: u32,
}

/// Prices a schedule in lockstep rounds. `settings` must have link costs.
pub fn lockstep_cost(workload: Workload<'_>, network: &Network, settings: &Settings) -> Result<LockstepCost> {
    settings.check()?;
    let (schedule, ranks) = (workload.schedule.ranks(), network.ranks());
    if schedule != ranks {
        return Err(Error::RankCountMismatch { schedule, network: ranks });
    }
    let CostModel::Links(links) = &settings.costs else { return Err(Error::LinkCostsRequired) };
    let Noise { seed: _, jitter, slow_ranks, slow_links: _, failures } = &settings.noise;
    let is_noisy = *jitter > 0.0 || !slow_ranks.is_empty() || !failures.is_empty();
    if is_noisy || settings.memory_cap.is_some() || links.ports.is_some() || network.nodes_per_host() > 1 {
        return Err(Error::LockstepUnsupported);
    }
    let routes = RouteTable::new(links, network, &settings.noise, false)?;
    let layouts = |rank| workload.sizes.layouts(rank).clone();
    let count = if routes.is_unmodified(&settings.noise) {
        count(workload.schedule, &layouts, network)
    } else {
        count_on_links(workload.schedule, &layouts, &routes)
    };
    let per_byte = per_byte(links, network, max_concurrent_lanes(workload.schedule));
    let compute_times = compute_times(workload, settings);
    Ok(price(&count, links, per_byte, workload.element, &compute_times))
}

/// Time of each phase beside messages: combining and copying, and the barrier at a global end.
fn compute_times(workload: Workload<'_>, settings: &Settings) -> Vec<f64> {
    let schedule = workload.schedule;
    let mut part_lengths = PartLengths::new(workload.sizes);
    let barrier = |phase| if schedule.phase(phase).end == PhaseEnd::Global { settings.barrier_time } else { 0.0 };
    let combined =
        |phase| if settings.gamma > 0.0 { max_combined_bytes(workload, phase, &mut part_lengths) as f64 } else { 0.0 };
    let combined: Vec<f64> = (0..schedule.phases()).map(combined).collect();
    (0..).zip(combined).map(|(phase, bytes)| bytes * settings.gamma + barrier(phase)).collect()
}

/// The maximum bytes that a rank combines and copies in a phase.
fn max_combined_bytes(workload: Workload<'_>, phase: u32, part_lengths: &mut PartLengths) -> u64 {
    /// Rounds emitted at once.
    const BATCH: u32 = 64;
    let schedule = workload.schedule;
    let mut ops = RoundList::new();
    let mut of_rank = |rank: u32| {
        let mut bytes = 0;
        for lane in 0..schedule.phase(phase).lanes {
            let rounds = schedule.rounds(rank, phase, lane);
            for first in (0..rounds).step_by(BATCH as usize) {
                ops.clear();
                schedule.emit(rank, phase, lane, first..rounds.min(first.saturating_add(BATCH)), &mut ops);
                for op in ops.iter().flatten() {
                    if let ScheduleOp::RecvReduce { part, .. }
                    | ScheduleOp::Reduce { from: part, .. }
                    | ScheduleOp::Copy { from: part, .. } = *op
                    {
                        bytes += part_lengths.bytes_of(workload, rank, part);
                    }
                }
            }
        }
        bytes
    };
    (0..schedule.ranks()).map(&mut of_rank).max().unwrap_or(0)
}

/// Time per byte over a link with this number of concurrent lanes.
fn per_byte(links: &LinkCosts, network: &Network, lanes: u32) -> f64 {
    match network.kind() {
        NetworkKind::Flat(_) => links.beta.unwrap_or(links.delta),
        _ => links.delta_with_ports(lanes.min(network.ports()), network.ports()),
    }
}

fn price(count: &ScheduleCost, links: &LinkCosts, per_byte: f64, element: u64, compute_times: &[f64]) -> LockstepCost {
    let element = element as f64;
    let hops = |phase: &PhaseCost| phase.rounds.iter().map(|round| round.hops).max().unwrap_or(0);
    let time = |(phase, compute_time): (&PhaseCost, &f64)| {
        let hop_time: f64 = phase.rounds.iter().map(|round| f64::from(round.hops) * links.per_hop).sum();
        phase.messages as f64 * links.alpha + phase.time * element * per_byte + hop_time + compute_time
    };
    let phases: Vec<f64> = count.phases.iter().zip(compute_times).map(time).collect();
    LockstepCost {
        micros: phases.iter().sum(),
        startups: count.alpha(),
        bytes_over_link: count.delta() * element,
        messages: count.messages,
        bytes: count.volume * element as u64,
        phases,
        hops: count.phases.iter().map(hops).max().unwrap_or(0),
    }
}
