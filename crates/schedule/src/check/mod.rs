//! Verifies a schedule by symbolic execution: each element records whose contributions it holds.
//!
//! Sends are synchronous: a send completes when its receive has started. There are no wildcard receives, so whether the
//! execution terminates does not depend on timing, and one execution proves the absence of deadlock. The accesses of
//! all operations that may be concurrent are compared, so one execution also proves the absence of races: within a
//! round, and between the lanes of a phase that may be open together.
//!
//! A schedule must not write `In`, the caller's send buffer. In place, where `In` and `Out` alias, it writes `Out`.
//! An all-to-all in place is verified as one that is not: the caller has to pass a copy of the input.
//!
//! A proof is for given block lengths, which should include 0, 1 and some that nothing divides.

mod batches;
mod contract;
mod error;
mod memory;
mod op_access;
mod staging;
mod value;
mod verifier;

pub use error::{ScheduleError, ScheduleLocation};
pub use value::MAX_RANKS;
pub use verifier::{CheckOptions, CheckReport};

use crate::layout::BlockLayouts;
use crate::schedule::Schedule;

/// Verifies a schedule for given block lengths.
///
/// `layouts` gives the lengths for each rank; they are equal except for an all-to-all of unequal counts.
pub fn check(
    schedule: &dyn Schedule,
    layouts: &dyn Fn(u32) -> BlockLayouts,
    options: CheckOptions,
) -> Result<CheckReport, ScheduleError> {
    assert!(schedule.ranks() <= MAX_RANKS, "the checker supports at most {MAX_RANKS} ranks");
    verifier::Verifier::new(schedule, layouts, options).verify()
}
