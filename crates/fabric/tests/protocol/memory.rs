//! Messages that there is no memory for.

use std::cell::RefCell;
use std::rc::Rc;

use rand_xoshiro::rand_core::SeedableRng;
use treepie_base::Error;
use treepie_fabric::{Address, Endpoint, PROTOCOL_TAG_BIT, ProtocolInstance, RecvTarget, SUBTAG_BITS};

use crate::net::{Net, Port, Rng};
use crate::{PLAIN, from, pending, to};

fn pair_on_net() -> (Rc<RefCell<Net>>, [Endpoint; 2]) {
    let net = Net::new(Rng(rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(1)), 2, PLAIN);
    let endpoints = [0, 1].map(|rank| Endpoint::new(Box::new(Port::new(&net, rank))));
    (net, endpoints)
}

/// A posted receive, one of an unexpected message, and blocking ones fail, and the message stays.
#[test]
fn a_message_that_there_is_no_memory_for_is_an_error() {
    let (net, [mut a, mut b]) = pair_on_net();
    let announced = 1 << 60;
    let refused = Error::OutOfMemory { what: "a message", bytes: announced };
    let posted = b.irecv(from(0), RecvTarget::Allocate { align: 8 });
    pending(&mut a, to(1, false), 5000).expect("a long message");
    net.borrow_mut().announce(0, 1, announced);
    assert_eq!(b.wait(posted).map(drop), Err(refused.clone()));
    let unexpected = b.irecv(from(0), RecvTarget::Allocate { align: 8 });
    assert_eq!(b.wait(unexpected).map(drop), Err(refused.clone()));
    assert_eq!(b.recv_alloc(from(0), 8).map(drop), Err(refused.clone()));
    let matched = b.improbe(from(0)).unwrap().expect("it stays queued");
    assert_eq!(b.mrecv_alloc(matched, 8).map(drop), Err(refused.clone()));
    assert_eq!(b.iprobe(from(0)).unwrap().expect("it stays queued").bytes, announced);
    // A blocking receive that the message arrives at.
    pending(&mut b, to(0, false), 5000).expect("a long message");
    net.borrow_mut().announce(1, 0, announced);
    assert_eq!(a.recv_alloc(from(1), 8).map(drop), Err(refused));
    // Neither message is ever received, which the end of a rank waits for.
    std::mem::forget((a, b));
}

/// The operation fails on both sides, whether the receiver has begun it or begins it later.
#[test]
fn a_protocol_message_that_there_is_no_memory_for_is_an_error_on_both_sides() {
    const INSTANCE: ProtocolInstance = ProtocolInstance { context: 1, tag: PROTOCOL_TAG_BIT | 5 << SUBTAG_BITS };
    for begins_later in [false, true] {
        let (net, [mut a, mut b]) = pair_on_net();
        if !begins_later {
            b.open_protocol(INSTANCE, 8);
        }
        let address = Address { context: INSTANCE.context, tag: INSTANCE.tag, ..to(1, false) };
        let sent = pending(&mut a, address, 5000).expect("a long message");
        net.borrow_mut().announce(0, 1, 1 << 60);
        for _ in 0..100 {
            b.progress();
        }
        if begins_later {
            b.open_protocol(INSTANCE, 8);
        }
        let received = b.recv_protocol(INSTANCE).expect("it has failed").map(drop);
        assert_eq!(received, Err(Error::OutOfMemory { what: "a message", bytes: 1 << 60 }));
        assert!(!b.has_protocol_messages(INSTANCE));
        assert_eq!(a.wait(sent).map(drop), Err(Error::Aborted { rank: 1 }));
        b.close_protocol(INSTANCE);
    }
}
