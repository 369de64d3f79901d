//! Active messages: fine-grained sends, handlers that send, epochs that end.   [Active Pebbles; AM++]
//!
//! A program says which messages there are and what handles them, and sends one by one, as the loop of a sequential program
//! would write into its arrays. The runtime gathers them into buffers, routes and combines them, and finds out when all have
//! been handled.
//!
//! # The way of one message
//! [`Context::send`] puts it into the buffer for the next hop to its destination. A full buffer goes to `outgoing`, and from
//! there to the engine when that has room. At the next rank it is read where the engine has it: messages for that rank go to
//! their handler, in one call for the buffer; others into that rank's buffers. When a rank has nothing else to do, it sends
//! what its buffers hold, and reports to the detector of the end.
//!
//! An epoch is one run of a protocol: one collective operation of its communicator, whose number all of its messages carry.
//! So messages of an epoch that others have begun already wait, unread, until this rank is there.
//!
//! | file | what |
//! |---|---|
//! | `builder`, `port`, `config`, `agreement` | registration; tokens; how messages travel; that all ranks agree |
//! | `runtime`, `epoch` | the runtime as a reactor; epochs of a program |
//! | `context`, `lane`, `coalescing`, `outgoing`, `tag` | the way of a message to the engine |
//! | `handler`, `call`, `parcel`, `spawn` | forms of messages and handlers |
//! | `routing/` | rook, grid, hypercube, clusters |
//! | `reduction` | caches in which messages are combined |
//! | `termination/` | how the end is found: `counting`, `nbx_like` |
//! | `statistics`, `trace` | what has become of messages, and when |
#![forbid(unsafe_code)]

mod agreement;
mod builder;
mod call;
mod coalescing;
mod config;
mod context;
mod epoch;
mod handler;
mod lane;
mod outgoing;
mod parcel;
mod port;
mod reduction;
mod routing;
mod runtime;
mod sampling;
mod spawn;
mod statistics;
mod tag;
mod termination;
mod touching;
mod trace;
mod weaving;

pub use builder::Builder;
#[doc(hidden)]
pub use builder::Planted;
pub use call::Later;
pub use config::{Coalescing, Config, Reductions, Routing, Style, check_environment};
pub use context::Context;
pub use epoch::Epoch;
pub use port::{Call, MessageType, Parcel, Port, Target};
pub use runtime::ActiveMessages;
pub use statistics::{EpochStatistics, Memory, TypeStatistics};
pub use termination::Detector;
