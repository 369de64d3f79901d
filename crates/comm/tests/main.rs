//! All integration tests of the crate in one binary, since linking takes longer than most of them.

mod links_of_parts;
mod lookups;
mod splits;
mod splits_simulated;
