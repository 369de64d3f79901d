//! Errors of model parameters.

/// Result of constructing a model.
pub type Result<T> = std::result::Result<T, Error>;

/// Invalid model parameters.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter out of its range.
    #[error("{what} is {value}, and must be {needs}")]
    Parameter {
        /// The name of the parameter.
        what: &'static str,
        /// Its value.
        value: f64,
        /// The accepted range.
        needs: &'static str,
    },
    /// A curve without points.
    #[error("the table of {what} has no points")]
    NoPoints {
        /// The name of the curve.
        what: &'static str,
    },
    /// Sizes that do not increase.
    #[error(
        "the table of {what} has size {size} after {before}: sizes must increase, \
         and at most two points may have the same size"
    )]
    UnorderedSizes {
        /// The name of the curve.
        what: &'static str,
        /// The size out of order.
        size: f64,
        /// The size before it.
        before: f64,
    },
    /// A matrix or list of the wrong size.
    #[error("{what} has {got} values, and {needed} are needed")]
    MatrixSize {
        /// Its name.
        what: &'static str,
        /// Number of values given.
        got: usize,
        /// Number of values needed.
        needed: usize,
    },
    /// A profile that is not valid.
    #[error("bad profile: {0}")]
    Profile(String),
    /// A profile that cannot be read.
    #[error("cannot read the profile {path}: {reason}")]
    ProfileFile {
        /// The path.
        path: String,
        /// Why not.
        reason: String,
    },
    /// An unknown machine name.
    #[error("unknown machine `{name}`; there are {}", crate::machines::NAMES.join(", "))]
    UnknownMachine {
        /// The name.
        name: String,
    },
}

impl std::fmt::Debug for Error {
    /// The Display text in one line and in one write: `main` prints its error by `Debug`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.to_string().replace('\n', " | "))
    }
}

/// Refuses negative and non-finite values.
pub(crate) fn not_negative(what: &'static str, value: f64) -> Result<()> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    Err(Error::Parameter { what, value, needs: "a non-negative number" })
}

/// Refuses values that are not positive and finite.
pub(crate) fn positive(what: &'static str, value: f64) -> Result<()> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err(Error::Parameter { what, value, needs: "a positive number" })
}
