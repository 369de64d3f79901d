//! Limits of the library: the largest allowed number, and one more.

use treepie::am::ActiveMessages;
use treepie::{Comm, Error, MAX_TAG, SparseExchange, Sum};

use crate::check::{Outcome, check, check_eq};
use crate::suite::Case;

pub(crate) const CASES: &[Case] = &[
    Case::new("limits/4097-exchanges-under-way", 2, exchanges_under_way),
    Case::new("limits/4097-reductions-under-way", 2, reductions_under_way),
    Case::new("limits/operations-while-one-is-under-way", 2, around_one),
    Case::new("limits/the-largest-tag", 1, largest_tag),
    Case::new("limits/the-largest-tag-of-a-group", 1, largest_group_tag),
    Case::new("limits/5000-segments-at-once", 2, many_segments),
    Case::new("limits/1024-message-types", 1, message_types),
    Case::new("limits/more-communicators-than-barrier-counters", 2, communicators),
    Case::new("limits/more-synchronous-sends-than-slots", 2, synchronous_sends),
];

/// One more than a former limit: tags had 2^12 sequence numbers for operations of a communicator.
const MANY: u64 = (1 << 12) + 1;

/// A communicator of the first two ranks.
fn first_two_ranks(comm: &Comm) -> Result<Option<Comm>, Error> {
    comm.split(u32::from(comm.rank() > 1), 0).map(|half| half.filter(|_| comm.rank() < 2))
}

fn exchanges_under_way(comm: &Comm) -> Outcome {
    let Some(two) = first_two_ranks(comm)? else { return Ok(()) };
    let other = 1 - two.rank();
    let requests: Result<Vec<_>, _> = (0..MANY).map(|i| two.iexchange([(other, vec![i])])).collect();
    // The last ones first, so that all of them are under way.
    for (i, request) in requests?.into_iter().enumerate().rev() {
        let got: Vec<(usize, Vec<u64>)> = request.wait()?.into_iter().collect();
        check_eq!(got, [(other, vec![i as u64])], "exchange {i}");
    }
    Ok(())
}

fn reductions_under_way(comm: &Comm) -> Outcome {
    let Some(two) = first_two_ranks(comm)? else { return Ok(()) };
    let requests: Result<Vec<_>, _> = (0..MANY).map(|i| two.iallreduce(vec![i], Sum)).collect();
    for (i, request) in requests?.into_iter().enumerate().rev() {
        check_eq!(request.wait()?, [2 * i as u64], "reduction {i}");
    }
    Ok(())
}

/// An exchange stays under way while thousands of later operations complete.
fn around_one(comm: &Comm) -> Outcome {
    let Some(two) = first_two_ranks(comm)? else { return Ok(()) };
    let early = two.iexchange([(1 - two.rank(), vec![7u64])])?;
    for i in 0..MANY {
        let mut data = [if two.rank() == 0 { i } else { 0 }];
        two.bcast(&mut data, 0)?;
        check_eq!(data, [i], "bcast {i}");
    }
    check_eq!(early.wait()?.len(), 1, "messages of the exchange before them");
    Ok(())
}

fn largest_tag(comm: &Comm) -> Outcome {
    let me = comm.rank();
    let sent = comm.isend(vec![me], me, MAX_TAG)?;
    check_eq!(comm.recv_vec::<usize>(me, MAX_TAG)?.1.tag, MAX_TAG, "tag");
    sent.wait()?;
    let refused = Error::BadTag { tag: MAX_TAG + 1 };
    check_eq!(comm.isend(vec![me], me, MAX_TAG + 1).err(), Some(refused.clone()), "a send");
    check_eq!(comm.irecv_vec::<usize>(me, MAX_TAG + 1).err(), Some(refused), "a receive");
    Ok(())
}

fn largest_group_tag(comm: &Comm) -> Outcome {
    let largest = (1 << 30) - 1;
    check_eq!(comm.create_group(&[comm.rank()], largest)?.size(), 1, "a group of one");
    let error = comm.create_group(&[comm.rank()], largest + 1).err();
    check!(matches!(error, Some(Error::Algorithm(_))), "a larger tag: {error:?}");
    Ok(())
}

/// More segments than lane numbers, which are then reused.
fn many_segments(comm: &Comm) -> Outcome {
    let len = 5000 * 3;
    for id in ["bcast/chain:segments=4096", "bcast/chain:segments=5000"] {
        let expected: Vec<u32> = (0..len).collect();
        let mut data = if comm.rank() == 0 { expected.clone() } else { vec![0; len as usize] };
        comm.with_algorithm(id)?.bcast(&mut data, 0)?;
        check!(data == expected, "{id}");
    }
    Ok(())
}

/// The limit on message types of one runtime.
fn message_types(comm: &Comm) -> Outcome {
    for types in [1024, 1025] {
        let mut build = ActiveMessages::<u64>::builder(comm);
        for number in 0..types {
            let port = build.port::<u32>(&number.to_string());
            build.on(port, |_, _, _| ());
        }
        match build.start() {
            Ok(_) => check_eq!(types, 1024, "types that were accepted"),
            Err(error) => {
                let text = "`1024` is a message type too many; there can be 1024";
                check_eq!((types, error.to_string().as_str()), (1025, text), "types that were refused");
            }
        }
    }
    Ok(())
}

/// The first communicators have barrier counters of the engine; the others send messages.
fn communicators(comm: &Comm) -> Outcome {
    let all: Result<Vec<Comm>, Error> = (0..130).map(|_| comm.dup()).collect();
    for (number, one) in all?.iter().enumerate() {
        one.barrier()?;
        check_eq!(one.allreduce(&[1u64], Sum)?, [comm.size() as u64], "communicator {number}");
    }
    Ok(())
}

/// More synchronous sends than acknowledgement slots; the others are acknowledged by records.
fn synchronous_sends(comm: &Comm) -> Outcome {
    let Some(two) = first_two_ranks(comm)? else { return Ok(()) };
    let other = 1 - two.rank();
    for count in [512, 513, 2000] {
        let sends: Result<Vec<_>, _> = (0..count).map(|i| two.issend(vec![i], other, 0)).collect();
        for i in 0..count {
            check_eq!(two.recv_vec::<i32>(other, 0)?.0, [i], "message {i} of {count}");
        }
        for send in sends? {
            send.wait()?;
        }
    }
    Ok(())
}
