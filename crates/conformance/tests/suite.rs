//! Tests of the suite: what its runner reports of cases that fail, and what single cases rely on. They are not unit
//! tests, as the suite takes long to compile and would be compiled twice.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use treepie::{Comm, Error, Rank, Reduction};
use treepie_conformance::{Case, Failure, Sums, Verdict, numbers, run, sums};

fn passes(_: &Comm) -> Result<(), Failure> {
    Ok(())
}

fn fails_on_odd_ranks(comm: &Comm) -> Result<(), Failure> {
    if comm.rank() % 2 == 1 { Err(Failure::new("odd")) } else { Ok(()) }
}

fn leaves_rank_0_alone(comm: &Comm) -> Result<(), Failure> {
    match comm.rank() {
        0 => Ok(comm.recv_vec::<u8>(1, 0).map(drop)?),
        1 => Err(Failure::new("returns early")),
        _ => Ok(()),
    }
}

#[test]
fn every_rank_learns_who_failed_and_goes_on() {
    let cases = [
        Case::new("a", 1, passes),
        Case::new("b", 1, fails_on_odd_ranks),
        Case::new("c", 9, passes),
        Case::new("d", 1, passes),
    ];
    let summaries = treepie::launch(5, |world| Ok(run(&world, &cases, treepie_base::hang_limit())))
        .expect("threads can be started");
    for summary in summaries {
        let Verdict::Failed(failures) = &summary.entries[1].verdict else { panic!("{summary}") };
        let ranks: Vec<&str> = failures.iter().filter_map(|line| line.split(':').next()).collect();
        assert_eq!(ranks, ["rank 1", "rank 3"]);
        assert!(!summary.is_success());
        let text = "conformance on threads, 5 ranks: 2 passed, 1 failed, 1 not applicable";
        assert_eq!(summary.to_string(), text);
    }
}

#[test]
fn a_filter_has_several_words() {
    let case = Case::new("matching/of-tags", 1, passes);
    assert!(["", "of-t", "world/,match", "match,world/"].iter().all(|filter| case.is_chosen_by(filter)));
    assert!(["world/", "world/,tagged"].iter().all(|filter| !case.is_chosen_by(filter)));
    assert!(["!world/", "match,!world/"].iter().all(|filter| case.is_chosen_by(filter)));
    assert!(["!match", "match,!of-t"].iter().all(|filter| !case.is_chosen_by(filter)));
}

#[test]
fn no_rank_hangs_after_another_failed() {
    let cases = [Case::new("a", 2, leaves_rank_0_alone)];
    let run_it = || treepie::launch(3, |world| Ok(run(&world, &cases, Duration::from_millis(10))));
    assert!(std::panic::catch_unwind(run_it).is_err());
}

/// One rank is refused its call, and all leave as soon as they can: the others still get an error that names it.
#[test]
fn a_rank_that_is_refused_and_leaves_does_not_hide_why() {
    for ranks in [2, 3, 4, 7] {
        for round in 0..20 {
            let results = treepie::launch(ranks, |world| {
                let comm = world.checked();
                let root = if comm.rank() == 1 { ranks } else { 0 };
                Ok(comm.bcast(&mut [0u64], root))
            });
            for (rank, result) in results.expect("threads can be started").into_iter().enumerate() {
                let error = result.expect_err("no rank gets through");
                let is_right = match &error {
                    Error::CollectiveMismatch { first, second, .. } => rank != 1 && [*first, *second].contains(&1),
                    Error::BadRank { .. } => rank == 1,
                    _ => false,
                };
                assert!(is_right, "rank {rank} of {ranks}, round {round}: {error}");
            }
        }
    }
}

#[test]
fn there_are_enough_cases_and_each_has_its_own_name() {
    let cases = treepie_conformance::cases();
    let names: HashSet<&str> = cases.iter().map(|case| case.name).collect();
    assert_eq!(names.len(), cases.len());
    assert!(cases.len() >= 110, "{} cases", cases.len());
}

/// The sums of each rank, on the world and on a dup.
fn launch(ranks: usize, late: Rank) -> Vec<(Vec<Sums>, Vec<Sums>)> {
    let run = |world: Comm| Ok((sums(&world, late)?, sums(&world.dup()?, late)?));
    treepie::launch(ranks, run).expect("all operations succeed")
}

#[test]
fn sums_are_the_same_from_launch_to_launch() {
    for ranks in [2, 5, 8] {
        let first = launch(ranks, 0);
        assert_eq!(launch(ranks, ranks - 1), first, "{ranks} ranks");
    }
}

/// Checks the data: otherwise the test above could not fail.
#[test]
fn sums_depend_on_the_order_of_additions() {
    let data: Vec<Vec<f64>> = (0..5).map(|rank| numbers(rank, 101)).collect();
    let forwards = |i: usize| data.iter().fold(0.0, |sum, numbers| sum + numbers[i]);
    let backwards = |i: usize| data.iter().rev().fold(0.0, |sum, numbers| sum + numbers[i]);
    assert!((0..101).any(|i| forwards(i) != backwards(i)));
}

/// In the first long call of a world, ranks agree whether they can read each other's memory (CMA). A rank that has
/// finished that sends messages of the call while others have not.
#[test]
fn the_first_long_call_of_a_world_may_be_by_messages() {
    for world in 0..200 {
        let results = treepie::launch(3, |world| {
            let ring = world.with_algorithm("allgather/ring")?;
            Ok(ring.allgather(&vec![world.rank() as u64; 8192])?.len())
        });
        assert_eq!(results, Ok(vec![3 * 8192; 3]), "world {world}");
    }
}

/// An operator that panics on rank 0 without a message.
fn panics_on_rank_0(me: Rank) -> impl Reduction<u64> {
    treepie::commutative(move |a: u64, b: u64| {
        if me == 0 {
            resume_unwind(Box::new("the operator panics"));
        }
        a.wrapping_add(b)
    })
}

/// In the first long call of a world, a rank may run the operator of another operation, which panics there: the others
/// do not wait for it, and all stay in step.
#[test]
fn an_operator_may_panic_in_the_first_long_call_of_a_world() {
    for number in 0..200 {
        let results = treepie::launch(3, |world| {
            let me = world.rank();
            if me > 0 {
                world.recv_vec::<u8>(me - 1, 3)?;
            }
            let request =
                world.with_algorithm("allreduce/fan_in_fan_out")?.iallreduce(vec![1u64], panics_on_rank_0(me))?;
            let go_on = || if me < 2 { world.send(&[0u8], me + 1, 3) } else { Ok(()) };
            let long_call = || world.allreduce(&vec![1u64; 8192], treepie::Sum);
            // The operator panics in one of them on rank 0.
            let _ = catch_unwind(AssertUnwindSafe(go_on));
            let _ = catch_unwind(AssertUnwindSafe(long_call));
            let _ = catch_unwind(AssertUnwindSafe(|| request.wait()));
            // Ranks that entered this one at the shared segment before rank 0 closed it fail, and then all do.
            let _ = world.allreduce(&[1u8], treepie::Sum);
            world.allreduce(&[me, 1], treepie::Sum)
        });
        assert_eq!(results, Ok(vec![vec![3, 3]; 3]), "world {number}");
    }
}

/// A rank that is about to arrive at a barrier may run the operator of another operation, which panics there: the other
/// rank does not wait for it.
#[test]
fn an_operator_may_panic_before_a_rank_arrives_at_a_barrier() {
    for number in 0..200 {
        let results = treepie::launch(2, |world| {
            let me = world.rank();
            let request =
                world.with_algorithm("allreduce/fan_in_fan_out")?.iallreduce(vec![1u64], panics_on_rank_0(me))?;
            // The root does not wait for the other rank, and is a slot round ahead of it.
            let _ = catch_unwind(AssertUnwindSafe(|| world.bcast(&mut [1u8], 0)));
            let _ = catch_unwind(AssertUnwindSafe(|| world.barrier()));
            let _ = catch_unwind(AssertUnwindSafe(|| request.wait()));
            if me == 0 { world.recv_vec::<u8>(1, 3).map(drop) } else { world.send(&[0u8], 0, 3) }
        });
        assert_eq!(results, Ok(vec![(); 2]), "world {number}");
    }
}
