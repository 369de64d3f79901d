//! The exchange of blocks of all lengths by store and forward, compared with what every rank can work out.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use treepie::{Comm, Error, Rank, Request, Sum};

use crate::calls;
use crate::check::{Outcome, check, check_eq};
use crate::meeting::neighbours;
use crate::payload::{Particle, bytes, check_bytes, seed};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("routed/elements-of-all-sizes", 1, |comm| each_way(comm, elements)),
    Case::new("routed/nothing-at-all", 1, |comm| each_way(comm, nothing)),
    Case::new("routed/everything-to-one-rank", 1, |comm| each_way(comm, skewed)),
    Case::new("routed/one-huge-block", 1, |comm| each_way(comm, huge)),
    Case::new("routed/random-lengths", 1, |comm| each_way(comm, random)),
    Case::new("routed/a-thousand-in-a-row", 1, |comm| each_way(comm, thousand)),
    Case::new("routed/many-at-once-beside-others", 1, |comm| each_way(comm, at_once)),
    Case::new("routed/dropped-requests-leave-their-operations", 1, |comm| each_way(comm, dropped)),
    Case::new("routed/wrong-counts-are-told-and-harm-nobody-else", 2, |comm| each_way(comm, wrong_counts)),
    Case::new("routed/bad-calls-are-refused", 1, |comm| each_way(comm, refused)),
];

/// Direct, over grids, over the hypercube, and around a ring.
fn each_way(comm: &Comm, works: fn(&Comm) -> Outcome) -> Outcome {
    for id in ["alltoall/grid:1", "alltoall/grid", "alltoall/grid:dimensions=3", "alltoall/hypercube", "alltoall/bruck"]
    {
        works(&comm.using(id)?).map_err(|failure| failure.during(id))?;
    }
    Ok(())
}

/// Bytes of each rank for each other one.
type Lengths<'a> = &'a dyn Fn(Rank, Rank) -> usize;

/// What a rank gives to an exchange: data, and lengths to and from all ranks.
fn given(comm: &Comm, number: usize, len: Lengths<'_>) -> (Vec<u8>, Vec<usize>, Vec<usize>) {
    let (me, ranks) = (comm.rank(), 0..comm.size());
    let data = ranks.clone().flat_map(|to| bytes(seed(me, to, number), len(me, to))).collect();
    (data, ranks.clone().map(|to| len(me, to)).collect(), ranks.map(|from| len(from, me)).collect())
}

fn check_got(comm: &Comm, number: usize, got: &[u8], from: &[usize]) -> Outcome {
    check_eq!(got.len(), from.iter().sum::<usize>(), "bytes of all ranks");
    let mut rest = got;
    for (rank, len) in from.iter().enumerate() {
        let block;
        (block, rest) = rest.split_at(*len);
        let checked = check_bytes(block, seed(rank, comm.rank(), number), *len);
        checked.map_err(|failure| failure.during(format_args!("block of rank {rank} in exchange {number}")))?;
    }
    Ok(())
}

/// Exchanges on borrowed memory.
fn exchange(comm: &Comm, number: usize, len: Lengths<'_>) -> Outcome {
    let (data, to, from) = given(comm, number, len);
    let mut into = vec![0xa5; from.iter().sum()];
    comm.all_to_allv(&data, &to, &mut into, &from)?;
    check_got(comm, number, &into, &from)
}

/// Begins an exchange, and says what must come from each rank.
fn begin(comm: &Comm, number: usize, len: Lengths<'_>) -> Outcome<(Request<'static, Vec<u8>>, Vec<usize>)> {
    let (data, to, from) = given(comm, number, len);
    Ok((comm.iall_to_allv(data, &to, &from)?, from))
}

fn both(comm: &Comm, number: usize, len: Lengths<'_>) -> Outcome {
    exchange(comm, number, len)?;
    let (request, from) = begin(comm, number + 1, len)?;
    check_got(comm, number + 1, &request.wait()?, &from)
}

fn elements(comm: &Comm) -> Outcome {
    let counts: &[usize] = if comm.size() > 8 { &[7] } else { &[0, 1, 7, 1001] };
    for count in counts {
        calls::all_to_allv::<u8>(comm, *count)?;
        calls::all_to_allv::<[i32; 3]>(comm, *count)?;
        calls::all_to_allv::<Particle>(comm, *count)?;
    }
    Ok(())
}

fn nothing(comm: &Comm) -> Outcome {
    (0..5).try_for_each(|number| both(comm, number, &|_, _| 0))
}

fn skewed(comm: &Comm) -> Outcome {
    let last = comm.size() - 1;
    let most = if comm.size() > 8 { 3_000 } else { 70_000 };
    both(comm, 0, &|from, to| if to == last { most + from } else { 0 })?;
    both(comm, 2, &|from, to| if from == last { most + to } else { to % 2 })
}

fn huge(comm: &Comm) -> Outcome {
    let ends = (comm.size() - 1, comm.size() / 3);
    both(comm, 0, &|from, to| if (from, to) == ends { 2_000_001 } else { 0 })
}

/// Mostly short, some empty, a few that are announced before they are sent.
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
    (0..times).try_for_each(|time| both(comm, 2 * time, &|from, to| random_length(time, from, to)))
}

fn thousand(comm: &Comm) -> Outcome {
    let times = if comm.size() > 8 { 100 } else { 1000 };
    (0..times).try_for_each(|number| exchange(comm, number, &|from, to| (from * 5 + to * 3 + number) % 23))
}

fn at_once(comm: &Comm) -> Outcome {
    let (before, after) = neighbours(comm);
    let other = comm.dup()?;
    let mut begun = Vec::new();
    for number in 0..12 {
        let (on, len) = (if number % 3 == 0 { &other } else { comm }, |from, to| random_length(number, from, to));
        begun.push((number, begin(on, number, &len)?));
        let sum = comm.iall_reduce(vec![comm.rank() as u64 + 1], Sum)?;
        let message = comm.isend(vec![number as u64; 3], after, 7)?;
        check_eq!(comm.recv_vec::<u64>(before, 7)?.0, vec![number as u64; 3], "a message beside exchanges");
        message.wait()?;
        let size = comm.size() as u64;
        check_eq!(sum.wait()?, [size * (size + 1) / 2], "a sum beside exchanges");
    }
    // In another order on each rank.
    begun.rotate_left(comm.rank() % 12);
    for (number, (request, from)) in begun {
        check_got(comm, number, &request.wait()?, &from)?;
    }
    Ok(())
}

fn dropped(comm: &Comm) -> Outcome {
    for number in 0..8 {
        let len = |from, to| random_length(number, from, to);
        let (request, from) = begin(comm, number, &len)?;
        if (comm.rank() + number).is_multiple_of(2) {
            drop(request);
        } else {
            check_got(comm, number, &request.wait()?, &from)?;
        }
        exchange(comm, number, &len)?;
    }
    Ok(())
}

/// Rank 0 is wrong about what rank 1 sends to it. Nobody else is touched by that, and all can go on.
fn wrong_counts(comm: &Comm) -> Outcome {
    let lengths = [(8, 9), (9, 8), (0, 1), (1, 0), (50_000, 49_999), (0, 50_000)];
    for (number, (sent, expected)) in lengths.into_iter().enumerate() {
        let len = |from: Rank, to: Rank| if (from, to) == (1, 0) { sent } else { 3 + to };
        for blocking in [true, false] {
            let (data, to, mut from) = given(comm, number, &len);
            let is_wrong = comm.rank() == 0;
            if is_wrong {
                from[1] = expected;
            }
            let mut into = vec![0xa5; from.iter().sum()];
            let result = if blocking {
                comm.all_to_allv(&data, &to, &mut into, &from)
            } else {
                comm.iall_to_allv(data, &to, &from)?.wait().map(|got| into = got)
            };
            if is_wrong {
                let told = Error::Disagreement { got: sent as u64, expected: expected as u64 };
                check_eq!(result, Err(told), "what rank 0 is told");
                check!(!blocking || into.iter().all(|byte| *byte == 0xa5), "nothing is written where ranks disagree");
            } else {
                result?;
                check_got(comm, number, &into, &from)?;
            }
        }
    }
    exchange(comm, 99, &|from, to| from + to)
}

fn refused(comm: &Comm) -> Outcome {
    let size = comm.size();
    let (two, many) = (vec![2; size], vec![1; size + 1]);
    let (data, mut room) = (vec![1u64; 2 * size], vec![0u64; 2 * size]);
    let results = [
        ("short data", comm.all_to_allv(&data[1..], &two, &mut room, &two).err()),
        ("short room", comm.all_to_allv(&data, &two, &mut room[1..], &two).err()),
        ("many counts", comm.all_to_allv(&data, &many, &mut room, &two).err()),
        ("short data, nonblocking", comm.iall_to_allv(data[1..].to_vec(), &two, &two).err()),
        ("many counts, nonblocking", comm.iall_to_allv(data.clone(), &two, &many).err()),
    ];
    for (call, error) in results {
        check!(matches!(error, Some(Error::BadLength { .. })), "{call}: {error:?}");
    }
    for id in ["alltoall/grid:0", "alltoall/grid:x", "alltoall/hypercube:3"] {
        let error = comm.using(id).and_then(|comm| comm.all_to_allv(&data, &two, &mut room, &two)).err();
        check!(matches!(error, Some(Error::Algorithm(_))), "{id}: {error:?}");
    }
    exchange(comm, 0, &|from, to| 2 * from + to)
}
