//! The thesis's experiment: splits of millions of ranks, of which those who sort are real and the rest is emulated.
//! [thesis 2.4]

use treepie_comm::split::Entry;

use super::super::super::machine;
use super::super::super::record::Records;
use super::super::progress::Progress;
use super::super::statistics::median;
use super::checks;
use super::cost::{Cost, Transfer};
use super::doubling::{Emulated, Joined};
use super::sizes::Sizes;
use super::{report, sorters, transfer};

/// What the user asks for.
pub(super) struct Emulation<'a> {
    pub(super) sizes: &'a Sizes,
    pub(super) sorters: &'a Sizes,
    pub(super) repeat: u32,
    pub(super) quick: bool,
    /// Where memory comes from, in words.
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
    /// All of it on the rank that took longest to sort.
    pub(super) slowest: f64,
    /// Until all have full copies, beyond that.
    pub(super) copy: f64,
    /// Pivots of the splitter that took most.
    pub(super) rounds: u32,
}

impl Column {
    pub(super) fn total(&self) -> f64 {
        self.collect + self.splitters + self.exchange + self.merge
    }
}

/// Seconds of a way in which all ranks get the whole table.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Whole {
    /// Of messages, by the model.
    pub(super) sent: f64,
    /// Of joining what came.
    pub(super) joined: f64,
    /// Of the sort at the end.
    pub(super) sorted: f64,
}

impl Whole {
    pub(super) fn total(&self) -> f64 {
        self.sent + self.joined + self.sorted
    }
}

/// A communicator of so many ranks.
pub(super) struct Split {
    pub(super) ranks: u32,
    pub(super) columns: Vec<Column>,
    pub(super) allgather_sort: Whole,
    /// The same where few have the own colour.
    pub(super) small: Whole,
    pub(super) merge: Whole,
}

/// In the case of small communicators, one of so many ranks has the own colour.
pub(super) const COLOURS: u32 = 1000;

impl Emulation<'_> {
    pub(super) fn run(&self, records: Option<&mut Records>) -> anyhow::Result<()> {
        warm_up(self.sizes.last());
        let transfer = transfer::measure(self.quick)?;
        report::print_rules(&machine::describe(), &transfer, self.repeat, self.memory);
        let progress = Progress::new(self.sizes.iter().count() * (self.sorters.iter().count() + 3));
        let mut splits: Vec<Split> = Vec::new();
        let mut runs = 0;
        for ranks in self.sizes.iter() {
            let mut show = || {
                progress.show(runs);
                runs += 1;
            };
            let split = self.split(ranks, &transfer, &mut show)?;
            progress.end();
            report::print(&split);
            splits.push(split);
        }
        checks::print(&splits);
        records.map_or(Ok(()), |records| report::write(&splits, self.repeat, records))
    }

    fn split(&self, ranks: u32, transfer: &Transfer, show: &mut dyn FnMut()) -> anyhow::Result<Split> {
        let mut columns = Vec::new();
        for sorters in self.sorters.iter() {
            show();
            columns.push(self.column(ranks, sorters, transfer)?);
        }
        let mut whole = |joining, then: &(dyn Fn(Vec<Entry>) -> Vec<Entry> + Sync)| {
            show();
            self.whole(ranks, joining, transfer, then)
        };
        Ok(Split {
            ranks,
            columns,
            allgather_sort: whole(Joined::Appended { colours: 1 }, &sort_own)?,
            small: whole(Joined::Appended { colours: COLOURS }, &sort_own)?,
            merge: whole(Joined::Merged, &|table| table)?,
        })
    }

    /// The medians of the runs, phase by phase.
    fn column(&self, ranks: u32, sorters: u32, transfer: &Transfer) -> anyhow::Result<Column> {
        let mut samples = Vec::new();
        for seed in 0..u64::from(self.repeat) {
            let block = ranks / sorters;
            let collect = Emulated { ranks: block, each: 1, joining: Joined::Merged, seed }.run(|table| table)?[0];
            let sorted = sorters::sort(ranks, sorters, seed, transfer)?;
            let joining = Joined::Appended { colours: 1 };
            let copy = Emulated { ranks: sorters, each: block, joining, seed }.run(|table| table)?[0];
            let seconds = |cost: &Cost| cost.seconds(transfer);
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

    fn whole(
        &self,
        ranks: u32,
        joining: Joined,
        transfer: &Transfer,
        then: &(dyn Fn(Vec<Entry>) -> Vec<Entry> + Sync),
    ) -> anyhow::Result<Whole> {
        let mut samples = Vec::new();
        for seed in 0..u64::from(self.repeat) {
            let [joined, sorted] = Emulated { ranks, each: 1, joining, seed }.run(then)?;
            // An allgather receives into its table; that the protocol which is run here appends is no part of it.
            let joining_takes = if joining == Joined::Merged { joined.cpu } else { 0.0 };
            samples.push(Whole { sent: joined.sent(transfer), joined: joining_takes, sorted: sorted.cpu });
        }
        let of = |value: fn(&Whole) -> f64| median(&samples.iter().map(value).collect::<Vec<_>>());
        Ok(Whole { sent: of(|it| it.sent), joined: of(|it| it.joined), sorted: of(|it| it.sorted) })
    }
}

/// Has as much memory as will be needed touched: what the system must first take from others is slow.
fn warm_up(ranks: u32) {
    let memory = vec![1u8; ranks as usize * size_of::<Entry>() * 5 / 2];
    std::hint::black_box(&memory);
}

/// Keeps and sorts what has the own colour, as `split/allgather_sort` does.
fn sort_own(mut table: Vec<Entry>) -> Vec<Entry> {
    let group = Entry::new(Some(0), 0, 0, 0).group();
    table.retain(|entry| entry.group() == group);
    table.sort_unstable();
    table
}
