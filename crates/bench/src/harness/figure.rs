//! Figures derived from the measured time of a case.

use crate::record::Better;

/// Batches of a case. The median of nine tolerates two or three disturbed ones.
pub(crate) const BATCHES: usize = 9;

/// Batches of operations over emulated links, which take long and vary little.
pub(crate) const EMULATED_BATCHES: usize = 2;

pub(crate) const KIB: usize = 1 << 10;
pub(crate) const MIB: usize = 1 << 20;

/// A case and the figure derived from its time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    /// Name in records: `p2p/latency/8`.
    pub(crate) name: String,
    /// Argument of both programs: `pingpong:8:1:3000:9`. The part after an `@` is for Treepie only.
    pub(crate) case: String,
    /// Bytes an operation moves.
    pub(crate) bytes: usize,
    pub(crate) measure: Measure,
    /// Whether Treepie's ranks run without single copy, so that large messages are copied through rings.
    pub(crate) without_single_copy: bool,
}

impl Figure {
    /// A figure of a case.
    pub(crate) fn new(name: String, case: &impl ToString, measure: Measure) -> Self {
        Self { name, case: case.to_string(), bytes: 0, measure, without_single_copy: false }
    }

    /// The argument of the MPI program.
    pub(crate) fn peer_case(&self) -> &str {
        self.case.split('@').next().unwrap_or_default()
    }
}

/// The quantity stated for a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Microseconds per operation.
    Time,
    /// Million messages per second.
    Rate,
    /// Gigabytes per second.
    Bandwidth,
}

impl Measure {
    /// Its unit.
    pub fn unit(self) -> &'static str {
        match self {
            Measure::Time => "us",
            Measure::Rate => "M/s",
            Measure::Bandwidth => "GB/s",
        }
    }

    /// Whether lower or higher is better.
    pub fn better(self) -> Better {
        if self == Measure::Time { Better::Low } else { Better::High }
    }

    /// The value for microseconds per operation of `bytes` bytes.
    pub fn value(self, micros: f64, bytes: usize) -> f64 {
        match self {
            Measure::Time => micros,
            Measure::Rate => 1.0 / micros,
            Measure::Bandwidth => bytes as f64 / micros / 1e3,
        }
    }
}
