//! The result of an algorithm, and its output.

use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};
use treepie::Comm;
use treepie::graph::{AmTraffic, Column, OutputFormat, Values, write};

use super::input::GraphFacts;
use super::teps::{harmonic_mean, quantile};
use treepie_bench::record::Record;

/// One run of an algorithm.
#[derive(Clone, Debug)]
pub(super) struct KernelRun {
    /// The external id of the root, if the algorithm has one.
    pub(super) root: Option<u64>,
    pub(super) seconds: f64,
    /// Traversed edges, for TEPS.
    pub(super) edges: u64,
    pub(super) result: Value,
}

/// Bytes of a vertex's result: a parent and a level, a distance, a label or a score.
const RESULT_BYTES: u64 = 8;

/// The result.
pub(super) struct Answer {
    pub(super) kernel: &'static str,
    pub(super) method: String,
    pub(super) ranks: usize,
    pub(super) facts: GraphFacts,
    pub(super) runs: Vec<KernelRun>,
    /// Seconds of each verification; empty if not requested.
    pub(super) verified: Vec<f64>,
    pub(super) traffic: AmTraffic,
    /// Peak bytes of a rank while it ran, graph and results included; 0 if unknown.
    pub(super) peak_bytes: u64,
    /// External ids and results of the local vertices.
    pub(super) vertex_ids: Vec<u64>,
    pub(super) columns: Vec<Column>,
    /// What the result is not.
    pub(super) notes: Vec<String>,
    /// Why the command fails although it has a result.
    pub(super) failure: Option<String>,
}

#[derive(Serialize)]
struct FullRecord {
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
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

impl Answer {
    fn rates(&self) -> Vec<f64> {
        self.runs.iter().filter(|run| run.edges > 0).map(|run| run.edges as f64 / run.seconds).collect()
    }

    pub(super) fn record(&self, memory: u64, record: Record) -> impl Serialize {
        let rates = self.rates();
        let teps = (!rates.is_empty()).then(|| {
            let quartiles = [0.0, 0.25, 0.5, 0.75, 1.0].map(|part| quantile(&rates, part));
            json!({"harmonic_mean": harmonic_mean(&rates).0, "quartiles": quartiles})
        });
        let with_root = self.runs.iter().filter(|run| run.root.is_some());
        let root = |run: &KernelRun| json!({"root": run.root, "seconds": run.seconds, "edges": run.edges, "result": run.result});
        let facts = &self.facts;
        FullRecord {
            result: self.runs.first().map_or(Value::Null, |run| run.result.clone()),
            graph: json!({
                "source": facts.source, "vertices": facts.vertices, "arcs": facts.arcs, "build_seconds": facts.build_seconds,
                "rows_bytes": facts.csr_bytes, "besides_bytes": facts.ghost_bytes, "running_bytes": self.peak_bytes,
                "result_bytes": RESULT_BYTES * facts.max_vertices,
                "hubs": facts.split.map_or(0, |(_, hubs)| hubs),
            }),
            method: self.method.clone(),
            teps,
            roots: with_root.map(root).collect(),
            peak_memory: memory,
            messages: self.traffic.messages,
            verified: !self.verified.is_empty(),
            notes: self.notes.iter().chain(&self.failure).cloned().collect(),
            record,
        }
    }

    /// Prints it, human-readable.
    pub(super) fn print(&self, memory: u64) {
        let facts = &self.facts;
        let arcs = if facts.symmetric { "arcs, both directions of each edge" } else { "arcs" };
        say!("graph    {}", facts.source);
        say!("         {} vertices, {} {arcs}, built in {:.3} s", facts.vertices, facts.arcs, facts.build_seconds);
        if let Some((file, seconds)) = &facts.saved {
            say!("saved    to {file} in {seconds:.3} s");
        }
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let (csr, overhead) = (megabytes(facts.csr_bytes), megabytes(facts.ghost_bytes));
        say!(
            "memory   {csr:.2} MB CSR, {overhead:.2} MB overhead, {:.1} MB process peak (maximum over ranks)",
            megabytes(memory)
        );
        if self.peak_bytes > 0 {
            let ratio = self.peak_bytes as f64 / (facts.csr_bytes + RESULT_BYTES * facts.max_vertices).max(1) as f64;
            say!("         {:.1} MB peak while running, {ratio:.2} times CSR and results", megabytes(self.peak_bytes));
        }
        if let Some((degree, hubs)) = facts.split {
            say!("split    {hubs} vertices of degree {degree} or more");
        }
        let by = if self.method.is_empty() { String::new() } else { format!(" by {}", self.method) };
        say!("{:<8} on {} rank{}{by}", self.kernel, self.ranks, if self.ranks == 1 { "" } else { "s" });
        const SHOWN: usize = 16;
        for run in self.runs.iter().take(SHOWN) {
            let root = run.root.map_or_else(String::new, |root| format!("from {root}: "));
            say!("         {root}{:.3} ms, {}", 1e3 * run.seconds, describe_result(&run.result));
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
            let mean = harmonic_mean(&rates).0 / 1e6;
            say!("rate     {mean:.1} million TEPS (harmonic mean; quartiles {low:.1}, {middle:.1}, {high:.1})");
        }
        let AmTraffic { messages, combined, buffers, bytes, .. } = self.traffic;
        let combined = if combined > 0 { format!(", {combined} combined") } else { String::new() };
        say!("messages {messages}{combined}; {buffers} buffers, {:.1} MB to other ranks", megabytes(bytes));
        self.notes.iter().for_each(|note| say!("note     {note}"));
        if !self.verified.is_empty() {
            say!("verified {} result{}", self.verified.len(), if self.verified.len() == 1 { "" } else { "s" });
        }
    }

    /// Gathers the results of all vertices on rank 0, which writes the file. Collective.
    pub(super) fn write(&self, world: &Comm, file: &Path, format: OutputFormat) -> anyhow::Result<()> {
        let gather = |words: &[u64]| -> treepie::Result<Vec<u64>> {
            let counts: Vec<usize> = world.allgather(&[words.len()])?;
            let mut all = vec![0; if world.rank() == 0 { counts.iter().sum() } else { 0 }];
            world.gatherv(words, &counts, &mut all, 0)?;
            Ok(all)
        };
        let ids = gather(&self.vertex_ids)?;
        let gather_values = |values: &Values| -> treepie::Result<Values> {
            Ok(match values {
                Values::U32(values) => {
                    Values::U32(to_u32(gather(&values.iter().map(|v| u64::from(*v)).collect::<Vec<_>>())?))
                }
                Values::U64(values) => Values::U64(gather(values)?),
                Values::I64(values) => {
                    let all = gather(&values.iter().map(|v| *v as u64).collect::<Vec<_>>())?;
                    Values::I64(all.into_iter().map(|v| v as i64).collect())
                }
                Values::F32(values) => {
                    let all = gather(&values.iter().map(|v| v.to_bits().into()).collect::<Vec<_>>())?;
                    Values::F32(to_u32(all).into_iter().map(f32::from_bits).collect())
                }
                Values::F64(values) => {
                    let all = gather(&values.iter().map(|v| v.to_bits()).collect::<Vec<_>>())?;
                    Values::F64(all.into_iter().map(f64::from_bits).collect())
                }
            })
        };
        let column = |column: &Column| -> treepie::Result<Column> {
            Ok(Column { name: column.name.clone(), values: gather_values(&column.values)? })
        };
        let columns = self.columns.iter().map(column).collect::<treepie::Result<Vec<_>>>()?;
        if world.rank() == 0 {
            write(file, format, &ids, &columns)?;
        }
        Ok(())
    }
}

fn to_u32(values: Vec<u64>) -> Vec<u32> {
    values.into_iter().map(|value| value as u32).collect()
}

/// Items of a list that are printed.
const MAX_ITEMS_SHOWN: usize = 24;

/// A result as text.
fn describe_result(result: &Value) -> String {
    let Value::Object(fields) = result else { return result.to_string() };
    let field = |(name, value): (&String, &Value)| format!("{} {}", name.replace('_', " "), abbreviate(value));
    fields.iter().map(field).collect::<Vec<_>>().join(", ")
}

fn abbreviate(value: &Value) -> String {
    match value {
        Value::Array(items) if items.len() > MAX_ITEMS_SHOWN => {
            let shown: Vec<String> = items[..MAX_ITEMS_SHOWN].iter().map(abbreviate).collect();
            format!("{} and {} more", shown.join(" "), items.len() - MAX_ITEMS_SHOWN)
        }
        Value::Array(items) => items.iter().map(abbreviate).collect::<Vec<_>>().join(" "),
        Value::Number(number) if number.is_f64() => format!("{:.6}", number.as_f64().unwrap_or_default()),
        Value::Object(fields) => fields.values().map(abbreviate).collect::<Vec<_>>().join(":"),
        other => other.to_string(),
    }
}
