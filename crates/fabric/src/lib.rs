//! The engine interface ([`engine`]), and matching and protocols above every engine ([`Endpoint`]).
//!
//! | file | what |
//! |---|---|
//! | `engine` | what an engine must and may do |
//! | `endpoint` | the endpoint itself; progress |
//! | `acting` | what events and records ask for: answers, transfers |
//! | `completions` | which of many operations have ended |
//! | `waiting`, `tasks`, `board`, `gathering` | waiting for operations; what goes on beside the caller; the board; barriers |
//! | `core`, `kind` | what records mean and what they do |
//! | `send`, `receive`, `window` | operations |
//! | `matching`, `bins` | which message meets which receive, at any queue length |
//! | `outbox` | what waits for room |
//! | `reactor`, `heard` | protocols whose messages depend on data; their messages |
//! | `given_up` | messages that nobody will receive, or send |
//! | `loss`, `lives` | ranks that end, and how this one leaves; who is no longer here |
#![forbid(unsafe_code)]

mod acting;
mod alone;
mod bins;
mod board;
mod call;
mod completions;
mod core;
mod differing;
#[doc(hidden)]
pub mod effort;
mod endpoint;
pub mod engine;
mod gathering;
mod given_up;
mod heard;
mod kind;
mod lives;
mod loss;
mod matching;
mod op;
mod outbox;
mod reactor;
mod receive;
mod send;
mod slab;
mod tasks;
mod waiting;
mod window;

pub use alone::Alone;
pub use board::{Board, Room, SHOWN};
pub use call::Call;
pub use completions::CompletionQueue;
pub use endpoint::Endpoint;
pub use engine::{Event, Fabric, Head, Invite, Life, Offers, Refused, SharedHeap, SharedMemory, Sleep};
pub use given_up::Why;
pub use heard::{GROUPS, OWN_BITS, PROTOCOL, Run, run_tag};
pub use kind::TAG_BITS;
pub use loss::Group;
pub use op::{Address, Completion, Envelope, Select, Started, Target};
pub use reactor::{Gathered, Needs, Reactor, Transmit};
pub use receive::Found;
pub use slab::Id;
pub use tasks::Task;
pub use waiting::Patience;
