//! Edge lists: a line for each edge with source, target and optionally a weight.
//!
//! Columns are separated by blanks, tabs, commas or semicolons, and may be quoted. Lines that begin with `#`, `%` or `//` are
//! comments. All edges of a file have the same number of columns, unless some of more are chosen. A header line with the names of
//! columns may precede them.

use std::ops::Range;

use super::lines::Lines;
use super::parse::{ParseResult, is_blank, parse_real_weight, parse_vertex, skip_blanks};
use super::source::SourceFile;
use super::table::{EdgeColumns, Table};
use super::{FormatReader, Metadata, TextReader};
use crate::edge_batcher::EdgeBatcher;
use crate::{Edge, Orientation, Result, WeightKind};

/// The UTF-8 byte order mark that spreadsheets write.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// How edges are found in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// Two columns, or three with a weight.
    All(usize),
    /// Chosen columns.
    Chosen(Table),
}

#[derive(Debug)]
pub(super) struct Text {
    /// If there are edges.
    layout: Option<Layout>,
    /// The offset after a byte order mark and a header line.
    body_offset: u64,
}

impl Text {
    /// Finds out which columns there are, unless they were chosen.
    pub(super) fn open(source: &SourceFile, chosen: Option<EdgeColumns>) -> Result<Self> {
        let mut lines = source.lines(source.full_range(), 0)?;
        let mut body_offset = 0;
        // The number of columns of a header line, which is one only if an edge follows, and where it ends.
        let mut header: Option<(Vec<u8>, u64, u64)> = None;
        while let Some((at, mut line)) = lines.next()? {
            if at == 0 && line.starts_with(BYTE_ORDER_MARK) {
                line = &line[BYTE_ORDER_MARK.len()..];
                body_offset = BYTE_ORDER_MARK.len() as u64;
            }
            if is_comment(line) || skip_blanks(line).is_empty() {
                continue;
            }
            if let Some(columns) = chosen {
                let table = Table::new(columns, line);
                if header.is_none() && table.has_names(line) {
                    header = Some((line.to_vec(), at, lines.offset()));
                    body_offset = lines.offset();
                    continue;
                }
                table.parse_edge(line).map_err(|what| source.line_error(at, what))?;
                return Ok(Self { layout: Some(Layout::Chosen(table)), body_offset });
            }
            let count = count_columns(line).map_err(|what| source.line_error(at, what))?;
            if header.is_none() && has_column_names(line) {
                let line = line.to_vec();
                header = Some((line, at, lines.offset()));
                continue;
            }
            if let Some((names, header_at, end)) = header {
                // Words that are separated by blanks may be any sentence.
                let has_separator = names.iter().any(|byte| matches!(byte, b',' | b';' | b'\t'));
                if !has_separator && count_columns(&names) != Ok(count) {
                    let first = Columns::new(&names).next().ok().flatten().unwrap_or_default();
                    let what = parse_vertex(first).expect_err("it is a name");
                    return Err(source.line_error(header_at, what));
                }
                body_offset = end;
            }
            if !(2..=3).contains(&count) {
                let more = if count > 3 { "; choose them (`--columns`)" } else { "" };
                let what = format!("{}, but an edge has 2, or 3 with a weight{more}", ColumnCount(count));
                return Err(source.line_error(at, what));
            }
            return Ok(Self { layout: Some(Layout::All(count)), body_offset });
        }
        if let Some((_, at, _)) =
            header.filter(|(names, ..)| !names.iter().any(|byte| matches!(byte, b',' | b';' | b'\t')))
        {
            return Err(source.line_error(at, "names of columns, but no edges follow".into()));
        }
        Ok(Self { layout: None, body_offset })
    }
}

impl FormatReader for Text {
    fn metadata(&self) -> Metadata {
        let weights = self.layout.map(|layout| match layout {
            Layout::All(3) | Layout::Chosen(Table { columns: EdgeColumns { weight: Some(_), .. }, .. }) => {
                WeightKind::Real
            }
            _ => WeightKind::None,
        });
        Metadata { vertices: None, first_id: 0, orientation: Orientation::Directed, weights, declared: None }
    }

    fn read_edges(&self, source: &SourceFile, range: Range<u64>, batcher: &mut EdgeBatcher<'_>) -> Result<()> {
        self.read_lines(source, source.lines(range, self.body_offset)?, 0, batcher)
    }

    fn as_text(&self) -> Option<&dyn TextReader> {
        Some(self)
    }
}

impl TextReader for Text {
    fn body_offset(&self) -> u64 {
        self.body_offset
    }

    fn read_lines(
        &self,
        source: &SourceFile,
        mut lines: Lines<'_>,
        _: u64,
        batcher: &mut EdgeBatcher<'_>,
    ) -> Result<()> {
        let Some(layout) = self.layout else { return Ok(()) };
        loop {
            let (bytes, begin_before) = lines.buffered();
            let read = match layout {
                Layout::All(2) => read_plain_lines::<2>(bytes, begin_before, batcher),
                Layout::All(_) => read_plain_lines::<3>(bytes, begin_before, batcher),
                Layout::Chosen(_) => 0,
            };
            lines.skip_buffered(read);
            // One line that is not plain, or not yet complete in the buffer.
            let Some((at, line)) = lines.next()? else { return Ok(()) };
            let edge = match &layout {
                Layout::All(columns) => parse_edge(line, *columns),
                Layout::Chosen(_) if is_comment(line) || skip_blanks(line).is_empty() => Ok(None),
                Layout::Chosen(table) => table.parse_edge(line).map(Some),
            };
            match edge {
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

/// Whether a line has names only, at least two, as the names of columns.
fn has_column_names(line: &[u8]) -> bool {
    let mut fields = Columns::new(line);
    let mut names = 0;
    while let Ok(Some(token)) = fields.next() {
        if !token.first().is_some_and(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'\'')) {
            return false;
        }
        names += 1;
    }
    names >= 2
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
        if let Some(quoted) = self.rest.strip_prefix(b"\"") {
            let end = quoted.iter().position(|byte| *byte == b'"').ok_or("a quote does not end")?;
            let (token, rest) = (&quoted[..end], &quoted[end + 1..]);
            if rest.first().is_some_and(|byte| !is_between(*byte)) {
                return Err("a column goes on after its quote".into());
            }
            self.skip_separator(rest);
            return Ok(Some(token));
        }
        let length = self.rest.iter().position(|byte| is_between(*byte)).unwrap_or(self.rest.len());
        if length == 0 {
            return if self.rest.is_empty() && !self.expects_column {
                Ok(None)
            } else {
                Err("a column is empty".into())
            };
        }
        let (token, rest) = self.rest.split_at(length);
        self.skip_separator(rest);
        Ok(Some(token))
    }

    #[inline]
    fn skip_separator(&mut self, rest: &'a [u8]) {
        self.rest = skip_blanks(rest);
        self.expects_column = self.rest.first().is_some_and(|byte| is_separator(*byte));
        if self.expects_column {
            self.rest = skip_blanks(&self.rest[1..]);
        }
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
    fn quoted_columns() {
        for line in ["\"1\",\"2\"", " \"1\" , 2", "1\t\"2\"\r"] {
            assert_eq!(parse_edge(line.as_bytes(), 2), weighted(1, 2, 1.0), "{line}");
        }
        let columns = |line: &'static str| count_columns(line.as_bytes());
        assert_eq!((columns("\"a, b\",\"\";c"), columns("\"a")), (Ok(3), Err("a quote does not end".into())));
        assert_eq!(columns("\"a\"b,c"), Err("a column goes on after its quote".into()));
    }

    #[test]
    fn names_of_columns() {
        for line in ["source,target,weight", "a;b", "\"from\"\t\"to\"", "u , v\r", "source target"] {
            assert!(has_column_names(line.as_bytes()), "{line}");
        }
        for line in ["a", "1,2", "a,1", "1,a", ",a", ""] {
            assert!(!has_column_names(line.as_bytes()), "{line}");
        }
    }
}
