//! Results as JSON lines, for plots and later comparisons. Fields may be added, never renamed.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use treepie_base::AtomicFile;

/// One figure that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// What was measured, as a path: `p2p/latency/8`.
    pub(crate) case: String,
    /// What carried the messages: `shm`, `threads`, `mpi`.
    pub(crate) engine: String,
    /// How many ranks the world had.
    pub(crate) ranks: u32,
    /// The figure, in `unit`.
    pub(crate) value: f64,
    pub(crate) unit: String,
    /// Which way is better.
    pub(crate) better: Better,
    /// How `value` was made of the samples.
    pub(crate) statistic: String,
    /// From the lower to the upper quartile of the samples, in `unit`.
    pub(crate) spread: f64,
    /// How many independent runs.
    pub(crate) samples: usize,
    pub(crate) machine: String,
    /// Version of Treepie.
    pub(crate) version: String,
    #[serde(flatten)]
    pub(crate) against: Option<Against>,
}

/// Somebody else's figure of the same case, measured in the same run, alternating.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Against {
    /// Who, with version.
    pub(crate) peer: String,
    /// Its figure, by the same statistic.
    pub(crate) peer_value: f64,
    /// Median of the ratios of the pairs; over 1 means that Treepie is better.
    pub(crate) ratio: f64,
    /// The interval that holds that median with at least 95 % confidence, if there were enough pairs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) ratio_low: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) ratio_high: Option<f64>,
}

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    Low,
    High,
}

/// Where records go: opened at once, so that a place that cannot be written is known before anything is measured. What is
/// there already is replaced by the first record, and stays if there is none. Further records are added as they come, in
/// whole lines, so that a run of hours that is interrupted has not been in vain.
pub(crate) struct Records {
    file: Place,
    path: PathBuf,
}

enum Place {
    /// There is no record yet.
    Empty(AtomicFile),
    Begun(File),
    /// The first record could not be written.
    Failed,
}

impl Records {
    pub(crate) fn create(path: &Path) -> anyhow::Result<Self> {
        let file = AtomicFile::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { file: Place::Empty(file), path: path.to_owned() })
    }

    /// Writes one line.
    pub(crate) fn write(&mut self, line: &impl Serialize) -> anyhow::Result<()> {
        let line = serde_json::to_string(line).context("cannot write a record as JSON")? + "\n";
        self.file = match std::mem::replace(&mut self.file, Place::Failed) {
            Place::Empty(mut file) => file.write_all(line.as_bytes()).and_then(|()| file.commit()),
            Place::Begun(mut file) => file.write_all(line.as_bytes()).map(|()| file),
            Place::Failed => Err(io::Error::other("an earlier record could not be written")),
        }
        .map(Place::Begun)
        .with_context(|| format!("cannot write {}", self.path.display()))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn record(against: Option<Against>) -> Record {
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
        let against = Against {
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
    fn what_is_there_stays_until_there_is_a_record() {
        let path = std::env::temp_dir().join(format!("treepie-records-{}", std::process::id()));
        let records = Records::create(&path).unwrap();
        assert!(!path.exists(), "a file without records would be taken for a result");
        drop(records);
        assert!(!path.exists());
        fs::write(&path, "before, and longer than a record of one number\n").unwrap();
        let mut records = Records::create(&path).unwrap();
        assert!(fs::read_to_string(&path).unwrap().starts_with("before"));
        records.write(&1).unwrap();
        records.write(&2).unwrap();
        // Also while more is to come.
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n2\n");
        drop(records);
        assert!(path.exists());
        fs::remove_file(&path).unwrap();
    }
}
