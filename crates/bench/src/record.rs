//! Benchmark results as JSON lines, for plots and later comparisons. Fields may be added, never renamed.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use treepie_base::AtomicFile;

use crate::harness::statistics::{PairedRatio, interquartile_range, median};
use crate::{Summary, machine};

/// One measured figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The case, as a path: `p2p/latency/8`.
    pub case: String,
    /// The engine: `shm`, `threads`, `mpi`.
    pub engine: String,
    /// Number of ranks.
    pub ranks: u32,
    /// The figure, in `unit`.
    pub value: f64,
    /// Unit of `value`.
    pub unit: String,
    /// Whether lower or higher is better.
    pub better: Better,
    /// How `value` was computed from the samples.
    pub statistic: String,
    /// Interquartile range of the samples, in `unit`.
    pub spread: f64,
    /// Number of independent runs.
    pub samples: usize,
    /// The machine that was measured.
    pub machine: String,
    /// Version of Treepie.
    pub version: String,
    /// The baseline, if there is one.
    #[serde(flatten)]
    pub against: Option<PeerResult>,
}

impl Record {
    /// The median of what was measured on this machine.
    pub fn measured(case: String, engine: &str, ranks: u32, samples: &[f64], (unit, better): (&str, Better)) -> Self {
        Self {
            case,
            engine: engine.to_owned(),
            ranks,
            value: median(samples),
            unit: unit.to_owned(),
            better,
            statistic: "median".to_owned(),
            spread: interquartile_range(samples),
            samples: samples.len(),
            machine: machine::describe(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            against: None,
        }
    }

    /// A figure of which less is better, simulated with the parameters of a machine.
    pub fn simulated(case: String, ranks: u32, value: f64, unit: &str, machine: String) -> Self {
        Self {
            case,
            engine: "sim".to_owned(),
            ranks,
            value,
            unit: unit.to_owned(),
            better: Better::Low,
            statistic: "simulated".to_owned(),
            spread: 0.0,
            samples: 1,
            machine,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            against: None,
        }
    }
}

/// The baseline's figure of the same case, measured in the same run, alternating.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeerResult {
    /// Name and version of the baseline, or that it is another build.
    pub peer: String,
    /// Its figure, by the same statistic.
    pub peer_value: f64,
    /// Median of the ratios of the pairs; over 1 means that Treepie is better.
    pub ratio: f64,
    /// Confidence interval of that median (at least 95 %), if there were enough pairs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ratio_low: Option<f64>,
    /// Its upper end.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ratio_high: Option<f64>,
}

impl PeerResult {
    /// From pairs of samples. An interval of fewer than `min_pairs` pairs is not stated.
    pub(crate) fn new(peer: &str, ours: &[f64], theirs: &[f64], better: Better, min_pairs: usize) -> Self {
        let PairedRatio { median: ratio, interval } = match better {
            Better::Low => PairedRatio::new(theirs, ours),
            Better::High => PairedRatio::new(ours, theirs),
        };
        let (ratio_low, ratio_high) = interval.filter(|_| ours.len() >= min_pairs).unzip();
        Self { peer: peer.to_owned(), peer_value: median(theirs), ratio, ratio_low, ratio_high }
    }

    /// The confidence interval of the ratio.
    pub(crate) fn interval(&self) -> Option<(f64, f64)> {
        self.ratio_low.zip(self.ratio_high)
    }
}

/// Whether lower or higher is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Lower is better.
    Low,
    /// Higher is better.
    High,
}

/// The output file, if there is one. It is opened first, so that an unwritable path is an error before anything is
/// measured. The first record replaces an existing file, which stays if there is none. Later records are appended
/// immediately, in whole lines, so an interrupted run of hours loses nothing.
pub struct Records {
    file: RecordFile,
    path: PathBuf,
}

enum RecordFile {
    /// Records are not written.
    None,
    /// There is no record yet.
    Empty(AtomicFile),
    Open(File),
    /// The first record could not be written.
    Failed,
}

impl Records {
    /// Opens the file.
    pub fn create(path: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = path else { return Ok(Self { file: RecordFile::None, path: PathBuf::new() }) };
        Summary::leave_standard_output_to(Some(path));
        let file = AtomicFile::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { file: RecordFile::Empty(file), path: path.to_owned() })
    }

    /// Writes one line.
    pub fn write(&mut self, line: &impl Serialize) -> anyhow::Result<()> {
        if matches!(self.file, RecordFile::None) {
            return Ok(());
        }
        let line = serde_json::to_string(line).context("cannot write a record as JSON")? + "\n";
        self.file = match std::mem::replace(&mut self.file, RecordFile::Failed) {
            RecordFile::Empty(mut file) => file.write_all(line.as_bytes()).and_then(|()| file.commit()),
            RecordFile::Open(mut file) => file.write_all(line.as_bytes()).map(|()| file),
            RecordFile::None | RecordFile::Failed => Err(io::Error::other("an earlier record could not be written")),
        }
        .map(RecordFile::Open)
        .with_context(|| format!("cannot write {}", self.path.display()))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn record(against: Option<PeerResult>) -> Record {
        Record {
            case: "p2p/latency/8".into(),
            engine: "shm".into(),
            ranks: 2,
            value: 0.25,
            unit: "us".into(),
            better: Better::Low,
            statistic: "median".into(),
            spread: 0.01,
            samples: 9,
            machine: "a machine".into(),
            version: "0.1.0".into(),
            against,
        }
    }

    #[test]
    fn the_names_of_fields_stay() {
        let against = PeerResult {
            peer: "Open MPI 4.1.4".into(),
            peer_value: 0.5,
            ratio: 2.0,
            ratio_low: Some(1.5),
            ratio_high: Some(2.5),
        };
        let line = serde_json::to_string(&record(Some(against))).unwrap();
        assert_eq!(
            line,
            r#"{"case":"p2p/latency/8","engine":"shm","ranks":2,"value":0.25,"unit":"us","better":"low","#.to_owned()
                + r#""statistic":"median","spread":0.01,"samples":9,"machine":"a machine","version":"0.1.0","#
                + r#""peer":"Open MPI 4.1.4","peer_value":0.5,"ratio":2.0,"ratio_low":1.5,"ratio_high":2.5}"#
        );
    }

    #[test]
    fn a_record_without_peer_is_read_back() {
        let line = serde_json::to_string(&record(None)).unwrap();
        assert!(!line.contains("peer"));
        assert_eq!(serde_json::from_str::<Record>(&line).unwrap(), record(None));
    }

    #[test]
    fn an_existing_file_stays_until_the_first_record() {
        let path = std::env::temp_dir().join(format!("treepie-records-{}", std::process::id()));
        let records = Records::create(Some(&path)).unwrap();
        assert!(!path.exists(), "a file without records would be taken for a result");
        drop(records);
        assert!(!path.exists());
        fs::write(&path, "before, and longer than a record of one number\n").unwrap();
        let mut records = Records::create(Some(&path)).unwrap();
        assert!(fs::read_to_string(&path).unwrap().starts_with("before"));
        records.write(&1).unwrap();
        records.write(&2).unwrap();
        // Lines are on disk before the file is closed.
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n2\n");
        drop(records);
        assert!(path.exists());
        fs::remove_file(&path).unwrap();
    }
}
