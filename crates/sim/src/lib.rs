//! Discrete-event simulator: runs the schedules, reactors and programs of real engines on modeled networks.
//!
//! Three levels of detail: closed forms (the model crate), lockstep rounds priced by link load ([`mod@lockstep`]), and
//! every message as events ([`schedule_sim`]). They agree where ranks stay in step. The event level runs on a
//! [`Machine`]: a clock, a CPU per rank, a network, noise. Flows share links equally, not max-min fairly: no flow gets
//! the bandwidth that another leaves unused.
//!
//! - [`time`], [`queue`]: simulated time in picoseconds, and the event queue;
//! - [`costs`]: cost models of communication and computation;
//! - [`machine`]: the simulated machine below all three drivers;
//! - [`noise`]: jitter, slow ranks and links, failures, all from a seed;
//! - [`schedule_sim`]: simulates a schedule without its data;
//! - [`mod@lockstep`]: prices a schedule whose ranks begin each round together;
//! - [`symmetric`]: simulates one representative rank where all ranks behave alike;
//! - [`engine`]: runs unmodified rank programs, each on its own stack;
//! - [`reactors`]: drives protocols that are state machines;
//! - [`trace`]: traces of what ranks did.
//!
//! ```
//! use treepie_collectives::registry::{CollectiveSpec, build};
//! use treepie_schedule::{BlockLayout, BlockLayouts, Operation};
//! use treepie_sim::costs::LinkCosts;
//! use treepie_sim::{BlockSizes, Workload, lockstep_cost, simulate_schedule};
//! use treepie_topology::Network;
//!
//! let network: Network = "torus:8x8x8".parse()?;
//! let schedule = build("allgather/bucket", &CollectiveSpec::new(Operation::Allgather, &network))?;
//! let sizes = BlockSizes::Shared(BlockLayouts::symmetric(BlockLayout::uniform(1000, schedule.blocks())));
//! let workload = Workload { schedule: &*schedule, sizes: &sizes, element: 1 };
//! // alpha = 5 us and delta = 0.004 us per byte: 21 start-ups, and 511 blocks of 1000 bytes over a link.
//! let settings = LinkCosts::new(5.0, 0.004).into();
//! assert_eq!(simulate_schedule(workload, &network, &settings)?.micros(), 21.0 * 5.0 + 511.0 * 4.0);
//! assert_eq!(lockstep_cost(workload, &network, &settings)?.micros, 21.0 * 5.0 + 511.0 * 4.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(unsafe_code)]

mod channels;
pub mod costs;
pub mod engine;
mod error;
pub mod lockstep;
pub mod machine;
mod network;
pub mod noise;
mod profile;
pub mod queue;
pub mod reactors;
pub mod schedule_sim;
mod slab;
pub mod symmetric;
pub mod time;
pub mod trace;

pub use costs::{CostModel, Settings};
pub use error::{Error, Result};
pub use lockstep::lockstep_cost;
pub use machine::{Machine, SendTiming, SimEvent, SimEventKind, SimMessage};
pub use schedule_sim::{BlockSizes, SimResult, Workload, simulate_schedule};
pub use time::Time;
