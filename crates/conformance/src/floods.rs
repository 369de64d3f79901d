//! Far more messages than fit into the buffers between ranks.

use std::time::Duration;

use treepie::{ANY_SOURCE, ANY_TAG, Comm, wait_all};

use crate::check::{Outcome, check, check_eq};
use crate::payload::{check_bytes, fill, seed};
use crate::signals::{Role, probe_signal, recv_signal, ring_neighbors, send_signal};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("floods/a-hundred-thousand-before-the-first-receive", 2, before_the_first_receive),
    Case::new("floods/empty-messages-before-the-first-receive", 2, empty_messages),
    Case::new("floods/blocking-sends-to-a-late-receiver", 2, late_receiver),
    Case::new("floods/between-all-pairs", 1, between_all_pairs),
    Case::new("floods/to-one-with-wildcards", 2, to_one_with_wildcards),
    Case::new("floods/large-messages-to-one", 2, large_to_one),
    Case::new("floods/back-and-forth-while-flooded", 2, back_and_forth),
];

/// Messages of a flood, of all ranks together.
const FLOOD: usize = 100_000;

/// Receives posted together. Each message beyond the senders' credit costs a round trip; one at a time, these would
/// dominate the run time where ranks outnumber cores.
const BATCH: usize = 100;

/// Bytes of a flood of 100 MB that a receiver may queue.
const MAX_QUEUED_BYTES: u64 = 64 << 20;

/// Resident memory of this process. `None` if ranks share a process, where it would include the senders' memory.
fn private_memory(comm: &Comm) -> Outcome<Option<u64>> {
    if matches!(comm.engine(), "threads" | "sim") {
        return Ok(None);
    }
    let read = std::fs::read_to_string("/proc/self/status");
    let status = read.map_err(|error| crate::Failure::new(format!("/proc/self/status: {error}")))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    Ok(kib.map(|kib| kib << 10))
}

fn before_the_first_receive(comm: &Comm) -> Outcome {
    let each = FLOOD / (comm.size() - 1);
    let me = comm.rank();
    let message = |from: usize, i: usize, into: &mut [u8]| fill(seed(from, 0, i), into);
    if me != 0 {
        let mut sends = Vec::with_capacity(each);
        for i in 0..each {
            let mut data = vec![0; 1024];
            message(me, i, &mut data);
            sends.push(comm.isend(data, 0, 1)?);
        }
        send_signal(comm, 0)?;
        wait_all(sends)?;
        return Ok(());
    }
    let before = private_memory(comm)?;
    for from in 1..comm.size() {
        probe_signal(comm, from)?;
    }
    if let (Some(before), Some(after)) = (before, private_memory(comm)?) {
        let grown = after.saturating_sub(before);
        check!(grown < MAX_QUEUED_BYTES, "{} messages of 1 KiB made the receiver grow by {} KiB", each, grown >> 10);
    }
    let numbers: Vec<usize> = (0..each).collect();
    for batch in numbers.chunks(BATCH) {
        for from in 1..comm.size() {
            let receives: Result<Vec<_>, _> = batch.iter().map(|_| comm.irecv(vec![0u8; 1024], from, 1)).collect();
            for (&i, (got, _)) in batch.iter().zip(wait_all(receives?)?) {
                check_bytes(&got, seed(from, 0, i), 1024)?;
            }
        }
    }
    (1..comm.size()).try_for_each(|from| recv_signal(comm, from))
}

fn empty_messages(comm: &Comm) -> Outcome {
    match Role::new(comm) {
        Role::First(to) => {
            let count = 2 * FLOOD / comm.size();
            let sends: Result<Vec<_>, _> = (0..count).map(|i| comm.isend(Vec::<u8>::new(), to, i as u32 % 5)).collect();
            send_signal(comm, to)?;
            wait_all(sends?)?;
        }
        Role::Second(from) => {
            probe_signal(comm, from)?;
            let numbers: Vec<usize> = (0..2 * FLOOD / comm.size()).collect();
            for batch in numbers.chunks(BATCH) {
                let receives: Result<Vec<_>, _> = batch.iter().map(|_| comm.irecv_vec::<u8>(from, ANY_TAG)).collect();
                for (i, (_, status)) in batch.iter().zip(wait_all(receives?)?) {
                    check_eq!((status.tag, status.bytes), (*i as u32 % 5, 0), "tag and length of message {i}");
                }
            }
            recv_signal(comm, from)?;
        }
        Role::Idle => {}
    }
    Ok(())
}

fn late_receiver(comm: &Comm) -> Outcome {
    let count = FLOOD / 2 / comm.size();
    match Role::new(comm) {
        Role::First(to) => {
            let mut data = [0; 512];
            for i in 0..count {
                fill(i as u64, &mut data);
                comm.send(&data, to, 1)?;
            }
        }
        Role::Second(from) => {
            std::thread::sleep(Duration::from_millis(100));
            let mut into = [0; 512];
            for i in 0..count {
                comm.recv(&mut into, from, 1)?;
                check_bytes(&into, i as u64, 512)?;
            }
        }
        Role::Idle => {}
    }
    Ok(())
}

fn between_all_pairs(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    let each = FLOOD / 2 / size / size;
    let mut sends = Vec::new();
    for i in 0..each {
        for to in 0..size {
            let mut data = vec![0; 200];
            fill(seed(me, to, i), &mut data);
            sends.push(comm.isend(data, to, 1)?);
        }
    }
    let mut into = [0; 200];
    for from in (0..size).rev() {
        for i in 0..each {
            comm.recv(&mut into, from, 1)?;
            check_bytes(&into, seed(from, me, i), 200)?;
        }
    }
    wait_all(sends)?;
    Ok(())
}

fn to_one_with_wildcards(comm: &Comm) -> Outcome {
    let size = comm.size();
    let each = FLOOD / 4 / size;
    if comm.rank() != size - 1 {
        for i in 0..each {
            comm.send(&[comm.rank() as u64, i as u64], size - 1, (i % 3) as u32)?;
        }
        return Ok(());
    }
    let mut next = vec![0; size];
    for _ in 0..each * (size - 1) {
        let mut got = [0u64; 2];
        let status = comm.recv(&mut got, ANY_SOURCE, ANY_TAG)?;
        let from = status.source;
        check_eq!((got[0] as usize, got[1]), (from, next[from]), "sender and number of a message from {from}");
        check_eq!(u64::from(status.tag), next[from] % 3, "its tag");
        next[from] += 1;
    }
    Ok(())
}

fn large_to_one(comm: &Comm) -> Outcome {
    let (me, size, len) = (comm.rank(), comm.size(), 100_000);
    let each = 64usize.div_ceil(size);
    if me != 0 {
        let mut sends = Vec::new();
        for i in 0..each {
            let mut data = vec![0; len];
            fill(seed(me, 0, i), &mut data);
            sends.push(comm.isend(data, 0, 1)?);
        }
        wait_all(sends)?;
        return Ok(());
    }
    let mut next = vec![0; size];
    for _ in 0..each * (size - 1) {
        let (got, status) = comm.recv_vec::<u8>(ANY_SOURCE, 1)?;
        check_bytes(&got, seed(status.source, 0, next[status.source]), len)?;
        next[status.source] += 1;
    }
    Ok(())
}

/// Short messages get through while a flood of unexpected messages is queued.
fn back_and_forth(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let mut sends = Vec::new();
    for _ in 0..FLOOD / 10 / comm.size() {
        sends.push(comm.isend(vec![1u8; 1000], right, 1)?);
    }
    for turn in 0..200u64 {
        let mut got = [0];
        comm.sendrecv(&[turn], right, 2, &mut got, left, 2)?;
        check_eq!(got[0], turn, "message with a flood");
        comm.sendrecv(&[turn], left, 3, &mut got, right, 3)?;
        check_eq!(got[0], turn, "message against a flood");
    }
    let mut into = [0u8; 1000];
    for _ in 0..sends.len() {
        comm.recv(&mut into, left, 1)?;
    }
    wait_all(sends)?;
    Ok(())
}
