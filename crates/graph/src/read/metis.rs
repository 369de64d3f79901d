//! METIS adjacency: line i lists the neighbours of vertex i, and each edge stands in the lines of both its ends.
//!
//! The head is `n m [fmt [ncon]]`: vertices, edges, and three digits that say whether vertices have sizes, vertices
//! have `ncon` weights, edges have weights (Karypis, METIS manual 5.1.0, section 4.1). What vertices have is skipped.
//!
//! Which vertex a line is about only the lines before it say. A part counts those, which takes a pass over all bytes
//! before its own, but is much faster than to read them as numbers.

use std::ops::Range;

use super::number::{Parsed, Words, count, counted_vertex, shown, whole_weight};
use super::source::Source;
use super::{Announced, Content, Facts};
use crate::outlet::Outlet;
use crate::{Edge, Error, Orientation, Result, Weights};

#[derive(Debug)]
pub(super) struct Metis {
    head: Head,
    neighbours: Announced,
    body: u64,
}

#[derive(Debug, PartialEq, Eq)]
struct Head {
    vertices: u64,
    edges: u64,
    /// Numbers before the neighbours of each vertex.
    skipped: u64,
    has_weights: bool,
}

impl Metis {
    pub(super) fn open(source: &Source) -> Result<Self> {
        let mut lines = source.lines(source.all(), 0)?;
        while let Some((at, line)) = lines.next()? {
            if is_comment(line) || Words(line).next().is_none() {
                continue;
            }
            let head = head(line).map_err(|what| source.wrong(at, what))?;
            let Some(edges) = head.edges.checked_mul(2) else {
                return Err(source.wrong(at, format!("{} edges are too many", head.edges)));
            };
            // A line for each vertex, and a digit and something before or behind it for each neighbour.
            source.check_room(at, &[(head.vertices, 1, "vertices"), (edges, 2, "neighbours")])?;
            let neighbours = Announced { edges, unit: "neighbours, two an edge,", line: source.line(at)? };
            return Ok(Self { head, neighbours, body: lines.at() });
        }
        Err(source.refused("it ends before a line with the numbers of vertices and edges".into()))
    }

    /// Words that a line can have.
    fn words(&self) -> u64 {
        let each = 1 + u64::from(self.head.has_weights);
        self.neighbours.edges.saturating_mul(each).saturating_add(self.head.skipped)
    }

    /// The vertex that the first line of a range is about.
    fn vertex_at(&self, source: &Source, start: u64) -> Result<u64> {
        let mut vertex = 0;
        if start > self.body {
            let mut before = source.lines(self.body..start, self.body)?.of_words(self.words());
            while let Some((_, line)) = before.next()? {
                vertex += u64::from(!is_comment(line));
            }
        }
        Ok(vertex)
    }
}

impl Content for Metis {
    fn facts(&self) -> Facts {
        Facts {
            vertices: Some(self.head.vertices),
            orientation: Orientation::Symmetric,
            weights: Some(if self.head.has_weights { Weights::Whole } else { Weights::None }),
            announced: Some(self.neighbours),
        }
    }

    fn read(&self, source: &Source, range: Range<u64>, outlet: &mut Outlet<'_>) -> Result<()> {
        let is_last = range.end == source.all().end;
        let mut vertex = self.vertex_at(source, range.start)?;
        let before = outlet.given();
        let mut lines = source.lines(range, self.body)?.of_words(self.words());
        while let Some((at, line)) = lines.next()? {
            if is_comment(line) {
                continue;
            }
            neighbours(line, vertex, &self.head, |edge| outlet.put(edge)).map_err(|what| source.wrong(at, what))?;
            self.neighbours.check_most(source, outlet.given() - before)?;
            vertex += 1;
        }
        if is_last && vertex < self.head.vertices {
            let what = format!("{} vertices are announced here, but there are lines for {vertex}", self.head.vertices);
            return Err(Error::Line { file: source.file().to_owned(), line: self.neighbours.line, what });
        }
        Ok(())
    }
}

/// An empty line is no comment: it is a vertex without neighbours.
#[inline]
fn is_comment(line: &[u8]) -> bool {
    line.first() == Some(&b'%')
}

fn head(line: &[u8]) -> Parsed<Head> {
    let words: Vec<_> = Words(line).take(5).collect();
    let (vertices, edges, format, constraints) = match words[..] {
        [vertices, edges] => (vertices, edges, &b"0"[..], None),
        [vertices, edges, format] => (vertices, edges, format, None),
        [vertices, edges, format, constraints] => (vertices, edges, format, Some(constraints)),
        _ => return Err("expected the numbers of vertices and edges, and perhaps what they have".into()),
    };
    let (vertices, edges) = (count(vertices, "vertices")?, count(edges, "edges")?);
    if format.len() > 3 || !format.iter().all(|digit| matches!(digit, b'0' | b'1')) {
        return Err(format!(
            "{} does not tell what vertices and edges have: expected three digits 0 or 1",
            shown(format)
        ));
    }
    // Zeros at the front may be left out.
    let has = |place: usize| format.len() > place && format[format.len() - 1 - place] == b'1';
    let (has_weights, has_vertex_weights, has_sizes) = (has(0), has(1), has(2));
    let constraints = match constraints {
        Some(word) => count(word, "weights of a vertex")?,
        None => u64::from(has_vertex_weights),
    };
    if has_vertex_weights != (constraints > 0) {
        let format = shown(format);
        return Err(format!("vertices have {constraints} weights each, but {format} says something else about that"));
    }
    Ok(Head { vertices, edges, skipped: constraints.saturating_add(u64::from(has_sizes)), has_weights })
}

/// Gives the edges of a line, which is that of a vertex.
fn neighbours(line: &[u8], vertex: u64, head: &Head, mut give: impl FnMut(Edge)) -> Parsed<()> {
    let mut words = Words(line);
    if vertex >= head.vertices {
        // Files may end in empty lines.
        return match words.next() {
            Some(_) => Err(format!("a line for vertex {}, but there are {}", vertex + 1, head.vertices)),
            None => Ok(()),
        };
    }
    for place in 0..head.skipped {
        let Some(word) = words.next() else {
            let expected = head.skipped;
            return Err(format!("the line begins with {place} weights or sizes of the vertex, expected {expected}"));
        };
        count(word, "").map_err(|_| format!("{} is no weight or size of a vertex", shown(word)))?;
    }
    while let Some(word) = words.next() {
        let mut edge = Edge::new(vertex, counted_vertex(word, head.vertices)?);
        if head.has_weights {
            let Some(word) = words.next() else { return Err("the last neighbour has no weight".into()) };
            edge.weight = whole_weight(word)?;
        }
        give(edge);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads() {
        let read = |line: &str| head(line.as_bytes());
        let expected = |skipped, has_weights| Ok(Head { vertices: 7, edges: 11, skipped, has_weights });
        for (line, skipped, has_weights) in [
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
            assert_eq!(read(line), expected(skipped, has_weights), "{line}");
        }
        for (line, message) in [
            ("7", "expected the numbers of vertices and edges, and perhaps what they have"),
            ("7 11 0 0 0", "expected the numbers of vertices and edges, and perhaps what they have"),
            ("x 11", "`x` is no number of vertices"),
            ("7 11 2", "`2` does not tell what vertices and edges have: expected three digits 0 or 1"),
            ("7 11 0001", "`0001` does not tell what vertices and edges have: expected three digits 0 or 1"),
            ("7 11 1 2", "vertices have 2 weights each, but `1` says something else about that"),
            ("7 11 10 0", "vertices have 0 weights each, but `10` says something else about that"),
        ] {
            assert_eq!(read(line), Err(message.to_string()));
        }
    }

    #[test]
    fn lines_of_vertices() {
        let read = |line: &str, vertex, format: &str| {
            let head = head(format!("5 9 {format}").as_bytes())?;
            let mut edges = Vec::new();
            neighbours(line.as_bytes(), vertex, &head, |edge| edges.push((edge.from, edge.to, edge.weight)))?;
            Ok::<_, String>(edges)
        };
        assert_eq!(read("2 5\r", 0, ""), Ok(vec![(0, 1, 1.0), (0, 4, 1.0)]));
        assert_eq!(read("2 9 5 8", 3, "1"), Ok(vec![(3, 1, 9.0), (3, 4, 8.0)]));
        assert_eq!(read("100 200 300 2 9", 3, "111 2"), Ok(vec![(3, 1, 9.0)]));
        assert_eq!((read("", 4, ""), read(" ", 5, "10")), (Ok(vec![]), Ok(vec![])));
        for (line, vertex, format, message) in [
            ("1", 5, "", "a line for vertex 6, but there are 5"),
            ("0", 4, "", "vertex 0, but vertices of this format are counted from 1"),
            ("6", 4, "", "vertex 6, but there are 5"),
            ("2 1 3", 4, "1", "the last neighbour has no weight"),
            ("", 4, "10", "the line begins with 0 weights or sizes of the vertex, expected 1"),
            ("1 2", 4, "110 3", "the line begins with 2 weights or sizes of the vertex, expected 4"),
            ("x 2", 4, "10", "`x` is no weight or size of a vertex"),
        ] {
            assert_eq!(read(line, vertex, format), Err(message.to_string()), "{line}");
        }
    }
}
