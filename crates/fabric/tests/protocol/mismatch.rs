//! Detection of mismatched calls: a receive that matches a message of another call fails with an error that names both;
//! so does a wait during which there is such a message that no receive matches.

use treepie_base::{Error, Result};
use treepie_fabric::{
    AbortReason, Address, CallSignature, Endpoint, OpId, PROTOCOL_TAG_BIT, ProtocolInstance, RecvTarget, Select,
    operation_tag,
};

use crate::{NetCapabilities, PLAIN, pair, pending};

const CONTEXT: u32 = 1;

fn bcast() -> CallSignature {
    CallSignature::new("bcast", 0, Some(8))
}

fn allreduce() -> CallSignature {
    CallSignature::new("allreduce", 0, Some(16))
}

fn to(call: CallSignature, tag: u64, synchronous: bool) -> Address {
    Address { context: CONTEXT, to: 1, tag, synchronous, call }
}

fn from(call: CallSignature, tag: u64) -> Select {
    Select { context: CONTEXT, source: Some(0), tag: Some(tag), call }
}

fn progress_both(a: &mut Endpoint, b: &mut Endpoint) {
    for _ in 0..1000 {
        a.progress();
        b.progress();
    }
}

#[track_caller]
fn assert_calls_differ<T: std::fmt::Debug>(result: Result<T>) {
    let message = result.expect_err("the calls differ").to_string();
    assert_eq!(message, "rank 0 calls bcast from root 0 of 8 bytes, rank 1 calls allreduce of 16 bytes");
}

/// Eager and rendezvous; the receive is posted before or after the message arrives.
#[test]
fn a_message_of_another_call_fails_its_receive() {
    for bulk in [false, true] {
        for len in [8, 5000] {
            for message_first in [false, true] {
                for blocking in [false, true] {
                    let (mut a, mut b) = pair(NetCapabilities { bulk, ..PLAIN });
                    let start = |b: &mut Endpoint| -> Option<OpId> {
                        (!blocking).then(|| b.irecv(from(allreduce(), 7), RecvTarget::Allocate { align: 1 }))
                    };
                    let early = if message_first { None } else { start(&mut b) };
                    let sent = pending(&mut a, to(bcast(), 7, false), len);
                    if message_first {
                        progress_both(&mut a, &mut b);
                    }
                    let receive = early.or_else(|| start(&mut b));
                    let Some(id) = receive else {
                        assert_calls_differ(b.recv(from(allreduce(), 7), &mut vec![0; len]));
                        continue;
                    };
                    progress_both(&mut a, &mut b);
                    assert_calls_differ(b.take_result(id).expect("completed"));
                    // The message stays queued until the operation is aborted, which fails a send that waits for it.
                    assert_eq!(b.iprobe(from(allreduce(), 7)).unwrap().expect("queued").bytes, len as u64);
                    b.abort_messages(CONTEXT, operation_tag(u32::MAX), 0, AbortReason::Unspecified);
                    progress_both(&mut a, &mut b);
                    if let Some(sent) = sent {
                        assert_eq!(a.take_result(sent).expect("completed").unwrap_err(), Error::Aborted { rank: 1 });
                    }
                    assert_eq!(b.iprobe(from(allreduce(), 7)), Ok(None));
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
            let call = CallSignature::new("gather", root, Some(len));
            let receive = b.irecv(from(call, 7), RecvTarget::Allocate { align: 1 });
            pending(&mut a, to(call, 7, false), len as usize);
            progress_both(&mut a, &mut b);
            assert_eq!(b.take_result(receive).expect("completed").unwrap().envelope.call, call);
        }
    }
}

/// The peer is in another phase, so that no receive matches its message.
#[test]
fn waits_detect_messages_of_other_calls_under_the_same_number() {
    for is_protocol in [false, true] {
        let (mut a, mut b) = pair(PLAIN);
        let flag = if is_protocol { PROTOCOL_TAG_BIT } else { 0 };
        pending(&mut a, to(bcast(), operation_tag(5) | flag | 1, false), 8);
        // Other operation numbers do not matter.
        pending(&mut a, to(bcast(), operation_tag(6) | 1, false), 8);
        progress_both(&mut a, &mut b);
        assert_calls_differ(b.recv(from(allreduce(), operation_tag(5)), &mut [0; 8]));
        b.abort_messages(CONTEXT, operation_tag(u32::MAX), operation_tag(5), AbortReason::Unspecified);
        assert!(
            b.check_mismatch(CONTEXT, operation_tag(5), allreduce()).is_ok(),
            "the mismatch is forgotten with its operation"
        );
    }
}

#[test]
fn protocols_detect_messages_of_other_calls() {
    let (mut a, mut b) = pair(PLAIN);
    b.open_protocol(ProtocolInstance { context: CONTEXT, tag: operation_tag(5) | PROTOCOL_TAG_BIT }, 1);
    pending(&mut a, to(bcast(), operation_tag(5), false), 8);
    progress_both(&mut a, &mut b);
    let mut backoff = treepie_fabric::Backoff::default();
    for _ in 0..1000 {
        b.progress_or_backoff(&mut backoff);
    }
    assert_calls_differ(b.check_mismatch(CONTEXT, operation_tag(5), allreduce()));
}
