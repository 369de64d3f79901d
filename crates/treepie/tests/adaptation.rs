//! Adaptive handles: choices follow links that become slower, on all ranks together.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::time::Duration;

use treepie::simulate::Settings;
use treepie::{Comm, Error, Max, Network, Operation, Result, Sum, launch_emulated, simulate};

/// More than fits into the window of a gateway.
const BYTES: usize = 256 << 10;

/// A broadcast of data that belongs to the call, which every rank verifies.
fn bcast(comm: &Comm, call: usize, root: usize) -> Result<()> {
    let value = |at: usize| (at * 31 + call) as u64;
    let mut data: Vec<u64> = vec![0; BYTES / 8];
    if comm.rank() == root {
        data.iter_mut().enumerate().for_each(|(at, word)| *word = value(at));
    }
    comm.bcast(&mut data, root)?;
    assert!(data.iter().enumerate().all(|(at, word)| *word == value(at)), "call {call} on rank {}", comm.rank());
    Ok(())
}

fn chosen(comm: &Comm) -> Result<String> {
    comm.chosen_algorithm(Operation::Bcast { root: 0 }, BYTES, 8)
}

/// What a rank sees after each call: the generation, the choice, and when the call began.
type History = Vec<(u32, String, Duration)>;

fn run_broadcasts(world: &Comm, calls: usize) -> Result<History> {
    (0..calls)
        .map(|call| {
            let begin = world.now();
            bcast(world, call, 0)?;
            Ok((world.generation(), chosen(world)?, begin))
        })
        .collect()
}

#[test]
fn a_link_slowed_in_mid_run_changes_choices_within_fifty_collectives() {
    // A call takes at least 16 ms, so at most 30 are over when the link becomes slower.
    const SLOW_AFTER: Duration = Duration::from_millis(480);
    let links = "clusters:4x1,wan=2ms/16MBps,lan=20us/200MBps,slow:0-2=4@0.48s";
    let histories = launch_emulated(links, |world| run_broadcasts(&world.adaptive()?, 30 + 51)).unwrap();
    let slow = histories[0].iter().position(|(_, _, begin)| *begin >= SLOW_AFTER).unwrap();
    assert!(slow <= 30, "{slow} calls before the link is slower");
    for (call, first) in histories[0].iter().enumerate() {
        for other in &histories[1..] {
            assert_eq!((first.0, &first.1), (other[call].0, &other[call].1), "ranks choose differently in call {call}");
        }
    }
    let (before, after) = (&histories[0][0], &histories[0][slow + 50]);
    assert!(after.0 > before.0, "no change from call {slow} on");
    assert_ne!(before.1, after.1, "the choice is the same");
}

/// The generation and the factor of a link on each rank, if the profile says that bytes take `factor` times what they
/// do.
fn emulated(links: &str, factor: f64, body: impl Fn(&Comm) -> Result<()> + Sync) -> Vec<(u32, f64)> {
    let result = launch_emulated(links, |world| {
        let profile = world.profile().scaled(1.0, factor);
        let world = world.with_profile(Rc::new(profile)).adaptive()?;
        body(&world)?;
        Ok((world.generation(), world.adapted().profile().level(1).factors(0, 1).1))
    });
    result.unwrap()
}

fn all_operations(world: &Comm) -> Result<()> {
    let (rank, size) = (world.rank() as u64, world.size() as u64);
    for call in 0..10 {
        bcast(world, call, call % world.size())?;
        let values = vec![rank; BYTES / 8];
        assert!(world.allreduce(&values, Sum)?.iter().all(|sum| *sum == size * (size - 1) / 2));
        assert_eq!(world.allgather(&[rank + call as u64])?, (0..size).map(|r| r + call as u64).collect::<Vec<_>>());
        let mut block = vec![0; 3];
        world.reduce_scatter_block(&vec![rank; 3 * world.size()], &mut block, Max)?;
        assert_eq!(block, [size - 1; 3]);
        let mut blocks = vec![rank; 4 * world.size()];
        world.reduce_scatter_block_in_place(&mut blocks, Sum)?;
        assert_eq!(blocks[..4], [size * (size - 1) / 2; 4]);
        let mut into = vec![0; world.size()];
        world.alltoall(&vec![rank; world.size()], &mut into)?;
        assert_eq!(into, (0..size).collect::<Vec<_>>());
        let request = world.iallreduce(vec![rank], Sum)?;
        world.barrier()?;
        assert_eq!(request.wait()?, [size * (size - 1) / 2]);
        let dup = world.dup()?;
        assert_eq!(dup.allreduce_one(1, Sum)?, world.size());
    }
    Ok(())
}

#[test]
fn results_are_right_where_links_are_as_predicted() {
    for links in ["clusters:4x1,wan=1ms/50MBps,lan=20us/200MBps", "clusters:2x2,wan=1ms/50MBps,lan=20us/200MBps"] {
        let seen = emulated(links, 1.0, all_operations);
        assert!(seen.iter().all(|other| *other == seen[0]), "{seen:?}");
        println!("{links}: {:?}", seen[0]);
    }
    // Without noise nothing changes, either.
    let network: Network = "clusters:2x2".parse().unwrap();
    let settings = Settings::for_network(&network).unwrap();
    let simulated = simulate(&network, &settings, |world| {
        let world = world.adaptive()?;
        all_operations(&world)?;
        // Long enough for a rendezvous.
        for _ in 0..40 {
            world.bcast(&mut vec![0_u8; 1 << 20], 0)?;
        }
        Ok((world.is_adaptive(), world.generation()))
    });
    assert_eq!(simulated.unwrap().into_results(), [(true, 0); 4]);
}

#[test]
fn links_that_take_longer_than_predicted_are_found() {
    let links = "clusters:4x1,wan=2ms/32MBps,lan=20us/200MBps";
    let seen = emulated(links, 0.25, |world| run_broadcasts(world, 60).map(drop));
    let (generation, factor) = seen[0];
    assert!(generation > 0 && factor > 2.5, "{seen:?}");
    assert!(seen.iter().all(|other| *other == seen[0]), "{seen:?}");
}

#[test]
fn links_that_coordinators_share_are_found_too() {
    let links = "clusters:2x2,wan=2ms/32MBps,lan=20us/200MBps";
    emulated(links, 0.25, |world| {
        let world = world.with_algorithm("allreduce/hierarchical:coordinators=2")?.adaptive()?;
        let (rank, size) = (world.rank() as u64, world.size() as u64);
        for _ in 0..40 {
            let sums = world.allreduce(&vec![rank; BYTES / 2], Sum)?;
            assert!(sums.iter().all(|sum| *sum == size * (size - 1) / 2));
        }
        let factor = world.adapted().profile().level(1).factors(0, 1).1;
        assert!(world.generation() > 0 && factor > 1.5, "generation {}, {factor}", world.generation());
        Ok(())
    });
}

/// A call that fails on all ranks, or at least on rank 1, whose call is another.
type FailingCall = fn(&Comm) -> Result<()>;

fn refused_bcast(world: &Comm) -> Result<()> {
    world.bcast(&mut vec![0_u64; BYTES / 8], if world.rank() == 1 { 9 } else { 0 })
}

fn refused_gather_of_objects(world: &Comm) -> Result<()> {
    world.gather_objects(&1_u64, if world.rank() == 1 { 9 } else { 0 }).map(drop)
}

fn missing_object(world: &Comm) -> Result<()> {
    world.bcast_object(None::<u64>, 1).map(drop)
}

fn nonblocking_bcast(world: &Comm) -> Result<()> {
    match world.rank() {
        1 => world.ibcast(vec![0_u64; BYTES / 8], 0)?.wait().map(drop),
        _ => world.bcast(&mut vec![0_u64; BYTES / 8], 0),
    }
}

#[test]
fn a_call_refused_where_choices_change_does_not_part_the_ranks() {
    // The number of calls before, and the generation afterwards: in checked mode ranks know before the generation
    // begins that their calls differ.
    let cases: [(bool, FailingCall, usize, u32); 7] = [
        (false, refused_bcast, 16, 1),
        (false, refused_gather_of_objects, 16, 1),
        (false, refused_gather_of_objects, 15, 1),
        (false, missing_object, 15, 1),
        (true, refused_bcast, 8, 0),
        (true, refused_gather_of_objects, 8, 0),
        (true, nonblocking_bcast, 8, 0),
    ];
    for (case, (checked, failing_call, changes_at, generation)) in cases.into_iter().enumerate() {
        let seen = emulated("clusters:4x1,wan=2ms/16MBps,lan=20us/200MBps,slow:0-2=4@0s", 1.0, |world| {
            let world = if checked { world.checked().adaptive()? } else { world.clone() };
            let before = chosen(&world)?;
            (0..changes_at).try_for_each(|call| bcast(&world, call, 0))?;
            assert_eq!((world.generation(), chosen(&world)?), (0, before.clone()));
            let refused = failing_call(&world);
            assert!(refused.is_err() || world.rank() != 1);
            assert_eq!((world.generation(), chosen(&world)? != before), (generation, generation > 0), "case {case}");
            // The next one is nonblocking.
            for value in 1..3 {
                let data = vec![if world.rank() == 0 { value } else { 0 }; BYTES / 8];
                assert!(world.ibcast(data, 0)?.wait()?.iter().all(|word| *word == value));
            }
            (0..20).try_for_each(|call| bcast(&world, call, 0))?;
            assert_ne!(chosen(&world)?, before);
            Ok(())
        });
        assert!(seen.iter().all(|other| *other == seen[0]), "{seen:?}");
    }
}

#[test]
fn handles_of_one_machine_and_of_one_rank_stay_as_they_are() {
    let program = |world: Comm| {
        let world = world.adaptive()?;
        all_operations(&world)?;
        Ok((world.is_adaptive(), world.generation()))
    };
    for ranks in [1, 3] {
        assert_eq!(treepie::launch(ranks, program).unwrap(), vec![(false, 0); ranks]);
    }
    // A rank of clusters, too, has no link if it is alone.
    let emulated = launch_emulated("clusters:1x1", |world| program(world.split(world.rank() as u32, 0)?.unwrap()));
    assert_eq!(emulated.unwrap(), [(false, 0)]);
}

#[test]
fn a_rank_that_fails_ends_the_wait_for_an_announcement() {
    // Announcements are in flight in calls 8 to 16.
    for last in [7, 8, 12, 15, 16, 17] {
        let ended = launch_emulated("clusters:4x1,wan=200us/50MBps,lan=20us/200MBps", |world| {
            let world = world.adaptive()?;
            let data = [0_u64; 4];
            for call in 0..64 {
                if world.rank() == 2 && call == last {
                    return Err("it ends".into());
                }
                if world.allreduce(&data, Sum).is_err() {
                    // Later ones end, too: those that announce, those that wait for an announcement, and the rest.
                    return match (0..40).all(|_| world.allreduce(&data, Sum).is_err()) {
                        true => Ok(()),
                        false => Err(Error::Engine("a call succeeds without a rank".to_owned())),
                    };
                }
            }
            Err(Error::Engine("no call has failed".to_owned()))
        });
        assert_eq!(ended.unwrap_err().to_string(), "rank 2: it ends", "after call {last}");
    }
}

/// All 64 operations fail; then the rank tells rank 0, which has failed before and lives on until it knows.
fn fail_all_and_tell_rank_0(world: &Comm, adaptive: &Comm, others: &[usize]) -> Result<()> {
    for call in 0..64 {
        if adaptive.allreduce(&[0_u64; 4], Sum).is_ok() {
            return Err(Error::Engine(format!("call {call} succeeds without rank 0")));
        }
    }
    if world.rank() == 0 {
        for other in others {
            world.recv_vec::<u8>(*other, 1)?;
        }
        return Ok(());
    }
    world.send(&[0_u8], 0, 1)
}

#[test]
fn others_do_not_wait_for_an_announcement_that_a_lost_rank_prevents() {
    let ended = launch_emulated("clusters:4x1,wan=200us/50MBps,lan=20us/200MBps", |world| {
        let adaptive = world.adaptive()?;
        for _ in 0..8 {
            adaptive.allreduce(&[0_u64; 4], Sum)?;
        }
        if world.rank() == 2 {
            return Err("it ends".into());
        }
        // Rank 0 cannot take reports, as one of those who may send them is lost.
        let lost = world.recv_vec::<u8>(2, 1).map(drop);
        assert_eq!(lost, Err(Error::PeerLost { rank: 2 }));
        fail_all_and_tell_rank_0(&world, &adaptive, &[1, 3])
    });
    assert_eq!(ended.unwrap_err().to_string(), "rank 2: it ends");
}

#[test]
fn others_do_not_wait_for_an_announcement_that_a_panic_prevents() {
    let network: Network = "clusters:4x1".parse().unwrap();
    let simulated = simulate(&network, &Settings::for_network(&network).unwrap(), |world| {
        let (other, adaptive, me) = (world.dup()?, world.adaptive()?, world.rank());
        for _ in 0..8 {
            adaptive.allreduce(&[0_u64; 4], Sum)?;
        }
        let operator = treepie::commutative(move |a: u64, b: u64| {
            if me == 0 {
                resume_unwind(Box::new("the operator panics"));
            }
            a + b
        });
        let request = other.ireduce(vec![1_u64], operator, 0)?;
        if me == 0 {
            // Its operands have arrived when rank 0 looks for reports.
            world.compute(Duration::from_secs(1));
            let call = AssertUnwindSafe(|| adaptive.allreduce(&[0_u64; 4], Sum));
            assert!(catch_unwind(call).is_err());
        }
        drop(request);
        fail_all_and_tell_rank_0(&world, &adaptive, &[1, 2, 3])
    });
    simulated.unwrap();
}
