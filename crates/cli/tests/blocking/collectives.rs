//! Collective operations: blocking, in place, nonblocking, in a scope, and persistent.

use treepie::{Comm, Error, PersistentCollective, Pod, Result, Sum};

use crate::running::yield_turn;
use crate::table::{Call, Outcome, RANKS, Trial, VICTIM};

/// Elements of one block, and of one block per rank.
const N: usize = 4;
const ALL: usize = N * RANKS;
const COUNTS: [usize; RANKS] = [N; RANKS];

/// Ranks that depend on the victim: all others, the root (rank 0), those after the victim (prefix sums).
const OTHERS: &[usize] = &[0, 2];
const ROOT: &[usize] = &[0];
const BEHIND: &[usize] = &[2];

/// A nonblocking form in a scope, which borrows its buffers.
macro_rules! scoped {
    ($name:literal, $ranks:expr, |$scope:ident, $data:ident, $into:ident| $call:expr) => {
        Call::new(&[$name], |t| {
            t.fails_on(
                $ranks,
                || {
                    let ($data, mut into) = (vec![1u64; ALL], vec![0u64; ALL]);
                    let $into = &mut into;
                    t.world.scope(|$scope| $call?.wait())
                },
                |_| true,
            )
        })
    };
}

macro_rules! plain {
    ($name:literal, $ranks:expr, |$world:ident, $data:ident, $into:ident| $call:expr) => {
        Call::new(&[$name], |t| {
            let $world = t.world;
            t.fails_on(
                $ranks,
                || {
                    let ($data, mut into) = (&vec![1u64; ALL], vec![0u64; ALL]);
                    let $into = &mut into;
                    $call.map(drop)
                },
                |_| true,
            )
        })
    };
}

fn root_only(world: &Comm, into: &mut [u64]) -> usize {
    if world.rank() == 0 { into.len() } else { 0 }
}

pub(crate) const CALLS: &[Call] = &[
    plain!("Comm::barrier", OTHERS, |w, _d, _i| w.barrier()).sample(),
    plain!("Comm::any", OTHERS, |w, _d, _i| w.any(false)),
    plain!("Comm::bcast_one", OTHERS, |w, _d, _i| w.bcast_one(1u64, VICTIM)),
    plain!("Comm::scatter_one", OTHERS, |w, _d, _i| w.scatter_one::<u64>(&[], VICTIM)),
    plain!("Comm::gather_one", ROOT, |w, _d, _i| w.gather_one(1u64, 0)),
    plain!("Comm::allgather_one", OTHERS, |w, _d, _i| w.allgather_one(1u64)),
    plain!("Comm::alltoall_one", OTHERS, |w, _d, _i| w.alltoall_one(&[1u64; RANKS])),
    plain!("Comm::reduce_one", ROOT, |w, _d, _i| w.reduce_one(1u64, Sum, 0)),
    plain!("Comm::allreduce_one", OTHERS, |w, _d, _i| w.allreduce_one(1u64, Sum)),
    plain!("Comm::scan_one", BEHIND, |w, _d, _i| w.scan_one(1u64, Sum)),
    plain!("Comm::exscan_one", BEHIND, |w, _d, _i| w.exscan_one(1u64, Sum)),
    plain!("Comm::bcast_object", OTHERS, |w, _d, _i| w.bcast_object::<String>(None, VICTIM)),
    plain!("Comm::gather_objects", OTHERS, |w, _d, _i| w.gather_objects(&"object".to_owned(), 0)),
    plain!("Comm::allgather_objects", OTHERS, |w, _d, _i| w.allgather_objects(&"object".to_owned())),
    plain!("Comm::scatter_objects", OTHERS, |w, _d, _i| w.scatter_objects::<String>(&[], VICTIM)),
    Call::new(&["Comm::allgather_objects, lost between its operations"], |t| {
        between_operations(t, OTHERS, |w, text| w.allgather_objects(text).map(drop))
    }),
    Call::new(&["Comm::gather_objects, lost between its operations"], |t| {
        between_operations(t, ROOT, |w, text| w.gather_objects(text, 0).map(drop))
    }),
    plain!("Comm::bcast", OTHERS, |w, _d, i| w.bcast(i, VICTIM)),
    plain!("Comm::scatter", OTHERS, |w, _d, i| w.scatter(&[], &mut i[..N], VICTIM)),
    plain!("Comm::scatterv", OTHERS, |w, _d, i| w.scatterv(&[], &COUNTS, &mut i[..N], VICTIM)),
    plain!("Comm::gather", ROOT, |w, d, i| {
        let all = root_only(w, i);
        w.gather(&d[..N], &mut i[..all], 0)
    }),
    plain!("Comm::gatherv", ROOT, |w, d, i| {
        let all = root_only(w, i);
        w.gatherv(&d[..N], &COUNTS, &mut i[..all], 0)
    }),
    plain!("Comm::allgather_into", OTHERS, |w, d, i| w.allgather_into(&d[..N], i)),
    plain!("Comm::allgather", OTHERS, |w, d, _i| w.allgather(&d[..N])),
    plain!("Comm::allgatherv", OTHERS, |w, d, i| w.allgatherv(&d[..N], &COUNTS, i)),
    plain!("Comm::reduce", ROOT, |w, d, i| {
        let all = root_only(w, i);
        w.reduce(d, &mut i[..all], Sum, 0)
    }),
    plain!("Comm::allreduce_into", OTHERS, |w, d, i| w.allreduce_into(d, i, Sum)),
    plain!("Comm::allreduce", OTHERS, |w, d, _i| w.allreduce(d, Sum)).sample(),
    plain!("Comm::reduce_scatter_block", OTHERS, |w, d, i| w.reduce_scatter_block(d, &mut i[..N], Sum)),
    plain!("Comm::reduce_scatter", OTHERS, |w, d, i| w.reduce_scatter(d, &COUNTS, &mut i[..N], Sum)),
    plain!("Comm::alltoall", OTHERS, |w, d, i| w.alltoall(d, i)),
    plain!("Comm::alltoallv", OTHERS, |w, d, i| w.alltoallv(d, &COUNTS, i, &COUNTS)),
    plain!("Comm::scan", BEHIND, |w, d, i| w.scan(d, i, Sum)),
    plain!("Comm::exscan", BEHIND, |w, d, i| w.exscan(d, i, Sum)),
    plain!("Comm::scatter_in_place", OTHERS, |w, _d, i| w.scatter_in_place(&mut i[..N], VICTIM)),
    plain!("Comm::scatterv_in_place", OTHERS, |w, _d, i| w.scatterv_in_place(&mut i[..N], &COUNTS, VICTIM)),
    plain!("Comm::gather_in_place", ROOT, |w, _d, i| {
        let len = if w.rank() == 0 { ALL } else { N };
        w.gather_in_place(&mut i[..len], 0)
    }),
    plain!("Comm::gatherv_in_place", ROOT, |w, _d, i| {
        let len = if w.rank() == 0 { ALL } else { N };
        w.gatherv_in_place(&mut i[..len], &COUNTS, 0)
    }),
    plain!("Comm::allgather_in_place", OTHERS, |w, _d, i| w.allgather_in_place(i)),
    plain!("Comm::allgatherv_in_place", OTHERS, |w, _d, i| w.allgatherv_in_place(i, &COUNTS)),
    plain!("Comm::reduce_in_place", ROOT, |w, _d, i| w.reduce_in_place(i, Sum, 0)),
    plain!("Comm::allreduce_in_place", OTHERS, |w, _d, i| w.allreduce_in_place(i, Sum)),
    plain!("Comm::reduce_scatter_block_in_place", OTHERS, |w, _d, i| w.reduce_scatter_block_in_place(i, Sum)),
    plain!("Comm::reduce_scatter_in_place", OTHERS, |w, _d, i| w.reduce_scatter_in_place(i, &COUNTS, Sum)),
    plain!("Comm::alltoall_in_place", OTHERS, |w, _d, i| w.alltoall_in_place(i)),
    plain!("Comm::alltoallv_in_place", OTHERS, |w, _d, i| w.alltoallv_in_place(i, &COUNTS)),
    plain!("Comm::scan_in_place", BEHIND, |w, _d, i| w.scan_in_place(i, Sum)),
    plain!("Comm::exscan_in_place", BEHIND, |w, _d, i| w.exscan_in_place(i, Sum)),
    plain!("Comm::ibarrier", OTHERS, |w, _d, _i| w.ibarrier()?.wait()).sample(),
    plain!("Comm::ibcast", OTHERS, |w, d, _i| w.ibcast(d.clone(), VICTIM)?.wait()),
    plain!("Comm::iscatter", OTHERS, |w, _d, _i| w.iscatter(Vec::<u64>::new(), N, VICTIM)?.wait()),
    plain!("Comm::iscatterv", OTHERS, |w, _d, _i| w.iscatterv(Vec::<u64>::new(), &COUNTS, VICTIM)?.wait()),
    plain!("Comm::igather", ROOT, |w, d, _i| w.igather(d[..N].to_vec(), 0)?.wait()),
    plain!("Comm::igatherv", ROOT, |w, d, _i| w.igatherv(d[..N].to_vec(), &COUNTS, 0)?.wait()),
    plain!("Comm::iallgather", OTHERS, |w, d, _i| w.iallgather(d[..N].to_vec())?.wait()),
    plain!("Comm::iallgatherv", OTHERS, |w, d, _i| w.iallgatherv(d[..N].to_vec(), &COUNTS)?.wait()),
    plain!("Comm::ireduce", ROOT, |w, d, _i| w.ireduce(d.clone(), Sum, 0)?.wait()),
    plain!("Comm::iallreduce", OTHERS, |w, d, _i| w.iallreduce(d.clone(), Sum)?.wait()),
    plain!("Comm::ireduce_scatter_block", OTHERS, |w, d, _i| w.ireduce_scatter_block(d.clone(), Sum)?.wait()),
    plain!("Comm::ireduce_scatter", OTHERS, |w, d, _i| w.ireduce_scatter(d.clone(), &COUNTS, Sum)?.wait()),
    plain!("Comm::ialltoall", OTHERS, |w, d, _i| w.ialltoall(d.clone())?.wait()),
    plain!("Comm::ialltoallv", OTHERS, |w, d, _i| w.ialltoallv(d.clone(), &COUNTS, &COUNTS)?.wait()),
    plain!("Comm::iscan", BEHIND, |w, d, _i| w.iscan(d.clone(), Sum)?.wait()),
    plain!("Comm::iexscan", BEHIND, |w, d, _i| w.iexscan(d.clone(), Sum)?.wait()),
    scoped!("Scope::ibcast", OTHERS, |s, _d, i| s.ibcast(i, VICTIM)),
    scoped!("Scope::iscatter", OTHERS, |s, _d, i| s.iscatter(&[], &mut i[..N], VICTIM)),
    scoped!("Scope::iscatterv", OTHERS, |s, _d, i| s.iscatterv(&[], &COUNTS, &mut i[..N], VICTIM)),
    scoped!("Scope::iallgather", OTHERS, |s, d, i| s.iallgather(&d[..N], i)),
    scoped!("Scope::iallgatherv", OTHERS, |s, d, i| s.iallgatherv(&d[..N], &COUNTS, i)),
    scoped!("Scope::iallreduce", OTHERS, |s, d, i| s.iallreduce(&d, i, Sum)),
    scoped!("Scope::ireduce_scatter_block", OTHERS, |s, d, i| s.ireduce_scatter_block(&d, &mut i[..N], Sum)),
    scoped!("Scope::ireduce_scatter", OTHERS, |s, d, i| s.ireduce_scatter(&d, &COUNTS, &mut i[..N], Sum)),
    scoped!("Scope::ialltoall", OTHERS, |s, d, i| s.ialltoall(&d, i)),
    scoped!("Scope::ialltoallv", OTHERS, |s, d, i| s.ialltoallv(&d, &COUNTS, i, &COUNTS)),
    scoped!("Scope::iscan", BEHIND, |s, d, i| s.iscan(&d, i, Sum)),
    scoped!("Scope::iexscan", BEHIND, |s, d, i| s.iexscan(&d, i, Sum)),
    scoped!("Scope::iscatter_in_place", OTHERS, |s, _d, i| s.iscatter_in_place(&mut i[..N], VICTIM)),
    scoped!("Scope::iscatterv_in_place", OTHERS, |s, _d, i| s.iscatterv_in_place(&mut i[..N], &COUNTS, VICTIM)),
    scoped!("Scope::iallgather_in_place", OTHERS, |s, _d, i| s.iallgather_in_place(i)),
    scoped!("Scope::iallgatherv_in_place", OTHERS, |s, _d, i| s.iallgatherv_in_place(i, &COUNTS)),
    scoped!("Scope::ireduce_in_place", ROOT, |s, _d, i| s.ireduce_in_place(i, Sum, 0)),
    scoped!("Scope::iallreduce_in_place", OTHERS, |s, _d, i| s.iallreduce_in_place(i, Sum)),
    scoped!("Scope::ireduce_scatter_block_in_place", OTHERS, |s, _d, i| s.ireduce_scatter_block_in_place(i, Sum)),
    scoped!("Scope::ireduce_scatter_in_place", OTHERS, |s, _d, i| s.ireduce_scatter_in_place(i, &COUNTS, Sum)),
    scoped!("Scope::ialltoall_in_place", OTHERS, |s, _d, i| s.ialltoall_in_place(i)),
    scoped!("Scope::ialltoallv_in_place", OTHERS, |s, _d, i| s.ialltoallv_in_place(i, &COUNTS)),
    scoped!("Scope::iscan_in_place", BEHIND, |s, _d, i| s.iscan_in_place(i, Sum)),
    scoped!("Scope::iexscan_in_place", BEHIND, |s, _d, i| s.iexscan_in_place(i, Sum)),
    Call::new(&["Scope::igather", "Scope::igatherv", "Scope::ireduce"], rooted_in_a_scope),
    Call::new(&["Scope::igather_in_place", "Scope::igatherv_in_place"], gathered_in_place_in_a_scope),
    Call::new(&["Comm::barrier_init", "PersistentCollective::wait"], |t| persistent(t, OTHERS, |w| w.barrier_init())),
    Call::new(&["PersistentCollective::test"], |t| {
        let mut barrier = t.world.barrier_init()?;
        t.fails(|| {
            barrier.start();
            while !barrier.test()? {
                yield_turn();
            }
            Ok::<_, treepie::Error>(())
        })
    }),
    Call::new(&["Comm::bcast_init"], |t| persistent(t, OTHERS, |w| w.bcast_init::<u64>(N, VICTIM))),
    Call::new(&["Comm::scatter_init"], |t| persistent(t, OTHERS, |w| w.scatter_init::<u64>(N, VICTIM))),
    Call::new(&["Comm::scatterv_init"], |t| persistent(t, OTHERS, |w| w.scatterv_init::<u64>(&COUNTS, VICTIM))),
    Call::new(&["Comm::gather_init"], |t| persistent(t, ROOT, |w| w.gather_init::<u64>(N, 0))),
    Call::new(&["Comm::gatherv_init"], |t| persistent(t, ROOT, |w| w.gatherv_init::<u64>(&COUNTS, 0))),
    Call::new(&["Comm::allgather_init"], |t| persistent(t, OTHERS, |w| w.allgather_init::<u64>(N))),
    Call::new(&["Comm::allgatherv_init"], |t| persistent(t, OTHERS, |w| w.allgatherv_init::<u64>(&COUNTS))),
    Call::new(&["Comm::reduce_init"], |t| persistent(t, ROOT, |w| w.reduce_init::<u64>(N, Sum, 0))),
    Call::new(&["Comm::allreduce_init"], |t| persistent(t, OTHERS, |w| w.allreduce_init::<u64>(N, Sum))),
    Call::new(&["Comm::reduce_scatter_block_init"], |t| {
        persistent(t, OTHERS, |w| w.reduce_scatter_block_init::<u64>(N, Sum))
    }),
    Call::new(&["Comm::reduce_scatter_init"], |t| {
        persistent(t, OTHERS, |w| w.reduce_scatter_init::<u64>(&COUNTS, Sum))
    }),
    Call::new(&["Comm::alltoall_init"], |t| persistent(t, OTHERS, |w| w.alltoall_init::<u64>(N))),
    Call::new(&["Comm::alltoallv_init"], |t| persistent(t, OTHERS, |w| w.alltoallv_init::<u64>(&COUNTS, &COUNTS))),
    Call::new(&["Comm::scan_init"], |t| persistent(t, BEHIND, |w| w.scan_init::<u64>(N, Sum))),
    Call::new(&["Comm::exscan_init"], |t| persistent(t, BEHIND, |w| w.exscan_init::<u64>(N, Sum))),
];

/// A persistent collective that is initialized before the fault and started repeatedly.
fn persistent<T: Pod>(t: &Trial<'_>, ranks: &[usize], init: fn(&Comm) -> Result<PersistentCollective<T>>) -> Outcome {
    let mut collective = init(t.world)?;
    t.fails_on(
        ranks,
        || {
            collective.start();
            // The second wait is for the buffers, which peers may still access after an error.
            collective.wait().inspect_err(|_| drop(collective.wait()))
        },
        |()| true,
    )
}

/// A call of objects whose second operation the victim does not reach: in the first one it announces a long object.
fn between_operations(t: &Trial<'_>, ranks: &[usize], call: fn(&Comm, &String) -> Result<()>) -> Outcome {
    if t.rank() == VICTIM {
        let mut head = [0u8; 512];
        head[..8].copy_from_slice(&1000u64.to_le_bytes());
        t.world.allgather(&head)?;
    }
    let (text, mut is_first) = ("x".repeat(1000), true);
    let call = || {
        let result = call(t.world, &text);
        // Otherwise what the victim called was not the first operation.
        let is_loss = matches!(result, Ok(()) | Err(Error::PeerLost { .. } | Error::Aborted { .. }));
        assert!(!std::mem::take(&mut is_first) || is_loss, "{result:?}");
        result
    };
    t.fails_on(ranks, call, |()| true)
}

fn rooted_in_a_scope(t: &Trial<'_>) -> Outcome {
    let is_root = t.rank() == 0;
    t.fails_on(
        ROOT,
        || {
            let (data, mut into) = (vec![1u64; ALL], vec![vec![0u64; if is_root { ALL } else { 0 }]; 3]);
            let [first, second, third] = &mut into[..] else { unreachable!() };
            t.world.scope(|scope| {
                let requests = [
                    scope.igather(&data[..N], first, 0)?,
                    scope.igatherv(&data[..N], &COUNTS, second, 0)?,
                    scope.ireduce(&data, third, Sum, 0)?,
                ];
                let results = requests.map(|request| request.wait());
                assert!(!is_root || results.iter().all(Result::is_err), "{results:?}");
                results.into_iter().collect::<Result<Vec<()>>>()
            })
        },
        |_| true,
    )
}

fn gathered_in_place_in_a_scope(t: &Trial<'_>) -> Outcome {
    let len = if t.rank() == 0 { ALL } else { N };
    t.fails_on(
        ROOT,
        || {
            let (mut first, mut second) = (vec![0u64; len], vec![0u64; len]);
            t.world.scope(|scope| {
                let requests =
                    [scope.igather_in_place(&mut first, 0)?, scope.igatherv_in_place(&mut second, &COUNTS, 0)?];
                let results = requests.map(|request| request.wait());
                assert!(len == N || results.iter().all(Result::is_err), "{results:?}");
                results.into_iter().collect::<Result<Vec<()>>>()
            })
        },
        |_| true,
    )
}
