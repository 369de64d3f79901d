//! What a message costs does not grow with what waits: of each queue, how many queued things were looked at for each message is
//! counted with few waiting and with many. There is no clock in it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rand_xoshiro::rand_core::SeedableRng;
use treepie_base::{Bytes, Error, Result, Span};
use treepie_fabric::{
    Address, Call, Endpoint, Id, OWN_BITS, PROTOCOL, Run, Select, Started, Target, Task, Why, effort,
};

use crate::net::{Net, Offers, Port, Rng};
use crate::{PLAIN, pending};

/// Channels that never fill up: what waits does so in the endpoints.
const WIDE: Offers = Offers { capacity: usize::MAX, ..PLAIN };

const FEW: usize = 100;
const MANY: usize = 30_000;

/// Does the same for few and for many messages, and compares how many things were looked at for each.
fn assert_flat(what: &str, fill_and_empty: impl Fn(usize)) {
    let each = |messages: usize| {
        let before = effort::looks();
        fill_and_empty(messages);
        (effort::looks() - before) as f64 / messages as f64
    };
    let (few, many) = (each(FEW), each(MANY));
    println!("{what}: {few:.1} looks with {FEW} waiting, {many:.1} with {MANY}");
    assert!(many <= 2.0 * few + 4.0, "{what}: {few:.1} looks with {FEW} waiting, {many:.1} with {MANY}");
}

fn ends<const N: usize>(offers: Offers) -> [Endpoint; N] {
    let net = Net::new(Rng(rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(1)), N as u32, offers);
    std::array::from_fn(|rank| Endpoint::new(Box::new(Port::new(&net, rank as u32))))
}

/// Handles all that has come; an engine that says once that nothing has may have something all the same.
fn settle(ends: &mut [&mut Endpoint]) {
    let mut in_vain = 0;
    while in_vain < 40 {
        let any = ends.iter_mut().fold(false, |any, end| end.progress() | any);
        in_vain = if any { 0 } else { in_vain + 1 };
    }
}

fn receive(end: &mut Endpoint, context: u32, tag: u64) -> Id {
    let select = Select { context, source: Some(0), tag: Some(tag), call: Call::NONE };
    end.start_recv(select, Target::Fresh { align: 1 })
}

fn address(context: u32, tag: u64) -> Address {
    Address { context, to: 1, tag, synchronous: false, call: Call::NONE }
}

/// Begins to send a short message; nobody asks how it ends.
fn send(end: &mut Endpoint, address: Address) {
    pending(end, address, 32).into_iter().for_each(|id| end.abandon(id));
}

const RUN: Run = Run { context: 1, tag: PROTOCOL | 5 << OWN_BITS };

/// Two ranks send messages of a protocol to the third, more than the credit lets through whole. They come before anybody listens,
/// or not; nothing is given out before all have come; and those of each source are given out in order.
fn protocol_messages(messages: usize, bulk: bool, listens_first: bool) {
    let [mut sink, mut a, mut b] = ends(Offers { bulk, ack_slots: 512, ..WIDE });
    if listens_first {
        sink.listen(RUN, 8);
    }
    for sequence in 0..messages as u64 / 2 {
        for end in [&mut a, &mut b] {
            let data = Span::from(Bytes::from([sequence, 0, 0, 0].to_vec()));
            let to = Address {
                context: RUN.context,
                to: 0,
                tag: RUN.tag | (sequence % 3),
                synchronous: false,
                call: Call::NONE,
            };
            if let Started::Pending(id) = end.start_send(to, data).unwrap() {
                end.abandon(id);
            }
        }
    }
    settle(&mut [&mut sink, &mut a, &mut b]);
    if !listens_first {
        sink.listen(RUN, 8);
        settle(&mut [&mut sink, &mut a, &mut b]);
    }
    let mut next = [0; 3];
    for _ in 0..messages / 2 * 2 {
        let (envelope, bytes) = sink.heard(RUN).expect("all have come").unwrap();
        let sequence = u64::from_ne_bytes(bytes.as_slice()[..8].try_into().unwrap());
        assert_eq!(sequence, next[envelope.source as usize], "of rank {}", envelope.source);
        next[envelope.source as usize] += 1;
    }
    assert!(sink.heard(RUN).is_none() && !sink.hears_more(RUN));
}

#[test]
fn messages_of_protocols() {
    for (bulk, listens_first) in [(false, false), (false, true), (true, false), (true, true)] {
        assert_flat("messages of protocols", |messages| protocol_messages(messages, bulk, listens_first));
    }
}

#[test]
fn a_message_that_moves_holds_up_those_of_its_source_only() {
    let [mut sink, mut a, mut b] = ends(WIDE);
    sink.listen(RUN, 8);
    let to = |tag| Address { context: RUN.context, to: 0, tag: RUN.tag | tag, synchronous: false, call: Call::NONE };
    // The first is long, so its data comes when its sender has heard that it is wanted.
    for (tag, len) in [(0, 5000), (1, 8), (2, 5000), (3, 8)] {
        pending(&mut a, to(tag), len);
    }
    settle(&mut [&mut sink]);
    assert!(sink.heard(RUN).is_none(), "a message has overtaken one of its source");
    pending(&mut b, to(9), 8);
    settle(&mut [&mut sink, &mut b]);
    let tag = |heard: Option<Result<_>>| {
        heard.map(|heard: Result<(treepie_fabric::Envelope, Bytes)>| heard.unwrap().0.tag & 15)
    };
    assert_eq!(tag(sink.heard(RUN)), Some(9), "a message waits for another source");
    settle(&mut [&mut sink, &mut a]);
    let order: Vec<u64> = std::iter::from_fn(|| tag(sink.heard(RUN))).collect();
    assert_eq!(order, [0, 1, 2, 3]);
}

#[test]
fn runs_of_protocols() {
    let run = |number: usize| Run {
        context: 1 + 2 * (number as u32 / 1000),
        tag: PROTOCOL | (number as u64 % 1000) << OWN_BITS,
    };
    assert_flat("runs of protocols", |runs| {
        let [mut a, mut b] = ends(WIDE);
        (0..runs).for_each(|number| b.listen(run(number), 1));
        for number in (0..runs).rev() {
            pending(&mut a, address(run(number).context, run(number).tag), 8);
        }
        settle(&mut [&mut a, &mut b]);
        for number in 0..runs {
            assert_eq!(b.heard(run(number)).expect("it has come").unwrap().0.bytes, 8);
            b.stop_listening(run(number));
        }
    });
}

#[test]
fn posted_receives() {
    assert_flat("posted receives", |messages| {
        let [mut a, mut b] = ends(WIDE);
        let receives: Vec<Id> = (0..messages as u64).map(|tag| receive(&mut b, 0, tag)).collect();
        (0..messages as u64).rev().for_each(|tag| send(&mut a, address(0, tag)));
        settle(&mut [&mut a, &mut b]);
        receives.iter().for_each(|id| assert!(b.result(*id).expect("it has come").is_ok()));
    });
}

#[test]
fn receives_that_are_cancelled_or_dropped() {
    assert_flat("cancelled receives", |receives| {
        let [mut b] = ends(WIDE);
        // One key for all, so that they are in one queue.
        let all: Vec<Id> = (0..receives)
            .map(|_| {
                b.start_recv(
                    Select { context: 0, source: None, tag: None, call: Call::NONE },
                    Target::Fresh { align: 1 },
                )
            })
            .collect();
        let (middle, rest) = all.split_at(receives / 2);
        middle.iter().rev().for_each(|id| assert!(b.cancel(*id)));
        rest.iter().for_each(|id| b.abandon(*id));
        assert!(all.iter().all(|id| !b.is_known(*id)));
    });
}

#[test]
fn unexpected_messages() {
    for wild in [false, true] {
        assert_flat("unexpected messages", |messages| {
            let [mut a, mut b] = ends(Offers { bulk: true, ack_slots: 512, ..WIDE });
            (0..messages as u64).for_each(|tag| send(&mut a, address(0, tag)));
            settle(&mut [&mut a, &mut b]);
            let mut receives = Vec::new();
            for tag in (0..messages as u64).rev() {
                let select =
                    Select { context: 0, source: (!wild).then_some(0), tag: (!wild).then_some(tag), call: Call::NONE };
                receives.push(b.start_recv(select, Target::Fresh { align: 1 }));
            }
            settle(&mut [&mut a, &mut b]);
            receives.iter().for_each(|id| assert!(b.result(*id).expect("it has come").is_ok()));
        });
    }
}

#[test]
fn messages_that_are_probed_and_put_back() {
    assert_flat("messages that are put back", |messages| {
        let [mut a, mut b] = ends(Offers { bulk: true, ack_slots: 512, ..WIDE });
        (0..messages as u64).for_each(|_| send(&mut a, address(0, 5)));
        settle(&mut [&mut a, &mut b]);
        for source in [Some(0), None].into_iter().cycle().take(messages) {
            let found =
                b.improbe(Select { context: 0, source, tag: Some(5), call: Call::NONE }).unwrap().expect("it has come");
            b.put_back(found);
        }
    });
}

#[test]
fn operations_that_are_watched() {
    assert_flat("operations of a completion queue", |messages| {
        let [mut a, mut b] = ends(WIDE);
        let queue = b.make_completion_queue();
        for tag in 0..messages as u32 {
            let id = receive(&mut b, 0, tag.into());
            b.watch_operation(id, queue, tag);
        }
        for tag in (0..messages as u64).rev() {
            send(&mut a, address(0, tag));
            let (id, token) = loop {
                // The sender hears that there is room again.
                a.progress();
                if let Some(ended) = b.test_ended(queue) {
                    break ended;
                }
            };
            assert_eq!(u64::from(token), tag);
            assert!(b.result(id).expect("it is over").is_ok());
        }
        b.remove_completion_queue(queue);
    });
}

#[test]
fn a_queue_forgets_what_it_no_longer_watches() {
    let [mut a, mut b] = ends(WIDE);
    let (kept, removed) = (b.make_completion_queue(), b.make_completion_queue());
    let ids = [0, 1, 2, 3].map(|tag| receive(&mut b, 0, tag));
    b.watch_operation(ids[0], kept, 7);
    b.watch_operation(ids[1], removed, 8);
    b.watch_operation(ids[2], kept, 9);
    b.unwatch_operation(ids[2]);
    b.watch_operation(ids[3], kept, 10);
    b.remove_completion_queue(removed);
    let other = b.make_completion_queue();
    (0..4).for_each(|tag| send(&mut a, address(0, tag)));
    settle(&mut [&mut a, &mut b]);
    assert_eq!((b.next_ended(kept), b.next_ended(kept)), (Some((ids[0], 7)), Some((ids[3], 10))));
    assert_eq!((b.next_ended(kept), b.next_ended(other)), (None, None));
    // One that is over is in the queue at once.
    b.watch_operation(ids[2], other, 11);
    assert_eq!(b.test_ended(other), Some((ids[2], 11)));
    assert!(ids.iter().all(|id| b.result(*id).is_some_and(|result| result.is_ok())));
}

/// Waits for one message and counts how often it is stepped.
struct Waits {
    tag: u32,
    receive: Option<Id>,
    steps: Rc<Cell<usize>>,
}

impl Task for Waits {
    fn step(&mut self, endpoint: &mut Endpoint) -> Option<Result<()>> {
        self.steps.set(self.steps.get() + 1);
        let tag = self.tag;
        let id = *self.receive.get_or_insert_with(|| receive(endpoint, 0, tag.into()));
        endpoint.result_envelope(id).map(|result| result.map(drop))
    }
}

#[test]
fn tasks_are_stepped_for_what_concerns_them() {
    assert_flat("tasks", |tasks| {
        let [mut a, mut b] = ends(WIDE);
        let steps = Rc::new(Cell::new(0));
        let mut spawn = |tag| {
            let task = Waits { tag, receive: None, steps: steps.clone() };
            b.spawn(Rc::new(RefCell::new(task)), None)
        };
        let ids: Vec<Id> = (0..tasks as u32).map(&mut spawn).collect();
        for (tag, id) in ids.iter().enumerate().rev() {
            send(&mut a, address(0, tag as u64));
            while !b.is_over(*id) {
                a.progress();
                b.test(*id).into_iter().for_each(|result| assert!(result.is_ok()));
            }
        }
        // When it is spawned, when its message has come, and once for what has become of others, which concerns all.
        assert!(steps.get() <= 3 * tasks, "{tasks} tasks were stepped {} times", steps.get());
    });
}

#[test]
fn tasks_that_are_given_up() {
    assert_flat("tasks that are given up", |tasks| {
        let [mut b, _] = ends(WIDE);
        let mut spawn = |tag| {
            let task = Waits { tag, receive: None, steps: Rc::default() };
            b.spawn(Rc::new(RefCell::new(task)), None)
        };
        let ids: Vec<Id> = (0..tasks as u32).map(&mut spawn).collect();
        ids.iter().rev().for_each(|id| assert!(b.give_up(*id)));
    });
}

#[test]
fn what_was_given_up() {
    let unexpected = |given_up: u64| {
        let [mut a, mut b] = ends(WIDE);
        for number in 0..given_up {
            b.give_up_messages(1, 0xffff << 4, number << 4, Why::Unsaid);
            a.give_up_messages(1, 0xffff << 4, number << 4, Why::Unsaid);
            a.tell_gave_up(1, 0xffff << 4, number << 4, Why::Unsaid, [1].into_iter());
        }
        settle(&mut [&mut a, &mut b]);
        let before = effort::looks();
        for tag in 0..1000 {
            // Bits that were not given up.
            let tag = 0xffff << 4 | tag << 20;
            send(&mut a, address(1, tag));
            settle(&mut [&mut b]);
            let id = receive(&mut b, 1, tag);
            assert!(b.result(id).expect("it has come").is_ok());
            assert_eq!(b.given_up_by(Run { context: 3, tag: 0 }, |_| true), None);
        }
        effort::looks() - before
    };
    let (few, many) = (unexpected(2), unexpected(2000));
    assert!(many <= 2 * few, "{few} looks with 2 given up, {many} with 2000");
}

#[test]
fn receives_that_a_peer_gives_up() {
    assert_flat("receives that a peer gives up", |receives| {
        let [mut a, mut b] = ends(WIDE);
        let ids: Vec<Id> = (0..receives as u64).map(|number| receive(&mut b, 1, number << 4)).collect();
        for number in 0..receives as u64 {
            a.tell_gave_up(1, 0xffff << 4, number << 4, Why::Unsaid, [1].into_iter());
        }
        for id in ids {
            while !b.is_over(id) {
                b.progress();
            }
            assert_eq!(b.result(id).expect("over").unwrap_err(), Error::GaveUp { rank: 0 });
        }
    });
}

/// Who waits, and finds each time that nothing has come, looks at little for it, also if much was under way once and messages of
/// other operations lie there.
#[test]
fn waiting_after_much_was_under_way() {
    const WAITS: u64 = 1000;
    let [mut a, mut b] = ends(WIDE);
    let posted: Vec<Id> = (0..MANY as u64).map(|tag| receive(&mut b, 2, tag)).collect();
    posted.into_iter().for_each(|id| b.abandon(id));
    let early = Address { call: Call::named("barrier"), ..address(1, 7 << OWN_BITS) };
    send(&mut a, early);
    settle(&mut [&mut a, &mut b]);
    let before = effort::looks();
    for _ in 0..WAITS {
        let mut patience = treepie_fabric::Patience::default();
        // So often that it looks after what those who wait do, once.
        (0..256).for_each(|_| b.rest(&mut patience));
    }
    let looks = (effort::looks() - before) / WAITS;
    assert!(looks < 1000, "{looks} looks for each time");
}
