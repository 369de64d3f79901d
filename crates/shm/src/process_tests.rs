//! Engines of process ranks, all in one process, so that a test can misuse each of them.

use std::os::fd::AsRawFd;
use std::sync::Arc;

use treepie_base::{Bytes, Error, Span};
use treepie_fabric::{AbortReason, BulkError, EXPOSED_ADDRESS_BYTES, Fabric, FabricEvent, SlotClass};

use crate::arena::MAX_CLAIMS;
use crate::registry::{MAX_REGISTRATIONS, NO_KEY};
use crate::{Arena, HostGroup, Shm};

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
fn beyond_the_rank_limit_groups_have_segments() {
    let groups = |ranks| {
        let arena = Arc::new(Arena::create(ranks).unwrap());
        let mut engine = Shm::join(arena, ranks - 1).unwrap();
        let members = engine.shared_segment().unwrap().members().to_vec();
        (engine.segment_groups().to_vec(), members)
    };
    assert_eq!(groups(64), (vec![], (0..64).collect()));
    let of_two: Vec<u32> = (0..100).map(|rank| rank / 50 * 50).collect();
    assert_eq!(groups(100), (of_two, (50..100).collect()));
}

/// A few rounds in large slots and small ones, by all ranks of a world of several groups in turn.
#[test]
fn groups_exchange_among_their_members_only() {
    for ranks in [70, 130] {
        let arena = Arc::new(Arena::create(ranks).unwrap());
        let mut engines: Vec<Shm> = (0..ranks).map(|rank| Shm::join(arena.clone(), rank).unwrap()).collect();
        for round in 0..20u32 {
            let class = [SlotClass::Line, SlotClass::Page, SlotClass::Large][round as usize % 3];
            let tag = |rank: u32| u64::from(round << 16 | rank);
            let word = |rank: u32| (rank * 1000 + round).to_ne_bytes();
            for (rank, engine) in (0..).zip(&mut engines) {
                let segment = engine.shared_segment().unwrap();
                let at = segment.capacity(class) - 4;
                assert_eq!(segment.members()[segment.index() as usize], rank);
                assert!(segment.try_write(class, at, &word(rank)) && segment.try_publish(class, tag(rank)));
            }
            for (rank, engine) in (0u32..).zip(&mut engines) {
                let group = engine.segment_groups()[rank as usize];
                let segment = engine.shared_segment().unwrap();
                let at = segment.capacity(class) - 4;
                let members = segment.members().to_vec();
                assert!(members.len() >= 35 && members.len() <= 64 && members[0] == group && members.contains(&rank));
                for (index, member) in (0..).zip(members).filter(|(_, member)| *member != rank) {
                    assert_eq!(segment.published_tag(index), Some(tag(member)), "rank {rank} reads {member}");
                    assert_eq!(segment.read(index, class, at, 4), word(member));
                }
                assert_eq!(segment.awaited(), None);
            }
        }
    }
}

#[test]
fn a_group_closes_its_segment_alone_and_awaits_world_ranks() {
    let arena = Arc::new(Arena::create(130).unwrap());
    let mut engines: Vec<Shm> = (0..130).map(|rank| Shm::join(arena.clone(), rank).unwrap()).collect();
    let segment = engines[50].shared_segment().unwrap();
    let (first, last) = (segment.members()[0], *segment.members().last().unwrap());
    assert!(segment.try_publish(SlotClass::Line, 1));
    assert_eq!((segment.published_tag(segment.index() + 1), segment.awaited()), (None, Some(51)));
    assert!(!engines[50].segment_has_pending_work());
    let why = AbortReason::AbortedBy(last);
    engines[last as usize].shared_segment().unwrap().close(why);
    for (rank, engine) in (0..).zip(&mut engines) {
        let expected = (first..=last).contains(&rank).then_some(why);
        assert_eq!(engine.shared_segment().unwrap().closed_reason(), expected, "rank {rank}");
    }
    // The rank that waited there would not park again.
    assert!(engines[50].segment_has_pending_work());
}

fn host_group(rank: u32, is_world: bool) -> HostGroup {
    HostGroup { members: vec![3, 7], rank, is_world, has_dedicated_core: true }
}

#[test]
fn a_host_segment_is_opened_by_its_address_only() {
    let (mut created, [pid, fd, nonce]) = host_group(3, false).create().unwrap();
    let mut opened = host_group(7, false).open([pid, fd, nonce]).unwrap();
    assert_eq!((created.index(), opened.index(), opened.members()), (0, 1, &[3, 7][..]));
    // As in groups of more ranks, not as in a world of two.
    assert_eq!(opened.capacity(SlotClass::Line), 48);
    for segment in [&mut created, &mut opened] {
        let data = [segment.index() as u8 + 1; 40];
        assert!(segment.try_write(SlotClass::Line, 0, &data));
        assert!(segment.try_expose(SlotClass::Page, 0, &DATA) && segment.try_publish(SlotClass::Line, 9));
    }
    assert_eq!((opened.published_tag(0), created.published_tag(1)), (Some(9), Some(9)));
    assert_eq!(opened.read(0, SlotClass::Line, 0, 40), [1; 40]);
    assert_eq!(created.read(1, SlotClass::Line, 0, 40), [2; 40]);
    let mut got = [0; 5];
    assert!(created.read_exposed(1, SlotClass::Page, 0, 1, &mut got) && got == DATA[1..6]);
    assert!(opened.try_publish(SlotClass::Line, 9) && opened.published_tag(0).is_none());
    assert_eq!(opened.awaited(), Some(3));
    created.close(AbortReason::PeerLost(3));
    assert_eq!(opened.closed_reason(), Some(AbortReason::PeerLost(3)));

    let refused = |address, is_world| host_group(7, is_world).open(address).err().expect("it is refused");
    refused([pid, fd, nonce ^ 2], false);
    refused([pid, 1 << 20, nonce], false);
    refused([1 << 40, fd, nonce], false);
    // Larger than the file, and files of another kind.
    let (_world, [pid, fd, nonce]) = host_group(3, true).create().unwrap();
    let others = HostGroup { members: (0..64).collect(), ..host_group(7, false) };
    others.open([pid, fd, nonce]).err().expect("it is smaller");
    let arena = Arena::create_for_processes(2).unwrap();
    refused([pid, arena.fd().as_raw_fd() as u64, nonce], true);
}

static DATA: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

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
