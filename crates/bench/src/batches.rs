//! Repetition of a case by the ranks of a benchmark. `peer.h` does the same with MPI; keep both in step.
//!
//! Before each batch, rank 0 tells the others whether there is another: a case that takes long, as on a busy machine,
//! ends early. The first batch of a case is a warm-up.

use std::time::{Duration, Instant};

use treepie::{Comm, Error};

const CONTINUE_TAG: u32 = 3;
const TIME_TAG: u32 = 4;

/// A case that has taken this long ends after the minimum number of batches.
const LONG_CASE: Duration = Duration::from_millis(300);
const MIN_BATCHES: usize = 3;

/// Runs `rank` on the ranks of this process's world, or of a world of `threads` threads.
pub(super) fn on_ranks(threads: Option<usize>, rank: impl Fn(Comm) -> anyhow::Result<()> + Sync) -> anyhow::Result<()> {
    match threads {
        None => rank(treepie::init()?),
        Some(ranks) => Ok(treepie::launch(ranks, |world| rank(world).map_err(program_error)).map(drop)?),
    }
}

/// Runs `rank` on each rank of a world of threads.
pub fn on_threads<T: Send>(ranks: u32, rank: impl Fn(&Comm) -> anyhow::Result<T> + Sync) -> anyhow::Result<Vec<T>> {
    Ok(treepie::launch(ranks as usize, |world| rank(&world).map_err(program_error))?)
}

/// An error of a rank program, with its context, as that of a rank. The consequence of another rank's failure stays one.
pub fn program_error(error: anyhow::Error) -> Error {
    match error.downcast_ref() {
        Some(consequence @ (Error::PeerLost { .. } | Error::Aborted { .. })) => consequence.clone(),
        _ => Error::Program(format!("{error:#}")),
    }
}

/// Repeats a batch, which returns its time. Rank 0 returns the times without warm-up; the others return none.
pub(super) fn repeat(
    comm: &Comm,
    batches: usize,
    batch: impl FnMut() -> anyhow::Result<f64>,
) -> anyhow::Result<Vec<f64>> {
    repeat_several(comm, batches, 1, batch)
}

/// The same with batches of `parts` parts; the time limit scales with them.
pub(super) fn repeat_several<T>(
    comm: &Comm,
    batches: usize,
    parts: u32,
    mut batch: impl FnMut() -> anyhow::Result<T>,
) -> anyhow::Result<Vec<T>> {
    let mut times = Vec::new();
    if comm.rank() != 0 {
        while comm.recv_vec::<u64>(0, CONTINUE_TAG)?.0 == [1] {
            batch()?;
        }
        return Ok(times);
    }
    let start = Instant::now();
    for number in 0..=batches {
        if times.len() >= MIN_BATCHES && start.elapsed() > LONG_CASE * parts {
            break;
        }
        send_continue(comm, 1)?;
        let time = batch()?;
        if number > 0 {
            times.push(time);
        }
    }
    send_continue(comm, 0)?;
    Ok(times)
}

/// The order of `count` programs in a turn: a balanced Latin square. In `count` turns, if `count` is even, each is once
/// at each position and once after each other one.   [Williams 1949]
pub(super) fn balanced_order(turn: usize, count: usize) -> impl Iterator<Item = usize> {
    let base = move |position: usize| if position % 2 == 1 { position.div_ceil(2) } else { count - position / 2 };
    (0..count).map(move |position| (base(position) + turn) % count)
}

/// The time of the slowest rank, on rank 0.
pub(super) fn max_time(comm: &Comm, local: f64) -> anyhow::Result<f64> {
    if comm.rank() != 0 {
        comm.send(&[local], 0, TIME_TAG)?;
        return Ok(local);
    }
    let mut slowest = local;
    for rank in 1..comm.size() {
        let mut time = [0.0];
        comm.recv(&mut time, rank, TIME_TAG)?;
        slowest = slowest.max(time[0]);
    }
    Ok(slowest)
}

fn send_continue(comm: &Comm, go_on: u64) -> anyhow::Result<()> {
    for rank in 1..comm.size() {
        comm.send(&[go_on], rank, CONTINUE_TAG)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_that_takes_long_ends_early() {
        let slow = || {
            std::thread::sleep(LONG_CASE / 4);
            Ok(1.0)
        };
        let times = treepie::launch(2, |comm| Ok(repeat(&comm, 9, slow).unwrap())).unwrap();
        assert!((MIN_BATCHES..9).contains(&times[0].len()), "{times:?}");
        assert!(times[1].is_empty());
        let quick = treepie::launch(3, |comm| Ok(repeat(&comm, 4, || Ok(2.0)).unwrap())).unwrap();
        assert_eq!(quick[0].len(), 4);
    }

    #[test]
    fn the_order_is_balanced() {
        for count in [1, 2, 8] {
            let turns: Vec<Vec<usize>> = (0..count).map(|turn| balanced_order(turn, count).collect()).collect();
            let mut followed: Vec<(usize, usize)> =
                turns.iter().flat_map(|turn| turn.windows(2).map(|pair| (pair[0], pair[1]))).collect();
            followed.sort_unstable();
            let all = (0..count).flat_map(|a| (0..count).map(move |b| (a, b))).filter(|(a, b)| a != b);
            assert_eq!(followed, all.collect::<Vec<_>>());
        }
        let mut seven: Vec<usize> = balanced_order(3, 7).collect();
        seven.sort_unstable();
        assert_eq!(seven, [0, 1, 2, 3, 4, 5, 6]);
    }
}
