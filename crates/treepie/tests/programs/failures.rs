//! Transfers in flight, and handles used by other ranks, when ranks end.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use treepie::prelude::*;
use treepie::simulate::{ClusterCosts, Handshake, LinkCosts, Noise, PLogP, ProgramResult, Settings, WanLink};
use treepie::{Error, Network, Result};

use crate::termination::dying;
use crate::{flat, launch, plain, simulate};

const LONG: usize = 100_000;

fn lost<T>(rank: usize) -> Result<T> {
    Err(Error::PeerLost { rank })
}

#[test]
fn no_bulk_transfer_while_a_panic_unwinds() {
    struct Moves<'a>(&'a Comm, &'a RefCell<Vec<Result<()>>>);
    impl Drop for Moves<'_> {
        fn drop(&mut self) {
            let mut into = vec![0u8; LONG];
            let got = self.0.recv(&mut into, 1, 0).map(drop);
            let sent = self.0.send(&into, 1, 0);
            self.1.borrow_mut().extend([got, sent]);
        }
    }
    // The RTS has arrived before the panic, or never arrives.
    for probes in [true, false] {
        let (inside, outside): (_, RefCell<Vec<Result<()>>>) = (RefCell::default(), RefCell::default());
        let run = || {
            simulate(&flat(2), &plain(), |world| {
                if world.rank() == 0 {
                    let _moves = Moves(&world, &inside);
                    world.compute(Duration::from_micros(100));
                    let _ = probes.then(|| world.iprobe(1, 9));
                    resume_unwind(Box::new("enough"));
                }
                let result = world.send(&vec![1u8; LONG], 0, 0);
                outside.borrow_mut().push(result);
            })
        };
        let panic = catch_unwind(AssertUnwindSafe(run)).map(drop).unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"enough"));
        assert_eq!((inside.take(), outside.take()), (vec![lost(1); 2], vec![lost(0)]), "{probes}");
    }
}

#[test]
fn a_sender_that_dies_at_any_time_is_lost_without_deadlock() {
    let mut distinct = Vec::new();
    for at in (0..150).map(|quarter| f64::from(quarter) * 0.25) {
        let simulated = simulate(&flat(2), &dying(0, at), |world| {
            if world.rank() == 0 { world.send(&vec![1u8; LONG], 1, 0) } else { world.recv_vec::<u8>(0, 0).map(drop) }
        });
        let results = simulated.unwrap_or_else(|error| panic!("dead at {at}: {error}")).results;
        if distinct.last() != Some(&results) {
            distinct.push(results);
        }
    }
    // It dies before it has sent the data, then before its send completes, then after.
    let ok = Some(Ok(()));
    assert_eq!(distinct, [[None, Some(lost(0))], [None, ok.clone()], [ok.clone(), ok]]);
}

#[test]
fn a_rank_that_dies_at_any_time_on_any_network_is_lost_without_deadlock() {
    let wide = WanLink { latency: 100.0, bandwidth: 1000.0 };
    let far: Settings = ClusterCosts::uniform(PLogP::from_latency_bandwidth(20.0, 50.0), wide, 2).into();
    let near = Settings::from(LinkCosts { ports: Some(1), ..LinkCosts::new(6.0, 0.002) });
    let handshake = Settings { handshake: Handshake::Latency { latency: 30.0, below: f64::INFINITY }, ..plain() };
    let all =
        [("torus:4", near, 1.5), ("clusters:2+2", far, 37.0), ("flat:4", plain(), 1.5), ("flat:4", handshake, 1.5)];
    for (text, settings, step) in all {
        let network: Network = text.parse().expect(text);
        for at in (0..120).map(|times| f64::from(times) * step) {
            for dead in 0..4 {
                let mut settings = settings.clone();
                settings.noise.failures = vec![(dead, at)];
                let simulated = simulate(&network, &settings, |world| {
                    let (me, size) = (world.rank(), world.size());
                    let others = |far: usize| (me + far) % size;
                    let mut going = Vec::new();
                    for far in 1..size {
                        going.push(match far {
                            1 => world.issend(vec![me as u8; 500], others(far), 0)?,
                            2 => world.isend(vec![me as u8; LONG], others(far), 0)?,
                            _ => world.isend(vec![me as u8; 500], others(far), 0)?,
                        });
                    }
                    for far in 1..size {
                        world.recv_vec::<u8>(others(far), 0)?;
                    }
                    going.into_iter().try_for_each(|send| send.wait().map(drop))
                });
                let simulated = simulated.unwrap_or_else(|error| panic!("{text}, {dead} dies at {at}: {error}"));
                assert!(
                    simulated.failed_ranks().is_empty() || simulated.failed_ranks() == [dead],
                    "{text} {dead} {at}"
                );
                let is_fine = simulated.results.iter().all(|result| *result == Some(Ok(())));
                assert!(is_fine || !simulated.failed_ranks().is_empty(), "{text} {dead} {at}: {:?}", simulated.results);
            }
        }
    }
}

#[test]
fn requests_that_outlive_their_rank_get_their_memory_back() {
    for turns in [0, 1, 20, 100, 600] {
        let simulated = simulate(&flat(2), &plain(), |world| {
            let sends = (world.rank() == 0).then(|| world.isend(vec![1u8; 1_000_000], 1, 0));
            let receives = (world.rank() == 1).then(|| world.irecv_vec::<u8>(0, 0));
            (0..turns).for_each(|_| {
                world.progress();
            });
            (world, sends.transpose().expect("begun"), receives.transpose().expect("begun"))
        });
        for (_, sends, receives) in simulated.expect("it ends").into_results() {
            // A rank that ends completes its sends; it rejects messages it has not received, and cancels its receives
            // unless their sender has left before.
            let sent = sends.map(|send| send.wait().map(drop));
            assert!(sent.is_none_or(|sent| sent == lost(1) || turns > 100 && sent == Ok(())), "after {turns}");
            let received = receives.map_or(lost(0), |receive| receive.wait().map(drop));
            let is_over = received == lost(0) || received == Err(Error::Cancelled);
            assert!(is_over || turns > 100 && received == Ok(()), "after {turns}: {received:?}");
        }
    }
}

#[test]
fn sends_that_never_start_do_not_hide_a_death() {
    struct Sends<'a>(&'a Comm);
    impl Drop for Sends<'_> {
        fn drop(&mut self) {
            (0..5).for_each(|_| drop(self.0.send(&[1u8; 100], 1, 5)));
        }
    }
    let wide = WanLink { latency: 1000.0, bandwidth: 1.0 };
    let mut settings: Settings = ClusterCosts::uniform(PLogP::from_latency_bandwidth(20.0, 50.0), wide, 2).into();
    settings.noise.failures = vec![(0, 20.5)];
    let network: Network = "clusters:2+2".parse().expect("a valid network");
    let outcomes = RefCell::new(Vec::new());
    let run = || {
        simulate(&network, &settings, |world| {
            if world.rank() == 0 {
                world.compute(Duration::from_micros(18));
                let _sends = Sends(&world);
                let _ = world.send(&[1u8; 100], 1, 5);
                resume_unwind(Box::new("enough"));
            }
            let result = world.recv_vec::<u8>(0, 0).map(drop);
            outcomes.borrow_mut().push(result);
        })
    };
    // It ends, whether it panicked or died first.
    let _ = catch_unwind(AssertUnwindSafe(run));
    assert_eq!(outcomes.into_inner(), vec![lost(0); 3]);
}

#[test]
fn a_caught_panic_does_not_affect_other_borrowed_buffers() {
    let run = |world: Comm| {
        if world.rank() == 1 {
            return world.recv_vec::<u8>(0, 9).map(drop);
        }
        let (mut a, mut b) = (vec![0u8; 10], vec![0u8; 10]);
        world.scope(|outer| {
            let request = outer.irecv(&mut a, 1, 0)?;
            let inner = || {
                world.scope(|inner| {
                    let _request = inner.irecv(&mut b, 1, 1)?;
                    resume_unwind(Box::new("inner")) as Result<()>
                })
            };
            assert!(catch_unwind(AssertUnwindSafe(inner)).is_err());
            request.wait().map(drop)
        })
    };
    let expected = [Err(Error::Cancelled), lost(0)];
    assert_eq!(launch(2, run).expect("threads"), expected);
    assert_eq!(simulate(&flat(2), &plain(), run).expect("simulated").into_results(), expected);
}

#[test]
fn the_named_rank_is_deterministic() {
    for _ in 0..20 {
        let left = simulate(&flat(8), &plain(), |world| {
            if world.rank() == 0 { world.recv_vec::<u8>(ANY_SOURCE, 0).map(drop) } else { Ok(()) }
        });
        assert_eq!(left.expect("it ends").results[0], Some(lost(1)));
        let deaths = (1..8).map(|rank| (rank, 50.0)).collect();
        let settings = Settings { noise: Noise { failures: deaths, ..Noise::default() }, ..plain() };
        let died = simulate(&flat(8), &settings, |world| {
            world.compute(Duration::from_micros(if world.rank() == 0 { 100 } else { 10 }));
            world.recv_vec::<u8>(ANY_SOURCE, 0).map(drop)
        });
        assert_eq!(died.expect("it ends").results[0], Some(lost(1)));
    }
}

#[test]
fn a_handle_used_by_another_rank_does_not_harm_its_owner() {
    let simulated = simulate(&flat(2), &plain(), |world| {
        let other = 1 - world.rank();
        if world.rank() == 0 {
            // One message that has arrived, a long one that has been announced, and one in progress.
            while world.iprobe(1, 3)?.is_none() || world.iprobe(1, 2)?.is_none() {}
            let inner = simulate(&flat(2), &plain(), |inner| {
                if inner.rank() == 0 {
                    assert_eq!(world.send(&[7u8], 1, 0), lost(1));
                    assert_eq!(world.send(&vec![7u8; LONG], 1, 0), lost(1));
                    assert_eq!(world.ssend(&[7u8], 1, 0), lost(1));
                    assert_eq!(world.recv_vec::<u8>(1, 2).map(drop), lost(1));
                    assert_eq!(world.recv(&mut [0u8], 1, 3).map(drop), lost(1));
                    assert_eq!(world.recv(&mut vec![0u8; LONG], 1, 2).map(drop), lost(1));
                    assert_eq!(world.recv_vec::<u8>(1, 8).map(drop), lost(1));
                    assert_eq!(world.irecv_vec::<u8>(1, 8).and_then(|request| request.wait()).map(drop), lost(1));
                    assert_eq!(world.iprobe(1, 8).map(drop), lost(1));
                    assert!(world.barrier().is_err() && world.allreduce(&[1u8], Sum).is_err());
                }
                inner.barrier()
            });
            assert_eq!(inner.expect("it runs").into_results(), [Ok(()), Ok(())]);
        } else {
            let long = world.isend(vec![2u8; LONG], 0, 2)?;
            world.send(&[3u8], 0, 3)?;
            long.wait()?;
        }
        if world.rank() == 0 {
            assert_eq!(world.recv_vec::<u8>(1, 2)?.0, vec![2u8; LONG]);
            assert_eq!(world.recv_vec::<u8>(1, 3)?.0, [3]);
        }
        world.send(&[8u8], other, 1)?;
        world.recv_vec::<u8>(other, 1).map(|(got, _)| got)
    });
    assert_eq!(simulated.expect("it ends").into_results(), [Ok(vec![8]), Ok(vec![8])]);
}

#[test]
fn a_rank_that_panics_after_its_death_has_died_once() {
    for at in [vec![(1, 50.0)], vec![(1, 50.0), (1, 90.0)], vec![(1, 90.0), (1, 50.0)]] {
        let settings = Settings { noise: Noise { failures: at.clone(), ..Noise::default() }, ..plain() };
        let simulated = simulate(&flat(2), &settings, |world| {
            if world.rank() == 1 {
                world.compute(Duration::from_micros(70));
                resume_unwind(Box::new("late"));
            }
            world.recv_vec::<u8>(1, 0).map(drop)
        });
        let simulated = simulated.expect("it ends");
        assert_eq!((simulated.failed_ranks(), simulated.end_times[1]), (vec![1], 50_000_000), "{at:?}");
        assert_eq!(simulated.results[0], Some(lost(1)));
        assert!(simulated.micros() < 60.0, "{}", simulated.micros());
    }
}

/// A master that receives from any source would wait for ever: other workers wait for it, and none has left.
#[test]
fn a_rank_that_returns_an_error_has_failed() {
    let run = |world: Comm| match world.rank() {
        0 => world.recv_vec::<u8>(ANY_SOURCE, 0).map(drop),
        2 => Err("the input of rank 2 is empty".into()),
        _ => world.recv_vec::<u8>(0, 1).map(drop),
    };
    let failed = Err("rank 2: the input of rank 2 is empty".to_owned());
    assert_eq!(treepie::launch(4, run).map_err(|error| error.to_string()), failed);
    let simulated = treepie::simulate(&flat(4), &plain(), run);
    assert_eq!(simulated.map(ProgramResult::into_results).map_err(|error| error.to_string()), failed);
}

/// It does not wait for the receiver of a message either, which waits for it.
#[test]
fn a_rank_that_returns_an_error_does_not_wait_for_receivers() {
    let run = |world: Comm| match world.rank() {
        0 => world.recv_vec::<u8>(1, 1).map(drop),
        _ => {
            let _pending = world.isend(vec![1u8; 10_000_000], 0, 0)?;
            Err(Error::Cancelled)
        }
    };
    let failed = Error::Rank { rank: 1, error: Box::new(Error::Cancelled) };
    assert_eq!(treepie::launch(2, run), Err(failed.clone()));
    assert_eq!(treepie::simulate(&flat(2), &plain(), run).map(drop), Err(failed));
}
