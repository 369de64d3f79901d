//! Adaptive handles: choices follow links that become slower, on all ranks together.

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
fn a_call_refused_where_choices_change_does_not_part_the_ranks() {
    // A rank refuses the operation at which the generation begins, and the next one is nonblocking.
    for (checked, changes_at) in [(false, 16), (true, 8)] {
        let seen = emulated("clusters:4x1,wan=2ms/16MBps,lan=20us/200MBps,slow:0-2=4@0s", 1.0, |world| {
            let world = if checked { world.checked().adaptive()? } else { world.clone() };
            let before = chosen(&world)?;
            (0..changes_at).try_for_each(|call| bcast(&world, call, 0))?;
            assert_eq!((world.generation(), chosen(&world)?), (0, before.clone()));
            let root = if world.rank() == 1 { 9 } else { 0 };
            let refused = world.bcast(&mut vec![0_u64; BYTES / 8], root);
            assert!(refused.is_err() || world.rank() != 1);
            assert_eq!(world.generation(), 1);
            assert_ne!(chosen(&world)?, before);
            for value in 1..3 {
                let data = vec![if world.rank() == 0 { value } else { 0 }; BYTES / 8];
                assert!(world.ibcast(data, 0)?.wait()?.iter().all(|word| *word == value));
            }
            (0..20).try_for_each(|call| bcast(&world, call, 0))
        });
        assert!(seen.iter().all(|other| *other == seen[0]), "{seen:?}");
    }
}

#[test]
fn handles_of_one_machine_and_of_one_rank_stay_as_they_are() {
    let adaptive = treepie::launch(3, |world| {
        let world = world.adaptive()?;
        all_operations(&world)?;
        Ok((world.is_adaptive(), world.generation()))
    });
    assert_eq!(adaptive.unwrap(), [(false, 0); 3]);
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
