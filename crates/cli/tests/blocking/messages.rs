//! Point-to-point messages, requests and scopes.

use treepie::{RequestSet, Result, wait_all, wait_any, wait_some};

use crate::running::yield_turn;
use crate::table::{Call, Outcome, Trial, VICTIM, test_until_over};

pub(crate) const CALLS: &[Call] = &[
    Call::new(&["Comm::send"], |t| t.fails(|| t.world.send(&LONG, VICTIM, 5))),
    Call::new(&["Comm::ssend"], |t| t.fails(|| t.world.ssend(&[1u8], VICTIM, 5))).sample(),
    Call::new(&["Comm::recv"], |t| t.fails(|| t.world.recv(&mut [0u8; 4], VICTIM, 5))).sample(),
    Call::new(&["Comm::recv_vec"], |t| t.fails(|| t.world.recv_vec::<u8>(VICTIM, 5))),
    Call::new(&["Comm::send_one"], |t| t.may_fail(|| t.world.send_one(1u64, VICTIM, 5), |()| true)),
    Call::new(&["Comm::recv_one"], |t| t.fails(|| t.world.recv_one::<u64>(VICTIM, 5))),
    Call::new(&["Comm::send_object"], |t| t.fails(|| t.world.send_object(&LONG[..], VICTIM, 5))),
    Call::new(&["Comm::recv_object"], |t| t.fails(|| t.world.recv_object::<String>(VICTIM, 5))),
    Call::new(&["Comm::sendrecv"], |t| t.fails(|| t.world.sendrecv(&[1u8], VICTIM, 5, &mut [0u8; 4], VICTIM, 5))),
    Call::new(&["Comm::probe"], |t| t.fails(|| t.world.probe(VICTIM, 5))),
    Call::new(&["Comm::mprobe"], |t| t.fails(|| t.world.mprobe(VICTIM, 5))),
    Call::new(&["Comm::iprobe"], |t| t.fails(|| poll_until_found(|| t.world.iprobe(VICTIM, 5)))),
    Call::new(&["Comm::improbe"], |t| t.fails(|| poll_until_found(|| t.world.improbe(VICTIM, 5)))),
    Call::new(&["Comm::isend"], |t| t.fails(|| t.world.isend(LONG.to_vec(), VICTIM, 5)?.wait())),
    Call::new(&["Comm::issend", "Request::wait"], |t| t.fails(|| t.world.issend(vec![1u8], VICTIM, 5)?.wait())),
    Call::new(&["Comm::irecv"], |t| t.fails(|| t.world.irecv(vec![0u8; 4], VICTIM, 5)?.wait())),
    Call::new(&["Comm::irecv_vec"], |t| t.fails(|| t.world.irecv_vec::<u8>(VICTIM, 5)?.wait())),
    Call::new(&["PersistentSend::start", "PersistentSend::wait"], |t| {
        t.fails(|| {
            let mut send = t.world.send_init(VICTIM, 5);
            *send.data() = LONG.to_vec();
            send.start()?;
            send.wait()
        })
    }),
    Call::new(&["PersistentSend::test"], |t| {
        t.fails(|| {
            let mut send = t.world.send_init(VICTIM, 5);
            *send.data() = LONG.to_vec();
            send.start()?;
            while !send.test()? {}
            Result::Ok(())
        })
    }),
    Call::new(&["PersistentRecv::start", "PersistentRecv::wait"], |t| {
        let mut receive = t.world.recv_init::<u8>(4, VICTIM, 5);
        t.fails(|| {
            receive.start()?;
            receive.wait()
        })
    }),
    Call::new(&["PersistentRecv::test"], |t| {
        let mut receive = t.world.recv_init::<u8>(4, VICTIM, 5);
        t.fails(|| {
            receive.start()?;
            while receive.test()?.is_none() {}
            Result::Ok(())
        })
    }),
    Call::new(&["Request::test"], |t| t.fails(|| test_until_over(t.world.irecv_vec::<u8>(VICTIM, 5)?))),
    Call::new(&["wait_all"], |t| t.fails(|| wait_all(two(t)?))),
    Call::new(&["wait_any"], |t| t.fails(|| wait_any(&mut two(t)?).map_or(Ok(()), |(_, result)| result.map(drop)))),
    Call::new(&["wait_some"], |t| {
        t.fails(|| wait_some(&mut two(t)?).into_iter().try_for_each(|(_, result)| result.map(drop)))
    }),
    Call::new(&["RequestSet::wait_any"], |t| {
        t.fails(|| set(t)?.wait_any().map_or(Ok(()), |(_, result)| result.map(drop)))
    }),
    Call::new(&["RequestSet::wait_some"], |t| {
        t.fails(|| set(t)?.wait_some().into_iter().try_for_each(|(_, result)| result.map(drop)))
    }),
    Call::new(&["RequestSet::test_any"], |t| {
        t.fails(|| {
            let mut set = set(t)?;
            poll_until_found(|| Ok(set.test_any()))?.1.map(drop)
        })
    }),
    Call::new(&["RequestSet::test_some"], |t| {
        t.fails(|| {
            let mut set = set(t)?;
            poll_until_found(|| Ok(set.test_some().pop()))?.1.map(drop)
        })
    }),
    Call::new(&["MatchedMessage::recv"], |t| {
        announced_message(t, |message| message.recv(&mut vec![0u8; LONG.len()]).map(drop))
    }),
    Call::new(&["MatchedMessage::recv_vec"], |t| announced_message(t, |message| message.recv_vec::<u8>().map(drop))),
    Call::new(&["Comm::scope", "Scope::irecv"], |t| {
        let mut into = [0u8; 4];
        t.fails(|| t.world.scope(|scope| scope.irecv(&mut into, VICTIM, 5)?.wait()))
    }),
    Call::new(&["Scope::isend"], |t| t.fails(|| t.world.scope(|scope| scope.isend(&LONG, VICTIM, 5)?.wait()))),
    Call::new(&["Scope::issend"], |t| t.fails(|| t.world.scope(|scope| scope.issend(&[1u8], VICTIM, 5)?.wait()))),
];

/// Beyond the eager limit of every engine: a send completes only when it is received.
static LONG: [u8; 3 << 20] = [7; 3 << 20];

fn poll_until_found<T>(mut poll: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    loop {
        if let Some(found) = poll()? {
            return Ok(found);
        }
        yield_turn();
    }
}

/// The result of a receive.
type Received = (Vec<u8>, treepie::Status);

fn two(t: &Trial<'_>) -> Result<Vec<treepie::Request<'static, Received>>> {
    Ok(vec![t.world.irecv_vec(VICTIM, 5)?, t.world.irecv_vec(VICTIM, 6)?])
}

fn set(t: &Trial<'_>) -> Result<RequestSet<'static, Received>> {
    Ok(two(t)?.into_iter().collect())
}

/// Receives a message that the victim has announced: it arrives, or the receive fails. A victim that leaves in order
/// waits until the message is received.
fn announced_message(t: &Trial<'_>, receive: impl Fn(treepie::MatchedMessage) -> Result<()>) -> Outcome {
    if t.rank() == VICTIM {
        let sent: Vec<_> = [0, 2].into_iter().map(|to| t.world.isend(LONG.to_vec(), to, 5)).collect::<Result<_>>()?;
        for other in [0, 2] {
            t.world.recv(&mut [0u8; 0], other, 6)?;
        }
        let lost = t.lose();
        drop(sent);
        return lost;
    }
    let mut message = Some(t.world.mprobe(VICTIM, 5)?);
    t.world.send::<u8>(&[], VICTIM, 6)?;
    t.may_fail(|| message.take().map_or(Ok(()), &receive), |()| true)
}
