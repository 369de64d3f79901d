//! The thesis's experiment: splits of millions of ranks, where the sorters are real and the others are emulated.
//! [thesis 2.4]

use treepie_comm::split::SplitEntry;

use super::checks;
use super::cost::{Cost, HockneyModel};
use super::doubling::{EmulatedDoubling, TableJoin};
use super::sizes::Sizes;
use super::{hockney, report, sorters};
use crate::harness::progress::Progress;
use crate::harness::statistics::median;
use crate::machine;
use crate::record::Records;

/// The requested emulation.
pub(super) struct Emulation<'a> {
    pub(super) sizes: &'a Sizes,
    pub(super) sorters: &'a Sizes,
    pub(super) repeat: u32,
    pub(super) quick: bool,
    /// Description of the memory allocation.
    pub(super) memory: &'static str,
}

/// Seconds of a rank in each phase, for one number of sorters.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Column {
    pub(super) sorters: u32,
    pub(super) collect: f64,
    pub(super) splitters: f64,
    pub(super) exchange: f64,
    pub(super) merge: f64,
    /// Total of the slowest sorter.
    pub(super) slowest: f64,
    /// Additional time until all ranks have the full table.
    pub(super) copy: f64,
    /// Maximum number of pivots of a splitter.
    pub(super) rounds: u32,
}

impl Column {
    pub(super) fn total(&self) -> f64 {
        self.collect + self.splitters + self.exchange + self.merge
    }
}

/// Seconds of an algorithm that gives all ranks the full table.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FullTableTimes {
    /// Messages, by the model.
    pub(super) sent: f64,
    /// Combining received tables.
    pub(super) joined: f64,
    /// The final sort.
    pub(super) sorted: f64,
}

impl FullTableTimes {
    pub(super) fn total(&self) -> f64 {
        self.sent + self.joined + self.sorted
    }
}

/// The times for a communicator of `ranks` ranks.
pub(super) struct EmulatedSplit {
    pub(super) ranks: u32,
    pub(super) columns: Vec<Column>,
    pub(super) allgather_sort: FullTableTimes,
    /// The same where few ranks have the same color.
    pub(super) small_groups: FullTableTimes,
    pub(super) merge: FullTableTimes,
}

/// Number of colors in the case of small groups.
pub(super) const COLORS: u32 = 1000;

impl Emulation<'_> {
    pub(super) fn run(&self, records: &mut Records) -> anyhow::Result<()> {
        warm_up(self.sizes.last());
        let model = hockney::measure(self.quick)?;
        report::print_rules(&machine::describe(), &model, self.repeat, self.memory);
        let progress = Progress::new(self.sizes.iter().count() * (self.sorters.iter().count() + 3));
        let mut splits: Vec<EmulatedSplit> = Vec::new();
        let mut runs = 0;
        for ranks in self.sizes.iter() {
            let mut show = || {
                progress.show(runs);
                runs += 1;
            };
            let split = self.split(ranks, &model, &mut show)?;
            progress.clear();
            report::print(&split);
            splits.push(split);
        }
        checks::print(&splits);
        report::write(&splits, self.repeat, records)
    }

    fn split(&self, ranks: u32, model: &HockneyModel, show: &mut dyn FnMut()) -> anyhow::Result<EmulatedSplit> {
        let mut columns = Vec::new();
        for sorters in self.sorters.iter() {
            show();
            columns.push(self.column(ranks, sorters, model)?);
        }
        let mut full_table = |mode, then: &(dyn Fn(Vec<SplitEntry>) -> Vec<SplitEntry> + Sync)| {
            show();
            self.full_table_times(ranks, mode, model, then)
        };
        Ok(EmulatedSplit {
            ranks,
            columns,
            allgather_sort: full_table(TableJoin::Append { colors: 1 }, &sort_own_color)?,
            small_groups: full_table(TableJoin::Append { colors: COLORS }, &sort_own_color)?,
            merge: full_table(TableJoin::Merge, &|table| table)?,
        })
    }

    /// The medians of the runs, phase by phase.
    fn column(&self, ranks: u32, sorters: u32, model: &HockneyModel) -> anyhow::Result<Column> {
        let mut samples = Vec::new();
        for seed in 0..u64::from(self.repeat) {
            let block = ranks / sorters;
            let collect = EmulatedDoubling { ranks: block, entries_per_rank: 1, join: TableJoin::Merge, seed }
                .run(|table| table)?[0];
            let sorted = sorters::sort(ranks, sorters, seed, model)?;
            let mode = TableJoin::Append { colors: 1 };
            let copy =
                EmulatedDoubling { ranks: sorters, entries_per_rank: block, join: mode, seed }.run(|table| table)?[0];
            let seconds = |cost: &Cost| cost.seconds(model);
            let [splitters, exchange, merge] = sorted.phases.each_ref().map(seconds);
            samples.push(Column {
                sorters,
                collect: seconds(&collect),
                splitters,
                exchange,
                merge,
                slowest: seconds(&collect) + sorted.slowest,
                copy: seconds(&copy),
                rounds: sorted.rounds,
            });
        }
        let of = |value: fn(&Column) -> f64| median(&samples.iter().map(value).collect::<Vec<_>>());
        Ok(Column {
            sorters,
            collect: of(|column| column.collect),
            splitters: of(|column| column.splitters),
            exchange: of(|column| column.exchange),
            merge: of(|column| column.merge),
            slowest: of(|column| column.slowest),
            copy: of(|column| column.copy),
            rounds: samples.iter().map(|column| column.rounds).max().unwrap_or(0),
        })
    }

    fn full_table_times(
        &self,
        ranks: u32,
        mode: TableJoin,
        model: &HockneyModel,
        then: &(dyn Fn(Vec<SplitEntry>) -> Vec<SplitEntry> + Sync),
    ) -> anyhow::Result<FullTableTimes> {
        let mut samples = Vec::new();
        for seed in 0..u64::from(self.repeat) {
            let [joined, sorted] = EmulatedDoubling { ranks, entries_per_rank: 1, join: mode, seed }.run(then)?;
            // An allgather receives into its table; the append of the protocol that runs here is not part of it.
            let join_seconds = if mode == TableJoin::Merge { joined.cpu } else { 0.0 };
            samples.push(FullTableTimes {
                sent: joined.message_seconds(model),
                joined: join_seconds,
                sorted: sorted.cpu,
            });
        }
        let of = |value: fn(&FullTableTimes) -> f64| median(&samples.iter().map(value).collect::<Vec<_>>());
        Ok(FullTableTimes { sent: of(|it| it.sent), joined: of(|it| it.joined), sorted: of(|it| it.sorted) })
    }
}

/// Touches the memory that will be needed: the first allocation from the system is slow.
fn warm_up(ranks: u32) {
    let memory = vec![1u8; ranks as usize * size_of::<SplitEntry>() * 5 / 2];
    std::hint::black_box(&memory);
}

/// Filters and sorts the entries of one color, as `split/allgather_sort` does.
fn sort_own_color(mut table: Vec<SplitEntry>) -> Vec<SplitEntry> {
    let group = SplitEntry::new(Some(0), 0, 0, 0).group_key();
    table.retain(|entry| entry.group_key() == group);
    table.sort_unstable();
    table
}
