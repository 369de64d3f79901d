//! Environment variables of Treepie: the table of their names, and one reader for all of them.
//!
//! A value that is not accepted is an error that names the variable, the value and what is accepted; it is never ignored.
//! An empty value counts as not set. What some values mean is known only further up (algorithms, networks, configurations
//! of active messages): those crates take the text from here and report by [`refused`].

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::NotAccepted;
use crate::{Error, Result, suggest};

/// What all names begin with.
const PREFIX: &str = "TREEPIE_";

/// A variable that users set.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What it accepts, for error messages.
    pub accepts: &'static str,
}

/// Algorithms to use for their operations.
pub const ALGORITHM: Variable =
    Variable { name: "TREEPIE_ALGORITHM", accepts: "ids that `treepie algorithms` lists, with commas between" };
/// How active messages travel.
pub const AM: Variable =
    Variable { name: "TREEPIE_AM", accepts: "a configuration as routing=rook,coalescing=512,reductions=off,style=bsp" };
/// Where compiled MPI shims are kept.
pub const CACHE_DIR: Variable = Variable { name: "TREEPIE_CACHE_DIR", accepts: "a directory" };
/// Checked mode.
pub const CHECKED: Variable = Variable { name: "TREEPIE_CHECKED", accepts: FLAG };
/// What rank 0 logs.
pub const LOG: Variable = Variable { name: "TREEPIE_LOG", accepts: "choices" };
/// The compiler wrapper of the MPI to use.
pub const MPICC: Variable = Variable { name: "TREEPIE_MPICC", accepts: "an mpicc, by path or by name" };
/// Where the ranks are.
pub const NETWORK: Variable =
    Variable { name: "TREEPIE_NETWORK", accepts: "a network as torus:4x4x8, or the path of a TOML file" };
/// Whether large messages are copied from memory to memory.
pub const SINGLE_COPY: Variable = Variable { name: "TREEPIE_SINGLE_COPY", accepts: FLAG };
/// After how long a rank says what it waits for.
pub const STALL_SECS: Variable =
    Variable { name: "TREEPIE_STALL_SECS", accepts: "a number of seconds as 20 or 0.5, or 0 for off" };

/// Whether files of results are written without a name where the file system can.
pub const TMPFILE: Variable = Variable { name: "TREEPIE_TMPFILE", accepts: FLAG };

/// All variables that users set.
pub const VARIABLES: [Variable; 10] =
    [ALGORITHM, AM, CACHE_DIR, CHECKED, LOG, MPICC, NETWORK, SINGLE_COPY, STALL_SECS, TMPFILE];

/// What the launcher sets for each rank.
pub const OF_RANKS: [&str; 4] = ["TREEPIE_RANK", "TREEPIE_SIZE", "TREEPIE_ARENA", crate::atomic_file::TEMPORARIES];

/// What only tests of Treepie read.
pub const OF_TESTS: [&str; 8] = [
    "TREEPIE_CYCLES",
    "TREEPIE_LONG",
    "TREEPIE_MESSAGES",
    "TREEPIE_MPI_TEST",
    "TREEPIE_REGENERATE",
    "TREEPIE_SEEDS",
    "TREEPIE_TEST_CODE",
    "TREEPIE_TEST_LIMIT_SECS",
];

const FLAG: &str = "1, on, true, yes or 0, off, false, no";

/// The longest time that can be waited for.
const MOST_SECS: f64 = 1e9;

/// The value of a variable, if it is set and not empty.
pub fn text(variable: Variable) -> Result<Option<String>> {
    match std::env::var_os(variable.name).filter(|value| !value.is_empty()).map(OsString::into_string) {
        None => Ok(None),
        Some(Ok(value)) => Ok(Some(value)),
        Some(Err(value)) => Err(refused(variable, &value.to_string_lossy(), format!("expected {}", variable.accepts))),
    }
}

/// The same of a variable whose value is a path.
pub fn path(variable: Variable) -> Option<PathBuf> {
    std::env::var_os(variable.name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The error for a value that is not accepted.
pub fn refused(variable: Variable, value: &str, reason: String) -> Error {
    Error::Environment(Box::new(NotAccepted { name: variable.name, value: value.to_owned(), reason }))
}

/// Reads a value with `parse`, which says nothing where it is not accepted.
fn read<T>(variable: Variable, parse: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>> {
    let Some(value) = text(variable)? else { return Ok(None) };
    let parsed = parse(value.trim());
    parsed.map(Some).ok_or_else(|| refused(variable, &value, format!("expected {}", variable.accepts)))
}

fn flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "on" | "true" | "yes" => Some(true),
        "0" | "off" | "false" | "no" => Some(false),
        _ => None,
    }
}

/// Whether all handles are in checked mode (`TREEPIE_CHECKED`).
pub fn checked() -> Result<bool> {
    Ok(read(CHECKED, flag)?.unwrap_or(false))
}

/// Whether single copy may be used (`TREEPIE_SINGLE_COPY`).
pub fn single_copy() -> Result<bool> {
    Ok(read(SINGLE_COPY, flag)?.unwrap_or(true))
}

/// Whether files of results may be written without a name (`TREEPIE_TMPFILE`).
pub fn tmpfile() -> Result<bool> {
    Ok(read(TMPFILE, flag)?.unwrap_or(true))
}

/// After how long a rank says what it waits for (`TREEPIE_STALL_SECS`); nothing: never.
pub fn stall() -> Result<Option<Duration>> {
    let seconds = read(STALL_SECS, seconds)?.filter(|seconds| *seconds > 0.0);
    Ok(seconds.map(Duration::from_secs_f64))
}

fn seconds(text: &str) -> Option<f64> {
    text.parse().ok().filter(|seconds| (0.0..=MOST_SECS).contains(seconds))
}

/// Whether rank 0 says which algorithms are chosen (`TREEPIE_LOG`).
pub fn log_choices() -> Result<bool> {
    let words = |text: &str| text.split(',').all(|word| word.trim() == "choices").then_some(true);
    Ok(read(LOG, words)?.unwrap_or(false))
}

/// Refuses values that this crate can judge.
pub fn check() -> Result<()> {
    checked()?;
    single_copy()?;
    tmpfile()?;
    stall()?;
    log_choices()?;
    for variable in [ALGORITHM, AM, NETWORK] {
        text(variable)?;
    }
    Ok(())
}

/// A line for each variable that is set, looks like one of Treepie's and is none. Such a one may be the program's own, so
/// it is no error.
pub fn unknown() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut unknown: Vec<String> = names.filter(|name| name.starts_with(PREFIX) && !is_known(name)).collect();
    unknown.sort_unstable();
    unknown.iter().map(|name| complaint(name)).collect()
}

fn is_known(name: &str) -> bool {
    VARIABLES.iter().any(|variable| variable.name == name) || OF_RANKS.contains(&name) || OF_TESTS.contains(&name)
}

fn complaint(name: &str) -> String {
    let wrong = format!("the environment variable {name} is not known and has no effect");
    let names = || VARIABLES.iter().map(|variable| variable.name);
    // What all have in common makes none of them nearer.
    let own = |name| str::strip_prefix(name, PREFIX).unwrap_or(name);
    match suggest::nearest(own(name), names().map(own)) {
        Some(nearest) => format!("{wrong}: did you mean {PREFIX}{nearest}?"),
        None => format!("{wrong}; there are {}", names().collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_have_eight_spellings() {
        assert!(["1", "on", "ON", "true", "yes"].iter().all(|text| flag(text) == Some(true)));
        assert!(["0", "off", "Off", "false", "no"].iter().all(|text| flag(text) == Some(false)));
        assert!(["maybe", "2", "", "o"].iter().all(|text| flag(text).is_none()));
    }

    #[test]
    fn seconds_are_bounded() {
        assert_eq!((seconds("0"), seconds("2.5"), seconds("1e9")), (Some(0.0), Some(2.5), Some(1e9)));
        assert!(["1000000001", "-1", "inf", "NaN", "abc", ""].iter().all(|text| seconds(text).is_none()));
    }

    #[test]
    fn names_are_in_order_and_begin_alike() {
        assert!(VARIABLES.is_sorted_by_key(|variable| variable.name));
        let all = VARIABLES.iter().map(|variable| variable.name).chain(OF_RANKS).chain(OF_TESTS);
        assert!(all.into_iter().all(|name| name.starts_with(PREFIX) && is_known(name)));
    }

    #[test]
    fn an_unknown_name_gets_the_nearest_or_all() {
        assert!(complaint("TREEPIE_STALL_SEC").ends_with("did you mean TREEPIE_STALL_SECS?"));
        assert!(complaint("TREEPIE_ALGORITM").ends_with("did you mean TREEPIE_ALGORITHM?"));
        assert!(complaint("TREEPIE_HOME").contains("there are TREEPIE_ALGORITHM, TREEPIE_AM,"));
    }
}
