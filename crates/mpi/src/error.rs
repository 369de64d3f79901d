//! Why MPI could not be used, each with a remedy.

use std::path::{Path, PathBuf};

use crate::Flavor;
use crate::trust::TrustError;

/// MPI could not be found, prepared or started.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// There is no MPI compiler.
    #[error(
        "no mpicc found in PATH: install an MPI with its compiler (Debian: libopenmpi-dev or libmpich-dev), or set \
         TREEPIE_MPICC to its mpicc"
    )]
    NoMpicc,
    /// There are MPI compilers, but not of the MPI that started this process.
    #[error(
        "this process was started by {wanted}, but the only mpicc here is of {found}: install that of {wanted}, or set \
         TREEPIE_MPICC to it"
    )]
    NoMatchingMpicc {
        /// The MPI that started this process.
        wanted: Flavor,
        /// The installation that was found.
        found: String,
    },
    /// The named compiler cannot be run.
    #[error("cannot run {}: {reason}; give the path of an MPI's mpicc", mpicc.display())]
    NotRunnable {
        /// The compiler.
        mpicc: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// The compiler did not accept the shim.
    #[error("{} could not compile the MPI shim: {output}", mpicc.display())]
    Compile {
        /// The compiler.
        mpicc: PathBuf,
        /// The first lines of its output.
        output: String,
    },
    /// The cache directory cannot be written.
    #[error("cannot write to the cache directory {}: {reason}; set TREEPIE_CACHE_DIR to one that can be written", directory.display())]
    Cache {
        /// The directory.
        directory: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// Another user may have written the cached shim or its directory.
    #[error(
        "{} is not used for MPI shims, since other users may have written to it: {reason}; set TREEPIE_CACHE_DIR to a \
         directory that only you can write, as every directory above it", path.display()
    )]
    Untrusted {
        /// The shim, or the directory for shims.
        path: PathBuf,
        /// Which file or directory others may write, and why.
        reason: String,
    },
    /// The compiled shim or its MPI cannot be loaded.
    #[error("cannot load the MPI shim {}: {reason}; if its MPI has changed, remove the file to have it rebuilt", path.display())]
    Load {
        /// The shim.
        path: PathBuf,
        /// What the loader says.
        reason: String,
    },
    /// The shim's MPI does not know the launcher, so every process is a world of one rank.
    #[error(
        "the launcher started {size} processes, but {library} sees one: it is not the MPI whose launcher was used; use \
         that one's, or set TREEPIE_MPICC to the launcher's mpicc"
    )]
    WrongMpi {
        /// The number of processes by the launcher's environment.
        size: u32,
        /// The MPI that was loaded.
        library: String,
    },
    /// MPI cannot be started a second time.
    #[error("MPI was started before in this process, and it can be started only once")]
    AlreadyStarted,
}

treepie_base::debug_by_display!(SetupError);

impl SetupError {
    pub(crate) fn load(path: &Path, reason: impl ToString) -> Self {
        Self::Load { path: path.into(), reason: reason.to_string() }
    }

    pub(crate) fn refused(path: &Path, refusal: TrustError) -> Self {
        match refusal {
            TrustError::Untrusted(reason) => Self::Untrusted { path: path.into(), reason },
            TrustError::System(error) => Self::cache(path, error),
        }
    }

    pub(crate) fn cache(directory: &Path, reason: impl ToString) -> Self {
        Self::Cache { directory: directory.into(), reason: reason.to_string() }
    }
}

impl From<SetupError> for treepie_base::Error {
    fn from(error: SetupError) -> Self {
        Self::Engine(error.to_string())
    }
}
