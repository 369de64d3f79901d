//! What every other crate of Treepie speaks of: ranks and tags, errors, and the memory that messages lie in.
//!
//! `unsafe` is here so that the crates above can forbid it. [`bytes`] and [`span`] turn typed vectors and borrowed slices
//! into untyped memory that engines and protocols can hold, [`table`] maps memory in huge pages, [`code`] calls functions
//! that other processes name, [`prefetch()`] is an instruction, [`give_back_free_memory`] a function of the C library, and
//! [`reduction`] says of its elements that they are plain data.

pub mod atomic_file;
pub mod bytes;
pub mod code;
mod copy;
pub mod environment;
pub mod error;
mod hang;
mod heap;
pub mod memory;
mod number_hasher;
mod prefetch;
pub mod rank;
pub mod reduction;
pub mod report;
pub mod span;
mod suggest;
pub mod table;
mod yielding;

pub use atomic_file::AtomicFile;
pub use bytemuck::{Pod, Zeroable};
pub use bytes::Bytes;
pub use code::{Code, fingerprint};
pub use copy::copy_short;
pub use error::{Error, NotAccepted, Result};
pub use hang::{HangGuard, hang_limit, hang_message};
pub use heap::give_back_free_memory;
pub use number_hasher::{BuildNumberHasher, NumberHasher};
pub use prefetch::prefetch;
pub use rank::{ANY_SOURCE, ANY_TAG, MAX_TAG, Rank, Source, Status, Tag, TagMatch};
pub use reduction::{And, Commutative, Located, Max, MaxLoc, Min, MinLoc, Or, Prod, Reduction, Sum, Xor, commutative};
pub use report::all_ok;
pub use span::{Lender, Lending, Region, Settling, Span, lending};
pub use suggest::nearest;
pub use table::Table;
pub use yielding::AdaptiveYield;
