//! The tasks of the collective benchmark, and its figures.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use crate::harness::case::{Case, name_and_numbers, name_of, value_of};
use crate::harness::figure::{BATCHES, EMULATED_BATCHES, Figure, KIB, MIB, Measure};

/// Buffers are of doubles.
pub(super) const WORD_BYTES: usize = size_of::<f64>();

/// Sizes at which each operation except barrier is measured.
const SIZES: [usize; 4] = [8, KIB, 64 * KIB, MIB];

/// Up to this size latency dominates.
pub(super) const SMALL_BYTES: usize = KIB;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// The size is that of the message of rank 0.
    Bcast,
    /// The size is that of the block of each rank.
    Allgather,
    /// The size is that of the vector of each rank.
    Allreduce,
    /// The size is that of the vector of each rank; block sizes of the result differ by at most one word.
    ReduceScatter,
    /// The size is that of the block from each rank to each rank.
    Alltoall,
    /// Without size.
    Barrier,
    /// The size is that of the block of each rank.
    Scatter,
    /// The size is that of the block of each rank.
    Gather,
}

const OPERATION_NAMES: [(Operation, &str); 8] = [
    (Operation::Bcast, "bcast"),
    (Operation::Allgather, "allgather"),
    (Operation::Allreduce, "allreduce"),
    (Operation::ReduceScatter, "reduce_scatter"),
    (Operation::Alltoall, "alltoall"),
    (Operation::Barrier, "barrier"),
    (Operation::Scatter, "scatter"),
    (Operation::Gather, "gather"),
];

/// Operations that are measured unless one is asked for.
const DEFAULT_OPERATIONS: usize = 6;

impl FromStr for Operation {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let names = || OPERATION_NAMES.map(|(_, name)| name).join(", ");
        value_of(&OPERATION_NAMES, name).ok_or_else(|| format!("expected one of {}", names()))
    }
}

impl Operation {
    /// The operation of schedules, with root 0.
    pub(super) fn in_model(self) -> treepie_schedule::Operation {
        let name = name_of(&OPERATION_NAMES, self);
        treepie_schedule::Operation::from_name(name, 0).expect("the names are the same")
    }

    /// The size of a block, or of the vector, if this is that of all blocks of a rank together: whole words.
    fn block_of_total(self, total: usize, ranks: usize) -> usize {
        if self.has_blocks() { total / (ranks * WORD_BYTES) * WORD_BYTES } else { total }
    }

    /// Whether the size is that of a block for each rank.
    pub(super) fn has_blocks(self) -> bool {
        matches!(self, Operation::Allgather | Operation::Alltoall | Operation::Scatter | Operation::Gather)
    }

    /// Blocks that all ranks together must receive from others.
    fn received_blocks(self, ranks: usize) -> usize {
        match self {
            Operation::Bcast | Operation::ReduceScatter | Operation::Scatter | Operation::Gather => ranks - 1,
            Operation::Allreduce => 2 * (ranks - 1),
            Operation::Allgather | Operation::Alltoall => ranks * (ranks - 1),
            Operation::Barrier => 0,
        }
    }
}

/// Timing of the operations of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TimingMode {
    /// A barrier before each operation; each operation is timed alone
    #[default]
    Apart,
    /// Back to back; the operations are timed together
    Stream,
    /// At times of this machine's clock, so that all ranks begin together; with root 0
    Synchronized,
}

impl TimingMode {
    pub(super) fn default_for(is_emulated: bool) -> Self {
        if is_emulated { TimingMode::Synchronized } else { TimingMode::Apart }
    }
}

const TIMING_MODES: [(TimingMode, &str); 3] =
    [(TimingMode::Apart, "apart"), (TimingMode::Stream, "stream"), (TimingMode::Synchronized, "synchronized")];

/// A collective operation. As text: `apart:allgather:65536`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(super) rule: TimingMode,
    pub(super) operation: Operation,
    /// A multiple of [`WORD_BYTES`].
    pub(super) bytes: usize,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, operation, bytes } = *self;
        write!(f, "{}:{}:{bytes}", name_of(&TIMING_MODES, rule), name_of(&OPERATION_NAMES, operation))
    }
}

impl FromStr for Call {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let parse = || {
            let (rule, rest) = text.split_once(':')?;
            let (name, [bytes]) = name_and_numbers(rest)?;
            let (rule, operation) = (value_of(&TIMING_MODES, rule)?, value_of(&OPERATION_NAMES, name)?);
            (bytes % WORD_BYTES == 0).then_some(Self { rule, operation, bytes })
        };
        parse().ok_or(())
    }
}

/// The algorithm of Treepie's ranks: the chosen one, or that with this id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Selected(pub(super) Option<String>);

impl fmt::Display for Selected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_deref().unwrap_or_default())
    }
}

impl FromStr for Selected {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self((!text.is_empty()).then(|| text.to_owned())))
    }
}

/// The requested algorithm, and its operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Algorithm {
    pub(super) operation: Operation,
    /// As in records: `bcast/auto` is the chosen one.
    pub(super) id: String,
}

impl Algorithm {
    fn auto(operation: Operation, name: &str) -> Self {
        Self { operation, id: format!("{name}/auto") }
    }

    /// What ranks set.
    pub(super) fn selected(&self) -> Selected {
        Selected(Some(&self.id).filter(|id| !id.ends_with("/auto")).cloned())
    }
}

impl FromStr for Algorithm {
    type Err = String;

    fn from_str(id: &str) -> Result<Self, String> {
        let named = id.split_once('/').and_then(|(operation, _)| value_of(&OPERATION_NAMES, operation));
        let wrong = || {
            let names = OPERATION_NAMES.map(|(_, name)| name).join(", ");
            format!("expected an algorithm such as allgather/ring, or allgather/auto, of one of {names}")
        };
        Ok(Self { operation: named.ok_or_else(wrong)?, id: id.to_owned() })
    }
}

/// What is measured.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    pub(super) algorithms: Vec<Algorithm>,
    /// Without algorithms; empty for all.
    pub(super) operations: Vec<Operation>,
    /// Empty for the usual ones.
    pub(super) sizes: Vec<usize>,
    /// Whether links are emulated, so that each operation takes long.
    pub(super) is_emulated: bool,
    /// Whether sizes are those of all blocks together.
    pub(super) is_total: bool,
    /// Operations of a batch, if given.
    pub(super) count: Option<usize>,
    /// Batches of a run, if given.
    pub(super) batches: Option<usize>,
}

impl Selection {
    /// The algorithms of the operation with this number.
    fn algorithms_of(&self, index: usize) -> Vec<Algorithm> {
        let (operation, name) = OPERATION_NAMES[index];
        let is_included = match &self.operations[..] {
            _ if !self.algorithms.is_empty() => {
                return self.algorithms.iter().filter(|algorithm| algorithm.operation == operation).cloned().collect();
            }
            [] => index < DEFAULT_OPERATIONS,
            operations => operations.contains(&operation),
        };
        Vec::from_iter(is_included.then(|| Algorithm::auto(operation, name)))
    }
}

/// The figures of what was selected.
pub(super) fn figures(ranks: u32, rule: TimingMode, selection: &Selection) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (index, (operation, _)) in OPERATION_NAMES.into_iter().enumerate() {
        let algorithms = selection.algorithms_of(index);
        let sizes = match &selection.sizes[..] {
            _ if operation == Operation::Barrier => &[0][..],
            [] => &SIZES,
            sizes => sizes,
        };
        for &given in sizes {
            let bytes = if selection.is_total { operation.block_of_total(given, ranks as usize) } else { given };
            let (usual, usual_batches) = match selection.is_emulated {
                true => (1, EMULATED_BATCHES),
                false => (operations_per_batch(operation, bytes, ranks as usize), BATCHES),
            };
            let (count, batches) = (selection.count.unwrap_or(usual), selection.batches.unwrap_or(usual_batches));
            // Algorithms of one size alternate, batch by batch.
            for algorithm in &algorithms {
                let task = Call { rule, operation, bytes };
                let case = Case { task, count, batches, program: algorithm.selected() };
                // Records of other timings than the default must not be confused with its.
                let default = TimingMode::default_for(selection.is_emulated);
                let timing = if rule == default { String::new() } else { format!("/{}", name_of(&TIMING_MODES, rule)) };
                let name = format!("{}/{bytes}{timing}", algorithm.id);
                figures.push(Figure { bytes, ..Figure::new(name, &case, Measure::Time) });
            }
        }
    }
    figures
}

/// Operations of a batch of about 3 ms where each rank has a core, about 10 ms if oversubscribed, barriers excluded;
/// from an estimate of the time of an operation, the same for both sides.
fn operations_per_batch(operation: Operation, bytes: usize, ranks: usize) -> usize {
    const BYTES_PER_MICRO: usize = 5000;
    let (batch, start) = if ranks <= 2 { (3000.0, 1.5) } else { (10_000.0, 5.0 * ranks as f64) };
    let moved = (operation.received_blocks(ranks) * bytes) as f64 / BYTES_PER_MICRO as f64;
    ((batch / (start + moved)) as usize).clamp(4, 2000)
}

#[cfg(test)]
mod tests {
    use super::super::rank::Calls;
    use super::*;
    use crate::harness::testing::{assert_no_cases, assert_round_trip};

    #[test]
    fn cases_round_trip_through_text() {
        let figures = figures(2, TimingMode::Apart, &Selection::default()).into_iter().chain(figures(
            8,
            TimingMode::Stream,
            &Selection::default(),
        ));
        assert_round_trip::<Calls>(figures.map(|figure| figure.case));
        for bad in
            ["", "bcast", "bcast:8:1", "bcast:8:1:1:1", "walk:8:1:1", "bcast:8:0:1", "bcast:8:1:0", "bcast:9:1:1"]
        {
            assert_no_cases::<Calls>(&[bad, &format!("apart:{bad}")]);
        }
    }

    #[test]
    fn names_are_those_of_the_records() {
        let names: Vec<_> =
            figures(2, TimingMode::Apart, &Selection::default()).into_iter().map(|figure| figure.name).collect();
        assert_eq!(names.len(), 21);
        for name in ["bcast/auto/8", "allgather/auto/65536", "reduce_scatter/auto/1024", "alltoall/auto/1048576"] {
            assert!(names.iter().any(|found| found == name), "{name}");
        }
        assert_eq!(names.last().map(String::as_str), Some("barrier/auto/0"));
        let first = |rule, is_emulated| {
            let selection = Selection { is_emulated, ..Selection::default() };
            figures(2, rule, &selection).swap_remove(0).name
        };
        let rules = [TimingMode::Apart, TimingMode::Stream, TimingMode::Synchronized];
        let names = ["bcast/auto/8", "bcast/auto/8/stream", "bcast/auto/8/synchronized"];
        assert_eq!(rules.map(|rule| first(rule, false)), names);
        let names = ["bcast/auto/8/apart", "bcast/auto/8/stream", "bcast/auto/8"];
        assert_eq!(rules.map(|rule| first(rule, true)), names);
    }

    #[test]
    fn an_algorithm_is_measured_at_all_sizes_of_its_operation() {
        let ring: Algorithm = "allgather/ring".parse().unwrap();
        let selection = Selection { algorithms: vec![ring], ..Selection::default() };
        let names: Vec<_> = figures(8, TimingMode::Apart, &selection).into_iter().map(|figure| figure.name).collect();
        assert_eq!(names, [8, 1024, 65536, 1048576].map(|bytes| format!("allgather/ring/{bytes}")));
        assert!("ring".parse::<Algorithm>().is_err() && "walk/ring".parse::<Algorithm>().is_err());
    }

    #[test]
    fn algorithms_of_one_size_are_neighbors() {
        let algorithms = ["bcast/auto", "barrier/tree", "bcast/chain:segments=4"].map(|id| id.parse().unwrap());
        let selection = Selection { algorithms: algorithms.to_vec(), sizes: vec![8, 64], ..Selection::default() };
        let figures = figures(2, TimingMode::Apart, &selection);
        let programs: Vec<_> = figures
            .iter()
            .map(|figure| (figure.name.as_str(), figure.case.split_once('@').map_or("", |two| two.1)))
            .collect();
        let expected = [
            ("bcast/auto/8", ""),
            ("bcast/chain:segments=4/8", "bcast/chain:segments=4"),
            ("bcast/auto/64", ""),
            ("bcast/chain:segments=4/64", "bcast/chain:segments=4"),
            ("barrier/tree/0", "barrier/tree"),
        ];
        assert_eq!(programs, expected);
        assert_round_trip::<Calls>(figures.into_iter().map(|figure| figure.case));
    }

    #[test]
    fn operations_and_sizes_are_selected() {
        let operations = vec![Operation::Gather, Operation::Bcast];
        let selection = Selection { operations, sizes: vec![64], is_emulated: true, ..Selection::default() };
        let figures = figures(8, TimingMode::Synchronized, &selection);
        let found: Vec<_> = figures.iter().map(|figure| (figure.name.as_str(), figure.case.as_str())).collect();
        let expected =
            [("bcast/auto/64", "synchronized:bcast:64:1:2"), ("gather/auto/64", "synchronized:gather:64:1:2")];
        assert_eq!(found, expected);
        assert!("walk".parse::<Operation>().unwrap_err().ends_with("barrier, scatter, gather"));
    }

    #[test]
    fn sizes_of_all_blocks_are_divided_among_the_ranks() {
        let operations = vec![Operation::Bcast, Operation::Allgather];
        let selection =
            Selection { operations, sizes: vec![1000], is_total: true, batches: Some(1), ..Selection::default() };
        let figures = figures(8, TimingMode::Apart, &selection);
        let sizes: Vec<_> = figures.iter().map(|figure| (figure.name.as_str(), figure.bytes)).collect();
        assert_eq!(sizes, [("bcast/auto/1000", 1000), ("allgather/auto/120", 120)]);
        assert!(figures.iter().all(|figure| figure.case.ends_with(":1")));
    }

    #[test]
    fn counts_make_batches_of_milliseconds() {
        assert!((1900..=2000).contains(&operations_per_batch(Operation::Allreduce, 8, 2)));
        assert!((200..300).contains(&operations_per_batch(Operation::Bcast, 8, 8)));
        assert!((7..20).contains(&operations_per_batch(Operation::Bcast, MIB, 2)));
        assert_eq!(operations_per_batch(Operation::Barrier, 0, 2), 2000);
        assert_eq!(operations_per_batch(Operation::Alltoall, MIB, 8), 4);
    }
}
