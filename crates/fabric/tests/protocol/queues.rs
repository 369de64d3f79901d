//! The cost of a message does not grow with queue lengths: for each queue, these tests compare the search depth per
//! message with few and with many queued entries. They use no clock.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rand_xoshiro::rand_core::SeedableRng;
use treepie_base::{Bytes, Error, Result, Span};
use treepie_fabric::{
    AbortReason, Address, CallSignature, Endpoint, OpId, PROTOCOL_TAG_BIT, ProtocolInstance, RecvTarget, SUBTAG_BITS,
    Select, Started, Task, search_depth,
};

use crate::net::{Net, NetCapabilities, Port, Rng};
use crate::{PLAIN, pending};

/// Channels that never fill up: all queues are in the endpoints.
const WIDE: NetCapabilities = NetCapabilities { capacity: usize::MAX, ..PLAIN };

const FEW: usize = 100;
const MANY: usize = 30_000;

/// Runs the same test with few and with many messages, and compares the search depth per message.
fn assert_flat(what: &str, fill_and_empty: impl Fn(usize)) {
    let each = |messages: usize| {
        let before = search_depth::steps();
        fill_and_empty(messages);
        (search_depth::steps() - before) as f64 / messages as f64
    };
    let (few, many) = (each(FEW), each(MANY));
    println!("{what}: {few:.1} steps with {FEW} queued, {many:.1} with {MANY}");
    assert!(many <= 2.0 * few + 4.0, "{what}: {few:.1} steps with {FEW} queued, {many:.1} with {MANY}");
}

fn endpoints<const N: usize>(capabilities: NetCapabilities) -> [Endpoint; N] {
    let net = Net::new(Rng(rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(1)), N as u32, capabilities);
    std::array::from_fn(|rank| Endpoint::new(Box::new(Port::new(&net, rank as u32))))
}

/// Makes progress until no events are left; the engine may hide events in a single poll.
fn settle(endpoints: &mut [&mut Endpoint]) {
    let mut idle_rounds = 0;
    while idle_rounds < 40 {
        let any = endpoints.iter_mut().fold(false, |any, endpoint| endpoint.progress() | any);
        idle_rounds = if any { 0 } else { idle_rounds + 1 };
    }
}

fn receive(endpoint: &mut Endpoint, context: u32, tag: u64) -> OpId {
    let select = Select { context, source: Some(0), tag: Some(tag), call: CallSignature::NONE };
    endpoint.irecv(select, RecvTarget::Allocate { align: 1 })
}

fn address(context: u32, tag: u64) -> Address {
    Address { context, to: 1, tag, synchronous: false, call: CallSignature::NONE }
}

/// Starts to send an eager message and abandons the request.
fn send(endpoint: &mut Endpoint, address: Address) {
    pending(endpoint, address, 32).into_iter().for_each(|id| endpoint.abandon(id));
}

const INSTANCE: ProtocolInstance = ProtocolInstance { context: 1, tag: PROTOCOL_TAG_BIT | 5 << SUBTAG_BITS };

/// Two ranks send messages of a protocol to a third, more than the credit limit lets through eagerly, before or after
/// it opens the instance. Messages of each source are delivered in order, after all have arrived.
fn protocol_messages(messages: usize, bulk: bool, opens_first: bool) {
    let [mut sink, mut a, mut b] = endpoints(NetCapabilities { bulk, ack_slots: 512, ..WIDE });
    if opens_first {
        sink.open_protocol(INSTANCE, 8);
    }
    for sequence in 0..messages as u64 / 2 {
        for endpoint in [&mut a, &mut b] {
            let data = Span::from(Bytes::from([sequence, 0, 0, 0].to_vec()));
            let to = Address {
                context: INSTANCE.context,
                to: 0,
                tag: INSTANCE.tag | (sequence % 3),
                synchronous: false,
                call: CallSignature::NONE,
            };
            if let Started::Pending(id) = endpoint.isend(to, data).unwrap() {
                endpoint.abandon(id);
            }
        }
    }
    settle(&mut [&mut sink, &mut a, &mut b]);
    if !opens_first {
        sink.open_protocol(INSTANCE, 8);
        settle(&mut [&mut sink, &mut a, &mut b]);
    }
    let mut next = [0; 3];
    for _ in 0..messages / 2 * 2 {
        let (envelope, bytes) = sink.recv_protocol(INSTANCE).expect("all have arrived").unwrap();
        let sequence = u64::from_ne_bytes(bytes.as_slice()[..8].try_into().unwrap());
        assert_eq!(sequence, next[envelope.source as usize], "of rank {}", envelope.source);
        next[envelope.source as usize] += 1;
    }
    assert!(sink.recv_protocol(INSTANCE).is_none() && !sink.has_protocol_messages(INSTANCE));
}

#[test]
fn protocol_messages_of_two_sources() {
    for (bulk, opens_first) in [(false, false), (false, true), (true, false), (true, true)] {
        assert_flat("protocol messages", |messages| protocol_messages(messages, bulk, opens_first));
    }
}

/// Where the engine has room for few records to all ranks together, none waits for all records to another: eager messages
/// leave in the order in which they were sent, and the records of long ones in turn.
#[test]
fn records_to_several_ranks_leave_in_order() {
    for len in [32, 5000] {
        let net = Net::new(Rng(rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(1)), 4, WIDE);
        net.borrow_mut().port = 2;
        let mut all: [Endpoint; 4] = std::array::from_fn(|rank| Endpoint::new(Box::new(Port::new(&net, rank as u32))));
        for receiver in &mut all[1..] {
            for tag in 0..4 {
                receive(receiver, 1, tag);
            }
        }
        for tag in 0..4 {
            for to in [2, 3, 1] {
                let started = pending(&mut all[0], Address { to, ..address(1, tag) }, len);
                started.into_iter().for_each(|id| all[0].abandon(id));
            }
        }
        settle(&mut all.each_mut());
        let sent: Vec<u32> = net.borrow().sent.iter().copied().filter(|to| *to != 0).collect();
        let of_each = if len == 32 { 4 } else { 4 * (1 + 5) };
        assert_eq!(sent.len(), 3 * of_each);
        // In turn: no rank is ahead of another by more than what the messages of one tag have.
        let ahead = |end: usize| {
            let counts = [1, 2, 3].map(|rank| sent[..end].iter().filter(|to| **to == rank).count());
            counts.iter().max().unwrap() - counts.iter().min().unwrap()
        };
        let most = (0..sent.len()).map(ahead).max().unwrap();
        assert!(most <= if len == 32 { 1 } else { 3 }, "{most} records ahead, {len} bytes: {sent:?}");
    }
}

#[test]
fn a_transfer_blocks_only_messages_of_its_source() {
    let [mut sink, mut a, mut b] = endpoints(WIDE);
    sink.open_protocol(INSTANCE, 8);
    let to = |tag| Address {
        context: INSTANCE.context,
        to: 0,
        tag: INSTANCE.tag | tag,
        synchronous: false,
        call: CallSignature::NONE,
    };
    // The first uses rendezvous, so its data arrives after a CTS.
    for (tag, len) in [(0, 5000), (1, 8), (2, 5000), (3, 8)] {
        pending(&mut a, to(tag), len);
    }
    settle(&mut [&mut sink]);
    assert!(sink.recv_protocol(INSTANCE).is_none(), "a message has overtaken one of its source");
    pending(&mut b, to(9), 8);
    settle(&mut [&mut sink, &mut b]);
    let tag = |received: Option<Result<_>>| {
        received.map(|received: Result<(treepie_fabric::Envelope, Bytes)>| received.unwrap().0.tag & 15)
    };
    assert_eq!(tag(sink.recv_protocol(INSTANCE)), Some(9), "a message waits for another source");
    settle(&mut [&mut sink, &mut a]);
    let order: Vec<u64> = std::iter::from_fn(|| tag(sink.recv_protocol(INSTANCE))).collect();
    assert_eq!(order, [0, 1, 2, 3]);
}

#[test]
fn protocol_instances() {
    let instance = |number: usize| ProtocolInstance {
        context: 1 + 2 * (number as u32 / 1000),
        tag: PROTOCOL_TAG_BIT | (number as u64 % 1000) << SUBTAG_BITS,
    };
    assert_flat("protocol instances", |instances| {
        let [mut a, mut b] = endpoints(WIDE);
        (0..instances).for_each(|number| b.open_protocol(instance(number), 1));
        for number in (0..instances).rev() {
            pending(&mut a, address(instance(number).context, instance(number).tag), 8);
        }
        settle(&mut [&mut a, &mut b]);
        for number in 0..instances {
            assert_eq!(b.recv_protocol(instance(number)).expect("arrived").unwrap().0.bytes, 8);
            b.close_protocol(instance(number));
        }
    });
}

#[test]
fn posted_receives() {
    assert_flat("posted receives", |messages| {
        let [mut a, mut b] = endpoints(WIDE);
        let receives: Vec<OpId> = (0..messages as u64).map(|tag| receive(&mut b, 0, tag)).collect();
        (0..messages as u64).rev().for_each(|tag| send(&mut a, address(0, tag)));
        settle(&mut [&mut a, &mut b]);
        receives.iter().for_each(|id| assert!(b.take_result(*id).expect("arrived").is_ok()));
    });
}

#[test]
fn cancelled_and_abandoned_receives() {
    assert_flat("cancelled receives", |receives| {
        let [mut b] = endpoints(WIDE);
        // One key for all, so that they share a queue.
        let all: Vec<OpId> = (0..receives)
            .map(|_| {
                b.irecv(
                    Select { context: 0, source: None, tag: None, call: CallSignature::NONE },
                    RecvTarget::Allocate { align: 1 },
                )
            })
            .collect();
        let (middle, rest) = all.split_at(receives / 2);
        middle.iter().rev().for_each(|id| assert!(b.cancel(*id)));
        rest.iter().for_each(|id| b.abandon(*id));
        assert!(all.iter().all(|id| !b.exists(*id)));
    });
}

#[test]
fn unexpected_messages() {
    for wild in [false, true] {
        assert_flat("unexpected messages", |messages| {
            let [mut a, mut b] = endpoints(NetCapabilities { bulk: true, ack_slots: 512, ..WIDE });
            (0..messages as u64).for_each(|tag| send(&mut a, address(0, tag)));
            settle(&mut [&mut a, &mut b]);
            let mut receives = Vec::new();
            for tag in (0..messages as u64).rev() {
                let select = Select {
                    context: 0,
                    source: (!wild).then_some(0),
                    tag: (!wild).then_some(tag),
                    call: CallSignature::NONE,
                };
                receives.push(b.irecv(select, RecvTarget::Allocate { align: 1 }));
            }
            settle(&mut [&mut a, &mut b]);
            receives.iter().for_each(|id| assert!(b.take_result(*id).expect("arrived").is_ok()));
        });
    }
}

#[test]
fn requeued_messages() {
    assert_flat("requeued messages", |messages| {
        let [mut a, mut b] = endpoints(NetCapabilities { bulk: true, ack_slots: 512, ..WIDE });
        (0..messages as u64).for_each(|_| send(&mut a, address(0, 5)));
        settle(&mut [&mut a, &mut b]);
        for source in [Some(0), None].into_iter().cycle().take(messages) {
            let found = b
                .improbe(Select { context: 0, source, tag: Some(5), call: CallSignature::NONE })
                .unwrap()
                .expect("arrived");
            b.requeue(found);
        }
    });
}

#[test]
fn watched_operations() {
    assert_flat("operations of a completion queue", |messages| {
        let [mut a, mut b] = endpoints(WIDE);
        let queue = b.create_completion_queue();
        for tag in 0..messages as u32 {
            let id = receive(&mut b, 0, tag.into());
            b.watch_operation(id, queue, tag);
        }
        for tag in (0..messages as u64).rev() {
            send(&mut a, address(0, tag));
            let (id, token) = loop {
                // The sender gets its credit back.
                a.progress();
                if let Some(completed) = b.test_completion(queue) {
                    break completed;
                }
            };
            assert_eq!(u64::from(token), tag);
            assert!(b.take_result(id).expect("completed").is_ok());
        }
        b.remove_completion_queue(queue);
    });
}

#[test]
fn a_queue_forgets_what_it_no_longer_watches() {
    let [mut a, mut b] = endpoints(WIDE);
    let (kept, removed) = (b.create_completion_queue(), b.create_completion_queue());
    let ids = [0, 1, 2, 3].map(|tag| receive(&mut b, 0, tag));
    b.watch_operation(ids[0], kept, 7);
    b.watch_operation(ids[1], removed, 8);
    b.watch_operation(ids[2], kept, 9);
    b.unwatch_operation(ids[2]);
    b.watch_operation(ids[3], kept, 10);
    b.remove_completion_queue(removed);
    let other = b.create_completion_queue();
    (0..4).for_each(|tag| send(&mut a, address(0, tag)));
    settle(&mut [&mut a, &mut b]);
    assert_eq!((b.poll_completion(kept), b.poll_completion(kept)), (Some((ids[0], 7)), Some((ids[3], 10))));
    assert_eq!((b.poll_completion(kept), b.poll_completion(other)), (None, None));
    // A completed operation enters the queue at once.
    b.watch_operation(ids[2], other, 11);
    assert_eq!(b.test_completion(other), Some((ids[2], 11)));
    assert!(ids.iter().all(|id| b.take_result(*id).is_some_and(|result| result.is_ok())));
}

/// Waits for one message and counts its steps.
struct WaitForMessage {
    tag: u32,
    receive: Option<OpId>,
    steps: Rc<Cell<usize>>,
}

impl Task for WaitForMessage {
    fn step(&mut self, endpoint: &mut Endpoint) -> Option<Result<()>> {
        self.steps.set(self.steps.get() + 1);
        let tag = self.tag;
        let id = *self.receive.get_or_insert_with(|| receive(endpoint, 0, tag.into()));
        endpoint.take_envelope(id).map(|result| result.map(drop))
    }
}

#[test]
fn tasks_are_stepped_only_when_ready() {
    assert_flat("tasks", |tasks| {
        let [mut a, mut b] = endpoints(WIDE);
        let steps = Rc::new(Cell::new(0));
        let mut spawn = |tag| {
            let task = WaitForMessage { tag, receive: None, steps: steps.clone() };
            b.spawn(Rc::new(RefCell::new(task)), None)
        };
        let ids: Vec<OpId> = (0..tasks as u32).map(&mut spawn).collect();
        for (tag, id) in ids.iter().enumerate().rev() {
            send(&mut a, address(0, tag as u64));
            while !b.is_complete(*id) {
                a.progress();
                b.test(*id).into_iter().for_each(|result| assert!(result.is_ok()));
            }
        }
        // On spawn, on arrival of its message, and once for a change of liveness, which marks all tasks.
        assert!(steps.get() <= 3 * tasks, "{tasks} tasks were stepped {} times", steps.get());
    });
}

#[test]
fn aborted_tasks() {
    assert_flat("aborted tasks", |tasks| {
        let [mut b, _] = endpoints(WIDE);
        let mut spawn = |tag| {
            let task = WaitForMessage { tag, receive: None, steps: Rc::default() };
            b.spawn(Rc::new(RefCell::new(task)), None)
        };
        let ids: Vec<OpId> = (0..tasks as u32).map(&mut spawn).collect();
        ids.iter().rev().for_each(|id| assert!(b.abort_task(*id)));
    });
}

#[test]
fn aborted_operations() {
    let depth = |aborts: u64| {
        let [mut a, mut b] = endpoints(WIDE);
        for number in 0..aborts {
            b.abort_messages(1, 0xffff << 4, number << 4, AbortReason::Unspecified);
            a.abort_messages(1, 0xffff << 4, number << 4, AbortReason::Unspecified);
            a.announce_abort(1, 0xffff << 4, number << 4, AbortReason::Unspecified, [1].into_iter());
        }
        settle(&mut [&mut a, &mut b]);
        let before = search_depth::steps();
        for tag in 0..1000 {
            // Bits that were not aborted.
            let tag = 0xffff << 4 | tag << 20;
            send(&mut a, address(1, tag));
            settle(&mut [&mut b]);
            let id = receive(&mut b, 1, tag);
            assert!(b.take_result(id).expect("arrived").is_ok());
            assert_eq!(b.abort_error(ProtocolInstance { context: 3, tag: 0 }, |_| true), None);
        }
        search_depth::steps() - before
    };
    let (few, many) = (depth(2), depth(2000));
    assert!(many <= 2 * few, "{few} steps with 2 aborts, {many} with 2000");
}

#[test]
fn receives_aborted_by_a_peer() {
    assert_flat("receives aborted by a peer", |receives| {
        let [mut a, mut b] = endpoints(WIDE);
        let ids: Vec<OpId> = (0..receives as u64).map(|number| receive(&mut b, 1, number << 4)).collect();
        for number in 0..receives as u64 {
            a.announce_abort(1, 0xffff << 4, number << 4, AbortReason::Unspecified, [1].into_iter());
        }
        for id in ids {
            while !b.is_complete(id) {
                b.progress();
            }
            assert_eq!(b.take_result(id).expect("completed").unwrap_err(), Error::Aborted { rank: 0 });
        }
    });
}

/// A wait without events has a small search depth, even after many operations were pending and while messages of other
/// operations are queued.
#[test]
fn waiting_after_many_operations() {
    const WAITS: u64 = 1000;
    let [mut a, mut b] = endpoints(WIDE);
    let posted: Vec<OpId> = (0..MANY as u64).map(|tag| receive(&mut b, 2, tag)).collect();
    posted.into_iter().for_each(|id| b.abandon(id));
    let early = Address { call: CallSignature::from_name("barrier"), ..address(1, 7 << SUBTAG_BITS) };
    send(&mut a, early);
    settle(&mut [&mut a, &mut b]);
    let before = search_depth::steps();
    for _ in 0..WAITS {
        let mut backoff = treepie_fabric::Backoff::default();
        // Enough rounds for one run of the periodic checks.
        (0..256).for_each(|_| b.backoff_collective(&mut backoff));
    }
    let steps = (search_depth::steps() - before) / WAITS;
    assert!(steps < 1000, "{steps} steps per wait");
}
