//! Measures sparse exchanges among the ranks of a world. `exchange_peer.c` exchanges the same messages with MPI; whoever
//! changes one changes the other.
//!
//! A batch is some rounds back to back: nobody waits between them, and only exchanges are timed. Messages of all rounds are
//! made before; they are what the paper's microbenchmark draws, the same in all batches but for what they say. The first
//! round is not timed. Each rank takes its own time, and the longest counts.
//! Protocols that exchange the same messages take turns, batch by batch: what disturbs the machine disturbs all of them. The
//! order changes, as a batch may be slower or faster by what the one before has left behind.
//! After a batch numbers and lengths of what came in each round are compared with what was sent, and of the last round
//! every byte.

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, ensure};
use treepie::{Comm, Received, SparseExchange};
use treepie_sparse::{Protocol, chosen_protocol};

use super::super::{batches, output};
use super::case::{Case, Messages};
use super::counted::{Counted, count};

/// One rank of the benchmark of sparse exchanges.
#[derive(clap::Args)]
pub(crate) struct ExchangeRank {
    /// Make a world of so many threads instead of joining one.
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

/// What was seen of a case.
struct Measured {
    /// Microseconds per round, one for each batch; on rank 0.
    times: Vec<f64>,
    /// The protocol, which may have been chosen.
    took: Protocol,
}

/// Measures each case; those that follow each other with the same messages take turns.
fn measure(world: &Comm, cases: &[Case]) -> anyhow::Result<Vec<Measured>> {
    let mut measured = Vec::new();
    for group in cases.chunk_by(|a, b| a.messages == b.messages) {
        let handles = group.iter().map(|case| world.using(&case.id)).collect::<treepie::Result<Vec<Comm>>>()?;
        let mut rank = Rank::new(world, &group[0].messages);
        let mut took = vec![None; group.len()];
        let turns = batches::repeat_several(world, rank.messages.batches, group.len() as u32, || {
            let mut times = vec![0.0; group.len()];
            for place in batches::order(rank.turn / group.len(), group.len()) {
                times[place] = rank.batch(&handles[place]).with_context(|| group[place].to_string())?;
                took[place] = chosen_protocol(&handles[place]);
            }
            Ok(times)
        })?;
        for (place, took) in took.into_iter().enumerate() {
            let times = turns.iter().map(|times| times[place]).collect();
            measured.push(Measured { times, took: took.context("no protocol was chosen")? });
        }
    }
    Ok(measured)
}

/// The lines of all benchmarks; then, for each case, protocol, memory and messages of a rank, and for all messages how many
/// bytes of them are sent in a batch, and the same with each times its receiver's number.
fn print(world: &Comm, cases: &[Case], measured: &[Measured]) -> anyhow::Result<()> {
    let times: Vec<Vec<f64>> = measured.iter().map(|measured| measured.times.clone()).collect();
    output::print(world.engine(), cases, &times)?;
    let ranks = world.size() as u32;
    let mut out = std::io::stdout().lock();
    for (case, measured) in cases.iter().zip(measured) {
        let Counted { memory, messages } = count(measured.took, world.means(), &case.messages.of_ranks(ranks))?;
        writeln!(out, "about {case} {} {memory} {messages}", measured.took)?;
    }
    for group in cases.chunk_by(|a, b| a.messages == b.messages) {
        let messages = &group[0].messages;
        let drawn = messages.of_ranks(ranks);
        let all = (0..ranks).flat_map(|rank| (0..=messages.count).map(move |round| (rank, round as u32)));
        let sends: Vec<(u32, usize)> = all.flat_map(|(rank, round)| drawn.messages(rank, round)).collect();
        let bytes: usize = sends.iter().map(|(_, bytes)| bytes).sum();
        let by_receivers: usize = sends.iter().map(|(to, bytes)| bytes * *to as usize).sum();
        writeln!(out, "sent {messages} {bytes} {by_receivers}")?;
    }
    Ok(())
}

/// A rank with certain messages.
struct Rank<'a> {
    world: &'a Comm,
    messages: &'a Messages,
    /// What it sends in each round: to whom and how long.
    sends: Vec<Vec<(u32, usize)>>,
    /// How many messages come in each round, and their bytes.
    comes: Vec<(usize, usize)>,
    /// From whom the messages of the last round come, and how long they are.
    last: Vec<(usize, usize)>,
    /// Messages are pieces of it.
    pattern: Vec<u8>,
    /// Number of the batch, which messages carry.
    turn: usize,
}

/// Where in the pattern messages begin, at most.
const BEGINS: usize = 256;

impl<'a> Rank<'a> {
    fn new(world: &'a Comm, messages: &'a Messages) -> Self {
        let (me, ranks) = (world.rank() as u32, world.size() as u32);
        let drawn = messages.of_ranks(ranks);
        let rounds = 0..=messages.count as u32;
        let to_me = |round: u32| {
            let of = |from: u32| drawn.messages(from, round).into_iter().map(move |(to, bytes)| (from, to, bytes));
            let all = (0..ranks).filter(|from| *from != me).flat_map(of);
            all.filter(|(_, to, _)| *to == me).map(|(from, _, bytes)| (from as usize, bytes)).collect::<Vec<_>>()
        };
        let summed = |round| {
            let came = to_me(round);
            (came.len(), came.iter().map(|(_, bytes)| bytes).sum())
        };
        Self {
            world,
            messages,
            sends: rounds.clone().map(|round| drawn.messages(me, round)).collect(),
            comes: rounds.clone().map(summed).collect(),
            last: to_me(*rounds.end()),
            // Pieces of it that were taken for each other would be seen.
            pattern: (0..messages.lengths.end() + BEGINS).map(|place| (place + (place >> 8)) as u8).collect(),
            turn: 0,
        }
    }

    fn message(&self, from: usize, to: usize, round: usize, bytes: usize) -> &[u8] {
        let begin = (17 * from + 5 * to + 3 * round + self.turn) % BEGINS;
        &self.pattern[begin..begin + bytes]
    }

    /// Microseconds per round, on rank 0.
    fn batch(&mut self, comm: &Comm) -> anyhow::Result<f64> {
        self.turn += 1;
        let me = comm.rank();
        let made = self.sends.iter().enumerate().map(|(round, sends)| {
            let made = |(to, bytes): &(u32, usize)| {
                let to = *to as usize;
                (to, self.message(me, to, round, *bytes).to_vec())
            };
            sends.iter().map(made).collect::<Vec<_>>()
        });
        let made: Vec<_> = made.collect();
        let mut came = Vec::with_capacity(made.len());
        let mut last = Vec::new();
        self.world.barrier()?;
        let mut begun = Instant::now();
        for (round, messages) in made.into_iter().enumerate() {
            if round == 1 {
                begun = Instant::now();
            }
            last = comm.exchange(messages)?;
            came.push((last.len(), last.iter().map(|(_, data)| data.len()).sum()));
        }
        let mine = begun.elapsed();
        self.check(&came, &last)?;
        Ok(batches::slowest(self.world, mine.as_secs_f64() * 1e6)? / self.messages.count as f64)
    }

    fn check(&self, came: &[(usize, usize)], last: &Received<u8>) -> anyhow::Result<()> {
        let me = self.world.rank();
        for (round, (came, comes)) in came.iter().zip(&self.comes).enumerate() {
            ensure!(
                came == comes,
                "rank {me} got {} messages with {} bytes instead of {} with {} in round {round}",
                came.0,
                came.1,
                comes.0,
                comes.1
            );
        }
        for ((from, data), (source, bytes)) in last.iter().zip(&self.last) {
            ensure!(from == source, "rank {me} got a message of rank {from} instead of {source}");
            let right = self.message(*source, me, self.messages.count, *bytes);
            ensure!(data == right, "rank {me} got something else than rank {from} sent");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use treepie_sparse::Means;

    use super::super::case::{AUTO, Asked};
    use super::*;

    fn cases(texts: &[&str]) -> Vec<Case> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn every_protocol_is_measured_and_checked() {
        let all = Asked::All.ids(Means { barrier: true, arrives_last: true, counters: true }).unwrap();
        for (ranks, neighbours) in [(2, [0, 1]), (5, [1, 4])] {
            let of = |k: u32, id: &str| [format!("1:{k}:1-1024:5:2@{id}"), format!("1:{k}:20000-20000:3:2@{id}")];
            let mut texts: Vec<String> = all.iter().flat_map(|id| neighbours.iter().flat_map(|k| of(*k, id))).collect();
            texts.sort();
            let cases: Vec<Case> = texts.iter().map(|text| text.parse().unwrap()).collect();
            let measured = treepie::launch(ranks, |world| {
                let measured = measure(&world, &cases).unwrap();
                measured.into_iter().map(|measured| (measured.times, measured.took)).collect::<Vec<_>>()
            });
            let measured = measured.unwrap();
            for (place, case) in cases.iter().enumerate() {
                let (times, took) = &measured[0][place];
                assert_eq!(times.len(), case.messages.batches, "{case}");
                assert!(times.iter().all(|time| *time > 0.0), "{case}: {times:?}");
                assert!(case.id == AUTO || took.id() == case.id, "{case} took {took}");
                assert!(measured.iter().all(|rank| rank[place].1 == *took), "{case}");
            }
        }
    }

    #[test]
    fn what_is_wrong_is_found() {
        let found = treepie::launch(3, |world| {
            let [case] = &cases(&["1:2:1-64:2:1@exchange/nbx"])[..] else { unreachable!() };
            let mut rank = Rank::new(&world, &case.messages);
            let before = rank.message(0, 1, 2, 64).to_vec();
            rank.batch(&world).unwrap();
            assert_ne!(rank.message(0, 1, 2, 64), before, "each batch says something else");
            let came = rank.comes.clone();
            let message =
                |(from, bytes): &(usize, usize)| (*from, rank.message(*from, world.rank(), 2, *bytes).to_vec());
            let right: Received<u8> = rank.last.iter().map(message).collect();
            rank.check(&came, &right).unwrap();
            let told = |came: &[(usize, usize)], last: &Received<u8>| rank.check(came, last).unwrap_err().to_string();
            let mut fewer = came.clone();
            fewer[1].0 -= 1;
            let (mut changed, mut exchanged) = (right.clone(), right);
            changed[1].1[0] += 1;
            exchanged.swap(0, 1);
            let all = [told(&fewer, &changed), told(&came, &changed), told(&came, &exchanged)];
            rank.turn += 1;
            exchanged.swap(0, 1);
            (all, rank.check(&came, &exchanged).unwrap_err().to_string())
        });
        for ([fewer, changed, exchanged], old) in found.unwrap() {
            assert!(fewer.contains("got 1 messages") && fewer.contains("in round 1"), "{fewer}");
            assert!(changed.contains("something else"), "{changed}");
            assert!(exchanged.contains("a message of rank"), "{exchanged}");
            assert!(old.contains("something else"), "{old}");
        }
    }
}
