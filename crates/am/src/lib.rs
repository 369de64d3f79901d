//! Active messages: fine-grained sends, handlers that send, epochs with termination detection.   [Active Pebbles; AM++]
//!
//! A program registers message types and their handlers, and sends messages one by one, as a sequential loop would
//! write into its arrays. The runtime coalesces messages into buffers, routes and combines them, and detects when all
//! have been handled.
//!
//! # Path of a message
//! [`Context::send`] appends it to the buffer for the next hop to its destination. A full buffer moves to `outgoing`,
//! and from there to the engine when that has room. The next rank reads the buffer in the engine's memory: messages for
//! that rank go to their handler, in one call per buffer; the others go into that rank's buffers. An idle rank flushes
//! its buffers and reports to the termination detector.
//!
//! An epoch is one collective operation of its communicator, and all of its messages carry its number. So messages of
//! an epoch that other ranks have already started wait, unread, until this rank starts it.
//!
//! | file | what |
//! |---|---|
//! | `builder`, `port`, `config`, `agreement` | registration; handles; configuration; check that all ranks agree |
//! | `owner_messages` | the short form: one message type, one owner map, one handler |
//! | `runtime`, `epoch` | the runtime as a reactor; epochs |
//! | `context`, `send_path`, `type_channel`, `coalescing`, `outgoing`, `tag` | the send path |
//! | `handler`, `call`, `parcel`, `spawn` | kinds of messages and handlers |
//! | `prefetching`, `interleaving` | handlers that prefetch; handling between items of the body |
//! | `routing/` | rook, grid, hypercube, clusters |
//! | `reduction`, `cache_sampling` | caches that combine messages; when they are used |
//! | `termination/` | termination detection: `four_counter`, `consensus` |
//! | `statistics`, `trace` | message counts and times; the timeline |
#![forbid(unsafe_code)]

mod agreement;
mod builder;
mod cache_sampling;
mod call;
mod coalescing;
mod config;
mod context;
mod epoch;
mod handler;
mod injected_fault;
mod interleaving;
mod outgoing;
mod owner_messages;
mod parcel;
mod port;
mod prefetching;
mod reduction;
mod routing;
mod runtime;
mod send_path;
mod spawn;
mod statistics;
mod tag;
mod termination;
mod trace;
mod type_channel;

pub use builder::Builder;
pub use config::{Coalescing, Config, Reductions, Routing, Style, check_environment};
pub use context::{Context, ContinuationId};
pub use epoch::Epoch;
#[cfg(feature = "fault-injection")]
pub use injected_fault::InjectedFault;
pub use owner_messages::{OwnerContext, OwnerMessages, run, run_objects};
pub use port::{Call, MessageType, Parcel, Port, Target};
pub use runtime::{ActiveMessages, PROTOCOLS};
pub use statistics::{EpochStatistics, MemoryStatistics, TypeStatistics};
#[doc(hidden)]
pub use termination::AllreduceWave;
pub use termination::Detector;
