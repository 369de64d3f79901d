//! Treepie: a runtime for irregular distributed applications.
//!
//! ```no_run
//! use treepie::prelude::*;
//!
//! fn main() -> treepie::Result<()> {
//!     treepie::main(|world| {
//!         let right = (world.rank() + 1) % world.size();
//!         world.send_one(world.rank() as u64, right, 0)?;
//!         let (received, status) = world.recv_one::<u64>(ANY_SOURCE, 0)?;
//!         println!("rank {} received {received} from rank {}", world.rank(), status.source);
//!         world.barrier()
//!     })
//! }
//! ```
#![forbid(unsafe_code)]

mod emulation;
mod entry_point;
#[doc(hidden)]
pub mod environment;
mod launch;
pub mod simulate;

pub use entry_point::main;
pub use launch::{init, launch, launch_emulated, measure_again};
pub use simulate::simulate;
pub use treepie_comm::{
    ANY_SOURCE, ANY_TAG, AlgorithmRules, AlgorithmSelector, And, AtomicElement, Cartesian, Comm, Commutative,
    DistGraph, Error, MAX_TAG, MatchedMessage, Max, MaxLoc, Min, MinLoc, Network, Operation, Or, PersistentCollective,
    PersistentRecv, PersistentSend, Prod, Rank, Reduction, Request, RequestSet, Result, Scope, SelectionQuery, Source,
    SplitType, Status, Sum, Tag, TagMatch, ValueLoc, Window, Xor, commutative, dims_create, wait_all, wait_any,
    wait_some,
};

pub use bytemuck;
pub use elements::{Pod, Zeroable};

/// The traits of bytemuck with Treepie's derives, which do not need bytemuck among the program's dependencies.
mod elements {
    // A named import shadows a glob import: only the derives are shadowed, the traits come from bytemuck.
    pub use bytemuck::*;
    pub use treepie_derive::{Pod, Zeroable};
}

pub use treepie_am as am;
pub use treepie_am::ActiveMessages;
pub use treepie_apps::randomaccess;
pub use treepie_base::HugeArray;
pub use treepie_graph as graph;
pub use treepie_sparse::{Pattern, Received, SparseExchange};
pub use treepie_tune as tune;

/// The items most programs need: `use treepie::prelude::*`.
pub mod prelude {
    pub use crate::am::{Context, Port};
    pub use crate::graph::Graph;
    pub use crate::{
        ANY_SOURCE, ANY_TAG, ActiveMessages, And, Cartesian, Comm, DistGraph, HugeArray, MatchedMessage, Max, MaxLoc,
        Min, MinLoc, Or, Pattern, PersistentCollective, Pod, Prod, Rank, Reduction, Request, RequestSet, Scope, Source,
        SparseExchange, SplitType, Status, Sum, Tag, TagMatch, ValueLoc, Window, Xor, Zeroable, am, commutative,
        dims_create, wait_all, wait_any, wait_some,
    };
}

/// The code blocks of the README and the book are compiled and run as tests.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../docs/getting-started.md")]
    struct GettingStarted;
    #[doc = include_str!("../docs/your-project.md")]
    struct YourProject;
    #[doc = include_str!("../docs/tasks.md")]
    struct Tasks;
    #[doc = include_str!("../docs/messages.md")]
    struct Messages;
    #[doc = include_str!("../docs/windows.md")]
    struct Windows;
    #[doc = include_str!("../docs/collectives.md")]
    struct Collectives;
    #[doc = include_str!("../docs/communicators.md")]
    struct Communicators;
    #[doc = include_str!("../docs/sparse.md")]
    struct Sparse;
    #[doc = include_str!("../docs/active-messages.md")]
    struct ActiveMessages;
    #[doc = include_str!("../docs/graphs.md")]
    struct Graphs;
    #[doc = include_str!("../docs/randomaccess.md")]
    struct RandomAccess;
    #[doc = include_str!("../docs/simulator.md")]
    struct Simulator;
    #[doc = include_str!("../docs/adaptation.md")]
    struct Adaptation;
}
