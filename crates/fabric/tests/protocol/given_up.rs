//! Messages that one side has given up: senders are refused, receivers are told, and the same tags can be used again.

use treepie_base::{Error, Span};
use treepie_fabric::{Address, Call, Endpoint, Id, Run, Select, Target, Why, run_tag};

use crate::{Offers, PLAIN, bytes, pair, pending};

const MASK: u64 = 0xff00;

fn to(rank: u32, tag: u64) -> Address {
    Address { context: 1, to: rank, tag, synchronous: false, call: Call::NONE }
}

fn from(rank: u32, tag: u64) -> Select {
    Select { context: 1, source: Some(rank), tag: Some(tag), call: Call::NONE }
}

fn receive(end: &mut Endpoint, tag: u64) -> Id {
    end.start_recv(from(0, tag), Target::Fresh { align: 1 })
}

fn both(a: &mut Endpoint, b: &mut Endpoint) {
    for _ in 0..1000 {
        a.progress();
        b.progress();
    }
}

#[test]
fn a_synchronous_message_to_oneself_that_is_given_up_says_why() {
    let lost = Error::PeerLost { rank: 1 };
    for (why, error) in [(Why::of(&lost), lost), (Why::Unsaid, Error::GaveUp { rank: 0 })] {
        let (mut a, _b) = pair(PLAIN);
        let sent = pending(&mut a, Address { synchronous: true, ..to(0, 0x305) }, 10).unwrap();
        a.give_up_messages(1, MASK, 0x300, why);
        assert_eq!(a.result(sent).expect("over").unwrap_err(), error);
    }
}

#[test]
fn what_was_given_up_is_thrown_away_until_it_is_forgotten() {
    let (mut a, mut b) = pair(PLAIN);
    b.give_up_messages(1, MASK, 0x300, Why::Unsaid);
    let long = pending(&mut a, to(1, 0x305), 100_000).unwrap();
    pending(&mut a, to(1, 0x306), 10);
    both(&mut a, &mut b);
    assert_eq!(a.result(long).expect("an answer").unwrap_err(), Error::GaveUp { rank: 1 });
    assert_eq!(b.iprobe(from(0, 0x306)), Ok(None));
    // Other bits, and other contexts, are forgotten in vain.
    b.forget_given_up(1, 0x400, 0x500);
    b.forget_given_up(3, 0x300, 0x300);
    pending(&mut a, to(1, 0x306), 10);
    both(&mut a, &mut b);
    assert_eq!(b.iprobe(from(0, 0x306)), Ok(None));
    b.forget_given_up(1, 0x400, 0x300);
    pending(&mut a, to(1, 0x306), 10);
    both(&mut a, &mut b);
    assert_eq!(b.iprobe(from(0, 0x306)).unwrap().unwrap().bytes, 10);
}

#[test]
fn what_was_given_up_is_forgotten_when_its_bits_are_used() {
    let (mut a, mut b) = pair(PLAIN);
    b.give_up_messages(1, MASK, 0x300, Why::Unsaid);
    b.forget_given_up(1, 0x300, 0x900);
    pending(&mut a, to(1, 0x306), 10);
    both(&mut a, &mut b);
    assert_eq!(b.iprobe(from(0, 0x306)).unwrap().unwrap().bytes, 10);
}

#[test]
fn whoever_waits_for_what_a_peer_gave_up_is_told() {
    for capacity in [1, 100] {
        let (mut a, mut b) = pair(Offers { capacity, ..PLAIN });
        let waiting: Vec<Id> = [0x305, 0x306, 0x405].map(|tag| receive(&mut b, tag)).to_vec();
        let elsewhere = b.start_recv(Select { context: 3, ..from(0, 0x305) }, Target::Fresh { align: 1 });
        let anything = b.start_recv(Select { tag: None, ..from(0, 0) }, Target::Fresh { align: 1 });
        // What was sent before counts, also if its data is still here.
        let long = pending(&mut a, to(1, 0x305), 100_000).unwrap();
        let after = receive(&mut b, 0x305);
        a.tell_gave_up(1, MASK, 0x300, Why::Unsaid, [0, 1].into_iter());
        both(&mut a, &mut b);
        assert_eq!(b.result(waiting[0]).expect("over").unwrap().envelope.bytes, 100_000);
        assert!(a.result(long).expect("over").is_ok());
        for id in [waiting[1], after] {
            assert_eq!(b.result(id).expect("over").unwrap_err(), Error::GaveUp { rank: 0 });
        }
        assert!(![waiting[2], elsewhere, anything].iter().any(|id| b.is_over(*id)), "others wait on");
        [waiting[2], elsewhere, anything].into_iter().for_each(|id| b.abandon(id));
        // Those that are begun later, of both kinds, until it is forgotten.
        let late = receive(&mut b, 0x307);
        assert_eq!(b.result(late).expect("over").unwrap_err(), Error::GaveUp { rank: 0 });
        assert_eq!(b.recv(from(0, 0x307), &mut [0; 4]).unwrap_err(), Error::GaveUp { rank: 0 });
        // The rank that begins it only now has not heard of an earlier one.
        b.forget_given_up(1, 0x300, 0xb00);
        let late = receive(&mut b, 0x307);
        assert_eq!(b.result(late).expect("over").unwrap_err(), Error::GaveUp { rank: 0 });
        b.forget_given_up(1, 0xb00, 0x300);
        let again = receive(&mut b, 0x307);
        pending(&mut a, to(1, 0x307), 10);
        both(&mut a, &mut b);
        assert_eq!(b.result(again).expect("over").unwrap().envelope.bytes, 10);
    }
}

/// Whoever fails for another's sake passes on whose: all name the rank with which it began.
#[test]
fn those_who_are_told_name_the_rank_that_gave_up_first() {
    for error in [Error::GaveUp { rank: 5 }, Error::PeerLost { rank: 0 }, Error::PeerLost { rank: 100_000 }] {
        let (mut a, mut b) = pair(PLAIN);
        let waiting = receive(&mut b, 0x305);
        a.tell_gave_up(1, MASK, 0x300, Why::of(&error), std::iter::once(1));
        // Whoever sends it something hears the same, whether that was there before or comes later.
        let before = pending(&mut b, to(0, 0x308), 100_000).unwrap();
        both(&mut a, &mut b);
        a.give_up_messages(1, MASK, 0x300, Why::of(&error));
        let after = pending(&mut b, to(0, 0x309), 100_000).unwrap();
        both(&mut a, &mut b);
        for send in [before, after] {
            assert_eq!(b.result(send).expect("an answer").unwrap_err(), error);
        }
        both(&mut a, &mut b);
        assert_eq!(b.result(waiting).expect("over").unwrap_err(), error);
        let late = receive(&mut b, 0x307);
        assert_eq!(b.result(late).expect("over").unwrap_err(), error);
        assert_eq!(b.recv(from(0, 0x307), &mut [0; 4]).unwrap_err(), error);
        assert_eq!(b.given_up_by(Run { context: 1, tag: 0x300 }, |rank| rank == 0), Some(error));
    }
}

#[test]
fn a_message_that_is_there_is_received_from_a_peer_that_gave_up_more() {
    let (mut a, mut b) = pair(PLAIN);
    pending(&mut a, to(1, 0x305), 10);
    a.tell_gave_up(1, MASK, 0x300, Why::Unsaid, std::iter::once(1));
    both(&mut a, &mut b);
    let first = receive(&mut b, 0x305);
    assert_eq!(b.result(first).expect("over").unwrap().envelope.bytes, 10);
    assert_eq!(b.recv(from(0, 0x305), &mut [0; 10]).unwrap_err(), Error::GaveUp { rank: 0 });
}

/// However many they are, until this rank is past them.
#[test]
fn all_that_a_peer_gave_up_is_remembered() {
    let (mut a, mut b) = pair(Offers { capacity: 1000, ..PLAIN });
    const MANY: u32 = 10_000;
    for number in 0..MANY {
        a.tell_gave_up(1, run_tag(u32::MAX), run_tag(number), Why::Unsaid, std::iter::once(1));
        if number % 500 == 0 {
            both(&mut a, &mut b);
        }
    }
    both(&mut a, &mut b);
    for number in [0, 3, 4095, 4096, MANY - 1] {
        let receive = receive(&mut b, run_tag(number) | 5);
        assert_eq!(b.result(receive).expect("over").unwrap_err(), Error::GaveUp { rank: 0 });
    }
    // The last few before an operation that begins may not be over: in checked mode a call is compared under the number before.
    b.forget_given_up(1, run_tag(100), run_tag(100 + (1 << 31)));
    let [past, last, next] = [50, 99, 100].map(|number| receive(&mut b, run_tag(number)));
    assert!(!b.is_over(past) && b.is_over(last) && b.is_over(next));
    b.abandon(past);
}

/// The same for what nobody here receives: senders that wait are told.
#[test]
fn all_that_was_given_up_is_refused() {
    let (mut a, mut b) = pair(PLAIN);
    const MANY: u32 = 10_000;
    (0..MANY).for_each(|number| b.give_up_messages(1, run_tag(u32::MAX), run_tag(number), Why::Unsaid));
    for number in [0, 4096, MANY - 1] {
        let long = pending(&mut a, to(1, run_tag(number) | 5), 100_000).unwrap();
        both(&mut a, &mut b);
        assert_eq!(a.result(long).expect("an answer").unwrap_err(), Error::GaveUp { rank: 1 });
    }
    let other = pending(&mut a, to(1, run_tag(MANY)), 100_000).unwrap();
    both(&mut a, &mut b);
    assert!(!a.is_over(other));
    b.start_recv(from(0, run_tag(MANY)), Target::Fresh { align: 1 });
    both(&mut a, &mut b);
    assert!(a.result(other).expect("over").is_ok());
}

#[test]
#[should_panic(expected = "lent for reading")]
fn memory_that_was_lent_for_reading_is_not_received_into() {
    let (mut a, mut b) = pair(PLAIN);
    a.send(to(1, 5), b"abc").unwrap();
    let lent: Span = treepie_base::Region::from(treepie_base::Bytes::zeroed(3, 1)).part(0..3);
    b.start_recv(from(0, 5), Target::Into(lent));
    both(&mut a, &mut b);
}

/// An engine that moves data itself writes by the address alone.
#[test]
#[should_panic(expected = "may be written")]
fn memory_that_was_lent_for_reading_is_not_given_to_an_engine() {
    let (mut a, mut b) = pair(Offers { bulk: true, ..PLAIN });
    let _send = a.start_send(to(1, 5), bytes(5000));
    let lent: Span = treepie_base::Region::from(treepie_base::Bytes::zeroed(5000, 1)).part(0..5000);
    b.start_recv(from(0, 5), Target::Into(lent));
    both(&mut a, &mut b);
}

/// Of a protocol, too, that a peer runs under the number of what is given up.
#[test]
fn early_messages_of_a_protocol_are_refused() {
    let (mut a, mut b) = pair(PLAIN);
    let tag = run_tag(3) | treepie_fabric::PROTOCOL | 1;
    let synchronous = pending(&mut a, Address { synchronous: true, ..to(1, tag) }, 10).unwrap();
    both(&mut a, &mut b);
    assert!(a.result(synchronous).is_none(), "nobody has listened");
    b.give_up_messages(1, run_tag(u32::MAX), run_tag(3), Why::Unsaid);
    both(&mut a, &mut b);
    assert_eq!(a.result(synchronous).expect("an answer").unwrap_err(), Error::GaveUp { rank: 1 });
}
