//! Many nonblocking collective operations under way at once.

mod failing;

use treepie::{Comm, Request, Sum, wait_all};

use crate::check::{Outcome, check_eq};
use crate::payload::{bytes, check_bytes, seed, series};
use crate::reduction_cases::{AFFINE_MAPS, SUM};
use crate::signals::{poll_until, ring_neighbors};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("in-flight/twenty-of-all-kinds-waited-for-in-any-order", 1, twenty_in_any_order),
    Case::new("in-flight/twenty-tested-until-complete", 1, twenty_tested),
    Case::new("in-flight/with-messages-and-a-dup", 1, with_messages_and_a_dup),
    Case::new("in-flight/with-blocking-operations", 1, with_blocking_operations),
    Case::new("in-flight/on-dups-started-in-any-order", 1, on_dups_started_in_any_order),
    Case::new("in-flight/dropped-requests-still-complete", 1, dropped_requests),
    Case::new("in-flight/borrowed-in-a-scope", 1, borrowed_in_a_scope),
    Case::new("in-flight/a-scope-waits-for-dropped-requests", 1, scope_waits),
    Case::new("in-flight/five-thousand-in-a-row", 1, five_thousand),
    Case::new("in-flight/one-rank-has-fewer-elements", 2, failing::one_has_fewer_elements),
    Case::new("in-flight/four-thousand-after-a-mismatch", 2, failing::long_after),
    Case::new("in-flight/an-operator-that-panics", 2, failing::operator_panics),
];

const MANY: usize = 20;

/// An operation under way, and its expected result.
struct PendingOperation {
    what: String,
    request: Request<'static, Vec<u64>>,
    want: Vec<u64>,
}

impl PendingOperation {
    fn wait(self) -> Outcome {
        check_eq!(self.request.wait()?, self.want, "{}", self.what);
        Ok(())
    }
}

/// Lengths of operations: some empty, most short, one long.
fn length(number: usize) -> usize {
    [3, 0, 1, 700, 17, 20_000, 2][number % 7]
}

/// Starts an operation; its number determines which one, and its data.
fn start(comm: &Comm, number: usize) -> Outcome<PendingOperation> {
    let (rank, size, len) = (comm.rank(), comm.size(), length(number));
    let root = number % size;
    let of = |from: usize, to: usize, len: usize| series::<u64>(number * 4096 + from * 64 + to, len);
    let counts: Vec<usize> = (0..size).map(|rank| (len + rank) * ((rank + number) % 3)).collect();
    let each = vec![len; size];
    let all_blocks = |counts: &[usize]| (0..size).flat_map(|r| of(r, r, counts[r])).collect::<Vec<u64>>();
    let for_each = |counts: &[usize]| (0..size).flat_map(|to| of(root, to, counts[to])).collect::<Vec<u64>>();
    let at_root = |data: Vec<u64>| if rank == root { data } else { Vec::new() };
    let sum = |ranks: std::ops::Range<usize>, len| SUM.result(ranks, len);
    let (name, request, want) = match number % 14 {
        0 => {
            ("ibcast", comm.ibcast(if rank == root { of(root, 0, len) } else { vec![9; len] }, root)?, of(root, 0, len))
        }
        1 => ("iallreduce", comm.iallreduce(SUM.contribution(rank, len), Sum)?, sum(0..size, len)),
        2 => ("iscatter", comm.iscatter(at_root(for_each(&each)), len, root)?, of(root, rank, len)),
        3 => ("iallgatherv", comm.iallgatherv(of(rank, rank, counts[rank]), &counts)?, all_blocks(&counts)),
        4 => ("igather", comm.igather(of(rank, rank, len), root)?, at_root(all_blocks(&each))),
        5 => {
            let want = (0..size).flat_map(|from| of(from, rank, len)).collect();
            ("ialltoall", comm.ialltoall((0..size).flat_map(|to| of(rank, to, len)).collect())?, want)
        }
        6 => ("ireduce", comm.ireduce(SUM.contribution(rank, len), Sum, root)?, at_root(sum(0..size, len))),
        7 => ("iallgather", comm.iallgather(of(rank, rank, len))?, all_blocks(&each)),
        8 => {
            let want = sum(0..size, len * size)[rank * len..][..len].to_vec();
            ("ireduce_scatter_block", comm.ireduce_scatter_block(SUM.contribution(rank, len * size), Sum)?, want)
        }
        9 => ("iscatterv", comm.iscatterv(at_root(for_each(&counts)), &counts, root)?, of(root, rank, counts[rank])),
        10 => ("iscan", comm.iscan(SUM.contribution(rank, len), Sum)?, sum(0..rank + 1, len)),
        11 => {
            let want = if rank == 0 { vec![0; len] } else { sum(0..rank, len) };
            ("iexscan", comm.iexscan(SUM.contribution(rank, len), Sum)?, want)
        }
        12 => ("igatherv", comm.igatherv(of(rank, rank, counts[rank]), &counts, root)?, at_root(all_blocks(&counts))),
        _ => {
            let begin = counts[..rank].iter().sum::<usize>();
            let all = counts.iter().sum();
            let want = sum(0..size, all)[begin..begin + counts[rank]].to_vec();
            ("ireduce_scatter", comm.ireduce_scatter(SUM.contribution(rank, all), &counts, Sum)?, want)
        }
    };
    Ok(PendingOperation { what: format!("operation {number}, {name} of {len}"), request, want })
}

/// Numbers below 20 in an order that differs from rank to rank.
fn scrambled(rank: usize) -> impl Iterator<Item = usize> {
    let step = [3, 7, 9, 11, 13, 17, 19, 1][rank % 8];
    (0..MANY).map(move |i| (i * step + 7 * rank) % MANY)
}

fn start_twenty(comm: &Comm, first: usize) -> Outcome<Vec<Option<PendingOperation>>> {
    (0..MANY).map(|i| start(comm, first + i).map(Some)).collect()
}

fn wait_scrambled(comm: &Comm, mut pending: Vec<Option<PendingOperation>>) -> Outcome {
    for index in scrambled(comm.rank()) {
        pending[index].take().expect("each number comes once").wait()?;
    }
    Ok(())
}

fn twenty_in_any_order(comm: &Comm) -> Outcome {
    for round in 0..7 {
        let pending = start_twenty(comm, round * MANY)?;
        wait_scrambled(comm, pending)?;
    }
    Ok(())
}

fn twenty_tested(comm: &Comm) -> Outcome {
    let mut pending = start_twenty(comm, 3)?;
    let barrier = comm.ibarrier()?;
    poll_until(comm, "the end of twenty operations", || {
        for index in scrambled(comm.rank()) {
            let Some(one) = &mut pending[index] else { continue };
            if let Some(got) = one.request.test() {
                check_eq!(got?, one.want, "{}", one.what);
                pending[index] = None;
            }
        }
        Ok(pending.iter().all(Option::is_none))
    })?;
    Ok(barrier.wait()?)
}

fn with_messages_and_a_dup(comm: &Comm) -> Outcome {
    let dup = comm.dup()?;
    let (left, right) = ring_neighbors(comm);
    let pending = start_twenty(comm, 5)?;
    let mut sent = Vec::new();
    for (tag, len) in [3, 100_000, 0, 5000].into_iter().enumerate() {
        sent.push(comm.isend(bytes(seed(comm.rank(), right, tag), len), right, tag as u32)?);
    }
    let others = start_twenty(&dup, 11)?;
    for (tag, len) in [3, 100_000, 0, 5000].into_iter().enumerate().rev() {
        let (got, _) = comm.recv_vec::<u8>(left, tag as u32)?;
        check_bytes(&got, seed(left, comm.rank(), tag), len)?;
    }
    if comm.rank().is_multiple_of(2) {
        wait_scrambled(comm, pending)?;
        wait_scrambled(comm, others)?;
    } else {
        wait_scrambled(comm, others)?;
        wait_scrambled(comm, pending)?;
    }
    wait_all(sent)?;
    Ok(())
}

fn with_blocking_operations(comm: &Comm) -> Outcome {
    let pending = start_twenty(comm, 2)?;
    for count in [1, 3000, 0, 50_000] {
        check_eq!(
            comm.allreduce(&SUM.contribution(comm.rank(), count), Sum)?,
            SUM.result(0..comm.size(), count),
            "allreduce"
        );
        comm.barrier()?;
    }
    wait_scrambled(comm, pending)
}

fn on_dups_started_in_any_order(comm: &Comm) -> Outcome {
    let dups = [comm.dup()?, comm.dup()?, comm.dup()?];
    let mut pending = Vec::new();
    for i in 0..dups.len() {
        let index = (i + comm.rank()) % dups.len();
        for number in 0..6 {
            pending.push(start(&dups[index], index * 6 + number)?);
        }
    }
    if comm.rank() % 2 == 1 {
        pending.reverse();
    }
    pending.into_iter().try_for_each(PendingOperation::wait)
}

fn dropped_requests(comm: &Comm) -> Outcome {
    for round in 0..5 {
        let mut pending = start_twenty(comm, round)?;
        // Each rank drops different requests; all operations must still complete on the ranks that wait.
        for (index, one) in pending.iter_mut().enumerate() {
            if (index + comm.rank()).is_multiple_of(3) {
                *one = None;
            }
        }
        for index in scrambled(comm.rank()) {
            pending[index].take().map_or(Ok(()), PendingOperation::wait)?;
        }
        check_eq!(comm.allreduce(&[1u64], Sum)?, [comm.size() as u64], "allreduce after dropped requests");
    }
    Ok(())
}

fn borrowed_in_a_scope(comm: &Comm) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size());
    for len in [0, 5, 30_000] {
        let local = SUM.contribution(rank, len);
        let maps = AFFINE_MAPS.contribution(rank, len * size);
        let mut from_root = if rank == size - 1 { local.clone() } else { vec![0; len] };
        let (mut all, mut sum, mut both) = (vec![0; len * size], vec![0; len], local.clone());
        let (mut part, mut transposed) = (vec![[0; 2]; len], vec![[0; 2]; len * size]);
        comm.scope(|scope| {
            let first = scope.ibcast(&mut from_root, size - 1)?;
            let requests = [
                scope.iallgather(&local, &mut all)?,
                scope.iallreduce(&local, &mut sum, Sum)?,
                scope.iallreduce_in_place(&mut both, Sum)?,
                scope.ireduce_scatter_block(&maps, &mut part, (AFFINE_MAPS.operator)())?,
                scope.ialltoall(&maps, &mut transposed)?,
            ];
            wait_all(requests.into_iter().rev())?;
            first.wait()
        })?;
        check_eq!(from_root, SUM.contribution(size - 1, len), "ibcast of {len}");
        check_eq!(all, (0..size).flat_map(|r| SUM.contribution(r, len)).collect::<Vec<_>>(), "iallgather of {len}");
        check_eq!(sum, SUM.result(0..size, len), "iallreduce of {len}");
        check_eq!(both, sum, "iallreduce_in_place of {len}");
        check_eq!(part, AFFINE_MAPS.result(0..size, len * size)[rank * len..][..len], "ireduce_scatter_block of {len}");
        let want: Vec<_> =
            (0..size).flat_map(|r| AFFINE_MAPS.contribution(r, len * size)[rank * len..][..len].to_vec()).collect();
        check_eq!(transposed, want, "ialltoall of {len}");
    }
    Ok(())
}

fn scope_waits(comm: &Comm) -> Outcome {
    let size = comm.size();
    for len in [4, 30_000] {
        let local = SUM.contribution(comm.rank(), len);
        let (mut all, mut sum, mut both) = (vec![0; len * size], vec![0; len], local.clone());
        comm.scope(|scope| {
            drop(scope.iallgather(&local, &mut all)?);
            drop(scope.iallreduce(&local, &mut sum, Sum)?);
            drop(scope.iallreduce_in_place(&mut both, Sum)?);
            Ok(())
        })?;
        check_eq!(all, (0..size).flat_map(|r| SUM.contribution(r, len)).collect::<Vec<_>>(), "iallgather of {len}");
        check_eq!(sum, SUM.result(0..size, len), "iallreduce of {len}");
        check_eq!(both, sum, "iallreduce_in_place of {len}");
    }
    Ok(())
}

/// More operations than sequence numbers in tags: messages of old operations must not match new ones.
fn five_thousand(comm: &Comm) -> Outcome {
    let mut before: Option<Request<'static, Vec<u64>>> = None;
    for number in 0..5000u64 {
        let request = comm.iallreduce(vec![number, comm.rank() as u64], Sum)?;
        if let Some(request) = before.replace(request) {
            check_eq!(request.wait()?[0], (number - 1) * comm.size() as u64, "sum {}", number - 1);
        }
    }
    drop(before);
    Ok(comm.barrier()?)
}
