//! Environment variables of Treepie: the table of their names, and one reader for all of them.
//!
//! An invalid value is an error that names the variable, the value and what is accepted; it is never ignored. An empty
//! value counts as not set. Some values are parsed only further up (algorithms, networks, configurations of active
//! messages): those crates take the text from here and report errors by [`invalid_value`].

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::InvalidVariable;
use crate::units::ByteCount;
use crate::{Error, Result, suggest};

/// The prefix of all names.
const PREFIX: &str = "TREEPIE_";

/// A variable that users set.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What it accepts, for error messages.
    pub accepts: &'static str,
}

/// Choices that follow the links.
pub const ADAPT: Variable = Variable { name: "TREEPIE_ADAPT", accepts: FLAG };
/// Algorithms to use for their operations.
pub const ALGORITHM: Variable =
    Variable { name: "TREEPIE_ALGORITHM", accepts: "ids that `treepie algorithms` lists, with commas between" };
/// The configuration of active messages.
pub const AM: Variable =
    Variable { name: "TREEPIE_AM", accepts: "a configuration as routing=rook,coalescing=512,reductions=off,style=bsp" };
/// The cache directory of compiled MPI shims.
pub const CACHE_DIR: Variable = Variable { name: "TREEPIE_CACHE_DIR", accepts: "a directory" };
/// Checked mode.
pub const CHECKED: Variable = Variable { name: "TREEPIE_CHECKED", accepts: FLAG };
/// The longest message that is sent without a rendezvous.
pub const EAGER_LIMIT: Variable = Variable { name: "TREEPIE_EAGER_LIMIT", accepts: "a number of bytes as 4096 or 4K" };
/// Emulated clusters.
pub const EMULATE: Variable =
    Variable { name: "TREEPIE_EMULATE", accepts: "clusters and links as clusters:4x2,wan=10ms/1MBps,lan=20us/50MBps" };
/// The engine of a program whose ranks share one process.
pub const ENGINE: Variable =
    Variable { name: "TREEPIE_ENGINE", accepts: "threads:P, or sim:NETWORK with a network as torus:4x4x8" };
/// What rank 0 logs.
pub const LOG: Variable = Variable { name: "TREEPIE_LOG", accepts: "choices" };
/// The compiler wrapper of the MPI to use.
pub const MPICC: Variable = Variable { name: "TREEPIE_MPICC", accepts: "an mpicc, by path or by name" };
/// The network of the ranks.
pub const NETWORK: Variable =
    Variable { name: "TREEPIE_NETWORK", accepts: "a network as torus:4x4x8, or the path of a TOML file" };
/// The profile of the machine.
pub const PROFILE: Variable =
    Variable { name: "TREEPIE_PROFILE", accepts: "the path of a file that `treepie tune` wrote, or `measure`" };
/// The value of [`PROFILE`] with which programs measure at the start.
pub const MEASURE: &str = "measure";
/// Rules of algorithms.
pub const RULES: Variable = Variable { name: "TREEPIE_RULES", accepts: "the path of a file of rules" };
/// How many ranks of a host share a segment.
pub const SHARED_SEGMENT: Variable =
    Variable { name: "TREEPIE_SHARED_SEGMENT", accepts: "on, off, or a number of ranks from 2 to 64" };
/// Whether large messages are transferred in a single copy.
pub const SINGLE_COPY: Variable = Variable { name: "TREEPIE_SINGLE_COPY", accepts: FLAG };
/// The time after which a waiting rank reports what it waits for.
pub const STALL_SECS: Variable =
    Variable { name: "TREEPIE_STALL_SECS", accepts: "a number of seconds as 20 or 0.5, or 0 for off" };

/// Whether result files are written without a name where the file system can.
pub const TMPFILE: Variable = Variable { name: "TREEPIE_TMPFILE", accepts: FLAG };

/// All variables that users set.
pub const VARIABLES: [Variable; 17] = [
    ADAPT,
    ALGORITHM,
    AM,
    CACHE_DIR,
    CHECKED,
    EAGER_LIMIT,
    EMULATE,
    ENGINE,
    LOG,
    MPICC,
    NETWORK,
    PROFILE,
    RULES,
    SHARED_SEGMENT,
    SINGLE_COPY,
    STALL_SECS,
    TMPFILE,
];

/// Variables that the launcher sets for each rank.
pub const RANK_VARIABLES: [&str; 4] =
    ["TREEPIE_RANK", "TREEPIE_SIZE", "TREEPIE_ARENA", crate::atomic_file::TEMPORARIES_VAR];

/// Variables that only tests of Treepie read.
pub const TEST_VARIABLES: [&str; 8] = [
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

/// The longest stall timeout.
const MAX_SECS: f64 = 1e9;

/// The value of a variable, if it is set and not empty.
pub fn text(variable: Variable) -> Result<Option<String>> {
    match std::env::var_os(variable.name).filter(|value| !value.is_empty()).map(OsString::into_string) {
        None => Ok(None),
        Some(Ok(value)) => Ok(Some(value)),
        Some(Err(value)) => {
            Err(invalid_value(variable, &value.to_string_lossy(), format!("expected {}", variable.accepts)))
        }
    }
}

/// The value of a variable that is a path.
pub fn path(variable: Variable) -> Option<PathBuf> {
    std::env::var_os(variable.name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The error for a value that is not accepted.
pub fn invalid_value(variable: Variable, value: &str, reason: String) -> Error {
    Error::Environment(Box::new(InvalidVariable { name: variable.name, value: value.to_owned(), reason }))
}

/// Reads a value with `parse`, which returns none for an invalid one.
fn read<T>(variable: Variable, parse: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>> {
    let Some(value) = text(variable)? else { return Ok(None) };
    let parsed = parse(value.trim());
    parsed.map(Some).ok_or_else(|| invalid_value(variable, &value, format!("expected {}", variable.accepts)))
}

fn parse_flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "on" | "true" | "yes" => Some(true),
        "0" | "off" | "false" | "no" => Some(false),
        _ => None,
    }
}

/// Whether all handles are in checked mode (`TREEPIE_CHECKED`).
pub fn checked() -> Result<bool> {
    Ok(read(CHECKED, parse_flag)?.unwrap_or(false))
}

/// Whether the choices of the world follow its links (`TREEPIE_ADAPT`).
pub fn adapt() -> Result<bool> {
    Ok(read(ADAPT, parse_flag)?.unwrap_or(false))
}

/// The eager limit, if it is to be lower than the engine's (`TREEPIE_EAGER_LIMIT`).
pub fn eager_limit() -> Result<Option<usize>> {
    read(EAGER_LIMIT, |text| text.parse().ok().map(|ByteCount(bytes)| bytes))
}

/// The eager limit of an engine that has room for `max_body` bytes.
pub fn eager_limit_of(max_body: usize) -> usize {
    // Starting the world has rejected invalid values.
    eager_limit().ok().flatten().map_or(max_body, |limit| limit.min(max_body))
}

/// The most ranks that share a segment.
pub const MAX_SEGMENT_MEMBERS: u32 = u64::BITS;

/// The most ranks of a host that are to share a segment (`TREEPIE_SHARED_SEGMENT`); 1 if none shares one.
pub fn segment_members() -> Result<u32> {
    let parse = |text: &str| {
        let number = text.parse().ok().filter(|number| (2..=MAX_SEGMENT_MEMBERS).contains(number));
        number.or_else(|| parse_flag(text).map(|is_on| if is_on { MAX_SEGMENT_MEMBERS } else { 1 }))
    };
    Ok(read(SHARED_SEGMENT, parse)?.unwrap_or(MAX_SEGMENT_MEMBERS))
}

/// Whether single copy may be used (`TREEPIE_SINGLE_COPY`).
pub fn single_copy() -> Result<bool> {
    Ok(read(SINGLE_COPY, parse_flag)?.unwrap_or(true))
}

/// Whether result files may be written without a name (`TREEPIE_TMPFILE`).
pub fn tmpfile() -> Result<bool> {
    Ok(read(TMPFILE, parse_flag)?.unwrap_or(true))
}

/// The time after which a waiting rank reports what it waits for (`TREEPIE_STALL_SECS`); none: never.
pub fn stall_timeout() -> Result<Option<Duration>> {
    let seconds = read(STALL_SECS, parse_seconds)?.filter(|seconds| *seconds > 0.0);
    Ok(seconds.map(Duration::from_secs_f64))
}

fn parse_seconds(text: &str) -> Option<f64> {
    text.parse().ok().filter(|seconds| (0.0..=MAX_SECS).contains(seconds))
}

/// Whether rank 0 logs the chosen algorithms (`TREEPIE_LOG`).
pub fn log_choices() -> Result<bool> {
    let words = |text: &str| text.split(',').all(|word| word.trim() == "choices").then_some(true);
    Ok(read(LOG, words)?.unwrap_or(false))
}

/// Checks the values that this crate can parse.
pub fn check() -> Result<()> {
    adapt()?;
    checked()?;
    eager_limit()?;
    segment_members()?;
    single_copy()?;
    tmpfile()?;
    stall_timeout()?;
    log_choices()?;
    for variable in [ALGORITHM, AM, NETWORK, PROFILE, RULES] {
        text(variable)?;
    }
    Ok(())
}

/// A warning for each variable with Treepie's prefix that is unknown. It may be the program's own, so it is not an
/// error.
pub fn unknown_variables() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut unknown: Vec<String> = names.filter(|name| name.starts_with(PREFIX) && !is_known(name)).collect();
    unknown.sort_unstable();
    unknown.iter().map(|name| unknown_variable_message(name)).collect()
}

fn is_known(name: &str) -> bool {
    VARIABLES.iter().any(|variable| variable.name == name)
        || RANK_VARIABLES.contains(&name)
        || TEST_VARIABLES.contains(&name)
}

fn unknown_variable_message(name: &str) -> String {
    let wrong = format!("the environment variable {name} is not known and has no effect");
    let names = || VARIABLES.iter().map(|variable| variable.name);
    // The common prefix must not count as similarity.
    let suffix = |name| str::strip_prefix(name, PREFIX).unwrap_or(name);
    match suggest::nearest(suffix(name), names().map(suffix)) {
        Some(nearest) => format!("{wrong}: did you mean {PREFIX}{nearest}?"),
        None => format!("{wrong}; there are {}", names().collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_have_eight_spellings() {
        assert!(["1", "on", "ON", "true", "yes"].iter().all(|text| parse_flag(text) == Some(true)));
        assert!(["0", "off", "Off", "false", "no"].iter().all(|text| parse_flag(text) == Some(false)));
        assert!(["maybe", "2", "", "o"].iter().all(|text| parse_flag(text).is_none()));
    }

    #[test]
    fn seconds_are_bounded() {
        assert_eq!((parse_seconds("0"), parse_seconds("2.5"), parse_seconds("1e9")), (Some(0.0), Some(2.5), Some(1e9)));
        assert!(["1000000001", "-1", "inf", "NaN", "abc", ""].iter().all(|text| parse_seconds(text).is_none()));
    }

    #[test]
    fn names_are_in_order_and_begin_alike() {
        assert!(VARIABLES.is_sorted_by_key(|variable| variable.name));
        let all = VARIABLES.iter().map(|variable| variable.name).chain(RANK_VARIABLES).chain(TEST_VARIABLES);
        assert!(all.into_iter().all(|name| name.starts_with(PREFIX) && is_known(name)));
    }

    #[test]
    fn an_unknown_name_gets_the_nearest_or_all() {
        assert!(unknown_variable_message("TREEPIE_STALL_SEC").ends_with("did you mean TREEPIE_STALL_SECS?"));
        assert!(unknown_variable_message("TREEPIE_ALGORITM").ends_with("did you mean TREEPIE_ALGORITHM?"));
        assert!(
            unknown_variable_message("TREEPIE_HOME")
                .contains("there are TREEPIE_ADAPT, TREEPIE_ALGORITHM, TREEPIE_AM,")
        );
    }
}
