use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use treepie_base::{Sum, commutative};
use treepie_sim::costs::LogGP;
use treepie_sim::engine::{Options, run};
use treepie_topology::Network;

use super::*;

/// Instance numbers wrap around after 2^32 operations. Aborts recorded under a number are forgotten half-way, also if
/// that number is one that no operation uses.
#[test]
fn aborts_are_forgotten_at_unused_instance_numbers() {
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
        let panicked = catch_unwind(AssertUnwindSafe(|| world.allreduce(&[1u64], operator))).is_err();
        assert_eq!(panicked, panics);
        world.inner.instances.set((1 << 31) - 4);
        for _ in 0..4 {
            let result = if panics { world.dup().map(drop) } else { world.create(&[0]).map(drop) };
            assert!(matches!(result, Err(Error::CollectiveMismatch { .. })), "{result:?}");
        }
        assert_eq!(world.inner.instances.get(), (1 << 31) + 4);
        world.inner.instances.set(0);
        world.allreduce(&[1u64], Sum)
    });
    assert_eq!(simulated.expect("it can be simulated").into_results(), [Ok(vec![2]), Ok(vec![2])]);
}

/// Instance numbers around the wrap, with messages and protocol instances in flight at the same time.
#[test]
fn instance_numbers_wrap_around() {
    let settings = LogGP { latency: 4.0, overhead: 1.0, gap: 1.0, per_byte: 0.001 }.into();
    let simulated = run(&Network::flat(3), &settings, &Options::default(), |fabric| {
        let world = Comm::world(fabric);
        for comm in [world.clone(), world.checked(), world.dup()?] {
            comm.inner.instances.set(u32::MAX - 3);
            let sums: Result<Vec<_>> = (0..8u64).map(|i| comm.iallreduce(vec![i], Sum)).collect();
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

/// A rank whose call is refused finalizes at once, and so does each rank that learns of it: all others learn what it
/// called.
#[test]
fn ranks_that_finalize_after_a_refusal_report_the_mismatch() {
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
                // The world is dropped here.
                result.map_err(|error| (world.rank(), error))
            });
            for result in simulated.expect("it can be simulated").into_results() {
                let (rank, error) = result.expect_err("it is refused");
                let Error::CollectiveMismatch { first, second, calls } = &error else {
                    assert!(rank == 1 && matches!(error, Error::BadRank { .. }), "rank {rank} of {ranks}: {error}");
                    continue;
                };
                assert!([*first, *second].contains(&1), "rank {rank} of {ranks}: {error}");
                assert!(calls[usize::from(*second == 1)].ends_with("which is refused there"), "{error}");
            }
        }
    }
}

/// The same without a refusal: mismatched nonblocking calls, started by a rank that finalizes.
#[test]
fn ranks_that_finalize_during_a_comparison_are_distinguished() {
    for same in [true, false] {
        let settings = LogGP { latency: 40.0, overhead: 1.0, gap: 1.0, per_byte: 0.001 }.into();
        let simulated = run(&Network::flat(5), &settings, &Options::default(), |fabric| {
            let world = Comm::world(fabric).checked();
            match world.rank() {
                1 if same => world.iallreduce(vec![1u64], Sum).map(std::mem::forget),
                1 => world.ibarrier().map(std::mem::forget),
                _ => world.iallreduce(vec![1u64], Sum)?.wait().map(drop),
            }
        });
        for (rank, result) in simulated.expect("it can be simulated").into_results().into_iter().enumerate() {
            match result {
                Ok(()) => assert_eq!(rank, 1),
                Err(Error::PeerLost { rank: 1 }) => assert!(same),
                Err(Error::CollectiveMismatch { .. }) => assert!(!same),
                Err(error) => panic!("rank {rank}: {error}"),
            }
        }
    }
}
