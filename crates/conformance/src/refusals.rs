//! Collective operations that are refused, and ranks that disagree about one.

use std::rc::Rc;

use treepie::{Chooser, Comm, Error, Operation, Question, Sum};

use crate::check::{Outcome, check, check_eq};
use crate::folds::{MAPS, SUM};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("refusals/slices-of-the-wrong-length", 1, wrong_lengths),
    Case::new("refusals/roots-that-do-not-exist", 1, bad_roots),
    Case::new("refusals/one-rank-is-refused-and-all-go-on", 2, one_is_refused),
    Case::new("world/one-rank-is-refused-and-all-go-on", 2, one_is_refused).of_world().last(),
    Case::new("refusals/one-rank-is-refused-and-others-are-late", 3, others_are_late),
    Case::new("world/one-rank-is-refused-and-others-are-late", 3, others_are_late).of_world().last(),
    Case::new("refusals/one-rank-is-refused-and-others-are-under-way", 2, others_are_under_way),
    Case::new("world/one-rank-is-refused-and-others-are-under-way", 2, others_are_under_way).of_world().last(),
    Case::new("refusals/ranks-that-disagree-about-lengths-are-told", 2, |comm| disagree(comm, 4)),
    Case::new("refusals/ranks-that-disagree-with-the-root-are-told", 2, disagree_with_the_root),
    Case::new("refusals/ranks-that-disagree-nonblocking-are-told", 2, |comm| disagree_nonblocking(comm, 4)),
    Case::new("refusals/ranks-that-disagree-nonblocking-and-long-are-told", 2, |comm| {
        disagree_nonblocking(comm, 40_000)
    }),
    Case::new("refusals/ranks-that-disagree-about-long-blocks-are-told", 2, |comm| disagree(comm, 40_000)),
    Case::new("refusals/algorithms-that-do-not-exist", 1, unknown_algorithms),
    Case::new("refusals/algorithms-that-do-not-apply", 1, inapplicable_algorithms),
    Case::new("refusals/what-a-chooser-names-is-used-or-refused", 1, choosers),
    Case::new("refusals/networks-that-do-not-fit", 1, unfit_networks),
];

/// That the communicator can be used.
fn works(comm: &Comm) -> Outcome {
    let want = SUM.result(0..comm.size(), 5);
    check_eq!(comm.all_reduce(&SUM.data(comm.rank(), 5), Sum)?, want, "all_reduce after a refusal");
    Ok(())
}

fn wrong_lengths(comm: &Comm) -> Outcome {
    let size = comm.size();
    let data = vec![1u64; 2 * size];
    let mut room = vec![0u64; 2 * size + 1];
    let (mut short, many) = (vec![0u64; 1], vec![1; size + 1]);
    let results = [
        ("all_gather_into", comm.all_gather_into(&data[..2], &mut room).err()),
        ("all_gatherv", comm.all_gatherv(&data[..2], &vec![2; size], &mut room).err()),
        ("all_gatherv with too many counts", comm.all_gatherv(&data[..1], &many, &mut room).err()),
        ("scatterv with too many counts", comm.scatterv(&data, &many, &mut short, 0).err()),
        ("gatherv with too many counts", comm.gatherv(&data, &many, &mut room, 0).err()),
        ("all_reduce_into", comm.all_reduce_into(&data, &mut room, Sum).err()),
        ("reduce_scatter", comm.reduce_scatter(&room.clone(), &mut short, Sum).err()),
        ("reduce_scatterv", comm.reduce_scatterv(&data, &vec![2; size], &mut room, Sum).err()),
        ("all_to_all", comm.all_to_all(&data, &mut room).err()),
        ("all_to_allv", comm.all_to_allv(&data, &vec![2; size], &mut room, &vec![2; size]).err()),
        ("all_to_allv with too many counts", comm.all_to_allv(&data, &many, &mut room, &vec![2; size]).err()),
        ("scan", comm.scan(&data, &mut room, Sum).err()),
        ("exscan", comm.exscan(&data, &mut room, Sum).err()),
        ("iall_gatherv", comm.iall_gatherv(vec![1u64; 3], &vec![2; size]).err()),
        ("iall_to_allv", comm.iall_to_allv(vec![1u64; 3 * size], &vec![2; size], &vec![2; size]).err()),
        ("all_gatherv_init with too many counts", comm.all_gatherv_init::<u64>(&many).err()),
    ];
    for (call, error) in results {
        check!(matches!(error, Some(Error::BadLength { .. })), "{call} with a wrong length: {error:?}");
    }
    if size > 1 {
        // In a world of one they divide.
        let results = [
            ("all_gather_in_place", comm.all_gather_in_place(&mut room).err()),
            ("reduce_scatter_in_place", comm.reduce_scatter_in_place(&mut room, Sum).err()),
            ("all_to_all_in_place", comm.all_to_all_in_place(&mut room).err()),
            ("iall_to_all", comm.iall_to_all(room.clone()).err()),
            ("ireduce_scatter", comm.ireduce_scatter(room.clone(), Sum).err()),
        ];
        for (call, error) in results {
            check!(matches!(error, Some(Error::BadLength { .. })), "{call} of blocks that do not divide: {error:?}");
        }
    }
    works(comm)
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
    works(comm)
}

/// A call as it should be, and as one rank makes it.
struct Mistaken {
    name: &'static str,
    call: fn(&Comm, mistaken: bool) -> treepie::Result<()>,
}

/// What only some ranks are refused. Those that are not may get a wrong result from nobody: they get the right one or an error.
const MISTAKEN: &[Mistaken] = &[
    Mistaken {
        name: "all_reduce_into",
        call: |comm, mistaken| comm.all_reduce_into(&[1u64; 3], &mut vec![0; if mistaken { 4 } else { 3 }], Sum),
    },
    Mistaken {
        name: "bcast",
        call: |comm, mistaken| {
            let mut data = [u64::from(comm.rank() == 0) * 7; 3];
            comm.bcast(&mut data, if mistaken { comm.size() } else { 0 })?;
            assert_eq!(data, [7; 3], "what rank 0 has sent");
            Ok(())
        },
    },
    Mistaken {
        name: "all_gatherv",
        call: |comm, mistaken| {
            let counts = vec![2; comm.size() + usize::from(mistaken)];
            comm.all_gatherv(&[1u64; 2], &counts, &mut vec![0; 2 * comm.size()])
        },
    },
    Mistaken {
        name: "scan",
        call: |comm, mistaken| comm.scan(&[1u64; 3], &mut vec![0; if mistaken { 2 } else { 3 }], Sum),
    },
    Mistaken {
        name: "all_to_all",
        call: |comm, mistaken| {
            let data = vec![1u64; 2 * comm.size()];
            comm.all_to_all(&data, &mut vec![0; data.len() + usize::from(mistaken)])
        },
    },
    Mistaken {
        name: "all_to_allv by store and forward",
        call: |comm, mistaken| {
            let (data, counts) = (vec![1u64; 2 * comm.size()], vec![2; comm.size()]);
            let mut room = vec![0; data.len() + usize::from(mistaken)];
            comm.using("alltoall/bruck")?.all_to_allv(&data, &counts, &mut room, &counts)
        },
    },
    Mistaken {
        name: "iall_gatherv",
        call: |comm, mistaken| {
            let counts = vec![2; comm.size()];
            comm.iall_gatherv(vec![1u64; if mistaken { 3 } else { 2 }], &counts)?.wait().map(drop)
        },
    },
    Mistaken {
        name: "iall_gatherv in a scope",
        call: |comm, mistaken| {
            let (counts, mut room) = (vec![2; comm.size()], vec![0u64; 2 * comm.size() + usize::from(mistaken)]);
            comm.scope(|scope| scope.iall_gatherv(&[1u64; 2], &counts, &mut room)?.wait())
        },
    },
];

/// The last rank makes a mistake, and goes on as if nothing had been: nobody waits for ever, and the next operation of all ranks
/// is the same one for all.
fn one_is_refused(comm: &Comm) -> Outcome {
    let mistaken = comm.rank() + 1 == comm.size();
    for Mistaken { name, call } in MISTAKEN {
        for turn in 0..3 {
            let error = call(comm, mistaken).err();
            match &error {
                Some(Error::BadLength { .. } | Error::BadRank { .. }) => check!(mistaken, "{name}: {error:?}"),
                Some(Error::GaveUp { .. }) => check!(!mistaken, "{name}: {error:?}"),
                Some(error) => check!(false, "{name}: {error:?}"),
                None => check!(!mistaken, "{name} was not refused, time {turn}"),
            }
            works(comm)?;
        }
    }
    Ok(())
}

/// The last rank is refused an operation before the first one has even begun the one before, which others have been through, and
/// which the rank in the middle waits for.
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
            // Others may be late too.
            Err(error) => {
                check!(me != 1 && me != last && matches!(error, Error::GaveUp { .. }), "turn {turn}: {error:?}");
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
            _ => check!(matches!(refused, Err(Error::GaveUp { .. })), "turn {turn}: {refused:?}"),
        }
        if me == last {
            comm.send::<u8>(&[], 0, 6)?;
        }
        works(comm)?;
    }
    Ok(())
}

/// Nonblocking operations that are under way while the last rank is refused another one end as if nothing had been, however many.
fn others_are_under_way(comm: &Comm) -> Outcome {
    let (me, last) = (comm.rank(), comm.size() - 1);
    for turn in 0..20 {
        let reductions = (0..20).map(|add| comm.iall_reduce(vec![me + add; 5], Sum)).collect::<Result<Vec<_>, _>>()?;
        let refused = comm.scatter(&[1u64; 1][..usize::from(me == last)], &mut [0u64; 1], last);
        match refused {
            Err(Error::BadLength { .. }) => check!(me == last, "turn {turn}: {refused:?}"),
            _ => check!(matches!(refused, Err(Error::GaveUp { .. })), "turn {turn}: {refused:?}"),
        }
        for (add, reduction) in reductions.into_iter().enumerate() {
            let sum: usize = (0..=last).map(|rank| rank + add).sum();
            check_eq!(reduction.wait()?, vec![sum; 5], "turn {turn}, reduction {add}");
        }
        works(comm)?;
    }
    Ok(())
}

/// Rank 0 is one element short of the others.
fn own_length(comm: &Comm, len: usize) -> usize {
    if comm.rank() == 0 { len - 1 } else { len }
}

/// That a rank heard that another one has another length.
#[track_caller]
fn told(call: &str, error: Option<Error>) -> Outcome {
    let told = matches!(error, Some(Error::CallsDiffer { .. } | Error::GaveUp { .. }));
    check!(told, "{call} where ranks have blocks of different lengths: {error:?}");
    Ok(())
}

// All exchange with all at once below, or get from the root alone: everybody must notice, and nobody waits for what a
// rank that has noticed does not send on. Each call has a communicator of its own, which is of no use after it.

fn disagree(comm: &Comm, len: usize) -> Outcome {
    let mine = own_length(comm, len);
    told("all_gather", comm.dup()?.using("allgather/linear")?.all_gather(&vec![1u64; mine]).err())?;
    told("all_reduce", comm.dup()?.using("allreduce/linear")?.all_reduce(&vec![1u64; mine], Sum).err())?;
    works(comm)
}

fn disagree_nonblocking(comm: &Comm, len: usize) -> Outcome {
    let mine = own_length(comm, len);
    let (gather, reduce) = (comm.dup()?.using("allgather/linear")?, comm.dup()?.using("allreduce/linear")?);
    told("iall_gather", gather.iall_gather(vec![1u64; mine])?.wait().err())?;
    told("iall_reduce", reduce.iall_reduce(vec![1u64; mine], Sum)?.wait().err())?;
    works(comm)
}

/// The root is the one that is short: it does not hear of it.
fn disagree_with_the_root(comm: &Comm) -> Outcome {
    for len in [4, 40_000] {
        let mut data = vec![1u64; own_length(comm, len)];
        let error = comm.dup()?.using("bcast/flat")?.bcast(&mut data, 0).err();
        if comm.rank() != 0 {
            told("bcast", error)?;
        }
    }
    works(comm)
}

/// The text of the refusal.
fn refusal<T>(what: &str, result: treepie::Result<T>) -> Outcome<String> {
    match result.err() {
        Some(Error::Algorithm(text)) => Ok(text),
        error => Err(crate::Failure::new(format!("{what}: {error:?} instead of a refusal"))),
    }
}

fn unknown_algorithms(comm: &Comm) -> Outcome {
    for id in ["allgather/quick", "quick", "", "allgather", "allgather/", "all_gather/ring", "/ring"] {
        refusal(id, comm.using(id))?;
    }
    let text = refusal("allgather/quick", comm.using("allgather/quick"))?;
    check!(text.contains("allgather/quick") && text.contains("ring"), "a refusal that names no others: {text}");
    for id in ["bcast/kary:0", "bcast/kary:x", "bcast/chain:segments=0", "bcast/binomial:degree=2"] {
        // The arguments are looked at when it is used, if not before.
        let used = comm.using(id).and_then(|comm| comm.bcast(&mut [1u64; 3], 0));
        refusal(id, used)?;
    }
    works(comm)
}

fn inapplicable_algorithms(comm: &Comm) -> Outcome {
    let size = comm.size();
    let flat = comm.on("flat")?;
    let text = refusal("bucket", flat.using("allgather/bucket")?.all_gather(&[1u64]))?;
    check!(text.contains("torus") && text.contains("allgather/ring"), "why not, and what instead: {text}");
    let text = refusal("two_layer", flat.using("bcast/two_layer")?.ibcast(vec![1u64], 0))?;
    check!(text.contains("clusters") && text.contains("bcast/binomial"), "why not, and what instead: {text}");
    let ring = flat.using("allreduce/ring")?;
    let text = refusal("ring", ring.all_reduce(&MAPS.data(0, 2), (MAPS.operator)()))?;
    check!(text.contains("commutes") && text.contains("allreduce/recursive_doubling"), "why not, what instead: {text}");
    refusal("ring", ring.all_reduce_init(2, (MAPS.operator)()))?;
    let all = vec![1; size];
    let bruck = flat.using("alltoall/bruck")?;
    let text = refusal("bruck", bruck.all_to_allv_init::<u64>(&all, &all))?;
    check!(text.contains("same length") && text.contains("alltoall/pairwise"), "why not, what instead: {text}");
    // They stay of use for what they apply to, and for other operations.
    works(&ring)?;
    works(&bruck)
}

fn unfit_networks(comm: &Comm) -> Outcome {
    let too_many = format!("torus:{}", comm.size() + 1);
    for text in ["ring:3", "torus", "torus:0x2", "clusters:x", &too_many, "/no/such/file.toml"] {
        refusal(text, comm.on(text))?;
    }
    works(comm)
}

/// Names an algorithm for allgathers, and nothing else.
struct ForAllgathers(&'static str);

impl Chooser for ForAllgathers {
    fn choose(&self, question: &Question<'_>) -> Option<String> {
        matches!(question.operation, Operation::Allgather).then(|| self.0.to_owned())
    }
}

fn choosers(comm: &Comm) -> Outcome {
    let all: Vec<usize> = (0..comm.size()).collect();
    check_eq!(comm.choosing(Rc::new(ForAllgathers("allgather/ring"))).all_gather(&[comm.rank()])?, all, "by a ring");
    let quick = comm.choosing(Rc::new(ForAllgathers("allgather/quick")));
    let error = quick.all_gather(&[comm.rank()]).err();
    check!(matches!(error, Some(Error::Algorithm(_))), "an algorithm that does not exist: {error:?}");
    works(&quick)?;
    // What the handle is told to use goes before.
    check_eq!(quick.using("allgather/bruck")?.all_gather(&[comm.rank()])?, all, "by what was said");
    Ok(())
}
