//! Invalid arguments, which are refused before anything is sent, and that a rank can go on afterwards.

use treepie::{ANY_SOURCE, ANY_TAG, Comm, Error, MAX_TAG, Result};

use crate::check::{Outcome, check, check_eq};
use crate::payload::{check_series, series};
use crate::signals::{ring_neighbors, send_signal};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("errors/bad-rank", 1, bad_rank),
    Case::new("errors/bad-tag", 1, bad_tag),
    Case::new("errors/partial-elements", 1, mismatch),
    Case::new("errors/receiving-from-oneself-is-a-deadlock", 1, waiting_for_oneself),
    Case::new("errors/ranks-can-go-on", 1, one_can_go_on),
];

/// Every call that takes a peer and a tag, with its name.
fn every_call(comm: &Comm, rank: usize, tag: u32) -> Vec<(&'static str, Option<Error>)> {
    let (mut into, data) = ([0u8; 4], [1u8; 4]);
    let mut borrowed = [0u8; 4];
    let me = comm.rank();
    vec![
        ("send", comm.send(&data, rank, tag).err()),
        ("ssend", comm.ssend(&data, rank, tag).err()),
        ("isend", comm.isend(data.to_vec(), rank, tag).err()),
        ("issend", comm.issend(data.to_vec(), rank, tag).err()),
        ("scope isend", comm.scope(|scope| scope.isend(&data, rank, tag).map(drop)).err()),
        ("scope issend", comm.scope(|scope| scope.issend(&data, rank, tag).map(drop)).err()),
        ("recv", comm.recv(&mut into, rank, tag).err()),
        ("recv_vec", comm.recv_vec::<u8>(rank, tag).err()),
        ("irecv", comm.irecv(vec![0u8; 4], rank, tag).err()),
        ("irecv_vec", comm.irecv_vec::<u8>(rank, tag).err()),
        ("scope irecv", comm.scope(|scope| scope.irecv(&mut borrowed, rank, tag).map(drop)).err()),
        ("probe", comm.probe(rank, tag).err()),
        ("iprobe", comm.iprobe(rank, tag).err()),
        ("mprobe", comm.mprobe(rank, tag).err()),
        ("improbe", comm.improbe(rank, tag).err()),
        ("sendrecv to", comm.sendrecv(&data, rank, tag, &mut into, me, 1).err()),
        ("sendrecv from", comm.sendrecv(&data, me, 1, &mut into, rank, tag).err()),
    ]
}

fn bad_rank(comm: &Comm) -> Outcome {
    let size = comm.size();
    for rank in [size, size + 1, usize::MAX, u32::MAX as usize + 1] {
        for (call, error) in every_call(comm, rank, 1) {
            check_eq!(error, Some(Error::BadRank { rank, size }), "{call} with rank {rank} of {size}");
        }
    }
    check_nothing_is_left(comm)
}

fn bad_tag(comm: &Comm) -> Outcome {
    for tag in [MAX_TAG + 1, u32::MAX] {
        for (call, error) in every_call(comm, comm.rank(), tag) {
            check_eq!(error, Some(Error::BadTag { tag }), "{call} with tag {tag}");
        }
        let any = [
            ("recv", comm.recv(&mut [0u8], ANY_SOURCE, tag).err()),
            ("irecv", comm.irecv(vec![0u8], ANY_SOURCE, tag).err()),
            ("iprobe", comm.iprobe(ANY_SOURCE, tag).err()),
        ];
        for (call, error) in any {
            check_eq!(error, Some(Error::BadTag { tag }), "{call} from any source with tag {tag}");
        }
    }
    check_nothing_is_left(comm)
}

/// Checks that refused calls have neither sent nor posted anything.
fn check_nothing_is_left(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    comm.barrier()?;
    check!(comm.iprobe(ANY_SOURCE, ANY_TAG)?.is_none(), "a refused call has sent something");
    comm.barrier()?;
    let sends = [comm.isend(vec![1u8], right, 1)?, comm.isend(vec![2u8], right, 1)?];
    check_eq!(comm.recv_vec::<u8>(left, 1)?.0, [1], "the first message after refused calls");
    check_eq!(comm.recv_vec::<u8>(left, 1)?.0, [2], "the second message after refused calls");
    treepie::wait_all(sends)?;
    Ok(())
}

fn mismatch(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let sends: Result<Vec<_>> = (1..=5).map(|tag| comm.isend(vec![3u8; 7], right, tag)).collect();
    let large = comm.isend(vec![3u8; 100_001], right, 6)?;
    let last = comm.isend(vec![4u8; 8], right, 7)?;
    let error = |bytes| Some(Error::PartialElement { bytes, element: 4 });
    check_eq!(comm.recv(&mut [0u32; 4], left, 1).err(), error(7), "recv of words");
    check_eq!(comm.recv_vec::<u32>(left, 2).err(), error(7), "recv_vec of words");
    check_eq!(comm.irecv(vec![0u32; 4], left, 3)?.wait().err(), error(7), "irecv of words");
    check_eq!(comm.irecv_vec::<u32>(left, 4)?.wait().err(), error(7), "irecv_vec of words");
    let mut into = [0u32; 4];
    let result = comm.scope(|scope| scope.irecv(&mut into, left, 5)?.wait());
    check_eq!(result.err(), error(7), "scope irecv of words");
    check_eq!(comm.recv_vec::<u32>(left, 6).err(), error(100_001), "recv_vec of many words");
    check_eq!(comm.recv_vec::<u32>(left, 7)?.0, [0x0404_0404; 2], "the message after those");
    treepie::wait_all(sends?)?;
    large.wait()?;
    last.wait()?;
    Ok(())
}

fn waiting_for_oneself(comm: &Comm) -> Outcome {
    let me = comm.rank();
    let mut results = vec![
        ("recv", comm.recv(&mut [0u8], me, 1).err()),
        ("recv of any tag", comm.recv(&mut [0u8], me, ANY_TAG).err()),
        ("recv_vec", comm.recv_vec::<u8>(me, 1).err()),
        ("irecv", comm.irecv(vec![0u8], me, 1)?.wait().err()),
        ("probe", comm.probe(me, 1).err()),
        ("mprobe", comm.mprobe(me, 1).err()),
    ];
    if comm.size() == 1 {
        results.push(("recv_vec from any source", comm.recv_vec::<u8>(ANY_SOURCE, 1).err()));
        results.push(("recv from any source", comm.recv(&mut [0u8], ANY_SOURCE, 1).err()));
        results.push(("probe of any source", comm.probe(ANY_SOURCE, ANY_TAG).err()));
    }
    for (call, error) in results {
        check!(
            matches!(error, Some(Error::Deadlock { .. })),
            "{call} of a message that this rank has not sent: {error:?}"
        );
    }
    // A message that was sent can be received.
    comm.send(&[1u8], me, 1)?;
    check_eq!(comm.recv_vec::<u8>(me, 1)?.0, [1], "message to oneself");
    Ok(())
}

fn one_can_go_on(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    for i in 0..100u32 {
        let _refused = comm.send(&[1u8], comm.size(), i);
        let _refused = comm.irecv_vec::<u8>(left, MAX_TAG + 1 + i);
        let mut into = vec![0u64; 50];
        comm.sendrecv(&series::<u64>(comm.rank(), 50), right, i, &mut into, left, i)?;
        check_series(&into, left, 50)?;
    }
    send_signal(comm, right)?;
    crate::signals::recv_signal(comm, left)?;
    Ok(comm.barrier()?)
}
