//! Measures cases between the ranks of a world. `p2p_peer.c` does the same with MPI, call for call; whoever changes one
//! changes the other.
//!
//! Rank 0 has the clock. Before each batch it tells the others whether there is one more: a case ends early when it has
//! taken long, as on a machine that is busy. The first batch of a case and the first operation of a batch are not timed.
//! Each message carries a byte that changes, and each answer depends on those received: what was timed has arrived.

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::ensure;
use treepie::{Comm, wait_all};

use super::case::{Case, FRESH_BYTES, Pattern};

const DATA: u32 = 1;
const ACK: u32 = 2;
const GO_ON: u32 = 3;

/// A case that has taken so long ends when it has enough batches.
const LONG: Duration = Duration::from_millis(300);
const ENOUGH: usize = 3;

/// Buffers begin at multiples of this.
const LINE: usize = 64;

/// One rank of the point-to-point benchmark.
#[derive(clap::Args)]
pub(crate) struct P2pRank {
    /// Make a world of so many threads instead of joining one.
    #[arg(long, value_name = "P")]
    threads: Option<usize>,
    cases: Vec<Case>,
}

impl P2pRank {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        match self.threads {
            None => print(&treepie::init()?, &self.cases)?,
            Some(ranks) => {
                let printed = treepie::launch(ranks, |world| print(&world, &self.cases))?;
                printed.into_iter().collect::<anyhow::Result<()>>()?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Measures, and on rank 0 prints the engine and a line of microseconds for each case, for [`parse`].
fn print(comm: &Comm, cases: &[Case]) -> anyhow::Result<()> {
    let times = measure(comm, cases)?;
    if comm.rank() == 0 {
        let mut out = std::io::stdout().lock();
        writeln!(out, "engine {}", comm.engine())?;
        for (case, times) in cases.iter().zip(times) {
            let times: Vec<String> = times.iter().map(|time| format!("{time:.5}")).collect();
            writeln!(out, "case {case} {}", times.join(" "))?;
        }
    }
    Ok(())
}

/// What a job has printed.
#[derive(Debug, PartialEq)]
pub(crate) struct Printed {
    /// The engine, if it was Treepie.
    pub(crate) engine: Option<String>,
    /// Microseconds per operation, for each case that was asked for the median of its batches.
    pub(crate) micros: Vec<f64>,
}

/// Reads what a job printed for these cases. Other lines may come from anywhere and are passed over.
pub(crate) fn parse(output: &str, cases: &[Case]) -> anyhow::Result<Printed> {
    let mut engine = None;
    let mut found: Vec<(&str, f64)> = Vec::new();
    for line in output.lines() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("engine"), Some(name)) => engine = Some(name.to_owned()),
            (Some("case"), Some(case)) => {
                let times: Vec<f64> = words.map(str::parse).collect::<Result<_, _>>().unwrap_or_default();
                ensure!(!times.is_empty() && times.iter().all(|time| *time > 0.0), "no times in the line {line:?}");
                found.push((case, super::statistics::median(&times)));
            }
            _ => {}
        }
    }
    let names: Vec<String> = cases.iter().map(Case::to_string).collect();
    let same = names.iter().eq(found.iter().map(|(case, _)| case));
    ensure!(same, "the job did not measure what it was told to, its output was: {}", super::one_line(output));
    Ok(Printed { engine, micros: found.into_iter().map(|(_, micros)| micros).collect() })
}

/// Measures each case. Rank 0 returns microseconds per operation, one for each batch; the others return nothing.
pub(crate) fn measure(comm: &Comm, cases: &[Case]) -> anyhow::Result<Vec<Vec<f64>>> {
    let most = cases.iter().map(|case| case.memory()).max().unwrap_or(0);
    // Written once, so that the pages exist.
    let mut rank = Rank { comm, memory: vec![1; most], window: 0 };
    cases.iter().map(|case| rank.batches(case)).collect()
}

impl Case {
    /// From one message's buffer to the next.
    fn stride(&self) -> usize {
        self.bytes.next_multiple_of(LINE).max(LINE)
    }

    /// Bytes of all buffers on one side.
    fn memory(&self) -> usize {
        match self.pattern {
            Pattern::Fresh => self.windows() * self.outstanding * self.stride(),
            _ => (self.outstanding * self.stride()).max(2 * self.stride()),
        }
    }

    /// How many windows have buffers of their own.
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
    /// Which of the windows with buffers of their own is next.
    window: usize,
}

impl Rank<'_> {
    fn batches(&mut self, case: &Case) -> anyhow::Result<Vec<f64>> {
        let mut times = Vec::new();
        if self.comm.rank() != 0 {
            while self.comm.recv_vec::<u64>(0, GO_ON)?.0 == [1] {
                self.batch(case)?;
            }
            return Ok(times);
        }
        let begun = Instant::now();
        for batch in 0..=case.batches {
            if times.len() >= ENOUGH && begun.elapsed() > LONG {
                break;
            }
            self.tell_others(1)?;
            let time = self.batch(case)?;
            if batch > 0 {
                times.push(time);
            }
        }
        self.tell_others(0)?;
        Ok(times)
    }

    fn tell_others(&self, go_on: u64) -> anyhow::Result<()> {
        for rank in 1..self.comm.size() {
            self.comm.send(&[go_on], rank, GO_ON)?;
        }
        Ok(())
    }

    /// Microseconds per operation, on rank 0.
    fn batch(&mut self, case: &Case) -> anyhow::Result<f64> {
        let mut begun = Instant::now();
        for turn in 0..=case.count {
            if turn == 1 {
                begun = Instant::now();
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
        Ok(begun.elapsed().as_secs_f64() * 1e6 / (case.count * operations) as f64)
    }

    #[inline]
    fn ping_pong(&mut self, case: &Case, stamp: u8) -> anyhow::Result<()> {
        let (out, into) = self.memory.split_at_mut(case.stride());
        match self.comm.rank() {
            0 => {
                out[0] = stamp;
                self.comm.send(&out[..case.bytes], 1, DATA)?;
                self.comm.recv(&mut into[..case.bytes], 1, DATA)?;
                ensure!(case.bytes == 0 || into[0] == stamp, "another message came back than was sent");
            }
            1 => {
                self.comm.recv(&mut into[..case.bytes], 0, DATA)?;
                out[0] = into[0];
                self.comm.send(&out[..case.bytes], 0, DATA)?;
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
                        sends.push(scope.isend(&buffer[..case.bytes], 1, DATA)?);
                    }
                    wait_all(sends)
                })?;
                let mut sum = [0u64];
                self.comm.recv(&mut sum, 1, ACK)?;
                let expected = u64::from(stamp) * case.outstanding as u64;
                ensure!(case.bytes == 0 || sum[0] == expected, "other messages arrived than were sent");
            }
            1 => {
                let buffers = &mut *memory;
                self.comm.scope(|scope| {
                    let mut receives = Vec::with_capacity(case.outstanding);
                    for buffer in buffers.chunks_exact_mut(stride) {
                        receives.push(scope.irecv(&mut buffer[..case.bytes], 0, DATA)?);
                    }
                    wait_all(receives)
                })?;
                let sum: u64 = memory.iter().step_by(stride).map(|first| u64::from(*first)).sum();
                self.comm.send(&[sum], 0, ACK)?;
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
            self.comm.send(&token, right, DATA)?;
            self.comm.recv(&mut token, left, DATA)?;
            // Everybody has added one.
            ensure!(token[0] == u64::from(stamp) + size as u64 - 1, "another token came back than was sent");
        } else {
            self.comm.recv(&mut token, left, DATA)?;
            token[0] += 1;
            self.comm.send(&token, right, DATA)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_measured_and_read_back() {
        let texts = ["pingpong:0:1:5:2", "pingpong:100:1:5:2", "stream:1:64:2:2", "stream:100000:3:2:2"];
        let texts = texts.into_iter().chain(["fresh:9000000:2:300:1", "ring:8:1:5:2", "barrier:0:1:5:2"]);
        let cases: Vec<Case> = texts.map(|text| text.parse().unwrap()).collect();
        let times = treepie::launch(2, |world| measure(&world, &cases).unwrap()).unwrap();
        let mut output = "engine threads\nsomebody else's line\n".to_owned();
        for (case, times) in cases.iter().zip(&times[0]) {
            assert_eq!(times.len(), case.batches);
            output += &format!("case {case} {}\n", times.iter().map(f64::to_string).collect::<Vec<_>>().join(" "));
        }
        assert!(times[1].iter().all(Vec::is_empty));
        let printed = parse(&output, &cases).unwrap();
        assert_eq!(printed.engine.as_deref(), Some("threads"));
        assert_eq!(printed.micros.len(), cases.len());
        assert!(parse(&output, &cases[1..]).is_err());
        assert!(parse("case pingpong:0:1:5:2 fast", &cases[..1]).is_err());
    }

    #[test]
    fn a_ring_of_more_ranks() {
        let cases: Vec<Case> = ["ring:8:1:20:2", "barrier:0:1:20:2"].iter().map(|text| text.parse().unwrap()).collect();
        let times = treepie::launch(5, |world| measure(&world, &cases).unwrap()).unwrap();
        assert_eq!(times[0].len(), 2);
    }
}
