//! P-LogP: latency, and send overhead, receive overhead and gap as functions of the message's size, which are measured.
//!
//! What a pipeline along a tree costs follows from them, and with that the best tree and segment can be searched for.
//! [P-LogP paper: Kielmann, Bal, Gorlatch, Verstoep and Hofman 2001, sections 2 and 3]

mod curve;
mod link;
mod links;
mod measure;
mod pipeline;
mod samples;
mod search;
mod table;

pub use link::{PLogP, RoundTrip};
pub use links::Links;
pub use measure::{Measured, Probe, Rules, Saturation, measure};
pub use pipeline::{Clusters, Link, Pace, Wide, allgather, gather, height, lan_degrees, layers, scatter, tree};
pub use search::{Plan, Tree, bcast, bcast_exhaustive, segments, segments_exhaustive};
pub use table::Table;
