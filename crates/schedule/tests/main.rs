//! All integration tests of the crate in one binary, since linking takes longer than most of them.

mod dump;
mod faults;
mod table;
