//! All integration tests of the crate in one binary, since linking takes longer than most of them.

mod common;
mod every;
#[path = "exchange/main.rs"]
mod exchange;
mod hard;
mod hierarchical;
mod oracles;
mod rooted;
