//! Arcs in the format of the ninth DIMACS challenge, on shortest paths (2006).
//!
//! `c` begins a comment, `p sp n m` announces vertices and arcs, `a u v w` is an arc with a whole weight.

use std::ops::Range;

use super::number::{Parsed, Words, count, counted_vertex, shown, whole_weight};
use super::source::Source;
use super::{Announced, Content, Facts, read_lines};
use crate::outlet::Outlet;
use crate::{Edge, Orientation, Result, Weights};

#[derive(Debug)]
pub(super) struct Dimacs {
    vertices: u64,
    arcs: Announced,
    body: u64,
}

impl Dimacs {
    pub(super) fn open(source: &Source) -> Result<Self> {
        let mut lines = source.lines(source.all(), 0)?;
        while let Some((at, line)) = lines.next()? {
            if is_comment(line) {
                continue;
            }
            let (vertices, edges) = problem(line).map_err(|what| source.wrong(at, what))?;
            source.check_room(at, &[(edges, 8, "arcs")])?;
            let arcs = Announced { edges, unit: "arcs", line: source.line(at)? };
            return Ok(Self { vertices, arcs, body: lines.at() });
        }
        Err(source.refused("it ends before a line `p sp`".into()))
    }
}

impl Content for Dimacs {
    fn facts(&self) -> Facts {
        Facts {
            vertices: Some(self.vertices),
            orientation: Orientation::Directed,
            weights: Some(Weights::Whole),
            announced: Some(self.arcs),
        }
    }

    fn read(&self, source: &Source, range: Range<u64>, outlet: &mut Outlet<'_>) -> Result<()> {
        read_lines(source, range, self.body, Some(self.arcs), outlet, |line| arc(line, self.vertices))
    }
}

#[inline]
fn is_comment(line: &[u8]) -> bool {
    line.first() == Some(&b'c') || Words(line).next().is_none()
}

/// Vertices and arcs.
fn problem(line: &[u8]) -> Parsed<(u64, u64)> {
    let words: Vec<_> = Words(line).take(5).collect();
    let [b"p", b"sp", vertices, arcs] = words[..] else {
        return Err("expected `p sp`, the number of vertices and that of arcs, before all arcs".into());
    };
    Ok((count(vertices, "vertices")?, count(arcs, "arcs")?))
}

#[inline]
fn arc(line: &[u8], vertices: u64) -> Parsed<Option<Edge>> {
    if is_comment(line) {
        return Ok(None);
    }
    let mut words = Words(line);
    match words.next() {
        Some(b"a") => {}
        Some(b"p") => return Err("a second line `p`".into()),
        other => return Err(format!("{} where a line begins: expected `a` or `c`", shown(other.unwrap_or_default()))),
    }
    let (Some(from), Some(to), Some(weight)) = (words.next(), words.next(), words.next()) else {
        return Err("expected an arc: `a`, from, to and weight".into());
    };
    let edge = Edge {
        from: counted_vertex(from, vertices)?,
        to: counted_vertex(to, vertices)?,
        weight: whole_weight(weight)?,
    };
    match words.next() {
        Some(word) => Err(format!("{} after the end of the arc", shown(word))),
        None => Ok(Some(edge)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems() {
        assert_eq!(problem(b"p sp 6 8\r"), Ok((6, 8)));
        assert_eq!(problem(b"p sp 6 -8"), Err("`-8` is no number of arcs".into()));
        for line in ["p max 6 8", "p sp 6", "p sp 6 8 9", "a 1 2 3", "x"] {
            assert!(problem(line.as_bytes()).is_err(), "{line}");
        }
    }

    #[test]
    fn arcs() {
        assert_eq!(arc(b"a 1 6 9", 6), Ok(Some(Edge { from: 0, to: 5, weight: 9.0 })));
        assert_eq!((arc(b"c a 1 6 9", 6), arc(b"", 6), arc(b"c", 6)), (Ok(None), Ok(None), Ok(None)));
        for (line, message) in [
            ("a 1 6", "expected an arc: `a`, from, to and weight"),
            ("a 1 7 9", "vertex 7, but there are 6"),
            ("a 1 2 3 4", "`4` after the end of the arc"),
            ("a 1 2 -3", "weight `-3` is negative"),
            ("p sp 6 8", "a second line `p`"),
            ("e 1 2", "`e` where a line begins: expected `a` or `c`"),
        ] {
            assert_eq!(arc(line.as_bytes(), 6), Err(message.to_string()));
        }
    }
}
