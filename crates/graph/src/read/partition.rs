//! Partition files: a line for each vertex with its part, as METIS writes them.

use std::path::Path;

use super::parse::{ParseResult, Tokens, parse_partition_number, quoted};
use super::source::SourceFile;
use crate::{Error, Result, block_range};

/// The parts of the vertices whose lines begin in block `block` of `blocks` of the file.
pub(crate) fn read_partition(file: &Path, block: usize, blocks: usize) -> Result<Vec<u64>> {
    let source = SourceFile::open(file)?;
    let range = match source.length() {
        Some(length) => block_range(length, block, blocks),
        // A compressed file cannot be split.
        None if block == 0 => source.full_range(),
        None => return Ok(Vec::new()),
    };
    let mut parts = Vec::new();
    if range.is_empty() {
        return Ok(parts);
    }
    let mut lines = source.lines(range, 0)?;
    while let Some((at, line)) = lines.next()? {
        parts.push(parse_line(line).map_err(|what| source.line_error(at, what))?);
    }
    Ok(parts)
}

/// The error of a file whose number of lines is not that of the vertices.
pub(crate) fn line_count_mismatch(file: &Path, lines: u64, vertices: u64) -> Error {
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

fn parse_line(line: &[u8]) -> ParseResult<u64> {
    let mut tokens = Tokens(line);
    let token = tokens.next().ok_or("an empty line: expected the part of a vertex")?;
    match tokens.next() {
        Some(more) => Err(format!("{} after the part of a vertex", quoted(more))),
        None => parse_partition_number(token),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_one_number() {
        assert_eq!(
            (parse_line(b"7"), parse_line(b" 0\r"), parse_line(b"18446744073709551615")),
            (Ok(7), Ok(0), Ok(u64::MAX))
        );
        for (line, message) in [
            ("", "an empty line: expected the part of a vertex"),
            ("1 2", "`2` after the part of a vertex"),
            ("x", "`x` is no part: expected a whole number"),
            ("1.5", "`1.5` is no part: expected a whole number"),
            ("-1", "part `-1` is negative"),
            ("99999999999999999999", "part `99999999999999999999` is too big: at most 18446744073709551615"),
        ] {
            assert_eq!(parse_line(line.as_bytes()), Err(message.to_owned()));
        }
    }
}
