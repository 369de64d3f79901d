//! Windows: put, get, atomic addition and fences.

use treepie::{Comm, Error, Window};

use crate::check::{Outcome, check, check_eq};
use crate::payload::{Element, Particle, bytes, check_bytes, check_series, seed, series};
use crate::signals::{poll_until, recv_signal, ring_neighbors, send_signal};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("windows/put-fence-get", 1, put_fence_get),
    Case::new("windows/zero-at-first", 1, zero_at_first),
    Case::new("windows/lengths-differ", 1, lengths_differ),
    Case::new("windows/bytes-at-odd-offsets", 1, bytes_at_odd_offsets),
    Case::new("windows/elements-of-several-types", 1, several_types),
    Case::new("windows/neighboring-bytes-of-several-ranks", 1, neighboring_bytes),
    Case::new("windows/every-count-is-returned-once", 1, every_count_once),
    Case::new("windows/counters-at-every-rank", 1, counters_at_every_rank),
    Case::new("windows/negative-counts", 1, negative_counts),
    Case::new("windows/large", 1, large),
    Case::new("windows/several-at-once", 1, several_at_once),
    Case::new("windows/created-and-freed-often", 1, created_and_freed_often),
    Case::new("windows/dropped-without-free", 1, dropped_without_free),
    Case::new("windows/more-than-there-is-memory", 1, more_than_memory),
    Case::new("windows/outside-is-refused", 1, outside_is_refused),
    Case::new("windows/target-waits-for-a-message", 2, target_waits_for_a_message),
    Case::new("windows/a-counter-is-polled", 2, polled_counter),
];

fn put_fence_get(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    let window = comm.window::<u64>(size)?;
    for round in 1..=5u64 {
        for rank in 0..size {
            window.put(rank, me, &[round * 1000 + (me * size + rank) as u64])?;
        }
        window.fence()?;
        for owner in 0..size {
            let mut got = vec![0; size];
            window.get(owner, 0, &mut got)?;
            let want: Vec<u64> = (0..size).map(|writer| round * 1000 + (writer * size + owner) as u64).collect();
            check_eq!(got, want, "part of rank {owner} in round {round}");
            check_eq!(window.get_one(owner, size - 1)?, want[size - 1], "one element of rank {owner}");
        }
        window.fence()?;
    }
    Ok(window.free()?)
}

/// More than any machine has: every rank gets an error, and the communicator stays usable.
fn more_than_memory(comm: &Comm) -> Outcome {
    let last = comm.size() - 1;
    for too_much in [1 << 49, 1 << 57, usize::MAX] {
        // Requested by all ranks, and by one.
        for requester in [comm.rank(), last] {
            let len = if comm.rank() == requester { too_much } else { 1 };
            let made = comm.window::<u64>(len);
            check!(made.is_err(), "a window of {len} elements of rank {}", comm.rank());
            drop(made);
            check_eq!(comm.allgather(&[comm.rank()])?, (0..comm.size()).collect::<Vec<_>>(), "allgather afterwards");
        }
    }
    let window = comm.window::<u64>(3)?;
    window.fence()?;
    Ok(window.free()?)
}

fn zero_at_first(comm: &Comm) -> Outcome {
    for _ in 0..3 {
        let window = comm.window::<u64>(1000)?;
        let mut got = vec![7; 1000];
        window.get((comm.rank() + 1) % comm.size(), 0, &mut got)?;
        check!(got.iter().all(|value| *value == 0), "a new window is not zero");
        // No rank writes before all have read.
        window.fence()?;
        window.put(comm.rank(), 0, &vec![u64::MAX; 1000])?;
        window.free()?;
    }
    Ok(())
}

fn lengths_differ(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    let len = |rank: usize| if rank % 3 == 1 { 0 } else { rank * 5 + 1 };
    let window = comm.window::<u16>(len(me))?;
    for rank in 0..size {
        check_eq!(window.len(rank)?, len(rank), "length of rank {rank}'s part");
    }
    let to = (me + 1) % size;
    window.put(to, 0, &series::<u16>(me, len(to)))?;
    window.fence()?;
    for rank in 0..size {
        let mut got = vec![0; len(rank)];
        window.get(rank, 0, &mut got)?;
        check_series(&got, (rank + size - 1) % size, len(rank))?;
    }
    window.free()?;
    // An empty window.
    let window = comm.window::<u64>(0)?;
    window.put(to, 0, &[])?;
    window.get(to, 0, &mut [])?;
    Ok(window.free()?)
}

fn bytes_at_odd_offsets(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let me = comm.rank();
    let window = comm.window::<u8>(301)?;
    for (first, len) in [(0, 1), (1, 7), (3, 13), (7, 8), (5, 40), (8, 16), (9, 1), (13, 287), (300, 1), (0, 301)] {
        window.put(right, 0, &[0xee; 301])?;
        window.flush()?;
        window.put(right, first, &bytes(seed(me, right, first), len))?;
        window.fence()?;
        let mut local = vec![0; 301];
        window.get(me, 0, &mut local)?;
        check_bytes(&local[first..first + len], seed(left, me, first), len)?;
        let rest = local[..first].iter().chain(&local[first + len..]);
        check!(rest.clone().all(|byte| *byte == 0xee), "bytes outside {first}..{} were written", first + len);
        let mut part = vec![0; len];
        window.get(right, first, &mut part)?;
        check_bytes(&part, seed(me, right, first), len)?;
        window.fence()?;
    }
    Ok(window.free()?)
}

fn several_types(comm: &Comm) -> Outcome {
    fn of<T: Element>(comm: &Comm) -> Outcome {
        let (left, right) = ring_neighbors(comm);
        let window = comm.window::<T>(100)?;
        window.put(right, 10, &series::<T>(comm.rank(), 80))?;
        window.fence()?;
        let mut local = vec![T::zeroed(); 80];
        window.get(comm.rank(), 10, &mut local)?;
        check_series(&local, left, 80)?;
        check_eq!(window.get_one(right, 10)?, T::from_number(comm.rank() as u64 * 1_000_003), "one element");
        check_eq!(window.get_one(right, 9)?, T::zeroed(), "the element before");
        Ok(window.free()?)
    }
    of::<u8>(comm)?;
    of::<u16>(comm)?;
    of::<u32>(comm)?;
    of::<f64>(comm)?;
    of::<Particle>(comm)
}

/// Ranks write bytes of the same words at the same time.
fn neighboring_bytes(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    let window = comm.window::<u8>(size * 50)?;
    for turn in 0..50 {
        window.put(0, turn * size + me, &[(turn + me * 3) as u8])?;
    }
    window.fence()?;
    let mut got = vec![0; size * 50];
    window.get(0, 0, &mut got)?;
    let want: Vec<u8> = (0..50).flat_map(|turn| (0..size).map(move |rank| (turn + rank * 3) as u8)).collect();
    check_eq!(got, want, "bytes that different ranks have written");
    Ok(window.free()?)
}

fn every_count_once(comm: &Comm) -> Outcome {
    let size = comm.size();
    let each = 4000 / size;
    let counter = comm.window::<u64>(if comm.rank() == 0 { 1 } else { 0 })?;
    let marks = comm.window::<u64>(if comm.rank() == size - 1 { each * size } else { 0 })?;
    let mut last = None;
    for _ in 0..each {
        let number = counter.fetch_add(0, 0, 1)?;
        check!(last < Some(number), "a counter returned {number} after {last:?}");
        check!((number as usize) < each * size, "a counter returned {number} of {}", each * size);
        marks.fetch_add(size - 1, number as usize, 1)?;
        last = Some(number);
    }
    marks.fence()?;
    let mut seen = vec![0; each * size];
    marks.get(size - 1, 0, &mut seen)?;
    let wrong = seen.iter().position(|times| *times != 1);
    check!(wrong.is_none(), "count {} was returned {} times", wrong.unwrap_or(0), seen[wrong.unwrap_or(0)]);
    check_eq!(counter.get_one(0, 0)?, (each * size) as u64, "the counter in the end");
    marks.free()?;
    Ok(counter.free()?)
}

fn counters_at_every_rank(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    let window = comm.window::<u64>(4)?;
    for turn in 0..100 {
        let (rank, slot) = ((me + turn) % size, turn % 4);
        window.fetch_add(rank, slot, (slot + 1) as u64)?;
    }
    window.fence()?;
    let mut sum = 0;
    for rank in 0..size {
        let mut counts = [0; 4];
        window.get(rank, 0, &mut counts)?;
        sum += counts.iter().sum::<u64>();
    }
    check_eq!(sum, size as u64 * 250, "the sum of all counters");
    Ok(window.free()?)
}

fn negative_counts(comm: &Comm) -> Outcome {
    let window = comm.window::<i64>(2)?;
    let last = comm.size() - 1;
    window.fetch_add(last, 1, -5)?;
    window.fence()?;
    check_eq!(window.get_one(last, 1)?, -5 * comm.size() as i64, "a counter that was counted down");
    window.fence()?;
    let old = window.fetch_add(last, 1, 3)?;
    check!((-5 * comm.size() as i64..0).contains(&old), "a counter below zero returned {old}");
    window.fence()?;
    check_eq!(window.get_one(last, 1)?, -2 * comm.size() as i64, "a counter that was counted up again");
    check_eq!(window.get_one(last, 0)?, 0, "its neighbor");
    Ok(window.free()?)
}

fn large(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let (me, len) = (comm.rank(), (1 << 20) + 5);
    let window = comm.window::<u8>(len + 3)?;
    window.put(right, 3, &bytes(seed(me, right, 0), len))?;
    window.fence()?;
    let mut got = vec![0; len];
    window.get(me, 3, &mut got)?;
    check_bytes(&got, seed(left, me, 0), len)?;
    window.get(right, 3, &mut got)?;
    check_bytes(&got, seed(me, right, 0), len)?;
    Ok(window.free()?)
}

fn several_at_once(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let me = comm.rank() as u64;
    let windows: Vec<Window<u64>> = (1..=8).map(|len| comm.window(len)).collect::<Result<_, _>>()?;
    for (i, window) in windows.iter().enumerate() {
        window.put(right, i, &[me * 100 + i as u64])?;
    }
    windows.iter().rev().try_for_each(Window::fence)?;
    for (i, window) in windows.iter().enumerate() {
        check_eq!(window.get_one(comm.rank(), i)?, left as u64 * 100 + i as u64, "element of window {i}");
    }
    windows.into_iter().try_for_each(|window| Ok(window.free()?))
}

fn created_and_freed_often(comm: &Comm) -> Outcome {
    let (_, right) = ring_neighbors(comm);
    for turn in 0..100u64 {
        let window = comm.window::<u64>(turn as usize * 7 + 1)?;
        check_eq!(window.fetch_add(right, turn as usize * 7, turn)?, 0, "the last element of window {turn}, at first");
        window.fence()?;
        check_eq!(window.get_one(comm.rank(), turn as usize * 7)?, turn, "the last element of window {turn}");
        window.free()?;
    }
    Ok(())
}

fn dropped_without_free(comm: &Comm) -> Outcome {
    for turn in 1..20u64 {
        let window = comm.window::<u64>(10)?;
        window.fetch_add(0, 9, 1)?;
        window.fence()?;
        check_eq!(window.get_one(0, 9)?, comm.size() as u64, "a counter in window {turn}");
        drop(window);
    }
    Ok(())
}

fn outside_is_refused(comm: &Comm) -> Outcome {
    let (rank, size) = (comm.size() - 1, comm.size());
    let window = comm.window::<u64>(rank + 3)?;
    let len = rank as u64 + 3;
    let outside = |first, end| Some(Error::OutsideWindow { rank, first, end, len });
    check_eq!(window.put(rank, rank + 2, &[1, 2]).err(), outside(len - 1, len + 1), "put across the end");
    check_eq!(window.get(rank, rank + 4, &mut [0]).err(), outside(len + 1, len + 2), "get past the end");
    check_eq!(window.get_one(rank, rank + 3).err(), outside(len, len + 1), "get_one past the end");
    check_eq!(window.fetch_add(rank, rank + 3, 1).err(), outside(len, len + 1), "fetch_add past the end");
    let far = window.put(rank, usize::MAX, &[1]).err();
    check!(matches!(far, Some(Error::OutsideWindow { .. })), "put far outside: {far:?}");
    let bad = Some(Error::BadRank { rank: size, size });
    check_eq!(window.put(size, 0, &[1]).err(), bad, "put to a rank that does not exist");
    check_eq!(window.get_one(size, 0).err(), bad, "get from a rank that does not exist");
    check_eq!(window.fetch_add(size, 0, 1).err(), bad, "fetch_add at a rank that does not exist");
    check_eq!(window.len(size).err(), bad, "length of a rank that does not exist");
    window.fence()?;
    let mut all = vec![1; rank + 3];
    window.get(rank, 0, &mut all)?;
    check!(all.iter().all(|value| *value == 0), "a refused access has written");
    Ok(window.free()?)
}

/// The target only has to make progress.
fn target_waits_for_a_message(comm: &Comm) -> Outcome {
    let window = comm.window::<u64>(100)?;
    if comm.rank() == 0 {
        for rank in 1..comm.size() {
            recv_signal(comm, rank)?;
        }
    } else {
        for turn in 0..50 {
            window.fetch_add(0, turn, 1)?;
            window.put(0, 50 + turn, &[turn as u64])?;
            window.flush()?;
            check_eq!(window.get_one(0, 50 + turn)?, turn as u64, "what was put");
        }
        send_signal(comm, 0)?;
    }
    window.fence()?;
    let mut counts = [0; 50];
    window.get(0, 0, &mut counts)?;
    check_eq!(counts, [comm.size() as u64 - 1; 50], "counters at rank 0");
    Ok(window.free()?)
}

/// Each rank polls a counter until it is its turn, without any fence.
fn polled_counter(comm: &Comm) -> Outcome {
    let window = comm.window::<u64>(1)?;
    let size = comm.size();
    // Each rank adds when the counter reaches its number.
    for turn in 0..5 {
        let ticket = (turn * size + comm.rank()) as u64;
        poll_until(comm, "the turn of this rank", || Ok(window.get_one(size - 1, 0)? == ticket))?;
        check_eq!(window.fetch_add(size - 1, 0, 1)?, ticket, "the count in this rank's turn");
    }
    Ok(window.free()?)
}
