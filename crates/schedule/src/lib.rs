//! Collective algorithms as descriptions, and what can be done with a description without running it.
//!
//! An algorithm is a [`Schedule`]: for each rank, rounds of operations on named blocks. The executor of `treepie-comm`
//! runs it, [`check`] proves it, [`count`] costs it on a network, [`dump`] prints it, the simulator plays it. All of them
//! see the same description, so what was proved and counted is what runs.
//!
//! - [`op`]: operations and the parts of buffers that they name;
//! - [`schedule`]: phases, lanes, rounds, views;
//! - [`layout`]: from blocks to elements;
//! - [`cursor`]: which rounds of a rank may begin;
//! - [`core`]: the allgather cores that six operations are made of, forwards and mirrored.

#![forbid(unsafe_code)]

pub mod check;
pub mod core;
pub mod count;
pub mod cursor;
pub mod dump;
pub mod layout;
pub mod op;
pub mod schedule;

pub use core::Core;
pub use cursor::{Cursor, MOST_OPEN_LANES};
pub use layout::{Layout, Layouts, Places};
pub use op::{Buf, Op, Part, Rounds, Side};
pub use schedule::{End, Held, Operation, Phase, Run, Schedule, held};
