//! What a case reports when something is not as it must be.

use std::fmt::{self, Debug};
use std::panic::Location;

/// What differed, and where in the suite it was noticed.
#[derive(Clone, Debug)]
pub struct Failure {
    what: String,
    place: &'static Location<'static>,
}

/// What a case returns.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// Something is not as it must be.
    #[track_caller]
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), place: Location::caller() }
    }

    /// The same, and during what.
    pub(crate) fn during(self, what: impl fmt::Display) -> Self {
        Self { what: format!("{what}: {}", self.what), ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.place.file().rsplit('/').next().unwrap_or_default();
        write!(f, "{} ({file}:{})", self.what, self.place.line())
    }
}

/// An operation that must succeed did not.
impl From<treepie::Error> for Failure {
    #[track_caller]
    fn from(error: treepie::Error) -> Self {
        Self::new(format!("{error:?}: {error}"))
    }
}

/// A value for people: not all of a long one.
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
