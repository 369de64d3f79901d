//! Communicators: typed point-to-point messages, requests, collective operations and windows within a group of ranks.
#![forbid(unsafe_code)]

mod adaptation;
mod barrier;
mod cartesian;
mod checked;
pub mod choice;
mod collective;
mod comm;
mod create_group;
mod digest;
mod dims;
mod dissemination;
mod dist_graph;
mod members;
mod message;
mod names;
pub mod object;
mod one_value;
mod persistent_message;
mod point_to_point;
pub mod protocol;
mod protocol_run;
mod reactor_task;
mod refused;
mod request;
mod request_set;
mod scope;
pub mod split;
mod split_type;
mod window;

pub use cartesian::Cartesian;
pub use collective::{AlgorithmRules, AlgorithmSelector, PersistentCollective, SelectionQuery, check_environment};
pub use comm::{Comm, Finalizer};
pub use dims::dims_create;
pub use dist_graph::DistGraph;
pub use message::MatchedMessage;
pub use persistent_message::{PersistentRecv, PersistentSend};
pub use request::{Request, wait_all, wait_any, wait_some};
pub use request_set::RequestSet;
pub use scope::Scope;
pub use split_type::SplitType;
pub use treepie_base::{
    ANY_SOURCE, ANY_TAG, And, Commutative, Error, MAX_TAG, Max, MaxLoc, Min, MinLoc, Or, Pod, Prod, Rank, Reduction,
    Result, Source, Status, Sum, Tag, TagMatch, ValueLoc, Xor, Zeroable, commutative,
};
pub use treepie_schedule::Operation;
pub use treepie_topology::Network;
pub use window::{AtomicElement, Window};
