//! Many collective operations on the way at once.

mod failing;

use treepie::{Comm, Request, Sum, wait_all};

use crate::check::{Outcome, check_eq};
use crate::folds::{MAPS, SUM};
use crate::meeting::{neighbours, until};
use crate::payload::{bytes, check_bytes, seed, series};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("in-flight/twenty-of-all-kinds-waited-for-in-any-order", 1, twenty_in_any_order),
    Case::new("in-flight/twenty-asked-until-they-are-done", 1, twenty_asked),
    Case::new("in-flight/beside-messages-and-a-dup", 1, beside_messages_and_a_dup),
    Case::new("in-flight/beside-blocking-ones", 1, beside_blocking_ones),
    Case::new("in-flight/on-dups-begun-in-any-order", 1, on_dups_begun_in_any_order),
    Case::new("in-flight/dropped-requests-leave-their-operations", 1, dropped_requests),
    Case::new("in-flight/borrowed-in-a-scope", 1, borrowed_in_a_scope),
    Case::new("in-flight/a-scope-waits-for-what-nobody-waited-for", 1, scope_waits),
    Case::new("in-flight/five-thousand-in-a-row", 1, five_thousand),
    Case::new("in-flight/one-is-short-and-nobody-waits-for-ever", 2, failing::one_is_short),
    Case::new("in-flight/four-thousand-after-ranks-have-disagreed", 2, failing::long_after),
    Case::new("in-flight/an-operator-that-panics", 2, failing::operator_panics),
];

const MANY: usize = 20;

/// An operation that goes on, and what must come of it.
struct Begun {
    what: String,
    request: Request<'static, Vec<u64>>,
    want: Vec<u64>,
}

impl Begun {
    fn end(self) -> Outcome {
        check_eq!(self.request.wait()?, self.want, "{}", self.what);
        Ok(())
    }
}

/// Some are empty, most short, one long.
fn length(number: usize) -> usize {
    [3, 0, 1, 700, 17, 20_000, 2][number % 7]
}

/// Begins an operation: which, and with what, follows from its number.
fn begin(comm: &Comm, number: usize) -> Outcome<Begun> {
    let (rank, size, len) = (comm.rank(), comm.size(), length(number));
    let root = number % size;
    let of = |from: usize, to: usize, len: usize| series::<u64>(number * 4096 + from * 64 + to, len);
    let counts: Vec<usize> = (0..size).map(|rank| (len + rank) * ((rank + number) % 3)).collect();
    let each = vec![len; size];
    let own = |counts: &[usize]| (0..size).flat_map(|r| of(r, r, counts[r])).collect::<Vec<u64>>();
    let for_each = |counts: &[usize]| (0..size).flat_map(|to| of(root, to, counts[to])).collect::<Vec<u64>>();
    let at_root = |data: Vec<u64>| if rank == root { data } else { Vec::new() };
    let sum = |ranks: std::ops::Range<usize>, len| SUM.result(ranks, len);
    let (name, request, want) = match number % 14 {
        0 => {
            ("ibcast", comm.ibcast(if rank == root { of(root, 0, len) } else { vec![9; len] }, root)?, of(root, 0, len))
        }
        1 => ("iall_reduce", comm.iall_reduce(SUM.data(rank, len), Sum)?, sum(0..size, len)),
        2 => ("iscatter", comm.iscatter(at_root(for_each(&each)), len, root)?, of(root, rank, len)),
        3 => ("iall_gatherv", comm.iall_gatherv(of(rank, rank, counts[rank]), &counts)?, own(&counts)),
        4 => ("igather", comm.igather(of(rank, rank, len), root)?, at_root(own(&each))),
        5 => {
            let want = (0..size).flat_map(|from| of(from, rank, len)).collect();
            ("iall_to_all", comm.iall_to_all((0..size).flat_map(|to| of(rank, to, len)).collect())?, want)
        }
        6 => ("ireduce", comm.ireduce(SUM.data(rank, len), Sum, root)?, at_root(sum(0..size, len))),
        7 => ("iall_gather", comm.iall_gather(of(rank, rank, len))?, own(&each)),
        8 => {
            let want = sum(0..size, len * size)[rank * len..][..len].to_vec();
            ("ireduce_scatter", comm.ireduce_scatter(SUM.data(rank, len * size), Sum)?, want)
        }
        9 => ("iscatterv", comm.iscatterv(at_root(for_each(&counts)), &counts, root)?, of(root, rank, counts[rank])),
        10 => ("iscan", comm.iscan(SUM.data(rank, len), Sum)?, sum(0..rank + 1, len)),
        11 => {
            let want = if rank == 0 { vec![0; len] } else { sum(0..rank, len) };
            ("iexscan", comm.iexscan(SUM.data(rank, len), Sum)?, want)
        }
        12 => ("igatherv", comm.igatherv(of(rank, rank, counts[rank]), &counts, root)?, at_root(own(&counts))),
        _ => {
            let begin = counts[..rank].iter().sum::<usize>();
            let all = counts.iter().sum();
            let want = sum(0..size, all)[begin..begin + counts[rank]].to_vec();
            ("ireduce_scatterv", comm.ireduce_scatterv(SUM.data(rank, all), &counts, Sum)?, want)
        }
    };
    Ok(Begun { what: format!("operation {number}, {name} of {len}"), request, want })
}

/// Numbers below 20 in an order that differs from rank to rank.
fn scrambled(rank: usize) -> impl Iterator<Item = usize> {
    let step = [3, 7, 9, 11, 13, 17, 19, 1][rank % 8];
    (0..MANY).map(move |i| (i * step + 7 * rank) % MANY)
}

fn begin_twenty(comm: &Comm, first: usize) -> Outcome<Vec<Option<Begun>>> {
    (0..MANY).map(|i| begin(comm, first + i).map(Some)).collect()
}

fn end_scrambled(comm: &Comm, mut begun: Vec<Option<Begun>>) -> Outcome {
    for place in scrambled(comm.rank()) {
        begun[place].take().expect("each number comes once").end()?;
    }
    Ok(())
}

fn twenty_in_any_order(comm: &Comm) -> Outcome {
    for round in 0..7 {
        let begun = begin_twenty(comm, round * MANY)?;
        end_scrambled(comm, begun)?;
    }
    Ok(())
}

fn twenty_asked(comm: &Comm) -> Outcome {
    let mut begun = begin_twenty(comm, 3)?;
    let barrier = comm.ibarrier()?;
    until(comm, "the end of twenty operations", || {
        for place in scrambled(comm.rank()) {
            let Some(one) = &mut begun[place] else { continue };
            if let Some(got) = one.request.test() {
                check_eq!(got?, one.want, "{}", one.what);
                begun[place] = None;
            }
        }
        Ok(begun.iter().all(Option::is_none))
    })?;
    Ok(barrier.wait()?)
}

fn beside_messages_and_a_dup(comm: &Comm) -> Outcome {
    let dup = comm.dup()?;
    let (left, right) = neighbours(comm);
    let begun = begin_twenty(comm, 5)?;
    let mut sent = Vec::new();
    for (tag, len) in [3, 100_000, 0, 5000].into_iter().enumerate() {
        sent.push(comm.isend(bytes(seed(comm.rank(), right, tag), len), right, tag as u32)?);
    }
    let others = begin_twenty(&dup, 11)?;
    for (tag, len) in [3, 100_000, 0, 5000].into_iter().enumerate().rev() {
        let (got, _) = comm.recv_vec::<u8>(left, tag as u32)?;
        check_bytes(&got, seed(left, comm.rank(), tag), len)?;
    }
    if comm.rank().is_multiple_of(2) {
        end_scrambled(comm, begun)?;
        end_scrambled(comm, others)?;
    } else {
        end_scrambled(comm, others)?;
        end_scrambled(comm, begun)?;
    }
    wait_all(sent)?;
    Ok(())
}

fn beside_blocking_ones(comm: &Comm) -> Outcome {
    let begun = begin_twenty(comm, 2)?;
    for count in [1, 3000, 0, 50_000] {
        check_eq!(
            comm.all_reduce(&SUM.data(comm.rank(), count), Sum)?,
            SUM.result(0..comm.size(), count),
            "all_reduce"
        );
        comm.barrier()?;
    }
    end_scrambled(comm, begun)
}

fn on_dups_begun_in_any_order(comm: &Comm) -> Outcome {
    let dups = [comm.dup()?, comm.dup()?, comm.dup()?];
    let mut begun = Vec::new();
    for i in 0..dups.len() {
        let place = (i + comm.rank()) % dups.len();
        for number in 0..6 {
            begun.push(begin(&dups[place], place * 6 + number)?);
        }
    }
    if comm.rank() % 2 == 1 {
        begun.reverse();
    }
    begun.into_iter().try_for_each(Begun::end)
}

fn dropped_requests(comm: &Comm) -> Outcome {
    for round in 0..5 {
        let mut begun = begin_twenty(comm, round)?;
        // Each rank gives up others of them; all must still be done for those who wait.
        for (place, one) in begun.iter_mut().enumerate() {
            if (place + comm.rank()).is_multiple_of(3) {
                *one = None;
            }
        }
        for place in scrambled(comm.rank()) {
            begun[place].take().map_or(Ok(()), Begun::end)?;
        }
        check_eq!(comm.all_reduce(&[1u64], Sum)?, [comm.size() as u64], "all_reduce after dropped requests");
    }
    Ok(())
}

fn borrowed_in_a_scope(comm: &Comm) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size());
    for len in [0, 5, 30_000] {
        let mine = SUM.data(rank, len);
        let maps = MAPS.data(rank, len * size);
        let mut from_root = if rank == size - 1 { mine.clone() } else { vec![0; len] };
        let (mut all, mut sum, mut both) = (vec![0; len * size], vec![0; len], mine.clone());
        let (mut part, mut turned) = (vec![[0; 2]; len], vec![[0; 2]; len * size]);
        comm.scope(|scope| {
            let first = scope.ibcast(&mut from_root, size - 1)?;
            let requests = [
                scope.iall_gather(&mine, &mut all)?,
                scope.iall_reduce(&mine, &mut sum, Sum)?,
                scope.iall_reduce_in_place(&mut both, Sum)?,
                scope.ireduce_scatter(&maps, &mut part, (MAPS.operator)())?,
                scope.iall_to_all(&maps, &mut turned)?,
            ];
            wait_all(requests.into_iter().rev())?;
            first.wait()
        })?;
        check_eq!(from_root, SUM.data(size - 1, len), "ibcast of {len}");
        check_eq!(all, (0..size).flat_map(|r| SUM.data(r, len)).collect::<Vec<_>>(), "iall_gather of {len}");
        check_eq!(sum, SUM.result(0..size, len), "iall_reduce of {len}");
        check_eq!(both, sum, "iall_reduce_in_place of {len}");
        check_eq!(part, MAPS.result(0..size, len * size)[rank * len..][..len], "ireduce_scatter of {len}");
        let want: Vec<_> = (0..size).flat_map(|r| MAPS.data(r, len * size)[rank * len..][..len].to_vec()).collect();
        check_eq!(turned, want, "iall_to_all of {len}");
    }
    Ok(())
}

fn scope_waits(comm: &Comm) -> Outcome {
    let size = comm.size();
    for len in [4, 30_000] {
        let mine = SUM.data(comm.rank(), len);
        let (mut all, mut sum, mut both) = (vec![0; len * size], vec![0; len], mine.clone());
        comm.scope(|scope| {
            drop(scope.iall_gather(&mine, &mut all)?);
            drop(scope.iall_reduce(&mine, &mut sum, Sum)?);
            drop(scope.iall_reduce_in_place(&mut both, Sum)?);
            Ok(())
        })?;
        check_eq!(all, (0..size).flat_map(|r| SUM.data(r, len)).collect::<Vec<_>>(), "iall_gather of {len}");
        check_eq!(sum, SUM.result(0..size, len), "iall_reduce of {len}");
        check_eq!(both, sum, "iall_reduce_in_place of {len}");
    }
    Ok(())
}

/// More than messages have numbers for: those of collectives long gone are not mistaken for new ones.
fn five_thousand(comm: &Comm) -> Outcome {
    let mut before: Option<Request<'static, Vec<u64>>> = None;
    for number in 0..5000u64 {
        let request = comm.iall_reduce(vec![number, comm.rank() as u64], Sum)?;
        if let Some(request) = before.replace(request) {
            check_eq!(request.wait()?[0], (number - 1) * comm.size() as u64, "sum {}", number - 1);
        }
    }
    drop(before);
    Ok(comm.barrier()?)
}
