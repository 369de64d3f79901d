//! An operator that panics while its rank waits in another call: the others do not wait for it, and all stay in step.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use treepie::{Comm, Error, SparseExchange, commutative};

use super::check_usable;
use crate::check::{Outcome, check, check_eq};

/// A call that the panic interrupts.
type Call = fn(&Comm) -> Result<(), Error>;

/// Runs a call while an iallreduce is under way whose operator panics on rank 0. Rank 0 has entered the call when the
/// others start the reduction. They wait for it before they call if `they_wait`. Returns the call's result on this
/// rank.
pub(crate) fn meanwhile(comm: &Comm, they_wait: bool, call: Call) -> Outcome<Result<(), Error>> {
    let (me, size) = (comm.rank(), comm.size());
    let operator = commutative(move |a: u64, b: u64| {
        if me == 0 {
            // `resume_unwind` prints no message.
            resume_unwind(Box::new("the operator panics"));
        }
        a.wrapping_add(b)
    });
    // No rank gets the result without rank 0.
    let fan = comm.with_algorithm("allreduce/fan_in_fan_out")?;
    if me > 0 {
        comm.recv_vec::<u8>(me - 1, 3)?;
    }
    let request = fan.iallreduce(vec![1u64], operator)?;
    let go_on = || if me + 1 < size { comm.send(&[0u8], me + 1, 3) } else { Ok(()) };
    if me == 0 {
        // The operator may run, and panic, before the call.
        let early = catch_unwind(AssertUnwindSafe(go_on));
        let result = catch_unwind(AssertUnwindSafe(|| call(comm)));
        let late = catch_unwind(AssertUnwindSafe(|| request.wait().map(drop)));
        check!(early.is_err() || result.is_err() || late.is_err(), "the operator does not panic");
        return Ok(result.unwrap_or(Err(Error::Aborted { rank: 0 })));
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

const CALLS: [Call; 5] = [
    |comm| comm.dup().map(drop),
    |comm| comm.with_algorithm("split/merge")?.split(0, 0).map(drop),
    |comm| comm.create(&[0]).map(drop),
    |comm| comm.exchange([(0, vec![1u8])]).map(drop),
    |comm| comm.barrier(),
];

pub(super) fn in_comparisons(comm: &Comm) -> Outcome {
    let checked = &comm.checked();
    for they_wait in [true, false] {
        for call in CALLS {
            // The call may succeed or fail if the others do not wait for the reduction first.
            let _ = meanwhile(checked, they_wait, call)?;
            check_usable(checked)?;
            // Sparse exchanges too. With automatic selection one may fail, as some ranks may lack the traffic summary.
            let _ = checked.exchange([(0, vec![1u8])]);
            for comm in [checked, comm] {
                let got = comm.with_algorithm("exchange/nbx")?.exchange([(0, vec![1u8])])?;
                check_eq!(got.len(), if comm.rank() == 0 { comm.size() } else { 0 }, "messages after that");
            }
        }
    }
    Ok(())
}
