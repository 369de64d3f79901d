//! Operations of one value, and of objects.

use serde::{Deserialize, Serialize, Serializer};
use treepie::{ANY_SOURCE, Comm, Error, MaxLoc, SparseExchange, Sum, ValueLoc};

use crate::check::{Outcome, check, check_eq};
use crate::signals::ring_neighbors;
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("short-forms/one-value-of-each-rank", 1, one_value),
    Case::new("short-forms/messages-of-one-value", 1, messages_of_one_value),
    Case::new("short-forms/objects-as-messages", 1, messages_of_objects),
    Case::new("short-forms/objects-of-all-ranks", 1, collective_objects),
    Case::new("short-forms/short-and-long-objects", 1, short_and_long_objects),
    Case::new("short-forms/objects-that-are-missing", 1, missing_objects),
    Case::new("short-forms/exchanged-objects", 1, exchanged_objects),
    Case::new("short-forms/items-by-owner", 1, items_by_owner),
    Case::new("short-forms/shifts", 1, shifts),
    Case::new("short-forms/objects-that-cannot-be-serialized", 1, unserializable),
];

fn one_value(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank() as u64, comm.size() as u64);
    let all: Vec<u64> = (0..size).map(|rank| rank + 1).collect();
    let sum = size * (size + 1) / 2;
    check_eq!(comm.allreduce_one(me + 1, Sum)?, sum, "allreduce");
    check_eq!(comm.allgather_one(me + 1)?, all, "allgather");
    check_eq!(comm.scan_one(me + 1, Sum)?, (me + 1) * (me + 2) / 2, "scan");
    check_eq!(comm.exscan_one(me + 1, Sum)?, (me > 0).then_some(me * (me + 1) / 2), "exscan");
    let greatest = comm.allreduce_one(ValueLoc { value: me.min(2), loc: me }, MaxLoc)?;
    check_eq!((greatest.value, greatest.loc), ((size - 1).min(2), (size - 1).min(2)), "allreduce by MaxLoc");
    for root in [0, comm.size() - 1] {
        let is_root = comm.rank() == root;
        check_eq!(comm.bcast_one(me * 10, root)?, root as u64 * 10, "bcast from {root}");
        check_eq!(comm.gather_one(me + 1, root)?, is_root.then(|| all.clone()), "gather to {root}");
        check_eq!(comm.reduce_one(me + 1, Sum, root)?, is_root.then_some(sum), "reduce to {root}");
        check_eq!(comm.scatter_one(if is_root { &all } else { &[] }, root)?, me + 1, "scatter from {root}");
    }
    let for_each: Vec<u64> = (0..size).map(|to| me * 1000 + to).collect();
    let from_each: Vec<u64> = (0..size).map(|from| from * 1000 + me).collect();
    check_eq!(comm.alltoall_one(&for_each)?, from_each, "alltoall");
    Ok(())
}

fn messages_of_one_value(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    comm.send_one(comm.rank() as f64, right, 1)?;
    let (value, status) = comm.recv_one::<f64>(left, 1)?;
    check_eq!((value, status.source, status.bytes), (left as f64, left, 8), "message of one value");
    // A message of no element is an error, and so is one of two, which stays.
    comm.send::<f64>(&[], right, 2)?;
    let empty = comm.recv_one::<f64>(left, 2).map(drop);
    check_eq!(empty, Err(Error::BadLength { what: "the message", got: 0, expected: 1 }), "an empty message");
    comm.send(&[1.0, 2.0], right, 3)?;
    let long = comm.recv_one::<f64>(left, 3).map(drop);
    check_eq!(long, Err(Error::Truncated { got: 16, room: 8 }), "a message of two");
    check_eq!(comm.recv_vec::<f64>(left, 3)?.0, [1.0, 2.0], "the message that did not fit");
    Ok(())
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Person {
    name: String,
    scores: Vec<Option<i32>>,
}

/// An object whose size depends on the rank.
fn person(rank: usize) -> Person {
    let scores = (0..rank * 100).map(|i| (i % 3 > 0).then_some(i as i32 - 50)).collect();
    Person { name: format!("rank {rank}"), scores }
}

fn messages_of_objects(comm: &Comm) -> Outcome {
    let (left, right) = ring_neighbors(comm);
    comm.send_object(&person(comm.rank()), right, 1)?;
    let (got, status) = comm.recv_object::<Person>(ANY_SOURCE, 1)?;
    check_eq!((got, status.source), (person(left), left), "object of the left neighbor");
    comm.send_object(&person(1), right, 3)?;
    let prefix = comm.recv_object::<String>(left, 3).map(drop);
    check!(matches!(prefix, Err(Error::Object(_))), "a struct received as its first field: {prefix:?}");
    comm.send_object("text", right, 2)?;
    let other_type = comm.recv_object::<Person>(left, 2).map(drop);
    check!(matches!(other_type, Err(Error::Object(_))), "a text received as a struct: {other_type:?}");
    Ok(())
}

fn collective_objects(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    let all: Vec<Person> = (0..size).map(person).collect();
    check_eq!(comm.allgather_objects(&person(me))?, all, "allgather");
    for root in [0, size - 1] {
        let is_root = me == root;
        check_eq!(comm.bcast_object(is_root.then(|| person(me)), root)?, person(root), "bcast from {root}");
        check_eq!(comm.gather_objects(&person(me), root)?, is_root.then(|| all.clone()), "gather to {root}");
        check_eq!(comm.scatter_objects(if is_root { &all } else { &[] }, root)?, person(me), "scatter from {root}");
    }
    Ok(())
}

/// Objects that travel with their lengths, others that need a second operation, and both in one call.
fn short_and_long_objects(comm: &Comm) -> Outcome {
    let (me, size, root) = (comm.rank(), comm.size(), comm.size() - 1);
    let is_root = me == root;
    // 502 bytes and their length in two are the longest object in its head.
    for len in [0, 1, 400, 500, 501, 502, 503, 504, 511, 512, 513, 1000, 5000, 300_000] {
        for every in [1, 2, size] {
            let text = |rank: usize| "x".repeat(if rank.is_multiple_of(every) { len } else { rank });
            let all: Vec<String> = (0..size).map(text).collect();
            let what = format!("{len} bytes of one in {every} ranks");
            check_eq!(comm.allgather_objects(&text(me))?, all, "allgather, {what}");
            check_eq!(comm.gather_objects(&text(me), root)?, is_root.then(|| all.clone()), "gather, {what}");
            check_eq!(comm.scatter_objects(if is_root { &all } else { &[] }, root)?, text(me), "scatter, {what}");
            check_eq!(comm.bcast_object(is_root.then(|| text(0)), root)?, text(0), "bcast, {what}");
        }
    }
    Ok(())
}

/// Refused on one rank; the others learn of it, and all go on.
fn missing_objects(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    for given in [0, size - 1, size + 1] {
        let objects = vec![person(3); if me == 0 { given } else { 0 }];
        let result = comm.scatter_objects(&objects, 0).map(drop);
        if me == 0 {
            let refusal = Error::BadLength { what: "the list of objects", got: given, expected: size };
            check_eq!(result, Err(refusal), "scatter of {given} objects on the root");
        } else {
            check!(matches!(result, Err(Error::Aborted { .. })), "scatter of {given} objects: {result:?}");
        }
        check_eq!(comm.allreduce_one(1, Sum)?, size as i32, "the operation after a scatter of {given} objects");
    }
    let no_root = comm.gather_objects(&person(me), size).map(drop);
    check_eq!(no_root, Err(Error::BadRank { rank: size, size }), "gather to a rank that does not exist");
    check_eq!(comm.allreduce_one(1, Sum)?, size as i32, "the operation after a gather to no rank");
    Ok(())
}

fn exchanged_objects(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    // Every rank sends to those that its rank divides, and to itself.
    let is_sent = |from: usize, to: usize| from == to || (from > 0 && to.is_multiple_of(from));
    let destinations = (0..size).filter(|to| is_sent(me, *to));
    let got = comm.exchange_objects(destinations.map(|to| (to, (person(me), to))))?;
    let expected: Vec<_> = (0..size).filter(|from| is_sent(*from, me)).map(|from| (from, (person(from), me))).collect();
    check_eq!(got, expected, "objects by source");
    Ok(())
}

fn items_by_owner(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    // Item i of a rank belongs to rank i modulo all; the highest rank has none.
    let items = |rank: usize| if rank + 1 == size && size > 1 { 0..0 } else { 0..3 * size + rank };
    let got = comm.exchange_by_owner(items(me).map(|i| [me, i]), |[_, i]| i % size)?;
    let all = (0..size).flat_map(|from| items(from).map(move |i| [from, i]));
    check_eq!(got, all.filter(|[_, i]| i % size == me).collect::<Vec<_>>(), "items by source");
    let nowhere = comm.exchange_by_owner([1u8], |_| if me == 0 { size } else { 0 }).map(drop);
    if me == 0 {
        check_eq!(nowhere, Err(Error::BadRank { rank: size, size }), "an owner that does not exist");
    } else {
        check!(nowhere.is_err(), "the owner of another rank does not exist: {nowhere:?}");
    }
    Ok(())
}

fn shifts(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank() as isize, comm.size() as isize);
    for periodic in [false, true] {
        let line = comm.cart_create(&[comm.size()], &[periodic])?.expect("all ranks are in it");
        for by in [-2, -1, 0, 1, 2, size] {
            let mut got = [-1, -1];
            let received = line.sendrecv_shift(&[me, 7], &mut got, 0, by, 5)?;
            let source = if periodic { Some((me - by).rem_euclid(size)) } else { Some(me - by) };
            let source = source.filter(|source| (0..size).contains(source));
            let received = received.map(|status| (status.source as isize, status.bytes));
            check_eq!(received, source.map(|source| (source, 16)), "a shift by {by}, periodic: {periodic}");
            check_eq!(got, source.map_or([-1, -1], |source| [source, 7]), "a shift by {by}, periodic: {periodic}");
        }
    }
    Ok(())
}

/// Serialized on all ranks but one.
#[derive(Debug, Deserialize)]
struct Fragile {
    fails: bool,
}

impl Serialize for Fragile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.fails { Err(serde::ser::Error::custom("it is fragile")) } else { serializer.serialize_bool(false) }
    }
}

fn unserializable(comm: &Comm) -> Outcome {
    let (me, size) = (comm.rank(), comm.size());
    let failing = size - 1;
    let object = || Fragile { fails: me == failing };
    let check = |what: &str, result: Result<(), Error>| -> Outcome {
        if me == failing {
            check!(matches!(result, Err(Error::Object(_))), "{what} on the rank that fails: {result:?}");
        } else {
            let mismatch = comm.is_checked() && matches!(result, Err(Error::CollectiveMismatch { .. }));
            let aborted = matches!(result, Err(Error::Aborted { .. }));
            check!(mismatch || aborted, "{what} on the others: {result:?}");
        }
        check_eq!(comm.allreduce_one(1, Sum)?, size as i32, "the operation after {what}");
        Ok(())
    };
    check("bcast", comm.bcast_object((me == failing).then(object), failing).map(drop))?;
    check("gather", comm.gather_objects(&object(), 0).map(drop))?;
    let objects: Vec<Fragile> = (0..if me == failing { size } else { 0 }).map(|_| object()).collect();
    check("scatter", comm.scatter_objects(&objects, failing).map(drop))?;
    check("allgather", comm.allgather_objects(&object()).map(drop))?;
    check("exchange", comm.exchange_objects([(failing, object())]).map(drop))?;
    let missing = comm.bcast_object::<Person>(None, failing).map(drop);
    check("bcast of nothing", missing)?;
    Ok(())
}
