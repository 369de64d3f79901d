//! Files that say of which part each vertex is: a line for each, as METIS writes them.

use std::path::Path;

use super::number::{Parsed, Words, part, shown};
use super::source::Source;
use crate::{Error, Result, share};

/// The parts of some vertices: of those whose lines begin in one of so many shares of the file.
pub(crate) fn parts_of_vertices(file: &Path, of: usize, shares: usize) -> Result<Vec<u64>> {
    let source = Source::open(file)?;
    let range = match source.length() {
        Some(length) => share(length, of, shares),
        // What is compressed cannot be split.
        None if of == 0 => source.all(),
        None => return Ok(Vec::new()),
    };
    let mut parts = Vec::new();
    if range.is_empty() {
        return Ok(parts);
    }
    let mut lines = source.lines(range, 0)?;
    while let Some((at, line)) = lines.next()? {
        parts.push(line_of(line).map_err(|what| source.wrong(at, what))?);
    }
    Ok(parts)
}

/// There are not as many lines as vertices.
pub(crate) fn wrong_count(file: &Path, lines: u64, vertices: u64) -> Error {
    if lines == 0 {
        let why = format!("an empty file, but there are {vertices} vertices, and a line for each");
        return Error::File { file: file.to_owned(), why };
    }
    let (line, what) = if lines < vertices {
        (lines, format!("the last line, but there are {vertices} vertices, and a line for each"))
    } else {
        (vertices + 1, format!("one line of {lines}, but there are {vertices} vertices, and a line for each"))
    };
    Error::Line { file: file.to_owned(), line, what }
}

fn line_of(line: &[u8]) -> Parsed<u64> {
    let mut words = Words(line);
    let word = words.next().ok_or("an empty line: expected the part of a vertex")?;
    match words.next() {
        Some(more) => Err(format!("{} behind the part of a vertex", shown(more))),
        None => part(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_one_number() {
        assert_eq!((line_of(b"7"), line_of(b" 0\r"), line_of(b"18446744073709551615")), (Ok(7), Ok(0), Ok(u64::MAX)));
        for (line, message) in [
            ("", "an empty line: expected the part of a vertex"),
            ("1 2", "`2` behind the part of a vertex"),
            ("x", "`x` is no part: expected a whole number"),
            ("1.5", "`1.5` is no part: expected a whole number"),
            ("-1", "part `-1` is negative"),
            ("99999999999999999999", "part `99999999999999999999` is too big: at most 18446744073709551615"),
        ] {
            assert_eq!(line_of(line.as_bytes()), Err(message.to_owned()));
        }
    }
}
