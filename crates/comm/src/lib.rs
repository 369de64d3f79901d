//! Communicators: point-to-point messages, requests, barriers and windows, typed and in the terms of one group of
//! ranks.
#![forbid(unsafe_code)]

mod barrier;
mod comm;
mod message;
mod point;
mod request;
mod scope;
mod small;
mod window;

pub use comm::Comm;
pub use message::Message;
pub use request::{Request, wait_all, wait_any, wait_some};
pub use scope::Scope;
pub use treepie_base::{
    ANY_SOURCE, ANY_TAG, Error, MAX_TAG, Pod, Rank, Result, Source, Status, Tag, TagMatch, Zeroable,
};
pub use window::{Counter, Window};
