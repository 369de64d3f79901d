//! The engine interface ([`engine`]), and matching and protocols above every engine ([`Endpoint`]).
//!
//! | file | what |
//! |---|---|
//! | `engine` | what an engine must and may do |
//! | `endpoint` | progress, waiting, what joins the rest |
//! | `core`, `kind` | what records mean and what they do |
//! | `send`, `receive`, `window` | operations |
//! | `matching`, `bins` | which message meets which receive, at any queue length |
//! | `outbox` | what waits for room |
//! | `loss` | ranks that end, and how this one leaves |
#![forbid(unsafe_code)]

mod alone;
mod bins;
mod core;
mod endpoint;
pub mod engine;
mod kind;
mod loss;
mod matching;
mod op;
mod outbox;
mod receive;
mod send;
mod slab;
mod window;

pub use alone::Alone;
pub use endpoint::{Endpoint, Task};
pub use engine::{Event, Fabric, Head, Invite, Life, SharedHeap, SharedMemory};
pub use op::{Address, Completion, Envelope, Select, Started, Target};
pub use receive::Found;
pub use slab::Id;
