//! Communicators with distributed rank tables, where remote parts are read by messages: ranks that leave, abort, or are
//! late.

use std::time::Duration;

use treepie::{ANY_SOURCE, Comm, Error, SparseExchange, Sum};
use treepie_topology::Network;

use crate::termination::dying;
use crate::{plain, simulate};

/// Runs a body on ranks split in an order without a formula.
fn with_shared_table<R>(ranks: u32, sorters: u32, body: impl Fn(&Comm, &Comm) -> R) -> Vec<R> {
    let run = simulate(&Network::flat(ranks), &plain(), |world| {
        let algorithm = format!("split/distributed:sorters={sorters}");
        let part = world.with_algorithm(&algorithm).and_then(|world| world.split(0, world.rank() as i32 ^ 1));
        let part = part.expect("all take part").expect("every rank has a color");
        assert_eq!(part.rank_table_kind(), "shared table");
        body(&world, &part)
    });
    run.expect("no deadlock").into_results()
}

fn is_failure(error: &Option<Error>) -> bool {
    matches!(error, Some(Error::PeerLost { .. } | Error::Aborted { .. }))
}

#[test]
fn a_leave_is_detected_by_ranks_that_have_never_looked_it_up() {
    for algorithm in ["split/merge", "split/quick:sorters=2", "split/distributed:sorters=3"] {
        for sorters in 1..=4 {
            let errors = with_shared_table(6, sorters, |world, part| {
                if world.rank() == 1 {
                    None
                } else {
                    part.with_algorithm(algorithm).and_then(|part| part.split(0, 0)).err()
                }
            });
            assert!((0..6).all(|rank| rank == 1 || is_failure(&errors[rank])), "{algorithm}, {sorters}: {errors:?}");
        }
    }
}

#[test]
fn an_abort_is_detected_by_ranks_that_have_never_looked_it_up() {
    for id in ["exchange/nbx", "exchange/crystal", "exchange/pex", "exchange/auto"] {
        let errors = with_shared_table(8, 4, |_, part| {
            let to = if part.rank() == 5 { Some(99) } else { None };
            part.with_algorithm(id).and_then(|part| part.exchange(to.map(|to| (to, vec![1u8])))).err()
        });
        let refused = errors.iter().filter(|error| matches!(error, Some(Error::BadRank { .. }))).count();
        assert_eq!((refused, errors.iter().filter(|error| is_failure(error)).count()), (1, 7), "{id}: {errors:?}");
    }
}

#[test]
fn a_receive_from_any_source_ends_when_no_other_rank_is_left() {
    let errors =
        with_shared_table(
            5,
            4,
            |world, part| {
                if world.rank() == 0 { part.recv(&mut [0u8], ANY_SOURCE, 5).err() } else { None }
            },
        );
    assert!(is_failure(&errors[0]), "{errors:?}");
}

#[test]
fn finished_ranks_answer_lookups_of_late_ranks() {
    // Some ranks enter the last operation late and have to look others up.
    let sums = with_shared_table(8, 4, |world, part| {
        world.compute(Duration::from_micros(50 * world.rank() as u64));
        part.allreduce(&[1u64], Sum).map(|sum| sum[0])
    });
    assert_eq!(sums, vec![Ok(8); 8]);
}

#[test]
fn messages_are_not_overtaken_during_a_rank_lookup() {
    let wrong = with_shared_table(8, 4, |world, part| {
        let all = || (0..8).map(|to| (to, vec![1u8]));
        let mut wrong = 0;
        if world.rank() == 7 {
            let request = part.iexchange(all())?;
            (0..50u64).try_for_each(|i| world.send(&[i], 0, 3))?;
            request.wait()?;
        } else if world.rank() == 0 {
            // It sends nothing, so it knows no rank when messages arrive.
            let request = part.iexchange(Vec::<(usize, Vec<u8>)>::new())?;
            for i in 0..50u64 {
                let mut got = [0u64];
                world.recv(&mut got, 7, 3)?;
                wrong += u64::from(got[0] != i);
            }
            request.wait()?;
        } else {
            world.compute(Duration::from_micros(world.rank() as u64 * 3));
            part.iexchange(all())?.wait()?;
        }
        Ok::<u64, Error>(wrong)
    });
    assert_eq!(wrong, vec![Ok(0); 8]);
}

#[test]
fn a_failure_outside_the_communicator_is_no_loss() {
    // Rank 7 dies while four others, with a distributed table, communicate only with each other.
    let run = simulate(&Network::flat(8), &dying(7, 1000.0), |world| {
        let four = world.split((world.rank() < 4).then_some(0), 0)?;
        world.compute(Duration::from_millis(2));
        let Some(four) = four else { return Ok(0) };
        let part = four.with_algorithm("split/distributed:sorters=2")?.split(0, four.rank() as i32 ^ 1)?;
        let part = part.expect("every rank has a color");
        assert_eq!(part.rank_table_kind(), "shared table");
        part.send(&[1u8], (part.rank() + 1) % 4, 0)?;
        part.recv(&mut [0u8], ANY_SOURCE, 0)?;
        Ok::<usize, Error>(part.exchange((0..4).map(|to| (to, vec![1u8])))?.len())
    });
    let run = run.expect("no deadlock");
    let done: Vec<_> = run.results.into_iter().take(4).collect();
    assert!(done.iter().all(|done| matches!(done, Some(Ok(4)))), "{done:?}");
}

#[test]
fn a_rank_that_leaves_still_reports_its_rank() {
    let results = with_shared_table(8, 2, |world, part| {
        match world.rank() {
            5 => {
                part.send(&[1u8], 1, 4)?;
                // It cannot leave before this is received.
                std::mem::forget(world.isend(vec![0u8; 1 << 20], 2, 9)?);
            }
            0 => {
                let left = world.recv(&mut [0u8], 5, 1).err();
                assert_eq!(left, Some(Error::PeerLost { rank: 5 }));
                let status = part.recv(&mut [0u8], ANY_SOURCE, 4)?;
                for to in [1, 2, 3, 4, 6, 7] {
                    world.send(&[1u8], to, 5)?;
                }
                return Ok(Some((status.source, part.translate_rank(2, world)?)));
            }
            rank => {
                world.recv(&mut [0u8], 0, 5)?;
                if rank == 2 {
                    drop(world.recv_vec::<u8>(5, 9)?);
                }
            }
        }
        Ok::<_, Error>(None)
    });
    // Ranks 5 and 4 are swapped, and so are 3 and 2.
    assert_eq!(results[0], Ok(Some((4, Some(3)))), "{results:?}");
}
