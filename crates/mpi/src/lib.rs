//! The `mpi` engine: ranks are the processes of an MPI job, on one machine or many.
//!
//! MPI is reached through `shim.c`, a flat C interface that the user's `mpicc` compiles once ([`setup()`]) and that is
//! loaded at run time. So Treepie needs no MPI to be built, and one program runs under every MPI.
//!
//! ```text
//! launcher       which MPI started this process
//! installation   which MPIs have a compiler here
//! cache, setup   the shim, compiled for one of them
//! trust          whose the file is that is loaded
//! shim           its functions
//! engine         Fabric: inbox and outbox for records, bulk for large transfers, rest for waiting
//! ```

mod bulk;
mod cache;
mod engine;
mod error;
mod exit;
mod inbox;
mod installation;
mod launcher;
mod outbox;
mod record;
mod rest;
mod setup;
mod shim;
mod trust;

pub use error::SetupError;
pub use installation::{Installation, installations};
pub use launcher::{Flavor, running_under_mpi};
pub use setup::{Installed, setup, start};

/// How tests start Open MPI: for more ranks than cores, and as whoever runs the tests. Beside busy processes, ranks that are bound to
/// a core, and yields of Open MPI itself, take long.
#[doc(hidden)]
pub const OPENMPI_TEST_OPTIONS: [&str; 7] =
    ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "0"];
