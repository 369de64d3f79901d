//! One algorithm with one number of bytes, simulated.

use anyhow::bail;
use treepie_collectives::registry::{self, Request};
use treepie_model::closed;
use treepie_schedule::{End, Layout, Layouts, Operation, Schedule, dump};
use treepie_sim::{Piece, Played, Sizes, phases, play, player, symmetric};
use treepie_topology::Network;

use super::file::Whole;
use super::level::{self, Level};
use super::parameters::Parameters;

/// What came out.
pub(super) struct Row {
    pub(super) id: String,
    pub(super) bytes: usize,
    pub(super) level: Level,
    pub(super) micros: f64,
    /// Bytes a microsecond that a rank gets.
    pub(super) bandwidth: Option<f64>,
    pub(super) messages: Option<u64>,
    /// The busiest link, and the bytes over it.
    pub(super) worst_link: Option<(u32, u64)>,
    /// By the closed form, where there is one.
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
        // Closed forms know no barriers.
        let ends_globally = (0..schedule.phases()).any(|phase| schedule.phase(phase).end == End::Global);
        let is_known = parameters.settings.barrier == 0.0 || !ends_globally;
        let formula = is_known.then(|| formula(id, operation, network, bytes, parameters)).flatten();
        let mut row = Self {
            id: id.to_owned(),
            bytes,
            level,
            micros: 0.0,
            bandwidth: None,
            messages: None,
            worst_link: None,
            formula,
        };
        row.find_time(&*schedule, network, parameters, level)?;
        let received = received(operation, network.ranks(), bytes);
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
        let piece = Piece { schedule, sizes: &sizes, element: 1 };
        let costs = &parameters.settings.costs;
        for next in level.to_try(schedule, costs) {
            self.level = next;
            match next {
                Level::Auto | Level::Events => self.take(&play(piece, network, &parameters.settings)?),
                Level::OneRank => match symmetric::play(piece, network, &parameters.settings)? {
                    Some(played) => self.take(&played),
                    None => continue,
                },
                Level::Rounds => {
                    let phased = phases(piece, network, &parameters.settings)?;
                    self.micros = phased.micros;
                    self.messages = Some(phased.messages);
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

    fn take(&mut self, played: &Played) {
        self.micros = played.micros();
        self.messages = Some(played.messages);
        self.worst_link = played.worst_link;
    }
}

pub(super) fn build(id: &str, operation: Operation, network: &Network) -> anyhow::Result<Box<dyn Schedule>> {
    registry::build(id, &Request::new(operation, network)).map_err(Into::into)
}

/// How long the blocks are.
fn sizes(schedule: &dyn Schedule, bytes: usize) -> Sizes {
    let blocks = schedule.blocks();
    let layout = match schedule.operation() {
        Operation::Allgather | Operation::Gather { .. } | Operation::Scatter { .. } | Operation::Alltoall => {
            Layout::uniform(bytes, blocks)
        }
        _ => Layout::Even { total: bytes, blocks },
    };
    Sizes::Shared(Layouts::both(layout))
}

/// Bytes that a rank gets of others.
fn received(operation: Operation, ranks: u32, bytes: usize) -> f64 {
    let bytes = bytes as f64;
    match operation {
        Operation::Barrier => 0.0,
        Operation::Allgather | Operation::Gather { .. } | Operation::Alltoall => bytes * f64::from(ranks - 1),
        _ if ranks == 1 => 0.0,
        // Its own share it has.
        Operation::ReduceScatter => bytes * f64::from(ranks - 1) / f64::from(ranks),
        _ => bytes,
    }
}

/// The closed form, in whose terms n is another thing for two operations.
fn formula(id: &str, operation: Operation, network: &Network, bytes: usize, parameters: &Parameters) -> Option<f64> {
    let ranks = f64::from(network.ranks());
    let n = match operation {
        Operation::Alltoall => bytes as f64 * ranks,
        Operation::ReduceScatter => bytes as f64 / ranks,
        _ => bytes as f64,
    };
    closed::time(id, operation, network, n, parameters.prices.as_ref()?)
}

/// Writes what each rank does, as JSON for Perfetto.
pub(super) fn trace(
    (id, operation): (&str, Operation),
    network: &Network,
    bytes: usize,
    parameters: &Parameters,
    file: Whole<'_>,
) -> anyhow::Result<()> {
    let schedule = build(id, operation, network)?;
    let sizes = sizes(&*schedule, bytes);
    let piece = Piece { schedule: &*schedule, sizes: &sizes, element: 1 };
    let (_, trace) = player::play_recorded(piece, network, &parameters.settings)?;
    file.write(|out| trace.json(out))
}

/// Writes the schedule as GOAL.
pub(super) fn goal(
    (id, operation): (&str, Operation),
    network: &Network,
    bytes: usize,
    file: Whole<'_>,
) -> anyhow::Result<()> {
    let schedule = build(id, operation, network)?;
    let sizes = sizes(&*schedule, bytes);
    file.write(|out| dump::goal(&*schedule, &|rank| sizes.of(rank).clone(), 1, out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_gets_nothing_of_itself() {
        let reduce_scatter = Operation::ReduceScatter;
        assert_eq!([1, 4].map(|ranks| received(reduce_scatter, ranks, 1000)), [0.0, 750.0]);
        assert_eq!([1, 4].map(|ranks| received(Operation::Allgather, ranks, 1000)), [0.0, 3000.0]);
        assert_eq!([1, 4].map(|ranks| received(Operation::Allreduce, ranks, 1000)), [0.0, 1000.0]);
    }
}
