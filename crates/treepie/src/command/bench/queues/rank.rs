//! Fills and empties queues between the ranks of a world.
//!
//! Rank 0 has the clock, and rank 1 is its partner; others take part in operations of all ranks only. What is timed is all of it:
//! that things are put into the queue, and that they leave it.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, ensure};
use treepie::{ANY_SOURCE, ANY_TAG, Comm, Request, RequestSet, SparseExchange, Sum, wait_all};

use super::super::{batches, output};
use super::case::{self, BYTES, Case, PROTOCOLS, Queue};

/// One rank of the benchmark of queues.
#[derive(clap::Args)]
pub(crate) struct QueuesRank {
    /// Make a world of so many threads instead of joining one.
    #[arg(long, value_name = "P")]
    threads: Option<usize>,
    cases: Vec<Case>,
}

impl QueuesRank {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        batches::on_ranks(self.threads, |world| {
            let times = measure(&world, &self.cases)?;
            if world.rank() == 0 { output::print(world.engine(), &self.cases, &times) } else { Ok(()) }
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Measures each case. Rank 0 returns microseconds per message, one for each batch; the others return nothing.
fn measure(world: &Comm, cases: &[Case]) -> anyhow::Result<Vec<Vec<f64>>> {
    let mut rank = Rank { comm: world, comms: Vec::new(), turn: 0 };
    let mut times = Vec::new();
    for case in cases {
        let batch = || rank.batch(case).with_context(|| case.to_string());
        times.push(batches::repeat(world, case::batches(case.waiting), batch)?);
        // What the case made is not to be in the way of the next.
        rank.comms.clear();
    }
    Ok(times)
}

/// Rank 1 is to begin.
const GO: u32 = 10;
/// All that was sent before has come.
const LAST: u32 = 11;
/// The first tag of messages, and that of those that have all the same.
const DATA: u32 = 1000;

/// Collective operations of one communicator under way at a time.
const OF_ONE: usize = 1000;

/// Receives of vectors.
type Receive = Request<'static, (Vec<u8>, treepie::Status)>;

struct Rank<'a> {
    comm: &'a Comm,
    /// Communicators beside the world, as far as they were needed.
    comms: Vec<Comm>,
    /// Changes with each batch, and is in the messages.
    turn: u8,
}

impl Rank<'_> {
    /// Microseconds per message, on rank 0.
    fn batch(&mut self, case: &Case) -> anyhow::Result<f64> {
        let n = case.waiting;
        self.turn = self.turn.wrapping_add(1);
        self.prepare(case)?;
        // Ranks that take no part in a batch do not come into its way.
        self.comm.barrier()?;
        let begun = Instant::now();
        let micros = match (case.queue, self.comm.rank()) {
            (Queue::Exchange(protocol), _) => self.exchange(protocol, n)?,
            (Queue::Collectives, _) => self.collectives(n)?,
            (_, 0) => {
                self.serve(case)?;
                begun.elapsed().as_secs_f64() * 1e6
            }
            (_, 1) => {
                self.partner(case)?;
                0.0
            }
            _ => 0.0,
        };
        self.comm.barrier()?;
        Ok(micros / n as f64)
    }

    /// Makes the communicators that a case needs.
    fn prepare(&mut self, case: &Case) -> anyhow::Result<()> {
        match case.queue {
            Queue::Communicators if self.comm.rank() < 2 => {
                while self.comms.len() < case.waiting {
                    self.comms.push(self.comm.create_from_group(&[0, 1], 0)?);
                }
            }
            Queue::Collectives => {
                while self.comms.len() < case.waiting.div_ceil(OF_ONE) {
                    self.comms.push(self.comm.dup()?);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Rank 0 has the queue.
    fn serve(&self, case: &Case) -> anyhow::Result<()> {
        let n = case.waiting;
        let check = |data: &[u8]| {
            ensure!(data.len() == BYTES && data[0] == self.turn, "another message came than was sent");
            Ok(())
        };
        match case.queue {
            Queue::Posted | Queue::WaitAll | Queue::PostedAny => {
                let receives = self.receives(case.queue, n)?;
                self.go()?;
                wait_all(receives)?.iter().try_for_each(|(data, _)| check(data))?;
            }
            Queue::WaitAny => {
                let mut receives: RequestSet<_> = self.receives(Queue::Posted, n)?.into_iter().collect();
                self.go()?;
                while let Some((_, result)) = receives.wait_any() {
                    check(&result?.0)?;
                }
            }
            Queue::WaitSome => {
                let mut receives: RequestSet<_> = self.receives(Queue::Posted, n)?.into_iter().collect();
                self.go()?;
                while !receives.is_empty() {
                    for (_, result) in receives.wait_some() {
                        check(&result?.0)?;
                    }
                }
            }
            Queue::Test => {
                let mut receives = self.receives(Queue::Posted, n)?;
                ensure!(
                    receives.iter_mut().all(|receive| receive.test().is_none()),
                    "something came that was not sent"
                );
            }
            Queue::Drop => drop(self.receives(Queue::WaitAll, n)?),
            Queue::Cancel => {
                let receives = self.receives(Queue::WaitAll, n)?;
                let cancelled = receives.into_iter().rev().all(|receive| receive.cancel().is_ok());
                ensure!(cancelled, "something came that was not sent");
            }
            Queue::Unexpected | Queue::UnexpectedAny => {
                self.go()?;
                self.comm.recv(&mut [0u8; 1], 1, LAST)?;
                let mut data = [0; BYTES];
                for tag in tags(n).rev() {
                    match case.queue {
                        Queue::Unexpected => self.comm.recv(&mut data, 1, tag)?,
                        _ => self.comm.recv(&mut data, ANY_SOURCE, ANY_TAG)?,
                    };
                    check(&data)?;
                }
            }
            Queue::Sends => {
                let data = [self.turn; BYTES];
                self.comm.scope(|scope| {
                    let sends = (0..n).map(|_| scope.issend(&data, 1, DATA)).collect::<Result<Vec<_>, _>>()?;
                    self.comm.send(&[0u8], 1, LAST)?;
                    wait_all(sends)
                })?;
            }
            Queue::Communicators => {
                let comms = self.comms.iter().take(n);
                let receives = comms.map(|comm| comm.irecv_vec(1, DATA)).collect::<Result<Vec<Receive>, _>>()?;
                self.go()?;
                wait_all(receives)?.iter().try_for_each(|(data, _)| check(data))?;
            }
            Queue::Exchange(_) | Queue::Collectives => unreachable!("all ranks take part"),
        }
        Ok(())
    }

    /// Rank 1 has the other end.
    fn partner(&self, case: &Case) -> anyhow::Result<()> {
        let (n, data) = (case.waiting, [self.turn; BYTES]);
        match case.queue {
            Queue::Test | Queue::Drop | Queue::Cancel => {}
            Queue::Posted | Queue::PostedAny | Queue::WaitAny | Queue::WaitSome => {
                self.come()?;
                tags(n).rev().try_for_each(|tag| self.comm.send(&data, 0, tag))?;
            }
            Queue::WaitAll => {
                self.come()?;
                (0..n).try_for_each(|_| self.comm.send(&data, 0, DATA))?;
            }
            Queue::Unexpected | Queue::UnexpectedAny => {
                self.come()?;
                self.comm.scope(|scope| {
                    let mut sends = tags(n).map(|tag| scope.isend(&data, 0, tag)).collect::<Result<Vec<_>, _>>()?;
                    sends.push(scope.isend(&[0u8], 0, LAST)?);
                    wait_all(sends)
                })?;
            }
            Queue::Sends => {
                self.comm.recv(&mut [0u8; 1], 0, LAST)?;
                let mut into = [0; BYTES];
                for _ in 0..n {
                    self.comm.recv(&mut into, 0, DATA)?;
                    ensure!(into == data, "another message came than was sent");
                }
            }
            Queue::Communicators => {
                self.come()?;
                self.comms.iter().take(n).rev().try_for_each(|comm| comm.send(&data, 0, DATA))?;
            }
            Queue::Exchange(_) | Queue::Collectives => unreachable!("all ranks take part"),
        }
        Ok(())
    }

    /// Posts receives as the queue has them.
    fn receives(&self, queue: Queue, n: usize) -> anyhow::Result<Vec<Receive>> {
        let receive = |tag| match queue {
            Queue::Posted => self.comm.irecv_vec(1, tag),
            Queue::PostedAny => self.comm.irecv_vec(ANY_SOURCE, ANY_TAG),
            _ => self.comm.irecv_vec(1, DATA),
        };
        Ok(tags(n).map(receive).collect::<Result<_, _>>()?)
    }

    fn go(&self) -> anyhow::Result<()> {
        Ok(self.comm.send(&[0u8], 1, GO)?)
    }

    fn come(&self) -> anyhow::Result<()> {
        self.comm.recv(&mut [0u8; 1], 0, GO)?;
        Ok(())
    }

    /// All other ranks send to rank 0, together as many as are to wait.
    fn exchange(&self, protocol: usize, n: usize) -> anyhow::Result<f64> {
        let (rank, others) = (self.comm.rank(), self.comm.size() - 1);
        let comm = self.comm.using(&format!("exchange/{}", PROTOCOLS[protocol]))?;
        let own = if rank == 0 { 0 } else { n / others + usize::from(rank <= n % others) };
        let messages: Vec<(usize, Vec<u8>)> = (0..own).map(|_| (0, vec![self.turn; BYTES])).collect();
        self.comm.barrier()?;
        let begun = Instant::now();
        let received = comm.exchange(messages)?;
        let micros = begun.elapsed().as_secs_f64() * 1e6;
        let expected = if rank == 0 { n } else { 0 };
        let is_right = received.iter().all(|(_, data)| *data == [self.turn; BYTES]);
        ensure!(received.len() == expected && is_right, "other messages came than were sent");
        Ok(micros)
    }

    fn collectives(&self, n: usize) -> anyhow::Result<f64> {
        let begun = Instant::now();
        let start = |place: usize| self.comms[place / OF_ONE].iall_reduce(vec![place as u64; BYTES / 8], Sum);
        let sums = (0..n).map(start).collect::<Result<Vec<_>, _>>()?;
        for (place, sum) in sums.into_iter().enumerate().rev() {
            ensure!(sum.wait()?[0] == (place * self.comm.size()) as u64, "another sum came than it is");
        }
        Ok(begun.elapsed().as_secs_f64() * 1e6)
    }
}

fn tags(n: usize) -> impl DoubleEndedIterator<Item = u32> {
    (0..n as u32).map(|place| DATA + place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_queue_is_filled_and_emptied() {
        let cases: Vec<Case> = Queue::all(false).into_iter().map(|queue| Case { queue, waiting: 50 }).collect();
        let times = treepie::launch(3, |world| measure(&world, &cases).unwrap()).unwrap();
        for (case, times) in cases.iter().zip(&times[0]) {
            assert!(!times.is_empty() && times.iter().all(|time| *time > 0.0), "{case}: {times:?}");
        }
        assert!(times[1].iter().all(Vec::is_empty));
    }
}
