//! Engines of ranks that are processes, here all in one, so that a test can do what each of them must not.

use std::sync::Arc;

use treepie_base::{Bytes, Error, Span};
use treepie_fabric::{Event, Fabric, Refused, Room, SHOWN, Why};

use crate::arena::CLAIMS;
use crate::registry::{ENTRIES, NONE};
use crate::{Arena, Shm};

fn opened(arena: &Arena) -> Arc<Arena> {
    Arc::new(Arena::open(arena.fd().try_clone_to_owned().unwrap()).unwrap())
}

fn world(ranks: u32) -> Vec<Shm> {
    let arena = Arena::create_for_processes(ranks).unwrap();
    (0..ranks).map(|rank| Shm::join(opened(&arena), rank).unwrap()).collect()
}

fn filled(byte: u8, len: usize) -> Span {
    Span::from(Bytes::from(vec![byte; len]))
}

fn refused(arena: Arc<Arena>) -> String {
    match Shm::join(arena, 0) {
        Err(Error::Engine(why)) => why,
        other => panic!("{:?}", other.err()),
    }
}

#[test]
fn threads_and_processes_do_not_join_each_others_worlds() {
    let threads = Arena::create(2).unwrap();
    assert!(refused(opened(&threads)).contains("the ranks of this world are threads"));
    let processes = Arc::new(Arena::create_for_processes(2).unwrap());
    assert!(refused(processes.clone()).contains("the ranks of this world are processes"));
    let rank = Shm::join(opened(&processes), 0).unwrap();
    assert!((rank.name(), rank.rank_is_process()) == ("shm", true));
    assert!(refused(opened(&processes)).contains("joined before"));
    let rank = Shm::join(Arc::new(threads), 1).unwrap();
    assert!((rank.name(), rank.rank_is_process()) == ("threads", false));
}

#[test]
fn stale_and_unknown_keys_are_refused() {
    let mut engines = world(3);
    let [a, b, c] = &mut engines[..] else { unreachable!() };
    let mut offered = filled(7, 1 << 20);
    let key = a.offer(1, &mut offered);
    let is_refused = |result| matches!(result, Err(Refused { error: Some(Error::Engine(_)), .. }));
    // Memory that is there and can be read: only the key is wrong.
    let address = offered.address().as_ptr().addr() as u64;
    assert!(is_refused(b.bulk_recv(0, address, 3, filled(1, 8))) && is_refused(c.bulk_recv(0, key, 3, filled(1, 8))));
    assert!(is_refused(b.bulk_recv(0, key, 3, filled(1, (1 << 20) + 1))));
    let invite = b.bulk_recv(0, key, 3, filled(1, 1 << 20)).unwrap().expect("it is long enough for two");
    assert!(c.bulk_send(1, 4, invite, filled(9, 1 << 20)).is_err());
    // The memory itself stays, but is no longer offered.
    offered.deregister();
    assert!(matches!(b.poll(), Some(Event::BulkFailed { slot: 3, sending: false, .. })));
    assert!(is_refused(b.bulk_recv(0, key, 3, filled(1, 8))));
}

#[test]
fn no_more_is_fetched_than_is_shown() {
    let mut engines = world(2);
    let data: Vec<u8> = (0..100).collect();
    for engine in &mut engines {
        let board = engine.board().unwrap();
        assert!(board.capacity(Room::Page) >= SHOWN && board.try_show(Room::Page, 32, &data));
        assert!(board.try_publish(Room::Page, 5));
    }
    let board = engines[0].board().unwrap();
    assert_eq!(board.about(1), Some(5));
    let mut got = [0; 10];
    assert!(board.fetch(1, Room::Page, 32, 90, &mut got) && got == data[90..]);
    for beyond in [91, 100, usize::MAX - 5, usize::MAX] {
        assert!(!board.fetch(1, Room::Page, 32, beyond, &mut got), "{beyond}");
    }
}

/// What is beyond is offered without a key, and goes in records.
#[test]
fn no_more_memory_is_offered_than_the_table_has() {
    let mut engines = world(2);
    let [a, b] = &mut engines[..] else { unreachable!() };
    let mut offered: Vec<Span> = (0..ENTRIES).map(|_| filled(7, 64)).collect();
    let keys: Vec<u64> = offered.iter_mut().map(|span| a.offer(1, span)).collect();
    assert!(!keys.contains(&NONE));
    let mut beyond = filled(7, 64);
    assert_eq!(a.offer(1, &mut beyond), NONE);
    assert!(b.bulk_recv(0, NONE, 3, filled(1, 64)).is_err());
    offered[5].deregister();
    assert_ne!(a.offer(1, &mut beyond), NONE);
}

/// Beyond them the receiver copies alone: it invites nobody.
#[test]
fn senders_help_with_no_more_transfers_than_there_are_claims() {
    let mut engines = world(2);
    let [a, b] = &mut engines[..] else { unreachable!() };
    let len = 1 << 20;
    let mut offered: Vec<Span> = (0..=CLAIMS).map(|_| filled(7, len)).collect();
    let invited = |(slot, span): (u32, &mut Span)| {
        let key = a.offer(1, span);
        b.bulk_recv(0, key, slot, filled(1, len)).expect("the key is good").is_some()
    };
    let invited: Vec<bool> = (0..).zip(&mut offered).map(invited).collect();
    assert_eq!(invited.iter().filter(|is_invited| **is_invited).count(), CLAIMS, "{invited:?}");
    assert!(!invited[CLAIMS]);
}

#[test]
fn boards_have_no_more_ranks_than_the_bound() {
    let has_board = |ranks| {
        let arena = Arc::new(Arena::create(ranks).unwrap());
        Shm::join(arena, 0).unwrap().board().is_some()
    };
    assert!(has_board(64) && !has_board(65));
}

#[test]
fn all_hear_why_the_board_was_closed_first() {
    for why in [Why::Lost(2), Why::After(0), Why::Differs] {
        let mut engines = world(3);
        let left = |engines: &mut Vec<Shm>| -> Vec<_> {
            engines.iter_mut().map(|engine| engine.board().unwrap().left()).collect()
        };
        assert_eq!(left(&mut engines), [None; 3]);
        engines[1].board().unwrap().leave(why);
        engines[0].board().unwrap().leave(Why::After(1));
        assert_eq!(left(&mut engines), [Some(why); 3]);
    }
}
