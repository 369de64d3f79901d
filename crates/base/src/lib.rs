//! The vocabulary of all Treepie crates: ranks and tags, errors, and the memory of messages.
//!
//! `unsafe` is here so that the crates above can forbid it. [`bytes`] and [`span`] turn typed vectors and borrowed
//! slices into untyped memory for engines and protocols, [`huge_array`] maps memory in huge pages, [`remote_fn`] calls
//! functions that other processes name, [`prefetch()`] is an instruction, [`trim_heap`] a function of the C library,
//! and [`reduction`] declares its elements plain data.

pub mod atomic_file;
pub mod bytes;
mod clock;
mod copy;
pub mod environment;
pub mod error;
mod hang;
mod heap;
pub mod huge_array;
pub mod memory;
mod number_hasher;
mod predefined;
mod prefetch;
mod processor;
pub mod rank;
pub mod reduction;
pub mod remote_fn;
pub mod report;
pub mod span;
mod suggest;
pub mod units;
mod yielding;

pub use atomic_file::{AtomicFile, STANDARD_STREAM};
pub use bytemuck::{Pod, Zeroable};
pub use bytes::Bytes;
pub use clock::monotonic_nanos;
pub use copy::copy_short;
pub use error::{Error, InvalidVariable, Result};
pub use hang::{HangGuard, hang_limit, hang_message};
pub use heap::trim_heap;
pub use huge_array::HugeArray;
pub use number_hasher::{BuildNumberHasher, NumberHasher};
pub use predefined::{PredefinedOp, PredefinedReduction, PredefinedType};
pub use prefetch::prefetch;
pub use processor::processor_name;
pub use rank::{ANY_SOURCE, ANY_TAG, MAX_TAG, Rank, Source, Status, Tag, TagMatch};
pub use reduction::{And, Commutative, Max, MaxLoc, Min, MinLoc, Or, Prod, Reduction, Sum, ValueLoc, Xor, commutative};
pub use remote_fn::{RemoteFn, fingerprint};
pub use report::all_ok;
pub use span::{BorrowScope, BorrowScopeId, Region, SettleReason, Span, borrow_scope};
pub use suggest::nearest;
pub use yielding::AdaptiveYield;
