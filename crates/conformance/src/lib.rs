//! One suite of cases that runs unchanged on every engine and any number of ranks.
//!
//! A [`Case`] is a function that all ranks call with a communicator of its own. It returns what differed from what
//! must hold. [`run_all`] runs them one after the other; after each, all ranks tell each other who failed, so a
//! failure on one rank is known on every rank.
//!
//! | file | what the cases are about |
//! |---|---|
//! | `barriers`, `contexts`, `splits` | communicators apart from each other, and all ranks together |
//! | `groups`, `topologies` | communicators that their members make alone, grids, graphs, levels of networks, names |
//! | `elements`, `sizes`, `exchange` | every call with every kind and length of data |
//! | `order`, `matching`, `wildcards` | which message meets which receive |
//! | `nonblocking`, `request_sets`, `synchronous`, `probes`, `scopes` | requests, and what is known before a receive |
//! | `truncation`, `errors` | what is refused, and that one can go on |
//! | `windows` | memory that all ranks reach |
//! | `collectives`, `refusals` | operations of all ranks, as they are chosen by themselves |
//! | `checking`, `mismatches` | calls of ranks that do not fit each other, in checked mode and without |
//! | `limits` | bounds of the library, and what is beyond them |
//! | `in_place` | the same in one slice, or on slices borrowed in a scope |
//! | `in_flight`, `persistent` | many of them at once, or again and again |
//! | `algorithms`, `routed` | every algorithm of the table; store and forward of blocks of all lengths |
//! | `floats` | sums whose bits show how they were grouped |
//! | `floods`, `random`, `sparse` | much of everything |
//! | `active` | active messages and their epochs |
//! | `graphs` | graphs, and algorithms on them |
//! | `suite`, `check`, `payload`, `meeting`, `folds`, `calls` | what they are made of |
//!
//! What cases may not assume: that a send of any length returns before its receive, that a message arrives before
//! something is received that was sent after it by the same rank, or that ranks have cores of their own.
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
mod folds;
mod graphs;
mod groups;
mod in_flight;
mod in_place;
mod limits;
mod matching;
mod meeting;
mod mismatches;
mod nonblocking;
mod order;
mod payload;
mod persistent;
mod probes;
mod random;
mod refusals;
mod request_sets;
mod routed;
mod scopes;
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

/// All cases, in the order they run. Barriers come first, while few communicators have been made: engines may treat
/// the first ones in a special way.
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
        floats::CASES,
        floods::CASES,
        sparse::CASES,
        exchanges::CASES,
        active::CASES,
        graphs::CASES,
        random::CASES,
    ]
    .concat()
}
