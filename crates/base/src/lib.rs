//! What every other crate of Treepie speaks of: ranks and tags, errors, and the memory that messages lie in.
//!
//! `unsafe` is confined to [`bytes`] and [`span`]: they turn typed vectors and borrowed slices into untyped memory that
//! engines and protocols can hold, so that the crates above can forbid it.

pub mod bytes;
mod copy;
pub mod error;
pub mod rank;
pub mod reduction;
pub mod span;

pub use bytemuck::{Pod, Zeroable};
pub use bytes::Bytes;
pub use copy::copy_short;
pub use error::{Error, Result};
pub use rank::{ANY_SOURCE, ANY_TAG, MAX_TAG, Rank, Source, Status, Tag, TagMatch};
pub use reduction::{And, Commutative, Located, Max, MaxLoc, Min, MinLoc, Or, Prod, Reduction, Sum, Xor, commutative};
pub use span::{Lender, Lending, Region, Settling, Span, lending};
