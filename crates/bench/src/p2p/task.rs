//! The tasks of the point-to-point benchmark, and its figures.

use std::fmt;
use std::str::FromStr;

use crate::harness::case::{Case, OnlyProgram, name_and_numbers, name_of, value_of};
use crate::harness::figure::{BATCHES, EMULATED_BATCHES, Figure, KIB, MIB, Measure};

/// Communication pattern of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Rank 0 sends, rank 1 replies. Counted in half round trips.
    PingPong,
    /// Rank 0 posts `outstanding` sends, rank 1 the same number of receives; both wait for all, and rank 1
    /// acknowledges. Counted in messages. Each outstanding message has a buffer, which the next window reuses.
    Stream,
    /// The same, with new buffers in each window, until 256 MiB have been used.
    Fresh,
    /// A token travels around all ranks. Counted in hops.
    Ring,
    /// Barrier of all ranks.
    Barrier,
}

/// Bytes of fresh buffers on each side before one is reused: more than caches hold.
pub(super) const FRESH_BYTES: usize = 256 << 20;

/// Messages between ranks. As text: `stream:65536:64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Who sends to whom.
    pub pattern: Pattern,
    /// Length of a message.
    pub bytes: usize,
    /// Messages in flight.
    pub outstanding: usize,
}

const NAMES: [(Pattern, &str); 5] = [
    (Pattern::PingPong, "pingpong"),
    (Pattern::Stream, "stream"),
    (Pattern::Fresh, "fresh"),
    (Pattern::Ring, "ring"),
    (Pattern::Barrier, "barrier"),
];

impl fmt::Display for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", name_of(&NAMES, self.pattern), self.bytes, self.outstanding)
    }
}

impl FromStr for Transfer {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (name, [bytes, outstanding]) = name_and_numbers(text).ok_or(())?;
        let pattern = value_of(&NAMES, name).filter(|_| outstanding > 0).ok_or(())?;
        Ok(Self { pattern, bytes, outstanding })
    }
}

/// The figures for two ranks. The counts make a batch of about 3 ms.
pub(super) fn of_two_ranks() -> Vec<Figure> {
    let mut figures = Vec::new();
    for (bytes, count) in [(0, 3000), (8, 3000), (64, 3000), (KIB, 1500), (8 * KIB, 800), (64 * KIB, 200), (MIB, 20)] {
        figures.push(figure("latency", ping_pong(bytes, count), Measure::Time));
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

/// The figures for two ranks over emulated links: few, as a window of the longest messages takes seconds.
pub(super) fn of_two_emulated_ranks() -> Vec<Figure> {
    let latency = [0, 8, KIB, 64 * KIB, MIB].map(|bytes| ("latency", ping_pong(bytes, 1), Measure::Time));
    let rate = ("rate", stream(Pattern::Stream, 8, 1), Measure::Rate);
    let bandwidth = ("bandwidth", stream(Pattern::Stream, MIB, 1), Measure::Bandwidth);
    let all = latency.into_iter().chain([rate, bandwidth]);
    all.map(|(name, case, measure)| figure(name, emulated(case), measure)).collect()
}

/// The case over emulated links, where an operation takes long and varies little.
fn emulated(case: Case<Transfer>) -> Case<Transfer> {
    Case { count: 1, batches: EMULATED_BATCHES, ..case }
}

/// The figures for all ranks.
pub(super) fn of_all_ranks(ranks: u32, is_emulated: bool) -> Vec<Figure> {
    // About 3 ms where each rank has a core, about 10 ms if oversubscribed.
    let count = if ranks <= 2 { 3000 } else { (2000 / ranks as usize).max(10) };
    let named = |name: &str, pattern, bytes| {
        let case = one_outstanding(pattern, bytes, count);
        let figure = figure("", if is_emulated { emulated(case) } else { case }, Measure::Time);
        Figure { name: format!("p2p/{name}/{ranks}"), ..figure }
    };
    vec![named("ring", Pattern::Ring, 8), named("barrier", Pattern::Barrier, 0)]
}

/// A ping-pong. The count is of timed round trips.
pub fn ping_pong(bytes: usize, count: usize) -> Case<Transfer> {
    one_outstanding(Pattern::PingPong, bytes, count)
}

fn one_outstanding(pattern: Pattern, bytes: usize, count: usize) -> Case<Transfer> {
    Case { task: Transfer { pattern, bytes, outstanding: 1 }, count, batches: BATCHES, program: OnlyProgram }
}

/// 64 outstanding, but for large messages at most 4 MiB in total, and at least two. The count is of timed windows.
pub fn stream(pattern: Pattern, bytes: usize, count: usize) -> Case<Transfer> {
    let outstanding = (4 * MIB / bytes.max(1)).clamp(2, 64);
    Case { task: Transfer { pattern, bytes, outstanding }, count, batches: BATCHES, program: OnlyProgram }
}

fn figure(name: &str, case: Case<Transfer>, measure: Measure) -> Figure {
    let bytes = case.task.bytes;
    Figure { bytes, ..Figure::new(format!("p2p/{name}/{bytes}"), &case, measure) }
}

#[cfg(test)]
mod tests {
    use super::super::rank::Transfers;
    use super::*;
    use crate::harness::testing::{assert_no_cases, assert_round_trip};

    #[test]
    fn few_operations_are_measured_over_emulated_links() {
        let cases = of_two_emulated_ranks().into_iter().chain(of_all_ranks(2, true));
        for case in cases.map(|figure| figure.case) {
            assert!(case.ends_with(":1:2"), "{case}");
        }
    }

    #[test]
    fn cases_round_trip_through_text() {
        assert_round_trip::<Transfers>(
            of_two_ranks().into_iter().chain(of_all_ranks(16, false)).map(|figure| figure.case),
        );
        let short = ["", "stream", "stream:1:2:3", "stream:1:2:0:4", "stream:1:0:3:4"];
        assert_no_cases::<Transfers>(&short);
        assert_no_cases::<Transfers>(&["stream:1:2:3:4:5", "walk:1:2:3:4", "ring:-8:1:1:1", "ring:8:1:1:1@fast"]);
    }

    #[test]
    fn names_are_those_of_the_records() {
        let names: Vec<_> =
            of_two_ranks().into_iter().chain(of_all_ranks(8, false)).map(|figure| figure.name).collect();
        for name in ["p2p/latency/8", "p2p/rate/64", "p2p/bandwidth/65536", "p2p/bandwidth_fresh/16777216"] {
            assert!(names.iter().any(|found| found == name), "{name}");
        }
        for name in ["p2p/bandwidth_ring/1048576", "p2p/ring/8", "p2p/barrier/8"] {
            assert!(names.iter().any(|found| found == name), "{name}");
        }
    }

    #[test]
    fn at_least_two_and_at_most_64_are_outstanding() {
        let outstanding = |bytes| stream(Pattern::Stream, bytes, 1).task.outstanding;
        assert_eq!([1, 64 * KIB, 256 * KIB, MIB, 16 * MIB].map(outstanding), [64, 64, 16, 4, 2]);
    }
}
