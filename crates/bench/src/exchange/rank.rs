//! Measures sparse exchanges among the ranks of a world. `exchange_peer.c` exchanges the same messages with MPI; keep
//! both in step.
//!
//! A batch is some rounds back to back, without barriers between them; only exchanges are timed. The messages of all
//! rounds are generated before, as the paper's microbenchmark draws them; batches differ only in their contents. The
//! first round is not timed. The time of the slowest rank counts.
//! Protocols for the same messages alternate, batch by batch, so that noise affects all of them. The order changes, as
//! a batch may depend on what the one before has left behind.
//! After a batch, the counts and sizes of the messages received in each round are checked, and every byte of the last
//! round.

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, ensure};
use treepie::{Comm, Received, SparseExchange};
use treepie_sparse::{ExchangeProtocol, chosen_protocol};

use super::super::{batches, output};
use super::case::{Case, MessageSpec};
use super::protocol_costs::{CountedCosts, count_costs};

/// One rank of the sparse exchange benchmark.
#[derive(clap::Args)]
pub struct ExchangeRank {
    /// Launch a world of this number of threads instead of joining one.
    #[arg(long, value_name = "P")]
    threads: Option<usize>,
    cases: Vec<Case>,
}

impl ExchangeRank {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        batches::on_ranks(self.threads, |world| {
            let measured = measure(&world, &self.cases)?;
            if world.rank() == 0 { print(&world, &self.cases, &measured) } else { Ok(()) }
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The measurement of a case.
struct Measurement {
    /// Microseconds per round, one for each batch; on rank 0.
    times: Vec<f64>,
    /// The protocol, possibly selected automatically.
    protocol: ExchangeProtocol,
}

/// Measures each case; adjacent cases of the same messages alternate.
fn measure(world: &Comm, cases: &[Case]) -> anyhow::Result<Vec<Measurement>> {
    let mut measured = Vec::new();
    for group in cases.chunk_by(|a, b| a.messages == b.messages) {
        let handles =
            group.iter().map(|case| world.with_algorithm(&case.id)).collect::<treepie::Result<Vec<Comm>>>()?;
        let mut rank = Rank::new(world, &group[0].messages);
        let mut protocols = vec![None; group.len()];
        let turns = batches::repeat_several(world, rank.messages.batches, group.len() as u32, || {
            let mut times = vec![0.0; group.len()];
            for i in batches::balanced_order(rank.batch_index / group.len(), group.len()) {
                times[i] = rank.batch(&handles[i]).with_context(|| group[i].to_string())?;
                protocols[i] = chosen_protocol(&handles[i]);
            }
            Ok(times)
        })?;
        for (i, protocol) in protocols.into_iter().enumerate() {
            let times = turns.iter().map(|times| times[i]).collect();
            measured.push(Measurement { times, protocol: protocol.context("no protocol was selected")? });
        }
    }
    Ok(measured)
}

/// Prints the common lines; then, for each case, protocol, memory and messages of a rank, and for all messages the
/// bytes sent in a batch, and their sum weighted by the receiver's rank.
fn print(world: &Comm, cases: &[Case], measured: &[Measurement]) -> anyhow::Result<()> {
    let times: Vec<Vec<f64>> = measured.iter().map(|measured| measured.times.clone()).collect();
    output::print(world.engine(), cases, &times)?;
    let ranks = world.size() as u32;
    let mut out = std::io::stdout().lock();
    for (case, measured) in cases.iter().zip(measured) {
        let CountedCosts { memory, messages } =
            count_costs(measured.protocol, world.capabilities(), &case.messages.to_microbenchmark(ranks))?;
        writeln!(out, "about {case} {} {memory} {messages}", measured.protocol)?;
    }
    for group in cases.chunk_by(|a, b| a.messages == b.messages) {
        let messages = &group[0].messages;
        let drawn = messages.to_microbenchmark(ranks);
        let all = (0..ranks).flat_map(|rank| (0..=messages.count).map(move |round| (rank, round as u32)));
        let sends: Vec<(u32, usize)> = all.flat_map(|(rank, round)| drawn.messages(rank, round)).collect();
        let bytes: usize = sends.iter().map(|(_, bytes)| bytes).sum();
        let by_receivers: usize = sends.iter().map(|(to, bytes)| bytes * *to as usize).sum();
        writeln!(out, "sent {messages} {bytes} {by_receivers}")?;
    }
    Ok(())
}

/// A rank and its messages.
struct Rank<'a> {
    world: &'a Comm,
    messages: &'a MessageSpec,
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

/// Number of offsets in the pattern at which messages start.
const PATTERN_OFFSETS: usize = 256;

impl<'a> Rank<'a> {
    fn new(world: &'a Comm, messages: &'a MessageSpec) -> Self {
        let (me, ranks) = (world.rank() as u32, world.size() as u32);
        let drawn = messages.to_microbenchmark(ranks);
        let rounds = 0..=messages.count as u32;
        let to_me = |round: u32| {
            let of = |from: u32| drawn.messages(from, round).into_iter().map(move |(to, bytes)| (from, to, bytes));
            let all = (0..ranks).filter(|from| *from != me).flat_map(of);
            all.filter(|(_, to, _)| *to == me).map(|(from, _, bytes)| (from as usize, bytes)).collect::<Vec<_>>()
        };
        let summed = |round| {
            let expected = to_me(round);
            (expected.len(), expected.iter().map(|(_, bytes)| bytes).sum())
        };
        Self {
            world,
            messages,
            sends: rounds.clone().map(|round| drawn.messages(me, round)).collect(),
            expected: rounds.clone().map(summed).collect(),
            expected_last: to_me(*rounds.end()),
            // Different slices differ.
            pattern: (0..messages.lengths.end() + PATTERN_OFFSETS).map(|i| (i + (i >> 8)) as u8).collect(),
            batch_index: 0,
        }
    }

    fn message(&self, from: usize, to: usize, round: usize, bytes: usize) -> &[u8] {
        let begin = (17 * from + 5 * to + 3 * round + self.batch_index) % PATTERN_OFFSETS;
        &self.pattern[begin..begin + bytes]
    }

    /// Microseconds per round, on rank 0.
    fn batch(&mut self, comm: &Comm) -> anyhow::Result<f64> {
        self.batch_index += 1;
        let me = comm.rank();
        let made = self.sends.iter().enumerate().map(|(round, sends)| {
            let made = |(to, bytes): &(u32, usize)| {
                let to = *to as usize;
                (to, self.message(me, to, round, *bytes).to_vec())
            };
            sends.iter().map(made).collect::<Vec<_>>()
        });
        let made: Vec<_> = made.collect();
        let mut received = Vec::with_capacity(made.len());
        let mut last = Vec::new();
        self.world.barrier()?;
        let mut start = Instant::now();
        for (round, messages) in made.into_iter().enumerate() {
            if round == 1 {
                start = Instant::now();
            }
            last = comm.exchange(messages)?;
            received.push((last.len(), last.iter().map(|(_, data)| data.len()).sum()));
        }
        let time = start.elapsed();
        self.check(&received, &last)?;
        Ok(batches::max_time(self.world, time.as_secs_f64() * 1e6)? / self.messages.count as f64)
    }

    fn check(&self, received: &[(usize, usize)], last: &Received<u8>) -> anyhow::Result<()> {
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
            let right = self.message(*source, me, self.messages.count, *bytes);
            ensure!(data == right, "rank {me} received other data than rank {from} sent");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use treepie_sparse::ReactorCapabilities;

    use super::super::case::{AUTO, ProtocolChoice};
    use super::*;

    fn cases(texts: &[&str]) -> Vec<Case> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn every_protocol_is_measured_and_checked() {
        let all = ProtocolChoice::All
            .ids(ReactorCapabilities { barrier: true, barrier_flushes: true, counters: true })
            .unwrap();
        for (ranks, neighbours) in [(2, [0, 1]), (5, [1, 4])] {
            let of = |k: u32, id: &str| [format!("1:{k}:1-1024:5:2@{id}"), format!("1:{k}:20000-20000:3:2@{id}")];
            let mut texts: Vec<String> = all.iter().flat_map(|id| neighbours.iter().flat_map(|k| of(*k, id))).collect();
            texts.sort();
            let cases: Vec<Case> = texts.iter().map(|text| text.parse().unwrap()).collect();
            let measured = treepie::launch(ranks, |world| {
                let measured = measure(&world, &cases).unwrap();
                Ok(measured.into_iter().map(|measured| (measured.times, measured.protocol)).collect::<Vec<_>>())
            });
            let measured = measured.unwrap();
            for (i, case) in cases.iter().enumerate() {
                let (times, protocol) = &measured[0][i];
                assert_eq!(times.len(), case.messages.batches, "{case}");
                assert!(times.iter().all(|time| *time > 0.0), "{case}: {times:?}");
                assert!(case.id == AUTO || protocol.id() == case.id, "{case} used {protocol}");
                assert!(measured.iter().all(|rank| rank[i].1 == *protocol), "{case}");
            }
        }
    }

    #[test]
    fn wrong_results_are_found() {
        let found = treepie::launch(3, |world| {
            let [case] = &cases(&["1:2:1-64:2:1@exchange/nbx"])[..] else { unreachable!() };
            let mut rank = Rank::new(&world, &case.messages);
            let before = rank.message(0, 1, 2, 64).to_vec();
            rank.batch(&world).unwrap();
            assert_ne!(rank.message(0, 1, 2, 64), before, "each batch has other contents");
            let counts = rank.expected.clone();
            let message =
                |(from, bytes): &(usize, usize)| (*from, rank.message(*from, world.rank(), 2, *bytes).to_vec());
            let right: Received<u8> = rank.expected_last.iter().map(message).collect();
            rank.check(&counts, &right).unwrap();
            let error =
                |counts: &[(usize, usize)], last: &Received<u8>| rank.check(counts, last).unwrap_err().to_string();
            let mut fewer = counts.clone();
            fewer[1].0 -= 1;
            let (mut changed, mut exchanged) = (right.clone(), right);
            changed[1].1[0] += 1;
            exchanged.swap(0, 1);
            let all = [error(&fewer, &changed), error(&counts, &changed), error(&counts, &exchanged)];
            rank.batch_index += 1;
            exchanged.swap(0, 1);
            Ok((all, rank.check(&counts, &exchanged).unwrap_err().to_string()))
        });
        for ([fewer, changed, exchanged], old) in found.unwrap() {
            assert!(fewer.contains("received 1 messages") && fewer.contains("in round 1"), "{fewer}");
            assert!(changed.contains("other data"), "{changed}");
            assert!(exchanged.contains("a message of rank"), "{exchanged}");
            assert!(old.contains("other data"), "{old}");
        }
    }
}
