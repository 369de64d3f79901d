//! T1 and TC of this machine, fitted to measured rates of the hypercube, and what the model predicts with them.

use anyhow::ensure;
use treepie::randomaccess::{Algorithm, Order};
use treepie_model::randomaccess::RandomAccess as Model;

use super::RandomAccessBench;
use super::task::{Program, TaskKind};
use crate::harness::comparison::Comparison;
use crate::harness::table::{format_number, print_header, print_record};
use crate::record::{Better, Record, Records};
use crate::{ComparisonOptions, machine};

/// Numbers of ranks for which the paper's section 3 has predictions or measurements.
const PREDICTED: [u32; 6] = [200, 300, 1024, 10_240, 1 << 16, 1 << 17];

/// Measures on each number of ranks, with a table of 2^log2 words for each rank, and prints the fit.
pub(super) fn print(bench: &RandomAccessBench, log2: u32, look_ahead: usize) -> anyhow::Result<()> {
    ensure!(bench.fit.len() >= 2, "--fit needs at least two numbers of ranks");
    for ranks in &bench.fit {
        ensure!(ranks.is_power_of_two(), "--fit: the number of ranks must be a power of two, not {ranks}");
    }
    let program = Program { algorithm: Algorithm::Hypercube(Order::Ranks), ..bench.algorithms[0].clone() };
    let mut records = Records::create(bench.comparison.json.as_deref())?;
    say!("RandomAccess by hypercube, 2^{log2} words and a look-ahead of {look_ahead} of each rank");
    print_header(None);
    let mut rates = Vec::new();
    for &ranks in &bench.fit {
        let options = ComparisonOptions { json: None, ..bench.comparison.clone() };
        let figure = bench.figure((ranks, log2 + ranks.ilog2()), TaskKind::Update, look_ahead, &program);
        let result = Comparison::new(ranks, &options, &["randomaccess-rank"], None)?.measure(&[figure])?;
        result.records.iter().try_for_each(|record| {
            print_record(record);
            rates.push((ranks, 1e-3 * record.value));
            records.write(record)
        })?;
    }
    let model = Model::fit(look_ahead as u32, &rates)?;
    say!(
        "\nT1 + TC lg P fits best with T1 = {} us and TC = {} us:",
        format_number(model.compute),
        format_number(model.exchange)
    );
    say!("{:>8} {:>10} {:>10}", "ranks", "GUP/s", "measured");
    for (ranks, measured) in &rates {
        say!("{ranks:>8} {:>10} {:>10}", format_number(model.gups(*ranks)), format_number(*measured));
    }
    for ranks in PREDICTED {
        // What the messages of odd partitions add is not known.
        let gups = model.halving_gups(ranks, 0.0);
        say!("{ranks:>8} {:>10}", format_number(gups));
        let record = Record::simulated("randomaccess/fit".to_owned(), ranks, gups, "GUP/s", machine::describe());
        let (engine, statistic) = ("model".to_owned(), "predicted".to_owned());
        records.write(&Record { better: Better::High, engine, statistic, ..record })?;
    }
    Ok(())
}
