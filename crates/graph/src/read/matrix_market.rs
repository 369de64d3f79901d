//! Matrix Market coordinates: entry (i, j) of a square matrix is an edge from i to j.
//!
//! A banner, comments, the size, and a line for each entry (Boisvert, Pozo and Remington, The Matrix Market exchange
//! formats, NISTIR 5935, 1996). An entry of a symmetric matrix stands for both directions.

use std::ops::Range;

use super::number::{Parsed, Words, count, counted_vertex, shown, weight, whole_weight};
use super::source::Source;
use super::{Announced, Content, Facts, read_lines};
use crate::outlet::Outlet;
use crate::{Edge, Orientation, Result, Weights};

#[derive(Debug)]
pub(super) struct MatrixMarket {
    banner: Banner,
    vertices: u64,
    entries: Announced,
    body: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Banner {
    weights: Weights,
    is_symmetric: bool,
}

impl MatrixMarket {
    pub(super) fn open(source: &Source) -> Result<Self> {
        let mut lines = source.lines(source.all(), 0)?;
        let Some((at, line)) = lines.next()? else {
            return Err(source.refused("an empty file, which is no matrix".into()));
        };
        let banner = banner(line).map_err(|what| source.wrong(at, what))?;
        while let Some((at, line)) = lines.next()? {
            if is_comment(line) {
                continue;
            }
            let (vertices, edges) = size(line).map_err(|what| source.wrong(at, what))?;
            source.check_room(at, &[(edges, 4, "entries")])?;
            let entries = Announced { edges, unit: "entries", line: source.line(at)? };
            return Ok(Self { banner, vertices, entries, body: lines.at() });
        }
        Err(source.refused("it ends before the line with its size".into()))
    }
}

impl Content for MatrixMarket {
    fn facts(&self) -> Facts {
        Facts {
            vertices: Some(self.vertices),
            orientation: if self.banner.is_symmetric { Orientation::Undirected } else { Orientation::Directed },
            weights: Some(self.banner.weights),
            announced: Some(self.entries),
        }
    }

    fn read(&self, source: &Source, range: Range<u64>, outlet: &mut Outlet<'_>) -> Result<()> {
        read_lines(source, range, self.body, Some(self.entries), outlet, |line| {
            entry(line, self.vertices, self.banner.weights)
        })
    }
}

/// Comments may stand everywhere, as may empty lines.
#[inline]
fn is_comment(line: &[u8]) -> bool {
    line.first() == Some(&b'%') || Words(line).next().is_none()
}

fn banner(line: &[u8]) -> Parsed<Banner> {
    let words: Vec<String> = Words(line).map(|word| String::from_utf8_lossy(word).to_lowercase()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ["%%matrixmarket", object, format, field, symmetry] = words[..] else {
        return Err("expected `%%MatrixMarket matrix coordinate ...` with two words more".into());
    };
    let refuse = |word: &str, expected: &str| {
        Err(format!("{} matrices are not read: expected {expected}", shown(word.as_bytes())))
    };
    if object != "matrix" {
        return Err(format!("{} is not read: expected `matrix`", shown(object.as_bytes())));
    }
    if format != "coordinate" {
        return refuse(format, "`coordinate`");
    }
    let weights = match field {
        "pattern" => Weights::None,
        "integer" => Weights::Whole,
        "real" => Weights::Real,
        other => return refuse(other, "`real`, `integer` or `pattern`"),
    };
    match symmetry {
        "general" => Ok(Banner { weights, is_symmetric: false }),
        "symmetric" => Ok(Banner { weights, is_symmetric: true }),
        other => refuse(other, "`general` or `symmetric`"),
    }
}

/// Vertices and entries.
fn size(line: &[u8]) -> Parsed<(u64, u64)> {
    let words: Vec<_> = Words(line).take(4).collect();
    let [rows, columns, entries] = words[..] else {
        return Err("expected the size of the matrix: rows, columns and entries".into());
    };
    let (rows, columns) = (count(rows, "rows")?, count(columns, "columns")?);
    if rows != columns {
        return Err(format!("{rows} rows and {columns} columns: the matrix of a graph is square"));
    }
    Ok((rows, count(entries, "entries")?))
}

#[inline]
fn entry(line: &[u8], vertices: u64, weights: Weights) -> Parsed<Option<Edge>> {
    if is_comment(line) {
        return Ok(None);
    }
    let mut words = Words(line);
    let (Some(row), Some(column)) = (words.next(), words.next()) else {
        return Err("expected an entry: row, column and perhaps a value".into());
    };
    let mut edge = Edge::new(counted_vertex(row, vertices)?, counted_vertex(column, vertices)?);
    if weights != Weights::None {
        let Some(word) = words.next() else { return Err("the entry has no value".into()) };
        edge.weight = if weights == Weights::Whole { whole_weight(word)? } else { weight(word)? };
    }
    match words.next() {
        Some(word) => Err(format!("{} after the end of the entry", shown(word))),
        None => Ok(Some(edge)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banners() {
        let read = |text: &str| banner(format!("%%MatrixMarket {text}").as_bytes());
        assert_eq!(
            read("matrix coordinate pattern general"),
            Ok(Banner { weights: Weights::None, is_symmetric: false })
        );
        assert_eq!(
            read("MATRIX Coordinate REAL symmetric\r"),
            Ok(Banner { weights: Weights::Real, is_symmetric: true })
        );
        assert_eq!(
            read("matrix coordinate integer general"),
            Ok(Banner { weights: Weights::Whole, is_symmetric: false })
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
            ("matrix coordinate real", "expected `%%MatrixMarket matrix coordinate ...` with two words more"),
        ] {
            assert_eq!(read(text), Err(message.to_string()));
        }
        assert!(banner(b"1 2 3").is_err() && banner(b"\xff\xfe").is_err());
    }

    #[test]
    fn sizes() {
        assert_eq!(size(b"5 5 8"), Ok((5, 8)));
        assert_eq!(size(b"5 6 8"), Err("5 rows and 6 columns: the matrix of a graph is square".into()));
        assert_eq!(size(b"5 5 x"), Err("`x` is no number of entries".into()));
        assert!(size(b"5 5").is_err() && size(b"5 5 5 5").is_err());
    }

    #[test]
    fn entries() {
        let edge = |from, to, weight| Ok(Some(Edge { from, to, weight }));
        assert_eq!(entry(b"1 5", 5, Weights::None), edge(0, 4, 1.0));
        assert_eq!(entry(b" 1\t5 7\r", 5, Weights::Whole), edge(0, 4, 7.0));
        assert_eq!(entry(b"1 5 7.5", 5, Weights::Real), edge(0, 4, 7.5));
        assert_eq!((entry(b"% 1", 5, Weights::None), entry(b"\r", 5, Weights::None)), (Ok(None), Ok(None)));
        assert_eq!(entry(b"1 5 7", 5, Weights::None), Err("`7` after the end of the entry".into()));
        assert_eq!(entry(b"1 5", 5, Weights::Real), Err("the entry has no value".into()));
        assert_eq!(entry(b"1", 5, Weights::None), Err("expected an entry: row, column and perhaps a value".into()));
    }
}
