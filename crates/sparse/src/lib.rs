//! Dynamic sparse data exchange: send to whom you like, learn who sent to you.   [Hoefler, Siebert, Lumsdaine 2010]
//!
//! Each protocol is a state machine on one rank ([`Exchange`]), so it runs over every engine and in the simulator, where
//! messages are delayed and reordered by a seed.
//!
//! | file | what |
//! |---|---|
//! | `exchange` | what programs call: [`SparseExchange`] |
//! | `pattern` | neighbourhoods that stay |
//! | `protocol`, `named`, `tags` | what all protocols have in common; that they are not taken for each other |
//! | `protocols/` | PEX, PCX, RSX, NBX and its variants, the crystal router |
//! | `closing` | the barrier at the end, by messages or by the engine |
//! | `census`, `choose` | what all learn of an exchange, and the choice by it |
//! | `rounds` | exchange after exchange, for the simulator |
//! | `microbenchmark` | the paper's random neighbours |
#![forbid(unsafe_code)]

mod census;
pub mod choose;
mod closing;
mod exchange;
mod microbenchmark;
mod named;
mod pattern;
mod protocol;
mod protocols;
mod rounds;
mod tags;

pub use census::Census;
pub use exchange::{Received, SparseExchange, chosen_protocol};
pub use microbenchmark::Microbenchmark;
pub use pattern::Pattern;
pub use protocol::{Exchange, Place, Post, Protocol};
pub use rounds::{Next, Rounds};
pub use treepie_comm::protocol::Means;
