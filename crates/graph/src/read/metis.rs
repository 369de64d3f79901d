//! METIS graph format: line i lists the neighbors of vertex i, and each edge is listed at both endpoints.
//!
//! The header is `n m [fmt [ncon]]`: vertices, edges, and three digits that tell whether vertices have sizes, vertices
//! have `ncon` weights, edges have weights (Karypis, METIS manual 5.1.0, section 4.1). Sizes and weights of vertices
//! are skipped.
//!
//! The vertex of a line is its line number. A part counts the lines before its own, which takes a pass over these bytes
//! but is much faster than parsing them.

use std::ops::Range;

use super::lines::{Lines, bytes_of_tokens};
use super::parse::{ParseResult, Tokens, parse_count, parse_integer_weight, parse_one_based_vertex, quoted};
use super::source::SourceFile;
use super::{DeclaredEdges, FormatReader, Metadata, TextReader};
use crate::edge_batcher::EdgeBatcher;
use crate::{Edge, Error, Orientation, Result, WeightKind};

#[derive(Debug)]
pub(super) struct Metis {
    header: MetisHeader,
    declared: DeclaredEdges,
    body_offset: u64,
}

#[derive(Debug, PartialEq, Eq)]
struct MetisHeader {
    vertices: u64,
    edges: u64,
    /// The number of fields before the neighbors of each vertex.
    vertex_fields: u64,
    has_weights: bool,
}

impl Metis {
    pub(super) fn open(source: &SourceFile) -> Result<Self> {
        let mut lines = source.lines(source.full_range(), 0)?;
        while let Some((at, line)) = lines.next()? {
            if is_comment(line) || Tokens(line).next().is_none() {
                continue;
            }
            let header = parse_header(line).map_err(|what| source.line_error(at, what))?;
            let Some(edges) = header.edges.checked_mul(2) else {
                return Err(source.line_error(at, format!("{} edges are too many", header.edges)));
            };
            // A newline for each vertex, and a digit and a separator for each neighbor.
            source.check_declared_size(at, &[(header.vertices, 1, "vertices"), (edges, 2, "neighbors")])?;
            let declared = DeclaredEdges { edges, unit: "neighbors, two an edge,", line: source.line_number(at)? };
            return Ok(Self { header, declared, body_offset: lines.offset() });
        }
        Err(source.file_error("it ends before a line with the numbers of vertices and edges".into()))
    }

    /// The vertex of the first line from an offset on.
    fn vertex_at(&self, source: &SourceFile, start: u64) -> Result<u64> {
        let mut vertex = 0;
        if start > self.body_offset {
            let before = source.lines(self.body_offset..start, self.body_offset)?;
            let mut before = before.with_max_line_bytes(self.max_line_bytes());
            while let Some((_, line)) = before.next()? {
                vertex += u64::from(!is_comment(line));
            }
        }
        Ok(vertex)
    }
}

impl FormatReader for Metis {
    fn metadata(&self) -> Metadata {
        Metadata {
            vertices: Some(self.header.vertices),
            first_id: 1,
            orientation: Orientation::Symmetric,
            weights: Some(if self.header.has_weights { WeightKind::Integer } else { WeightKind::None }),
            declared: Some(self.declared),
        }
    }

    fn read_edges(&self, source: &SourceFile, range: Range<u64>, batcher: &mut EdgeBatcher<'_>) -> Result<()> {
        let is_last = range.end == source.full_range().end;
        let first = self.vertex_at(source, range.start)?;
        let vertices = self.read_rows(source, source.lines(range, self.body_offset)?, first, batcher)?;
        if is_last { self.check_rows(source, vertices) } else { Ok(()) }
    }

    fn as_text(&self) -> Option<&dyn TextReader> {
        Some(self)
    }
}

impl Metis {
    /// Reads the lines of vertices from `first` on, counted from 0. Returns the vertex after the last one.
    fn read_rows(
        &self,
        source: &SourceFile,
        lines: Lines<'_>,
        first: u64,
        batcher: &mut EdgeBatcher<'_>,
    ) -> Result<u64> {
        let (mut vertex, before) = (first, batcher.num_edges());
        let mut lines = lines.with_max_line_bytes(self.max_line_bytes());
        while let Some((at, line)) = lines.next()? {
            if is_comment(line) {
                continue;
            }
            parse_adjacency(line, vertex, &self.header, |edge| batcher.push(edge))
                .map_err(|what| source.line_error(at, what))?;
            self.declared.check_limit(source, batcher.num_edges() - before)?;
            vertex += 1;
        }
        Ok(vertex)
    }
}

impl TextReader for Metis {
    fn body_offset(&self) -> u64 {
        self.body_offset
    }

    /// One line may have all tokens.
    fn max_line_bytes(&self) -> usize {
        let each = 1 + u64::from(self.header.has_weights);
        bytes_of_tokens(self.declared.edges.saturating_mul(each).saturating_add(self.header.vertex_fields))
    }

    fn read_lines(
        &self,
        source: &SourceFile,
        lines: Lines<'_>,
        first_row: u64,
        batcher: &mut EdgeBatcher<'_>,
    ) -> Result<()> {
        self.read_rows(source, lines, first_row, batcher).map(|_| ())
    }

    fn num_rows(&self, text: &[u8]) -> u64 {
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        text.split(|byte| *byte == b'\n').filter(|line| !is_comment(line)).count() as u64
    }

    fn check_rows(&self, source: &SourceFile, rows: u64) -> Result<()> {
        if rows < self.header.vertices {
            let what = format!("{} vertices are declared here, but there are lines for {rows}", self.header.vertices);
            return Err(Error::Line { file: source.file().to_owned(), line: self.declared.line, what });
        }
        Ok(())
    }
}

/// An empty line is not a comment but an isolated vertex.
#[inline]
fn is_comment(line: &[u8]) -> bool {
    line.first() == Some(&b'%')
}

fn parse_header(line: &[u8]) -> ParseResult<MetisHeader> {
    let tokens: Vec<_> = Tokens(line).take(5).collect();
    let (vertices, edges, format, constraints) = match tokens[..] {
        [vertices, edges] => (vertices, edges, &b"0"[..], None),
        [vertices, edges, format] => (vertices, edges, format, None),
        [vertices, edges, format, constraints] => (vertices, edges, format, Some(constraints)),
        _ => return Err("expected the numbers of vertices and edges, and optionally a format".into()),
    };
    let (vertices, edges) = (parse_count(vertices, "vertices")?, parse_count(edges, "edges")?);
    if format.len() > 3 || !format.iter().all(|digit| matches!(digit, b'0' | b'1')) {
        return Err(format!("{} is no format: expected three digits 0 or 1", quoted(format)));
    }
    // Leading zeros may be omitted.
    let has = |position: usize| format.len() > position && format[format.len() - 1 - position] == b'1';
    let (has_weights, has_vertex_weights, has_sizes) = (has(0), has(1), has(2));
    let constraints = match constraints {
        Some(token) => parse_count(token, "weights of a vertex")?,
        None => u64::from(has_vertex_weights),
    };
    if has_vertex_weights != (constraints > 0) {
        let format = quoted(format);
        return Err(format!("vertices have {constraints} weights each, but the format is {format}"));
    }
    Ok(MetisHeader { vertices, edges, vertex_fields: constraints.saturating_add(u64::from(has_sizes)), has_weights })
}

/// Parses the edges of a vertex, counted from 0.
fn parse_adjacency(line: &[u8], vertex: u64, header: &MetisHeader, mut emit: impl FnMut(Edge)) -> ParseResult<()> {
    let mut tokens = Tokens(line);
    if vertex >= header.vertices {
        // Trailing empty lines are allowed.
        return match tokens.next() {
            Some(_) => Err(format!("a line for vertex {}, but there are {}", vertex + 1, header.vertices)),
            None => Ok(()),
        };
    }
    for field in 0..header.vertex_fields {
        let Some(token) = tokens.next() else {
            let expected = header.vertex_fields;
            return Err(format!("the line begins with {field} weights or sizes of the vertex, expected {expected}"));
        };
        parse_count(token, "").map_err(|_| format!("{} is no weight or size of a vertex", quoted(token)))?;
    }
    while let Some(token) = tokens.next() {
        let mut edge = Edge::new(vertex + 1, parse_one_based_vertex(token, header.vertices)?);
        if header.has_weights {
            let Some(token) = tokens.next() else { return Err("the last neighbor has no weight".into()) };
            edge.weight = parse_integer_weight(token)?;
        }
        emit(edge);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers() {
        let read = |line: &str| parse_header(line.as_bytes());
        let expected =
            |vertex_fields, has_weights| Ok(MetisHeader { vertices: 7, edges: 11, vertex_fields, has_weights });
        for (line, vertex_fields, has_weights) in [
            ("7 11", 0, false),
            ("7 11 0\r", 0, false),
            ("7 11 1", 0, true),
            ("7 11 001", 0, true),
            ("7 11 10", 1, false),
            ("7 11 010 3", 3, false),
            ("7 11 11", 1, true),
            ("7 11 100", 1, false),
            ("7 11 111 2", 3, true),
            ("7 11 1 0", 0, true),
        ] {
            assert_eq!(read(line), expected(vertex_fields, has_weights), "{line}");
        }
        for (line, message) in [
            ("7", "expected the numbers of vertices and edges, and optionally a format"),
            ("7 11 0 0 0", "expected the numbers of vertices and edges, and optionally a format"),
            ("x 11", "`x` is no number of vertices"),
            ("7 11 2", "`2` is no format: expected three digits 0 or 1"),
            ("7 11 0001", "`0001` is no format: expected three digits 0 or 1"),
            ("7 11 1 2", "vertices have 2 weights each, but the format is `1`"),
            ("7 11 10 0", "vertices have 0 weights each, but the format is `10`"),
        ] {
            assert_eq!(read(line), Err(message.to_string()));
        }
    }

    #[test]
    fn lines_of_vertices() {
        let read = |line: &str, vertex, format: &str| {
            let header = parse_header(format!("5 9 {format}").as_bytes())?;
            let mut edges = Vec::new();
            parse_adjacency(line.as_bytes(), vertex, &header, |edge| edges.push((edge.from, edge.to, edge.weight)))?;
            Ok::<_, String>(edges)
        };
        assert_eq!(read("2 5\r", 0, ""), Ok(vec![(1, 2, 1.0), (1, 5, 1.0)]));
        assert_eq!(read("2 9 5 8", 3, "1"), Ok(vec![(4, 2, 9.0), (4, 5, 8.0)]));
        assert_eq!(read("100 200 300 2 9", 3, "111 2"), Ok(vec![(4, 2, 9.0)]));
        assert_eq!((read("", 4, ""), read(" ", 5, "10")), (Ok(vec![]), Ok(vec![])));
        for (line, vertex, format, message) in [
            ("1", 5, "", "a line for vertex 6, but there are 5"),
            ("0", 4, "", "vertex 0, but vertices of this format are counted from 1"),
            ("6", 4, "", "vertex 6, but there are 5"),
            ("2 1 3", 4, "1", "the last neighbor has no weight"),
            ("", 4, "10", "the line begins with 0 weights or sizes of the vertex, expected 1"),
            ("1 2", 4, "110 3", "the line begins with 2 weights or sizes of the vertex, expected 4"),
            ("x 2", 4, "10", "`x` is no weight or size of a vertex"),
        ] {
            assert_eq!(read(line, vertex, format), Err(message.to_string()), "{line}");
        }
    }
}
