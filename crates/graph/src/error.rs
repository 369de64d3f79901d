//! Errors of graph operations.

use std::path::PathBuf;

/// Result of an operation on graphs.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a graph operation.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Communication failed.
    #[error(transparent)]
    Comm(#[from] treepie_base::Error),
    /// A file cannot be opened, read or written.
    #[error("{}: {why}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The reason, from the system or the decompression library.
        why: String,
    },
    /// A file violates its format.
    #[error("{}:{line}: {what}", file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// The line, counted from 1; in binary files the byte.
        line: u64,
        /// The violation.
        what: String,
    },
    /// Invalid arguments of a graph or an algorithm.
    #[error("{0}")]
    Input(String),
    /// A verifier has found a wrong result.
    #[error("wrong result: {0}")]
    Verification(String),
}

treepie_base::debug_by_display!(Error);

impl From<Error> for treepie_base::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Comm(error) => error,
            other => Self::Program(other.to_string()),
        }
    }
}
