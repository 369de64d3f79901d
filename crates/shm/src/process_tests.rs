//! Engines of process ranks, all in one process, so that a test can misuse each of them.

use std::sync::Arc;

use treepie_base::{Bytes, Error, Span};
use treepie_fabric::{AbortReason, BulkError, EXPOSED_ADDRESS_BYTES, Fabric, FabricEvent, SlotClass};

use crate::arena::MAX_CLAIMS;
use crate::registry::{MAX_REGISTRATIONS, NO_KEY};
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
    let mut registered = filled(7, 1 << 20);
    let key = a.register_bulk(1, &mut registered);
    let is_refused = |result| matches!(result, Err(BulkError { error: Some(Error::Engine(_)), .. }));
    // Memory that is mapped and readable: only the key is wrong.
    let address = registered.address().as_ptr().addr() as u64;
    assert!(is_refused(b.bulk_recv(0, address, 3, filled(1, 8))) && is_refused(c.bulk_recv(0, key, 3, filled(1, 8))));
    assert!(is_refused(b.bulk_recv(0, key, 3, filled(1, (1 << 20) + 1))));
    let cts = b.bulk_recv(0, key, 3, filled(1, 1 << 20)).unwrap().expect("it is long enough for two");
    assert!(c.bulk_send(1, 4, cts, filled(9, 1 << 20)).is_err());
    // The memory itself stays, but is no longer registered.
    registered.deregister();
    assert!(matches!(b.poll(), Some(FabricEvent::BulkFailed { slot: 3, sending: false, .. })));
    assert!(is_refused(b.bulk_recv(0, key, 3, filled(1, 8))));
}

#[test]
fn fetch_beyond_the_exposed_range_fails() {
    let mut engines = world(2);
    let data: Vec<u8> = (0..100).collect();
    for engine in &mut engines {
        let segment = engine.shared_segment().unwrap();
        assert!(
            segment.capacity(SlotClass::Page) >= EXPOSED_ADDRESS_BYTES
                && segment.try_expose(SlotClass::Page, 32, &data)
        );
        assert!(segment.try_publish(SlotClass::Page, 5));
    }
    let segment = engines[0].shared_segment().unwrap();
    assert_eq!(segment.published_tag(1), Some(5));
    let mut got = [0; 10];
    assert!(segment.read_exposed(1, SlotClass::Page, 32, 90, &mut got) && got == data[90..]);
    for beyond in [91, 100, usize::MAX - 5, usize::MAX] {
        assert!(!segment.read_exposed(1, SlotClass::Page, 32, beyond, &mut got), "{beyond}");
    }
}

/// Further memory gets no key and is sent as records.
#[test]
fn registrations_beyond_the_table_get_no_key() {
    let mut engines = world(2);
    let [a, b] = &mut engines[..] else { unreachable!() };
    let mut registered: Vec<Span> = (0..MAX_REGISTRATIONS).map(|_| filled(7, 64)).collect();
    let keys: Vec<u64> = registered.iter_mut().map(|span| a.register_bulk(1, span)).collect();
    assert!(!keys.contains(&NO_KEY));
    let mut beyond = filled(7, 64);
    assert_eq!(a.register_bulk(1, &mut beyond), NO_KEY);
    assert!(b.bulk_recv(0, NO_KEY, 3, filled(1, 64)).is_err());
    registered[5].deregister();
    assert_ne!(a.register_bulk(1, &mut beyond), NO_KEY);
}

/// Beyond them the receiver copies alone: it sends no CTS.
#[test]
fn transfers_beyond_the_claims_get_no_cts() {
    let mut engines = world(2);
    let [a, b] = &mut engines[..] else { unreachable!() };
    let len = 1 << 20;
    let mut registered: Vec<Span> = (0..=MAX_CLAIMS).map(|_| filled(7, len)).collect();
    let has_cts = |(slot, span): (u32, &mut Span)| {
        let key = a.register_bulk(1, span);
        b.bulk_recv(0, key, slot, filled(1, len)).expect("the key is good").is_some()
    };
    let has_cts: Vec<bool> = (0..).zip(&mut registered).map(has_cts).collect();
    assert_eq!(has_cts.iter().filter(|has_cts| **has_cts).count(), MAX_CLAIMS, "{has_cts:?}");
    assert!(!has_cts[MAX_CLAIMS]);
}

#[test]
fn segments_exist_up_to_the_rank_limit() {
    let has_segment = |ranks| {
        let arena = Arc::new(Arena::create(ranks).unwrap());
        Shm::join(arena, 0).unwrap().shared_segment().is_some()
    };
    assert!(has_segment(64) && !has_segment(65));
}

#[test]
fn first_abort_reason_is_seen_by_all() {
    for why in [AbortReason::PeerLost(2), AbortReason::AbortedBy(0), AbortReason::CallMismatch] {
        let mut engines = world(3);
        let reasons = |engines: &mut Vec<Shm>| -> Vec<_> {
            engines.iter_mut().map(|engine| engine.shared_segment().unwrap().closed_reason()).collect()
        };
        assert_eq!(reasons(&mut engines), [None; 3]);
        engines[1].shared_segment().unwrap().close(why);
        engines[0].shared_segment().unwrap().close(AbortReason::AbortedBy(1));
        assert_eq!(reasons(&mut engines), [Some(why); 3]);
    }
}
