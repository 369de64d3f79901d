//! What all benchmarks share: the case, the loop in which ranks measure cases, and the comparison of both sides.
//!
//! A benchmark is a list of [`Figure`](figure::Figure)s, each with the text of its [`Case`](case::Case), and a
//! [`Benchmark`](rank::Benchmark), which runs a batch of a case. [`Comparison`](comparison::Comparison) runs the jobs
//! of both sides alternately; in a job of Treepie, [`measure`](rank::measure) repeats the batches of each case.
//! `peer.h` does the same with MPI.

pub(crate) mod case;
pub(crate) mod comparison;
pub(crate) mod figure;
pub(crate) mod launch;
pub(crate) mod output;
pub(crate) mod peer;
pub(crate) mod progress;
pub(crate) mod rank;
pub(crate) mod statistics;
pub(crate) mod table;
#[cfg(test)]
pub(crate) mod testing;
