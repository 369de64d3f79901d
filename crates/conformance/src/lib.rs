//! The conformance suite: cases that run unchanged on every engine and any number of ranks.
//!
//! A [`Case`] is a function that all ranks call with a communicator made for it. It returns a [`Failure`] if something
//! does not hold. [`run_all`] runs the cases one after the other; after each, all ranks exchange who failed, so that
//! every rank knows of a failure on any.
//!
//! | file | subject |
//! |---|---|
//! | `barriers`, `contexts`, `splits` | barriers; isolation of communicators; splits |
//! | `groups`, `topologies` | `create_group`; Cartesian and graph topologies, `split_type`, names |
//! | `elements`, `sizes`, `exchange` | every call with every kind and length of data |
//! | `order`, `matching`, `wildcards` | message order and matching |
//! | `short_forms` | operations of one value, and of objects |
//! | `nonblocking`, `request_sets`, `synchronous`, `probes`, `scopes` | requests, probes, borrowed buffers |
//! | `truncation`, `errors` | errors of point-to-point calls |
//! | `windows` | one-sided access |
//! | `collectives`, `refusals` | collective operations with automatic selection |
//! | `checking`, `mismatches` | mismatched calls, in checked mode and outside it |
//! | `limits` | limits of the library |
//! | `in_place` | in-place operations, operations on borrowed slices |
//! | `in_flight`, `persistent` | many operations at once; persistent operations |
//! | `host_mpi` | collective operations that the MPI library runs |
//! | `algorithms`, `routed` | every algorithm of the registry; store-and-forward alltoallv |
//! | `floats` | reproducibility of floating-point sums |
//! | `floods`, `random`, `sparse` | stress |
//! | `active` | active messages and their epochs |
//! | `graphs` | graphs, and algorithms on them |
//! | `randomaccess` | RandomAccess by every algorithm |
//! | `suite`, `check`, `payload`, `signals`, `reduction_cases`, `calls` | helpers |
//!
//! Cases may not assume that a send of any length returns before its receive is posted, that a message arrives before
//! the same rank's later message is received, or that each rank has a core.
#![forbid(unsafe_code)]

mod active;
mod algorithms;
mod barriers;
mod calls;
mod check;
mod checking;
mod collectives;
mod contexts;
mod elements;
mod errors;
mod exchange;
mod exchanges;
mod floats;
mod floods;
mod graphs;
mod groups;
mod host_mpi;
mod in_flight;
mod in_place;
mod limits;
mod matching;
mod mismatches;
mod nonblocking;
mod order;
mod payload;
mod persistent;
mod probes;
mod random;
mod randomaccess;
mod reduction_cases;
mod refusals;
mod request_sets;
mod routed;
mod scopes;
mod short_forms;
mod signals;
mod sizes;
mod sparse;
mod splits;
mod suite;
mod synchronous;
mod topologies;
mod truncation;
mod wildcards;
mod windows;
mod world;

pub use check::Failure;
#[doc(hidden)]
pub use floats::{Sums, numbers, sums};
#[doc(hidden)]
pub use suite::run;
pub use suite::{Case, Entry, Summary, Verdict, run_all};

/// All cases, in the order they run. Barriers come first, while few communicators exist: engines may have barrier
/// counters only for the first ones.
pub fn cases() -> Vec<Case> {
    [
        barriers::CASES,
        contexts::CASES,
        splits::CASES,
        groups::CASES,
        topologies::CASES,
        elements::CASES,
        sizes::CASES,
        exchange::CASES,
        order::CASES,
        matching::CASES,
        wildcards::CASES,
        nonblocking::CASES,
        request_sets::CASES,
        short_forms::CASES,
        synchronous::CASES,
        probes::CASES,
        scopes::CASES,
        truncation::CASES,
        errors::CASES,
        windows::CASES,
        collectives::CASES,
        world::CASES,
        refusals::CASES,
        checking::CASES,
        mismatches::CASES,
        limits::CASES,
        in_flight::CASES,
        in_place::CASES,
        persistent::CASES,
        algorithms::CASES,
        routed::CASES,
        host_mpi::CASES,
        floats::CASES,
        floods::CASES,
        sparse::CASES,
        exchanges::CASES,
        active::CASES,
        graphs::CASES,
        randomaccess::CASES,
        random::CASES,
    ]
    .concat()
}
