//! What a rank does with data besides exchanging it, and its counts.

use treepie_comm::Comm;

use super::partition::Partition;
use super::stages::{Binned, Stage};
use super::stopwatch::{Part, Stopwatch};
use super::stream::Stream;
use super::table::Table;

/// What a rank has sent and discarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages of data.
    pub messages: u64,
    /// Their data.
    pub data: u64,
    /// Data that was discarded instead of applied.
    pub discarded: u64,
}

/// The table of a rank, and the bookkeeping of what it does.
pub(super) struct Work<'a> {
    pub(super) comm: Comm,
    pub(super) table: &'a mut Table,
    pub(super) stopwatch: Stopwatch,
    pub(super) counters: Counters,
    costs: SimulatedCosts,
    /// Units of work that have not been accounted for.
    units: u64,
}

/// Units of work of each datum in a simulation, whose settings have the time of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimulatedCosts {
    /// To generate it.
    pub generate: u64,
    /// To divide it among bins, once in each stage.
    pub bin: u64,
    /// To apply it.
    pub update: u64,
}

impl Default for SimulatedCosts {
    /// One unit each.
    fn default() -> Self {
        Self { generate: 1, bin: 1, update: 1 }
    }
}

impl<'a> Work<'a> {
    pub(super) fn new(comm: &Comm, table: &'a mut Table, costs: SimulatedCosts) -> Self {
        let (stopwatch, counters) = (Stopwatch::new(), Counters::default());
        Self { comm: comm.clone(), table, stopwatch, counters, costs, units: 0 }
    }

    /// The units of work since the last call.
    pub(super) fn take_units(&mut self) -> u64 {
        std::mem::take(&mut self.units)
    }

    /// Accounts for the work since the last call. It must precede sends, which would be too early otherwise, and waits, which
    /// it overlaps.
    pub(super) fn account(&mut self) {
        let units = self.take_units();
        self.comm.account_work(units);
    }

    /// The next data of the stream.
    pub(super) fn generate(&mut self, stream: &mut Stream, into: &mut Vec<u64>, count: usize) {
        self.stopwatch.time(Part::Generate, count, || stream.fill(into, count));
        self.units += self.costs.generate * into.len() as u64;
    }

    /// Divides lists into the bins of a stage.
    pub(super) fn divide<'b>(
        &mut self,
        into: &mut Binned,
        lists: impl Iterator<Item = &'b [u64]> + Clone,
        stage: &Stage,
        partition: &Partition,
    ) {
        let len = lists.clone().map(<[u64]>::len).sum();
        self.stopwatch.time(Part::Bin, len, || into.divide(lists, len, stage, partition));
        self.units += self.costs.bin * len as u64;
    }

    /// Updates by a list, but by no more than `room` data, which it reduces.
    pub(super) fn update(&mut self, list: &[u64], room: &mut usize) {
        let applied = list.len().min(*room);
        *room -= applied;
        self.counters.discarded += (list.len() - applied) as u64;
        let (table, list) = (&mut *self.table, &list[..applied]);
        self.stopwatch.time(Part::Update, applied, || table.update_all(list));
        self.units += self.costs.update * applied as u64;
    }

    /// Updates by all of a list.
    pub(super) fn update_all(&mut self, list: &[u64]) {
        self.update(list, &mut { usize::MAX });
    }

    /// Counts a message that is sent.
    pub(super) fn count_message(&mut self, data: usize) {
        self.counters.messages += 1;
        self.counters.data += data as u64;
    }
}
