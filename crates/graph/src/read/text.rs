//! Edge lists: a line for each edge with from, to, and perhaps a weight.
//!
//! Columns are separated by blanks, tabs, commas or semicolons. Lines that begin with `#`, `%` or `//` are comments.
//! All edges of a file have as many columns as the first one. Before it there may be a line with names of columns, if
//! those are separated by something else than blanks.

use std::ops::Range;

use super::number::{Parsed, is_blank, skip_blanks, vertex, weight};
use super::source::Source;
use super::{Content, Facts, read_lines};
use crate::outlet::Outlet;
use crate::{Edge, Orientation, Result, Weights};

/// What programs for tables write first.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

#[derive(Debug)]
pub(super) struct Text {
    /// Columns of all lines, if there are lines.
    columns: Option<usize>,
    /// Where lines with edges or comments begin.
    body: u64,
}

impl Text {
    pub(super) fn open(source: &Source) -> Result<Self> {
        let mut lines = source.lines(source.all(), 0)?;
        let (mut body, mut has_names) = (0, false);
        while let Some((at, mut line)) = lines.next()? {
            if at == 0 && line.starts_with(BYTE_ORDER_MARK) {
                line = &line[BYTE_ORDER_MARK.len()..];
                body = BYTE_ORDER_MARK.len() as u64;
            }
            if is_comment(line) || skip_blanks(line).is_empty() {
                continue;
            }
            if !has_names && are_names(line) {
                has_names = true;
                body = lines.at();
                continue;
            }
            let columns = match count(line) {
                Ok(columns @ 2..=3) => columns,
                Ok(columns) => {
                    return Err(source.wrong(at, format!("{}, but an edge has 2, or 3 with a weight", Of(columns))));
                }
                Err(what) => return Err(source.wrong(at, what)),
            };
            return Ok(Self { columns: Some(columns), body });
        }
        Ok(Self { columns: None, body })
    }
}

impl Content for Text {
    fn facts(&self) -> Facts {
        let weights = self.columns.map(|columns| if columns == 3 { Weights::Real } else { Weights::None });
        Facts { vertices: None, orientation: Orientation::Directed, weights, announced: None }
    }

    fn read(&self, source: &Source, range: Range<u64>, outlet: &mut Outlet<'_>) -> Result<()> {
        let Some(columns) = self.columns else { return Ok(()) };
        read_lines(source, range, self.body, None, outlet, |line| edge(line, columns))
    }
}

/// The edge of a line with so many columns, or none if it is empty or a comment.
#[inline]
fn edge(line: &[u8], columns: usize) -> Parsed<Option<Edge>> {
    if is_comment(line) {
        return Ok(None);
    }
    let mut words = Columns::new(line);
    let Some(word) = words.next()? else { return Ok(None) };
    let from = vertex(word)?;
    let other = || Err(format!("{}, but the first edge of the file has {columns}", Of(count(line)?)));
    let Some(word) = words.next()? else { return other() };
    let mut edge = Edge::new(from, vertex(word)?);
    if columns == 3 {
        let Some(word) = words.next()? else { return other() };
        edge.weight = weight(word)?;
    }
    if words.next()?.is_some() { other() } else { Ok(Some(edge)) }
}

/// A number of columns in a sentence.
struct Of(usize);

impl std::fmt::Display for Of {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} column{}", self.0, if self.0 == 1 { "" } else { "s" })
    }
}

#[inline]
fn is_comment(line: &[u8]) -> bool {
    matches!(skip_blanks(line), [b'#' | b'%', ..] | [b'/', b'/', ..])
}

/// Whether a line has names of columns. What is only separated by blanks might be any sentence.
fn are_names(line: &[u8]) -> bool {
    let mut words = Columns::new(line);
    let mut names = 0;
    while let Ok(Some(word)) = words.next() {
        if !matches!(word[0], b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'"' | b'\'') {
            return false;
        }
        names += 1;
    }
    names >= 2 && line.iter().any(|byte| matches!(byte, b',' | b';' | b'\t'))
}

fn count(line: &[u8]) -> Parsed<usize> {
    let mut words = Columns::new(line);
    let mut columns = 0;
    while words.next()?.is_some() {
        columns += 1;
    }
    Ok(columns)
}

/// Words of a line. Between two there are blanks, or one other separator with or without blanks.
struct Columns<'a> {
    rest: &'a [u8],
    /// A separator says that there is one more column.
    is_owed: bool,
}

impl<'a> Columns<'a> {
    #[inline]
    fn new(line: &'a [u8]) -> Self {
        Self { rest: skip_blanks(line), is_owed: false }
    }

    #[inline]
    fn next(&mut self) -> Parsed<Option<&'a [u8]>> {
        let is_between = |byte: u8| is_blank(byte) || is_separator(byte);
        let length = self.rest.iter().position(|byte| is_between(*byte)).unwrap_or(self.rest.len());
        if length == 0 {
            return if self.rest.is_empty() && !self.is_owed { Ok(None) } else { Err("a column is empty".into()) };
        }
        let (word, rest) = self.rest.split_at(length);
        self.rest = skip_blanks(rest);
        self.is_owed = self.rest.first().is_some_and(|byte| is_separator(*byte));
        if self.is_owed {
            self.rest = skip_blanks(&self.rest[1..]);
        }
        Ok(Some(word))
    }
}

#[inline]
fn is_separator(byte: u8) -> bool {
    matches!(byte, b',' | b';')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weighted(from: u64, to: u64, weight: f64) -> Parsed<Option<Edge>> {
        Ok(Some(Edge { from, to, weight }))
    }

    #[test]
    fn edges_with_all_separators() {
        for line in ["1 2", "1\t2", "1,2", "1;2", "  1 ,\t2\r", "1 2 ", "0001 02"] {
            assert_eq!(edge(line.as_bytes(), 2), weighted(1, 2, 1.0), "{line:?}");
        }
        for line in ["1 2 0.5", "1, 2; 5e-1", "1\t2\t.5\r"] {
            assert_eq!(edge(line.as_bytes(), 3), weighted(1, 2, 0.5), "{line:?}");
        }
        assert_eq!(edge(b"8589934592 18446744073709551614", 2), weighted(1 << 33, u64::MAX - 1, 1.0));
    }

    #[test]
    fn lines_without_edges() {
        for line in ["", " ", "\r", "\t\t", "#", "# 1 2", "%,,", "// a", "  # a", "//"] {
            assert_eq!(edge(line.as_bytes(), 2), Ok(None), "{line:?}");
        }
    }

    #[test]
    fn lines_that_are_refused() {
        let refused = |line: &str, columns| edge(line.as_bytes(), columns).expect_err(line);
        assert_eq!(refused("1", 2), "1 column, but the first edge of the file has 2");
        assert_eq!(refused("1 2", 3), "2 columns, but the first edge of the file has 3");
        assert_eq!(refused("1 2 3", 2), "3 columns, but the first edge of the file has 2");
        assert_eq!(refused("1 2 3 4 5", 3), "5 columns, but the first edge of the file has 3");
        for line in [",1,2", "1,,2", "1,2,", "1;,2", ",", "1 2 , , 3"] {
            assert_eq!(refused(line, 2), "a column is empty", "{line}");
        }
        assert_eq!(refused("/ 1 2", 2), "`/` is no vertex: expected a whole number");
        assert_eq!(refused("1 2 # why", 3), "`#` is no weight: expected a decimal number");
    }

    #[test]
    fn names_of_columns() {
        for line in ["source,target,weight", "a;b", "\"from\"\t\"to\"", "u , v\r"] {
            assert!(are_names(line.as_bytes()), "{line}");
        }
        for line in ["source target", "a", "1,2", "a,1", "1,a", ",a", ""] {
            assert!(!are_names(line.as_bytes()), "{line}");
        }
    }
}
