//! Messages between the ranks of a world. `peer.c` makes the same calls with MPI; keep both in step.
//!
//! Rank 0 takes the time. The first operation of a batch is not timed. Each message carries a byte that changes, and
//! each reply depends on those received: the timed messages have arrived.

use std::time::Duration;

use anyhow::ensure;
use treepie::{Comm, wait_all};

use super::task::{FRESH_BYTES, Pattern, Transfer};
use crate::harness::case::{Case, OnlyProgram};
use crate::harness::rank::{Benchmark, time_operations};

const DATA_TAG: u32 = 1;
const ACK_TAG: u32 = 2;

/// Alignment of buffers.
const CACHE_LINE: usize = 64;

/// The buffers of a rank.
pub(crate) struct Transfers {
    comm: Comm,
    /// All buffers, one after the other.
    memory: Vec<u8>,
    /// Index of the next window.
    window: usize,
}

impl Benchmark for Transfers {
    type Task = Transfer;
    type Program = OnlyProgram;
    const TIMES_SLOWEST_RANK: bool = false;

    fn new(world: &Comm, cases: &[Case<Transfer>]) -> anyhow::Result<Self> {
        let max = cases.iter().map(|case| case.task.memory()).max().unwrap_or(0);
        // First touch, so that the pages exist.
        Ok(Self { comm: world.clone(), memory: vec![1; max], window: 0 })
    }

    fn batch(&mut self, case: &Case<Transfer>, _: usize, _: usize) -> anyhow::Result<Duration> {
        let task = &case.task;
        time_operations(case.count, |number| {
            let stamp = number as u8;
            match task.pattern {
                Pattern::PingPong => self.ping_pong(task, stamp),
                Pattern::Stream | Pattern::Fresh => self.stream(task, stamp),
                Pattern::Ring => self.ring(stamp),
                Pattern::Barrier => Ok(self.comm.barrier()?),
            }
        })
    }

    fn operations(case: &Case<Transfer>, ranks: usize) -> usize {
        case.count
            * match case.task.pattern {
                Pattern::PingPong => 2,
                Pattern::Stream | Pattern::Fresh => case.task.outstanding,
                Pattern::Ring => ranks,
                Pattern::Barrier => 1,
            }
    }
}

impl Transfer {
    /// Distance from one message's buffer to the next.
    fn stride(&self) -> usize {
        self.bytes.next_multiple_of(CACHE_LINE).max(CACHE_LINE)
    }

    /// Bytes of all buffers on one side.
    fn memory(&self) -> usize {
        match self.pattern {
            Pattern::Fresh => self.windows() * self.outstanding * self.stride(),
            _ => (self.outstanding * self.stride()).max(2 * self.stride()),
        }
    }

    /// Number of windows with separate buffers.
    fn windows(&self) -> usize {
        match self.pattern {
            Pattern::Fresh => (FRESH_BYTES / (self.outstanding * self.stride())).max(1),
            _ => 1,
        }
    }
}

impl Transfers {
    #[inline]
    fn ping_pong(&mut self, task: &Transfer, stamp: u8) -> anyhow::Result<()> {
        let (out, into) = self.memory.split_at_mut(task.stride());
        match self.comm.rank() {
            0 => {
                out[0] = stamp;
                self.comm.send(&out[..task.bytes], 1, DATA_TAG)?;
                self.comm.recv(&mut into[..task.bytes], 1, DATA_TAG)?;
                ensure!(task.bytes == 0 || into[0] == stamp, "the reply differs from the message");
            }
            1 => {
                self.comm.recv(&mut into[..task.bytes], 0, DATA_TAG)?;
                out[0] = into[0];
                self.comm.send(&out[..task.bytes], 0, DATA_TAG)?;
            }
            _ => {}
        }
        Ok(())
    }

    #[inline]
    fn stream(&mut self, task: &Transfer, stamp: u8) -> anyhow::Result<()> {
        let stride = task.stride();
        let len = task.outstanding * stride;
        let window = self.window % task.windows();
        self.window = self.window.wrapping_add(1);
        let memory = &mut self.memory[window * len..][..len];
        match self.comm.rank() {
            0 => {
                memory.iter_mut().step_by(stride).for_each(|first| *first = stamp);
                let memory = &*memory;
                self.comm.scope(|scope| {
                    let mut sends = Vec::with_capacity(task.outstanding);
                    for buffer in memory.chunks_exact(stride) {
                        sends.push(scope.isend(&buffer[..task.bytes], 1, DATA_TAG)?);
                    }
                    wait_all(sends)
                })?;
                let mut sum = [0u64];
                self.comm.recv(&mut sum, 1, ACK_TAG)?;
                let expected = u64::from(stamp) * task.outstanding as u64;
                ensure!(task.bytes == 0 || sum[0] == expected, "the messages received are not those sent");
            }
            1 => {
                let buffers = &mut *memory;
                self.comm.scope(|scope| {
                    let mut receives = Vec::with_capacity(task.outstanding);
                    for buffer in buffers.chunks_exact_mut(stride) {
                        receives.push(scope.irecv(&mut buffer[..task.bytes], 0, DATA_TAG)?);
                    }
                    wait_all(receives)
                })?;
                let sum: u64 = memory.iter().step_by(stride).map(|first| u64::from(*first)).sum();
                self.comm.send(&[sum], 0, ACK_TAG)?;
            }
            _ => {}
        }
        Ok(())
    }

    #[inline]
    fn ring(&self, stamp: u8) -> anyhow::Result<()> {
        let (rank, size) = (self.comm.rank(), self.comm.size());
        let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
        let mut token = [u64::from(stamp)];
        if rank == 0 {
            self.comm.send(&token, right, DATA_TAG)?;
            self.comm.recv(&mut token, left, DATA_TAG)?;
            // Each other rank has added one.
            ensure!(token[0] == u64::from(stamp) + size as u64 - 1, "a wrong token returned");
        } else {
            self.comm.recv(&mut token, left, DATA_TAG)?;
            token[0] += 1;
            self.comm.send(&token, right, DATA_TAG)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::testing::measured;

    #[test]
    fn every_pattern_is_measured() {
        let texts = ["pingpong:0:1:5:2", "pingpong:100:1:5:2", "stream:1:64:2:2", "stream:100000:3:2:2"];
        let texts = texts.into_iter().chain(["fresh:9000000:2:300:1", "ring:8:1:5:2", "barrier:0:1:5:2"]);
        measured::<Transfers>(2, &texts.map(str::to_owned).collect::<Vec<_>>());
    }

    #[test]
    fn a_ring_of_more_ranks() {
        measured::<Transfers>(5, &["ring:8:1:20:2", "barrier:0:1:20:2"].map(str::to_owned));
    }
}
