//! All integration tests of the crate in one binary, since linking takes longer than most of them.

mod common;
mod memory;
mod networks;
mod ordered_barrier;
mod paper;
mod seeds;
