//! Failures of cases, and the macros that report them.

use std::fmt::{self, Debug};
use std::panic::Location;

/// A failed check: what differed, and its source location.
#[derive(Clone, Debug)]
pub struct Failure {
    what: String,
    location: &'static Location<'static>,
}

/// The result of a case.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// A failure at the caller's source location.
    #[track_caller]
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), location: Location::caller() }
    }

    /// Prepends what was being done when it failed.
    pub(crate) fn context(self, what: impl fmt::Display) -> Self {
        Self { what: format!("{what}: {}", self.what), ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.location.file().rsplit('/').next().unwrap_or_default();
        write!(f, "{} ({file}:{})", self.what, self.location.line())
    }
}

/// An operation failed that must succeed.
impl From<treepie::Error> for Failure {
    #[track_caller]
    fn from(error: treepie::Error) -> Self {
        Self::new(format!("{error:?}: {error}"))
    }
}

/// The debug output of a value, truncated to 300 characters.
pub(crate) fn brief(value: &dyn Debug) -> String {
    let mut text = format!("{value:?}");
    if let Some((end, _)) = text.char_indices().nth(300) {
        text.truncate(end);
        text.push_str("...");
    }
    text
}

/// Fails the case unless the condition holds.
macro_rules! check {
    ($condition:expr, $($what:tt)+) => {
        if !$condition {
            return Err($crate::Failure::new(format!($($what)+)));
        }
    };
}

/// Fails the case unless both are equal.
macro_rules! check_eq {
    ($got:expr, $want:expr, $($what:tt)+) => {
        match (&$got, &$want) {
            (got, want) => {
                if got != want {
                    let (got, want) = ($crate::check::brief(&got), $crate::check::brief(&want));
                    return Err($crate::Failure::new(format!("{}: {got} instead of {want}", format_args!($($what)+))));
                }
            }
        }
    };
}

pub(crate) use {check, check_eq};
