//! Collective operations that are refused, and mismatched lengths.

use std::rc::Rc;

use treepie::{AlgorithmSelector, Comm, Error, Operation, SelectionQuery, Sum};

use crate::check::{Outcome, check, check_eq};
use crate::reduction_cases::{AFFINE_MAPS, SUM};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("refusals/slices-of-the-wrong-length", 1, wrong_lengths),
    Case::new("refusals/roots-that-do-not-exist", 1, bad_roots),
    Case::new("refusals/one-rank-is-refused-and-all-go-on", 2, one_is_refused),
    Case::new("world/one-rank-is-refused-and-all-go-on", 2, one_is_refused).of_world().last(),
    Case::new("refusals/one-rank-is-refused-and-others-are-late", 3, others_are_late),
    Case::new("world/one-rank-is-refused-and-others-are-late", 3, others_are_late).of_world().last(),
    Case::new("refusals/one-rank-is-refused-while-others-are-under-way", 2, others_are_under_way),
    Case::new("world/one-rank-is-refused-while-others-are-under-way", 2, others_are_under_way).of_world().last(),
    Case::new("refusals/different-lengths-are-an-error", 2, |comm| different(comm, 4)),
    Case::new("refusals/another-length-than-the-root-is-an-error", 2, different_from_the_root),
    Case::new("refusals/different-lengths-nonblocking-are-an-error", 2, |comm| different_nonblocking(comm, 4)),
    Case::new("refusals/different-long-lengths-nonblocking-are-an-error", 2, |comm| {
        different_nonblocking(comm, 40_000)
    }),
    Case::new("refusals/different-long-lengths-are-an-error", 2, |comm| different(comm, 40_000)),
    Case::new("refusals/algorithms-that-do-not-exist", 1, unknown_algorithms),
    Case::new("refusals/algorithms-that-do-not-apply", 1, inapplicable_algorithms),
    Case::new("refusals/selectors", 1, selectors),
    Case::new("refusals/networks-that-do-not-fit", 1, unfit_networks),
];

/// Checks that the communicator is usable.
fn check_usable(comm: &Comm) -> Outcome {
    let want = SUM.result(0..comm.size(), 5);
    check_eq!(comm.allreduce(&SUM.contribution(comm.rank(), 5), Sum)?, want, "allreduce after a refusal");
    Ok(())
}

fn wrong_lengths(comm: &Comm) -> Outcome {
    let size = comm.size();
    let data = vec![1u64; 2 * size];
    let mut buffer = vec![0u64; 2 * size + 1];
    let (mut short, many) = (vec![0u64; 1], vec![1; size + 1]);
    let results = [
        ("allgather_into", comm.allgather_into(&data[..2], &mut buffer).err()),
        ("allgatherv", comm.allgatherv(&data[..2], &vec![2; size], &mut buffer).err()),
        ("allgatherv with too many counts", comm.allgatherv(&data[..1], &many, &mut buffer).err()),
        ("scatterv with too many counts", comm.scatterv(&data, &many, &mut short, 0).err()),
        ("gatherv with too many counts", comm.gatherv(&data, &many, &mut buffer, 0).err()),
        ("allreduce_into", comm.allreduce_into(&data, &mut buffer, Sum).err()),
        ("reduce_scatter_block", comm.reduce_scatter_block(&buffer.clone(), &mut short, Sum).err()),
        ("reduce_scatter", comm.reduce_scatter(&data, &vec![2; size], &mut buffer, Sum).err()),
        ("alltoall", comm.alltoall(&data, &mut buffer).err()),
        ("alltoallv", comm.alltoallv(&data, &vec![2; size], &mut buffer, &vec![2; size]).err()),
        ("alltoallv with too many counts", comm.alltoallv(&data, &many, &mut buffer, &vec![2; size]).err()),
        ("scan", comm.scan(&data, &mut buffer, Sum).err()),
        ("exscan", comm.exscan(&data, &mut buffer, Sum).err()),
        ("iallgatherv", comm.iallgatherv(vec![1u64; 3], &vec![2; size]).err()),
        ("ialltoallv", comm.ialltoallv(vec![1u64; 3 * size], &vec![2; size], &vec![2; size]).err()),
        ("allgatherv_init with too many counts", comm.allgatherv_init::<u64>(&many).err()),
    ];
    for (call, error) in results {
        check!(matches!(error, Some(Error::BadLength { .. })), "{call} with a wrong length: {error:?}");
    }
    if size > 1 {
        // In a world of one every length divides.
        let results = [
            ("allgather_in_place", comm.allgather_in_place(&mut buffer).err()),
            ("reduce_scatter_block_in_place", comm.reduce_scatter_block_in_place(&mut buffer, Sum).err()),
            ("alltoall_in_place", comm.alltoall_in_place(&mut buffer).err()),
            ("ialltoall", comm.ialltoall(buffer.clone()).err()),
            ("ireduce_scatter_block", comm.ireduce_scatter_block(buffer.clone(), Sum).err()),
        ];
        for (call, error) in results {
            check!(matches!(error, Some(Error::BadLength { .. })), "{call} of blocks that do not divide: {error:?}");
        }
    }
    check_usable(comm)
}

fn bad_roots(comm: &Comm) -> Outcome {
    let size = comm.size();
    let mut data = [0u64; 4];
    let results = [
        ("bcast", comm.bcast(&mut data, size).err()),
        ("scatter", comm.scatter(&[], &mut data, size).err()),
        ("scatter_in_place", comm.scatter_in_place(&mut data, size).err()),
        ("gather", comm.gather(&data, &mut [], size).err()),
        ("gather_in_place", comm.gather_in_place(&mut data, size).err()),
        ("reduce", comm.reduce(&data, &mut [], Sum, size).err()),
        ("reduce_in_place", comm.reduce_in_place(&mut data, Sum, size).err()),
        ("ibcast", comm.ibcast(data.to_vec(), size + 7).err()),
        ("igather", comm.igather(data.to_vec(), usize::MAX).err()),
        ("bcast_init", comm.bcast_init::<u64>(4, size).err()),
    ];
    for (call, error) in results {
        check!(matches!(error, Some(Error::BadRank { .. })), "{call} with a root that does not exist: {error:?}");
    }
    check_usable(comm)
}

/// A call, correct or with an invalid argument.
struct Mistaken {
    name: &'static str,
    call: fn(&Comm, mistaken: bool) -> treepie::Result<()>,
}

/// Calls that only some ranks are refused. The others get the right result or an error, never a wrong result.
const MISTAKEN: &[Mistaken] = &[
    Mistaken {
        name: "allreduce_into",
        call: |comm, mistaken| comm.allreduce_into(&[1u64; 3], &mut vec![0; if mistaken { 4 } else { 3 }], Sum),
    },
    Mistaken {
        name: "bcast",
        call: |comm, mistaken| {
            let mut data = [u64::from(comm.rank() == 0) * 7; 3];
            comm.bcast(&mut data, if mistaken { comm.size() } else { 0 })?;
            assert_eq!(data, [7; 3], "the data of rank 0");
            Ok(())
        },
    },
    Mistaken {
        name: "allgatherv",
        call: |comm, mistaken| {
            let counts = vec![2; comm.size() + usize::from(mistaken)];
            comm.allgatherv(&[1u64; 2], &counts, &mut vec![0; 2 * comm.size()])
        },
    },
    Mistaken {
        name: "scan",
        call: |comm, mistaken| comm.scan(&[1u64; 3], &mut vec![0; if mistaken { 2 } else { 3 }], Sum),
    },
    Mistaken {
        name: "alltoall",
        call: |comm, mistaken| {
            let data = vec![1u64; 2 * comm.size()];
            comm.alltoall(&data, &mut vec![0; data.len() + usize::from(mistaken)])
        },
    },
    Mistaken {
        name: "alltoallv by store and forward",
        call: |comm, mistaken| {
            let (data, counts) = (vec![1u64; 2 * comm.size()], vec![2; comm.size()]);
            let mut buffer = vec![0; data.len() + usize::from(mistaken)];
            comm.with_algorithm("alltoall/bruck")?.alltoallv(&data, &counts, &mut buffer, &counts)
        },
    },
    Mistaken {
        name: "iallgatherv",
        call: |comm, mistaken| {
            let counts = vec![2; comm.size()];
            comm.iallgatherv(vec![1u64; if mistaken { 3 } else { 2 }], &counts)?.wait().map(drop)
        },
    },
    Mistaken {
        name: "iallgatherv in a scope",
        call: |comm, mistaken| {
            let (counts, mut buffer) = (vec![2; comm.size()], vec![0u64; 2 * comm.size() + usize::from(mistaken)]);
            comm.scope(|scope| scope.iallgatherv(&[1u64; 2], &counts, &mut buffer)?.wait())
        },
    },
];

/// The last rank passes an invalid argument and goes on: no rank hangs, and all ranks agree on the next operation.
fn one_is_refused(comm: &Comm) -> Outcome {
    let mistaken = comm.rank() + 1 == comm.size();
    for Mistaken { name, call } in MISTAKEN {
        for turn in 0..3 {
            let error = call(comm, mistaken).err();
            match &error {
                Some(Error::BadLength { .. } | Error::BadRank { .. }) => check!(mistaken, "{name}: {error:?}"),
                Some(Error::Aborted { .. }) => check!(!mistaken, "{name}: {error:?}"),
                Some(error) => check!(false, "{name}: {error:?}"),
                None => check!(!mistaken, "{name} was not refused, time {turn}"),
            }
            check_usable(comm)?;
        }
    }
    Ok(())
}

/// The last rank is refused an operation before rank 0 has entered the previous one, which other ranks have completed
/// or still wait in.
fn others_are_late(comm: &Comm) -> Outcome {
    let (me, last) = (comm.rank(), comm.size() - 1);
    for turn in 0..20 {
        let mut word = if me == 1 { [turn; 3] } else { [0; 3] };
        if me == 0 {
            comm.recv(&mut [0u8; 0], last, 6)?;
        }
        let first = comm.bcast(&mut word, 1);
        match &first {
            Ok(()) => check_eq!(word, [turn; 3], "turn {turn}"),
            // Other ranks may be late too.
            Err(error) => {
                check!(me != 1 && me != last && matches!(error, Error::Aborted { .. }), "turn {turn}: {error:?}");
            }
        }
        if me == 0 {
            comm.send::<u8>(&[], 1, 7)?;
        } else if me == 1 {
            comm.recv(&mut [0u8; 0], 0, 7)?;
        }
        let refused = comm.scatter(&[1u64; 1][..usize::from(me == last)], &mut [0u64; 1], last);
        match refused {
            Err(Error::BadLength { .. }) => check!(me == last, "turn {turn}: {refused:?}"),
            _ => check!(matches!(refused, Err(Error::Aborted { .. })), "turn {turn}: {refused:?}"),
        }
        if me == last {
            comm.send::<u8>(&[], 0, 6)?;
        }
        check_usable(comm)?;
    }
    Ok(())
}

/// Nonblocking operations under way complete normally although the last rank is refused another operation.
fn others_are_under_way(comm: &Comm) -> Outcome {
    let (me, last) = (comm.rank(), comm.size() - 1);
    for turn in 0..20 {
        let reductions = (0..20).map(|add| comm.iallreduce(vec![me + add; 5], Sum)).collect::<Result<Vec<_>, _>>()?;
        let refused = comm.scatter(&[1u64; 1][..usize::from(me == last)], &mut [0u64; 1], last);
        match refused {
            Err(Error::BadLength { .. }) => check!(me == last, "turn {turn}: {refused:?}"),
            _ => check!(matches!(refused, Err(Error::Aborted { .. })), "turn {turn}: {refused:?}"),
        }
        for (add, reduction) in reductions.into_iter().enumerate() {
            let sum: usize = (0..=last).map(|rank| rank + add).sum();
            check_eq!(reduction.wait()?, vec![sum; 5], "turn {turn}, reduction {add}");
        }
        check_usable(comm)?;
    }
    Ok(())
}

/// The length on this rank: rank 0 has one element less than the others.
fn local_length(comm: &Comm, len: usize) -> usize {
    if comm.rank() == 0 { len - 1 } else { len }
}

/// Checks that a rank got the error of different lengths.
#[track_caller]
fn check_reported(call: &str, error: Option<Error>) -> Outcome {
    let is_reported = matches!(error, Some(Error::CollectiveMismatch { .. } | Error::Aborted { .. }));
    check!(is_reported, "{call} with blocks of different lengths: {error:?}");
    Ok(())
}

// In the calls below, all ranks exchange with all or receive from the root alone, so every rank must get the error, and
// none waits for a rank that has aborted. Each call has its own communicator.

fn different(comm: &Comm, len: usize) -> Outcome {
    let len = local_length(comm, len);
    check_reported("allgather", comm.dup()?.with_algorithm("allgather/linear")?.allgather(&vec![1u64; len]).err())?;
    check_reported(
        "allreduce",
        comm.dup()?.with_algorithm("allreduce/linear")?.allreduce(&vec![1u64; len], Sum).err(),
    )?;
    check_usable(comm)
}

fn different_nonblocking(comm: &Comm, len: usize) -> Outcome {
    let len = local_length(comm, len);
    let (gather, reduce) =
        (comm.dup()?.with_algorithm("allgather/linear")?, comm.dup()?.with_algorithm("allreduce/linear")?);
    check_reported("iallgather", gather.iallgather(vec![1u64; len])?.wait().err())?;
    check_reported("iallreduce", reduce.iallreduce(vec![1u64; len], Sum)?.wait().err())?;
    check_usable(comm)
}

/// The root has one element less; it receives nothing, and need not get an error.
fn different_from_the_root(comm: &Comm) -> Outcome {
    for len in [4, 40_000] {
        let mut data = vec![1u64; local_length(comm, len)];
        let error = comm.dup()?.with_algorithm("bcast/flat")?.bcast(&mut data, 0).err();
        if comm.rank() != 0 {
            check_reported("bcast", error)?;
        }
    }
    check_usable(comm)
}

/// The text of the error.
fn refusal<T>(what: &str, result: treepie::Result<T>) -> Outcome<String> {
    match result.err() {
        Some(Error::Algorithm(text)) => Ok(text),
        error => Err(crate::Failure::new(format!("{what}: {error:?} instead of a refusal"))),
    }
}

fn unknown_algorithms(comm: &Comm) -> Outcome {
    for id in ["allgather/quick", "quick", "", "allgather", "allgather/", "all-gather/ring", "/ring"] {
        refusal(id, comm.with_algorithm(id))?;
    }
    let text = refusal("allgather/quick", comm.with_algorithm("allgather/quick"))?;
    check!(text.contains("allgather/quick") && text.contains("ring"), "a refusal that names no others: {text}");
    for id in ["bcast/kary:0", "bcast/kary:x", "bcast/chain:segments=0", "bcast/binomial:degree=2"] {
        // Arguments are checked when the algorithm is used, if not before.
        let used = comm.with_algorithm(id).and_then(|comm| comm.bcast(&mut [1u64; 3], 0));
        refusal(id, used)?;
    }
    check_usable(comm)
}

fn inapplicable_algorithms(comm: &Comm) -> Outcome {
    let size = comm.size();
    let flat = comm.with_network("flat")?;
    let text = refusal("bucket", flat.with_algorithm("allgather/bucket")?.allgather(&[1u64]))?;
    check!(text.contains("torus") && text.contains("allgather/ring"), "why not, and what instead: {text}");
    let text = refusal("hierarchical", flat.with_algorithm("bcast/hierarchical")?.ibcast(vec![1u64], 0))?;
    check!(text.contains("clusters") && text.contains("bcast/binomial"), "why not, and what instead: {text}");
    let ring = flat.with_algorithm("allreduce/ring")?;
    let text = refusal("ring", ring.allreduce(&AFFINE_MAPS.contribution(0, 2), (AFFINE_MAPS.operator)()))?;
    check!(
        text.contains("commutative") && text.contains("allreduce/recursive_doubling"),
        "why not, what instead: {text}"
    );
    refusal("ring", ring.allreduce_init(2, (AFFINE_MAPS.operator)()))?;
    let all = vec![1; size];
    let bruck = flat.with_algorithm("alltoall/bruck")?;
    let text = refusal("bruck", bruck.alltoallv_init::<u64>(&all, &all))?;
    check!(text.contains("equal length") && text.contains("alltoall/pairwise"), "why not, what instead: {text}");
    // The handles stay usable for calls that the algorithms apply to, and for other operations.
    check_usable(&ring)?;
    check_usable(&bruck)
}

fn unfit_networks(comm: &Comm) -> Outcome {
    let too_many = format!("torus:{}", comm.size() + 1);
    for text in ["ring:3", "torus", "torus:0x2", "clusters:x", &too_many, "/no/such/file.toml"] {
        refusal(text, comm.with_network(text))?;
    }
    check_usable(comm)
}

/// A selector that names an algorithm for allgathers only.
struct ForAllgathers(&'static str);

impl AlgorithmSelector for ForAllgathers {
    fn select(&self, query: &SelectionQuery<'_>) -> Option<String> {
        matches!(query.operation, Operation::Allgather).then(|| self.0.to_owned())
    }
}

fn selectors(comm: &Comm) -> Outcome {
    let all: Vec<usize> = (0..comm.size()).collect();
    check_eq!(
        comm.with_selector(Rc::new(ForAllgathers("allgather/ring"))).allgather(&[comm.rank()])?,
        all,
        "by a ring"
    );
    let quick = comm.with_selector(Rc::new(ForAllgathers("allgather/quick")));
    let error = quick.allgather(&[comm.rank()]).err();
    check!(matches!(error, Some(Error::Algorithm(_))), "an algorithm that does not exist: {error:?}");
    check_usable(&quick)?;
    // `with_algorithm` takes precedence over a selector.
    check_eq!(quick.with_algorithm("allgather/bruck")?.allgather(&[comm.rank()])?, all, "by the named algorithm");
    Ok(())
}
