//! Fills and empties queues between the ranks of a world.
//!
//! Rank 0 takes the time, and rank 1 is its partner; others take part only in collective operations. The time includes
//! filling and emptying the queue.

use std::time::{Duration, Instant};

use anyhow::ensure;
use treepie::{ANY_SOURCE, ANY_TAG, Comm, Request, RequestSet, SparseExchange, Sum, wait_all};

use super::task::{MESSAGE_BYTES, PROTOCOLS, Queue};
use crate::harness::case::{Case, OnlyProgram};
use crate::harness::rank::Benchmark;

/// Tells rank 1 to start.
const GO_TAG: u32 = 10;
/// Sent after all other messages.
const LAST_TAG: u32 = 11;
/// The first data tag, also the common tag of messages that share one.
const FIRST_DATA_TAG: u32 = 1000;

/// Pending collectives per communicator.
const OPERATIONS_PER_COMM: usize = 1000;

/// Receives of vectors.
type Receive = Request<'static, (Vec<u8>, treepie::Status)>;

/// A rank.
pub(crate) struct Queues {
    comm: Comm,
    /// Further communicators of the current case.
    comms: Vec<Comm>,
    /// Changes with each batch; the messages contain it.
    stamp: u8,
}

impl Benchmark for Queues {
    type Task = Queue;
    type Program = OnlyProgram;
    const TIMES_SLOWEST_RANK: bool = false;

    fn new(world: &Comm, _: &[Case<Queue>]) -> anyhow::Result<Self> {
        Ok(Self { comm: world.clone(), comms: Vec::new(), stamp: 0 })
    }

    fn prepare(&mut self, group: &[Case<Queue>]) -> anyhow::Result<()> {
        let count = group[0].count;
        // Communicators of one case must not affect the next.
        self.comms.clear();
        self.comms = match group[0].task {
            Queue::Communicators if self.comm.rank() < 2 => {
                (0..count).map(|_| self.comm.create_group(&[0, 1], 0)).collect::<Result<_, _>>()?
            }
            Queue::Collectives => {
                (0..count.div_ceil(OPERATIONS_PER_COMM)).map(|_| self.comm.dup()).collect::<Result<_, _>>()?
            }
            _ => Vec::new(),
        };
        Ok(())
    }

    fn batch(&mut self, case: &Case<Queue>, _: usize, _: usize) -> anyhow::Result<Duration> {
        self.stamp = self.stamp.wrapping_add(1);
        // Ranks that take no part in a batch must not disturb it.
        self.comm.barrier()?;
        let start = Instant::now();
        let time = match (case.task, self.comm.rank()) {
            (Queue::Exchange(protocol), _) => self.exchange(protocol, case.count)?,
            (Queue::Collectives, _) => self.collectives(case.count)?,
            (queue, 0) => {
                self.run_receiver(queue, case.count)?;
                start.elapsed()
            }
            (queue, 1) => {
                self.run_sender(queue, case.count)?;
                Duration::ZERO
            }
            _ => Duration::ZERO,
        };
        self.comm.barrier()?;
        Ok(time)
    }
}

impl Queues {
    /// Rank 0, which has the queue.
    fn run_receiver(&self, queue: Queue, n: usize) -> anyhow::Result<()> {
        let check = |data: &[u8]| {
            ensure!(data.len() == MESSAGE_BYTES && data[0] == self.stamp, "a wrong message was received");
            Ok(())
        };
        match queue {
            Queue::Posted | Queue::WaitAll | Queue::PostedAny => {
                let receives = self.post_receives(queue, n)?;
                self.send_go()?;
                wait_all(receives)?.iter().try_for_each(|(data, _)| check(data))?;
            }
            Queue::WaitAny => {
                let mut receives: RequestSet<_> = self.post_receives(Queue::Posted, n)?.into_iter().collect();
                self.send_go()?;
                while let Some((_, result)) = receives.wait_any() {
                    check(&result?.0)?;
                }
            }
            Queue::WaitSome => {
                let mut receives: RequestSet<_> = self.post_receives(Queue::Posted, n)?.into_iter().collect();
                self.send_go()?;
                while !receives.is_empty() {
                    for (_, result) in receives.wait_some() {
                        check(&result?.0)?;
                    }
                }
            }
            Queue::Test => {
                let mut receives = self.post_receives(Queue::Posted, n)?;
                ensure!(
                    receives.iter_mut().all(|receive| receive.test().is_none()),
                    "a message was received that was not sent"
                );
            }
            Queue::Drop => drop(self.post_receives(Queue::WaitAll, n)?),
            Queue::Cancel => {
                let receives = self.post_receives(Queue::WaitAll, n)?;
                let cancelled = receives.into_iter().rev().all(|receive| receive.cancel().is_ok());
                ensure!(cancelled, "a message was received that was not sent");
            }
            Queue::Unexpected | Queue::UnexpectedAny => {
                self.send_go()?;
                self.comm.recv(&mut [0u8; 1], 1, LAST_TAG)?;
                let mut data = [0; MESSAGE_BYTES];
                for tag in tags(n).rev() {
                    match queue {
                        Queue::Unexpected => self.comm.recv(&mut data, 1, tag)?,
                        _ => self.comm.recv(&mut data, ANY_SOURCE, ANY_TAG)?,
                    };
                    check(&data)?;
                }
            }
            Queue::Sends => {
                let data = [self.stamp; MESSAGE_BYTES];
                self.comm.scope(|scope| {
                    let sends =
                        (0..n).map(|_| scope.issend(&data, 1, FIRST_DATA_TAG)).collect::<Result<Vec<_>, _>>()?;
                    self.comm.send(&[0u8], 1, LAST_TAG)?;
                    wait_all(sends)
                })?;
            }
            Queue::Communicators => {
                let comms = self.comms.iter().take(n);
                let receives =
                    comms.map(|comm| comm.irecv_vec(1, FIRST_DATA_TAG)).collect::<Result<Vec<Receive>, _>>()?;
                self.send_go()?;
                wait_all(receives)?.iter().try_for_each(|(data, _)| check(data))?;
            }
            Queue::Exchange(_) | Queue::Collectives => unreachable!("all ranks take part"),
        }
        Ok(())
    }

    /// Rank 1, the partner.
    fn run_sender(&self, queue: Queue, n: usize) -> anyhow::Result<()> {
        let data = [self.stamp; MESSAGE_BYTES];
        match queue {
            Queue::Test | Queue::Drop | Queue::Cancel => {}
            Queue::Posted | Queue::PostedAny | Queue::WaitAny | Queue::WaitSome => {
                self.recv_go()?;
                tags(n).rev().try_for_each(|tag| self.comm.send(&data, 0, tag))?;
            }
            Queue::WaitAll => {
                self.recv_go()?;
                (0..n).try_for_each(|_| self.comm.send(&data, 0, FIRST_DATA_TAG))?;
            }
            Queue::Unexpected | Queue::UnexpectedAny => {
                self.recv_go()?;
                self.comm.scope(|scope| {
                    let mut sends = tags(n).map(|tag| scope.isend(&data, 0, tag)).collect::<Result<Vec<_>, _>>()?;
                    sends.push(scope.isend(&[0u8], 0, LAST_TAG)?);
                    wait_all(sends)
                })?;
            }
            Queue::Sends => {
                self.comm.recv(&mut [0u8; 1], 0, LAST_TAG)?;
                let mut into = [0; MESSAGE_BYTES];
                for _ in 0..n {
                    self.comm.recv(&mut into, 0, FIRST_DATA_TAG)?;
                    ensure!(into == data, "a wrong message was received");
                }
            }
            Queue::Communicators => {
                self.recv_go()?;
                self.comms.iter().take(n).rev().try_for_each(|comm| comm.send(&data, 0, FIRST_DATA_TAG))?;
            }
            Queue::Exchange(_) | Queue::Collectives => unreachable!("all ranks take part"),
        }
        Ok(())
    }

    /// Posts the receives of a queue.
    fn post_receives(&self, queue: Queue, n: usize) -> anyhow::Result<Vec<Receive>> {
        let receive = |tag| match queue {
            Queue::Posted => self.comm.irecv_vec(1, tag),
            Queue::PostedAny => self.comm.irecv_vec(ANY_SOURCE, ANY_TAG),
            _ => self.comm.irecv_vec(1, FIRST_DATA_TAG),
        };
        Ok(tags(n).map(receive).collect::<Result<_, _>>()?)
    }

    fn send_go(&self) -> anyhow::Result<()> {
        Ok(self.comm.send(&[0u8], 1, GO_TAG)?)
    }

    fn recv_go(&self) -> anyhow::Result<()> {
        self.comm.recv(&mut [0u8; 1], 0, GO_TAG)?;
        Ok(())
    }

    /// All other ranks together send `n` messages to rank 0.
    fn exchange(&self, protocol: usize, n: usize) -> anyhow::Result<Duration> {
        let (rank, others) = (self.comm.rank(), self.comm.size() - 1);
        let comm = self.comm.with_algorithm(&format!("exchange/{}", PROTOCOLS[protocol]))?;
        let count = if rank == 0 { 0 } else { n / others + usize::from(rank <= n % others) };
        let messages: Vec<(usize, Vec<u8>)> = (0..count).map(|_| (0, vec![self.stamp; MESSAGE_BYTES])).collect();
        self.comm.barrier()?;
        let start = Instant::now();
        let received = comm.exchange(messages)?;
        let time = start.elapsed();
        let expected = if rank == 0 { n } else { 0 };
        let is_right = received.iter().all(|(_, data)| *data == [self.stamp; MESSAGE_BYTES]);
        ensure!(received.len() == expected && is_right, "wrong messages were received");
        Ok(time)
    }

    fn collectives(&self, n: usize) -> anyhow::Result<Duration> {
        let start = Instant::now();
        let post = |i: usize| self.comms[i / OPERATIONS_PER_COMM].iallreduce(vec![i as u64; MESSAGE_BYTES / 8], Sum);
        let sums = (0..n).map(post).collect::<Result<Vec<_>, _>>()?;
        for (i, sum) in sums.into_iter().enumerate().rev() {
            ensure!(sum.wait()?[0] == (i * self.comm.size()) as u64, "a wrong sum was received");
        }
        Ok(start.elapsed())
    }
}

fn tags(n: usize) -> impl DoubleEndedIterator<Item = u32> {
    (0..n as u32).map(|i| FIRST_DATA_TAG + i)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::testing::measured;

    #[test]
    fn every_queue_is_filled_and_emptied() {
        let texts: Vec<String> = Queue::all(false).iter().map(|queue| format!("{queue}:50:2")).collect();
        measured::<Queues>(3, &texts);
    }
}
