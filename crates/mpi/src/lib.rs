//! The `mpi` engine: ranks are the processes of an MPI job, on one machine or many.
//!
//! MPI is called through `shim.c`, a flat C interface that the user's `mpicc` compiles once ([`setup()`]) and that is
//! loaded at run time. So Treepie builds without MPI, and one program runs under every MPI.
//!
//! ```text
//! launcher       which MPI started this process
//! installation   which MPIs have a compiler here
//! cache, setup   the shim, compiled for one of them
//! trust          checks who may have written the file that is loaded
//! shim           its functions
//! engine         Fabric: inbox and send_queue for records, bulk for large transfers, poll_backoff,
//!                host_collective for the library's own collective operations, host_segment for the memory that
//!                ranks of a host share
//! ```

mod bulk;
mod cache;
mod engine;
mod error;
mod exit;
mod host_collective;
mod host_segment;
mod inbox;
mod installation;
mod launcher;
mod poll_backoff;
mod record;
mod send_queue;
mod setup;
mod shim;
mod trust;

pub use error::SetupError;
pub use installation::{Installation, installations};
pub use launcher::{Flavor, running_under_mpi};
pub use setup::{InstalledShim, setup, start};

/// Options of `mpirun` for tests under Open MPI: more ranks than cores, run as any user. Beside busy processes, ranks
/// bound to a core and Open MPI's own yields are slow.
#[doc(hidden)]
pub const OPENMPI_TEST_OPTIONS: [&str; 7] =
    ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "0"];
