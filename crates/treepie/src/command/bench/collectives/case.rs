//! What the benchmark of collective operations measures: one table, which Treepie's ranks and the MPI program both get as
//! their arguments, so that both do the same.

use std::fmt;
use std::str::FromStr;

use super::super::figure::{BATCHES, Figure, KI, MI, Measure, name_and_numbers};

/// Buffers are of doubles.
pub(super) const WORD: usize = size_of::<f64>();

/// Each operation is measured at each of these, but a barrier.
const SIZES: [usize; 4] = [8, KI, 64 * KI, MI];

/// Cells of at most so many bytes are where latency is all.
pub(super) const SMALL: usize = KI;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// The size is that of the message of rank 0.
    Bcast,
    /// The size is that of the block of each rank.
    Allgather,
    /// The size is that of the vector of each rank.
    Allreduce,
    /// The size is that of the vector of each rank, of which each gets a part; the lengths of parts differ by at most one
    /// word.
    ReduceScatter,
    /// The size is that of the block from each rank to each rank.
    Alltoall,
    /// Without size.
    Barrier,
}

const NAMES: [(Operation, &str); 6] = [
    (Operation::Bcast, "bcast"),
    (Operation::Allgather, "allgather"),
    (Operation::Allreduce, "allreduce"),
    (Operation::ReduceScatter, "reduce_scatter"),
    (Operation::Alltoall, "alltoall"),
    (Operation::Barrier, "barrier"),
];

impl Operation {
    fn name(self) -> &'static str {
        NAMES.iter().find(|(operation, _)| *operation == self).expect("all operations have names").1
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|(_, known)| *known == name).map(|(operation, _)| *operation)
    }

    pub(super) fn names() -> String {
        NAMES.map(|(_, name)| name).join(", ")
    }

    /// How much all ranks together must receive, from others, in units of the size.
    fn received(self, ranks: usize) -> usize {
        match self {
            Operation::Bcast | Operation::ReduceScatter => ranks - 1,
            Operation::Allreduce => 2 * (ranks - 1),
            Operation::Allgather | Operation::Alltoall => ranks * (ranks - 1),
            Operation::Barrier => 0,
        }
    }
}

/// What happens between the operations of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Rule {
    /// All wait for each other before each operation, and each operation is timed alone
    #[default]
    Apart,
    /// Nobody waits, and the operations are timed together
    Stream,
}

const RULES: [(Rule, &str); 2] = [(Rule::Apart, "apart"), (Rule::Stream, "stream")];

impl Rule {
    fn name(self) -> &'static str {
        RULES.iter().find(|(rule, _)| *rule == self).expect("all rules have names").1
    }

    fn named(name: &str) -> Option<Self> {
        RULES.iter().find(|(_, known)| *known == name).map(|(rule, _)| *rule)
    }
}

/// One thing to measure. As text: `apart:allgather:65536:10:9`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(super) rule: Rule,
    pub(super) operation: Operation,
    /// A multiple of [`WORD`].
    pub(super) bytes: usize,
    /// Operations in a batch that are timed together; one more goes before, untimed.
    pub(super) count: usize,
    /// How many batches; one more goes before, to warm up.
    pub(super) batches: usize,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, operation, bytes, count, batches } = self;
        write!(f, "{}:{}:{bytes}:{count}:{batches}", rule.name(), operation.name())
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (rule, rest) = text.split_once(':')?;
            let (name, [bytes, count, batches]) = name_and_numbers(rest)?;
            let (rule, operation) = (Rule::named(rule)?, Operation::named(name)?);
            let possible = bytes % WORD == 0 && count > 0 && batches > 0;
            possible.then_some(Self { rule, operation, bytes, count, batches })
        };
        parse().ok_or_else(|| "not a case as apart:allgather:65536:10:9".to_owned())
    }
}

/// An algorithm that the user asks for, and the operation that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Algorithm {
    pub(super) operation: Operation,
    pub(super) id: String,
}

impl FromStr for Algorithm {
    type Err = String;

    fn from_str(id: &str) -> Result<Self, String> {
        let named = id.split_once('/').and_then(|(operation, _)| Operation::named(operation));
        let wrong = || format!("not an algorithm as allgather/ring, of one of {}", Operation::names());
        Ok(Self { operation: named.ok_or_else(wrong)?, id: id.to_owned() })
    }
}

/// What is measured among so many ranks: all operations, or the one that the algorithm is for.
pub(super) fn figures(ranks: u32, rule: Rule, algorithm: Option<&Algorithm>) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (operation, name) in NAMES {
        if algorithm.is_some_and(|algorithm| algorithm.operation != operation) {
            continue;
        }
        let id = algorithm.map_or_else(|| format!("{name}/auto"), |algorithm| algorithm.id.clone());
        let sizes = if operation == Operation::Barrier { &[0][..] } else { &SIZES };
        for &bytes in sizes {
            let count = count(operation, bytes, ranks as usize);
            let case = Case { rule, operation, bytes, count, batches: BATCHES };
            // Records of the two rules are not to be taken for each other.
            let name = if rule == Rule::Stream { format!("{id}/{bytes}/stream") } else { format!("{id}/{bytes}") };
            let case = case.to_string();
            figures.push(Figure { name, case, bytes, measure: Measure::Time, through_rings: false });
        }
    }
    figures
}

/// Operations of a batch of about 3 ms where each rank has a core, about 10 ms where many share one, without what goes
/// between them; by a guess of how long an operation takes, which is the same for both sides.
fn count(operation: Operation, bytes: usize, ranks: usize) -> usize {
    const BYTES_PER_MICRO: usize = 5000;
    let (batch, start) = if ranks <= 2 { (3000.0, 1.5) } else { (10_000.0, 5.0 * ranks as f64) };
    let moved = (operation.received(ranks) * bytes) as f64 / BYTES_PER_MICRO as f64;
    ((batch / (start + moved)) as usize).clamp(4, 2000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_read_as_they_are_written() {
        for figure in figures(2, Rule::Apart, None).into_iter().chain(figures(8, Rule::Stream, None)) {
            assert_eq!(figure.case.parse::<Case>().map(|case| case.to_string()), Ok(figure.case));
        }
        for bad in
            ["", "bcast", "bcast:8:1", "bcast:8:1:1:1", "walk:8:1:1", "bcast:8:0:1", "bcast:8:1:0", "bcast:9:1:1"]
        {
            assert!(bad.parse::<Case>().is_err(), "{bad}");
            let bad = format!("apart:{bad}");
            assert!(bad.parse::<Case>().is_err(), "{bad}");
        }
    }

    #[test]
    fn names_are_those_of_the_records() {
        let names: Vec<_> = figures(2, Rule::Apart, None).into_iter().map(|figure| figure.name).collect();
        assert_eq!(names.len(), 21);
        for name in ["bcast/auto/8", "allgather/auto/65536", "reduce_scatter/auto/1024", "alltoall/auto/1048576"] {
            assert!(names.iter().any(|found| found == name), "{name}");
        }
        assert_eq!(names.last().map(String::as_str), Some("barrier/auto/0"));
        assert_eq!(figures(2, Rule::Stream, None)[0].name, "bcast/auto/8/stream");
    }

    #[test]
    fn an_algorithm_is_measured_at_all_sizes_of_its_operation() {
        let ring: Algorithm = "allgather/ring".parse().unwrap();
        let names: Vec<_> = figures(8, Rule::Apart, Some(&ring)).into_iter().map(|figure| figure.name).collect();
        assert_eq!(names, [8, 1024, 65536, 1048576].map(|bytes| format!("allgather/ring/{bytes}")));
        assert!("ring".parse::<Algorithm>().is_err() && "walk/ring".parse::<Algorithm>().is_err());
    }

    #[test]
    fn counts_make_batches_of_milliseconds() {
        assert!((1900..=2000).contains(&count(Operation::Allreduce, 8, 2)));
        assert!((200..300).contains(&count(Operation::Bcast, 8, 8)));
        assert!((7..20).contains(&count(Operation::Bcast, MI, 2)));
        assert_eq!(count(Operation::Barrier, 0, 2), 2000);
        assert_eq!(count(Operation::Alltoall, MI, 8), 4);
    }
}
