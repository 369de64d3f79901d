//! Ranks as processes or threads of one machine, over shared memory.
//!
//! | file | what |
//! |---|---|
//! | `arena`, `layout` | the shared memory and what lies where in it |
//! | `area`, `ring`, `inbox` | records: of a pair, and of everybody to one |
//! | `bell`, `barrier`, `wait` | sleeping and waking; how long to stay awake before |
//! | `registry`, `claim`, `bulk`, `reach` | large messages in one copy, made by both ends; by keys, not addresses |
//! | `board`, `meetings` | what all ranks read; when it may be written and read |
//! | `heap` | memory for windows |
//! | `engine` | the [`Fabric`](treepie_fabric::Fabric) made of these |
//! | `launch` | processes as ranks |

mod area;
mod bell;
#[cfg(not(loom))]
mod board;
mod cell;
mod claim;
mod inbox;
mod meetings;
mod primitive;
mod registry;
mod ring;

#[cfg(not(loom))]
mod arena;
#[cfg(not(loom))]
mod barrier;
#[cfg(not(loom))]
mod bulk;
#[cfg(not(loom))]
mod engine;
#[cfg(not(loom))]
mod gathering;
#[cfg(not(loom))]
mod heap;
#[cfg(not(loom))]
mod join;
#[cfg(not(loom))]
pub mod launch;
#[cfg(not(loom))]
mod layout;
#[cfg(not(loom))]
mod reach;
#[cfg(not(loom))]
mod wait;

#[cfg(not(loom))]
pub use arena::Arena;
#[cfg(not(loom))]
pub use engine::Shm;
#[cfg(not(loom))]
pub use join::{ARENA, RANK, SIZE, join_launched};

#[cfg(all(test, loom))]
mod key_models;
#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod process_tests;
