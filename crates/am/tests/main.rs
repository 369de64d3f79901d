//! All integration tests of the crate in one binary, since linking takes longer than most of them.

mod buffers;
mod interleaving;
#[path = "seeds/main.rs"]
mod seeds;
