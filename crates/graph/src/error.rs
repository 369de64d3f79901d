//! What can go wrong with graphs, as values.

use std::path::PathBuf;

/// Result of an operation on graphs.
pub type Result<T> = std::result::Result<T, Error>;

/// An operation on a graph that could not be done.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Ranks could not talk to each other.
    #[error(transparent)]
    Comm(#[from] treepie_base::Error),
    /// A file cannot be opened, read or written.
    #[error("{}: {why}", file.display())]
    File {
        /// Which file.
        file: PathBuf,
        /// What the system, or the library that unpacks it, says.
        why: String,
    },
    /// A file has something in it that is not of its format.
    #[error("{}:{line}: {what}", file.display())]
    Line {
        /// Which file.
        file: PathBuf,
        /// Its line, counted from 1; in binary files the byte.
        line: u64,
        /// What is wrong there.
        what: String,
    },
    /// A graph, or an algorithm, was asked for with values that make no sense.
    #[error("{0}")]
    Input(String),
    /// A result is wrong: a verifier has found that.
    #[error("wrong result: {0}")]
    Wrong(String),
}

treepie_base::debug_by_display!(Error);
