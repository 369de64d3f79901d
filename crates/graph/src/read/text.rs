//! Edge lists: a line for each edge with source, target and optionally a weight.
//!
//! Columns are separated by blanks, tabs, commas or semicolons. Lines that begin with `#`, `%` or `//` are comments.
//! All edges of a file have the same number of columns. A header line with the names of columns may precede them, if
//! these are not separated by blanks.

use std::ops::Range;

use super::parse::{ParseResult, is_blank, parse_real_weight, parse_vertex, skip_blanks};
use super::source::SourceFile;
use super::{FormatReader, Metadata};
use crate::edge_batcher::EdgeBatcher;
use crate::{Edge, Orientation, Result, WeightKind};

/// The UTF-8 byte order mark that spreadsheets write.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

#[derive(Debug)]
pub(super) struct Text {
    /// The number of columns, if there are edges.
    columns: Option<usize>,
    /// The offset after a byte order mark and a header line.
    body_offset: u64,
}

impl Text {
    pub(super) fn open(source: &SourceFile) -> Result<Self> {
        let mut lines = source.lines(source.full_range(), 0)?;
        let (mut body_offset, mut has_header) = (0, false);
        while let Some((at, mut line)) = lines.next()? {
            if at == 0 && line.starts_with(BYTE_ORDER_MARK) {
                line = &line[BYTE_ORDER_MARK.len()..];
                body_offset = BYTE_ORDER_MARK.len() as u64;
            }
            if is_comment(line) || skip_blanks(line).is_empty() {
                continue;
            }
            if !has_header && is_column_header(line) {
                has_header = true;
                body_offset = lines.offset();
                continue;
            }
            let columns = match count_columns(line) {
                Ok(columns @ 2..=3) => columns,
                Ok(columns) => {
                    return Err(source
                        .line_error(at, format!("{}, but an edge has 2, or 3 with a weight", ColumnCount(columns))));
                }
                Err(what) => return Err(source.line_error(at, what)),
            };
            return Ok(Self { columns: Some(columns), body_offset });
        }
        Ok(Self { columns: None, body_offset })
    }
}

impl FormatReader for Text {
    fn metadata(&self) -> Metadata {
        let weights = self.columns.map(|columns| if columns == 3 { WeightKind::Real } else { WeightKind::None });
        Metadata { vertices: None, orientation: Orientation::Directed, weights, declared: None }
    }

    fn read_edges(&self, source: &SourceFile, range: Range<u64>, batcher: &mut EdgeBatcher<'_>) -> Result<()> {
        let Some(columns) = self.columns else { return Ok(()) };
        let mut lines = source.lines(range, self.body_offset)?;
        loop {
            let (bytes, begin_before) = lines.buffered();
            let read = match columns {
                2 => read_plain_lines::<2>(bytes, begin_before, batcher),
                _ => read_plain_lines::<3>(bytes, begin_before, batcher),
            };
            lines.skip_buffered(read);
            // One line that is not plain, or not yet complete in the buffer.
            let Some((at, line)) = lines.next()? else { return Ok(()) };
            match parse_edge(line, columns) {
                Ok(Some(edge)) => batcher.push(edge),
                Ok(None) => {}
                Err(what) => return Err(source.line_error(at, what)),
            }
        }
    }
}

/// Reads lines as programs write them: two vertices, and a weight if there are three columns, with one separator between them.
/// Ends at the first other line, or where lines may no longer begin. Returns the bytes that were read.
#[inline]
fn read_plain_lines<const COLUMNS: usize>(bytes: &[u8], begin_before: usize, batcher: &mut EdgeBatcher<'_>) -> usize {
    let mut begin = 0;
    while begin < begin_before {
        let mut rest = &bytes[begin..];
        let mut edge = Edge::new(0, 0);
        let Some(from) = plain_vertex(&mut rest) else { return begin };
        if !plain_separator(&mut rest) {
            return begin;
        }
        let Some(to) = plain_vertex(&mut rest) else { return begin };
        (edge.from, edge.to) = (from, to);
        if COLUMNS == 3 {
            if !plain_separator(&mut rest) {
                return begin;
            }
            let is_in_token = |byte: &u8| !is_blank(*byte) && !is_separator(*byte) && *byte != b'\n';
            let length = rest.iter().take_while(|byte| is_in_token(byte)).count();
            let (token, after) = rest.split_at(length);
            let Ok(weight) = parse_real_weight(token) else { return begin };
            (edge.weight, rest) = (weight, after);
        }
        rest = match rest {
            [b'\n', rest @ ..] | [b'\r', b'\n', rest @ ..] => rest,
            _ => return begin,
        };
        batcher.push(edge);
        begin = bytes.len() - rest.len();
    }
    begin
}

/// A vertex of up to 19 digits: all of these are below 2^64.
#[inline(always)]
fn plain_vertex(rest: &mut &[u8]) -> Option<u64> {
    let (mut number, mut length) = (0_u64, 0);
    while let Some(digit @ 0..=9) = rest.get(length).map(|byte| byte.wrapping_sub(b'0')) {
        number = number.wrapping_mul(10).wrapping_add(u64::from(digit));
        length += 1;
    }
    *rest = &rest[length..];
    (1..=19).contains(&length).then_some(number)
}

#[inline(always)]
fn plain_separator(rest: &mut &[u8]) -> bool {
    let [b' ' | b'\t' | b',' | b';', after @ ..] = rest else { return false };
    *rest = after;
    true
}

/// Parses an edge of 2 or 3 columns; `None` if the line is empty or a comment.
#[inline]
fn parse_edge(line: &[u8], columns: usize) -> ParseResult<Option<Edge>> {
    if is_comment(line) {
        return Ok(None);
    }
    let mut fields = Columns::new(line);
    let Some(token) = fields.next()? else { return Ok(None) };
    let from = parse_vertex(token)?;
    let wrong_count =
        || Err(format!("{}, but the first edge of the file has {columns}", ColumnCount(count_columns(line)?)));
    let Some(token) = fields.next()? else { return wrong_count() };
    let mut edge = Edge::new(from, parse_vertex(token)?);
    if columns == 3 {
        let Some(token) = fields.next()? else { return wrong_count() };
        edge.weight = parse_real_weight(token)?;
    }
    if fields.next()?.is_some() { wrong_count() } else { Ok(Some(edge)) }
}

/// A number of columns, for messages.
struct ColumnCount(usize);

impl std::fmt::Display for ColumnCount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} column{}", self.0, if self.0 == 1 { "" } else { "s" })
    }
}

#[inline]
fn is_comment(line: &[u8]) -> bool {
    matches!(skip_blanks(line), [b'#' | b'%', ..] | [b'/', b'/', ..])
}

/// Whether a line is a header with names of columns. Words separated by blanks only might be any sentence.
fn is_column_header(line: &[u8]) -> bool {
    let mut fields = Columns::new(line);
    let mut names = 0;
    while let Ok(Some(token)) = fields.next() {
        if !matches!(token[0], b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'"' | b'\'') {
            return false;
        }
        names += 1;
    }
    names >= 2 && line.iter().any(|byte| matches!(byte, b',' | b';' | b'\t'))
}

fn count_columns(line: &[u8]) -> ParseResult<usize> {
    let mut fields = Columns::new(line);
    let mut columns = 0;
    while fields.next()?.is_some() {
        columns += 1;
    }
    Ok(columns)
}

/// The columns of a line, separated by blanks, or by one other separator with or without blanks.
struct Columns<'a> {
    rest: &'a [u8],
    /// A separator was read, so another column must follow.
    expects_column: bool,
}

impl<'a> Columns<'a> {
    #[inline]
    fn new(line: &'a [u8]) -> Self {
        Self { rest: skip_blanks(line), expects_column: false }
    }

    #[inline]
    fn next(&mut self) -> ParseResult<Option<&'a [u8]>> {
        let is_between = |byte: u8| is_blank(byte) || is_separator(byte);
        let length = self.rest.iter().position(|byte| is_between(*byte)).unwrap_or(self.rest.len());
        if length == 0 {
            return if self.rest.is_empty() && !self.expects_column {
                Ok(None)
            } else {
                Err("a column is empty".into())
            };
        }
        let (token, rest) = self.rest.split_at(length);
        self.rest = skip_blanks(rest);
        self.expects_column = self.rest.first().is_some_and(|byte| is_separator(*byte));
        if self.expects_column {
            self.rest = skip_blanks(&self.rest[1..]);
        }
        Ok(Some(token))
    }
}

#[inline]
fn is_separator(byte: u8) -> bool {
    matches!(byte, b',' | b';')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weighted(from: u64, to: u64, weight: f64) -> ParseResult<Option<Edge>> {
        Ok(Some(Edge { from, to, weight }))
    }

    #[test]
    fn edges_with_all_separators() {
        for line in ["1 2", "1\t2", "1,2", "1;2", "  1 ,\t2\r", "1 2 ", "0001 02"] {
            assert_eq!(parse_edge(line.as_bytes(), 2), weighted(1, 2, 1.0), "{line:?}");
        }
        for line in ["1 2 0.5", "1, 2; 5e-1", "1\t2\t.5\r"] {
            assert_eq!(parse_edge(line.as_bytes(), 3), weighted(1, 2, 0.5), "{line:?}");
        }
        assert_eq!(parse_edge(b"8589934592 18446744073709551614", 2), weighted(1 << 33, u64::MAX - 1, 1.0));
    }

    /// Lines that are read at once are those that are also edges one by one; others are left to `parse_edge`.
    #[test]
    fn plain_lines_are_read_as_others() {
        let plain = |text: &str, columns: usize| {
            let mut edges = Vec::new();
            let mut sink = |some: &[Edge]| edges.extend_from_slice(some);
            let mut batcher = EdgeBatcher::new(&mut sink);
            let read = match columns {
                2 => read_plain_lines::<2>(text.as_bytes(), text.len(), &mut batcher),
                _ => read_plain_lines::<3>(text.as_bytes(), text.len(), &mut batcher),
            };
            batcher.finish();
            (read, edges)
        };
        for (line, columns) in
            [("1 2", 2), ("1\t9999999999999999999\r", 2), ("0001,02", 2), ("1;2", 2), ("1 2 0.5", 3), ("3,4,1e-3\r", 3)]
        {
            let text = format!("{line}\n");
            let (read, edges) = plain(&text, columns);
            assert_eq!(read, text.len(), "{line:?}");
            assert_eq!(Ok(Some(edges[0])), parse_edge(line.as_bytes(), columns), "{line:?}");
        }
        for (line, columns) in [
            ("1 2", 3),
            ("1 2 3", 2),
            ("1  2", 2),
            ("1 2 ", 2),
            ("# 1", 2),
            ("", 2),
            ("18446744073709551614 2", 2),
            ("1 -2", 2),
            ("1,,2", 2),
            ("1 2 x", 3),
            ("1 2 -1", 3),
            ("1 2 3 4", 3),
        ] {
            assert_eq!(
                plain(&format!("7 8{}\n{line}\n", if columns == 3 { " 1" } else { "" }), columns).1.len(),
                1,
                "{line:?}"
            );
        }
        // Without its end a line may go on.
        assert_eq!(plain("1 2\n3 4", 2).0, 4);
    }

    #[test]
    fn lines_without_edges() {
        for line in ["", " ", "\r", "\t\t", "#", "# 1 2", "%,,", "// a", "  # a", "//"] {
            assert_eq!(parse_edge(line.as_bytes(), 2), Ok(None), "{line:?}");
        }
    }

    #[test]
    fn lines_that_are_refused() {
        let refused = |line: &str, columns| parse_edge(line.as_bytes(), columns).expect_err(line);
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
            assert!(is_column_header(line.as_bytes()), "{line}");
        }
        for line in ["source target", "a", "1,2", "a,1", "1,a", ",a", ""] {
            assert!(!is_column_header(line.as_bytes()), "{line}");
        }
    }
}
