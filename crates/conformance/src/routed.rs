//! Store-and-forward alltoallv with blocks of all lengths, compared with what every rank can compute.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use treepie::{Comm, Error, Rank, Request, Sum};

use crate::calls;
use crate::check::{Outcome, check, check_eq};
use crate::payload::{Particle, bytes, check_bytes, seed};
use crate::signals::ring_neighbors;
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("routed/elements-of-all-sizes", 1, |comm| for_each_routing(comm, elements)),
    Case::new("routed/empty", 1, |comm| for_each_routing(comm, nothing)),
    Case::new("routed/everything-to-one-rank", 1, |comm| for_each_routing(comm, skewed)),
    Case::new("routed/one-huge-block", 1, |comm| for_each_routing(comm, huge)),
    Case::new("routed/random-lengths", 1, |comm| for_each_routing(comm, random)),
    Case::new("routed/a-thousand-in-a-row", 1, |comm| for_each_routing(comm, thousand)),
    Case::new("routed/many-at-once-with-others", 1, |comm| for_each_routing(comm, at_once)),
    Case::new("routed/dropped-requests-still-complete", 1, |comm| for_each_routing(comm, dropped)),
    Case::new("routed/wrong-counts-are-an-error-on-one-rank", 2, |comm| for_each_routing(comm, wrong_counts)),
    Case::new("routed/bad-calls-are-refused", 1, |comm| for_each_routing(comm, refused)),
];

/// Runs a check with each routing: direct, over grids, over the hypercube, and Bruck.
fn for_each_routing(comm: &Comm, works: fn(&Comm) -> Outcome) -> Outcome {
    for id in ["alltoall/grid:1", "alltoall/grid", "alltoall/grid:dimensions=3", "alltoall/hypercube", "alltoall/bruck"]
    {
        works(&comm.with_algorithm(id)?).map_err(|failure| failure.context(id))?;
    }
    Ok(())
}

/// Bytes that each rank sends to each other rank.
type Lengths<'a> = &'a dyn Fn(Rank, Rank) -> usize;

/// A rank's input of an exchange: data, and counts to and from all ranks.
fn input(comm: &Comm, number: usize, len: Lengths<'_>) -> (Vec<u8>, Vec<usize>, Vec<usize>) {
    let (me, ranks) = (comm.rank(), 0..comm.size());
    let data = ranks.clone().flat_map(|to| bytes(seed(me, to, number), len(me, to))).collect();
    (data, ranks.clone().map(|to| len(me, to)).collect(), ranks.map(|from| len(from, me)).collect())
}

fn check_output(comm: &Comm, number: usize, got: &[u8], from: &[usize]) -> Outcome {
    check_eq!(got.len(), from.iter().sum::<usize>(), "bytes of all ranks");
    let mut rest = got;
    for (rank, len) in from.iter().enumerate() {
        let block;
        (block, rest) = rest.split_at(*len);
        let checked = check_bytes(block, seed(rank, comm.rank(), number), *len);
        checked.map_err(|failure| failure.context(format_args!("block of rank {rank} in exchange {number}")))?;
    }
    Ok(())
}

/// A blocking exchange.
fn exchange(comm: &Comm, number: usize, len: Lengths<'_>) -> Outcome {
    let (data, to, from) = input(comm, number, len);
    let mut into = vec![0xa5; from.iter().sum()];
    comm.alltoallv(&data, &to, &mut into, &from)?;
    check_output(comm, number, &into, &from)
}

/// Starts an exchange; returns the request and the counts from all ranks.
fn start(comm: &Comm, number: usize, len: Lengths<'_>) -> Outcome<(Request<'static, Vec<u8>>, Vec<usize>)> {
    let (data, to, from) = input(comm, number, len);
    Ok((comm.ialltoallv(data, &to, &from)?, from))
}

fn blocking_and_nonblocking(comm: &Comm, number: usize, len: Lengths<'_>) -> Outcome {
    exchange(comm, number, len)?;
    let (request, from) = start(comm, number + 1, len)?;
    check_output(comm, number + 1, &request.wait()?, &from)
}

fn elements(comm: &Comm) -> Outcome {
    let counts: &[usize] = if comm.size() > 8 { &[7] } else { &[0, 1, 7, 1001] };
    for count in counts {
        calls::alltoallv::<u8>(comm, *count)?;
        calls::alltoallv::<[i32; 3]>(comm, *count)?;
        calls::alltoallv::<Particle>(comm, *count)?;
    }
    Ok(())
}

fn nothing(comm: &Comm) -> Outcome {
    (0..5).try_for_each(|number| blocking_and_nonblocking(comm, number, &|_, _| 0))
}

fn skewed(comm: &Comm) -> Outcome {
    let last = comm.size() - 1;
    let len = if comm.size() > 8 { 3_000 } else { 70_000 };
    blocking_and_nonblocking(comm, 0, &|from, to| if to == last { len + from } else { 0 })?;
    blocking_and_nonblocking(comm, 2, &|from, to| if from == last { len + to } else { to % 2 })
}

fn huge(comm: &Comm) -> Outcome {
    let ends = (comm.size() - 1, comm.size() / 3);
    blocking_and_nonblocking(comm, 0, &|from, to| if (from, to) == ends { 2_000_001 } else { 0 })
}

/// Mostly short lengths, some 0, a few above the eager limit.
fn random_length(number: usize, from: Rank, to: Rank) -> usize {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed(from, to, number));
    let mut below = move |limit: u64| (random.next_u64() % limit) as usize;
    match below(16) {
        0..4 => 0,
        4..14 => below(300),
        14 => below(5_000),
        _ => below(40_000),
    }
}

fn random(comm: &Comm) -> Outcome {
    let times = if comm.size() > 8 { 4 } else { 40 };
    (0..times).try_for_each(|time| blocking_and_nonblocking(comm, 2 * time, &|from, to| random_length(time, from, to)))
}

fn thousand(comm: &Comm) -> Outcome {
    let times = if comm.size() > 8 { 100 } else { 1000 };
    (0..times).try_for_each(|number| exchange(comm, number, &|from, to| (from * 5 + to * 3 + number) % 23))
}

fn at_once(comm: &Comm) -> Outcome {
    let (before, after) = ring_neighbors(comm);
    let other = comm.dup()?;
    let mut pending = Vec::new();
    for number in 0..12 {
        let (on, len) = (if number % 3 == 0 { &other } else { comm }, |from, to| random_length(number, from, to));
        pending.push((number, start(on, number, &len)?));
        let sum = comm.iallreduce(vec![comm.rank() as u64 + 1], Sum)?;
        let message = comm.isend(vec![number as u64; 3], after, 7)?;
        check_eq!(comm.recv_vec::<u64>(before, 7)?.0, vec![number as u64; 3], "a message during exchanges");
        message.wait()?;
        let size = comm.size() as u64;
        check_eq!(sum.wait()?, [size * (size + 1) / 2], "an allreduce during exchanges");
    }
    // Waited for in another order on each rank.
    pending.rotate_left(comm.rank() % 12);
    for (number, (request, from)) in pending {
        check_output(comm, number, &request.wait()?, &from)?;
    }
    Ok(())
}

fn dropped(comm: &Comm) -> Outcome {
    for number in 0..8 {
        let len = |from, to| random_length(number, from, to);
        let (request, from) = start(comm, number, &len)?;
        if (comm.rank() + number).is_multiple_of(2) {
            drop(request);
        } else {
            check_output(comm, number, &request.wait()?, &from)?;
        }
        exchange(comm, number, &len)?;
    }
    Ok(())
}

/// Rank 0 passes a wrong count for rank 1. No other rank is affected, and all can go on.
fn wrong_counts(comm: &Comm) -> Outcome {
    let lengths = [(8, 9), (9, 8), (0, 1), (1, 0), (50_000, 49_999), (0, 50_000)];
    for (number, (sent, expected)) in lengths.into_iter().enumerate() {
        let len = |from: Rank, to: Rank| if (from, to) == (1, 0) { sent } else { 3 + to };
        for blocking in [true, false] {
            let (data, to, mut from) = input(comm, number, &len);
            let is_wrong = comm.rank() == 0;
            if is_wrong {
                from[1] = expected;
            }
            let mut into = vec![0xa5; from.iter().sum()];
            let result = if blocking {
                comm.alltoallv(&data, &to, &mut into, &from)
            } else {
                comm.ialltoallv(data, &to, &from)?.wait().map(|got| into = got)
            };
            if is_wrong {
                let error = Error::LengthMismatch { got: sent as u64, expected: expected as u64 };
                check_eq!(result, Err(error), "the error of rank 0");
                check!(
                    !blocking || into.iter().all(|byte| *byte == 0xa5),
                    "the output was written although counts differ"
                );
            } else {
                result?;
                check_output(comm, number, &into, &from)?;
            }
        }
    }
    exchange(comm, 99, &|from, to| from + to)
}

fn refused(comm: &Comm) -> Outcome {
    let size = comm.size();
    let (two, many) = (vec![2; size], vec![1; size + 1]);
    let (data, mut into) = (vec![1u64; 2 * size], vec![0u64; 2 * size]);
    let results = [
        ("short data", comm.alltoallv(&data[1..], &two, &mut into, &two).err()),
        ("short output", comm.alltoallv(&data, &two, &mut into[1..], &two).err()),
        ("many counts", comm.alltoallv(&data, &many, &mut into, &two).err()),
        ("short data, nonblocking", comm.ialltoallv(data[1..].to_vec(), &two, &two).err()),
        ("many counts, nonblocking", comm.ialltoallv(data.clone(), &two, &many).err()),
    ];
    for (call, error) in results {
        check!(matches!(error, Some(Error::BadLength { .. })), "{call}: {error:?}");
    }
    for id in ["alltoall/grid:0", "alltoall/grid:x", "alltoall/hypercube:3"] {
        let error = comm.with_algorithm(id).and_then(|comm| comm.alltoallv(&data, &two, &mut into, &two)).err();
        check!(matches!(error, Some(Error::Algorithm(_))), "{id}: {error:?}");
    }
    exchange(comm, 0, &|from, to| 2 * from + to)
}
