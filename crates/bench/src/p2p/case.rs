//! The cases of the point-to-point benchmark, which Treepie's ranks and the MPI program both get as arguments.

use std::fmt;
use std::str::FromStr;

use super::super::figure::{BATCHES, Figure, KIB, MIB, Measure, name_and_numbers};

/// Communication pattern of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Rank 0 sends, rank 1 replies. Counted in half round trips.
    PingPong,
    /// Rank 0 posts `outstanding` sends, rank 1 the same number of receives; both wait for all, and rank 1
    /// acknowledges. Counted in messages. Each outstanding message has a buffer, which the next window reuses.
    Stream,
    /// The same, with new buffers in each window, until [`FRESH_BYTES`] have been used.
    Fresh,
    /// A token travels around all ranks. Counted in hops.
    Ring,
    /// Barrier of all ranks.
    Barrier,
}

/// Bytes of fresh buffers on each side before one is reused: more than caches hold.
pub const FRESH_BYTES: usize = 256 << 20;

/// A case. As text: `stream:65536:64:10:9`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Who sends to whom.
    pub pattern: Pattern,
    /// Length of a message.
    pub bytes: usize,
    /// Messages in flight.
    pub outstanding: usize,
    /// Timed round trips, windows, rounds or barriers per batch, after one untimed.
    pub count: usize,
    /// Number of batches, after one warm-up batch.
    pub batches: usize,
}

const NAMES: [(Pattern, &str); 5] = [
    (Pattern::PingPong, "pingpong"),
    (Pattern::Stream, "stream"),
    (Pattern::Fresh, "fresh"),
    (Pattern::Ring, "ring"),
    (Pattern::Barrier, "barrier"),
];

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, name) = NAMES.iter().find(|(pattern, _)| *pattern == self.pattern).expect("all patterns have names");
        write!(f, "{name}:{}:{}:{}:{}", self.bytes, self.outstanding, self.count, self.batches)
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (name, [bytes, outstanding, count, batches]) = name_and_numbers(text)?;
            let (pattern, _) = NAMES.iter().find(|(_, known)| *known == name)?;
            let positive = outstanding > 0 && count > 0 && batches > 0;
            positive.then_some(Self { pattern: *pattern, bytes, outstanding, count, batches })
        };
        parse().ok_or_else(|| "expected a case such as stream:65536:64:10:9".to_owned())
    }
}

/// The figures for two ranks. The counts make a batch of about 3 ms.
pub(in super::super) fn of_two_ranks() -> Vec<Figure> {
    let mut figures = Vec::new();
    for (bytes, count) in [(0, 3000), (8, 3000), (64, 3000), (KIB, 1500), (8 * KIB, 800), (64 * KIB, 200), (MIB, 20)] {
        let case = Case { pattern: Pattern::PingPong, bytes, outstanding: 1, count, batches: BATCHES };
        figures.push(figure("latency", case, Measure::Time));
    }
    for (bytes, count) in [(8, 500), (64, 500), (KIB, 250)] {
        figures.push(figure("rate", stream(Pattern::Stream, bytes, count), Measure::Rate));
    }
    let sizes = [(1, 500), (64, 500), (KIB, 250), (8 * KIB, 60), (64 * KIB, 10), (256 * KIB, 10), (MIB, 10)];
    for (bytes, count) in sizes.into_iter().chain([(4 * MIB, 5), (16 * MIB, 2)]) {
        figures.push(figure("bandwidth", stream(Pattern::Stream, bytes, count), Measure::Bandwidth));
    }
    let large = [(64 * KIB, 10), (MIB, 10), (16 * MIB, 2)];
    for (bytes, count) in large {
        figures.push(figure("bandwidth_fresh", stream(Pattern::Fresh, bytes, count), Measure::Bandwidth));
    }
    for (bytes, count) in large {
        let figure = figure("bandwidth_ring", stream(Pattern::Stream, bytes, count), Measure::Bandwidth);
        figures.push(Figure { without_single_copy: true, ..figure });
    }
    figures
}

/// The figures for all ranks.
pub(in super::super) fn of_all_ranks(ranks: u32) -> Vec<Figure> {
    // About 3 ms where each rank has a core, about 10 ms if oversubscribed.
    let count = if ranks <= 2 { 3000 } else { (2000 / ranks as usize).max(10) };
    let case = |pattern, bytes| Case { pattern, bytes, outstanding: 1, count, batches: BATCHES };
    let named = |name: &str, case| Figure { name: format!("p2p/{name}/{ranks}"), ..figure("", case, Measure::Time) };
    vec![named("ring", case(Pattern::Ring, 8)), named("barrier", case(Pattern::Barrier, 0))]
}

/// 64 outstanding, but for large messages at most 4 MiB in total, and at least two.
pub fn stream(pattern: Pattern, bytes: usize, count: usize) -> Case {
    let outstanding = (4 * MIB / bytes.max(1)).clamp(2, 64);
    Case { pattern, bytes, outstanding, count, batches: BATCHES }
}

fn figure(name: &str, case: Case, measure: Measure) -> Figure {
    let (name, bytes) = (format!("p2p/{name}/{}", case.bytes), case.bytes);
    Figure { name, case: case.to_string(), bytes, measure, without_single_copy: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_round_trip_through_text() {
        for figure in of_two_ranks().into_iter().chain(of_all_ranks(16)) {
            assert_eq!(figure.case.parse::<Case>().map(|case| case.to_string()), Ok(figure.case));
        }
        for bad in ["", "stream", "stream:1:2:3", "stream:1:2:3:4:5", "walk:1:2:3:4", "stream:1:2:0:4", "ring:-8:1:1:1"]
        {
            assert!(bad.parse::<Case>().is_err(), "{bad}");
        }
    }

    #[test]
    fn names_are_those_of_the_records() {
        let names: Vec<_> = of_two_ranks().into_iter().chain(of_all_ranks(8)).map(|figure| figure.name).collect();
        for name in ["p2p/latency/8", "p2p/rate/64", "p2p/bandwidth/65536", "p2p/bandwidth_fresh/16777216"] {
            assert!(names.iter().any(|found| found == name), "{name}");
        }
        for name in ["p2p/bandwidth_ring/1048576", "p2p/ring/8", "p2p/barrier/8"] {
            assert!(names.iter().any(|found| found == name), "{name}");
        }
    }

    #[test]
    fn at_least_two_and_at_most_64_are_outstanding() {
        let outstanding = |bytes| stream(Pattern::Stream, bytes, 1).outstanding;
        assert_eq!([1, 64 * KIB, 256 * KIB, MIB, 16 * MIB].map(outstanding), [64, 64, 16, 4, 2]);
    }
}
