//! Communicators with the same ranks and separate messages.

use std::time::Duration;

use treepie::{ANY_SOURCE, ANY_TAG, Comm, wait_all};

use crate::check::{Outcome, check, check_eq};
use crate::payload::{bytes, check_bytes, seed};
use crate::signals::{Role, recv_signal, ring_neighbors, send_signal};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("contexts/rank-and-size", 1, rank_and_size),
    Case::new("contexts/same-tags-do-not-cross", 1, same_tags_do_not_cross),
    Case::new("contexts/wildcards-match-their-communicator-only", 1, wildcards_see_their_own_only),
    Case::new("contexts/posted-receives-match-their-communicator-only", 1, posted_receives_wait_for_their_own),
    Case::new("contexts/a-waiting-receive-lets-others-pass", 2, waiting_receive_lets_others_pass),
    Case::new("contexts/dup-of-dup", 1, dup_of_dup),
    Case::new("contexts/fifty-dups", 1, fifty_dups),
    Case::new("contexts/a-clone-is-the-same", 1, a_clone_is_the_same),
    Case::new("contexts/dup-while-messages-wait", 1, dup_while_messages_wait),
    Case::new("contexts/large-messages-do-not-cross", 1, large_messages_do_not_cross),
];

fn rank_and_size(comm: &Comm) -> Outcome {
    let size = comm.size();
    check!(comm.rank() < size, "rank {} of {size}", comm.rank());
    let dup = comm.dup()?;
    check_eq!((dup.rank(), dup.size(), dup.engine()), (comm.rank(), size, comm.engine()), "rank, size, engine");
    // Each rank number exists once.
    let marks = comm.window::<u64>(size)?;
    marks.fetch_add(0, comm.rank(), 1)?;
    marks.fence()?;
    let mut seen = vec![0; size];
    marks.get(0, 0, &mut seen)?;
    check!(seen.iter().all(|times| *times == 1), "ranks of {size}, and how often each exists: {seen:?}");
    Ok(marks.free()?)
}

fn same_tags_do_not_cross(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let other = comm.dup()?;
    let sent = [comm.isend(vec![1u8], right, 5)?, other.isend(vec![2u8], right, 5)?];
    // In the other order than they were sent.
    let (second, _) = other.recv_vec::<u8>(left, 5)?;
    let (first, _) = comm.recv_vec::<u8>(left, 5)?;
    check_eq!((first, second), (vec![1], vec![2]), "messages on the communicator and on its dup");
    wait_all(sent)?;
    Ok(())
}

fn wildcards_see_their_own_only(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let other = comm.dup()?;
    let sent = [other.isend(vec![2u8], right, 5)?, comm.isend(vec![1u8], right, 6)?];
    let status = comm.probe(ANY_SOURCE, ANY_TAG)?;
    check_eq!((status.source, status.tag), (left, 6), "a wildcard probe");
    // The message sent before it on the dup has arrived too, and must not be visible here.
    let (got, status) = comm.recv_vec::<u8>(ANY_SOURCE, ANY_TAG)?;
    check_eq!((got, status.tag), (vec![1], 6), "a wildcard receive");
    check!(comm.iprobe(ANY_SOURCE, ANY_TAG)?.is_none(), "a message of the dup is seen on its original");
    check_eq!(other.recv_vec::<u8>(ANY_SOURCE, ANY_TAG)?.0, [2], "a wildcard receive on the dup");
    wait_all(sent)?;
    Ok(())
}

fn posted_receives_wait_for_their_own(comm: &Comm) -> Outcome {
    let (_, right) = ring_neighbors(comm);
    let other = comm.dup()?;
    let any = comm.irecv_vec::<u8>(ANY_SOURCE, ANY_TAG)?;
    let any_other = other.irecv_vec::<u8>(ANY_SOURCE, ANY_TAG)?;
    comm.barrier()?;
    wait_all([other.isend(vec![2u8], right, 1)?, comm.isend(vec![1u8], right, 1)?])?;
    check_eq!(any.wait()?.0, [1], "a posted wildcard receive");
    check_eq!(any_other.wait()?.0, [2], "a posted wildcard receive on the dup");
    Ok(())
}

/// A blocking receive, which is not posted before the message.
fn waiting_receive_lets_others_pass(comm: &Comm) -> Outcome {
    let other = comm.dup()?;
    for len in [5, 50_000] {
        match Role::new(comm) {
            Role::First(to) => {
                recv_signal(comm, to)?;
                // So that the receiver is likely to be waiting already.
                std::thread::sleep(Duration::from_millis(2));
                let sent = [other.isend(vec![2u8; len], to, 5)?, comm.isend(vec![1u8; len], to, 5)?];
                wait_all(sent)?;
            }
            Role::Second(from) => {
                send_signal(comm, from)?;
                let (mut got, mut got_other) = (vec![0u8; len], vec![0u8; len]);
                comm.recv(&mut got, ANY_SOURCE, 5)?;
                other.recv(&mut got_other, from, ANY_TAG)?;
                check_eq!((got[0], got_other[0]), (1, 2), "messages on the communicator and on its dup");
            }
            Role::Idle => {}
        }
    }
    Ok(())
}

fn dup_of_dup(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let mut family = vec![comm.clone()];
    for i in 0..6 {
        // Duplicates of the newest and of the original.
        let dup = family[if i % 2 == 0 { i } else { 0 }].dup()?;
        family.push(dup);
    }
    let sent: Result<Vec<_>, _> =
        family.iter().enumerate().map(|(i, comm)| comm.isend(vec![i as u64], right, 0)).collect();
    for (i, comm) in family.iter().enumerate().rev() {
        check_eq!(comm.recv_vec::<u64>(left, ANY_TAG)?.0, [i as u64], "message on communicator {i}");
    }
    wait_all(sent?)?;
    Ok(())
}

fn fifty_dups(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let dups: Vec<Comm> = (0..50).map(|_| comm.dup()).collect::<Result<_, _>>()?;
    let mut sent = Vec::new();
    for (i, dup) in dups.iter().enumerate() {
        sent.push(dup.isend(vec![i as u64; i], right, 9)?);
    }
    for (i, dup) in dups.iter().enumerate().rev() {
        check_eq!(dup.recv_vec::<u64>(left, 9)?.0, vec![i as u64; i], "message on dup {i} of 50");
    }
    wait_all(sent)?;
    Ok(())
}

fn a_clone_is_the_same(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let clone = comm.clone();
    let sent = clone.isend(vec![1u8], right, 0)?;
    check_eq!(comm.recv_vec::<u8>(left, 0)?.0, [1], "message sent on a clone");
    sent.wait()?;
    Ok(())
}

fn dup_while_messages_wait(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let me = comm.rank();
    let posted = comm.irecv_vec::<u8>(left, 2)?;
    let mut sent = vec![comm.isend(bytes(seed(me, right, 1), 200_000), right, 1)?];
    let dup = comm.dup()?;
    sent.push(dup.isend(bytes(seed(me, right, 3), 100), right, 1)?);
    sent.push(comm.isend(bytes(seed(me, right, 2), 300), right, 2)?);
    check_bytes(&dup.recv_vec(left, 1)?.0, seed(left, me, 3), 100)?;
    check_bytes(&posted.wait()?.0, seed(left, me, 2), 300)?;
    check_bytes(&comm.recv_vec(left, 1)?.0, seed(left, me, 1), 200_000)?;
    wait_all(sent)?;
    Ok(())
}

fn large_messages_do_not_cross(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let (me, len) = (comm.rank(), 300_001);
    let dups = [comm.dup()?, comm.dup()?, comm.dup()?];
    let posted: Vec<_> = dups.iter().map(|dup| dup.irecv_vec::<u8>(ANY_SOURCE, 0)).collect::<Result<_, _>>()?;
    let mut sent = Vec::new();
    for (i, dup) in dups.iter().enumerate().rev() {
        sent.push(dup.isend(bytes(seed(me, right, i), len), right, 0)?);
    }
    for (i, (got, _)) in wait_all(posted)?.into_iter().enumerate() {
        check_bytes(&got, seed(left, me, i), len)?;
    }
    wait_all(sent)?;
    Ok(())
}
