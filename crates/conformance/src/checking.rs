//! Checked mode: if calls differ, all ranks get an error that names both, and the communicator stays usable.

mod composed;
pub(crate) mod panics;

use treepie::{Comm, Error, Max, Rank, SparseExchange, Sum};
use treepie_base::environment::EMULATE;

use crate::check::{Outcome, check, check_eq};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("checking/calls-that-match-pass", 1, matching),
    Case::new("checking/nonblocking-calls-that-match-pass", 1, matching_nonblocking),
    Case::new("checking/communicators-and-windows-that-match-pass", 1, matching_constructors),
    Case::new("checking/lengths-that-may-differ-are-not-compared", 1, own_lengths),
    Case::new("checking/split-against-dup", 2, split_against_dup),
    Case::new("checking/different-roots-lengths-and-elements", 2, different_arguments),
    Case::new("checking/different-algorithms-and-forms", 2, different_forms),
    Case::new("checking/different-nonblocking-calls", 2, different_nonblocking),
    Case::new("checking/starting-does-not-wait", 2, starting_does_not_wait),
    Case::new("checking/persistent-operations-restart", 2, persistent),
    Case::new("checking/invalid-arguments-on-one-rank", 2, refused_on_one),
    Case::new("checking/exchanges-against-others", 2, exchanges),
    Case::new("checking/communicators-inherit-checked-mode", 2, inherited),
    Case::new("checking/composed-calls-that-match-pass", 2, composed::matching),
    Case::new("checking/different-composed-calls", 2, composed::different),
    Case::new("checking/different-algorithms-of-composed-calls", 2, composed::different_algorithms),
    Case::new("checking/operators-that-panic-in-a-comparison", 2, panics::in_comparisons),
    Case::new("checking/operators-that-panic-in-a-comparison-of-the-world", 2, panics::in_comparisons).of_world(),
    Case::new("checking/exchanges-after-a-mismatch", 2, exchanges_after),
    Case::new("checking/many-mismatches-in-a-row", 2, many),
    Case::new("checking/a-bad-group-on-one-rank-only", 1, bad_group),
];

/// Checks that the communicator is usable, by blocking and nonblocking calls.
fn check_usable(comm: &Comm) -> Outcome {
    let size = comm.size() as u64;
    check_eq!(comm.allreduce(&[1u64], Sum)?, [size], "allreduce");
    check_eq!(comm.iallreduce(vec![comm.rank() as u64], Max)?.wait()?, [size - 1], "iallreduce");
    comm.barrier()?;
    Ok(())
}

/// A call without the clusters of an emulated world, which all calls there name.
fn without_network(call: &str) -> String {
    match std::env::var(EMULATE.name) {
        Ok(links) => call.replace(&format!(" on {}", links.split(',').next().unwrap_or_default()), ""),
        Err(_) => call.to_owned(),
    }
}

/// Checks that the error names the calls of rank 0 and of the first rank that differs, and that the communicator is
/// usable.
#[track_caller]
fn check_mismatch_reported<T>(
    comm: &Comm,
    result: Result<T, Error>,
    zero: &str,
    (rank, other): (Rank, &str),
) -> Outcome {
    let error = result.err();
    let Some(Error::CollectiveMismatch { first, second, calls }) = &error else {
        return Err(crate::Failure::new(format!("{zero} against {other}: {error:?}")));
    };
    check_eq!(calls.each_ref().map(|call| without_network(call)), [zero, other], "the calls");
    let text = without_network(&error.as_ref().map(Error::to_string).unwrap_or_default());
    check_eq!(text, format!("rank {first} calls {zero}, rank {second} calls {other}"), "the text");
    // Errors name ranks of the world, which are those of the communicator only if it has all ranks in order.
    if comm.rank_table_kind() == "all ranks" {
        check_eq!((*first, *second), (0, rank), "the ranks");
    }
    check_usable(comm)
}

fn matching(comm: &Comm) -> Outcome {
    let comm = &comm.checked();
    let (me, size) = (comm.rank(), comm.size());
    let all: Vec<usize> = (0..size).collect();
    for root in [0, size / 2, size - 1] {
        let mut data = [if me == root { root } else { 0 }; 3];
        comm.bcast(&mut data, root)?;
        check_eq!(data, [root; 3], "bcast");
        let (mut at_root, mut block) = (vec![0; if me == root { size } else { 0 }], [0]);
        comm.gather(&[me], &mut at_root, root)?;
        check!(me != root || at_root == all, "gather: {at_root:?}");
        comm.scatter(&at_root, &mut block, root)?;
        check_eq!(block, [me], "scatter");
        let mut sum = vec![0; if me == root { 1 } else { 0 }];
        comm.reduce(&[1], &mut sum, Sum, root)?;
        check!(me != root || sum == [size], "reduce: {sum:?}");
    }
    check_eq!(comm.allgather(&[me])?, all, "allgather");
    check_eq!(comm.with_algorithm("allgather/ring")?.allgather(&[me])?, all, "allgather by a ring");
    let mut data = vec![1; size];
    comm.reduce_scatter_block_in_place(&mut data, Sum)?;
    check_eq!(data[0], size, "reduce_scatter_block_in_place");
    let mut into = vec![0; size];
    comm.alltoall(&all, &mut into)?;
    check_eq!(into, vec![me; size], "alltoall");
    let mut sum = [0];
    comm.scan(&[1], &mut sum, Sum)?;
    check_eq!(sum, [me + 1], "scan");
    let got = comm.exchange([((me + 1) % size, vec![me])])?;
    check_eq!(got, [((me + size - 1) % size, vec![(me + size - 1) % size])], "exchange");
    check_usable(comm)
}

fn matching_nonblocking(comm: &Comm) -> Outcome {
    let comm = &comm.checked();
    let (me, size) = (comm.rank(), comm.size());
    let barrier = comm.ibarrier()?;
    let bcast = comm.ibcast(vec![if me == 0 { 7 } else { 0 }; 1000], 0)?;
    let gather = comm.iallgather(vec![me])?;
    let exchange = comm.iexchange([((me + 1) % size, vec![me])])?;
    check_eq!(exchange.wait()?, [((me + size - 1) % size, vec![(me + size - 1) % size])], "iexchange");
    check_eq!(gather.wait()?, (0..size).collect::<Vec<_>>(), "iallgather");
    check_eq!(bcast.wait()?, vec![7; 1000], "ibcast");
    barrier.wait()?;
    let (data, mut sum) = ([1; 3], [0; 3]);
    comm.scope(|scope| scope.iallreduce(&data, &mut sum, Sum)?.wait())?;
    check_eq!(sum, [size; 3], "iallreduce of slices");
    check_usable(comm)
}

fn matching_constructors(comm: &Comm) -> Outcome {
    let comm = &comm.checked();
    let (me, size) = (comm.rank(), comm.size());
    check_usable(&comm.dup()?)?;
    check_usable(&comm.split(me as u32 % 2, 0)?.expect("every rank has a color"))?;
    check!(comm.split((me == 0).then_some(1), 0)?.is_some() == (me == 0), "a communicator of rank 0");
    check_usable(&comm.create(&(0..size).rev().collect::<Vec<_>>())?.expect("all are in it"))?;
    // Lengths of windows may differ.
    let window = comm.window::<u64>(me + 1)?;
    window.put((me + 1) % size, 0, &[me as u64])?;
    window.fence()?;
    check_eq!(window.get_one(me, 0)?, ((me + size - 1) % size) as u64, "what was put");
    window.free()?;
    check_usable(comm)
}

/// Rank i sends i elements to each rank.
fn own_lengths(comm: &Comm) -> Outcome {
    let comm = &comm.checked();
    let (me, size) = (comm.rank(), comm.size());
    let (to, from) = (vec![me; size], (0..size).collect::<Vec<_>>());
    let want: Vec<usize> = (0..size).flat_map(|rank| vec![rank; rank]).collect();
    let mut into = vec![0; want.len()];
    comm.alltoallv(&vec![me; me * size], &to, &mut into, &from)?;
    check_eq!(into, want, "alltoallv");
    check_eq!(comm.ialltoallv(vec![me; me * size], &to, &from)?.wait()?, want, "ialltoallv");
    check_eq!(
        comm.with_algorithm("alltoall/bruck")?.ialltoallv(vec![me; me * size], &to, &from)?.wait()?,
        want,
        "by store and forward"
    );
    let mut into = vec![0; want.len()];
    comm.allgatherv(&vec![me; me], &from, &mut into)?;
    check_eq!(into, want, "allgatherv");
    check_usable(comm)
}

fn split_against_dup(comm: &Comm) -> Outcome {
    let comm = &comm.checked();
    let last = comm.size() - 1;
    let by_merging = comm.with_algorithm("split/merge")?;
    let call = |splits: bool| if splits { by_merging.split(0, 0).map(drop) } else { comm.dup().map(drop) };
    check_mismatch_reported(comm, call(comm.rank() == 0), "split by split/merge", (1, "dup"))?;
    check_mismatch_reported(comm, call(comm.rank() != last), "split by split/merge", (last, "dup"))?;
    // A dup performs an allgather internally, the same one that the other ranks call.
    let result = if comm.rank() == last { comm.dup().map(drop) } else { comm.allgather(&[0u64]).map(drop) };
    check_mismatch_reported(comm, result, "allgather of blocks of 1 elements of 8 bytes", (last, "dup"))?;
    let result = if comm.rank() == 0 { comm.window::<u32>(1).map(drop) } else { comm.create(&[0]).map(drop) };
    check_mismatch_reported(comm, result, "window of elements of 4 bytes", (1, "create"))
}

fn different_arguments(comm: &Comm) -> Outcome {
    let comm = &comm.checked();
    let (is_last, last) = (comm.rank() == comm.size() - 1, comm.size() - 1);
    let root = if is_last { 1 } else { 0 };
    let bcast = "bcast from root 0 of 4 elements of 8 bytes";
    let result = comm.bcast(&mut [0u64; 4], root);
    check_mismatch_reported(comm, result, bcast, (last, "bcast from root 1 of 4 elements of 8 bytes"))?;
    let result = if is_last { comm.bcast(&mut [0u32; 8], 0) } else { comm.bcast(&mut [0u64; 4], 0) };
    check_mismatch_reported(comm, result, bcast, (last, "bcast from root 0 of 8 elements of 4 bytes"))?;
    for len in [2, 40_000] {
        let local_len = if is_last { len + 1 } else { len };
        let words = |len| format!("allreduce of {len} elements of 8 bytes");
        check_mismatch_reported(
            comm,
            comm.allreduce(&vec![1u64; local_len], Sum),
            &words(len),
            (last, &words(len + 1)),
        )?;
    }
    let result = comm.gather(&[1u8], &mut vec![0; if comm.rank() == root { comm.size() } else { 0 }], root);
    let gather = |root| format!("gather to root {root} of blocks of 1 elements of 1 bytes");
    check_mismatch_reported(comm, result, &gather(0), (last, &gather(1)))?;
    let counts = |of_last| [vec![1; last], vec![of_last]].concat();
    let local_counts = counts(if is_last { 2 } else { 3 });
    let mut into = vec![0; local_counts.iter().sum()];
    let result = comm.allgatherv(&vec![1u8; local_counts[comm.rank()]], &local_counts, &mut into);
    let words = |of_last| format!("allgather of blocks of {:?} elements of 1 bytes", counts(of_last));
    check_mismatch_reported(comm, result, &words(3), (last, &words(2)))
}

fn different_forms(comm: &Comm) -> Outcome {
    let comm = &comm.checked();
    let is_zero = comm.rank() == 0;
    let ring = comm.with_algorithm(if is_zero { "allgather/ring" } else { "allgather/linear" })?;
    let words = |id| format!("allgather of blocks of 1 elements of 8 bytes with allgather/{id}");
    check_mismatch_reported(comm, ring.allgather(&[1u64]), &words("ring"), (1, &words("linear")))?;
    let result = if is_zero { comm.barrier() } else { comm.ibarrier()?.wait() };
    check_mismatch_reported(comm, result, "barrier", (1, "ibarrier"))?;
    let (data, mut into) = ([1u64; 2], [0u64; 2]);
    let result = if is_zero { comm.allreduce_into(&data, &mut into, Sum) } else { comm.scan(&data, &mut into, Sum) };
    let words = ("allreduce of 2 elements of 8 bytes", "scan of 2 elements of 8 bytes");
    check_mismatch_reported(comm, result, words.0, (1, words.1))
}

fn different_nonblocking(comm: &Comm) -> Outcome {
    let comm = &comm.checked();
    let is_zero = comm.rank() == 0;
    // The operations before and after it are not affected.
    let before = comm.iallreduce(vec![1u64], Sum)?;
    let differing = comm.ibcast(vec![0u8; 5], if is_zero { 0 } else { 1 })?;
    let after = comm.iallreduce(vec![2u64], Sum)?;
    check_eq!(after.wait()?, [2 * comm.size() as u64], "the one after it");
    let words = |root| format!("ibcast from root {root} of 5 elements of 1 bytes");
    check_mismatch_reported(comm, differing.wait(), &words(0), (1, &words(1)))?;
    check_eq!(before.wait()?, [comm.size() as u64], "the one before it");
    let (data, mut into) = ([1u64], [0u64]);
    let result = comm.scope(|scope| {
        let request =
            if is_zero { scope.iallreduce(&data, &mut into, Sum) } else { scope.iscan(&data, &mut into, Sum) };
        request?.wait()
    });
    check_mismatch_reported(comm, result, "iallreduce of 1 elements of 8 bytes", (1, "iscan of 1 elements of 8 bytes"))
}

/// Each rank starts its operations only after a message from the previous rank, which has started its own.
fn starting_does_not_wait(comm: &Comm) -> Outcome {
    let comm = &comm.checked();
    let (me, size) = (comm.rank(), comm.size());
    let mut bcast = comm.bcast_init::<u64>(1, 0)?;
    for round in 0..4u64 {
        if me > 0 {
            comm.recv_vec::<u8>(me - 1, 3)?;
        }
        let request = comm.ibcast(vec![if me == 0 { round } else { 0 }], 0)?;
        let barrier = comm.ibarrier()?;
        bcast.start();
        let exchange = comm.iexchange([(0, vec![me])])?;
        if me + 1 < size {
            comm.send(&[0u8], me + 1, 3)?;
        }
        check_eq!(request.wait()?, [round], "ibcast");
        barrier.wait()?;
        bcast.wait()?;
        check_eq!(exchange.wait()?.len(), if me == 0 { size } else { 0 }, "messages of an exchange");
    }
    check_usable(comm)
}

fn persistent(comm: &Comm) -> Outcome {
    let comm = &comm.checked();
    let (mut short, mut long) = (comm.allreduce_init::<u64>(1, Sum)?, comm.allreduce_init::<u64>(2, Sum)?);
    for _ in 0..3 {
        short.with_input(|input| input.fill(1));
        let one = if comm.rank() == 0 { &mut short } else { &mut long };
        one.start();
        let words = |len| format!("a persistent allreduce of {len} elements of 8 bytes");
        check_mismatch_reported(comm, one.wait(), &words(1), (1, &words(2)))?;
        short.start();
        short.wait()?;
        check_eq!(short.output(), [comm.size() as u64], "the same started by all");
    }
    Ok(())
}

/// That rank gets the error of its argument, and the others do not wait for it.
fn refused_on_one(comm: &Comm) -> Outcome {
    let comm = &comm.checked();
    let (size, last) = (comm.size(), comm.size() - 1);
    let is_last = comm.rank() == last;
    let mut into = vec![0u64; if is_last { size + 1 } else { size }];
    let gather = "allgather of blocks of 1 elements of 8 bytes";
    let refused = format!("{gather}, which is refused there");
    let bcast = "bcast from root 0 of 1 elements of 8 bytes";
    let root = if is_last { size } else { 0 };
    let bad_root = format!("an operation ({}), which is refused there", Error::BadRank { rank: size, size });
    let counts = vec![1; if is_last { size + 1 } else { size }];
    let bad_counts = Error::BadLength { what: "the list of counts", got: size + 1, expected: size };
    let results = [
        (comm.allgather_into(&[1], &mut into), gather, refused),
        (comm.bcast(&mut [0u64], root), bcast, bad_root.clone()),
        (comm.ibcast(vec![0u64], root).and_then(|request| request.wait()).map(drop), &format!("i{bcast}"), bad_root),
        (
            comm.ialltoallv(vec![1u64; size], &counts, &vec![1; size]).and_then(|request| request.wait()).map(drop),
            "ialltoall of blocks of any number of elements of 8 bytes",
            format!("an operation ({bad_counts}), which is refused there"),
        ),
    ];
    for (result, call, refused) in results {
        if is_last {
            let error = result.err();
            let is_own = matches!(error, Some(Error::BadLength { .. } | Error::BadRank { .. }));
            check!(is_own, "{call} that is refused: {error:?}");
            check_usable(comm)?;
        } else {
            check_mismatch_reported(comm, result, call, (last, &refused))?;
        }
    }
    Ok(())
}

fn exchanges(comm: &Comm) -> Outcome {
    let comm = &comm.checked();
    let (is_zero, size) = (comm.rank() == 0, comm.size());
    for id in ["exchange/nbx", "exchange/pex"] {
        let named = comm.with_algorithm(id)?;
        let result = if is_zero { named.exchange([(1, vec![1u8])]).map(drop) } else { comm.barrier() };
        check_mismatch_reported(comm, result, id, (1, "barrier"))?;
        let request = named.iexchange([(if is_zero { size } else { 0 }, vec![1u8])]);
        let result = request.and_then(|request| request.wait());
        if is_zero {
            check_eq!(result.err(), Some(Error::BadRank { rank: size, size }), "a destination that does not exist");
            check_usable(comm)?;
        } else {
            check_mismatch_reported(
                comm,
                result,
                &format!("{id}, which is refused there"),
                (1, &format!("nonblocking {id}")),
            )?;
        }
        check_eq!(named.exchange([(0, vec![1u8])])?.len(), if is_zero { size } else { 0 }, "messages after that");
    }
    Ok(())
}

/// Automatic selection depends on the traffic summary of the last exchange. One that never started must not count.
fn exchanges_after(comm: &Comm) -> Outcome {
    let comm = &comm.checked();
    let (is_zero, size) = (comm.rank() == 0, comm.size());
    for bytes in [None, Some(100_000)] {
        let some = || bytes.map(|bytes| (0, vec![1u8; bytes]));
        for _ in 0..3 {
            comm.exchange(some())?;
        }
        let result = if is_zero { comm.exchange(some()).map(drop) } else { comm.barrier() };
        check!(matches!(result, Err(Error::CollectiveMismatch { .. })), "an exchange against a barrier: {result:?}");
        comm.exchange(some())?;
        let error = comm.exchange([(if is_zero { size } else { 0 }, vec![1u8])]).err();
        check!(error.is_some(), "an exchange that is refused on rank 0");
        comm.exchange(some())?;
    }
    check_usable(comm)
}

fn inherited(comm: &Comm) -> Outcome {
    let checked = &comm.checked();
    let (me, size) = (comm.rank(), comm.size());
    let around = checked.split(0, -(me as i32))?.expect("every rank has a color");
    let made = [
        checked.clone(),
        checked.dup()?,
        around.dup()?,
        checked.with_algorithm("bcast/flat")?.dup()?,
        checked.create(&(0..size).collect::<Vec<_>>())?.expect("all are in it"),
    ];
    for part in made {
        let result = if part.rank() == 0 { part.dup().map(drop) } else { part.barrier() };
        let barrier = if part.size() > 1 { "barrier" } else { "dup" };
        check_mismatch_reported(&part, result, "dup", (1, barrier))?;
    }
    // The handle that `checked` was called on is unchanged.
    check_usable(comm)
}

fn many(comm: &Comm) -> Outcome {
    let comm = &comm.checked();
    for round in 0..30 {
        let differs = comm.rank() == round % comm.size();
        let result = match (differs, round % 3) {
            (true, 0) => comm.ibarrier()?.wait(),
            (true, 1) => comm.dup().map(drop),
            (true, _) => comm.exchange([(0, vec![1u8])]).map(drop),
            (false, _) => comm.barrier(),
        };
        check!(matches!(result, Err(Error::CollectiveMismatch { .. })), "round {round}: {result:?}");
    }
    check_usable(comm)
}

/// Every rank gets an error, outside checked mode too.
fn bad_group(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    for comm in [comm.clone(), comm.checked()] {
        for bad in [0, size / 2, size - 1] {
            for list in [vec![size], vec![0, 0]] {
                let is_bad = me == bad;
                let error_there = if list[0] == size {
                    Error::BadRank { rank: size, size }
                } else {
                    Error::Algorithm("rank 0 is listed twice in a group".to_owned())
                };
                let others = Error::Algorithm(format!("the group of rank {bad} is refused there"));
                let error = comm.create(if is_bad { &list } else { &[0] }).err();
                check_eq!(error, Some(if is_bad { error_there } else { others }), "a bad list on rank {bad}");
                check_usable(&comm)?;
            }
        }
    }
    Ok(())
}
