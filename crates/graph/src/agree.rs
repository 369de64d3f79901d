//! Agreement on errors: if one rank fails, all fail.

use treepie_comm::{Comm, Min, Rank};

use crate::{Error, Result};

/// Returns this rank's result, unless some rank has an error: then all return the error of the lowest such rank, an
/// error of its communication as [`Error::Input`]. All ranks call it.
pub fn agree<T>(comm: &Comm, outcome: Result<T>) -> Result<T> {
    let text = outcome.as_ref().err().map(encode).unwrap_or_default();
    let failed = if outcome.is_err() { comm.rank() } else { comm.size() };
    let first = comm.allreduce_one(failed as u64, Min)? as Rank;
    if first == comm.size() {
        return outcome;
    }
    let mut message = vec![0; comm.bcast_one(text.len() as u64, first)? as usize];
    if comm.rank() == first {
        message.copy_from_slice(text.as_bytes());
    }
    comm.bcast(&mut message, first)?;
    match outcome {
        Err(error) if comm.rank() == first => Err(error),
        _ => Err(decode(&String::from_utf8_lossy(&message))),
    }
}

/// An error as text, its kind first. Paths have no null characters.
fn encode(error: &Error) -> String {
    match error {
        Error::File { file, why } => format!("file\0{}\0{why}", file.display()),
        Error::Line { file, line, what } => format!("line\0{}\0{line}\0{what}", file.display()),
        Error::Verification(what) => format!("verification\0{what}"),
        Error::Comm(_) | Error::Input(_) => format!("input\0{error}"),
    }
}

fn decode(text: &str) -> Error {
    let split = |text: &str| {
        let (field, rest) = text.split_once('\0').unwrap_or(("", text));
        (field.to_owned(), rest.to_owned())
    };
    let (kind, fields) = split(text);
    match kind.as_str() {
        "file" => {
            let (file, why) = split(&fields);
            Error::File { file: file.into(), why }
        }
        "line" => {
            let (file, fields) = split(&fields);
            let (line, what) = split(&fields);
            Error::Line { file: file.into(), line: line.parse().unwrap_or(0), what }
        }
        "verification" => Error::Verification(fields),
        _ => Error::Input(fields),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_ranks_get_the_same_error() {
        let file = std::path::PathBuf::from("some/edges.txt");
        for error in [
            Error::File { file: file.clone(), why: "no such file".to_owned() },
            Error::Line { file, line: 7, what: "`\0` is no number".to_owned() },
            Error::Input("a weight is -1".to_owned()),
            Error::Verification("two\nroots".to_owned()),
        ] {
            assert_eq!(decode(&encode(&error)), error);
        }
    }
}
