//! What was found, and how it is told.

use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};
use treepie::Comm;
use treepie::graph::{Column, OutputFormat, Traffic, Values, write};

use super::super::record::Record;
use super::input::Facts;
use super::teps::{harmonic, quantile};

/// One run of an algorithm.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// Where it began, by name, if it begins somewhere.
    pub(super) root: Option<u64>,
    pub(super) seconds: f64,
    /// Edges that count for a rate.
    pub(super) edges: u64,
    pub(super) result: Value,
}

/// Bytes of the result for a vertex: a parent and a level, a length, a label or a score.
const RESULT: u64 = 8;

/// What was found.
pub(super) struct Answer {
    pub(super) kernel: &'static str,
    pub(super) method: String,
    pub(super) ranks: usize,
    pub(super) facts: Facts,
    pub(super) runs: Vec<Run>,
    /// Seconds that checking each result took; nothing if that was not asked for.
    pub(super) verified: Vec<f64>,
    pub(super) traffic: Traffic,
    /// Bytes of graph, results and everything else that a rank had while it ran, at most; 0 if that is not known.
    pub(super) during: u64,
    /// Of the last run, for own vertices.
    pub(super) names: Vec<u64>,
    pub(super) column: Column,
}

#[derive(Serialize)]
struct Full {
    #[serde(flatten)]
    record: Record,
    result: Value,
    graph: Value,
    method: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    teps: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    roots: Vec<Value>,
    peak_memory: u64,
    messages: u64,
    verified: bool,
}

impl Answer {
    fn rates(&self) -> Vec<f64> {
        self.runs.iter().filter(|run| run.edges > 0).map(|run| run.edges as f64 / run.seconds).collect()
    }

    pub(super) fn record(&self, memory: u64, record: Record) -> impl Serialize {
        let rates = self.rates();
        let teps = (!rates.is_empty()).then(|| {
            let quartiles = [0.0, 0.25, 0.5, 0.75, 1.0].map(|part| quantile(&rates, part));
            json!({"harmonic_mean": harmonic(&rates).0, "quartiles": quartiles})
        });
        let with_root = self.runs.iter().filter(|run| run.root.is_some());
        let root =
            |run: &Run| json!({"root": run.root, "seconds": run.seconds, "edges": run.edges, "result": run.result});
        let facts = &self.facts;
        Full {
            result: self.runs.first().map_or(Value::Null, |run| run.result.clone()),
            graph: json!({
                "source": facts.source, "vertices": facts.vertices, "arcs": facts.arcs, "build_seconds": facts.build,
                "rows_bytes": facts.rows, "besides_bytes": facts.besides, "running_bytes": self.during,
                "result_bytes": RESULT * facts.most_vertices,
                "hubs": facts.split.map_or(0, |(_, hubs)| hubs),
            }),
            method: self.method.clone(),
            teps,
            roots: with_root.map(root).collect(),
            peak_memory: memory,
            messages: self.traffic.messages,
            verified: !self.verified.is_empty(),
            record,
        }
    }

    /// Tells it to people.
    pub(super) fn print(&self, memory: u64) {
        let facts = &self.facts;
        let arcs = if facts.symmetric { "arcs, both directions of each edge" } else { "arcs" };
        say!("graph    {}", facts.source);
        say!("         {} vertices, {} {arcs}, built in {:.3} s", facts.vertices, facts.arcs, facts.build);
        if let Some((file, seconds)) = &facts.saved {
            say!("saved    to {file} in {seconds:.3} s");
        }
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let (rows, besides) = (megabytes(facts.rows), megabytes(facts.besides));
        say!(
            "memory   {rows:.2} MB of rows and {besides:.2} MB besides, {:.1} MB in all, on the rank with the most",
            megabytes(memory)
        );
        if self.during > 0 {
            let times = self.during as f64 / (facts.rows + RESULT * facts.most_vertices).max(1) as f64;
            say!("         {:.1} MB while it ran, {times:.2} times rows and results", megabytes(self.during));
        }
        if let Some((degree, hubs)) = facts.split {
            say!("split    {hubs} vertices, with {degree} arcs or more");
        }
        let by = if self.method.is_empty() { String::new() } else { format!(" by {}", self.method) };
        say!("{:<8} on {} rank{}{by}", self.kernel, self.ranks, if self.ranks == 1 { "" } else { "s" });
        const SHOWN: usize = 16;
        for run in self.runs.iter().take(SHOWN) {
            let root = run.root.map_or_else(String::new, |root| format!("from {root}: "));
            say!("         {root}{:.3} ms, {}", 1e3 * run.seconds, words(&run.result));
        }
        if self.runs.len() > SHOWN {
            say!("         and {} more", self.runs.len() - SHOWN);
        }
        let milliseconds: Vec<f64> = self.runs.iter().map(|run| 1e3 * run.seconds).collect();
        if self.runs.len() > 1 {
            let [low, middle, high] = [0.25, 0.5, 0.75].map(|part| quantile(&milliseconds, part));
            say!("time     {middle:.3} ms (median; quartiles {low:.3} and {high:.3})");
        }
        let rates = self.rates();
        if !rates.is_empty() {
            let [low, middle, high] = [0.25, 0.5, 0.75].map(|part| quantile(&rates, part) / 1e6);
            let mean = harmonic(&rates).0 / 1e6;
            say!(
                "rate     {mean:.1} million edges a second (harmonic mean; quartiles {low:.1}, {middle:.1}, {high:.1})"
            );
        }
        let Traffic { messages, combined, buffers, bytes, .. } = self.traffic;
        let combined = if combined > 0 { format!(", {combined} combined") } else { String::new() };
        say!("messages {messages}{combined}; {buffers} buffers, {:.1} MB to other ranks", megabytes(bytes));
        if !self.verified.is_empty() {
            say!("verified {} result{}", self.verified.len(), if self.verified.len() == 1 { "" } else { "s" });
        }
    }

    /// Writes one result for each vertex: all ranks send theirs to the first, which writes. All ranks call it.
    pub(super) fn write(&self, world: &Comm, file: &Path) -> anyhow::Result<()> {
        let gather = |words: &[u64]| -> treepie::Result<Vec<u64>> {
            let counts: Vec<usize> = world.all_gather(&[words.len()])?;
            let mut all = vec![0; if world.rank() == 0 { counts.iter().sum() } else { 0 }];
            world.gatherv(words, &counts, &mut all, 0)?;
            Ok(all)
        };
        let names = gather(&self.names)?;
        let column = &self.column;
        let values = match &column.values {
            Values::U32(values) => {
                Values::U32(narrow(gather(&values.iter().map(|v| u64::from(*v)).collect::<Vec<_>>())?))
            }
            Values::U64(values) => Values::U64(gather(values)?),
            Values::I64(values) => {
                let all = gather(&values.iter().map(|v| *v as u64).collect::<Vec<_>>())?;
                Values::I64(all.into_iter().map(|v| v as i64).collect())
            }
            Values::F32(values) => {
                let all: Vec<u32> = narrow(gather(&values.iter().map(|v| v.to_bits().into()).collect::<Vec<_>>())?);
                Values::F32(all.into_iter().map(f32::from_bits).collect())
            }
            Values::F64(values) => {
                let all = gather(&values.iter().map(|v| v.to_bits()).collect::<Vec<_>>())?;
                Values::F64(all.into_iter().map(f64::from_bits).collect())
            }
        };
        if world.rank() == 0 {
            let column = Column { name: column.name.clone(), values };
            write(file, OutputFormat::guess(file)?, &names, &[column])?;
        }
        Ok(())
    }
}

fn narrow(values: Vec<u64>) -> Vec<u32> {
    values.into_iter().map(|value| value as u32).collect()
}

/// Items of a list for people.
const MOST_SHOWN: usize = 24;

/// A result in words.
fn words(result: &Value) -> String {
    let Value::Object(fields) = result else { return result.to_string() };
    let field = |(name, value): (&String, &Value)| format!("{} {}", name.replace('_', " "), brief(value));
    fields.iter().map(field).collect::<Vec<_>>().join(", ")
}

fn brief(value: &Value) -> String {
    match value {
        Value::Array(items) if items.len() > MOST_SHOWN => {
            let shown: Vec<String> = items[..MOST_SHOWN].iter().map(brief).collect();
            format!("{} and {} more", shown.join(" "), items.len() - MOST_SHOWN)
        }
        Value::Array(items) => items.iter().map(brief).collect::<Vec<_>>().join(" "),
        Value::Number(number) if number.is_f64() => format!("{:.6}", number.as_f64().unwrap_or_default()),
        Value::Object(fields) => fields.values().map(brief).collect::<Vec<_>>().join(":"),
        other => other.to_string(),
    }
}
