//! What is stated of a case that ranks have measured.

use super::super::record::Better;

/// Batches of a case. The median of nine is not moved by two or three that were disturbed.
pub(super) const BATCHES: usize = 9;

pub(super) const KI: usize = 1 << 10;
pub(super) const MI: usize = 1 << 20;

/// A case and what is made of its time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figure {
    /// As in records: `p2p/latency/8`.
    pub(super) name: String,
    /// As both programs get it: `pingpong:8:1:3000:9`. What stands after an `@` is for Treepie's alone.
    pub(super) case: String,
    /// Length of what an operation moves.
    pub(super) bytes: usize,
    pub(super) measure: Measure,
    /// Whether Treepie's ranks run without single copy, so that large messages go through rings.
    pub(super) through_rings: bool,
}

impl Figure {
    /// The case as the program with MPI gets it.
    pub(super) fn peer_case(&self) -> &str {
        self.case.split('@').next().unwrap_or_default()
    }
}

/// What is stated of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Microseconds per operation.
    Time,
    /// Million messages per second.
    Rate,
    /// Gigabytes per second.
    Bandwidth,
}

impl Measure {
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Measure::Time => "us",
            Measure::Rate => "M/s",
            Measure::Bandwidth => "GB/s",
        }
    }

    pub(crate) fn better(self) -> Better {
        if self == Measure::Time { Better::Low } else { Better::High }
    }

    /// From microseconds per operation on so many bytes.
    pub(crate) fn value(self, micros: f64, bytes: usize) -> f64 {
        match self {
            Measure::Time => micros,
            Measure::Rate => 1.0 / micros,
            Measure::Bandwidth => bytes as f64 / micros / 1e3,
        }
    }
}

/// The parts of a case as text: its name and so many numbers, with colons between.
pub(super) fn name_and_numbers<const N: usize>(text: &str) -> Option<(&str, [usize; N])> {
    let (name, numbers) = text.split_once(':')?;
    let numbers: Vec<usize> = numbers.split(':').map(|number| number.parse().ok()).collect::<Option<_>>()?;
    Some((name, numbers.try_into().ok()?))
}
