//! T1 and TC of this machine, fitted to measured rates of the hypercube, and what the model predicts with them.

use anyhow::{Context, ensure};
use treepie::randomaccess::{Algorithm, Order};
use treepie_model::randomaccess::RandomAccess as Model;

use super::RandomAccessBench;
use super::task::{Program, TaskKind};
use crate::harness::comparison::Comparison;
use crate::harness::table::format_number;
use crate::record::{Better, Record, Records};
use crate::{ComparisonOptions, machine};

/// Numbers of ranks for which the paper has predictions or measurements.
const PREDICTED: [u32; 6] = [200, 300, 1024, 10_240, 1 << 16, 1 << 17];

/// Measures on each number of ranks, with a table of 2^log2 words for each rank, and prints the fit.
pub(super) fn print(bench: &RandomAccessBench, log2: u32, look_ahead: usize) -> anyhow::Result<()> {
    ensure!(bench.fit.iter().any(|ranks| *ranks != bench.fit[0]), "--fit needs two different numbers of ranks");
    for ranks in &bench.fit {
        ensure!(ranks.is_power_of_two(), "--fit: the number of ranks must be a power of two, not {ranks}");
        super::ensure_memory(log2 + ranks.ilog2(), 2)?;
    }
    let mut records = Records::create(bench.comparison.json.as_deref())?;
    say!("RandomAccess by hypercube on {}; of each rank 2^{log2} words, look-ahead {look_ahead}", machine::describe());
    if bench.fit.iter().any(|ranks| *ranks as usize > machine::cores()) {
        say!("  Ranks that share cores take longer than the model's.");
    }
    let program = Program { algorithm: Algorithm::Hypercube(Order::Ranks), ..Program::default() };
    let mut measured = Vec::new();
    for &ranks in &bench.fit {
        let options = ComparisonOptions { json: None, ..bench.comparison.clone() };
        let figure = bench.figure((ranks, log2 + ranks.ilog2()), TaskKind::Update, look_ahead, &program);
        let result = Comparison::new(ranks, &options, &["randomaccess-rank"], None)?.measure(&[figure])?;
        for record in &result.records {
            // Million updates per second.
            measured.push((ranks, 1e-3 * record.value));
            records.write(record)?;
        }
    }
    report(log2, look_ahead, &measured, &mut records)
}

/// Fits the model to measured rates, and prints and writes it with its predictions.
fn report(log2: u32, look_ahead: usize, measured: &[(u32, f64)], records: &mut Records) -> anyhow::Result<()> {
    let fitted = Model::fit(look_ahead as u32, measured);
    let model = fitted.context("T1 + TC lg P does not fit: a rank is faster among more ranks, or far slower")?;
    let [compute, exchange] = [model.compute, model.exchange].map(format_number);
    say!("  T1 = {compute} us and TC = {exchange} us fit best.");
    say!("");
    say!("{:>8} {:>10} {:>10}  GUP/s", "ranks", "measured", "T1+TC lgP");
    let mut write = |of: &str, ranks: u32, value: f64, unit: &str, better| {
        let record =
            Record::simulated(format!("randomaccess/fit/{of}/2^{log2}"), ranks, value, unit, machine::describe());
        let (engine, statistic) = ("model".to_owned(), "predicted".to_owned());
        records.write(&Record { better, engine, statistic, ..record })
    };
    write("T1", 1, model.compute, "us", Better::Low)?;
    write("TC", 2, model.exchange, "us", Better::Low)?;
    for (ranks, rate) in measured {
        say!("{ranks:>8} {:>10} {:>10}", format_number(*rate), format_number(model.gups(*ranks)));
    }
    for ranks in PREDICTED {
        let gups = model.halving_gups(ranks, 0.0);
        let odd = if ranks.is_power_of_two() { "" } else { "  without what messages of odd partitions add" };
        say!("{ranks:>8} {:>10} {:>10}{odd}", "", format_number(gups));
        write("rate", ranks, gups, "GUP/s", Better::High)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::peer::TempDir;

    /// The rates that the paper measured.
    #[test]
    fn measured_rates_have_a_fit_and_predictions() {
        let measured = [(1, 0.0180), (4, 0.0377), (16, 0.0930), (64, 0.273), (256, 0.858), (1024, 2.81), (4096, 9.25)];
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("records");
        let mut records = Records::create(Some(&file)).unwrap();
        report(20, 1024, &measured, &mut records).unwrap();
        drop(records);
        let text = std::fs::read_to_string(&file).unwrap();
        let value = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["value"].as_f64().unwrap();
        let values: Vec<f64> = text.lines().map(value).collect();
        let [compute, exchange, ref predicted @ ..] = values[..] else { panic!("{text}") };
        assert!((compute - 56.9).abs() < 4.0 && (exchange - 33.0).abs() < 3.0, "{values:?}");
        assert!(predicted.len() == PREDICTED.len() && predicted.is_sorted(), "{values:?}");
        // A rank that is faster among more ranks.
        assert!(report(20, 1024, &[(1, 0.01), (2, 0.03)], &mut Records::create(None).unwrap()).is_err());
    }
}
