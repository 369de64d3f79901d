//! Sparse exchanges among the ranks of a world. `peer.c` exchanges the same messages with MPI; keep both in step.
//!
//! A batch is some rounds back to back, without barriers between them; only exchanges are timed. The messages of all
//! rounds are generated before, as the paper's microbenchmark draws them; batches differ only in their contents. The
//! first round is not timed. The time of the slowest rank counts.
//! After a batch, the counts and sizes of the messages received in each round are checked, and every byte of the last
//! round.

use std::time::Duration;

use anyhow::{Context, ensure};
use treepie::{Comm, Received, SparseExchange};
use treepie_sparse::{ExchangeProtocol, NetworkRoutes, chosen_protocol};

use super::protocol_costs::{CountedCosts, count_costs};
use super::task::{MessageSpec, ProtocolId};
use crate::harness::case::Case;
use crate::harness::rank::{Benchmark, time_operations};

/// A rank and the messages of the current group.
pub(crate) struct Exchanges {
    world: Comm,
    /// A handle with the protocol of each case, and the protocol, possibly selected automatically.
    handles: Vec<(Comm, Option<ExchangeProtocol>)>,
    /// The messages it sends in each round: destination and size.
    sends: Vec<Vec<(u32, usize)>>,
    /// Number and bytes of the messages expected in each round.
    expected: Vec<(usize, usize)>,
    /// Source and size of the messages expected in the last round.
    expected_last: Vec<(usize, usize)>,
    /// Messages are slices of it.
    pattern: Vec<u8>,
    /// Number of the batch, which messages carry.
    batch_index: usize,
}

impl Benchmark for Exchanges {
    type Task = MessageSpec;
    type Program = ProtocolId;
    const TIMES_SLOWEST_RANK: bool = true;

    fn new(world: &Comm, _: &[ExchangeCase]) -> anyhow::Result<Self> {
        let (handles, sends, expected, expected_last) = Default::default();
        Ok(Self { world: world.clone(), handles, sends, expected, expected_last, pattern: Vec::new(), batch_index: 0 })
    }

    fn prepare(&mut self, group: &[ExchangeCase]) -> anyhow::Result<()> {
        let Case { task, count, .. } = &group[0];
        let (me, ranks) = (self.world.rank() as u32, self.world.size() as u32);
        let drawn = task.to_microbenchmark(ranks);
        let rounds = 0..=*count as u32;
        let to_me = |round: u32| {
            let of = |from: u32| drawn.messages(from, round).into_iter().map(move |(to, bytes)| (from, to, bytes));
            let all = (0..ranks).filter(|from| *from != me).flat_map(of);
            all.filter(|(_, to, _)| *to == me).map(|(from, _, bytes)| (from as usize, bytes)).collect::<Vec<_>>()
        };
        let summed = |round| {
            let expected = to_me(round);
            (expected.len(), expected.iter().map(|(_, bytes)| bytes).sum())
        };
        let handle = |case: &ExchangeCase| self.world.with_algorithm(case.program.0).map(|comm| (comm, None));
        *self = Self {
            world: self.world.clone(),
            handles: group.iter().map(handle).collect::<treepie::Result<_>>()?,
            sends: rounds.clone().map(|round| drawn.messages(me, round)).collect(),
            expected: rounds.clone().map(summed).collect(),
            expected_last: to_me(*rounds.end()),
            // Different slices differ.
            pattern: (0..task.lengths.end() + PATTERN_OFFSETS).map(|i| (i + (i >> 8)) as u8).collect(),
            batch_index: 0,
        };
        Ok(())
    }

    fn batch(&mut self, case: &ExchangeCase, index: usize, _: usize) -> anyhow::Result<Duration> {
        self.batch_index += 1;
        let me = self.world.rank();
        let made = self.sends.iter().enumerate().map(|(round, sends)| {
            let made = |(to, bytes): &(u32, usize)| {
                let to = *to as usize;
                (to, self.message(me, to, round, *bytes).to_vec())
            };
            sends.iter().map(made).collect::<Vec<_>>()
        });
        let mut made = made.collect::<Vec<_>>().into_iter();
        let mut received = Vec::with_capacity(made.len());
        let mut last = Vec::new();
        let (comm, protocol) = &mut self.handles[index];
        self.world.barrier()?;
        let time = time_operations(case.count, |_| {
            last = comm.exchange(made.next().context("the messages of all rounds")?)?;
            received.push((last.len(), last.iter().map(|(_, data)| data.len()).sum()));
            Ok(())
        })?;
        *protocol = chosen_protocol(comm);
        self.check(case.count, &received, &last)?;
        Ok(time)
    }

    /// For each case, protocol, memory and messages of a rank; and for the messages the bytes sent in a batch, and
    /// their sum weighted by the receiver's rank.
    fn describe(&self, group: &[ExchangeCase]) -> anyhow::Result<Vec<String>> {
        if self.world.rank() != 0 {
            return Ok(Vec::new());
        }
        let ranks = self.world.size() as u32;
        let drawn = group[0].task.to_microbenchmark(ranks);
        let mut lines = Vec::new();
        for (case, (comm, protocol)) in group.iter().zip(&self.handles) {
            let protocol = protocol.context("no protocol was selected")?;
            let routes = NetworkRoutes::of(comm).routes;
            let CountedCosts { memory, messages } = count_costs(protocol, comm.capabilities(), &routes, &drawn)?;
            lines.push(format!("about {case} {protocol} {memory} {messages}"));
        }
        let all = (0..ranks).flat_map(|rank| (0..=group[0].count).map(move |round| (rank, round as u32)));
        let sends: Vec<(u32, usize)> = all.flat_map(|(rank, round)| drawn.messages(rank, round)).collect();
        let bytes: usize = sends.iter().map(|(_, bytes)| bytes).sum();
        let by_receivers: usize = sends.iter().map(|(to, bytes)| bytes * *to as usize).sum();
        lines.push(format!("sent {} {bytes} {by_receivers}", group[0].of_peer()));
        Ok(lines)
    }
}

type ExchangeCase = Case<MessageSpec, ProtocolId>;

/// Number of offsets in the pattern at which messages start.
const PATTERN_OFFSETS: usize = 256;

impl Exchanges {
    fn message(&self, from: usize, to: usize, round: usize, bytes: usize) -> &[u8] {
        let begin = (17 * from + 5 * to + 3 * round + self.batch_index) % PATTERN_OFFSETS;
        &self.pattern[begin..begin + bytes]
    }

    fn check(&self, last_round: usize, received: &[(usize, usize)], last: &Received<u8>) -> anyhow::Result<()> {
        let me = self.world.rank();
        for (round, (received, expected)) in received.iter().zip(&self.expected).enumerate() {
            ensure!(
                received == expected,
                "rank {me} received {} messages with {} bytes instead of {} with {} in round {round}",
                received.0,
                received.1,
                expected.0,
                expected.1
            );
        }
        for ((from, data), (source, bytes)) in last.iter().zip(&self.expected_last) {
            ensure!(from == source, "rank {me} received a message of rank {from} instead of {source}");
            let right = self.message(*source, me, last_round, *bytes);
            ensure!(data == right, "rank {me} received other data than rank {from} sent");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use treepie_sparse::ReactorCapabilities;

    use super::super::task::{AUTO, ProtocolChoice};
    use super::*;
    use crate::harness::launch::on_threads;
    use crate::harness::output;
    use crate::harness::rank::measure;
    use crate::harness::testing::measured;

    /// Cases of all protocols, those of the same messages together.
    fn texts(neighbors: [u32; 2]) -> Vec<String> {
        let all = ReactorCapabilities { barrier: true, barrier_flushes: true, counters: true };
        let ids = ProtocolChoice::All.ids(all).unwrap();
        let of = |k: u32, id: &str| [format!("1:{k}:1-1024:5:2@{id}"), format!("1:{k}:20000-20000:3:2@{id}")];
        let mut texts: Vec<String> = ids.iter().flat_map(|id| neighbors.into_iter().flat_map(|k| of(k, id))).collect();
        texts.sort();
        texts
    }

    #[test]
    fn every_protocol_is_measured_and_checked() {
        for (ranks, neighbors) in [(2, [0, 1]), (5, [1, 4])] {
            let texts = texts(neighbors);
            let printed = measured::<Exchanges>(ranks, &texts);
            for text in &texts {
                let protocol = output::find(&printed, "about", text).unwrap().next().unwrap();
                let id = text.split_once('@').unwrap().1;
                assert!(id == AUTO || id == protocol, "{text} used {protocol}");
            }
        }
    }

    #[test]
    fn messages_are_counted_over_the_routes_of_the_communicator() {
        // The barrier goes over coordinators, in fewer messages of a rank than the three of a dissemination.
        let cases: Vec<ExchangeCase> = vec!["1:2:8-8:1:1@exchange/nbx".parse().unwrap()];
        let lines = |world: &Comm| Ok(measure::<Exchanges>(world, &cases).expect("it runs").lines);
        let links = "clusters:2x4,wan=0us/1GBps,lan=0us/1GBps";
        let emulated = treepie::launch_emulated(links, |world| lines(&world)).unwrap();
        assert!(emulated[0][0].starts_with("about 1:2:8-8:1:1@exchange/nbx exchange/nbx "), "{emulated:?}");
        let messages = |line: &str| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap();
        let dissemination = 2.0 + 3.0;
        assert!(messages(&emulated[0][0]) < dissemination, "{emulated:?}");
    }

    #[test]
    fn all_ranks_use_the_same_protocol() {
        for (ranks, neighbors) in [(2, [0, 1]), (5, [1, 4])] {
            let cases: Vec<ExchangeCase> = texts(neighbors).iter().map(|text| text.parse().unwrap()).collect();
            let used = on_threads(ranks, |world| {
                let mut exchanges = Exchanges::new(world, &cases)?;
                let mut used = Vec::new();
                for case in &cases {
                    exchanges.prepare(std::slice::from_ref(case))?;
                    for turn in 0..3 {
                        exchanges.batch(case, 0, turn)?;
                    }
                    used.push(exchanges.handles[0].1);
                }
                Ok(used)
            });
            let used = used.unwrap();
            assert!(used[0].iter().all(Option::is_some) && used.iter().all(|rank| *rank == used[0]), "{used:?}");
        }
    }

    #[test]
    fn wrong_results_are_found() {
        let found = on_threads(3, |world| {
            let cases = ["1:2:1-64:2:1@exchange/nbx".parse().unwrap()];
            let mut rank = Exchanges::new(world, &cases)?;
            rank.prepare(&cases)?;
            let before = rank.message(0, 1, 2, 64).to_vec();
            rank.batch(&cases[0], 0, 0)?;
            assert_ne!(rank.message(0, 1, 2, 64), before, "each batch has other contents");
            let counts = rank.expected.clone();
            let message =
                |(from, bytes): &(usize, usize)| (*from, rank.message(*from, world.rank(), 2, *bytes).to_vec());
            let right: Received<u8> = rank.expected_last.iter().map(message).collect();
            rank.check(2, &counts, &right)?;
            let error =
                |counts: &[(usize, usize)], last: &Received<u8>| rank.check(2, counts, last).unwrap_err().to_string();
            let mut fewer = counts.clone();
            fewer[1].0 -= 1;
            let (mut changed, mut exchanged) = (right.clone(), right);
            changed[1].1[0] += 1;
            exchanged.swap(0, 1);
            let all = [error(&fewer, &changed), error(&counts, &changed), error(&counts, &exchanged)];
            rank.batch_index += 1;
            exchanged.swap(0, 1);
            Ok((all, rank.check(2, &counts, &exchanged).unwrap_err().to_string()))
        });
        for ([fewer, changed, exchanged], old) in found.unwrap() {
            assert!(fewer.contains("received 1 messages") && fewer.contains("in round 1"), "{fewer}");
            assert!(changed.contains("other data"), "{changed}");
            assert!(exchanged.contains("a message of rank"), "{exchanged}");
            assert!(old.contains("other data"), "{old}");
        }
    }
}
