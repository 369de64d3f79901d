//! Communicators: point-to-point messages, requests, collective operations and windows, typed and in the terms of one group of
//! ranks.
#![forbid(unsafe_code)]

mod barrier;
mod cartesian;
mod checked;
mod collective;
mod comm;
mod digest;
mod dims;
mod graph;
mod groups;
mod levels;
mod members;
mod message;
mod names;
mod point;
pub mod protocol;
mod reactor;
mod refused;
mod request;
mod request_set;
mod run;
mod scope;
pub mod split;
mod window;

pub use cartesian::Cartesian;
pub use collective::{Chooser, Persistent, Question, check_environment};
pub use comm::{Comm, Finalizer};
pub use dims::balanced_dims;
pub use graph::Graph;
pub use levels::Level;
pub use message::Message;
pub use request::{Request, wait_all, wait_any, wait_some};
pub use request_set::RequestSet;
pub use scope::Scope;
pub use treepie_base::{
    ANY_SOURCE, ANY_TAG, And, Commutative, Error, Located, MAX_TAG, Max, MaxLoc, Min, MinLoc, Or, Pod, Prod, Rank,
    Reduction, Result, Source, Status, Sum, Tag, TagMatch, Xor, Zeroable, commutative,
};
pub use treepie_schedule::Operation;
pub use treepie_topology::Network;
pub use window::{Counter, Window};
