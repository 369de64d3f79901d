//! Emulation of clusters on one machine: real messages of real ranks pass gateways that delay and meter them, as in the
//! P-LogP paper's own testbed.   [P-LogP paper 2]
//!
//! [`EmulatedFabric`] is an engine that wraps another one. It gives every record the time at which it would arrive, and
//! its receiver holds the record until then. The times follow from an [`Emulation`], which is read from text such as
//! `clusters:8x1,wan=10ms/1MBps,lan=20us/50MBps`. All above an engine is unchanged and cannot tell. What would bypass
//! the network, such as shared memory and barriers of the machine, is hidden.
//!
//! ```text
//!  sender                          gateway                                 receiver
//!  try_send ─► port of the rank ─► window ahead of the WAN link ─► link ─► held until it is due ─► poll
//!              lan bandwidth       full: try_send refuses          wan     port of the rank
//! ```
//!
//! A gateway is a word of shared memory: the time at which its link will have carried everything that it has accepted
//! so far. So ranks of a cluster share their links, and no process forwards.

#![forbid(unsafe_code)]

mod bulk;
mod delayed;
mod engine;
mod gateway;
mod liveness;
mod loss;
mod profile;
#[cfg(test)]
mod testing;
mod text;

pub use engine::EmulatedFabric;
pub use text::{Emulation, EmulationError};
pub use treepie_model::Profile;
