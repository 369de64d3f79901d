use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use treepie_base::{Sum, commutative};
use treepie_sim::costs::LogGP;
use treepie_sim::engine::{Options, run};
use treepie_topology::Network;

use super::*;

/// Numbers of operations are used again after 2^32 of them. What was given up under one is forgotten half-way, also if the
/// number there is one that nobody uses.
#[test]
fn what_was_given_up_is_forgotten_under_numbers_that_are_not_used() {
    let settings = LogGP { latency: 4.0, overhead: 1.0, gap: 1.0, per_byte: 0.001 }.into();
    let simulated = run(&Network::flat(2), &settings, &Options::default(), |fabric| {
        let world = Comm::world(fabric).checked();
        let panics = world.rank() == 0;
        let operator = commutative(move |a: u64, b: u64| {
            if panics {
                resume_unwind(Box::new("the operator panics"));
            }
            a + b
        });
        let panicked = catch_unwind(AssertUnwindSafe(|| world.all_reduce(&[1u64], operator))).is_err();
        assert_eq!(panicked, panics);
        world.inner.instances.set((1 << 31) - 4);
        for _ in 0..4 {
            let result = if panics { world.dup().map(drop) } else { world.create(&[0]).map(drop) };
            assert!(matches!(result, Err(Error::CallsDiffer { .. })), "{result:?}");
        }
        assert_eq!(world.inner.instances.get(), (1 << 31) + 4);
        world.inner.instances.set(0);
        world.all_reduce(&[1u64], Sum)
    });
    assert_eq!(simulated.expect("it can be simulated").into_results(), [Ok(vec![2]), Ok(vec![2])]);
}

/// At the last number of an operation, and past it: messages and runs of protocols, under way at the same time.
#[test]
fn numbers_of_operations_begin_again_after_the_last() {
    let settings = LogGP { latency: 4.0, overhead: 1.0, gap: 1.0, per_byte: 0.001 }.into();
    let simulated = run(&Network::flat(3), &settings, &Options::default(), |fabric| {
        let world = Comm::world(fabric);
        for comm in [world.clone(), world.checked(), world.dup()?] {
            comm.inner.instances.set(u32::MAX - 3);
            let sums: Result<Vec<_>> = (0..8u64).map(|i| comm.iall_reduce(vec![i], Sum)).collect();
            for (i, sum) in sums?.into_iter().enumerate() {
                assert_eq!(sum.wait()?, [3 * i as u64]);
            }
            assert!(comm.inner.instances.get() < 16);
            comm.inner.instances.set(u32::MAX - 1);
            for _ in 0..3 {
                assert_eq!(comm.split(0, 0)?.map(|all| all.size()), Some(3));
            }
            comm.barrier()?;
        }
        Result::Ok(())
    });
    assert_eq!(simulated.expect("it can be simulated").into_results(), [Ok(()), Ok(()), Ok(())]);
}

/// A rank whose call is refused leaves at once, and so does whoever hears of it: all others are told what it called.
#[test]
fn ranks_that_are_refused_and_leave_do_not_hide_why() {
    for ranks in 2..10 {
        for late in 0..4 {
            let settings = LogGP { latency: 40.0, overhead: 1.0, gap: 1.0, per_byte: 0.001 }.into();
            let simulated = run(&Network::flat(ranks), &settings, &Options::default(), |fabric| {
                let world = Comm::world(fabric).checked();
                if world.rank() > 0 && (world.rank() + late).is_multiple_of(3) {
                    world.compute(std::time::Duration::from_millis(1));
                }
                let root = if world.rank() == 1 { ranks as usize } else { 0 };
                let result = world.bcast(&mut [0u64], root);
                // The world ends here.
                result.map_err(|error| (world.rank(), error))
            });
            for result in simulated.expect("it can be simulated").into_results() {
                let (rank, error) = result.expect_err("it is refused");
                let Error::CallsDiffer { first, second, calls } = &error else {
                    assert!(rank == 1 && matches!(error, Error::BadRank { .. }), "rank {rank} of {ranks}: {error}");
                    continue;
                };
                assert!([*first, *second].contains(&1), "rank {rank} of {ranks}: {error}");
                assert!(calls[usize::from(*second == 1)].ends_with("which is refused there"), "{error}");
            }
        }
    }
}

/// The same without a refusal: calls that differ, begun beside the program by a rank that leaves.
#[test]
fn ranks_that_leave_before_the_end_of_a_comparison_are_told_apart() {
    for same in [true, false] {
        let settings = LogGP { latency: 40.0, overhead: 1.0, gap: 1.0, per_byte: 0.001 }.into();
        let simulated = run(&Network::flat(5), &settings, &Options::default(), |fabric| {
            let world = Comm::world(fabric).checked();
            match world.rank() {
                1 if same => world.iall_reduce(vec![1u64], Sum).map(std::mem::forget),
                1 => world.ibarrier().map(std::mem::forget),
                _ => world.iall_reduce(vec![1u64], Sum)?.wait().map(drop),
            }
        });
        for (rank, result) in simulated.expect("it can be simulated").into_results().into_iter().enumerate() {
            match result {
                Ok(()) => assert_eq!(rank, 1),
                Err(Error::PeerLost { rank: 1 }) => assert!(same),
                Err(Error::CallsDiffer { .. }) => assert!(!same),
                Err(error) => panic!("rank {rank}: {error}"),
            }
        }
    }
}
