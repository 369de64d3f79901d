//! What can be wrong with the parameters of a model.

/// Result of setting up a model.
pub type Result<T> = std::result::Result<T, Error>;

/// Parameters that no model can have.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A number that must be greater, or a number at all.
    #[error("{what} is {value}, and must be {needs}")]
    Parameter {
        /// What it is the value of.
        what: &'static str,
        /// The value.
        value: f64,
        /// What it should be.
        needs: &'static str,
    },
    /// A table without any point.
    #[error("the table of {what} has no points")]
    NoPoints {
        /// What it is a table of.
        what: &'static str,
    },
    /// Sizes that do not rise.
    #[error(
        "the table of {what} has size {size} after {before}: sizes must rise, and only two points may have the same"
    )]
    Order {
        /// What it is a table of.
        what: &'static str,
        /// The size that is too small.
        size: f64,
        /// The one before it.
        before: f64,
    },
    /// A matrix that is not square, or not of the size that is needed.
    #[error("{what} has {got} values, and {needed} are needed")]
    Shape {
        /// What.
        what: &'static str,
        /// Values that were given.
        got: usize,
        /// Values that are needed.
        needed: usize,
    },
    /// Nobody's name.
    #[error("there is no machine `{name}`; there are {}", crate::machines::NAMES.join(", "))]
    Machine {
        /// What was asked for.
        name: String,
    },
}

impl std::fmt::Debug for Error {
    /// The Display text in one line and in one write: `main` prints its error by `Debug`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.to_string().replace('\n', " | "))
    }
}

/// A number from 0 on.
pub(crate) fn not_negative(what: &'static str, value: f64) -> Result<()> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    Err(Error::Parameter { what, value, needs: "a number from 0 on" })
}

/// A number above 0.
pub(crate) fn positive(what: &'static str, value: f64) -> Result<()> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err(Error::Parameter { what, value, needs: "a number above 0" })
}
