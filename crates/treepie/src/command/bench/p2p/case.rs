//! What the point-to-point benchmark measures: one table, which Treepie's ranks and the MPI program both get as their
//! arguments, so that both do the same.

use std::fmt;
use std::str::FromStr;

use super::super::figure::{BATCHES, Figure, KI, MI, Measure, name_and_numbers};

/// How messages go in a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// Rank 0 sends, rank 1 answers. Counted in half round trips.
    PingPong,
    /// Rank 0 begins `outstanding` sends, rank 1 as many receives, both wait for all, rank 1 acknowledges. Counted in
    /// messages. Each of the outstanding has a buffer, which the next window uses again.
    Stream,
    /// The same, with other buffers in each window, until [`FRESH_BYTES`] have been used.
    Fresh,
    /// A token goes around all ranks. Counted in hops.
    Ring,
    /// All ranks wait for all.
    Barrier,
}

/// What a case with fresh buffers goes through on each side before it uses one again: more than caches hold.
pub(crate) const FRESH_BYTES: usize = 256 << 20;

/// One thing to measure. As text: `stream:65536:64:10:9`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) pattern: Pattern,
    /// Length of a message.
    pub(crate) bytes: usize,
    /// How many are under way at once.
    pub(crate) outstanding: usize,
    /// Round trips, windows, rounds or barriers in a batch that are timed together; one more goes before, untimed.
    pub(crate) count: usize,
    /// How many batches; one more goes before, to warm up.
    pub(crate) batches: usize,
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
        parse().ok_or_else(|| "not a case as stream:65536:64:10:9".to_owned())
    }
}

/// What is measured between two ranks. The counts make a batch of about 3 ms.
pub(in super::super) fn of_two_ranks() -> Vec<Figure> {
    let mut figures = Vec::new();
    for (bytes, count) in [(0, 3000), (8, 3000), (64, 3000), (KI, 1500), (8 * KI, 800), (64 * KI, 200), (MI, 20)] {
        let case = Case { pattern: Pattern::PingPong, bytes, outstanding: 1, count, batches: BATCHES };
        figures.push(figure("latency", case, Measure::Time));
    }
    for (bytes, count) in [(8, 500), (64, 500), (KI, 250)] {
        figures.push(figure("rate", stream(Pattern::Stream, bytes, count), Measure::Rate));
    }
    let sizes = [(1, 500), (64, 500), (KI, 250), (8 * KI, 60), (64 * KI, 10), (256 * KI, 10), (MI, 10)];
    for (bytes, count) in sizes.into_iter().chain([(4 * MI, 5), (16 * MI, 2)]) {
        figures.push(figure("bandwidth", stream(Pattern::Stream, bytes, count), Measure::Bandwidth));
    }
    let large = [(64 * KI, 10), (MI, 10), (16 * MI, 2)];
    for (bytes, count) in large {
        figures.push(figure("bandwidth_fresh", stream(Pattern::Fresh, bytes, count), Measure::Bandwidth));
    }
    for (bytes, count) in large {
        let figure = figure("bandwidth_ring", stream(Pattern::Stream, bytes, count), Measure::Bandwidth);
        figures.push(Figure { through_rings: true, ..figure });
    }
    figures
}

/// What is measured among all ranks.
pub(in super::super) fn of_all_ranks(ranks: u32) -> Vec<Figure> {
    // About 3 ms where each rank has a core, about 10 ms where many share one.
    let count = if ranks <= 2 { 3000 } else { (2000 / ranks as usize).max(10) };
    let case = |pattern, bytes| Case { pattern, bytes, outstanding: 1, count, batches: BATCHES };
    let named = |name: &str, case| Figure { name: format!("p2p/{name}/{ranks}"), ..figure("", case, Measure::Time) };
    vec![named("ring", case(Pattern::Ring, 8)), named("barrier", case(Pattern::Barrier, 0))]
}

/// 64 outstanding, but of large messages only as many as make 4 MiB, and at least two.
pub(crate) fn stream(pattern: Pattern, bytes: usize, count: usize) -> Case {
    let outstanding = (4 * MI / bytes.max(1)).clamp(2, 64);
    Case { pattern, bytes, outstanding, count, batches: BATCHES }
}

fn figure(name: &str, case: Case, measure: Measure) -> Figure {
    let (name, bytes) = (format!("p2p/{name}/{}", case.bytes), case.bytes);
    Figure { name, case: case.to_string(), bytes, measure, through_rings: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_read_as_they_are_written() {
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
        assert_eq!([1, 64 * KI, 256 * KI, MI, 16 * MI].map(outstanding), [64, 64, 16, 4, 2]);
    }
}
