//! Matrix Market coordinate format: entry (i, j) of a square matrix is an edge from i to j.
//!
//! A banner, comments, the size, and a line for each entry (Boisvert, Pozo and Remington, The Matrix Market exchange
//! formats, NISTIR 5935, 1996). An entry of a symmetric matrix stands for both directions.

use std::ops::Range;

use super::lines::Lines;
use super::parse::{
    ParseResult, Tokens, parse_count, parse_integer_weight, parse_one_based_vertex, parse_real_weight, quoted,
};
use super::source::SourceFile;
use super::{DeclaredEdges, FormatReader, Metadata, TextReader, parse_lines};
use crate::edge_batcher::EdgeBatcher;
use crate::{Edge, Orientation, Result, WeightKind};

#[derive(Debug)]
pub(super) struct MatrixMarket {
    banner: Banner,
    vertices: u64,
    declared: DeclaredEdges,
    body_offset: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Banner {
    weights: WeightKind,
    is_symmetric: bool,
}

impl MatrixMarket {
    pub(super) fn open(source: &SourceFile) -> Result<Self> {
        let mut lines = source.lines(source.full_range(), 0)?;
        let Some((at, line)) = lines.next()? else {
            return Err(source.file_error("an empty file, which is no matrix".into()));
        };
        let banner = parse_banner(line).map_err(|what| source.line_error(at, what))?;
        while let Some((at, line)) = lines.next()? {
            if is_comment(line) {
                continue;
            }
            let (vertices, edges) = parse_size(line).map_err(|what| source.line_error(at, what))?;
            source.check_declared_size(at, &[(edges, 4, "entries")])?;
            let declared = DeclaredEdges { edges, unit: "entries", line: source.line_number(at)? };
            return Ok(Self { banner, vertices, declared, body_offset: lines.offset() });
        }
        Err(source.file_error("it ends before the line with its size".into()))
    }
}

impl FormatReader for MatrixMarket {
    fn metadata(&self) -> Metadata {
        Metadata {
            vertices: Some(self.vertices),
            first_id: 1,
            orientation: if self.banner.is_symmetric { Orientation::Undirected } else { Orientation::Directed },
            weights: Some(self.banner.weights),
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

impl TextReader for MatrixMarket {
    fn body_offset(&self) -> u64 {
        self.body_offset
    }

    fn read_lines(&self, source: &SourceFile, lines: Lines<'_>, _: u64, batcher: &mut EdgeBatcher<'_>) -> Result<()> {
        parse_lines(source, lines, Some(self.declared), batcher, |line| {
            parse_entry(line, self.vertices, self.banner.weights)
        })
    }
}

/// Comments and empty lines may be anywhere.
#[inline]
fn is_comment(line: &[u8]) -> bool {
    line.first() == Some(&b'%') || Tokens(line).next().is_none()
}

fn parse_banner(line: &[u8]) -> ParseResult<Banner> {
    let tokens: Vec<String> = Tokens(line).map(|token| String::from_utf8_lossy(token).to_lowercase()).collect();
    let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
    let ["%%matrixmarket", object, format, field, symmetry] = tokens[..] else {
        return Err("expected `%%MatrixMarket matrix coordinate` and a field and a symmetry".into());
    };
    let refuse = |token: &str, expected: &str| {
        Err(format!("{} matrices are not read: expected {expected}", quoted(token.as_bytes())))
    };
    if object != "matrix" {
        return Err(format!("{} is not read: expected `matrix`", quoted(object.as_bytes())));
    }
    if format != "coordinate" {
        return refuse(format, "`coordinate`");
    }
    let weights = match field {
        "pattern" => WeightKind::None,
        "integer" => WeightKind::Integer,
        "real" => WeightKind::Real,
        other => return refuse(other, "`real`, `integer` or `pattern`"),
    };
    match symmetry {
        "general" => Ok(Banner { weights, is_symmetric: false }),
        "symmetric" => Ok(Banner { weights, is_symmetric: true }),
        other => refuse(other, "`general` or `symmetric`"),
    }
}

/// Parses the numbers of vertices and entries.
fn parse_size(line: &[u8]) -> ParseResult<(u64, u64)> {
    let tokens: Vec<_> = Tokens(line).take(4).collect();
    let [rows, columns, entries] = tokens[..] else {
        return Err("expected the size of the matrix: rows, columns and entries".into());
    };
    let (rows, columns) = (parse_count(rows, "rows")?, parse_count(columns, "columns")?);
    if rows != columns {
        return Err(format!("{rows} rows and {columns} columns: the matrix of a graph is square"));
    }
    Ok((rows, parse_count(entries, "entries")?))
}

#[inline]
fn parse_entry(line: &[u8], vertices: u64, weights: WeightKind) -> ParseResult<Option<Edge>> {
    if is_comment(line) {
        return Ok(None);
    }
    let mut tokens = Tokens(line);
    let (Some(row), Some(column)) = (tokens.next(), tokens.next()) else {
        return Err("expected an entry: row, column and perhaps a value".into());
    };
    let mut edge = Edge::new(parse_one_based_vertex(row, vertices)?, parse_one_based_vertex(column, vertices)?);
    if weights != WeightKind::None {
        let Some(token) = tokens.next() else { return Err("the entry has no value".into()) };
        edge.weight =
            if weights == WeightKind::Integer { parse_integer_weight(token)? } else { parse_real_weight(token)? };
    }
    match tokens.next() {
        Some(token) => Err(format!("{} after the end of the entry", quoted(token))),
        None => Ok(Some(edge)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banners() {
        let read = |text: &str| parse_banner(format!("%%MatrixMarket {text}").as_bytes());
        assert_eq!(
            read("matrix coordinate pattern general"),
            Ok(Banner { weights: WeightKind::None, is_symmetric: false })
        );
        assert_eq!(
            read("MATRIX Coordinate REAL symmetric\r"),
            Ok(Banner { weights: WeightKind::Real, is_symmetric: true })
        );
        assert_eq!(
            read("matrix coordinate integer general"),
            Ok(Banner { weights: WeightKind::Integer, is_symmetric: false })
        );
        for (text, message) in [
            ("vector coordinate real general", "`vector` is not read: expected `matrix`"),
            ("matrix array real general", "`array` matrices are not read: expected `coordinate`"),
            (
                "matrix coordinate complex general",
                "`complex` matrices are not read: expected `real`, `integer` or `pattern`",
            ),
            (
                "matrix coordinate real skew-symmetric",
                "`skew-symmetric` matrices are not read: expected `general` or `symmetric`",
            ),
            (
                "matrix coordinate real hermitian",
                "`hermitian` matrices are not read: expected `general` or `symmetric`",
            ),
            ("matrix coordinate real", "expected `%%MatrixMarket matrix coordinate` and a field and a symmetry"),
        ] {
            assert_eq!(read(text), Err(message.to_string()));
        }
        assert!(parse_banner(b"1 2 3").is_err() && parse_banner(b"\xff\xfe").is_err());
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_size(b"5 5 8"), Ok((5, 8)));
        assert_eq!(parse_size(b"5 6 8"), Err("5 rows and 6 columns: the matrix of a graph is square".into()));
        assert_eq!(parse_size(b"5 5 x"), Err("`x` is no number of entries".into()));
        assert!(parse_size(b"5 5").is_err() && parse_size(b"5 5 5 5").is_err());
    }

    #[test]
    fn entries() {
        let edge = |from, to, weight| Ok(Some(Edge { from, to, weight }));
        assert_eq!(parse_entry(b"1 5", 5, WeightKind::None), edge(1, 5, 1.0));
        assert_eq!(parse_entry(b" 1\t5 7\r", 5, WeightKind::Integer), edge(1, 5, 7.0));
        assert_eq!(parse_entry(b"1 5 7.5", 5, WeightKind::Real), edge(1, 5, 7.5));
        assert_eq!(
            (parse_entry(b"% 1", 5, WeightKind::None), parse_entry(b"\r", 5, WeightKind::None)),
            (Ok(None), Ok(None))
        );
        assert_eq!(parse_entry(b"1 5 7", 5, WeightKind::None), Err("`7` after the end of the entry".into()));
        assert_eq!(parse_entry(b"1 5", 5, WeightKind::Real), Err("the entry has no value".into()));
        assert_eq!(
            parse_entry(b"1", 5, WeightKind::None),
            Err("expected an entry: row, column and perhaps a value".into())
        );
    }
}
