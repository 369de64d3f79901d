//! Endpoints in worlds whose shared segments belong to groups: rounds of all members, and ranks that close a segment or
//! leave, of which only their own group hears.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};

use treepie_base::{Error, Result};
use treepie_fabric::{AbortReason, CallSignature, Endpoint, SlotClass};
use treepie_shm::{Arena, Shm};

/// The results of a function on all ranks, each on a thread.
fn on_threads<R: Send>(ranks: u32, run: impl Fn(&mut Endpoint) -> R + Sync) -> Vec<R> {
    let arena = Arc::new(Arena::create(ranks).unwrap());
    std::thread::scope(|scope| {
        let start = |rank| {
            let (arena, run) = (arena.clone(), &run);
            scope.spawn(move || run(&mut Endpoint::new(Box::new(Shm::join(arena, rank).unwrap()))))
        };
        let threads: Vec<_> = (0..ranks).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// A round in which each member writes its world rank and reads those of all others.
fn exchange(endpoint: &mut Endpoint, class: SlotClass, round: u64) -> Result<()> {
    let rank = endpoint.rank();
    endpoint.begin_segment_op(0, round, CallSignature::new("allgather", 4, None), false);
    endpoint.wait_segment(|segment| segment.try_write(class, 0, &rank.to_ne_bytes()).then_some(()))?;
    endpoint.wait_segment(|segment| segment.try_publish(class, round).then_some(()))?;
    let members = members(endpoint);
    for (index, member) in (0..).zip(members).filter(|(_, member)| *member != rank) {
        assert_eq!(endpoint.wait_segment(|segment| segment.published_tag(index))?, round);
        let segment = endpoint.shared_segment().unwrap();
        assert_eq!(segment.read(index, class, 0, 4), member.to_ne_bytes());
    }
    Ok(())
}

fn members(endpoint: &mut Endpoint) -> Vec<u32> {
    endpoint.shared_segment().unwrap().members().to_vec()
}

#[test]
fn members_of_all_groups_exchange() {
    for ranks in [70, 130] {
        on_threads(ranks, |endpoint| {
            assert!(endpoint.world_segment().is_none());
            for round in 0..40 {
                let class = [SlotClass::Line, SlotClass::Page, SlotClass::Large][round as usize % 3];
                exchange(endpoint, class, round).unwrap();
            }
            // No rank leaves before others have read its last slot.
            endpoint.finalize();
        });
    }
}

/// The closing rank closes when all others of its group are about to wait for it, so that some of them are parked.
#[test]
fn only_the_group_hears_of_a_closed_segment() {
    let closing = 40;
    let started = AtomicU32::new(0);
    let all_have_seen = Barrier::new(70);
    let results = on_threads(70, |endpoint| {
        // A panic here would leave the others in the barrier below.
        let first = exchange(endpoint, SlotClass::Line, 1);
        started.fetch_add(1, Ordering::SeqCst);
        if endpoint.rank() == closing {
            while started.load(Ordering::SeqCst) < 70 {
                std::thread::yield_now();
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
            endpoint.close_segment(AbortReason::Unspecified);
        }
        let is_closing = endpoint.rank() == closing;
        let result = first.and_then(|()| if is_closing { Ok(()) } else { exchange(endpoint, SlotClass::Line, 2) });
        // A rank that has left would be lost.
        all_have_seen.wait();
        (endpoint.segment_groups()[endpoint.rank() as usize], result)
    });
    for (rank, (group, result)) in (0..).zip(results) {
        let aborted = Err(Error::Aborted { rank: closing as usize });
        let expected = if group == 0 || rank == closing { Ok(()) } else { aborted };
        assert_eq!((group, format!("{result:?}")), (rank / 35 * 35, format!("{expected:?}")), "rank {rank}");
    }
}

#[test]
fn a_rank_that_leaves_is_named_by_its_group() {
    let leaving = 69;
    let results = on_threads(70, |endpoint| match endpoint.rank() {
        rank if rank == leaving => Ok(()),
        // Those of the other group need nobody else.
        _ => exchange(endpoint, SlotClass::Page, 1),
    });
    for (rank, result) in (0..leaving).zip(results) {
        let expected = if rank < 35 { Ok(()) } else { Err(Error::PeerLost { rank: leaving as usize }) };
        // A rank may find that another one has found it and left.
        let has_left = |error: &Error| matches!(error, Error::PeerLost { rank } if *rank >= 35);
        match result {
            Err(error) if rank >= 35 => assert!(has_left(&error), "rank {rank}: {error}"),
            result => assert_eq!(format!("{result:?}"), format!("{expected:?}"), "rank {rank}"),
        }
    }
}
