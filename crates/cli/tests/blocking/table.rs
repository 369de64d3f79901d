//! Rows of the table, and what the ranks do in a row.

use std::cell::Cell;
use std::fmt;

use treepie::{Comm, Error};

/// The rank into which the fault is injected; the others call.
pub(crate) const VICTIM: usize = 1;

/// The number of ranks.
pub(crate) const RANKS: usize = 3;

/// The tag of the message by which a rank announces that it is about to call.
const READY: u32 = 99;

/// Calls of each of the other ranks.
const CALLS_PER_RANK: usize = 3;

/// A blocking call, or several that wait for the same event.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    /// The functions it covers, as [`api`](crate::api) names them.
    pub(crate) covers: &'static [&'static str],
    /// What all ranks do: set up while all are alive, inject the fault, then call.
    pub(crate) run: fn(&Trial<'_>) -> Outcome,
    /// Whether it also runs where a run takes long.
    pub(crate) is_sample: bool,
}

impl Call {
    pub(crate) const fn new(covers: &'static [&'static str], run: fn(&Trial<'_>) -> Outcome) -> Self {
        Self { covers, run, is_sample: false }
    }

    pub(crate) const fn sample(self) -> Self {
        Self { is_sample: true, ..self }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.covers[0]
    }
}

/// All rows.
pub(crate) fn table() -> Vec<Call> {
    let parts = [
        crate::messages::CALLS,
        crate::collectives::CALLS,
        crate::communicators::CALLS,
        crate::exchanges::CALLS,
        crate::active::CALLS,
        crate::graphs::CALLS,
        crate::randomaccess::CALLS,
    ];
    parts.concat()
}

/// Why a rank stops.
#[derive(Debug)]
pub(crate) enum Stop {
    /// It is the victim, which leaves or returns an error.
    Left,
    /// An outcome is wrong.
    Wrong(String),
}

pub(crate) type Outcome<T = ()> = Result<T, Stop>;

impl<E: fmt::Display> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Wrong(format!("before the fault: {error}"))
    }
}

/// A rank's view of a trial.
pub(crate) struct Trial<'a> {
    pub(crate) world: &'a Comm,
    /// What the victim does; returns if it leaves in order.
    pub(crate) fault: &'a dyn Fn(),
    pub(crate) failed: Cell<usize>,
}

impl Trial<'_> {
    pub(crate) fn rank(&self) -> usize {
        self.world.rank()
    }

    /// Injects the fault into the victim; the others go on.
    pub(crate) fn lose(&self) -> Outcome {
        if self.rank() != VICTIM {
            // The setup for the call is complete.
            return Ok(self.world.send::<u8>(&[], VICTIM, READY)?);
        }
        for other in [0, 2] {
            self.world.recv(&mut [0u8; 0], other, READY)?;
        }
        // By now the others mostly wait in the call; the test must hold in either case.
        for _ in 0..20 {
            crate::running::yield_turn();
        }
        (self.fault)();
        Err(Stop::Left)
    }

    /// Injects the fault; then every call of the others must fail.
    pub(crate) fn fails<T, E: fmt::Display>(&self, call: impl FnMut() -> Result<T, E>) -> Outcome {
        self.fails_on(&[0, 2], call, |_| true)
    }

    /// Injects the fault; then the calls of the others fail or return the correct value.
    pub(crate) fn may_fail<T, E: fmt::Display>(
        &self,
        call: impl FnMut() -> Result<T, E>,
        is_right: impl Fn(&T) -> bool,
    ) -> Outcome {
        self.fails_on(&[], call, is_right)
    }

    /// The same, but on `ranks`, which depend on the victim, the calls must fail.
    pub(crate) fn fails_on<T, E: fmt::Display>(
        &self,
        ranks: &[usize],
        mut call: impl FnMut() -> Result<T, E>,
        is_right: impl Fn(&T) -> bool,
    ) -> Outcome {
        self.lose()?;
        for time in 1..=CALLS_PER_RANK {
            match call() {
                Err(_) => self.failed.set(self.failed.get() + 1),
                Ok(_) if ranks.contains(&self.rank()) => {
                    return Err(Stop::Wrong(format!("rank {}: call {time} returned Ok", self.rank())));
                }
                Ok(value) if !is_right(&value) => {
                    return Err(Stop::Wrong(format!("rank {}: call {time} returned a wrong value", self.rank())));
                }
                Ok(_) => {}
            }
        }
        Ok(())
    }
}

/// The result of a request that is tested until it completes.
pub(crate) fn test_until_over<T>(mut request: treepie::Request<'_, T>) -> Result<T, Error> {
    loop {
        if let Some(result) = request.test() {
            return result;
        }
        crate::running::yield_turn();
    }
}
