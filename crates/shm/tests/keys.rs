//! Misuse of an engine by safe code: keys and CTS descriptors that are forged, stale, or another rank's; ranks joined
//! twice. All of it is refused, and no memory is read or written for it.

#![forbid(unsafe_code)]

use std::sync::Arc;

use treepie_base::{Bytes, Error, Span};
use treepie_fabric::{BulkError, Fabric, FabricEvent, Liveness, RecordHeader};
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

/// The reason of a refused transfer; its memory is unchanged.
fn why<T: std::fmt::Debug>(result: Result<T, BulkError>, byte: u8) -> String {
    let BulkError { span, error } = result.expect_err("it must be refused");
    assert!(span.as_slice().iter().all(|b| *b == byte));
    match error {
        Some(Error::Engine(why)) => why,
        other => panic!("refused because of {other:?}"),
    }
}

/// Polls until an event is reported.
fn next<'a>(engine: &'a mut Shm, others: &mut [&mut Shm]) -> FabricEvent<'a> {
    for _ in 0..1000 {
        others.iter_mut().for_each(|other| assert!(other.poll().is_none(), "only one engine reports"));
        // A borrow cannot be returned from a loop; these events own their data.
        match engine.poll() {
            Some(FabricEvent::BulkReceived { slot, span, tell_sender }) => {
                return FabricEvent::BulkReceived { slot, span, tell_sender };
            }
            Some(FabricEvent::BulkFailed { slot, span, sending }) => {
                return FabricEvent::BulkFailed { slot, span, sending };
            }
            Some(FabricEvent::BulkSent { slot, span }) => return FabricEvent::BulkSent { slot, span },
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
    // Its rings still hold their state.
    assert!(again(0).contains("joined before"));
    assert!(Shm::join(arena, 1).is_ok());
}

#[test]
fn registered_memory_is_transferred() {
    let (_, mut engines) = world(2);
    let [a, b] = &mut engines[..] else { unreachable!() };
    for len in [0, 1, 4096, 40_000, 64 << 10, LONG, 3 * LONG + 5] {
        let mut registered = filled(7, len);
        let key = a.register_bulk(1, &mut registered);
        let cts = b.bulk_recv(0, key, 3, filled(0, len)).unwrap();
        if let Some(cts) = cts {
            a.bulk_send(1, 4, cts, registered).unwrap();
        }
        match next(b, &mut [a]) {
            FabricEvent::BulkReceived { slot: 3, span, tell_sender: true } => {
                assert!(span.len() == len && span.as_slice().iter().all(|byte| *byte == 7));
            }
            other => panic!("{other:?}"),
        }
        if cts.is_some() {
            assert!(b.ack(0, 4));
            assert!(matches!(next(a, &mut [b]), FabricEvent::BulkSent { slot: 4, .. }));
        }
    }
}

#[test]
fn unknown_keys_are_refused() {
    let (_, mut engines) = world(2);
    let [a, b] = &mut engines[..] else { unreachable!() };
    let mut registered = filled(7, LONG);
    let key = a.register_bulk(1, &mut registered);
    let address = registered.address().as_ptr().addr() as u64;
    for wrong in [1, u64::MAX, address, key + 1, key + (1 << 32), key ^ 1 << 63, key | 0x8000_0000, 1 << 32 | 1024] {
        assert!(
            why(b.bulk_recv(0, wrong, 0, filled(1, 8)), 1).contains("no memory registered under the key"),
            "{wrong:#x}"
        );
    }
    // The null key: nothing is read, the data is sent as records.
    assert!(matches!(b.bulk_recv(0, 0, 0, filled(1, 8)), Err(BulkError { error: None, .. })));
    assert!(b.bulk_recv(0, key, 0, filled(1, 8)).is_ok());
}

#[test]
fn stale_keys_are_refused() {
    let (_, mut engines) = world(2);
    let [a, b] = &mut engines[..] else { unreachable!() };
    let mut registered = filled(7, LONG);
    let key = a.register_bulk(1, &mut registered);
    drop(registered);
    assert!(why(b.bulk_recv(0, key, 0, filled(1, LONG)), 1).contains("no memory registered under the key"));
    // The cell serves another registration, under another key.
    let mut other = filled(8, LONG);
    let other_key = a.register_bulk(1, &mut other);
    assert!(key != other_key && key as u32 == other_key as u32);
    assert!(why(b.bulk_recv(0, key, 0, filled(1, LONG)), 1).contains("no memory registered under the key"));
    other.deregister();
    assert!(why(b.bulk_recv(0, other_key, 0, filled(1, LONG)), 1).contains("no memory registered under the key"));
}

#[test]
fn deregistration_during_a_transfer_fails_it() {
    for len in [4096, LONG] {
        let (_, mut engines) = world(2);
        let [a, b] = &mut engines[..] else { unreachable!() };
        let mut registered = filled(7, len);
        let key = a.register_bulk(1, &mut registered);
        let _cts = b.bulk_recv(0, key, 3, filled(1, len)).unwrap();
        drop(registered);
        match next(b, &mut [a]) {
            FabricEvent::BulkFailed { slot: 3, span, sending: false } => {
                assert!(span.as_slice().iter().all(|byte| *byte == 1));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn only_the_registered_peer_may_read() {
    let (_, mut engines) = world(3);
    let [a, b, c] = &mut engines[..] else { unreachable!() };
    let mut registered = filled(7, LONG);
    let key = a.register_bulk(2, &mut registered);
    assert!(why(b.bulk_recv(0, key, 0, filled(1, LONG)), 1).contains("registered for rank 2, not for rank 1"));
    assert!(why(b.bulk_recv(2, key, 0, filled(1, LONG)), 1).contains("no memory registered under the key"));
    for nobody in [3, u32::MAX] {
        assert!(why(b.bulk_recv(nobody, key, 0, filled(1, LONG)), 1).contains("of 3 cannot have registered"));
    }
    assert!(c.bulk_recv(0, key, 0, filled(1, LONG)).is_ok());
}

#[test]
fn reads_beyond_the_registration_are_refused() {
    let (_, mut engines) = world(2);
    let [a, b] = &mut engines[..] else { unreachable!() };
    let mut registered = filled(7, 1000);
    let key = a.register_bulk(1, &mut registered);
    for len in [1001, LONG] {
        assert!(why(b.bulk_recv(0, key, 0, filled(1, len)), 1).contains("only 1000 are registered"));
    }
    assert!(b.bulk_recv(0, key, 0, filled(1, 999)).is_ok());
}

#[test]
fn memory_for_reading_is_not_written() {
    let (_, mut engines) = world(2);
    let [a, b] = &mut engines[..] else { unreachable!() };
    let mut registered = filled(7, LONG);
    let key = a.register_bulk(1, &mut registered);
    let constant = vec![1; LONG];
    treepie_base::borrow_scope(
        |scope, _| {
            let refused = b.bulk_recv(0, key, 0, scope.lend(&constant));
            assert!(why(refused, 1).contains("is read-only"));
        },
        |_| unreachable!("it is back"),
    );
}

#[test]
fn unknown_cts_are_refused() {
    let (_, mut engines) = world(3);
    let [a, b, c] = &mut engines[..] else { unreachable!() };
    let mut registered = filled(7, LONG);
    let key = a.register_bulk(1, &mut registered);
    let into = filled(1, LONG);
    let address = into.address().as_ptr().addr() as u64;
    let cts = b.bulk_recv(0, key, 3, into).unwrap().expect("it is long enough for two");
    assert_eq!(cts[1..], [0; 3], "no addresses");
    for wrong in [0, 1, address, cts[0] + (1 << 32), 1 << 32 | 16, u64::MAX] {
        let refused = a.bulk_send(1, 4, [wrong, address, 4096, 256], filled(9, LONG));
        assert!(why(refused, 9).contains("has sent rank 0 no CTS"), "{wrong:#x}");
    }
    assert!(why(a.bulk_send(1, 4, cts, filled(9, LONG - 1)), 9).contains("no CTS"));
    assert!(why(a.bulk_send(1, 4, cts, filled(9, 2 * LONG)), 9).contains("no CTS"));
    assert!(why(a.bulk_send(u32::MAX, 4, cts, filled(9, LONG)), 9).contains("no CTS"));
    assert!(why(a.bulk_send(2, 4, cts, filled(9, LONG)), 9).contains("rank 2 has sent rank 0 no CTS"));
    assert!(why(c.bulk_send(1, 4, cts, filled(9, LONG)), 9).contains("has sent rank 2 no CTS"));
    a.bulk_send(1, 4, cts, registered).unwrap();
    match next(b, &mut [a, c]) {
        FabricEvent::BulkReceived { span, .. } => assert!(span.as_slice().iter().all(|byte| *byte == 7)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_cts_of_a_finished_transfer_writes_nothing() {
    let (_, mut engines) = world(2);
    let [a, b] = &mut engines[..] else { unreachable!() };
    let mut registered = filled(7, LONG);
    let key = a.register_bulk(1, &mut registered);
    let old = b.bulk_recv(0, key, 3, filled(1, LONG)).unwrap().expect("it is long enough for two");
    assert!(matches!(next(b, &mut []), FabricEvent::BulkReceived { .. }));
    // The same cell serves another transfer of the same length; only the generation tells them apart.
    let new = b.bulk_recv(0, key, 5, filled(1, LONG)).unwrap().expect("it is long enough for two");
    assert!(old != new && old[0] as u32 == new[0] as u32);
    a.bulk_send(1, 4, old, filled(9, LONG)).unwrap();
    for _ in 0..10 {
        assert!(a.poll().is_none());
    }
    match next(b, &mut [a]) {
        FabricEvent::BulkReceived { slot: 5, span, .. } => assert!(span.as_slice().iter().all(|byte| *byte == 7)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_ack_from_a_third_rank_fails_the_transfer() {
    let (_, mut engines) = world(3);
    let [a, b, c] = &mut engines[..] else { unreachable!() };
    let mut registered = filled(7, LONG);
    let key = a.register_bulk(1, &mut registered);
    let cts = b.bulk_recv(0, key, 3, filled(1, LONG)).unwrap().expect("it is long enough for two");
    a.bulk_send(1, 4, cts, registered).unwrap();
    assert!(c.ack(0, 4));
    match next(a, &mut []) {
        FabricEvent::BulkSent { slot: 4, span } => drop(span),
        other => panic!("{other:?}"),
    }
    assert!(matches!(next(b, &mut [a, c]), FabricEvent::BulkFailed { slot: 3, sending: false, .. }));
}

#[test]
fn a_false_failure_report_does_not_free_memory_in_use() {
    let (arena, mut engines) = world(2);
    let [a, b] = &mut engines[..] else { unreachable!() };
    let mut registered = filled(7, LONG);
    let key = a.register_bulk(1, &mut registered);
    let cts = b.bulk_recv(0, key, 3, filled(1, LONG)).unwrap().expect("it is long enough for two");
    a.bulk_send(1, 4, cts, registered).unwrap();
    arena.report(0, Liveness::Failed);
    // It still gets all of it, as the sender has not deregistered its memory.
    assert!(matches!(next(b, &mut []), FabricEvent::BulkReceived { slot: 3, .. }));
}

#[test]
fn registrations_beyond_the_table_use_the_eager_protocol() {
    let (_, mut engines) = world(2);
    let [a, b] = &mut engines[..] else { unreachable!() };
    let mut registrations: Vec<(u64, Span)> = (0..1025)
        .map(|_| {
            let mut span = filled(7, 8);
            (a.register_bulk(1, &mut span), span)
        })
        .collect();
    assert_eq!(registrations.iter().filter(|(key, _)| *key == 0).count(), 1);
    let (last, _) = registrations.pop().unwrap();
    assert!(matches!(b.bulk_recv(0, last, 0, filled(1, 8)), Err(BulkError { error: None, .. })));
    registrations.pop();
    assert_ne!(a.register_bulk(1, &mut filled(7, 8)), 0);
    assert!(b.bulk_recv(0, registrations[0].0, 0, filled(1, 8)).is_ok());
}

#[test]
fn memory_outlives_its_engine_and_its_world() {
    let (arena, mut engines) = world(2);
    let mut registered = filled(7, LONG);
    assert_ne!(engines[0].register_bulk(1, &mut registered), 0);
    drop(engines);
    drop(arena);
    assert!(registered.as_slice().iter().all(|byte| *byte == 7));
    registered.deregister();
    registered.as_mut_slice()[0] = 1;
}

#[test]
fn no_kind_of_record_means_something_to_the_engine() {
    // With this many ranks a pair starts in the inbox, and only some pairs get rings.
    let (_, mut engines) = world(70);
    let [a, b, ..] = &mut engines[..] else { unreachable!() };
    for slot in [0, 5, u32::MAX] {
        let forged = RecordHeader { kind: u32::MAX, context: u32::MAX, tag: u32::MAX, slot };
        assert!(a.try_send(1, forged, &[1, 2, 3]));
        match b.poll() {
            Some(FabricEvent::Record { from: 0, head, body }) => assert_eq!((head, body), (forged, &[1, 2, 3][..])),
            other => panic!("{other:?}"),
        }
    }
    // The pair still gets its ring.
    for number in 0..100 {
        assert!(a.try_send(1, RecordHeader { kind: u32::MAX, slot: number, ..RecordHeader::default() }, &[]));
        assert!(matches!(b.poll(), Some(FabricEvent::Record { from: 0, head, .. }) if head.slot == number));
    }
}

#[test]
fn windows_do_not_reach_beyond_what_was_reserved() {
    let (_, mut engines) = world(2);
    let heap = engines[0].shared_heap().unwrap();
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

/// Rank 0 registers memory and deregisters it at once, or soon; rank 1 reads it as long as it may. It gets one whole
/// message or an error, and never memory that is written or freed meanwhile.
#[test]
fn deregistration_waits_for_copies() {
    const ROUNDS: u64 = 300;
    let arena = Arc::new(Arena::create(2).unwrap());
    let (keys, registrations) = std::sync::mpsc::sync_channel::<(u64, u8)>(0);
    std::thread::scope(|threads| {
        let joined = arena.clone();
        threads.spawn(move || {
            let mut engine = Shm::join(joined, 0).unwrap();
            for round in 0..ROUNDS {
                let mut registered = filled(round as u8, 256 << 10);
                let key = engine.register_bulk(1, &mut registered);
                keys.send((key, round as u8)).unwrap();
                (0..round % 7).for_each(|_| std::thread::yield_now());
                registered.deregister();
                registered.as_mut_slice().fill(255);
            }
        });
        let mut engine = Shm::join(arena.clone(), 1).unwrap();
        let (mut whole, mut refused) = (0, 0);
        for (key, byte) in registrations {
            match engine.bulk_recv(0, key, 0, filled(254, 256 << 10)) {
                Err(BulkError { error, .. }) => {
                    assert!(error.is_some());
                    refused += 1;
                }
                Ok(_) => loop {
                    match engine.poll() {
                        Some(FabricEvent::BulkReceived { span, .. }) => {
                            assert!(span.as_slice().iter().all(|b| *b == byte));
                            whole += 1;
                            break;
                        }
                        Some(FabricEvent::BulkFailed { .. }) => {
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
