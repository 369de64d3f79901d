//! Simulation of one algorithm at one message size.

use anyhow::bail;
use treepie_collectives::registry::{self, CollectiveSpec};
use treepie_model::closed_form;
use treepie_schedule::{BlockLayout, BlockLayouts, Operation, PhaseEnd, Schedule, dump};
use treepie_sim::{BlockSizes, SimResult, Workload, lockstep_cost, schedule_sim, simulate_schedule, symmetric};
use treepie_topology::Network;

use super::atomic_text_file::AtomicTextFile;
use super::level::{self, Level};
use treepie_bench::parameters::Parameters;

/// The result.
pub(super) struct Row {
    pub(super) id: String,
    pub(super) bytes: usize,
    pub(super) level: Level,
    pub(super) micros: f64,
    /// Bytes per microsecond received by a rank.
    pub(super) bandwidth: Option<f64>,
    pub(super) messages: Option<u64>,
    /// The busiest link, and its bytes.
    pub(super) busiest_link: Option<(u32, u64)>,
    /// The closed-form time, if there is one.
    pub(super) formula: Option<f64>,
}

impl Row {
    pub(super) fn simulate(
        id: &str,
        operation: Operation,
        network: &Network,
        bytes: usize,
        parameters: &Parameters,
        level: Level,
    ) -> anyhow::Result<Self> {
        let schedule = build(id, operation, network)?;
        // Closed forms do not model hardware barriers.
        let ends_globally = (0..schedule.phases()).any(|phase| schedule.phase(phase).end == PhaseEnd::Global);
        let is_known = parameters.settings.barrier_time == 0.0 || !ends_globally;
        let formula = is_known.then(|| formula(id, operation, network, bytes, parameters)).flatten();
        let mut row = Self {
            id: id.to_owned(),
            bytes,
            level,
            micros: 0.0,
            bandwidth: None,
            messages: None,
            busiest_link: None,
            formula,
        };
        row.find_time(&*schedule, network, parameters, level)?;
        let received = received_bytes(operation, network.ranks(), bytes);
        row.bandwidth = (received > 0.0 && row.micros > 0.0).then(|| received / row.micros);
        Ok(row)
    }

    fn find_time(
        &mut self,
        schedule: &dyn Schedule,
        network: &Network,
        parameters: &Parameters,
        level: Level,
    ) -> anyhow::Result<()> {
        let sizes = sizes(schedule, self.bytes);
        let workload = Workload { schedule, sizes: &sizes, element: 1 };
        let costs = &parameters.settings.costs;
        for next in level.candidates(schedule, costs) {
            self.level = next;
            match next {
                Level::Auto | Level::Events => {
                    self.set_result(&simulate_schedule(workload, network, &parameters.settings)?)
                }
                Level::OneRank => match symmetric::simulate(workload, network, &parameters.settings)? {
                    Some(result) => self.set_result(&result),
                    None => continue,
                },
                Level::Rounds => {
                    let cost = lockstep_cost(workload, network, &parameters.settings)?;
                    self.micros = cost.micros;
                    self.messages = Some(cost.messages);
                }
                Level::Formula => match self.formula {
                    Some(micros) => self.micros = micros,
                    None => bail!("there is no formula for {} on {network} with these parameters", self.id),
                },
            }
            return Ok(());
        }
        Err(level::refusal(level, &self.id, schedule, costs))
    }

    fn set_result(&mut self, result: &SimResult) {
        self.micros = result.micros();
        self.messages = Some(result.messages);
        self.busiest_link = result.busiest_link;
    }
}

pub(super) fn build(id: &str, operation: Operation, network: &Network) -> anyhow::Result<Box<dyn Schedule>> {
    registry::build(id, &CollectiveSpec::new(operation, network)).map_err(Into::into)
}

/// The block sizes.
fn sizes(schedule: &dyn Schedule, bytes: usize) -> BlockSizes {
    let blocks = schedule.blocks();
    let layout = match schedule.operation() {
        Operation::Allgather | Operation::Gather { .. } | Operation::Scatter { .. } | Operation::Alltoall => {
            BlockLayout::uniform(bytes, blocks)
        }
        _ => BlockLayout::Even { total: bytes, blocks },
    };
    BlockSizes::Shared(BlockLayouts::symmetric(layout))
}

/// Bytes that a rank receives from others.
fn received_bytes(operation: Operation, ranks: u32, bytes: usize) -> f64 {
    let bytes = bytes as f64;
    match operation {
        Operation::Barrier => 0.0,
        Operation::Allgather | Operation::Gather { .. } | Operation::Alltoall => bytes * f64::from(ranks - 1),
        _ if ranks == 1 => 0.0,
        // Its own block is local.
        Operation::ReduceScatter => bytes * f64::from(ranks - 1) / f64::from(ranks),
        _ => bytes,
    }
}

/// The closed form, whose n differs from `bytes` for two operations.
fn formula(id: &str, operation: Operation, network: &Network, bytes: usize, parameters: &Parameters) -> Option<f64> {
    let ranks = f64::from(network.ranks());
    let n = match operation {
        Operation::Alltoall => bytes as f64 * ranks,
        Operation::ReduceScatter => bytes as f64 / ranks,
        _ => bytes as f64,
    };
    closed_form::time(id, operation, network, n, parameters.cost_params.as_ref()?)
}

/// Writes the timeline of all ranks, as JSON for Perfetto.
pub(super) fn trace(
    (id, operation): (&str, Operation),
    network: &Network,
    bytes: usize,
    parameters: &Parameters,
    file: AtomicTextFile<'_>,
) -> anyhow::Result<()> {
    let schedule = build(id, operation, network)?;
    let sizes = sizes(&*schedule, bytes);
    let workload = Workload { schedule: &*schedule, sizes: &sizes, element: 1 };
    let (_, trace) = schedule_sim::simulate_schedule_traced(workload, network, &parameters.settings)?;
    file.write(|out| trace.write_json(out))
}

/// Writes the schedule as GOAL.
pub(super) fn goal(
    (id, operation): (&str, Operation),
    network: &Network,
    bytes: usize,
    file: AtomicTextFile<'_>,
) -> anyhow::Result<()> {
    let schedule = build(id, operation, network)?;
    let sizes = sizes(&*schedule, bytes);
    file.write(|out| dump::write_goal(&*schedule, &|rank| sizes.layouts(rank).clone(), 1, out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_blocks_are_not_received() {
        let reduce_scatter = Operation::ReduceScatter;
        assert_eq!([1, 4].map(|ranks| received_bytes(reduce_scatter, ranks, 1000)), [0.0, 750.0]);
        assert_eq!([1, 4].map(|ranks| received_bytes(Operation::Allgather, ranks, 1000)), [0.0, 3000.0]);
        assert_eq!([1, 4].map(|ranks| received_bytes(Operation::Allreduce, ranks, 1000)), [0.0, 1000.0]);
    }
}
