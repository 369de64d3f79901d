//! Measures cases between the ranks of a world. `p2p_peer.c` makes the same calls with MPI; keep both in step.
//!
//! Rank 0 takes the time. The first operation of a batch is not timed. Each message carries a byte that changes, and
//! each reply depends on those received: the timed messages have arrived.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::ensure;
use treepie::{Comm, wait_all};

use super::super::{batches, output};
use super::case::{Case, FRESH_BYTES, Pattern};

const DATA_TAG: u32 = 1;
const ACK_TAG: u32 = 2;

/// Alignment of buffers.
const CACHE_LINE: usize = 64;

/// One rank of the point-to-point benchmark.
#[derive(clap::Args)]
pub struct P2pRank {
    /// Launch a world of this number of threads instead of joining one.
    #[arg(long, value_name = "P")]
    threads: Option<usize>,
    cases: Vec<Case>,
}

impl P2pRank {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        batches::on_ranks(self.threads, |world| {
            let times = measure(&world, &self.cases)?;
            if world.rank() == 0 { output::print(world.engine(), &self.cases, &times) } else { Ok(()) }
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Measures each case. Rank 0 returns microseconds per operation, one for each batch; the others return none.
fn measure(comm: &Comm, cases: &[Case]) -> anyhow::Result<Vec<Vec<f64>>> {
    let max = cases.iter().map(|case| case.memory()).max().unwrap_or(0);
    // First touch, so that the pages exist.
    let mut rank = Rank { comm, memory: vec![1; max], window: 0 };
    cases.iter().map(|case| batches::repeat(comm, case.batches, || rank.batch(case))).collect()
}

impl Case {
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

struct Rank<'a> {
    comm: &'a Comm,
    /// All buffers, one after the other.
    memory: Vec<u8>,
    /// Index of the next window.
    window: usize,
}

impl Rank<'_> {
    /// Microseconds per operation, on rank 0.
    fn batch(&mut self, case: &Case) -> anyhow::Result<f64> {
        let mut start = Instant::now();
        for turn in 0..=case.count {
            if turn == 1 {
                start = Instant::now();
            }
            let stamp = turn as u8;
            match case.pattern {
                Pattern::PingPong => self.ping_pong(case, stamp)?,
                Pattern::Stream | Pattern::Fresh => self.stream(case, stamp)?,
                Pattern::Ring => self.ring(stamp)?,
                Pattern::Barrier => self.comm.barrier()?,
            }
        }
        let operations = match case.pattern {
            Pattern::PingPong => 2,
            Pattern::Stream | Pattern::Fresh => case.outstanding,
            Pattern::Ring => self.comm.size(),
            Pattern::Barrier => 1,
        };
        Ok(start.elapsed().as_secs_f64() * 1e6 / (case.count * operations) as f64)
    }

    #[inline]
    fn ping_pong(&mut self, case: &Case, stamp: u8) -> anyhow::Result<()> {
        let (out, into) = self.memory.split_at_mut(case.stride());
        match self.comm.rank() {
            0 => {
                out[0] = stamp;
                self.comm.send(&out[..case.bytes], 1, DATA_TAG)?;
                self.comm.recv(&mut into[..case.bytes], 1, DATA_TAG)?;
                ensure!(case.bytes == 0 || into[0] == stamp, "the reply differs from the message");
            }
            1 => {
                self.comm.recv(&mut into[..case.bytes], 0, DATA_TAG)?;
                out[0] = into[0];
                self.comm.send(&out[..case.bytes], 0, DATA_TAG)?;
            }
            _ => {}
        }
        Ok(())
    }

    #[inline]
    fn stream(&mut self, case: &Case, stamp: u8) -> anyhow::Result<()> {
        let stride = case.stride();
        let len = case.outstanding * stride;
        let window = self.window % case.windows();
        self.window = self.window.wrapping_add(1);
        let memory = &mut self.memory[window * len..][..len];
        match self.comm.rank() {
            0 => {
                memory.iter_mut().step_by(stride).for_each(|first| *first = stamp);
                let memory = &*memory;
                self.comm.scope(|scope| {
                    let mut sends = Vec::with_capacity(case.outstanding);
                    for buffer in memory.chunks_exact(stride) {
                        sends.push(scope.isend(&buffer[..case.bytes], 1, DATA_TAG)?);
                    }
                    wait_all(sends)
                })?;
                let mut sum = [0u64];
                self.comm.recv(&mut sum, 1, ACK_TAG)?;
                let expected = u64::from(stamp) * case.outstanding as u64;
                ensure!(case.bytes == 0 || sum[0] == expected, "the messages received are not those sent");
            }
            1 => {
                let buffers = &mut *memory;
                self.comm.scope(|scope| {
                    let mut receives = Vec::with_capacity(case.outstanding);
                    for buffer in buffers.chunks_exact_mut(stride) {
                        receives.push(scope.irecv(&mut buffer[..case.bytes], 0, DATA_TAG)?);
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

    #[test]
    fn every_pattern_is_measured() {
        let texts = ["pingpong:0:1:5:2", "pingpong:100:1:5:2", "stream:1:64:2:2", "stream:100000:3:2:2"];
        let texts = texts.into_iter().chain(["fresh:9000000:2:300:1", "ring:8:1:5:2", "barrier:0:1:5:2"]);
        let cases: Vec<Case> = texts.map(|text| text.parse().unwrap()).collect();
        let times = treepie::launch(2, |world| Ok(measure(&world, &cases).unwrap())).unwrap();
        for (case, times) in cases.iter().zip(&times[0]) {
            assert_eq!(times.len(), case.batches, "{case}");
            assert!(times.iter().all(|time| *time > 0.0), "{case}: {times:?}");
        }
        assert!(times[1].iter().all(Vec::is_empty));
    }

    #[test]
    fn a_ring_of_more_ranks() {
        let cases: Vec<Case> = ["ring:8:1:20:2", "barrier:0:1:20:2"].iter().map(|text| text.parse().unwrap()).collect();
        let times = treepie::launch(5, |world| Ok(measure(&world, &cases).unwrap())).unwrap();
        assert_eq!(times[0].len(), 2);
    }
}
