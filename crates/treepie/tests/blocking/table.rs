//! What a row of the table is, and what ranks do in it.

use std::cell::Cell;
use std::fmt;

use treepie::{Comm, Error};

/// The rank that is lost; the others call.
pub(crate) const VICTIM: usize = 1;

/// How many ranks there are.
pub(crate) const RANKS: usize = 3;

/// The tag of a message that says that a rank is about to call.
const READY: u32 = 99;

/// How often each of the others calls.
const TIMES: usize = 3;

/// A call, or several that wait in the same way.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    /// The functions of the API that it is about, as [`api`](crate::api) names them.
    pub(crate) covers: &'static [&'static str],
    /// What all ranks do. It makes what it needs first, as all are there, and then has the victim lost.
    pub(crate) run: fn(&Trial<'_>) -> Outcome,
    /// Whether it is run where a run takes long, too.
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

/// All of them.
pub(crate) fn table() -> Vec<Call> {
    let parts = [
        crate::messages::CALLS,
        crate::collectives::CALLS,
        crate::communicators::CALLS,
        crate::exchanges::CALLS,
        crate::active::CALLS,
        crate::graphs::CALLS,
    ];
    parts.concat()
}

/// Why a rank ends its part.
#[derive(Debug)]
pub(crate) enum Stop {
    /// It is the victim, which leaves or returns an error.
    Left,
    /// Something is not as it must be.
    Wrong(String),
}

pub(crate) type Outcome<T = ()> = Result<T, Stop>;

impl<E: fmt::Display> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Wrong(format!("before anybody was lost: {error}"))
    }
}

/// What a rank knows of a trial.
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

    /// The victim is lost here, and the others go on.
    pub(crate) fn lose(&self) -> Outcome {
        if self.rank() != VICTIM {
            // What was made for the call is there.
            return Ok(self.world.send::<u8>(&[], VICTIM, READY)?);
        }
        for other in [0, 2] {
            self.world.recv(&mut [0u8; 0], other, READY)?;
        }
        // The others wait already, mostly; it must hold in any case.
        for _ in 0..20 {
            crate::running::yield_turn();
        }
        (self.fault)();
        Err(Stop::Left)
    }

    /// The victim is lost, and what the others call fails, each time.
    pub(crate) fn fails<T, E: fmt::Display>(&self, call: impl FnMut() -> Result<T, E>) -> Outcome {
        self.fails_on(&[0, 2], call, |_| true)
    }

    /// The victim is lost, and what the others call fails or returns what it should.
    pub(crate) fn may_fail<T, E: fmt::Display>(
        &self,
        call: impl FnMut() -> Result<T, E>,
        is_right: impl Fn(&T) -> bool,
    ) -> Outcome {
        self.fails_on(&[], call, is_right)
    }

    /// The same, and on these ranks it must fail: they need something of the victim.
    pub(crate) fn fails_on<T, E: fmt::Display>(
        &self,
        ranks: &[usize],
        mut call: impl FnMut() -> Result<T, E>,
        is_right: impl Fn(&T) -> bool,
    ) -> Outcome {
        self.lose()?;
        for time in 1..=TIMES {
            match call() {
                Err(_) => self.failed.set(self.failed.get() + 1),
                Ok(_) if ranks.contains(&self.rank()) => {
                    return Err(Stop::Wrong(format!("rank {}: call {time} returned Ok", self.rank())));
                }
                Ok(value) if !is_right(&value) => {
                    return Err(Stop::Wrong(format!("rank {}: call {time} returned what is not right", self.rank())));
                }
                Ok(_) => {}
            }
        }
        Ok(())
    }
}

/// A result of a request that is tested until it is over.
pub(crate) fn test_until_over<T>(mut request: treepie::Request<'_, T>) -> Result<T, Error> {
    loop {
        if let Some(result) = request.test() {
            return result;
        }
        crate::running::yield_turn();
    }
}
