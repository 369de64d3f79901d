//! A simulator that runs the same algorithms as the machine does, on networks that need not exist.
//!
//! Three levels that agree where they should: closed forms (the model crate), rounds in step with the load of links
//! ([`mod@phases`]), and every message as events in time ([`player`]). Below the last is a [`Machine`]: a clock, a CPU for each
//! rank, a network, noise. Messages share links equally, not max-min fairly: what one cannot use of its share, no other gets.
//!
//! - [`time`], [`queue`]: picoseconds, and what happens next;
//! - [`costs`]: what messages and computing cost;
//! - [`machine`]: what all that runs ranks shares;
//! - [`noise`]: what goes wrong, from a seed;
//! - [`player`]: plays a schedule without data;
//! - [`mod@phases`]: the same in rounds that all ranks begin together;
//! - [`symmetric`]: the same from one rank, where all do the same;
//! - [`engine`]: runs programs of ranks as they are, each on a stack of its own;
//! - [`reactors`]: drives protocols that are state machines;
//! - [`trace`]: what ranks did.
//!
//! ```
//! use treepie_collectives::registry::{Request, build};
//! use treepie_schedule::{Layout, Layouts, Operation};
//! use treepie_sim::costs::Links;
//! use treepie_sim::{Piece, Sizes, phases, play};
//! use treepie_topology::Network;
//!
//! let network: Network = "torus:8x8x8".parse()?;
//! let schedule = build("allgather/bucket", &Request::new(Operation::Allgather, &network))?;
//! let sizes = Sizes::Shared(Layouts::both(Layout::uniform(1000, schedule.blocks())));
//! let piece = Piece { schedule: &*schedule, sizes: &sizes, element: 1 };
//! // A start-up of 5 us, and 0.004 us for each byte over a link: 21 and 511 blocks of 1000 bytes.
//! let settings = Links::new(5.0, 0.004).into();
//! assert_eq!(play(piece, &network, &settings)?.micros(), 21.0 * 5.0 + 511.0 * 4.0);
//! assert_eq!(phases(piece, &network, &settings)?.micros, 21.0 * 5.0 + 511.0 * 4.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(unsafe_code)]

mod channels;
pub mod costs;
pub mod engine;
mod error;
pub mod machine;
mod network;
pub mod noise;
pub mod phases;
pub mod player;
pub mod queue;
pub mod reactors;
mod slab;
pub mod symmetric;
pub mod time;
pub mod trace;

pub use costs::{Costs, Settings};
pub use error::{Error, Result};
pub use machine::{Happening, Machine, Message, Sending, What};
pub use phases::phases;
pub use player::{Piece, Played, Sizes, play};
pub use time::Time;
