//! What the benchmark of sparse exchanges measures: one table, which Treepie's ranks and the MPI program both get as their
//! arguments, so that both exchange the same messages.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use treepie_sparse::{Means, Microbenchmark, Protocol};

use super::super::figure::{Figure, Measure};

/// Bytes of messages in the paper.
pub(super) const LENGTHS: RangeInclusive<usize> = 1..=1024;

/// The protocol that is chosen, by its name among the others.
pub(super) const AUTO: &str = "exchange/auto";

/// How many others each rank sends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Neighbours {
    Number(u32),
    /// P/2.
    Half,
    /// P-1.
    All,
}

impl Neighbours {
    /// Among so many ranks, if there are enough.
    pub(super) fn among(self, ranks: u32) -> Result<u32, String> {
        let most = ranks.saturating_sub(1);
        match self {
            Neighbours::Number(number) if number > most => {
                Err(format!("each of {ranks} ranks has {most} others, and not {number} to send to"))
            }
            Neighbours::Number(number) => Ok(number),
            Neighbours::Half => Ok(ranks / 2),
            Neighbours::All => Ok(most),
        }
    }
}

impl FromStr for Neighbours {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "half" => Ok(Neighbours::Half),
            "all" => Ok(Neighbours::All),
            _ => text.parse().map(Neighbours::Number).map_err(|_| "not a number of ranks, `half` or `all`"),
        }
    }
}

/// The protocols that the user asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// All, and the one that is chosen.
    All,
    /// The one that is chosen.
    Auto,
    One(Protocol),
}

impl FromStr for Asked {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let id = if text.contains('/') { text.to_owned() } else { format!("exchange/{text}") };
        match text {
            "all" => Ok(Asked::All),
            _ if id == AUTO => Ok(Asked::Auto),
            _ => id.parse().map(Asked::One).map_err(|_| {
                format!(
                    "there is no such protocol; there are all, auto, {}",
                    Protocol::ALL.map(Protocol::id).join(", ")
                )
            }),
        }
    }
}

impl Asked {
    /// By name, those that there are with these means.
    pub(super) fn ids(self, means: Means) -> Result<Vec<&'static str>, String> {
        match self {
            Asked::Auto => Ok(vec![AUTO]),
            Asked::One(protocol) => match protocol.lacks(means) {
                Some(lacking) => Err(format!("{protocol} needs {lacking}, which there is not on this engine")),
                None => Ok(vec![protocol.id()]),
            },
            Asked::All => {
                let possible = Protocol::ALL.into_iter().filter(|protocol| protocol.lacks(means).is_none());
                Ok(possible.map(Protocol::id).chain([AUTO]).collect())
            }
        }
    }
}

/// More than of other benchmarks: until each ring between two ranks has been used from its beginning to its end, pages of it
/// are touched for the first time, which takes several batches of short messages to all sides.
pub(super) const BATCHES: usize = 25;

/// Messages that ranks exchange in rounds. As text: `1:6:1-1024:200:9`, which is what the MPI program gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Messages {
    pub(super) seed: u64,
    pub(super) neighbours: u32,
    pub(super) lengths: RangeInclusive<usize>,
    /// Rounds in a batch that are timed together; one more goes before, untimed.
    pub(super) count: usize,
    /// How many batches; one more goes before, to warm up.
    pub(super) batches: usize,
}

impl Messages {
    pub(super) fn new(seed: u64, ranks: u32, neighbours: u32, lengths: RangeInclusive<usize>) -> Self {
        let count = count(ranks, neighbours, mean(&lengths));
        Self { seed, neighbours, lengths, count, batches: BATCHES }
    }

    pub(super) fn of_ranks(&self, ranks: u32) -> Microbenchmark {
        Microbenchmark { seed: self.seed, ranks, neighbours: self.neighbours, lengths: self.lengths.clone() }
    }

    /// Bytes that a batch takes, of all ranks, about: all messages are made before it, and those of a round come twice.
    pub(super) fn memory(&self, ranks: u32) -> f64 {
        (self.count + 2) as f64 * f64::from(ranks) * f64::from(self.neighbours) * mean(&self.lengths)
    }

    /// As the last part of names: `k6`, or with one length `k6/65536`.
    pub(super) fn name(&self) -> String {
        let k = self.neighbours;
        if self.lengths == LENGTHS { format!("k{k}") } else { format!("k{k}/{}", self.lengths.end()) }
    }
}

fn mean(lengths: &RangeInclusive<usize>) -> f64 {
    (lengths.start() + lengths.end()) as f64 / 2.0
}

impl fmt::Display for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, neighbours, lengths, count, batches } = self;
        write!(f, "{seed}:{neighbours}:{}-{}:{count}:{batches}", lengths.start(), lengths.end())
    }
}

/// Messages, and by which protocol. As text: `1:6:1-1024:200:9@exchange/nbx`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(super) messages: Messages,
    pub(super) id: String,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.messages, self.id)
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (messages, id) = text.split_once('@')?;
            let parts: Vec<&str> = messages.split(':').collect();
            let [seed, neighbours, lengths, count, batches] = parts[..] else { return None };
            let (shortest, longest) = lengths.split_once('-')?;
            let lengths = shortest.parse().ok()?..=longest.parse().ok()?;
            let (count, batches) = (count.parse().ok()?, batches.parse().ok()?);
            let possible = !lengths.is_empty() && count > 0 && batches > 0 && id.parse::<Asked>().is_ok();
            let (seed, neighbours) = (seed.parse().ok()?, neighbours.parse().ok()?);
            let messages = Messages { seed, neighbours, lengths, count, batches };
            possible.then(|| Self { messages, id: id.to_owned() })
        };
        parse().ok_or_else(|| "not a case as 1:6:1-1024:200:9@exchange/nbx".to_owned())
    }
}

/// What is measured: these messages by these protocols.
pub(super) fn figures(messages: &[Messages], ids: &[&str]) -> Vec<Figure> {
    let figure = |messages: &Messages, id: &str| Figure {
        name: format!("{id}/{}", messages.name()),
        case: Case { messages: messages.clone(), id: id.to_owned() }.to_string(),
        bytes: 0,
        measure: Measure::Time,
        through_rings: false,
    };
    messages.iter().flat_map(|messages| ids.iter().map(move |id| figure(messages, id))).collect()
}

/// Rounds of a batch of about 3 ms where each rank has a core, about 10 ms where many share one; by a guess of how long a
/// round takes, which is the same for all protocols and for the MPI.
fn count(ranks: u32, neighbours: u32, bytes: f64) -> usize {
    const BYTES_PER_MICRO: f64 = 5000.0;
    let (batch, start) = if ranks <= 2 { (3000.0, 1.5) } else { (10_000.0, 4.0 * f64::from(ranks)) };
    let messages = f64::from(ranks) * f64::from(neighbours);
    ((batch / (start + messages * (0.1 + bytes / BYTES_PER_MICRO))) as usize).clamp(4, 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases(ranks: u32) -> Vec<Figure> {
        let messages = [(1, LENGTHS), (6, LENGTHS), (6, 8..=8)].map(|(k, lengths)| Messages::new(7, ranks, k, lengths));
        figures(&messages, &["exchange/nbx", "exchange/nbx:condition=1", AUTO])
    }

    #[test]
    fn cases_are_read_as_they_are_written() {
        for figure in cases(16) {
            assert_eq!(figure.case.parse::<Case>().map(|case| case.to_string()), Ok(figure.case));
        }
        for bad in [
            "",
            "1:6:1-1024:200:9",
            "1:6:1-1024:200@exchange/nbx",
            "1:6:1:200:9@exchange/nbx",
            "1:6:9-8:200:9@exchange/nbx",
            "1:6:1-8:0:9@exchange/nbx",
            "1:6:1-8:9:0@exchange/nbx",
            "1:-6:1-8:9:9@exchange/nbx",
            "1:6:1-8:9:9@exchange/walk",
        ] {
            assert!(bad.parse::<Case>().is_err(), "{bad}");
        }
    }

    #[test]
    fn names_are_those_of_the_records_and_the_peer_gets_each_exchange_once() {
        let figures = cases(16);
        let names: Vec<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
        assert_eq!(names[0], "exchange/nbx/k1");
        assert_eq!(names[3..6], ["exchange/nbx/k6", "exchange/nbx:condition=1/k6", "exchange/auto/k6"]);
        assert_eq!(names[8], "exchange/auto/k6/8");
        assert!(figures[3..6].iter().all(|figure| figure.peer_case() == figures[3].peer_case()));
        assert!(figures[3].peer_case().starts_with("7:6:1-1024:") && figures[6].peer_case().starts_with("7:6:8-8:"));
    }

    #[test]
    fn neighbours_are_no_more_than_there_are() {
        let among = |text: &str, ranks| text.parse::<Neighbours>().unwrap().among(ranks);
        assert_eq!([among("6", 16), among("half", 16), among("all", 16)], [Ok(6), Ok(8), Ok(15)]);
        assert_eq!([among("half", 2), among("all", 2), among("0", 2)], [Ok(1), Ok(1), Ok(0)]);
        assert!(among("16", 16).unwrap_err().contains("15 others, and not 16"));
        assert!("some".parse::<Neighbours>().is_err() && "-1".parse::<Neighbours>().is_err());
    }

    #[test]
    fn protocols_are_those_that_the_engine_can_do() {
        let all = Means { barrier: true, arrives_last: true, counters: true };
        assert_eq!("all".parse::<Asked>().unwrap().ids(all).unwrap().len(), Protocol::ALL.len() + 1);
        let few = Asked::All.ids(Means::default()).unwrap();
        assert!(!few.contains(&"exchange/nbx:condition=1") && few.contains(&"exchange/nbx:condition=2"), "{few:?}");
        for id in ["nbx:condition=1", "exchange/nbx:condition=1"] {
            let asked: Asked = id.parse().unwrap();
            assert_eq!(asked.ids(all).unwrap(), ["exchange/nbx:condition=1"]);
            assert!(asked.ids(Means::default()).unwrap_err().contains("needs a barrier"));
        }
        assert!("walk".parse::<Asked>().unwrap_err().contains("exchange/crystal"));
    }

    #[test]
    fn counts_make_batches_of_milliseconds() {
        let count = |ranks, k, lengths: RangeInclusive<usize>| Messages::new(1, ranks, k, lengths).count;
        assert_eq!(count(2, 1, 8..=8), 1000);
        assert!((80..200).contains(&count(16, 6, LENGTHS)));
        assert_eq!(count(16, 15, 65536..=65536), 4);
        assert!(Messages::new(1, 16, 15, 65536..=65536).memory(16) < 100e6);
    }
}
