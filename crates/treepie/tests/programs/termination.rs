//! Ends of ranks: deaths, deadlocks, panics, and handles that outlive them.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use treepie::Error;
use treepie::prelude::*;
use treepie::simulate::{Noise, Settings};

use crate::results::{sums, sums_reference};
use crate::{flat, launch, ok, plain, simulate};

pub(crate) fn dying(rank: u32, at: f64) -> Settings {
    Settings { noise: Noise { failures: vec![(rank, at)], ..Noise::default() }, ..plain() }
}

#[test]
fn waiting_for_a_rank_that_dies_is_an_error() {
    let simulated = simulate(&flat(4), &dying(2, 50.0), |world| {
        if world.rank() == 2 {
            world.send(&[5u8], 1, 0)?;
            world.compute(Duration::from_micros(100));
            world.send(&[6u8], 1, 0)?;
            return world.barrier().map(|()| 0);
        }
        // Messages sent before its death arrive.
        let early = if world.rank() == 1 { world.recv_vec::<u8>(2, 0)?.0[0] } else { 5 };
        assert_eq!(early, 5);
        let (late, _) = world.recv_vec::<u8>(2, 0)?;
        Ok(late[0])
    });
    let simulated = simulated.expect("the others go on");
    assert_eq!(simulated.failed_ranks(), [2]);
    for rank in [0, 1, 3] {
        assert_eq!(simulated.results[rank], Some(Err(Error::PeerLost { rank: 2 })), "rank {rank}");
    }
    assert!((50.0..60.0).contains(&simulated.micros()), "{}", simulated.micros());
}

#[test]
fn a_death_returns_borrowed_buffers() {
    // Long messages in all states, with and without scopes, at all times.
    for at in (0..200).map(|tenth| f64::from(tenth) * 5.0) {
        for dead in 0..3 {
            let simulated = simulate(&flat(3), &dying(dead, at), |world| {
                let (me, size) = (world.rank(), world.size());
                let data = vec![me as u64; 20_000];
                let (mut theirs, mut more) = (vec![0u64; 20_000], vec![0u64; 10]);
                world.scope(|scope| {
                    let _ = scope.irecv(&mut theirs, (me + 2) % size, 0)?;
                    let _ = scope.irecv(&mut more, (me + 1) % size, 1)?;
                    let _ = scope.isend(&data, (me + 1) % size, 0)?;
                    let _ = scope.issend(&data[..10], (me + 2) % size, 1)?;
                    Ok(())
                })?;
                assert!(
                    theirs.iter().all(|value| *value == ((me + 2) % size) as u64)
                        && more[0] == ((me + 1) % size) as u64
                );
                // Rank 0 receives first to avoid a deadlock.
                let send = || world.send(&data, (me + 1) % size, 2);
                let receive = || world.recv_vec::<u64>((me + 2) % size, 2).map(drop);
                if me == 0 { receive().and_then(|()| send()) } else { send().and_then(|()| receive()) }
            });
            let simulated = simulated.unwrap_or_else(|error| panic!("{dead} at {at}: {error}"));
            let died = simulated.failed_ranks();
            // Others fail only because of it, or because of ranks that waited for it.
            let lost = |result: &Option<_>| matches!(result, Some(Err(Error::PeerLost { .. })));
            let (ok, lost) = (Some(Ok(())), simulated.results.iter().filter(|result| lost(result)).count());
            let fine = simulated.results.iter().filter(|result| **result == ok).count();
            assert_eq!((died.len() + lost + fine, died.is_empty() || died == [dead]), (3, true), "{dead} at {at}");
            assert!(lost == 0 || !died.is_empty(), "{dead} at {at}");
        }
    }
}

#[test]
fn a_deadlock_names_the_waiting_ranks() {
    let error = simulate(&flat(4), &plain(), |world| match world.rank() {
        0 => world.recv_vec::<u8>(1, 7).map(drop),
        1 => world.ssend(&[1u8], 2, 9),
        2 => world.recv_vec::<u8>(ANY_SOURCE, 8).map(drop),
        _ => Ok(()),
    });
    let text = error.map(drop).unwrap_err().to_string();
    assert!(text.starts_with("deadlock: 3 of 4 ranks wait forever: rank 0 in recv from rank 1, tag 7"), "{text}");
    assert!(
        text.contains("rank 1 in ssend to rank 2, tag 9") && text.contains("rank 2 in recv from any rank"),
        "{text}"
    );
    let all = simulate(&flat(30), &plain(), |world| {
        if world.rank() == 0 { world.recv_vec::<u8>(1, 0).map(drop) } else { world.barrier() }
    });
    let text = all.map(drop).unwrap_err().to_string();
    assert!(text.contains("30 of 30 ranks") && text.ends_with("and 22 more"), "{text}");
    assert!(text.contains("; rank 3 in recv from rank 1"), "the barrier waits for a message: {text}");
}

#[test]
fn a_deadlock_returns_borrowed_buffers() {
    let error = simulate(&flat(2), &plain(), |world| {
        let (long, mut into) = (vec![1u8; 100_000], vec![0u8; 10]);
        world.scope(|scope| {
            let _ = scope.isend(&long, 1 - world.rank(), 0)?;
            let _ = scope.irecv(&mut into, 1 - world.rank(), 1)?;
            Ok(())
        })
    });
    assert!(error.map(drop).unwrap_err().to_string().starts_with("deadlock: 2 of 2"));
}

#[test]
fn waiting_for_a_rank_that_left_is_an_error() {
    let simulated = simulate(&flat(3), &plain(), |world| match world.rank() {
        0 => world.recv_vec::<u8>(1, 0).map(drop),
        1 => Ok(()),
        // Polls meanwhile.
        _ => {
            let mut request = world.irecv_vec::<u8>(1, 0)?;
            loop {
                if let Some(result) = request.test() {
                    return result.map(drop);
                }
            }
        }
    });
    let results = simulated.expect("it ends").into_results();
    let lost = Err(Error::PeerLost { rank: 1 });
    assert_eq!(results, [lost.clone(), Ok(()), lost]);
}

#[test]
fn a_panic_resumes_and_the_others_get_an_error() {
    struct Talks<'a>(&'a Comm);
    impl Drop for Talks<'_> {
        // No peer can reply while this rank unwinds.
        fn drop(&mut self) {
            assert!(self.0.recv_vec::<u8>(0, 5).is_err());
        }
    }
    let outcomes = RefCell::new(Vec::new());
    let run = || {
        simulate(&flat(5), &plain(), |world| {
            if world.rank() == 3 {
                let _talks = Talks(&world);
                world.compute(Duration::from_micros(20));
                let _ = world.iprobe(0, 0);
                std::panic::resume_unwind(Box::new("rank 3 has had enough"));
            }
            let result = world.recv_vec::<u8>(3, 0).map(drop);
            outcomes.borrow_mut().push(result);
        })
    };
    let panic = catch_unwind(AssertUnwindSafe(run)).map(drop).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"rank 3 has had enough"));
    assert_eq!(outcomes.into_inner(), vec![Err(Error::PeerLost { rank: 3 }); 4]);
}

#[test]
fn a_panic_in_a_scope_returns_borrowed_buffers() {
    let run = |world: Comm| {
        let (long, mut into) = (vec![1u8; 1_000_000], vec![0u8; 10]);
        if world.rank() == 1 {
            return world.recv_vec::<u8>(0, 9).map(drop);
        }
        world.scope(|scope| {
            let _ = scope.isend(&long, 1, 0)?;
            let _ = scope.irecv(&mut into, 1, 1)?;
            std::panic::resume_unwind(Box::new("in the middle"))
        })
    };
    let on_threads = catch_unwind(|| launch(2, run)).map(drop).unwrap_err();
    let simulated = catch_unwind(|| simulate(&flat(2), &plain(), run)).map(drop).unwrap_err();
    for panic in [on_threads, simulated] {
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"in the middle"));
    }
}

#[test]
fn handles_of_ended_or_other_ranks_are_unusable_and_harmless() {
    let stray: RefCell<Option<Comm>> = RefCell::new(None);
    let simulated = simulate(&flat(3), &plain(), |world| {
        match world.rank() {
            0 => *stray.borrow_mut() = Some(world.clone()),
            1 => {
                world.compute(Duration::from_micros(5));
                assert!(world.iprobe(0, 9).is_ok_and(|found| found.is_none()));
                let of_another = stray.borrow().clone().expect("rank 0 was first");
                assert_eq!(of_another.recv_vec::<u8>(2, 0).unwrap_err(), Error::PeerLost { rank: 2 });
                // A simulation inside a simulated rank is a separate world.
                let inner = simulate(&flat(4), &plain(), |inner| {
                    assert!(world.recv_vec::<u8>(2, 0).is_err(), "a handle of the outer rank");
                    sums(&inner)
                });
                assert_eq!(ok(inner.expect("it runs")), sums_reference(4));
            }
            _ => {}
        }
        world
    });
    let worlds = simulated.expect("it ends").into_results();
    for world in &worlds {
        assert!(world.recv_vec::<u8>(ANY_SOURCE, 0).is_err(), "its world is finalized");
        assert!(world.barrier().is_err());
    }
}

/// Rank 0 sends many messages, and rank 1 receives late; with `probes` it first receives one with another tag.
fn flooded(cap: u64, probes: bool) -> treepie::Result<()> {
    let settings = Settings { memory_cap: Some(cap), ..plain() };
    let simulated = simulate(&flat(2), &settings, |world| {
        for number in 0..100u8 {
            if world.rank() == 0 {
                world.send(&[number; 1000], 1, 0)?;
            }
        }
        if world.rank() == 0 {
            return world.send(&[1u8], 1, 1);
        }
        world.compute(Duration::from_millis(10));
        if probes {
            world.recv_vec::<u8>(0, 1)?;
        }
        (0..100).try_for_each(|_| world.recv_vec::<u8>(0, 0).map(drop))?;
        if probes { Ok(()) } else { world.recv_vec::<u8>(0, 1).map(drop) }
    })?;
    assert!(simulated.results.iter().all(|result| *result == Some(Ok(()))), "{:?}", simulated.results);
    Ok(())
}

/// Twice 600 bytes, of which the first are received before the others arrive.
#[test]
fn received_messages_do_not_count_as_unexpected() {
    let settings = Settings { memory_cap: Some(1000), ..plain() };
    let simulated = simulate(&flat(2), &settings, |world| {
        if world.rank() == 0 {
            world.send(&[1u8; 600], 1, 7)?;
            world.send(&[0u8], 1, 8)?;
            world.recv_vec::<u8>(1, 0)?;
            return world.send(&[2u8; 600], 1, 9);
        }
        world.recv(&mut [0u8], 0, 8)?;
        let mut into = [0u8; 600];
        world.recv(&mut into, 0, 7)?;
        world.send(&[0u8], 0, 0)?;
        world.compute(Duration::from_millis(1));
        world.recv(&mut into, 0, 9).map(drop)
    });
    assert_eq!(simulated.expect("it never holds more than 600").results, [Some(Ok(())), Some(Ok(()))]);
}

#[test]
fn a_rank_beyond_its_memory_cap_ends_the_simulation_and_is_named() {
    for probes in [false, true] {
        assert!(flooded(200_000, probes).is_ok());
        let error = flooded(50_000, probes).expect_err("it holds 100,000 bytes").to_string();
        assert!(error.starts_with("rank 1 ran out of memory at"), "{error}");
        assert!(error.ends_with("its cap is 50000"), "{error}");
    }
}

#[test]
fn any_source_means_the_ranks_of_the_communicator() {
    let simulated = simulate(&flat(4), &plain(), |world| {
        let part = world.split(world.rank() as u32 % 2, 0)?.expect("every rank has a color");
        let alone = world.split(world.rank() as u32, 0)?.expect("every rank has a color");
        let deadlock = alone.recv_vec::<u8>(ANY_SOURCE, 0);
        assert!(matches!(deadlock, Err(Error::Deadlock { .. })), "{deadlock:?}");
        match world.rank() {
            // It leaves, and the other rank of its communicator would wait forever.
            0 => Ok(()),
            2 => part.recv_vec::<u8>(ANY_SOURCE, 0).map(drop),
            // These stay longer.
            1 => part.recv_vec::<u8>(ANY_SOURCE, 0).map(drop),
            _ => {
                world.compute(Duration::from_millis(100));
                part.send(&[1u8], 0, 0)
            }
        }
    });
    let simulated = simulated.expect("it ends");
    assert_eq!(simulated.results, [Some(Ok(())), Some(Ok(())), Some(Err(Error::PeerLost { rank: 0 })), Some(Ok(()))]);
}
