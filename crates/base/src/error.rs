//! The errors of the library.

use crate::{Rank, Tag};

/// Result of an operation of the library.
pub type Result<T> = std::result::Result<T, Error>;

/// An operation that failed. The rank can continue.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The peer failed, or finalized before it did what this operation waits for.
    #[error("rank {rank} was lost: it ended before it did what this operation waits for")]
    PeerLost {
        /// The peer, as a rank of the world.
        rank: Rank,
    },
    /// The message is longer than the receive's buffer. It was not consumed: probe for it and receive it again.
    #[error("a message of {got} bytes does not fit a receive of {room} bytes; it can still be received")]
    Truncated {
        /// The message's length in bytes.
        got: u64,
        /// The receive's capacity in bytes.
        room: u64,
    },
    /// The received length is not a whole number of elements.
    #[error("a message of {bytes} bytes is not a whole number of elements of {element} bytes")]
    PartialElement {
        /// The message's length in bytes.
        bytes: u64,
        /// The size of the element asked for.
        element: usize,
    },
    /// A slice given to a collective operation, or a message, has the wrong length.
    #[error("{what} has {got} elements where the operation needs {expected}")]
    BadLength {
        /// Which slice.
        what: &'static str,
        /// Its length.
        got: usize,
        /// What it must be.
        expected: usize,
    },
    /// An algorithm that does not exist, or not for this call.
    #[error("{0}")]
    Algorithm(String),
    /// Ranks called a collective operation with lengths that do not match.
    #[error("ranks disagree about a collective operation: received {got} bytes, expected {expected}")]
    LengthMismatch {
        /// Bytes received.
        got: u64,
        /// Bytes that this rank's call expected.
        expected: u64,
    },
    /// A rank has aborted the collective operation that this message was for.
    #[error("rank {rank} aborted the collective operation")]
    Aborted {
        /// The rank, as a rank of the world.
        rank: Rank,
    },
    /// A rank is in an earlier or later collective operation, or runs this one with another algorithm.
    #[error("rank {rank} is in another collective operation than this one")]
    CollectiveOrderMismatch {
        /// The rank, as a rank of the world.
        rank: Rank,
    },
    /// Ranks called different collective operations, or one with different roots or lengths: detected in checked mode
    /// on all ranks, and otherwise by those that receive a message, or read shared memory, of a rank that is in another
    /// call.
    #[error("rank {first} calls {}, rank {second} calls {}", calls[0], calls[1])]
    CollectiveMismatch {
        /// The first rank of the communicator, as a rank of the world; outside checked mode, the lower one of the two.
        first: Rank,
        /// The first rank that differs from it, as a rank of the world; outside checked mode, the higher one.
        second: Rank,
        /// The calls; roots are ranks of the communicator.
        calls: Box<[String; 2]>,
    },
    /// Ranks have registered different types of active messages, or the same in another order or configuration.
    #[error("rank {first} has the message types {}; rank {second} has {}", lists[0], lists[1])]
    MessageTypeMismatch {
        /// The first rank of the communicator.
        first: Rank,
        /// The first rank that differs from it, as a rank of the communicator.
        second: Rank,
        /// What they have registered.
        lists: Box<[String; 2]>,
    },
    /// The system does not let this rank read a buffer of another one.
    #[error("the system does not let this rank read a buffer of rank {rank}; set TREEPIE_SINGLE_COPY=off")]
    Unreadable {
        /// The rank, as a rank of the world.
        rank: Rank,
    },
    /// An environment variable has a value that is not accepted.
    #[error("{0}")]
    Environment(Box<InvalidVariable>),
    /// No such rank in this communicator.
    #[error("rank {rank} does not exist in a communicator of {size}")]
    BadRank {
        /// The rank that was asked for.
        rank: Rank,
        /// Ranks of the communicator.
        size: usize,
    },
    /// A tag that programs may not use.
    #[error("tag {tag} is above the largest tag, {}", crate::MAX_TAG)]
    BadTag {
        /// The tag that was asked for.
        tag: Tag,
    },
    /// The operation would wait for this rank itself for ever.
    #[error("deadlock: {what} can only be completed by this rank itself")]
    Deadlock {
        /// The operation.
        what: &'static str,
    },
    /// The receive was cancelled before a message matched it.
    #[error("the receive was cancelled")]
    Cancelled,
    /// An access outside a window.
    #[error("elements {first}..{end} lie outside the window of rank {rank}, which has {len}")]
    OutsideWindow {
        /// Whose part of the window.
        rank: Rank,
        /// First element of the access.
        first: u64,
        /// One past its last element.
        end: u64,
        /// Elements that rank contributed.
        len: u64,
    },
    /// There is not enough memory for a size that a program, a file or a peer has given.
    #[error("not enough memory for {what}: {bytes} bytes; the limit of this process (ulimit -v) counts, too")]
    OutOfMemory {
        /// What it is for.
        what: &'static str,
        /// How much was asked for.
        bytes: u64,
    },
    /// An object cannot be serialized, or bytes are not those of an object of the type asked for.
    #[error("an object {0}")]
    Object(String),
    /// The engine could not be started or has failed.
    #[error("{0}")]
    Engine(String),
    /// An error of the program, or of a crate above the communicator: its text.
    #[error("{0}")]
    Program(String),
    /// The error of one of several ranks, where all results are collected.
    #[error("rank {rank}: {error}")]
    Rank {
        /// Whose error it is, as a rank of the world.
        rank: Rank,
        /// Its error.
        error: Box<Error>,
    },
}

crate::debug_by_display!(Error);

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::Program(error.to_string())
    }
}

impl From<String> for Error {
    fn from(text: String) -> Self {
        Self::Program(text)
    }
}

impl From<&str> for Error {
    fn from(text: &str) -> Self {
        Self::Program(text.to_owned())
    }
}

/// The value of an environment variable that is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}={value}: {reason}")]
pub struct InvalidVariable {
    /// The variable.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// What is wrong with it, or what would be accepted.
    pub reason: String,
}
