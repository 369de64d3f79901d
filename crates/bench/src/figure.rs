//! Figures derived from the measured time of a case.

use crate::record::Better;

/// Batches of a case. The median of nine tolerates two or three disturbed ones.
pub(super) const BATCHES: usize = 9;

pub(super) const KIB: usize = 1 << 10;
pub(super) const MIB: usize = 1 << 20;

/// A case and the figure derived from its time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figure {
    /// Name in records: `p2p/latency/8`.
    pub(super) name: String,
    /// Argument of both programs: `pingpong:8:1:3000:9`. The part after an `@` is for Treepie only.
    pub(super) case: String,
    /// Bytes an operation moves.
    pub(super) bytes: usize,
    pub(super) measure: Measure,
    /// Whether Treepie's ranks run without single copy, so that large messages are copied through rings.
    pub(super) without_single_copy: bool,
}

impl Figure {
    /// The argument of the MPI program.
    pub(super) fn peer_case(&self) -> &str {
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

/// Parses a case: its name and `N` numbers, separated by colons.
pub(super) fn name_and_numbers<const N: usize>(text: &str) -> Option<(&str, [usize; N])> {
    let (name, numbers) = text.split_once(':')?;
    let numbers: Vec<usize> = numbers.split(':').map(|number| number.parse().ok()).collect::<Option<_>>()?;
    Some((name, numbers.try_into().ok()?))
}
