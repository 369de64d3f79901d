//! The tasks of the sparse exchange benchmark, and its figures.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use treepie_sparse::{ExchangeProtocol, Microbenchmark, ReactorCapabilities};

use crate::harness::case::Case;
use crate::harness::figure::{EMULATED_BATCHES, Figure, Measure};

/// Message sizes in the NBX paper.
pub(super) const MESSAGE_BYTES: RangeInclusive<usize> = 1..=1024;

/// The id of the automatic selection.
pub(super) const AUTO: &str = "exchange/auto";

/// Number of neighbors each rank sends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Neighbors {
    Number(u32),
    /// P/2.
    Half,
    /// P-1.
    All,
}

impl Neighbors {
    /// The number among `ranks` ranks, if there are enough.
    pub(super) fn resolve(self, ranks: u32) -> Result<u32, String> {
        let max = ranks.saturating_sub(1);
        match self {
            Neighbors::Number(number) if number > max => {
                Err(format!("with {ranks} ranks there are at most {max} neighbors, not {number}"))
            }
            Neighbors::Number(number) => Ok(number),
            Neighbors::Half => Ok(ranks / 2),
            Neighbors::All => Ok(max),
        }
    }
}

impl FromStr for Neighbors {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "half" => Ok(Neighbors::Half),
            "all" => Ok(Neighbors::All),
            _ => text.parse().map(Neighbors::Number).map_err(|_| "expected a number of neighbors, `half` or `all`"),
        }
    }
}

/// The requested protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProtocolChoice {
    /// All, and automatic selection.
    All,
    /// Automatic selection.
    Auto,
    One(ExchangeProtocol),
}

impl FromStr for ProtocolChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let id = if text.contains('/') { text.to_owned() } else { format!("exchange/{text}") };
        match text {
            "all" => Ok(ProtocolChoice::All),
            _ if id == AUTO => Ok(ProtocolChoice::Auto),
            _ => id.parse().map(ProtocolChoice::One).map_err(|_| {
                format!(
                    "there is no such protocol; the protocols are all, auto, {}",
                    ExchangeProtocol::ALL.map(ExchangeProtocol::id).join(", ")
                )
            }),
        }
    }
}

impl ProtocolChoice {
    /// The ids of those that these capabilities support.
    pub(super) fn ids(self, capabilities: ReactorCapabilities) -> Result<Vec<&'static str>, String> {
        match self {
            ProtocolChoice::Auto => Ok(vec![AUTO]),
            ProtocolChoice::One(protocol) => match protocol.missing_capability(capabilities) {
                Some(missing) => Err(format!("{protocol} needs {missing}, which this engine does not have")),
                None => Ok(vec![protocol.id()]),
            },
            ProtocolChoice::All => {
                let supported = ExchangeProtocol::ALL
                    .into_iter()
                    .filter(|protocol| protocol.missing_capability(capabilities).is_none());
                Ok(supported.map(ExchangeProtocol::id).chain([AUTO]).collect())
            }
        }
    }
}

/// More than in other benchmarks: the pages of a ring between two ranks are first touched as it is first filled, which
/// takes several batches of short messages to all neighbors.
pub(super) const BATCHES: usize = 25;

/// Messages that ranks exchange in rounds. As text: `1:6:1-1024`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MessageSpec {
    pub(super) seed: u64,
    pub(super) neighbors: u32,
    pub(super) lengths: RangeInclusive<usize>,
}

impl MessageSpec {
    pub(super) fn to_microbenchmark(&self, ranks: u32) -> Microbenchmark {
        Microbenchmark { seed: self.seed, ranks, neighbors: self.neighbors, lengths: self.lengths.clone() }
    }

    /// Approximate bytes of a batch, of all ranks: all messages are generated before it, and those of a round exist
    /// twice.
    pub(super) fn memory(&self, ranks: u32) -> f64 {
        let rounds = self.rounds_per_batch(ranks) + 2;
        rounds as f64 * f64::from(ranks) * f64::from(self.neighbors) * self.mean_length()
    }

    /// Rounds of a batch of about 3 ms where each rank has a core, about 10 ms if oversubscribed; from an estimate of
    /// the time of a round, the same for all protocols and for MPI.
    fn rounds_per_batch(&self, ranks: u32) -> usize {
        const BYTES_PER_MICRO: f64 = 5000.0;
        let (batch, start) = if ranks <= 2 { (3000.0, 1.5) } else { (10_000.0, 4.0 * f64::from(ranks)) };
        let messages = f64::from(ranks) * f64::from(self.neighbors);
        ((batch / (start + messages * (0.1 + self.mean_length() / BYTES_PER_MICRO))) as usize).clamp(4, 1000)
    }

    fn mean_length(&self) -> f64 {
        (self.lengths.start() + self.lengths.end()) as f64 / 2.0
    }

    /// The suffix of names: `k6`, or with one size `k6/65536`.
    pub(super) fn name(&self) -> String {
        let k = self.neighbors;
        if self.lengths == MESSAGE_BYTES { format!("k{k}") } else { format!("k{k}/{}", self.lengths.end()) }
    }
}

impl fmt::Display for MessageSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, neighbors, lengths } = self;
        write!(f, "{seed}:{neighbors}:{}-{}", lengths.start(), lengths.end())
    }
}

impl FromStr for MessageSpec {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let parse = || {
            let parts: Vec<&str> = text.split(':').collect();
            let [seed, neighbors, lengths] = parts[..] else { return None };
            let (shortest, longest) = lengths.split_once('-')?;
            let lengths = shortest.parse().ok()?..=longest.parse().ok()?;
            let (seed, neighbors) = (seed.parse().ok()?, neighbors.parse().ok()?);
            (!lengths.is_empty()).then_some(Self { seed, neighbors, lengths })
        };
        parse().ok_or(())
    }
}

/// The id of a protocol, or that of the automatic selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProtocolId(pub(super) &'static str);

impl fmt::Display for ProtocolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl FromStr for ProtocolId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut ids = ExchangeProtocol::ALL.into_iter().map(ExchangeProtocol::id).chain([AUTO]);
        ids.find(|id| *id == text).map(Self).ok_or(())
    }
}

/// The figures: these messages with these protocols.
pub(super) fn figures(messages: &[MessageSpec], ranks: u32, ids: &[&'static str], is_emulated: bool) -> Vec<Figure> {
    let figure = |task: &MessageSpec, id: &'static str| {
        let program = ProtocolId(id);
        // A round over emulated links takes long and varies little.
        let (count, batches) =
            if is_emulated { (1, EMULATED_BATCHES) } else { (task.rounds_per_batch(ranks), BATCHES) };
        let case = Case { task: task.clone(), count, batches, program };
        Figure::new(format!("{id}/{}", task.name()), &case, Measure::Time)
    };
    messages.iter().flat_map(|task| ids.iter().map(move |id| figure(task, id))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::rank::Exchanges;
    use super::*;
    use crate::harness::testing::{assert_no_cases, assert_round_trip};

    fn cases(ranks: u32, is_emulated: bool) -> Vec<Figure> {
        let messages = [(1, MESSAGE_BYTES), (6, MESSAGE_BYTES), (6, 8..=8)].map(|(neighbors, lengths)| MessageSpec {
            seed: 7,
            neighbors,
            lengths,
        });
        figures(&messages, ranks, &["exchange/nbx", "exchange/nbx:condition=1", AUTO], is_emulated)
    }

    #[test]
    fn cases_round_trip_through_text() {
        assert_round_trip::<Exchanges>(cases(16, false).into_iter().map(|figure| figure.case));
        assert_no_cases::<Exchanges>(&[
            "",
            "1:6:1-1024:200:9",
            "1:6:1-1024:200@exchange/nbx",
            "1:6:1:200:9@exchange/nbx",
            "1:6:9-8:200:9@exchange/nbx",
            "1:6:1-8:0:9@exchange/nbx",
            "1:6:1-8:9:0@exchange/nbx",
            "1:-6:1-8:9:9@exchange/nbx",
            "1:6:1-8:9:9@exchange/walk",
        ]);
    }

    #[test]
    fn names_are_those_of_the_records_and_the_peer_gets_each_exchange_once() {
        assert!(cases(16, true).iter().all(|figure| figure.case.contains(":1:2@")));
        let figures = cases(16, false);
        let names: Vec<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
        assert_eq!(names[0], "exchange/nbx/k1");
        assert_eq!(names[3..6], ["exchange/nbx/k6", "exchange/nbx:condition=1/k6", "exchange/auto/k6"]);
        assert_eq!(names[8], "exchange/auto/k6/8");
        assert!(figures[3..6].iter().all(|figure| figure.peer_case() == figures[3].peer_case()));
        assert!(figures[3].peer_case().starts_with("7:6:1-1024:") && figures[6].peer_case().starts_with("7:6:8-8:"));
    }

    #[test]
    fn neighbors_are_at_most_the_other_ranks() {
        let among = |text: &str, ranks| text.parse::<Neighbors>().unwrap().resolve(ranks);
        assert_eq!([among("6", 16), among("half", 16), among("all", 16)], [Ok(6), Ok(8), Ok(15)]);
        assert_eq!([among("half", 2), among("all", 2), among("0", 2)], [Ok(1), Ok(1), Ok(0)]);
        assert!(among("16", 16).unwrap_err().contains("at most 15 neighbors, not 16"));
        assert!("some".parse::<Neighbors>().is_err() && "-1".parse::<Neighbors>().is_err());
    }

    #[test]
    fn protocols_are_those_that_the_engine_supports() {
        let all = ReactorCapabilities { barrier: true, barrier_flushes: true, counters: true };
        assert_eq!("all".parse::<ProtocolChoice>().unwrap().ids(all).unwrap().len(), ExchangeProtocol::ALL.len() + 1);
        let few = ProtocolChoice::All.ids(ReactorCapabilities::default()).unwrap();
        assert!(!few.contains(&"exchange/nbx:condition=1") && few.contains(&"exchange/nbx:condition=2"), "{few:?}");
        for id in ["nbx:condition=1", "exchange/nbx:condition=1"] {
            let choice: ProtocolChoice = id.parse().unwrap();
            assert_eq!(choice.ids(all).unwrap(), ["exchange/nbx:condition=1"]);
            assert!(choice.ids(ReactorCapabilities::default()).unwrap_err().contains("needs a barrier"));
        }
        assert!("walk".parse::<ProtocolChoice>().unwrap_err().contains("exchange/crystal"));
    }

    #[test]
    fn counts_make_batches_of_milliseconds() {
        let messages = |neighbors, lengths| MessageSpec { seed: 1, neighbors, lengths };
        assert_eq!(messages(1, 8..=8).rounds_per_batch(2), 1000);
        assert!((80..200).contains(&messages(6, MESSAGE_BYTES).rounds_per_batch(16)));
        assert_eq!(messages(15, 65536..=65536).rounds_per_batch(16), 4);
        assert!(messages(15, 65536..=65536).memory(16) < 100e6);
    }
}
