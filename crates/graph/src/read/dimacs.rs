//! The format of the 9th DIMACS implementation challenge, on shortest paths (2006).
//!
//! `c` begins a comment, `p sp n m` declares vertices and arcs, `a u v w` is an arc with an integer weight.

use std::ops::Range;

use super::lines::Lines;
use super::parse::{ParseResult, Tokens, parse_count, parse_integer_weight, parse_one_based_vertex, quoted};
use super::source::SourceFile;
use super::{DeclaredEdges, FormatReader, Metadata, TextReader, parse_lines};
use crate::edge_batcher::EdgeBatcher;
use crate::{Edge, Orientation, Result, WeightKind};

#[derive(Debug)]
pub(super) struct Dimacs {
    vertices: u64,
    declared: DeclaredEdges,
    body_offset: u64,
}

impl Dimacs {
    pub(super) fn open(source: &SourceFile) -> Result<Self> {
        let mut lines = source.lines(source.full_range(), 0)?;
        while let Some((at, line)) = lines.next()? {
            if is_comment(line) {
                continue;
            }
            let (vertices, edges) = parse_problem_line(line).map_err(|what| source.line_error(at, what))?;
            source.check_declared_size(at, &[(edges, 8, "arcs")])?;
            let declared = DeclaredEdges { edges, unit: "arcs", line: source.line_number(at)? };
            return Ok(Self { vertices, declared, body_offset: lines.offset() });
        }
        Err(source.file_error("it ends before a line `p sp`".into()))
    }
}

impl FormatReader for Dimacs {
    fn metadata(&self) -> Metadata {
        Metadata {
            vertices: Some(self.vertices),
            first_id: 1,
            orientation: Orientation::Directed,
            weights: Some(WeightKind::Integer),
            declared: Some(self.declared),
        }
    }

    fn read_edges(&self, source: &SourceFile, range: Range<u64>, batcher: &mut EdgeBatcher<'_>) -> Result<()> {
        self.read_lines(source, source.lines(range, self.body_offset)?, 0, batcher)
    }

    fn as_text(&self) -> Option<&dyn TextReader> {
        Some(self)
    }
}

impl TextReader for Dimacs {
    fn body_offset(&self) -> u64 {
        self.body_offset
    }

    fn read_lines(&self, source: &SourceFile, lines: Lines<'_>, _: u64, batcher: &mut EdgeBatcher<'_>) -> Result<()> {
        parse_lines(source, lines, Some(self.declared), batcher, |line| parse_arc_line(line, self.vertices))
    }
}

#[inline]
fn is_comment(line: &[u8]) -> bool {
    line.first() == Some(&b'c') || Tokens(line).next().is_none()
}

/// Parses the numbers of vertices and arcs.
fn parse_problem_line(line: &[u8]) -> ParseResult<(u64, u64)> {
    let tokens: Vec<_> = Tokens(line).take(5).collect();
    let [b"p", b"sp", vertices, arcs] = tokens[..] else {
        return Err("expected `p sp`, the number of vertices and that of arcs, before all arcs".into());
    };
    Ok((parse_count(vertices, "vertices")?, parse_count(arcs, "arcs")?))
}

#[inline]
fn parse_arc_line(line: &[u8], vertices: u64) -> ParseResult<Option<Edge>> {
    if is_comment(line) {
        return Ok(None);
    }
    let mut tokens = Tokens(line);
    match tokens.next() {
        Some(b"a") => {}
        Some(b"p") => return Err("a second line `p`".into()),
        other => return Err(format!("{} where a line begins: expected `a` or `c`", quoted(other.unwrap_or_default()))),
    }
    let (Some(from), Some(to), Some(weight)) = (tokens.next(), tokens.next(), tokens.next()) else {
        return Err("expected an arc: `a`, from, to and weight".into());
    };
    let edge = Edge {
        from: parse_one_based_vertex(from, vertices)?,
        to: parse_one_based_vertex(to, vertices)?,
        weight: parse_integer_weight(weight)?,
    };
    match tokens.next() {
        Some(token) => Err(format!("{} after the end of the arc", quoted(token))),
        None => Ok(Some(edge)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems() {
        assert_eq!(parse_problem_line(b"p sp 6 8\r"), Ok((6, 8)));
        assert_eq!(parse_problem_line(b"p sp 6 -8"), Err("`-8` is no number of arcs".into()));
        for line in ["p max 6 8", "p sp 6", "p sp 6 8 9", "a 1 2 3", "x"] {
            assert!(parse_problem_line(line.as_bytes()).is_err(), "{line}");
        }
    }

    #[test]
    fn arcs() {
        assert_eq!(parse_arc_line(b"a 1 6 9", 6), Ok(Some(Edge { from: 1, to: 6, weight: 9.0 })));
        assert_eq!(
            (parse_arc_line(b"c a 1 6 9", 6), parse_arc_line(b"", 6), parse_arc_line(b"c", 6)),
            (Ok(None), Ok(None), Ok(None))
        );
        for (line, message) in [
            ("a 1 6", "expected an arc: `a`, from, to and weight"),
            ("a 1 7 9", "vertex 7, but there are 6"),
            ("a 1 2 3 4", "`4` after the end of the arc"),
            ("a 1 2 -3", "weight `-3` is negative"),
            ("p sp 6 8", "a second line `p`"),
            ("e 1 2", "`e` where a line begins: expected `a` or `c`"),
        ] {
            assert_eq!(parse_arc_line(line.as_bytes(), 6), Err(message.to_string()));
        }
    }
}
