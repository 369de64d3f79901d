//! Costs of a hop and of a cache lookup: differences of programs with and without.

use super::figures::{Cost, CostUnit, Scale};
use super::runs::Runs;
use crate::harness::statistics::{median, median_interval};
use crate::harness::table::{NAME_WIDTH, format_number};
use crate::machine::cores;
use crate::record::{Better, Record};

/// Computes and prints the costs, and returns their records.
pub(super) fn print(scale: Scale, costs: &[Cost], runs: &Runs<'_>, records: &[Record]) -> anyhow::Result<Vec<Record>> {
    let mut made = Vec::new();
    for cost in costs {
        let (base, variant) = (
            scale.update_figure("am/update", cost.base.clone()).name,
            scale.update_figure("am/update", cost.variant.clone()).name,
        );
        let what = match cost.unit {
            CostUnit::Hop => "per forwarded message",
            CostUnit::Lookup => "per cache lookup",
        };
        let Some(nanos) = nanos(scale.ranks, cost.unit, runs, &base, &variant)? else {
            say!("{:<NAME_WIDTH$} no message of {variant} needed it", cost.name);
            continue;
        };
        let interval =
            median_interval(&nanos).map_or("too few runs".to_owned(), |(low, high)| format!("{low:.1} to {high:.1}"));
        let value = median(&nanos);
        say!(
            "{:<NAME_WIDTH$} {:>5} {:>9}  {interval:<14}  {what}: {variant} minus {base}",
            cost.name,
            "ns",
            format_number(value)
        );
        let like = records.iter().find(|record| record.case == base);
        made.extend(
            like.map(|like| {
                Record::measured(cost.name.to_owned(), &like.engine, like.ranks, &nanos, ("ns", Better::Low))
            }),
        );
    }
    Ok(made)
}

/// Core nanoseconds per event in each run, or `None` if there was no event.
fn nanos(ranks: u32, unit: CostUnit, runs: &Runs<'_>, base: &str, variant: &str) -> anyhow::Result<Option<Vec<f64>>> {
    let counters = runs.counters(variant)?;
    let events = match unit {
        CostUnit::Hop => counters.forwarded,
        CostUnit::Lookup => counters.lookups,
    };
    if events == 0 || counters.sent == 0 {
        return Ok(None);
    }
    // CPU time is the elapsed time of all busy cores.
    let busy_cores = (ranks as usize).min(cores()) as f64;
    let fraction = events as f64 / counters.sent as f64;
    let (base, variant) = (runs.micros(base)?, runs.micros(variant)?);
    Ok(Some(base.iter().zip(&variant).map(|(base, variant)| (variant - base) * 1e3 * busy_cores / fraction).collect()))
}

#[cfg(test)]
mod tests {
    use super::super::runs::tests::output;
    use super::*;

    #[test]
    fn costs_are_per_event() {
        let scale = Scale::new(4, 8, None, 0);
        let config = Default::default();
        let figures = scale.figures(&config);
        let outputs: Vec<String> = (0..7).map(|_| output(&figures, |index| 0.01 * (index + 1) as f64)).collect();
        let runs = Runs::parse(&figures, &outputs).unwrap();
        let index = |name: &str| figures.iter().position(|figure| figure.name == name).unwrap();
        let (base, variant) = ("am/update/touch", "am/update/touch/routing=rook");
        let found = nanos(4, CostUnit::Hop, &runs, base, variant).unwrap().unwrap();
        // A quarter of the messages are forwarded.
        let right = 10.0 * (index(variant) - index(base)) as f64 * 4.0 * cores().min(4) as f64;
        assert!(found.len() == 7 && found.iter().all(|nanos| (nanos - right).abs() < 1e-6), "{found:?} {right}");
        assert_eq!(nanos(4, CostUnit::Hop, &runs, variant, &figures[0].name).unwrap(), None);
        let costs = scale.costs(&config);
        assert!(print(scale, &costs, &runs, &[]).unwrap().is_empty());
    }
}
