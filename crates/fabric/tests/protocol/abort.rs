//! Aborted messages: sends are rejected, receives fail, and the tags can be reused.

use treepie_base::{Error, Span};
use treepie_fabric::{
    AbortReason, Address, CallSignature, Endpoint, OpId, ProtocolInstance, RecvTarget, Select, operation_tag,
};

use crate::{NetCapabilities, PLAIN, bytes, pair, pending};

const MASK: u64 = 0xff00;

fn to(rank: u32, tag: u64) -> Address {
    Address { context: 1, to: rank, tag, synchronous: false, call: CallSignature::NONE }
}

fn from(rank: u32, tag: u64) -> Select {
    Select { context: 1, source: Some(rank), tag: Some(tag), call: CallSignature::NONE }
}

fn receive(endpoint: &mut Endpoint, tag: u64) -> OpId {
    endpoint.irecv(from(0, tag), RecvTarget::Allocate { align: 1 })
}

fn progress_both(a: &mut Endpoint, b: &mut Endpoint) {
    for _ in 0..1000 {
        a.progress();
        b.progress();
    }
}

#[test]
fn an_aborted_ssend_to_self_reports_the_reason() {
    let lost = Error::PeerLost { rank: 1 };
    for (reason, error) in
        [(AbortReason::from_error(&lost), lost), (AbortReason::Unspecified, Error::Aborted { rank: 0 })]
    {
        let (mut a, _b) = pair(PLAIN);
        let sent = pending(&mut a, Address { synchronous: true, ..to(0, 0x305) }, 10).unwrap();
        a.abort_messages(1, MASK, 0x300, reason);
        assert_eq!(a.take_result(sent).expect("completed").unwrap_err(), error);
    }
}

#[test]
fn aborted_messages_are_discarded_until_forgotten() {
    let (mut a, mut b) = pair(PLAIN);
    b.abort_messages(1, MASK, 0x300, AbortReason::Unspecified);
    let long = pending(&mut a, to(1, 0x305), 100_000).unwrap();
    pending(&mut a, to(1, 0x306), 10);
    progress_both(&mut a, &mut b);
    assert_eq!(a.take_result(long).expect("rejected").unwrap_err(), Error::Aborted { rank: 1 });
    assert_eq!(b.iprobe(from(0, 0x306)), Ok(None));
    // Forgetting other bits or other contexts has no effect.
    b.forget_aborts(1, 0x400, 0x500);
    b.forget_aborts(3, 0x300, 0x300);
    pending(&mut a, to(1, 0x306), 10);
    progress_both(&mut a, &mut b);
    assert_eq!(b.iprobe(from(0, 0x306)), Ok(None));
    b.forget_aborts(1, 0x400, 0x300);
    pending(&mut a, to(1, 0x306), 10);
    progress_both(&mut a, &mut b);
    assert_eq!(b.iprobe(from(0, 0x306)).unwrap().unwrap().bytes, 10);
}

#[test]
fn aborts_are_forgotten_when_tag_bits_are_reused() {
    let (mut a, mut b) = pair(PLAIN);
    b.abort_messages(1, MASK, 0x300, AbortReason::Unspecified);
    b.forget_aborts(1, 0x300, 0x900);
    pending(&mut a, to(1, 0x306), 10);
    progress_both(&mut a, &mut b);
    assert_eq!(b.iprobe(from(0, 0x306)).unwrap().unwrap().bytes, 10);
}

#[test]
fn receives_fail_when_the_peer_aborts() {
    for capacity in [1, 100] {
        let (mut a, mut b) = pair(NetCapabilities { capacity, ..PLAIN });
        let waiting: Vec<OpId> = [0x305, 0x306, 0x405].map(|tag| receive(&mut b, tag)).to_vec();
        let elsewhere = b.irecv(Select { context: 3, ..from(0, 0x305) }, RecvTarget::Allocate { align: 1 });
        let anything = b.irecv(Select { tag: None, ..from(0, 0) }, RecvTarget::Allocate { align: 1 });
        // A message sent before the abort counts, even if its data is still at the sender.
        let long = pending(&mut a, to(1, 0x305), 100_000).unwrap();
        let after = receive(&mut b, 0x305);
        a.announce_abort(1, MASK, 0x300, AbortReason::Unspecified, [0, 1].into_iter());
        progress_both(&mut a, &mut b);
        assert_eq!(b.take_result(waiting[0]).expect("completed").unwrap().envelope.bytes, 100_000);
        assert!(a.take_result(long).expect("completed").is_ok());
        for id in [waiting[1], after] {
            assert_eq!(b.take_result(id).expect("completed").unwrap_err(), Error::Aborted { rank: 0 });
        }
        assert!(![waiting[2], elsewhere, anything].iter().any(|id| b.is_complete(*id)), "others stay posted");
        [waiting[2], elsewhere, anything].into_iter().for_each(|id| b.abandon(id));
        // Later receives fail, blocking and nonblocking, until the abort is forgotten.
        let late = receive(&mut b, 0x307);
        assert_eq!(b.take_result(late).expect("completed").unwrap_err(), Error::Aborted { rank: 0 });
        assert_eq!(b.recv(from(0, 0x307), &mut [0; 4]).unwrap_err(), Error::Aborted { rank: 0 });
        // A rank that starts the operation only now keeps the abort of its peer.
        b.forget_aborts(1, 0x300, 0xb00);
        let late = receive(&mut b, 0x307);
        assert_eq!(b.take_result(late).expect("completed").unwrap_err(), Error::Aborted { rank: 0 });
        b.forget_aborts(1, 0xb00, 0x300);
        let again = receive(&mut b, 0x307);
        pending(&mut a, to(1, 0x307), 10);
        progress_both(&mut a, &mut b);
        assert_eq!(b.take_result(again).expect("completed").unwrap().envelope.bytes, 10);
    }
}

/// A rank that forwards an abort names its origin, so that all errors name the originating rank.
#[test]
fn abort_errors_name_the_originating_rank() {
    for error in [Error::Aborted { rank: 5 }, Error::PeerLost { rank: 0 }, Error::PeerLost { rank: 100_000 }] {
        let (mut a, mut b) = pair(PLAIN);
        let waiting = receive(&mut b, 0x305);
        a.announce_abort(1, MASK, 0x300, AbortReason::from_error(&error), std::iter::once(1));
        // Sends to it fail with the same error, whether they arrived before the abort or after.
        let before = pending(&mut b, to(0, 0x308), 100_000).unwrap();
        progress_both(&mut a, &mut b);
        a.abort_messages(1, MASK, 0x300, AbortReason::from_error(&error));
        let after = pending(&mut b, to(0, 0x309), 100_000).unwrap();
        progress_both(&mut a, &mut b);
        for send in [before, after] {
            assert_eq!(b.take_result(send).expect("rejected").unwrap_err(), error);
        }
        progress_both(&mut a, &mut b);
        assert_eq!(b.take_result(waiting).expect("completed").unwrap_err(), error);
        let late = receive(&mut b, 0x307);
        assert_eq!(b.take_result(late).expect("completed").unwrap_err(), error);
        assert_eq!(b.recv(from(0, 0x307), &mut [0; 4]).unwrap_err(), error);
        assert_eq!(b.abort_error(ProtocolInstance { context: 1, tag: 0x300 }, |rank| rank == 0), Some(error));
    }
}

#[test]
fn a_delivered_message_survives_a_wider_abort() {
    let (mut a, mut b) = pair(PLAIN);
    pending(&mut a, to(1, 0x305), 10);
    a.announce_abort(1, MASK, 0x300, AbortReason::Unspecified, std::iter::once(1));
    progress_both(&mut a, &mut b);
    let first = receive(&mut b, 0x305);
    assert_eq!(b.take_result(first).expect("completed").unwrap().envelope.bytes, 10);
    assert_eq!(b.recv(from(0, 0x305), &mut [0; 10]).unwrap_err(), Error::Aborted { rank: 0 });
}

/// Any number of them, until this rank has passed the operations.
#[test]
fn all_peer_aborts_are_remembered() {
    let (mut a, mut b) = pair(NetCapabilities { capacity: 1000, ..PLAIN });
    const MANY: u32 = 10_000;
    for number in 0..MANY {
        a.announce_abort(
            1,
            operation_tag(u32::MAX),
            operation_tag(number),
            AbortReason::Unspecified,
            std::iter::once(1),
        );
        if number % 500 == 0 {
            progress_both(&mut a, &mut b);
        }
    }
    progress_both(&mut a, &mut b);
    for number in [0, 3, 4095, 4096, MANY - 1] {
        let receive = receive(&mut b, operation_tag(number) | 5);
        assert_eq!(b.take_result(receive).expect("completed").unwrap_err(), Error::Aborted { rank: 0 });
    }
    // The last few before an operation that starts may be in progress: in checked mode the comparison of a call uses
    // the previous number.
    b.forget_aborts(1, operation_tag(100), operation_tag(100 + (1 << 31)));
    let [past, last, next] = [50, 99, 100].map(|number| receive(&mut b, operation_tag(number)));
    assert!(!b.is_complete(past) && b.is_complete(last) && b.is_complete(next));
    b.abandon(past);
}

/// Any number of local aborts: sends that wait for an acknowledgement fail.
#[test]
fn all_aborted_messages_are_rejected() {
    let (mut a, mut b) = pair(PLAIN);
    const MANY: u32 = 10_000;
    (0..MANY).for_each(|number| {
        b.abort_messages(1, operation_tag(u32::MAX), operation_tag(number), AbortReason::Unspecified)
    });
    for number in [0, 4096, MANY - 1] {
        let long = pending(&mut a, to(1, operation_tag(number) | 5), 100_000).unwrap();
        progress_both(&mut a, &mut b);
        assert_eq!(a.take_result(long).expect("rejected").unwrap_err(), Error::Aborted { rank: 1 });
    }
    let other = pending(&mut a, to(1, operation_tag(MANY)), 100_000).unwrap();
    progress_both(&mut a, &mut b);
    assert!(!a.is_complete(other));
    b.irecv(from(0, operation_tag(MANY)), RecvTarget::Allocate { align: 1 });
    progress_both(&mut a, &mut b);
    assert!(a.take_result(other).expect("completed").is_ok());
}

#[test]
#[should_panic(expected = "lent for reading")]
fn a_receive_into_read_only_memory_panics() {
    let (mut a, mut b) = pair(PLAIN);
    a.send(to(1, 5), b"abc").unwrap();
    let lent: Span = treepie_base::Region::from(treepie_base::Bytes::zeroed(3, 1)).span(0..3);
    b.irecv(from(0, 5), RecvTarget::Into(lent));
    progress_both(&mut a, &mut b);
}

/// An engine with bulk transfers writes to the address unchecked.
#[test]
#[should_panic(expected = "must be writable")]
fn a_bulk_receive_into_read_only_memory_panics() {
    let (mut a, mut b) = pair(NetCapabilities { bulk: true, ..PLAIN });
    let _send = a.isend(to(1, 5), bytes(5000));
    let lent: Span = treepie_base::Region::from(treepie_base::Bytes::zeroed(5000, 1)).span(0..5000);
    b.irecv(from(0, 5), RecvTarget::Into(lent));
    progress_both(&mut a, &mut b);
}

/// Also messages of a protocol that a peer runs under the number of the aborted operation.
#[test]
fn unexpected_protocol_messages_are_rejected() {
    let (mut a, mut b) = pair(PLAIN);
    let tag = operation_tag(3) | treepie_fabric::PROTOCOL_TAG_BIT | 1;
    let synchronous = pending(&mut a, Address { synchronous: true, ..to(1, tag) }, 10).unwrap();
    progress_both(&mut a, &mut b);
    assert!(a.take_result(synchronous).is_none(), "the instance is not open");
    b.abort_messages(1, operation_tag(u32::MAX), operation_tag(3), AbortReason::Unspecified);
    progress_both(&mut a, &mut b);
    assert_eq!(a.take_result(synchronous).expect("rejected").unwrap_err(), Error::Aborted { rank: 1 });
}
