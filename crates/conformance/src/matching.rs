//! Matching of messages and receives by source and tag, at any queue length.

use std::time::Duration;

use treepie::{ANY_SOURCE, ANY_TAG, Comm, MAX_TAG, wait_all};

use crate::check::{Outcome, check, check_eq};
use crate::signals::{Role, probe_signal, recv_signal, ring_neighbors, send_signal};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("matching/the-ends-of-the-tag-range", 1, ends_of_the_tag_range),
    Case::new("matching/other-tags-stay-unexpected", 1, another_tag_stays),
    Case::new("matching/by-source-in-any-order", 1, by_source_in_any_order),
    Case::new("matching/a-waiting-receive-lets-other-tags-pass", 2, waiting_lets_other_tags_pass),
    Case::new("matching/a-waiting-receive-lets-other-sources-pass", 3, waiting_lets_other_sources_pass),
    Case::new("matching/a-waiting-receive-comes-after-posted-ones", 2, waiting_comes_after_posted),
    Case::new("matching/posted-receives-in-order", 1, posted_in_their_order),
    Case::new("matching/posted-by-tag-in-reverse", 1, posted_by_tag_in_reverse),
    Case::new("matching/ten-thousand-posted", 2, ten_thousand_posted),
    Case::new("matching/ten-thousand-unexpected-in-reverse", 2, ten_thousand_unexpected_in_reverse),
    Case::new("matching/ten-thousand-to-oneself-in-reverse", 1, ten_thousand_to_oneself),
    Case::new("matching/many-tags-used-once", 2, many_tags_used_once),
];

fn ends_of_the_tag_range(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let tags = [0, 1, 255, 256, 65_535, 65_536, MAX_TAG - 1, MAX_TAG];
    let sends: Result<Vec<_>, _> = tags.iter().map(|&tag| comm.isend(vec![tag], right, tag)).collect();
    for &tag in tags.iter().rev() {
        let (got, status) = comm.recv_vec::<u32>(left, tag)?;
        check_eq!((got[0], status.tag), (tag, tag), "message and tag");
    }
    wait_all(sends?)?;
    Ok(())
}

fn another_tag_stays(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let posted = comm.irecv_vec::<u8>(left, 2)?;
    let sends = [comm.isend(vec![1u8], right, 1)?, comm.isend(vec![3u8], right, 3)?, comm.isend(vec![2u8], right, 2)?];
    check_eq!(posted.wait()?.0, [2], "message of tag 2");
    // The other two were sent before it, so they have arrived.
    check_eq!(comm.iprobe(left, 3)?.map(|status| status.tag), Some(3), "an unexpected message of tag 3");
    check!(comm.iprobe(left, 2)?.is_none(), "a message of tag 2 is unexpected although it was received");
    check_eq!(comm.recv_vec::<u8>(left, 3)?.0, [3], "message of tag 3");
    check_eq!(comm.recv_vec::<u8>(left, 1)?.0, [1], "message of tag 1");
    wait_all(sends)?;
    Ok(())
}

fn by_source_in_any_order(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    let mut sends = Vec::new();
    for to in 0..size {
        sends.push(comm.isend(vec![me as u64, 1], to, 1)?);
        sends.push(comm.isend(vec![me as u64, 2], to, 1)?);
    }
    for round in [1, 2] {
        for i in 0..size {
            let from = (me * 3 + size - i) % size;
            let (got, status) = comm.recv_vec::<u64>(from, 1)?;
            check_eq!((got, status.source), (vec![from as u64, round], from), "message and source");
        }
    }
    wait_all(sends)?;
    Ok(())
}

/// Delays the sender, so that the receiver of the next three cases is likely to be waiting already.
fn short_delay() {
    std::thread::sleep(Duration::from_millis(2));
}

fn waiting_lets_other_tags_pass(comm: &Comm) -> Outcome {
    for len in [1, 30_000] {
        match Role::new(comm) {
            Role::First(to) => {
                recv_signal(comm, to)?;
                short_delay();
                let sends: Result<Vec<_>, _> = (1..=3).map(|tag| comm.isend(vec![tag; len], to, tag)).collect();
                wait_all(sends?)?;
            }
            Role::Second(from) => {
                send_signal(comm, from)?;
                let mut got = vec![0u32; len];
                for tag in [3, 1, 2] {
                    comm.recv(&mut got, from, tag)?;
                    check_eq!(got, vec![tag; len], "message of tag {tag}");
                }
            }
            Role::Idle => {}
        }
    }
    Ok(())
}

fn waiting_lets_other_sources_pass(comm: &Comm) -> Outcome {
    match comm.rank() {
        0 => {
            send_signal(comm, 1)?;
            let mut got = [0u8];
            comm.recv(&mut got, 2, ANY_TAG)?;
            check_eq!(got, [2], "message from rank 2");
            comm.recv(&mut got, 1, ANY_TAG)?;
            check_eq!(got, [1], "message from rank 1");
        }
        1 => {
            recv_signal(comm, 0)?;
            short_delay();
            comm.send(&[1u8], 0, 1)?;
            send_signal(comm, 2)?;
        }
        2 => {
            recv_signal(comm, 1)?;
            comm.send(&[2u8], 0, 1)?;
        }
        _ => {}
    }
    Ok(())
}

fn waiting_comes_after_posted(comm: &Comm) -> Outcome {
    for len in [1, 30_000] {
        match Role::new(comm) {
            Role::First(to) => {
                recv_signal(comm, to)?;
                short_delay();
                let sends: Result<Vec<_>, _> = (1..=3).map(|number| comm.isend(vec![number; len], to, 5)).collect();
                wait_all(sends?)?;
            }
            Role::Second(from) => {
                let posted = [comm.irecv_vec::<u32>(from, 5)?, comm.irecv_vec::<u32>(ANY_SOURCE, ANY_TAG)?];
                send_signal(comm, from)?;
                let mut got = vec![0u32; len];
                comm.recv(&mut got, from, 5)?;
                check_eq!(got, vec![3; len], "message of the blocking receive, which came last");
                let numbers: Vec<u32> = wait_all(posted)?.iter().map(|(got, _)| got[0]).collect();
                check_eq!(numbers, [1, 2], "messages of the posted receives");
            }
            Role::Idle => {}
        }
    }
    Ok(())
}

fn posted_in_their_order(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let receives: Result<Vec<_>, _> = (0..500).map(|_| comm.irecv(vec![0u32; 1], left, 1)).collect();
    comm.barrier()?;
    for i in 0..500u32 {
        comm.send(&[i], right, 1)?;
    }
    for (want, (got, _)) in wait_all(receives?)?.into_iter().enumerate() {
        check_eq!(got[0], want as u32, "message in posted receive {want}");
    }
    Ok(())
}

fn posted_by_tag_in_reverse(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let receives: Result<Vec<_>, _> = (0..500).rev().map(|tag| comm.irecv_vec::<u32>(left, tag)).collect();
    comm.barrier()?;
    for tag in 0..500u32 {
        comm.send(&[tag * 2], right, tag)?;
    }
    for (i, (got, status)) in wait_all(receives?)?.into_iter().enumerate() {
        let tag = 499 - i as u32;
        check_eq!((got[0], status.tag), (tag * 2, tag), "message and tag");
    }
    Ok(())
}

const MANY: u32 = 10_000;

fn ten_thousand_posted(comm: &Comm) -> Outcome {
    match Role::new(comm) {
        Role::First(to) => {
            recv_signal(comm, to)?;
            for i in 0..MANY {
                comm.send(&[i], to, i % 3)?;
            }
        }
        Role::Second(from) => {
            let receives: Result<Vec<_>, _> = (0..MANY).map(|i| comm.irecv(vec![0u32], from, i % 3)).collect();
            send_signal(comm, from)?;
            for (want, (got, _)) in wait_all(receives?)?.into_iter().enumerate() {
                check_eq!(got[0], want as u32, "message in posted receive {want}");
            }
        }
        Role::Idle => {}
    }
    Ok(())
}

fn ten_thousand_unexpected_in_reverse(comm: &Comm) -> Outcome {
    match Role::new(comm) {
        Role::First(to) => {
            let sends: Result<Vec<_>, _> = (0..MANY).map(|tag| comm.isend(vec![tag], to, tag)).collect();
            send_signal(comm, to)?;
            wait_all(sends?)?;
        }
        Role::Second(from) => {
            probe_signal(comm, from)?;
            for tag in (0..MANY).rev() {
                let mut got = [0u32];
                comm.recv(&mut got, from, tag)?;
                check_eq!(got[0], tag, "message of tag {tag}");
            }
            recv_signal(comm, from)?;
        }
        Role::Idle => {}
    }
    Ok(())
}

fn ten_thousand_to_oneself(comm: &Comm) -> Outcome {
    let me = comm.rank();
    for tag in 0..MANY {
        comm.send(&[tag], me, tag)?;
    }
    for tag in (0..MANY).rev() {
        let mut got = [0u32];
        comm.recv(&mut got, me, tag)?;
        check_eq!(got[0], tag, "message of tag {tag}");
    }
    Ok(())
}

fn many_tags_used_once(comm: &Comm) -> Outcome {
    let (partner, me) = match Role::new(comm) {
        Role::First(partner) | Role::Second(partner) => (partner, comm.rank() as u32),
        Role::Idle => return Ok(()),
    };
    for i in 0..5000 {
        let tag = i * 1001;
        let mut got = [0u32];
        comm.sendrecv(&[tag + me], partner, tag, &mut got, partner, tag)?;
        check_eq!(got[0], tag + partner as u32, "message of tag {tag}");
    }
    Ok(())
}
