//! Ranks as processes or threads of one machine, over shared memory.
//!
//! | file | what |
//! |---|---|
//! | `arena`, `layout` | the shared memory of a world and its layout |
//! | `ring_memory`, `ring`, `inbox` | records: single-writer rings, and one inbox per rank for all writers |
//! | `doorbell`, `membarrier`, `backoff` | parking and unparking; spinning before that |
//! | `registry`, `claim`, `single_copy`, `peer_access` | large messages in one copy by both ends, by keys, not addresses |
//! | `segment`, `slot_rounds` | slots that all ranks read; when a slot may be written and read |
//! | `host_segment` | a segment without anything else, for ranks of another engine |
//! | `heap` | memory of windows |
//! | `engine` | the [`Fabric`](treepie_fabric::Fabric) built from these |
//! | `launch` | starts processes as ranks |

mod barrier_cell;
mod claim;
mod doorbell;
mod inbox;
mod primitive;
mod registry;
mod ring;
mod ring_memory;
#[cfg(not(loom))]
mod segment;
mod slot_rounds;

#[cfg(not(loom))]
mod arena;
#[cfg(not(loom))]
mod backoff;
#[cfg(not(loom))]
mod engine;
#[cfg(not(loom))]
mod heap;
#[cfg(not(loom))]
mod host_segment;
#[cfg(not(loom))]
mod join;
#[cfg(not(loom))]
pub mod launch;
#[cfg(not(loom))]
mod layout;
#[cfg(not(loom))]
mod membarrier;
#[cfg(not(loom))]
mod peer_access;
#[cfg(not(loom))]
mod pending_barrier;
#[cfg(not(loom))]
mod single_copy;

#[cfg(not(loom))]
pub use arena::Arena;
#[cfg(not(loom))]
pub use engine::Shm;
#[cfg(not(loom))]
pub use host_segment::{HostGroup, SegmentAddress};
#[cfg(not(loom))]
pub use join::{ARENA_VAR, RANK_VAR, SIZE_VAR, join_launched};
#[cfg(not(loom))]
pub use layout::eager_limit;
#[cfg(not(loom))]
pub use segment::segment_groups;

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod process_tests;
