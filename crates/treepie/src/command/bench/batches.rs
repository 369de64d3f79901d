//! How the ranks of a benchmark come together and repeat a case. `peer.h` does the same with MPI; whoever changes one
//! changes the other.
//!
//! Before each batch rank 0 tells the others whether there is one more: a case ends early when it has taken long, as on a
//! machine that is busy. The first batch of a case is not counted.

use std::time::{Duration, Instant};

use treepie::Comm;

const GO_ON: u32 = 3;
const TIME: u32 = 4;

/// A case that has taken so long ends when it has enough batches.
const LONG: Duration = Duration::from_millis(300);
const ENOUGH: usize = 3;

/// Does this on the ranks of the world that this process was started in, or of a world of so many threads.
pub(super) fn on_ranks(threads: Option<usize>, rank: impl Fn(Comm) -> anyhow::Result<()> + Sync) -> anyhow::Result<()> {
    match threads {
        None => rank(treepie::init()?),
        Some(ranks) => treepie::launch(ranks, rank)?.into_iter().collect(),
    }
}

/// Repeats a batch, which returns its time. Rank 0 returns those that count; the others return nothing.
pub(super) fn repeat(
    comm: &Comm,
    batches: usize,
    batch: impl FnMut() -> anyhow::Result<f64>,
) -> anyhow::Result<Vec<f64>> {
    repeat_several(comm, batches, 1, batch)
}

/// The same with batches of so many parts, which may take so many times as long.
pub(super) fn repeat_several<T>(
    comm: &Comm,
    batches: usize,
    parts: u32,
    mut batch: impl FnMut() -> anyhow::Result<T>,
) -> anyhow::Result<Vec<T>> {
    let mut times = Vec::new();
    if comm.rank() != 0 {
        while comm.recv_vec::<u64>(0, GO_ON)?.0 == [1] {
            batch()?;
        }
        return Ok(times);
    }
    let begun = Instant::now();
    for number in 0..=batches {
        if times.len() >= ENOUGH && begun.elapsed() > LONG * parts {
            break;
        }
        tell_others(comm, 1)?;
        let time = batch()?;
        if number > 0 {
            times.push(time);
        }
    }
    tell_others(comm, 0)?;
    Ok(times)
}

/// The longest of all ranks' times, on rank 0.
pub(super) fn slowest(comm: &Comm, mine: f64) -> anyhow::Result<f64> {
    if comm.rank() != 0 {
        comm.send(&[mine], 0, TIME)?;
        return Ok(mine);
    }
    let mut slowest = mine;
    for rank in 1..comm.size() {
        let mut time = [0.0];
        comm.recv(&mut time, rank, TIME)?;
        slowest = slowest.max(time[0]);
    }
    Ok(slowest)
}

fn tell_others(comm: &Comm, go_on: u64) -> anyhow::Result<()> {
    for rank in 1..comm.size() {
        comm.send(&[go_on], rank, GO_ON)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_that_takes_long_ends_early() {
        let slow = || {
            std::thread::sleep(LONG / 4);
            Ok(1.0)
        };
        let times = treepie::launch(2, |comm| repeat(&comm, 9, slow).unwrap()).unwrap();
        assert!((ENOUGH..9).contains(&times[0].len()), "{times:?}");
        assert!(times[1].is_empty());
        let quick = treepie::launch(3, |comm| repeat(&comm, 4, || Ok(2.0)).unwrap()).unwrap();
        assert_eq!(quick[0].len(), 4);
    }
}
