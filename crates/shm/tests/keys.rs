//! What safe code can do with an engine that it drives itself: keys and invites that were made up, that are old, that are
//! another rank's; ranks joined twice. All of it is refused, and nobody's memory is read or written for it.

#![forbid(unsafe_code)]

use std::sync::Arc;

use treepie_base::{Bytes, Error, Span};
use treepie_fabric::{Event, Fabric, Head, Life, Refused};
use treepie_shm::{Arena, Shm};

const LONG: usize = 1 << 20;

fn world(ranks: u32) -> (Arc<Arena>, Vec<Shm>) {
    let arena = Arc::new(Arena::create(ranks).unwrap());
    let engines = (0..ranks).map(|rank| Shm::join(arena.clone(), rank).unwrap()).collect();
    (arena, engines)
}

fn filled(byte: u8, len: usize) -> Span {
    Span::from(Bytes::from(vec![byte; len]))
}

/// Why a transfer was refused; its memory is as it was.
fn why<T: std::fmt::Debug>(result: Result<T, Refused>, byte: u8) -> String {
    let Refused { span, error } = result.expect_err("it must be refused");
    assert!(span.as_slice().iter().all(|b| *b == byte));
    match error {
        Some(Error::Engine(why)) => why,
        other => panic!("refused because of {other:?}"),
    }
}

/// Polls until something is reported.
fn next<'a>(engine: &'a mut Shm, others: &mut [&mut Shm]) -> Event<'a> {
    for _ in 0..1000 {
        others.iter_mut().for_each(|other| assert!(other.poll().is_none(), "only one is told"));
        // What is borrowed in a loop cannot be returned from it; all of these are of the engine's bulk part.
        match engine.poll() {
            Some(Event::BulkReceived { slot, span, tell_sender }) => {
                return Event::BulkReceived { slot, span, tell_sender };
            }
            Some(Event::BulkFailed { slot, span, sending }) => return Event::BulkFailed { slot, span, sending },
            Some(Event::BulkSent { slot, span }) => return Event::BulkSent { slot, span },
            Some(other) => panic!("{other:?}"),
            None => {}
        }
    }
    panic!("nothing is reported");
}

#[test]
fn a_rank_is_joined_once() {
    let arena = Arc::new(Arena::create(2).unwrap());
    let first = Shm::join(arena.clone(), 0).unwrap();
    let again = |rank| match Shm::join(arena.clone(), rank) {
        Err(Error::Engine(why)) => why,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("rank {rank} was joined"),
    };
    assert!(again(0).contains("joined before"));
    assert!(again(2).contains("rank 2 cannot join a world of 2 ranks"));
    assert!(again(u32::MAX).contains("cannot join"));
    drop(first);
    // Its rings are as it left them.
    assert!(again(0).contains("joined before"));
    assert!(Shm::join(arena, 1).is_ok());
}

#[test]
fn offered_memory_is_moved() {
    let (_, mut engines) = world(2);
    let [a, b] = &mut engines[..] else { unreachable!() };
    for len in [0, 1, 4096, 40_000, 64 << 10, LONG, 3 * LONG + 5] {
        let mut offered = filled(7, len);
        let key = a.offer(1, &mut offered);
        let invite = b.bulk_recv(0, key, 3, filled(0, len)).unwrap();
        if let Some(invite) = invite {
            a.bulk_send(1, 4, invite, offered).unwrap();
        }
        match next(b, &mut [a]) {
            Event::BulkReceived { slot: 3, span, tell_sender: true } => {
                assert!(span.len() == len && span.as_slice().iter().all(|byte| *byte == 7));
            }
            other => panic!("{other:?}"),
        }
        if invite.is_some() {
            assert!(b.ack(0, 4));
            assert!(matches!(next(a, &mut [b]), Event::BulkSent { slot: 4, .. }));
        }
    }
}

#[test]
fn unknown_keys_are_refused() {
    let (_, mut engines) = world(2);
    let [a, b] = &mut engines[..] else { unreachable!() };
    let mut offered = filled(7, LONG);
    let key = a.offer(1, &mut offered);
    let address = offered.address().as_ptr().addr() as u64;
    for wrong in [1, u64::MAX, address, key + 1, key + (1 << 32), key ^ 1 << 63, key | 0x8000_0000, 1 << 32 | 1024] {
        assert!(why(b.bulk_recv(0, wrong, 0, filled(1, 8)), 1).contains("no memory under the key"), "{wrong:#x}");
    }
    // The key of no offer: nothing is read, the data is to go in records.
    assert!(matches!(b.bulk_recv(0, 0, 0, filled(1, 8)), Err(Refused { error: None, .. })));
    assert!(b.bulk_recv(0, key, 0, filled(1, 8)).is_ok());
}

#[test]
fn stale_keys_are_refused() {
    let (_, mut engines) = world(2);
    let [a, b] = &mut engines[..] else { unreachable!() };
    let mut offered = filled(7, LONG);
    let key = a.offer(1, &mut offered);
    drop(offered);
    assert!(why(b.bulk_recv(0, key, 0, filled(1, LONG)), 1).contains("or no longer"));
    // The place serves another offer, under another key.
    let mut other = filled(8, LONG);
    let other_key = a.offer(1, &mut other);
    assert!(key != other_key && key as u32 == other_key as u32);
    assert!(why(b.bulk_recv(0, key, 0, filled(1, LONG)), 1).contains("or no longer"));
    other.deregister();
    assert!(why(b.bulk_recv(0, other_key, 0, filled(1, LONG)), 1).contains("or no longer"));
}

#[test]
fn memory_taken_back_in_the_middle_fails_the_transfer() {
    for len in [4096, LONG] {
        let (_, mut engines) = world(2);
        let [a, b] = &mut engines[..] else { unreachable!() };
        let mut offered = filled(7, len);
        let key = a.offer(1, &mut offered);
        let _invite = b.bulk_recv(0, key, 3, filled(1, len)).unwrap();
        drop(offered);
        match next(b, &mut [a]) {
            Event::BulkFailed { slot: 3, span, sending: false } => {
                assert!(span.as_slice().iter().all(|byte| *byte == 1));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn only_the_rank_it_is_offered_to_may_read() {
    let (_, mut engines) = world(3);
    let [a, b, c] = &mut engines[..] else { unreachable!() };
    let mut offered = filled(7, LONG);
    let key = a.offer(2, &mut offered);
    assert!(why(b.bulk_recv(0, key, 0, filled(1, LONG)), 1).contains("offered to rank 2, not to rank 1"));
    assert!(why(b.bulk_recv(2, key, 0, filled(1, LONG)), 1).contains("no memory under the key"));
    for nobody in [3, u32::MAX] {
        assert!(why(b.bulk_recv(nobody, key, 0, filled(1, LONG)), 1).contains("of 3 cannot have offered"));
    }
    assert!(c.bulk_recv(0, key, 0, filled(1, LONG)).is_ok());
}

#[test]
fn no_more_is_read_than_was_offered() {
    let (_, mut engines) = world(2);
    let [a, b] = &mut engines[..] else { unreachable!() };
    let mut offered = filled(7, 1000);
    let key = a.offer(1, &mut offered);
    for len in [1001, LONG] {
        assert!(why(b.bulk_recv(0, key, 0, filled(1, len)), 1).contains("has offered 1000"));
    }
    assert!(b.bulk_recv(0, key, 0, filled(1, 999)).is_ok());
}

#[test]
fn memory_for_reading_is_not_written() {
    let (_, mut engines) = world(2);
    let [a, b] = &mut engines[..] else { unreachable!() };
    let mut offered = filled(7, LONG);
    let key = a.offer(1, &mut offered);
    let constant = vec![1; LONG];
    treepie_base::lending(
        |lending, _| {
            let refused = b.bulk_recv(0, key, 0, lending.lend(&constant));
            assert!(why(refused, 1).contains("for reading only"));
        },
        |_| unreachable!("it is back"),
    );
}

#[test]
fn unknown_invites_are_refused() {
    let (_, mut engines) = world(3);
    let [a, b, c] = &mut engines[..] else { unreachable!() };
    let mut offered = filled(7, LONG);
    let key = a.offer(1, &mut offered);
    let into = filled(1, LONG);
    let address = into.address().as_ptr().addr() as u64;
    let invite = b.bulk_recv(0, key, 3, into).unwrap().expect("it is long enough for two");
    assert_eq!(invite[1..], [0; 3], "no addresses");
    for wrong in [0, 1, address, invite[0] + (1 << 32), 1 << 32 | 16, u64::MAX] {
        let refused = a.bulk_send(1, 4, [wrong, address, 4096, 256], filled(9, LONG));
        assert!(why(refused, 9).contains("has not invited rank 0"), "{wrong:#x}");
    }
    assert!(why(a.bulk_send(1, 4, invite, filled(9, LONG - 1)), 9).contains("has not invited"));
    assert!(why(a.bulk_send(1, 4, invite, filled(9, 2 * LONG)), 9).contains("has not invited"));
    assert!(why(a.bulk_send(u32::MAX, 4, invite, filled(9, LONG)), 9).contains("has not invited"));
    assert!(why(a.bulk_send(2, 4, invite, filled(9, LONG)), 9).contains("rank 2 has not invited rank 0"));
    assert!(why(c.bulk_send(1, 4, invite, filled(9, LONG)), 9).contains("has not invited rank 2"));
    a.bulk_send(1, 4, invite, offered).unwrap();
    match next(b, &mut [a, c]) {
        Event::BulkReceived { span, .. } => assert!(span.as_slice().iter().all(|byte| *byte == 7)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_invite_to_a_transfer_that_is_over_writes_nothing() {
    let (_, mut engines) = world(2);
    let [a, b] = &mut engines[..] else { unreachable!() };
    let mut offered = filled(7, LONG);
    let key = a.offer(1, &mut offered);
    let old = b.bulk_recv(0, key, 3, filled(1, LONG)).unwrap().expect("it is long enough for two");
    assert!(matches!(next(b, &mut []), Event::BulkReceived { .. }));
    // The same place invites to another one, of as many bytes; both cannot be told apart but by the generation.
    let new = b.bulk_recv(0, key, 5, filled(1, LONG)).unwrap().expect("it is long enough for two");
    assert!(old != new && old[0] as u32 == new[0] as u32);
    a.bulk_send(1, 4, old, filled(9, LONG)).unwrap();
    for _ in 0..10 {
        assert!(a.poll().is_none());
    }
    match next(b, &mut [a]) {
        Event::BulkReceived { slot: 5, span, .. } => assert!(span.as_slice().iter().all(|byte| *byte == 7)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_stranger_that_acknowledges_ends_the_transfer_and_nothing_is_read() {
    let (_, mut engines) = world(3);
    let [a, b, c] = &mut engines[..] else { unreachable!() };
    let mut offered = filled(7, LONG);
    let key = a.offer(1, &mut offered);
    let invite = b.bulk_recv(0, key, 3, filled(1, LONG)).unwrap().expect("it is long enough for two");
    a.bulk_send(1, 4, invite, offered).unwrap();
    assert!(c.ack(0, 4));
    match next(a, &mut []) {
        Event::BulkSent { slot: 4, span } => drop(span),
        other => panic!("{other:?}"),
    }
    assert!(matches!(next(b, &mut [a, c]), Event::BulkFailed { slot: 3, sending: false, .. }));
}

#[test]
fn a_false_report_does_not_take_memory_from_whoever_writes_there() {
    let (arena, mut engines) = world(2);
    let [a, b] = &mut engines[..] else { unreachable!() };
    let mut offered = filled(7, LONG);
    let key = a.offer(1, &mut offered);
    let invite = b.bulk_recv(0, key, 3, filled(1, LONG)).unwrap().expect("it is long enough for two");
    a.bulk_send(1, 4, invite, offered).unwrap();
    arena.report(0, Life::Dead);
    // It still gets all of it, as the sender has not taken its memory back.
    assert!(matches!(next(b, &mut []), Event::BulkReceived { slot: 3, .. }));
}

#[test]
fn more_offers_than_the_table_holds_go_in_records() {
    let (_, mut engines) = world(2);
    let [a, b] = &mut engines[..] else { unreachable!() };
    let mut offers: Vec<(u64, Span)> = (0..1025)
        .map(|_| {
            let mut span = filled(7, 8);
            (a.offer(1, &mut span), span)
        })
        .collect();
    assert_eq!(offers.iter().filter(|(key, _)| *key == 0).count(), 1);
    let (last, _) = offers.pop().unwrap();
    assert!(matches!(b.bulk_recv(0, last, 0, filled(1, 8)), Err(Refused { error: None, .. })));
    offers.pop();
    assert_ne!(a.offer(1, &mut filled(7, 8)), 0);
    assert!(b.bulk_recv(0, offers[0].0, 0, filled(1, 8)).is_ok());
}

#[test]
fn memory_outlives_its_engine_and_its_world() {
    let (arena, mut engines) = world(2);
    let mut offered = filled(7, LONG);
    assert_ne!(engines[0].offer(1, &mut offered), 0);
    drop(engines);
    drop(arena);
    assert!(offered.as_slice().iter().all(|byte| *byte == 7));
    offered.deregister();
    offered.as_mut_slice()[0] = 1;
}

#[test]
fn no_kind_of_record_means_something_to_the_engine() {
    // With so many ranks a pair begins to talk through the inbox, and only some get rings.
    let (_, mut engines) = world(70);
    let [a, b, ..] = &mut engines[..] else { unreachable!() };
    for slot in [0, 5, u32::MAX] {
        let forged = Head { kind: u32::MAX, context: u32::MAX, tag: u32::MAX, slot };
        assert!(a.try_send(1, forged, &[1, 2, 3]));
        match b.poll() {
            Some(Event::Record { from: 0, head, body }) => assert_eq!((head, body), (forged, &[1, 2, 3][..])),
            other => panic!("{other:?}"),
        }
    }
    // They get their ring all the same.
    for number in 0..100 {
        assert!(a.try_send(1, Head { kind: u32::MAX, slot: number, ..Head::default() }, &[]));
        assert!(matches!(b.poll(), Some(Event::Record { from: 0, head, .. }) if head.slot == number));
    }
}

#[test]
fn windows_do_not_reach_beyond_what_was_reserved() {
    let (_, mut engines) = world(2);
    let heap = engines[0].shared().unwrap();
    let at = heap.reserve(10_000).unwrap();
    for (wrong, bytes) in [(0, 8), (at - 4096, 4096), (at + 1, 8), (at + 4096, 12_288), (at, u64::MAX), (1 << 39, 8)] {
        assert!(heap.map(wrong, bytes).is_err(), "{bytes} bytes at {wrong}");
        assert!(heap.release(wrong, bytes).is_err(), "{bytes} bytes at {wrong}");
    }
    let memory = heap.map(at, 10_000).unwrap();
    memory.store(8, &[1; 8]);
    heap.release(at, 10_000).unwrap();
    let mut got = [1; 8];
    memory.load(8, &mut got);
    assert_eq!(got, [0; 8]);
}

/// Rank 0 offers memory and takes it back at once, or soon; rank 1 reads it as long as it may. What it gets is one
/// message as a whole or an error, and never memory that is written or freed meanwhile.
#[test]
fn memory_is_not_taken_back_under_a_copy() {
    const ROUNDS: u64 = 300;
    let arena = Arc::new(Arena::create(2).unwrap());
    let (keys, offers) = std::sync::mpsc::sync_channel::<(u64, u8)>(0);
    std::thread::scope(|threads| {
        let joined = arena.clone();
        threads.spawn(move || {
            let mut engine = Shm::join(joined, 0).unwrap();
            for round in 0..ROUNDS {
                let mut offered = filled(round as u8, 256 << 10);
                let key = engine.offer(1, &mut offered);
                keys.send((key, round as u8)).unwrap();
                (0..round % 7).for_each(|_| std::thread::yield_now());
                offered.deregister();
                offered.as_mut_slice().fill(255);
            }
        });
        let mut engine = Shm::join(arena.clone(), 1).unwrap();
        let (mut whole, mut refused) = (0, 0);
        for (key, byte) in offers {
            match engine.bulk_recv(0, key, 0, filled(254, 256 << 10)) {
                Err(Refused { error, .. }) => {
                    assert!(error.is_some());
                    refused += 1;
                }
                Ok(_) => loop {
                    match engine.poll() {
                        Some(Event::BulkReceived { span, .. }) => {
                            assert!(span.as_slice().iter().all(|b| *b == byte));
                            whole += 1;
                            break;
                        }
                        Some(Event::BulkFailed { .. }) => {
                            refused += 1;
                            break;
                        }
                        other => assert!(other.is_none(), "{other:?}"),
                    }
                },
            }
        }
        assert_eq!(whole + refused, ROUNDS);
        println!("{whole} whole, {refused} refused");
    });
}
