//! Every call with every kind of element.

use treepie::Comm;

use crate::check::{Outcome, check_eq};
use crate::payload::{Element, Particle, check_series, series};
use crate::signals::{poll_until, ring_neighbors};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("elements/u8", 1, every_call::<u8>),
    Case::new("elements/u16", 1, every_call::<u16>),
    Case::new("elements/u32", 1, every_call::<u32>),
    Case::new("elements/u64", 1, every_call::<u64>),
    Case::new("elements/f64", 1, every_call::<f64>),
    Case::new("elements/struct", 1, every_call::<Particle>),
    Case::new("elements/zero-length", 1, zero_length),
    Case::new("elements/bytes-of-one-type-are-received-as-another", 1, as_another_type),
];

fn every_call<T: Element>(comm: &Comm) -> Outcome {
    [1, 3, 257, 20_001].into_iter().try_for_each(|len| {
        blocking::<T>(comm, len)?;
        nonblocking::<T>(comm, len)?;
        borrowed::<T>(comm, len)?;
        probed::<T>(comm, len)
    })
}

fn zero_length(comm: &Comm) -> Outcome {
    blocking::<u64>(comm, 0)?;
    nonblocking::<Particle>(comm, 0)?;
    borrowed::<u16>(comm, 0)?;
    probed::<u8>(comm, 0)
}

/// Messages around the ring. Receives are posted first, so that blocking sends can complete.
fn blocking<T: Element>(comm: &Comm, len: usize) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let data = series::<T>(comm.rank(), len);
    let mut into = vec![T::zeroed(); len];

    let receive = comm.irecv_vec::<T>(left, 1)?;
    comm.send(&data, right, 1)?;
    check_series(&receive.wait()?.0, left, len)?;

    let receive = comm.irecv_vec::<T>(left, 2)?;
    comm.ssend(&data, right, 2)?;
    check_series(&receive.wait()?.0, left, len)?;

    let send = comm.isend(data.clone(), right, 3)?;
    let status = comm.recv(&mut into, left, 3)?;
    check_eq!((status.source, status.tag, status.count::<T>()), (left, 3, len), "status of recv");
    check_series(&into, left, len)?;
    send.wait()?;

    let send = comm.isend(data.clone(), right, 4)?;
    let (got, status) = comm.recv_vec::<T>(left, 4)?;
    check_eq!(status.bytes, size_of_val(&data[..]) as u64, "bytes of recv_vec");
    check_series(&got, left, len)?;
    send.wait()?;

    into.fill(T::zeroed());
    let status = comm.sendrecv(&data, right, 5, &mut into, left, 5)?;
    check_eq!((status.source, status.tag, status.count::<T>()), (left, 5, len), "status of sendrecv");
    check_series(&into, left, len)
}

fn nonblocking<T: Element>(comm: &Comm, len: usize) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let data = series::<T>(comm.rank(), len);

    let receive = comm.irecv(vec![T::zeroed(); len], left, 1)?;
    let send = comm.isend(data.clone(), right, 1)?;
    let (got, status) = receive.wait()?;
    check_eq!((status.source, status.tag, status.count::<T>()), (left, 1, len), "status of irecv");
    check_series(&got, left, len)?;
    check_eq!(send.wait()?, data, "the buffer isend returns");

    let send = comm.issend(data.clone(), right, 2)?;
    let (got, _) = comm.irecv_vec::<T>(left, 2)?.wait()?;
    check_series(&got, left, len)?;
    check_eq!(send.wait()?, data, "the buffer issend returns");

    let (mut receive, mut send) = (comm.irecv_vec::<T>(left, 3)?, comm.issend(data.clone(), right, 3)?);
    let (mut got, mut returned) = (None, None);
    poll_until(comm, "the end of an issend and its receive", || {
        if got.is_none() {
            got = receive.test().transpose()?;
        }
        if returned.is_none() {
            returned = send.test().transpose()?;
        }
        Ok(got.is_some() && returned.is_some())
    })?;
    check_series(&got.expect("it is complete").0, left, len)?;
    check_eq!(returned.expect("it is complete"), data, "the buffer issend returns by test");
    Ok(())
}

fn borrowed<T: Element>(comm: &Comm, len: usize) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let data = series::<T>(comm.rank(), len);
    let mut into = [vec![T::zeroed(); len], vec![T::zeroed(); len]];
    let [first, second] = &mut into;
    comm.scope(|scope| {
        let receives = [scope.irecv(first, left, 1)?, scope.irecv(second, left, 2)?];
        let sends = [scope.isend(&data, right, 1)?, scope.issend(&data, right, 2)?];
        treepie::wait_all(receives)?;
        treepie::wait_all(sends)
    })?;
    into.iter().try_for_each(|got| check_series(got, left, len))
}

fn probed<T: Element>(comm: &Comm, len: usize) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let data = series::<T>(comm.rank(), len);
    let sends: Result<Vec<_>, _> = (1..=5).map(|tag| comm.isend(data.clone(), right, tag)).collect();
    let mut into = vec![T::zeroed(); len];

    let status = comm.probe(left, 1)?;
    check_eq!((status.source, status.tag, status.count::<T>()), (left, 1, len), "status of probe");
    comm.recv(&mut into, left, 1)?;
    check_series(&into, left, len)?;

    let message = comm.mprobe(left, 2)?;
    check_eq!((message.status().tag, message.status().count::<T>()), (2, len), "status of mprobe");
    into.fill(T::zeroed());
    message.recv(&mut into)?;
    check_series(&into, left, len)?;

    check_series(&comm.mprobe(left, 3)?.recv_vec::<T>()?, left, len)?;

    let mut seen = None;
    poll_until(comm, "an iprobe that finds a message", || {
        seen = comm.iprobe(left, 4)?;
        Ok(seen.is_some())
    })?;
    check_eq!(seen.map(|status| status.count::<T>()), Some(len), "length by iprobe");
    check_series(&comm.recv_vec::<T>(left, 4)?.0, left, len)?;

    let mut message = None;
    poll_until(comm, "an improbe that finds a message", || {
        message = comm.improbe(left, 5)?;
        Ok(message.is_some())
    })?;
    check_series(&message.expect("it has arrived").recv_vec::<T>()?, left, len)?;
    treepie::wait_all(sends?)?;
    Ok(())
}

fn as_another_type(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    let sends = [comm.isend(vec![0x0102_0304u32, 0x0506_0708], right, 1)?, comm.isend(vec![0x1122u32; 2], right, 2)?];
    let want: Vec<u8> = [0x0102_0304u32, 0x0506_0708].iter().flat_map(|word| word.to_ne_bytes()).collect();
    check_eq!(comm.recv_vec::<u8>(left, 1)?.0, want, "bytes of words");
    check_eq!(comm.recv_vec::<u64>(left, 2)?.0, [0x0000_1122_0000_1122], "words as one word of twice their length");
    treepie::wait_all(sends)?;
    Ok(())
}
