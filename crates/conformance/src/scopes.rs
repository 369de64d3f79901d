//! Operations on borrowed slices.

use treepie::{ANY_SOURCE, ANY_TAG, Comm, Error, wait_all, wait_any};

use crate::check::{Outcome, check, check_eq};
use crate::payload::{bytes, check_bytes, seed};
use crate::signals::{ring_neighbors, send_signal};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("scopes/result-is-returned", 1, result_is_returned),
    Case::new("scopes/thousands-of-parts", 1, thousands_of_parts),
    Case::new("scopes/dropped-requests-are-waited-for", 1, dropped_are_waited_for),
    Case::new("scopes/forgotten-requests-are-waited-for", 1, forgotten_are_waited_for),
    Case::new("scopes/an-error-cancels-receives", 1, error_cancels_receives),
    Case::new("scopes/an-error-of-a-forgotten-receive-is-returned", 1, error_of_a_forgotten_receive),
    Case::new("scopes/requests", 1, requests),
    Case::new("scopes/nested", 1, nested),
    Case::new("scopes/with-owned-operations", 1, with_owned_operations),
    Case::new("scopes/one-after-the-other-many-times", 1, many_times),
];

fn result_is_returned(comm: &Comm) -> Outcome {
    check_eq!(comm.scope(|_| Ok(7)), Ok(7), "result of a scope");
    check_eq!(comm.scope(|_| Err::<(), _>(Error::Cancelled)), Err(Error::Cancelled), "error of a scope");
    Ok(())
}

fn thousands_of_parts(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let me = comm.rank();
    let data = bytes(seed(me, right, 0), 4000 * 16);
    let mut into = vec![0u8; data.len()];
    comm.scope(|scope| {
        let mut requests = Vec::new();
        for part in into.chunks_mut(16) {
            requests.push(scope.irecv(part, left, 1)?);
        }
        for part in data.chunks(16) {
            let _ = scope.isend(part, right, 1)?;
        }
        wait_all(requests)
    })?;
    check_bytes(&into, seed(left, me, 0), 4000 * 16)
}

/// Exchanges several lengths with the neighbors and waits for none of the requests.
fn exchange_without_waiting(comm: &Comm, synchronous: bool, forget: bool) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let me = comm.rank();
    for len in [0, 9, 5000, 200_000] {
        let data = bytes(seed(me, right, len), len);
        let mut into = vec![0; len];
        comm.scope(|scope| {
            let receive = scope.irecv(&mut into, left, 1)?;
            let send = if synchronous { scope.issend(&data, right, 1)? } else { scope.isend(&data, right, 1)? };
            if forget {
                std::mem::forget((receive, send));
            }
            Ok(())
        })?;
        check_bytes(&into, seed(left, me, len), len)?;
    }
    Ok(())
}

fn dropped_are_waited_for(comm: &Comm) -> Outcome {
    exchange_without_waiting(comm, false, false)?;
    exchange_without_waiting(comm, true, false)
}

fn forgotten_are_waited_for(comm: &Comm) -> Outcome {
    exchange_without_waiting(comm, false, true)?;
    exchange_without_waiting(comm, true, true)
}

fn error_cancels_receives(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let me = comm.rank();
    for len in [10, 100_000] {
        let mut into = [vec![0u8; len], vec![0u8; len], vec![0u8; len]];
        let [first, second, third] = &mut into;
        let result = comm.scope(|scope| {
            std::mem::forget(scope.irecv(first, left, 1)?);
            let _ = scope.irecv(second, ANY_SOURCE, ANY_TAG)?;
            let _request = scope.irecv(third, left, 1)?;
            Err::<(), _>(Error::Cancelled)
        });
        check_eq!(result, Err(Error::Cancelled), "error of a scope");
        comm.barrier()?;
        let send = comm.isend(bytes(seed(me, right, len), len), right, 1)?;
        check_bytes(&comm.recv_vec(left, 1)?.0, seed(left, me, len), len)?;
        send.wait()?;
        check!(into.iter().all(|into| into.iter().all(|byte| *byte == 0)), "memory of a cancelled receive was written");
        comm.barrier()?;
    }
    Ok(())
}

fn error_of_a_forgotten_receive(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    for len in [100, 100_000] {
        let mut into = [0u8; 10];
        let send = comm.isend(bytes(1, len), right, 1)?;
        let result = comm.scope(|scope| {
            std::mem::forget(scope.irecv(&mut into, left, 1)?);
            Ok(())
        });
        check_eq!(result, Err(Error::Truncated { got: len as u64, room: 10 }), "error of a forgotten receive");
        check_bytes(&comm.recv_vec(left, 1)?.0, 1, len)?;
        send.wait()?;
    }
    Ok(())
}

fn requests(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let data = [[1u32], [2], [3]];
    let mut into = [[0u32]; 4];
    comm.scope(|scope| {
        let [first, second, third, fourth] = &mut into;
        let unmatched = scope.irecv(fourth, left, 99)?;
        let mut receives =
            vec![scope.irecv(first, left, 1)?, scope.irecv(second, left, 2)?, scope.irecv(third, left, 3)?];
        for (i, data) in data.iter().enumerate() {
            let _ = scope.isend(data, right, i as u32 + 1)?;
        }
        while let Some((_, result)) = wait_any(&mut receives) {
            result?;
        }
        unmatched.cancel().map_err(|_| Error::Engine("a receive without message cannot be cancelled".into()))
    })?;
    check_eq!(into, [[1], [2], [3], [0]], "received elements");
    Ok(())
}

fn nested(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let (outer, inner) = (bytes(1, 50_000), bytes(2, 50_000));
    let (mut into_outer, mut into_inner) = (vec![0; 50_000], vec![0; 50_000]);
    comm.scope(|scope| {
        let receive = scope.irecv(&mut into_outer, left, 1)?;
        comm.scope(|scope| {
            let _ = scope.irecv(&mut into_inner, left, 2)?;
            let _ = scope.isend(&inner, right, 2)?;
            Ok(())
        })?;
        let _ = scope.isend(&outer, right, 1)?;
        receive.wait()
    })?;
    check_bytes(&into_outer, 1, 50_000)?;
    check_bytes(&into_inner, 2, 50_000)
}

fn with_owned_operations(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let mut into = vec![0; 30_000];
    let owned = comm.scope(|scope| {
        let _ = scope.irecv(&mut into, left, 1)?;
        // This one outlives the scope.
        let owned = comm.irecv_vec::<u8>(left, 2)?;
        drop(comm.isend(bytes(1, 30_000), right, 1)?);
        Ok(owned)
    })?;
    check_bytes(&into, 1, 30_000)?;
    let send = comm.isend(bytes(2, 30_000), right, 2)?;
    check_bytes(&owned.wait()?.0, 2, 30_000)?;
    send.wait()?;
    Ok(())
}

fn many_times(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let mut into = [0u64];
    for i in 0..2000u64 {
        let data = [i];
        comm.scope(|scope| {
            let _ = scope.irecv(&mut into, left, 1)?;
            let _ = scope.isend(&data, right, 1)?;
            Ok(())
        })?;
        check_eq!(into[0], i, "message of turn {i}");
    }
    // No message is left over.
    send_signal(comm, right)?;
    crate::signals::recv_signal(comm, left)?;
    check!(comm.iprobe(ANY_SOURCE, ANY_TAG)?.is_none(), "a message is left over");
    Ok(())
}
