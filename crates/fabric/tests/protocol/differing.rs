//! Messages of collective operations say which call they belong to: a receive that takes one of another call fails, and says
//! both; and so does whoever waits while there is one that nothing takes.

use treepie_base::{Error, Result};
use treepie_fabric::{Address, Call, Endpoint, Id, PROTOCOL, Run, Select, Target, Why, run_tag};

use crate::{Offers, PLAIN, pair, pending};

const CONTEXT: u32 = 1;

fn bcast() -> Call {
    Call::new("bcast", 0, Some(8))
}

fn all_reduce() -> Call {
    Call::new("all_reduce", 0, Some(16))
}

fn to(call: Call, tag: u64, synchronous: bool) -> Address {
    Address { context: CONTEXT, to: 1, tag, synchronous, call }
}

fn from(call: Call, tag: u64) -> Select {
    Select { context: CONTEXT, source: Some(0), tag: Some(tag), call }
}

fn both(a: &mut Endpoint, b: &mut Endpoint) {
    for _ in 0..1000 {
        a.progress();
        b.progress();
    }
}

#[track_caller]
fn is_told<T: std::fmt::Debug>(result: Result<T>) {
    let said = result.expect_err("the calls differ").to_string();
    assert_eq!(said, "rank 0 calls bcast from root 0 of 8 bytes, rank 1 calls all_reduce of 16 bytes");
}

/// Short and long, synchronous or not; the receive comes first or the message.
#[test]
fn a_message_of_another_call_fails_its_receive() {
    for bulk in [false, true] {
        for len in [8, 5000] {
            for message_first in [false, true] {
                for blocking in [false, true] {
                    let (mut a, mut b) = pair(Offers { bulk, ..PLAIN });
                    let start = |b: &mut Endpoint| -> Option<Id> {
                        (!blocking).then(|| b.start_recv(from(all_reduce(), 7), Target::Fresh { align: 1 }))
                    };
                    let early = if message_first { None } else { start(&mut b) };
                    let sent = pending(&mut a, to(bcast(), 7, false), len);
                    if message_first {
                        both(&mut a, &mut b);
                    }
                    let receive = early.or_else(|| start(&mut b));
                    let Some(id) = receive else {
                        is_told(b.recv(from(all_reduce(), 7), &mut vec![0; len]));
                        continue;
                    };
                    both(&mut a, &mut b);
                    is_told(b.result(id).expect("over"));
                    // It is where it was, until the operation is given up; whoever waits for an answer is told then.
                    assert_eq!(b.iprobe(from(all_reduce(), 7)).unwrap().expect("there").bytes, len as u64);
                    b.give_up_messages(CONTEXT, run_tag(u32::MAX), 0, Why::Unsaid);
                    both(&mut a, &mut b);
                    if let Some(sent) = sent {
                        assert_eq!(a.result(sent).expect("over").unwrap_err(), Error::GaveUp { rank: 1 });
                    }
                    assert_eq!(b.iprobe(from(all_reduce(), 7)), Ok(None));
                }
            }
        }
    }
}

#[test]
fn a_message_of_the_same_call_is_received() {
    let (mut a, mut b) = pair(PLAIN);
    for len in [8, 5000] {
        for root in [0, 3] {
            let call = Call::new("gather", root, Some(len));
            let receive = b.start_recv(from(call, 7), Target::Fresh { align: 1 });
            pending(&mut a, to(call, 7, false), len as usize);
            both(&mut a, &mut b);
            assert_eq!(b.result(receive).expect("over").unwrap().envelope.call, call);
        }
    }
}

/// The other one is in another phase, so that no receive takes its message.
#[test]
fn whoever_waits_notices_messages_of_other_calls_under_the_same_number() {
    for is_protocol in [false, true] {
        let (mut a, mut b) = pair(PLAIN);
        let flag = if is_protocol { PROTOCOL } else { 0 };
        pending(&mut a, to(bcast(), run_tag(5) | flag | 1, false), 8);
        // Other numbers do not matter.
        pending(&mut a, to(bcast(), run_tag(6) | 1, false), 8);
        both(&mut a, &mut b);
        is_told(b.recv(from(all_reduce(), run_tag(5)), &mut [0; 8]));
        b.give_up_messages(CONTEXT, run_tag(u32::MAX), run_tag(5), Why::Unsaid);
        assert!(b.fail_differing(CONTEXT, run_tag(5), all_reduce()).is_ok(), "it is forgotten with its operation");
    }
}

#[test]
fn a_protocol_notices_messages_that_are_none_of_its() {
    let (mut a, mut b) = pair(PLAIN);
    b.listen(Run { context: CONTEXT, tag: run_tag(5) | PROTOCOL }, 1);
    pending(&mut a, to(bcast(), run_tag(5), false), 8);
    both(&mut a, &mut b);
    let mut patience = treepie_fabric::Patience::default();
    for _ in 0..1000 {
        b.wait_on(&mut patience);
    }
    is_told(b.fail_differing(CONTEXT, run_tag(5), all_reduce()));
}
