//! Schedules of collective algorithms, and static tools for them.
//!
//! An algorithm is a [`Schedule`]: for each rank, rounds of operations on blocks. The executor of `treepie-comm` runs
//! it, [`check`] verifies it, [`count`] computes its cost on a network, [`dump`] prints it, the simulator simulates it.
//! All of them use the same schedule, so what was verified and counted is what runs.
//!
//! - [`op`]: operations and the block ranges that they access;
//! - [`schedule`]: phases, lanes, rounds, views;
//! - [`layout`]: from blocks to elements;
//! - [`cursor`]: the rounds that ranks can start; [`reader`]: also their operations;
//! - [`allgather_core`]: the allgather cores that six operations are composed of, forward and mirrored.

#![forbid(unsafe_code)]

pub mod allgather_core;
pub mod check;
pub mod count;
pub mod cursor;
pub mod dump;
pub mod layout;
pub mod op;
pub mod reader;
pub mod schedule;

pub use allgather_core::AllgatherCore;
pub use cursor::{Cursor, OpenLanes};
pub use layout::{BlockLayout, BlockLayouts, BufferMap};
pub use op::{BlockRange, Buf, OperandSide, RoundList, ScheduleOp};
pub use reader::ScheduleReader;
pub use schedule::{
    BlockRun, BufferBlocks, MAX_OPEN_LANES, Operation, Phase, PhaseEnd, SEGMENTS_IN_FLIGHT, Schedule, buffer_blocks,
    for_each_lane,
};
