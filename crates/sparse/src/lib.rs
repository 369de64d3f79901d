//! Dynamic sparse data exchange (DSDE): each rank knows its destinations and learns its sources.
//! [Hoefler, Siebert, Lumsdaine 2010, "the NBX paper"]
//!
//! Each protocol is a state machine on one rank ([`ExchangeReactor`]), so it runs on every engine and in the simulator,
//! which delays and reorders messages by a seed.
//!
//! | file | what |
//! |---|---|
//! | `exchange` | the API: [`SparseExchange`] |
//! | `pattern` | static neighborhoods |
//! | `protocol`, `protocol_tagged`, `tags` | the interface of a protocol; tags that identify the protocol |
//! | `protocols/` | PEX, PCX, RSX, NBX and its variants, the crystal router |
//! | `summary_barrier`, `scheduled_barrier` | the final barrier, by messages or by the engine |
//! | `routes` | barriers and coordinators that follow the network |
//! | `traffic_summary`, `selection` | what all ranks learn about an exchange; protocol selection |
//! | `exchange_sequence` | consecutive exchanges, for the simulator |
//! | `microbenchmark` | the paper's microbenchmark: random neighbors |
#![forbid(unsafe_code)]

mod exchange;
mod exchange_sequence;
mod microbenchmark;
mod pattern;
mod protocol;
mod protocol_tagged;
mod protocols;
mod routes;
mod scheduled_barrier;
pub mod selection;
mod summary_barrier;
mod tags;
mod traffic_summary;

pub use exchange::{SparseExchange, chosen_protocol};
pub use exchange_sequence::{ExchangeSequence, NextExchange};
pub use microbenchmark::Microbenchmark;
pub use pattern::{Pattern, Received};
pub use protocol::{ExchangeBuffers, ExchangeProtocol, ExchangeReactor, PROTOCOLS};
pub use routes::{ExchangeRoutes, NetworkRoutes, RouteTimes};
pub use traffic_summary::TrafficSummary;
pub use treepie_comm::protocol::{ReactorCapabilities, RingPosition};
