//! An operator that panics while its rank waits in another call: others do not wait for it, and nobody is out of step.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use treepie::{Comm, Error, SparseExchange, commutative};

use super::works;
use crate::check::{Outcome, check, check_eq};

/// What is called meanwhile.
type Calling = fn(&Comm) -> Result<(), Error>;

/// A reduction whose operator panics on rank 0 goes on beside a call, which rank 0 has begun when the others begin the
/// reduction. They wait for the end of that before they call, or not. Returns what the call gave on this rank.
pub(crate) fn meanwhile(comm: &Comm, they_wait: bool, call: Calling) -> Outcome<Result<(), Error>> {
    let (me, size) = (comm.rank(), comm.size());
    let operator = commutative(move |a: u64, b: u64| {
        if me == 0 {
            // Without a word on the terminal.
            resume_unwind(Box::new("the operator panics"));
        }
        a.wrapping_add(b)
    });
    // Nobody has the result without rank 0.
    let fan = comm.using("allreduce/fan_in_fan_out")?;
    if me > 0 {
        comm.recv_vec::<u8>(me - 1, 3)?;
    }
    let request = fan.iall_reduce(vec![1u64], operator)?;
    let go_on = || if me + 1 < size { comm.send(&[0u8], me + 1, 3) } else { Ok(()) };
    if me == 0 {
        // Others may be so quick that it panics before the call.
        let early = catch_unwind(AssertUnwindSafe(go_on));
        let result = catch_unwind(AssertUnwindSafe(|| call(comm)));
        let late = catch_unwind(AssertUnwindSafe(|| request.wait().map(drop)));
        check!(early.is_err() || result.is_err() || late.is_err(), "the operator does not panic");
        return Ok(result.unwrap_or(Err(Error::GaveUp { rank: 0 })));
    }
    go_on()?;
    if !they_wait {
        let result = call(comm);
        check!(request.wait().is_err(), "a reduction without an operator");
        return Ok(result);
    }
    check!(request.wait().is_err(), "a reduction without an operator");
    Ok(call(comm))
}

const CALLS: [Calling; 5] = [
    |comm| comm.dup().map(drop),
    |comm| comm.using("split/merge")?.split(0, 0).map(drop),
    |comm| comm.create(&[0]).map(drop),
    |comm| comm.exchange([(0, vec![1u8])]).map(drop),
    |comm| comm.barrier(),
];

pub(super) fn in_comparisons(comm: &Comm) -> Outcome {
    let checked = &comm.checked();
    for they_wait in [true, false] {
        for call in CALLS {
            // It may be over, or not, where the others do not wait before it.
            let _ = meanwhile(checked, they_wait, call)?;
            works(checked)?;
            // Also for protocols, of which one may be chosen that some ranks know too little of now, and by what the engine has.
            let _ = checked.exchange([(0, vec![1u8])]);
            for comm in [checked, comm] {
                let got = comm.using("exchange/nbx")?.exchange([(0, vec![1u8])])?;
                check_eq!(got.len(), if comm.rank() == 0 { comm.size() } else { 0 }, "messages after that");
            }
        }
    }
    Ok(())
}
