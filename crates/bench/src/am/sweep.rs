//! Comparison of the adaptive setting with fixed ones.

use clap::ValueEnum;
use treepie::am::{Coalescing, Config, Reductions};

use super::figures::Scale;
use super::rank::MessageCounters;
use super::runs::Runs;
use super::stream::Keys;
use super::task::{HandlerKind, Program, config_suffix};
use crate::harness::figure::Figure;
use crate::harness::table::{format_number, format_spread};
use crate::record::Record;

/// The swept setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Sweep {
    /// Messages per coalescing buffer: 2^4 to 2^16, and adaptive
    Coalescing,
    /// Entries of the reduction cache: none, 2^6 to 2^16, and adaptive; with uniform and with skewed keys
    Reductions,
}

/// Exponents of the swept powers of two.
const COALESCING: std::ops::RangeInclusive<u32> = 4..=16;
const ENTRIES: [u32; 6] = [6, 8, 10, 12, 14, 16];

/// Figures of a sweep; the last is that of the adaptive setting.
pub(super) struct Row {
    /// Heading of the table.
    label: &'static str,
    /// Whether messages may be combined.
    combines: bool,
    pub(super) figures: Vec<Figure>,
}

impl Sweep {
    pub(super) fn rows(self, scale: Scale, config: &Config, work: u32) -> Vec<Row> {
        let rest = if work > 0 { format!("/work={work}") } else { String::new() };
        let row = |label, name: &str, handler: HandlerKind, keys, configs: Vec<(String, Config)>| {
            let figure = |(setting, config): (String, Config)| {
                let program = Program { keys, work, config, ..handler.into() };
                Figure { name: format!("am/sweep/{name}/{setting}{rest}"), ..scale.update_figure("", program) }
            };
            Row { label, combines: handler == HandlerKind::Combine, figures: configs.into_iter().map(figure).collect() }
        };
        match self {
            Sweep::Coalescing => {
                let sizes = COALESCING.map(|bits| Coalescing::Messages(1 << bits)).chain([Coalescing::Adaptive]);
                let set = |coalescing: Coalescing| {
                    let rest = config_suffix(&config.clone().coalescing(Coalescing::default()));
                    (format!("{coalescing}{rest}"), config.clone().coalescing(coalescing))
                };
                vec![row(
                    "messages per buffer",
                    "coalescing",
                    HandlerKind::Prefetch,
                    Keys::Uniform,
                    sizes.map(set).collect(),
                )]
            }
            Sweep::Reductions => {
                let sizes = ENTRIES.map(|bits| Reductions::Entries(1 << bits));
                let sizes = [Reductions::Off].into_iter().chain(sizes).chain([Reductions::Adaptive]);
                let set = |reductions: Reductions| {
                    let rest = config_suffix(&config.clone().reductions(Reductions::default()));
                    (format!("{reductions}{rest}"), config.clone().reductions(reductions))
                };
                let sets: Vec<_> = sizes.map(set).collect();
                vec![
                    row("uniform keys", "reductions/uniform", HandlerKind::Combine, Keys::Uniform, sets.clone()),
                    row("skewed keys", "reductions/skewed", HandlerKind::Combine, Keys::Skewed, sets),
                ]
            }
        }
    }
}

impl Row {
    /// Prints each setting against the best fixed one.
    pub(super) fn print(&self, runs: &Runs<'_>, records: &[Record]) -> anyhow::Result<()> {
        let records: Vec<&Record> = self.figures.iter().filter_map(|figure| find(records, &figure.name)).collect();
        let Some((adaptive, fixed)) = records.split_last() else { return Ok(()) };
        let Some(best) = fixed.iter().max_by(|a, b| a.value.total_cmp(&b.value)) else { return Ok(()) };
        let combined = if self.combines { "    combined" } else { "" };
        let width = records.iter().map(|record| record.case.len()).fold(self.label.len(), usize::max);
        say!("{:<width$} {:>5} {:>9} {:>8}  over the best fixed{combined}", self.label, "unit", "treepie", "spread");
        for record in &records {
            let MessageCounters { sent, hits: combined, .. } = runs.counters(&record.case)?;
            let combined = format!("{:>9.1} %", 100.0 * combined as f64 / sent.max(1) as f64);
            let combined = if self.combines { &combined } else { "" };
            let (value, spread) = (format_number(record.value), format_spread(record));
            let ratio = runs.speedup(&record.case, &best.case)?;
            say!("{:<width$} {:>5} {value:>9} {spread:>8} {ratio} {combined}", record.case, record.unit);
        }
        say!(
            "adaptive over the best fixed setting, {}: {}",
            best.case,
            runs.speedup(&adaptive.case, &best.case)?.in_words()
        );
        if let Some(off) = fixed.iter().find(|record| record.case.contains("/off")) {
            say!("adaptive over none, {}: {}", off.case, runs.speedup(&adaptive.case, &off.case)?.in_words());
        }
        say!("");
        Ok(())
    }
}

fn find<'a>(records: &'a [Record], name: &str) -> Option<&'a Record> {
    records.iter().find(|record| record.case == name)
}

#[cfg(test)]
mod tests {
    use super::super::rank::{AmCase, AmPrograms};
    use super::*;
    use crate::harness::testing::assert_round_trip;

    fn rows(sweep: Sweep, config: &str, work: u32) -> Vec<Row> {
        sweep.rows(Scale::new(2, 1 << 22, None, work), &config.parse().unwrap(), work)
    }

    #[test]
    fn all_sizes_and_adaptive_are_measured() {
        let coalescing = rows(Sweep::Coalescing, "", 0);
        let [Row { figures, .. }] = &coalescing[..] else { panic!("one row") };
        assert_eq!(figures.len(), 14);
        assert_eq!(
            (figures[0].name.as_str(), figures[12].name.as_str()),
            ("am/sweep/coalescing/16", "am/sweep/coalescing/65536")
        );
        assert_eq!(figures[13].name, "am/sweep/coalescing/adaptive");
        let reductions = rows(Sweep::Reductions, "routing=rook", 200);
        let names: Vec<&str> =
            reductions.iter().flat_map(|row| row.figures.iter().map(|figure| figure.name.as_str())).collect();
        assert_eq!(names.len(), 16);
        assert_eq!(names[0], "am/sweep/reductions/uniform/off/routing=rook/work=200");
        assert_eq!(names[15], "am/sweep/reductions/skewed/adaptive/routing=rook/work=200");
    }

    #[test]
    fn cases_agree_with_names() {
        let reductions = rows(Sweep::Reductions, "routing=rook", 200);
        let case: AmCase = reductions[1].figures[3].case.parse().unwrap();
        assert_eq!(case.program.keys, Keys::Skewed);
        assert_eq!((case.program.work, case.program.handler), (200, HandlerKind::Combine));
        assert_eq!(case.program.config, "routing=rook,reductions=1024".parse().unwrap());
        assert_round_trip::<AmPrograms>(reductions.into_iter().flat_map(|row| row.figures).map(|figure| figure.case));
    }
}
