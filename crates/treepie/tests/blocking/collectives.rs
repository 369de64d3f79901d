//! Collective operations: blocking, in place, nonblocking, in a scope, and persistent.

use treepie::{Comm, Persistent, Pod, Result, Sum};

use crate::running::yield_turn;
use crate::table::{Call, Outcome, RANKS, Trial, VICTIM};

/// Elements of a block, and of a block for each rank.
const N: usize = 4;
const ALL: usize = N * RANKS;
const COUNTS: [usize; RANKS] = [N; RANKS];

/// Ranks that need something of the victim: all, the root of what goes to rank 0, those behind it.
const OTHERS: &[usize] = &[0, 2];
const ROOT: &[usize] = &[0];
const BEHIND: &[usize] = &[2];

/// A nonblocking form in a scope, with buffers to borrow.
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
    plain!("Comm::all_gather_into", OTHERS, |w, d, i| w.all_gather_into(&d[..N], i)),
    plain!("Comm::all_gather", OTHERS, |w, d, _i| w.all_gather(&d[..N])),
    plain!("Comm::all_gatherv", OTHERS, |w, d, i| w.all_gatherv(&d[..N], &COUNTS, i)),
    plain!("Comm::reduce", ROOT, |w, d, i| {
        let all = root_only(w, i);
        w.reduce(d, &mut i[..all], Sum, 0)
    }),
    plain!("Comm::all_reduce_into", OTHERS, |w, d, i| w.all_reduce_into(d, i, Sum)),
    plain!("Comm::all_reduce", OTHERS, |w, d, _i| w.all_reduce(d, Sum)).sample(),
    plain!("Comm::reduce_scatter", OTHERS, |w, d, i| w.reduce_scatter(d, &mut i[..N], Sum)),
    plain!("Comm::reduce_scatterv", OTHERS, |w, d, i| w.reduce_scatterv(d, &COUNTS, &mut i[..N], Sum)),
    plain!("Comm::all_to_all", OTHERS, |w, d, i| w.all_to_all(d, i)),
    plain!("Comm::all_to_allv", OTHERS, |w, d, i| w.all_to_allv(d, &COUNTS, i, &COUNTS)),
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
    plain!("Comm::all_gather_in_place", OTHERS, |w, _d, i| w.all_gather_in_place(i)),
    plain!("Comm::all_gatherv_in_place", OTHERS, |w, _d, i| w.all_gatherv_in_place(i, &COUNTS)),
    plain!("Comm::reduce_in_place", ROOT, |w, _d, i| w.reduce_in_place(i, Sum, 0)),
    plain!("Comm::all_reduce_in_place", OTHERS, |w, _d, i| w.all_reduce_in_place(i, Sum)),
    plain!("Comm::reduce_scatter_in_place", OTHERS, |w, _d, i| w.reduce_scatter_in_place(i, Sum)),
    plain!("Comm::reduce_scatterv_in_place", OTHERS, |w, _d, i| w.reduce_scatterv_in_place(i, &COUNTS, Sum)),
    plain!("Comm::all_to_all_in_place", OTHERS, |w, _d, i| w.all_to_all_in_place(i)),
    plain!("Comm::all_to_allv_in_place", OTHERS, |w, _d, i| w.all_to_allv_in_place(i, &COUNTS)),
    plain!("Comm::scan_in_place", BEHIND, |w, _d, i| w.scan_in_place(i, Sum)),
    plain!("Comm::exscan_in_place", BEHIND, |w, _d, i| w.exscan_in_place(i, Sum)),
    plain!("Comm::ibarrier", OTHERS, |w, _d, _i| w.ibarrier()?.wait()).sample(),
    plain!("Comm::ibcast", OTHERS, |w, d, _i| w.ibcast(d.clone(), VICTIM)?.wait()),
    plain!("Comm::iscatter", OTHERS, |w, _d, _i| w.iscatter(Vec::<u64>::new(), N, VICTIM)?.wait()),
    plain!("Comm::iscatterv", OTHERS, |w, _d, _i| w.iscatterv(Vec::<u64>::new(), &COUNTS, VICTIM)?.wait()),
    plain!("Comm::igather", ROOT, |w, d, _i| w.igather(d[..N].to_vec(), 0)?.wait()),
    plain!("Comm::igatherv", ROOT, |w, d, _i| w.igatherv(d[..N].to_vec(), &COUNTS, 0)?.wait()),
    plain!("Comm::iall_gather", OTHERS, |w, d, _i| w.iall_gather(d[..N].to_vec())?.wait()),
    plain!("Comm::iall_gatherv", OTHERS, |w, d, _i| w.iall_gatherv(d[..N].to_vec(), &COUNTS)?.wait()),
    plain!("Comm::ireduce", ROOT, |w, d, _i| w.ireduce(d.clone(), Sum, 0)?.wait()),
    plain!("Comm::iall_reduce", OTHERS, |w, d, _i| w.iall_reduce(d.clone(), Sum)?.wait()),
    plain!("Comm::ireduce_scatter", OTHERS, |w, d, _i| w.ireduce_scatter(d.clone(), Sum)?.wait()),
    plain!("Comm::ireduce_scatterv", OTHERS, |w, d, _i| w.ireduce_scatterv(d.clone(), &COUNTS, Sum)?.wait()),
    plain!("Comm::iall_to_all", OTHERS, |w, d, _i| w.iall_to_all(d.clone())?.wait()),
    plain!("Comm::iall_to_allv", OTHERS, |w, d, _i| w.iall_to_allv(d.clone(), &COUNTS, &COUNTS)?.wait()),
    plain!("Comm::iscan", BEHIND, |w, d, _i| w.iscan(d.clone(), Sum)?.wait()),
    plain!("Comm::iexscan", BEHIND, |w, d, _i| w.iexscan(d.clone(), Sum)?.wait()),
    scoped!("Scope::ibcast", OTHERS, |s, _d, i| s.ibcast(i, VICTIM)),
    scoped!("Scope::iscatter", OTHERS, |s, _d, i| s.iscatter(&[], &mut i[..N], VICTIM)),
    scoped!("Scope::iscatterv", OTHERS, |s, _d, i| s.iscatterv(&[], &COUNTS, &mut i[..N], VICTIM)),
    scoped!("Scope::iall_gather", OTHERS, |s, d, i| s.iall_gather(&d[..N], i)),
    scoped!("Scope::iall_gatherv", OTHERS, |s, d, i| s.iall_gatherv(&d[..N], &COUNTS, i)),
    scoped!("Scope::iall_reduce", OTHERS, |s, d, i| s.iall_reduce(&d, i, Sum)),
    scoped!("Scope::ireduce_scatter", OTHERS, |s, d, i| s.ireduce_scatter(&d, &mut i[..N], Sum)),
    scoped!("Scope::ireduce_scatterv", OTHERS, |s, d, i| s.ireduce_scatterv(&d, &COUNTS, &mut i[..N], Sum)),
    scoped!("Scope::iall_to_all", OTHERS, |s, d, i| s.iall_to_all(&d, i)),
    scoped!("Scope::iall_to_allv", OTHERS, |s, d, i| s.iall_to_allv(&d, &COUNTS, i, &COUNTS)),
    scoped!("Scope::iscan", BEHIND, |s, d, i| s.iscan(&d, i, Sum)),
    scoped!("Scope::iexscan", BEHIND, |s, d, i| s.iexscan(&d, i, Sum)),
    scoped!("Scope::iscatter_in_place", OTHERS, |s, _d, i| s.iscatter_in_place(&mut i[..N], VICTIM)),
    scoped!("Scope::iscatterv_in_place", OTHERS, |s, _d, i| s.iscatterv_in_place(&mut i[..N], &COUNTS, VICTIM)),
    scoped!("Scope::iall_gather_in_place", OTHERS, |s, _d, i| s.iall_gather_in_place(i)),
    scoped!("Scope::iall_gatherv_in_place", OTHERS, |s, _d, i| s.iall_gatherv_in_place(i, &COUNTS)),
    scoped!("Scope::ireduce_in_place", ROOT, |s, _d, i| s.ireduce_in_place(i, Sum, 0)),
    scoped!("Scope::iall_reduce_in_place", OTHERS, |s, _d, i| s.iall_reduce_in_place(i, Sum)),
    scoped!("Scope::ireduce_scatter_in_place", OTHERS, |s, _d, i| s.ireduce_scatter_in_place(i, Sum)),
    scoped!("Scope::ireduce_scatterv_in_place", OTHERS, |s, _d, i| s.ireduce_scatterv_in_place(i, &COUNTS, Sum)),
    scoped!("Scope::iall_to_all_in_place", OTHERS, |s, _d, i| s.iall_to_all_in_place(i)),
    scoped!("Scope::iall_to_allv_in_place", OTHERS, |s, _d, i| s.iall_to_allv_in_place(i, &COUNTS)),
    scoped!("Scope::iscan_in_place", BEHIND, |s, _d, i| s.iscan_in_place(i, Sum)),
    scoped!("Scope::iexscan_in_place", BEHIND, |s, _d, i| s.iexscan_in_place(i, Sum)),
    Call::new(&["Scope::igather", "Scope::igatherv", "Scope::ireduce"], rooted_in_a_scope),
    Call::new(&["Scope::igather_in_place", "Scope::igatherv_in_place"], gathered_in_place_in_a_scope),
    Call::new(&["Comm::barrier_init", "Persistent::wait"], |t| persistent(t, OTHERS, |w| w.barrier_init())),
    Call::new(&["Persistent::test"], |t| {
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
    Call::new(&["Comm::all_gather_init"], |t| persistent(t, OTHERS, |w| w.all_gather_init::<u64>(N))),
    Call::new(&["Comm::all_gatherv_init"], |t| persistent(t, OTHERS, |w| w.all_gatherv_init::<u64>(&COUNTS))),
    Call::new(&["Comm::reduce_init"], |t| persistent(t, ROOT, |w| w.reduce_init::<u64>(N, Sum, 0))),
    Call::new(&["Comm::all_reduce_init"], |t| persistent(t, OTHERS, |w| w.all_reduce_init::<u64>(N, Sum))),
    Call::new(&["Comm::reduce_scatter_init"], |t| persistent(t, OTHERS, |w| w.reduce_scatter_init::<u64>(N, Sum))),
    Call::new(&["Comm::reduce_scatterv_init"], |t| {
        persistent(t, OTHERS, |w| w.reduce_scatterv_init::<u64>(&COUNTS, Sum))
    }),
    Call::new(&["Comm::all_to_all_init"], |t| persistent(t, OTHERS, |w| w.all_to_all_init::<u64>(N))),
    Call::new(&["Comm::all_to_allv_init"], |t| persistent(t, OTHERS, |w| w.all_to_allv_init::<u64>(&COUNTS, &COUNTS))),
    Call::new(&["Comm::scan_init"], |t| persistent(t, BEHIND, |w| w.scan_init::<u64>(N, Sum))),
    Call::new(&["Comm::exscan_init"], |t| persistent(t, BEHIND, |w| w.exscan_init::<u64>(N, Sum))),
];

/// One that was prepared as all were there, and is started again and again.
fn persistent<T: Pod>(t: &Trial<'_>, ranks: &[usize], prepare: fn(&Comm) -> Result<Persistent<T>>) -> Outcome {
    let mut prepared = prepare(t.world)?;
    t.fails_on(
        ranks,
        || {
            prepared.start();
            // The second time its buffers are waited for, which others may still use after an error.
            prepared.wait().inspect_err(|_| drop(prepared.wait()))
        },
        |()| true,
    )
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
