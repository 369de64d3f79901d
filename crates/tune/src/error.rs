//! Errors of measurements.

use treepie_comm::Rank;

/// Result of a measurement.
pub type Result<T> = std::result::Result<T, Error>;

/// A measurement that failed.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A message failed, mostly because its peer was lost.
    #[error("{0}")]
    Comm(#[from] treepie_comm::Error),
    /// What was measured is not a model.
    #[error("{0}")]
    Model(#[from] treepie_model::Error),
    /// There is nobody to send messages to.
    #[error("a measurement needs at least two ranks")]
    OneRank,
    /// There is no MPI library whose collective operations could be measured.
    #[error("only an MPI job has collective operations of its own to measure: use mpirun or srun")]
    NoHostCollectives,
    /// A rank could not measure its link.
    #[error("rank {rank} could not measure its link to rank {peer}: {reason}")]
    Link {
        /// The rank that measured.
        rank: Rank,
        /// The other one.
        peer: Rank,
        /// Its error.
        reason: String,
    },
}

treepie_base::debug_by_display!(Error);

impl From<Error> for treepie_comm::Error {
    /// Consequences of another rank's failure stay what they are.
    fn from(error: Error) -> Self {
        match error {
            Error::Comm(error) => error,
            error => Self::Program(error.to_string()),
        }
    }
}
