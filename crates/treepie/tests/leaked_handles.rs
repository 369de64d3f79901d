//! Ranks that return with leaked handles (`mem::forget`) of their world, requests or windows: peers that wait for them
//! get an error.

use std::cell::RefCell;
use std::mem::forget;

use treepie::prelude::*;
use treepie::simulate::LogGP;
use treepie::{Error, Network, Result, launch, simulate};

/// The rank that leaks.
const VICTIM: usize = 1;

thread_local! {
    /// A handle that is dropped when the thread of the rank exits.
    static HELD_UNTIL_THREAD_EXIT: RefCell<Option<UsesWorldOnDrop>> = const { RefCell::new(None) };
}

/// Uses its world when it is dropped.
struct UsesWorldOnDrop(Comm);

impl Drop for UsesWorldOnDrop {
    fn drop(&mut self) {
        let world = &self.0;
        assert!(world.send(&[0u8; 4], 0, 5).is_err() && world.recv_vec::<u8>(0, 5).is_err(), "its world is finalized");
        assert!(world.recv_vec::<u8>(ANY_SOURCE, ANY_TAG).is_err() && world.ssend(&[0u8], 2, 5).is_err());
        assert!(world.irecv_vec::<u8>(2, 5).and_then(|receive| receive.wait()).is_err());
        assert!(world.barrier().is_err() && world.allreduce(&[1u64], Sum).is_err() && world.dup().is_err());
        assert!(world.exchange(vec![(0, vec![1u8])]).is_err() && world.window::<u64>(1).is_err());
    }
}

/// What ranks leak. All ranks create it together.
const FORGOTTEN: [&str; 9] =
    ["world", "clone", "dup", "split", "window", "request", "long request", "collective", "thread-local"];

fn forgets(world: Comm, what: &str) -> Result<()> {
    match what {
        "world" => forget(world),
        "clone" => forget(world.clone()),
        "dup" => forget(world.dup()?),
        "split" => forget(world.with_algorithm("split/distributed:sorters=2")?.split(0, [2, 1, 0][world.rank() % 3])?),
        "window" => forget(world.window::<u64>(10)?),
        "request" => {
            forget(world.irecv_vec::<u8>(0, 9)?);
            forget(world);
        }
        "long request" => {
            forget(world.isend(vec![1u8; 3 << 20], 0, 9)?);
            forget(world);
        }
        "collective" => {
            forget(world.iallreduce(vec![1u64], Sum)?);
            forget(world);
        }
        // Dropped after the rank's function has returned.
        _ => HELD_UNTIL_THREAD_EXIT.with(|held| *held.borrow_mut() = Some(UsesWorldOnDrop(world))),
    }
    Ok(())
}

fn rank_program(world: Comm, what: &str) -> Result<()> {
    if world.rank() == VICTIM {
        return forgets(world, what);
    }
    // Collective constructors: all ranks call them.
    match what {
        "dup" => drop(world.dup()?),
        "split" => drop(world.with_algorithm("split/distributed:sorters=2")?.split(0, [2, 1, 0][world.rank() % 3])?),
        "window" => drop(world.window::<u64>(10)?),
        _ => {}
    }
    world.recv_vec::<u8>(VICTIM, 5).map(drop)
}

fn expected() -> Vec<Result<()>> {
    vec![Err(Error::PeerLost { rank: VICTIM }), Ok(()), Err(Error::PeerLost { rank: VICTIM })]
}

#[test]
fn threads_that_leak_their_world_leave_it() {
    for what in FORGOTTEN {
        assert_eq!(launch(3, |world| Ok(rank_program(world, what))).unwrap(), expected(), "{what}");
    }
}

#[test]
fn simulated_ranks_that_leak_their_world_leave_it() {
    let machine = LogGP { latency: 10.0, overhead: 2.0, gap: 3.0, per_byte: 0.01 };
    // Simulated ranks have no threads of their own.
    for what in FORGOTTEN.into_iter().filter(|what| *what != "thread-local") {
        let simulated = simulate(&Network::flat(3), &machine.into(), |world| Ok(rank_program(world, what)));
        assert_eq!(simulated.unwrap().into_results(), expected(), "{what}");
    }
}

#[test]
fn a_panic_after_leaking_the_world_is_detected() {
    let outcome = std::panic::catch_unwind(|| {
        launch(2, |world| {
            if world.rank() == VICTIM {
                forget(world);
                std::panic::resume_unwind(Box::new("without its world"));
            }
            assert_eq!(world.recv_vec::<u8>(VICTIM, 5).unwrap_err(), Error::PeerLost { rank: VICTIM });
            Ok(())
        })
    });
    assert_eq!(outcome.unwrap_err().downcast_ref::<&str>(), Some(&"without its world"));
}

#[test]
fn messages_sent_before_arrive() {
    let results = launch(2, |world| {
        if world.rank() == VICTIM {
            world.send(&[7u8], 0, 5)?;
            let long = world.isend(vec![8u8; 3 << 20], 0, 5)?;
            forget((long, world));
            return Ok(0);
        }
        let (short, _) = world.recv_vec::<u8>(VICTIM, 5)?;
        let (long, _) = world.recv_vec::<u8>(VICTIM, 5)?;
        assert_eq!(world.recv_vec::<u8>(VICTIM, 5).unwrap_err(), Error::PeerLost { rank: VICTIM });
        Ok(usize::from(short[0]) + long.len())
    });
    assert_eq!(results.unwrap(), [7 + (3 << 20), 0]);
}
