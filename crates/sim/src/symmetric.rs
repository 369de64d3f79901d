//! Simulates one representative rank instead of all, where all ranks behave alike.
//!
//! In a ring, a dissemination, Bruck's algorithm or buckets on a whole torus, rank r does what rank 0 does with all
//! ranks shifted: added modulo P, added in each dimension of the torus, or, for recursive doubling, XORed. Then all
//! ranks are at the same point at all times. If rank 0 sends to d now, the rank shifted by -d sends to rank 0 now, so
//! the only messages that arrive at rank 0 are its own. Links are alike all over the network as well: the load that a
//! message puts on all links of one direction, its shifted copies put on one. So there is one link for each direction,
//! and a message of several hops occupies it once per hop.
//!
//! Symmetry is verified, not assumed: for all ranks and rounds if there are few, else for a sample at all scales. All
//! blocks must have the same length. Messages over exactly half a ring take different directions from even and odd
//! coordinates, so a torus with those is not symmetric. Neither is a run in which the order of simultaneous events
//! matters; that shows during the simulation.

mod group;
mod ties;

use treepie_schedule::{BlockLayout, RoundList, ScheduleOp};
use treepie_topology::{Network, NetworkKind, TieBreak};

use crate::costs::{CostModel, Settings};
use crate::error::{Error, Result};
use crate::machine::Machine;
use crate::noise::{Noise, SplitMix64};
use crate::schedule_sim::{
    BlockSizes, PartLengths, SimResult, Workload, max_concurrent_lanes, simulate_representative,
};
pub(crate) use group::SymmetryGroup;
pub(crate) use ties::{InstantRequests, OrderTies};

/// Up to this number of ranks, and of rounds of a lane, all are verified.
const EXHAUSTIVE_LIMIT: u32 = 64;

/// Simulates a schedule from rank 0. None if the schedule is not symmetric on this network, or if ranks might be served
/// in different orders. The busiest link, if any, is one that leaves rank 0.
pub fn simulate(workload: Workload<'_>, network: &Network, settings: &Settings) -> Result<Option<SimResult>> {
    settings.check()?;
    let (schedule, ranks) = (workload.schedule.ranks(), network.ranks());
    if schedule != ranks {
        return Err(Error::RankCountMismatch { schedule, network: ranks });
    }
    let Some(group) = find_symmetry(workload, network, settings) else { return Ok(None) };
    let mut machine = Machine::representative(network, settings)?;
    machine.set_active_ports(&settings.costs, max_concurrent_lanes(workload.schedule), network.ports());
    simulate_representative(workload, machine, group)
}

/// The group under which all ranks are shifted copies of rank 0, if any.
fn find_symmetry(workload: Workload<'_>, network: &Network, settings: &Settings) -> Option<SymmetryGroup> {
    let is_noisy = settings.noise != (Noise { seed: settings.noise.seed, ..Noise::default() });
    // Which of its messages stay in its host depends on the rank.
    if is_noisy || network.nodes_per_host() > 1 {
        return None;
    }
    let BlockSizes::Shared(layouts) = workload.sizes else { return None };
    let blocks = workload.schedule.blocks();
    if ![&layouts.input, &layouts.output].into_iter().all(|layout| has_equal_blocks(layout, blocks)) {
        return None;
    }
    let ranks = network.ranks();
    let torus = network.as_torus().filter(|torus| {
        network.has_identity_placement()
            && (0..torus.dims().len()).all(|dimension| torus.wraps(dimension) || torus.dims()[dimension] == 1)
    });
    let by_coordinates = torus.map(|torus| SymmetryGroup::Torus(torus.dims().to_vec()));
    let by_number = [Some(SymmetryGroup::Cyclic(ranks)), ranks.is_power_of_two().then_some(SymmetryGroup::Xor)];
    let on_links = matches!(settings.costs, CostModel::Links(_));
    let groups: Vec<SymmetryGroup> = match (&settings.costs, network.kind()) {
        (CostModel::Clusters(_), _) => Vec::new(),
        (CostModel::LogGp(_), _) | (CostModel::Links(_), NetworkKind::Flat(_)) => {
            by_number.into_iter().chain([by_coordinates]).flatten().collect()
        }
        (CostModel::Links(_), NetworkKind::Torus(_)) => by_coordinates.into_iter().collect(),
        _ => Vec::new(),
    };
    groups.into_iter().find(|group| SymmetryCheck::new(workload, group, on_links).is_symmetric())
}

/// Whether all blocks have the same length, so that it does not matter which of them a rank sends.
fn has_equal_blocks(layout: &BlockLayout, blocks: u32) -> bool {
    match layout {
        BlockLayout::Even { total, blocks } => *blocks == 0 || total % *blocks as usize == 0,
        BlockLayout::Offsets(_) => (1..blocks).all(|block| layout.range(block, 1).len() == layout.range(0, 1).len()),
    }
}

/// Verifies that ranks are shifted copies of rank 0.
struct SymmetryCheck<'a> {
    workload: Workload<'a>,
    group: &'a SymmetryGroup,
    on_links: bool,
    part_lengths: PartLengths,
    /// Operations of rank 0, and of another rank.
    ops: [RoundList; 2],
}

impl<'a> SymmetryCheck<'a> {
    fn new(workload: Workload<'a>, group: &'a SymmetryGroup, on_links: bool) -> Self {
        let part_lengths = PartLengths::new(workload.sizes);
        Self { workload, group, on_links, part_lengths, ops: [RoundList::new(), RoundList::new()] }
    }

    fn is_symmetric(&mut self) -> bool {
        let schedule = self.workload.schedule;
        let shifts = sample(schedule.ranks());
        (0..schedule.phases()).all(|phase| {
            (0..schedule.phase(phase).lanes).all(|lane| {
                let rounds = schedule.rounds(0, phase, lane);
                let tie = schedule.tie_break(phase, lane);
                shifts.iter().all(|&shift| schedule.rounds(shift, phase, lane) == rounds)
                    && sample(rounds).into_iter().all(|round| {
                        self.ops[0].clear();
                        schedule.emit(0, phase, lane, round..round + 1, &mut self.ops[0]);
                        self.has_no_route_tie(tie)
                            && shifts.iter().all(|&shift| self.is_copy(shift, (phase, lane, round)))
                    })
            })
        })
    }

    /// Whether rank 0 sends nothing for which other ranks choose another direction.
    fn has_no_route_tie(&self, tie: TieBreak) -> bool {
        let half = |op: &ScheduleOp| matches!(*op, ScheduleOp::Send { to, .. } if self.group.is_half_ring_distance(to));
        !self.on_links || tie != TieBreak::Parity || !self.ops[0].round_or_empty(0).iter().any(half)
    }

    fn is_copy(&mut self, shift: u32, (phase, lane, round): (u32, u32, u32)) -> bool {
        let [base, other] = &mut self.ops;
        other.clear();
        self.workload.schedule.emit(shift, phase, lane, round..round + 1, other);
        let (base, other) = (base.round_or_empty(0), other.round_or_empty(0));
        base.len() == other.len()
            && base.iter().zip(other).all(|(base, other)| {
                let (peer, part, combines) = cost_signature(base);
                let (other_peer, other_part, other_combines) = cost_signature(other);
                std::mem::discriminant(base) == std::mem::discriminant(other)
                    && combines == other_combines
                    && peer.map(|peer| self.group.shift(peer, shift)) == other_peer
                    && self.part_lengths.bytes_of(self.workload, 0, part)
                        == self.part_lengths.bytes_of(self.workload, shift, other_part)
            })
    }
}

/// What the cost of an operation depends on: peer, part, and whether it combines.
fn cost_signature(op: &ScheduleOp) -> (Option<u32>, treepie_schedule::BlockRange, bool) {
    match *op {
        ScheduleOp::Send { to, part } => (Some(to), part, false),
        ScheduleOp::Recv { from, part } => (Some(from), part, false),
        ScheduleOp::RecvReduce { from, part, .. } => (Some(from), part, true),
        ScheduleOp::Copy { from, .. } => (None, from, false),
        ScheduleOp::Reduce { from, .. } => (None, from, true),
    }
}

/// All numbers below a small count; of a large one the ends, those around powers of two, and random ones.
fn sample(count: u32) -> Vec<u32> {
    if count <= EXHAUSTIVE_LIMIT {
        return (0..count).collect();
    }
    let mut random = SplitMix64::new(u64::from(count));
    let mut numbers = vec![0, count - 1, count / 2, count / 3];
    numbers.extend((1..32).map(|bit| 1u32 << bit).flat_map(|power| [power - 1, power, count.saturating_sub(power)]));
    numbers.extend((0..24).map(|_| random.below(u64::from(count)) as u32));
    numbers.retain(|number| *number < count);
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}
