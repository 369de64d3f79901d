//! Endpoints in one thread, over an engine whose delays, order and capacity come from a seed: each message arrives
//! once, complete and in order, at a matching receive, and all operations complete.

mod abort;
mod barriers;
mod memory;
mod mismatch;
mod net;
mod queues;
mod tasks;

use std::collections::HashMap;

use net::{Net, NetCapabilities, Port, Rng};
use rand_xoshiro::rand_core::SeedableRng;
use treepie_base::{Bytes, Error, Span};
use treepie_fabric::{Address, CallSignature, Endpoint, Envelope, OpId, RecvTarget, Select, Started, TAG_BITS};

/// Contexts by the wildcards of their receives: none, any source, any tag, both.
const CONTEXTS: [u32; 4] = [0, 2, 4, 6];

struct Planned {
    from: u32,
    to: u32,
    context: u32,
    tag: u32,
    len: usize,
    synchronous: bool,
}

fn payload(from: u32, sequence: u64, tag: u32, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len.max(16));
    bytes.extend_from_slice(&from.to_le_bytes());
    bytes.extend_from_slice(&tag.to_le_bytes());
    bytes.extend_from_slice(&sequence.to_le_bytes());
    bytes.extend((16..len).map(|i| (i as u64).wrapping_mul(sequence + 7) as u8));
    bytes
}

/// A tag with significant bits near both ends.
fn wide(tag: u32) -> u64 {
    let last = 1 << (TAG_BITS - 2);
    u64::from(tag) * (last | 1 << 33 | 1)
}

fn select(p: &Planned) -> Select {
    let open = p.context / 2;
    let (source, tag) = ((open & 1 == 0).then_some(p.from), (open & 2 == 0).then_some(wide(p.tag)));
    Select { context: p.context, source, tag, call: CallSignature::NONE }
}

fn random_capabilities(rng: &mut Rng) -> NetCapabilities {
    NetCapabilities {
        ack_slots: [0, 2, 512][rng.below(3) as usize],
        bulk: rng.chance(50),
        arrive: rng.chance(50),
        capacity: 1 + rng.below(6) as usize,
        may_miss: rng.chance(50),
    }
}

/// Random messages between random ranks, started in random order on both sides.
fn exchange(seed: u64) {
    let mut rng = Rng(rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(seed));
    let size = 1 + rng.below(5) as u32;
    let capabilities = random_capabilities(&mut rng);
    let net = Net::new(Rng(rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(!seed)), size, capabilities);
    let mut endpoints: Vec<Endpoint> = (0..size).map(|rank| Endpoint::new(Box::new(Port::new(&net, rank)))).collect();
    let planned: Vec<Planned> = (0..rng.below(120))
        .map(|_| Planned {
            from: rng.below(size.into()) as u32,
            to: rng.below(size.into()) as u32,
            context: CONTEXTS[rng.below(4) as usize],
            tag: rng.below(3) as u32,
            len: [16, 17, 1000, 1024, 1025, 5000, 20_000][rng.below(7) as usize],
            synchronous: rng.chance(30),
        })
        .collect();
    // Receives are posted in another order than sends, so that messages are expected and unexpected.
    let mut receives: Vec<usize> = (0..planned.len()).collect();
    for i in (1..receives.len()).rev() {
        receives.swap(i, rng.below(i as u64 + 1) as usize);
    }
    // Checks that a received message was sent to that rank in that context.
    let check = |p: &Planned, order: u64, envelope: Envelope, data: &[u8], got: &mut Received| {
        let data = &data[..envelope.bytes as usize];
        let from = u32::from_le_bytes(data[..4].try_into().unwrap());
        let tag = u32::from_le_bytes(data[4..8].try_into().unwrap());
        let sequence = u64::from_le_bytes(data[8..16].try_into().unwrap());
        assert_eq!((from, wide(tag)), (envelope.source, envelope.tag), "seed {seed}");
        assert!(data == payload(from, sequence, tag, data.len()), "seed {seed}: content of message {sequence}");
        let message = &planned[sequence as usize];
        assert_eq!((message.to, message.context), (p.to, p.context), "seed {seed}");
        let s = select(p);
        got.entry((p.to, (s.context, s.source, s.tag))).or_default().push((order, from, tag, sequence));
    };
    let (mut sent, mut posted) = (0, 0);
    let mut sends: Vec<(usize, OpId)> = Vec::new();
    let mut waiting: Vec<(usize, u64, OpId)> = Vec::new();
    let mut got = Received::new();
    let mut steps = 0u64;
    while sent < planned.len() || posted < planned.len() || !sends.is_empty() || !waiting.is_empty() {
        steps += 1;
        assert!(steps < 400_000, "seed {seed}: {} sends and {} receives never complete", sends.len(), waiting.len());
        if sent < planned.len() && rng.chance(20) {
            let p = &planned[sent];
            let Planned { context, to, synchronous, .. } = *p;
            let address = Address { context, to, tag: wide(p.tag), synchronous, call: CallSignature::NONE };
            let span = Span::from(Bytes::from(payload(p.from, sent as u64, p.tag, p.len)));
            match endpoints[p.from as usize].isend(address, span).unwrap() {
                Started::Done(_) => assert!(!p.synchronous, "seed {seed}: a synchronous send completed at once"),
                Started::Pending(id) => sends.push((sent, id)),
            }
            sent += 1;
        }
        if posted < planned.len() && rng.chance(20) {
            let p = &planned[receives[posted]];
            let endpoint = &mut endpoints[p.to as usize];
            let mut room = Bytes::zeroed(20_000, 1);
            if rng.chance(50) {
                let id = endpoint.irecv(select(p), RecvTarget::Allocate { align: 8 });
                waiting.push((receives[posted], posted as u64, id));
            } else if let Some(envelope) = endpoint.try_recv(select(p), room.as_mut_slice()) {
                check(p, posted as u64, envelope, room.as_slice(), &mut got);
            } else {
                let id = endpoint.irecv(select(p), RecvTarget::Into(Span::from(room)));
                waiting.push((receives[posted], posted as u64, id));
            }
            posted += 1;
        }
        let who = rng.below(size.into()) as usize;
        endpoints[who].progress();
        sends.retain(|(i, id)| {
            let p = &planned[*i];
            match endpoints[p.from as usize].take_result(*id) {
                None => true,
                Some(result) => {
                    result.unwrap();
                    if p.synchronous && p.context == 0 {
                        let same = |q: &Planned| (q.from, q.to, q.context, q.tag) == (p.from, p.to, 0, p.tag);
                        let before = planned[..*i].iter().filter(|q| same(q)).count();
                        let started = receives[..posted].iter().filter(|r| same(&planned[**r])).count();
                        assert!(
                            started > before,
                            "seed {seed}: a synchronous send completed before its receive started"
                        );
                    }
                    false
                }
            }
        });
        waiting.retain(|(i, order, id)| {
            let p = &planned[*i];
            let Some(result) = endpoints[p.to as usize].take_result(*id) else { return true };
            let completion = result.unwrap();
            let bytes = completion.span.unwrap().into_bytes().unwrap();
            check(p, *order, completion.envelope, bytes.as_slice(), &mut got);
            false
        });
    }
    let mut seen: Vec<u64> = got.values().flatten().map(|(.., sequence)| *sequence).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..planned.len() as u64).collect::<Vec<_>>(), "seed {seed}: each message once");
    for mut received in got.into_values() {
        received.sort_unstable();
        let mut last: HashMap<u32, u64> = HashMap::new();
        for (_, from, _, sequence) in received {
            let before = last.insert(from, sequence);
            assert!(before.is_none_or(|before| before < sequence), "seed {seed}: {sequence} after {before:?}");
        }
    }
}

/// Context, source and tag of a receive.
type Selected = (u32, Option<u32>, Option<u64>);

/// The order of the receive; source, tag and sequence number of its message.
type Got = (u64, u32, u32, u64);

/// Received messages by rank and match key of the receive.
type Received = HashMap<(u32, Selected), Vec<Got>>;

/// Tests and probes must not sleep until an event arrives.
#[test]
fn testing_does_not_block() {
    let (mut a, mut b) = pair(PLAIN);
    let select = Select { context: 1, source: Some(0), tag: Some(7), call: CallSignature::NONE };
    let receive = b.irecv(select, RecvTarget::Allocate { align: 1 });
    let before = net::WAITS.get();
    for _ in 0..1000 {
        assert_eq!(b.iprobe(Select { tag: Some(8), ..select }), Ok(None));
        assert!(b.test(receive).is_none());
    }
    assert_eq!(net::WAITS.get(), before);
    a.send(Address { context: 1, to: 1, tag: 7, synchronous: false, call: CallSignature::NONE }, &[1]).unwrap();
    b.wait(receive).unwrap();
}

#[test]
fn messages_arrive_once_complete_and_in_order_for_every_seed() {
    (0..seeds()).for_each(exchange);
}

fn seeds() -> u64 {
    std::env::var("TREEPIE_SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(2000)
}

/// A burst of messages with two tags, received in order with `try_recv` and `irecv`. Returns the number of messages
/// that `try_recv` received.
fn stream(seed: u64) -> usize {
    let mut rng = Rng(rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(seed));
    let net = Net::new(Rng(rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(!seed)), 2, random_capabilities(&mut rng));
    let [mut a, mut b] = [0, 1].map(|rank| Endpoint::new(Box::new(Port::new(&net, rank))));
    let messages: Vec<(u32, Vec<u8>)> = (0..60u64)
        .map(|sequence| {
            let tag = rng.below(2) as u32;
            (tag, payload(0, sequence, tag, if rng.chance(5) { 3000 } else { 20 }))
        })
        .collect();
    let mut sends = Vec::new();
    for (tag, data) in &messages {
        let (tag, synchronous) = (u64::from(*tag), rng.chance(5));
        let address = Address { context: 0, to: 1, tag, synchronous, call: CallSignature::NONE };
        match a.isend(address, Span::from(Bytes::from(data.clone()))).unwrap() {
            Started::Done(_) => {}
            Started::Pending(id) => sends.push(id),
        }
    }
    let mut pending = Vec::new();
    let mut immediate = 0;
    for (tag, data) in &messages {
        let (source, tag) = (rng.chance(50).then_some(0), u64::from(*tag));
        let select = Select { context: 0, source, tag: Some(tag), call: CallSignature::NONE };
        let mut room = Bytes::zeroed(data.len(), 1);
        let now = if rng.chance(90) { b.try_recv(select, room.as_mut_slice()) } else { None };
        match now {
            Some(envelope) => {
                assert_eq!((envelope.source, envelope.tag), (0, tag), "seed {seed}");
                assert!(room.as_slice() == data, "seed {seed}: `try_recv` received another message");
                immediate += 1;
            }
            None => pending.push((data, b.irecv(select, RecvTarget::Into(Span::from(room))))),
        }
        a.progress();
        if rng.chance(10) {
            b.progress();
        }
    }
    for _ in 0..100_000 {
        a.progress();
        b.progress();
        sends.retain(|id| a.take_result(*id).map(Result::unwrap).is_none());
        pending.retain(|(data, id)| match b.take_result(*id) {
            None => true,
            Some(completion) => {
                let bytes = completion.unwrap().span.unwrap().into_bytes().unwrap();
                assert!(bytes.as_slice() == *data, "seed {seed}: a receive got another message");
                false
            }
        });
        if sends.is_empty() && pending.is_empty() {
            return immediate;
        }
    }
    panic!("seed {seed}: {} sends and {} receives never complete", sends.len(), pending.len());
}

#[test]
fn immediate_receives_preserve_the_order_for_every_seed() {
    let immediate: usize = (0..seeds()).map(stream).sum();
    assert!(immediate as u64 > seeds() / 4, "`try_recv` received only {immediate} messages");
}

fn pair(capabilities: NetCapabilities) -> (Endpoint, Endpoint) {
    let net = Net::new(Rng(rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(1)), 2, capabilities);
    (Endpoint::new(Box::new(Port::new(&net, 0))), Endpoint::new(Box::new(Port::new(&net, 1))))
}

const PLAIN: NetCapabilities =
    NetCapabilities { ack_slots: 0, bulk: false, arrive: false, capacity: 4, may_miss: false };

fn bytes(len: usize) -> Span {
    Span::from(Bytes::zeroed(len, 1))
}

fn pending(endpoint: &mut Endpoint, address: Address, len: usize) -> Option<OpId> {
    match endpoint.isend(address, bytes(len)).unwrap() {
        Started::Done(_) => None,
        Started::Pending(id) => Some(id),
    }
}

fn to(rank: u32, synchronous: bool) -> Address {
    Address { context: 0, to: rank, tag: 5, synchronous, call: CallSignature::NONE }
}

fn from(rank: u32) -> Select {
    Select { context: 0, source: Some(rank), tag: Some(5), call: CallSignature::NONE }
}

#[test]
fn a_flood_falls_back_to_rendezvous_without_credit() {
    let (mut a, mut b) = pair(NetCapabilities { capacity: 100_000, ..PLAIN });
    let sends: Vec<OpId> = (0..5000).filter_map(|_| pending(&mut a, to(1, false), 1000)).collect();
    while b.progress() {}
    // A megabyte of credit covers about a thousand of these; the data of the rest stays at the sender.
    assert!((4000..=4100).contains(&sends.len()), "{} sends were not buffered", sends.len());
    let mut received = 0;
    while received < 5000 {
        let id = b.irecv(from(0), RecvTarget::Allocate { align: 1 });
        while !b.is_complete(id) {
            a.progress();
            b.progress();
        }
        b.take_result(id).unwrap().unwrap();
        received += 1;
    }
    while !sends.iter().all(|id| a.is_complete(*id)) {
        a.progress();
        b.progress();
    }
}

/// A peer sends a continuous flood that `try_recv` receives; other operations must advance meanwhile.
#[test]
fn a_flood_of_immediate_receives_starves_no_operation() {
    for ack_slots in [0, 512] {
        let (mut a, mut b) = pair(NetCapabilities { ack_slots, capacity: 100, ..PLAIN });
        // One waits for an acknowledgement, others for room in the channel.
        let mut sends = vec![pending(&mut b, to(0, true), 10).unwrap()];
        sends.extend((0..150).filter_map(|_| pending(&mut b, to(0, false), 10)));
        assert!(sends.len() > 10, "the channel had room for all");
        for _ in 0..151 {
            a.irecv(from(1), RecvTarget::Allocate { align: 1 });
        }
        let mut immediate = 0;
        for _ in 0..100_000 {
            a.progress();
            while a.try_send(to(1, false), &[7; 10]) {}
            match b.try_recv(from(0), &mut [0; 10]) {
                Some(_) => immediate += 1,
                None => {
                    b.irecv(from(0), RecvTarget::Into(bytes(10)));
                }
            }
        }
        let left = sends.iter().filter(|id| !b.is_complete(**id)).count();
        assert_eq!(left, 0, "sends that never complete beside a flood, of {}", sends.len());
        assert!(immediate > 10_000, "`try_recv` received only {immediate}");
    }
}

/// A blocking receive of a message of any length allocates what it needs. It takes the oldest message that no older
/// receive matches, whether that is in the channel or was queued, eager or by rendezvous.
#[test]
fn messages_of_any_length_get_new_memory() {
    for is_queued in [false, true] {
        // The receiver alone copies.
        let (mut a, mut b) = pair(NetCapabilities { bulk: true, ack_slots: 512, capacity: 100, ..PLAIN });
        let lengths = [(5, 0), (6, 1), (5, 16), (6, 1000), (5, 1024), (6, 1025), (5, 20_000), (5, 3)];
        let content = |len: usize| vec![len as u8 + 1; len];
        for (tag, len) in lengths {
            let started = a.isend(Address { tag, ..to(1, false) }, Span::from(Bytes::from(content(len)))).unwrap();
            if let Started::Pending(id) = started {
                a.abandon(id);
            }
        }
        if is_queued {
            while b.progress() {}
        }
        let any = Select { source: None, tag: None, ..from(0) };
        let older = b.irecv(Select { tag: Some(6), ..any }, RecvTarget::Allocate { align: 1 });
        for (select, len) in [(Select { tag: Some(6), ..any }, 1000), (any, 0), (any, 16), (from(0), 1024)] {
            assert_eq!(received(&mut b, select), content(len), "{len} bytes, queued: {is_queued}");
        }
        assert_eq!(b.wait(older).unwrap().envelope.bytes, 1);
        for len in [1025, 20_000, 3] {
            assert_eq!(received(&mut b, any), content(len), "{len} bytes, queued: {is_queued}");
        }
    }
}

/// A message of any length.
fn received(endpoint: &mut Endpoint, select: Select) -> Vec<u8> {
    let (envelope, bytes) = endpoint.recv_alloc(select, 8).unwrap();
    assert_eq!((envelope.bytes, bytes.as_slice().as_ptr().addr() % 8), (bytes.as_slice().len() as u64, 0));
    bytes.as_slice().to_vec()
}

#[test]
fn sends_to_a_finalizing_rank_fail() {
    let (mut a, mut b) = pair(PLAIN);
    let large = pending(&mut a, to(1, false), 100_000).unwrap();
    let synchronous = pending(&mut a, to(1, true), 10).unwrap();
    let receive = a.irecv(from(1), RecvTarget::Allocate { align: 1 });
    while b.progress() {}
    drop(b);
    for id in [large, synchronous, receive] {
        assert_eq!(a.wait(id).unwrap_err(), Error::PeerLost { rank: 1 });
    }
}

#[test]
fn messages_sent_before_finalizing_are_received() {
    let (mut a, b) = pair(PLAIN);
    let mut b = b;
    b.send(to(0, false), b"last words").unwrap();
    drop(b);
    let mut into = [0; 10];
    assert_eq!(a.recv(from(1), &mut into).unwrap().bytes, 10);
    assert_eq!(&into, b"last words");
    assert_eq!(a.recv(from(1), &mut into).unwrap_err(), Error::PeerLost { rank: 1 });
    assert_eq!(a.probe(from(1)).unwrap_err(), Error::PeerLost { rank: 1 });
    assert_eq!(a.send(to(1, true), b"hello?").unwrap_err(), Error::PeerLost { rank: 1 });
}

#[test]
fn truncated_messages_fail_their_receives_and_stay_queued() {
    for len in [11, 100_000] {
        let (mut a, mut b) = pair(PLAIN);
        let any = Select { context: 0, source: None, tag: Some(6), call: CallSignature::NONE };
        let receives = [from(0), any].map(|select| b.irecv(select, RecvTarget::Into(bytes(3))));
        let sends = [5, 6].map(|tag| pending(&mut a, Address { tag, ..to(1, true) }, len).unwrap());
        for _ in 0..1000 {
            a.progress();
            b.progress();
        }
        for id in receives {
            let result = b.take_result(id).expect("completed").unwrap_err();
            assert_eq!(result, Error::Truncated { got: len as u64, room: 3 });
        }
        for select in [any, from(0)] {
            assert_eq!(b.iprobe(select).unwrap().unwrap().bytes, len as u64);
            let id = b.irecv(select, RecvTarget::Allocate { align: 1 });
            while b.take_result(id).is_none() {
                a.progress();
                b.progress();
            }
        }
        while !sends.iter().all(|id| a.is_complete(*id)) {
            a.progress();
            b.progress();
        }
    }
}

#[test]
fn delayed_messages_are_received_after_their_sender_finalized() {
    for seed in 0..seeds() {
        let rng = Rng(rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(seed));
        let net = Net::new(rng, 2, PLAIN);
        let [mut a, mut b] = [0, 1].map(|rank| Endpoint::new(Box::new(Port::new(&net, rank))));
        let early = b.irecv(from(0), RecvTarget::Allocate { align: 1 });
        (0..3).for_each(|_| assert!(pending(&mut a, to(1, false), 8).is_none()));
        drop(a);
        assert_eq!(b.wait(early).map(|done| done.envelope.bytes), Ok(8), "seed {seed}");
        let late = b.irecv(from(0), RecvTarget::Allocate { align: 1 });
        assert_eq!(b.wait(late).map(|done| done.envelope.bytes), Ok(8), "seed {seed}");
        assert!(b.recv(from(0), &mut [0; 8]).is_ok(), "seed {seed}");
        assert_eq!(b.recv(from(0), &mut [0; 8]).unwrap_err(), Error::PeerLost { rank: 0 }, "seed {seed}");
    }
}
