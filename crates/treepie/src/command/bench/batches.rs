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

/// In which order so many take a turn. In as many turns as there are, if they are even, each comes once at each place and
/// follows each other one once.   [Williams 1949]
pub(super) fn order(turn: usize, count: usize) -> impl Iterator<Item = usize> {
    let base = move |place: usize| if place % 2 == 1 { place.div_ceil(2) } else { count - place / 2 };
    (0..count).map(move |place| (base(place) + turn) % count)
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

    #[test]
    fn each_one_follows_each_other_one() {
        for count in [1, 2, 8] {
            let turns: Vec<Vec<usize>> = (0..count).map(|turn| order(turn, count).collect()).collect();
            let mut followed: Vec<(usize, usize)> =
                turns.iter().flat_map(|turn| turn.windows(2).map(|pair| (pair[0], pair[1]))).collect();
            followed.sort_unstable();
            let all = (0..count).flat_map(|a| (0..count).map(move |b| (a, b))).filter(|(a, b)| a != b);
            assert_eq!(followed, all.collect::<Vec<_>>());
        }
        let mut seven: Vec<usize> = order(3, 7).collect();
        seven.sort_unstable();
        assert_eq!(seven, [0, 1, 2, 3, 4, 5, 6]);
    }
}
