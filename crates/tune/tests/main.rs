//! All integration tests of the crate in one binary. Measurements run in virtual time, on networks whose parameters are
//! known.

mod common;
mod failures;
mod groups;
mod networks;
mod oracles;
