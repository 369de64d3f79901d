//! Tables of which some columns are edges: comma-separated values (RFC 4180), or with other separators.
//!
//! The first line tells the separator: a comma, a semicolon or a tab if it has one, and otherwise blanks. Cells may be quoted, and
//! those that are not chosen may be empty or anything else.

use std::str::FromStr;

use super::parse::{ParseResult, Tokens, parse_real_weight, parse_vertex};
use crate::{Edge, Error, Result};

/// The columns of an edge, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeColumns {
    /// The source.
    pub from: usize,
    /// The target.
    pub to: usize,
    /// The weight, if edges have one.
    pub weight: Option<usize>,
}

impl FromStr for EdgeColumns {
    type Err = Error;

    /// Two or three numbers: `0,1` or `0,1,3`.
    fn from_str(text: &str) -> Result<Self> {
        let columns: Option<Vec<usize>> = text.split(',').map(|column| column.trim().parse().ok()).collect();
        let (from, to, weight) = match columns.as_deref() {
            Some([from, to]) => (*from, *to, None),
            Some([from, to, weight]) => (*from, *to, Some(*weight)),
            _ => {
                let expected = "the columns of source, target and perhaps weight, counted from 0, such as 0,1,3";
                return Err(Error::Input(format!("`{text}`: expected {expected}")));
            }
        };
        if from == to || weight.is_some_and(|weight| weight == from || weight == to) {
            return Err(Error::Input(format!("`{text}`: source, target and weight are different columns")));
        }
        Ok(Self { from, to, weight })
    }
}

/// How the lines of a table are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) columns: EdgeColumns,
    /// None: blanks.
    separator: Option<u8>,
}

impl Table {
    pub(super) fn new(columns: EdgeColumns, first_line: &[u8]) -> Self {
        let separator = [b',', b';', b'\t'].into_iter().find(|separator| first_line.contains(separator));
        Self { columns, separator }
    }

    /// Whether a line has names where edges have vertices.
    pub(super) fn has_names(&self, line: &[u8]) -> bool {
        let is_name = |cell: &[u8]| cell.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
        self.chosen(line).is_ok_and(|(from, to, _)| is_name(from) && is_name(to))
    }

    /// Parses the edge of a line.
    pub(super) fn parse_edge(&self, line: &[u8]) -> ParseResult<Edge> {
        let (from, to, weight) = self.chosen(line)?;
        let mut edge = Edge::new(parse_vertex(from)?, parse_vertex(to)?);
        if let Some(weight) = weight {
            edge.weight = parse_real_weight(weight)?;
        }
        Ok(edge)
    }

    /// The chosen cells.
    #[allow(clippy::type_complexity)]
    fn chosen<'a>(&self, line: &'a [u8]) -> ParseResult<(&'a [u8], &'a [u8], Option<&'a [u8]>)> {
        let EdgeColumns { from, to, weight } = self.columns;
        let mut found = [None; 3];
        let mut count = 0;
        let mut choose = |cell: &'a [u8]| {
            for (column, found) in [Some(from), Some(to), weight].into_iter().zip(&mut found) {
                if column == Some(count) {
                    *found = Some(cell);
                }
            }
            count += 1;
        };
        match self.separator {
            None => Tokens(line).for_each(&mut choose),
            Some(separator) => {
                let mut rest = Some(line);
                while let Some(cells) = rest {
                    let (cell, after) = first_cell(cells, separator)?;
                    choose(cell);
                    rest = after;
                }
            }
        }
        let cell = |column: usize, found: Option<&'a [u8]>| match found {
            None => {
                let plural = if count == 1 { "" } else { "s" };
                Err(format!("{count} column{plural}, but column {column}, counted from 0, was chosen"))
            }
            Some([]) => Err(format!("column {column}, counted from 0, is empty")),
            Some(cell) => Ok(cell),
        };
        let weight = weight.map(|column| cell(column, found[2])).transpose()?;
        Ok((cell(from, found[0])?, cell(to, found[1])?, weight))
    }
}

/// The first cell of a line, without quotes and surrounding blanks, and the cells after it, if there are any.
fn first_cell(line: &[u8], separator: u8) -> ParseResult<(&[u8], Option<&[u8]>)> {
    let is_blank = |byte: &u8| *byte != separator && matches!(byte, b' ' | b'\t' | b'\r');
    let skip_blanks = |bytes: &[u8]| bytes.iter().position(|byte| !is_blank(byte)).unwrap_or(bytes.len());
    let line = &line[skip_blanks(line)..];
    if let Some(quoted) = line.strip_prefix(b"\"") {
        // A quote within quotes is doubled.
        let (mut end, mut quotes) = (0, quoted.iter());
        loop {
            end += quotes.position(|byte| *byte == b'"').ok_or("a quote does not end")?;
            if quoted.get(end + 1) != Some(&b'"') {
                break;
            }
            end += 2;
            quotes = quoted[end..].iter();
        }
        let (cell, rest) = (&quoted[..end], &quoted[end + 1..]);
        let rest = &rest[skip_blanks(rest)..];
        return match rest {
            [] => Ok((cell, None)),
            [next, after @ ..] if *next == separator => Ok((cell, Some(after))),
            _ => Err("a column goes on after its quote".into()),
        };
    }
    let end = line.iter().position(|byte| *byte == separator).unwrap_or(line.len());
    let mut cell = &line[..end];
    while let [before @ .., last] = cell
        && is_blank(last)
    {
        cell = before;
    }
    Ok((cell, line.get(end + 1..)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str, columns: &str) -> ParseResult<(u64, u64, f64)> {
        let table = Table::new(columns.parse().unwrap(), line.as_bytes());
        table.parse_edge(line.as_bytes()).map(|edge| (edge.from, edge.to, edge.weight))
    }

    #[test]
    fn columns_are_found_whatever_others_have() {
        assert_eq!(parse("1,2,10 20,3", "0,1,3"), Ok((1, 2, 3.0)));
        assert_eq!(parse("1\t\t5\t7", "0,2"), Ok((1, 5, 1.0)));
        assert_eq!(parse("1,2,,5", "0,1,3"), Ok((1, 2, 5.0)));
        assert_eq!(parse("\"a, \"\"b\"\"\" , \"7\";,8\r", "1,2"), Err("a column goes on after its quote".into()));
        assert_eq!(parse("\"a, \"\"b\"\"\" , \"7\" ,8\r", "1,2"), Ok((7, 8, 1.0)));
        assert_eq!(parse("2016-01-01  7 8", "2,1"), Ok((8, 7, 1.0)));
        assert_eq!(parse("1;2;3,5", "0,1"), Err("`1;2;3` is no vertex: expected a whole number".into()));
        assert_eq!(parse("1 2 3 4 5", "0,1"), Ok((1, 2, 1.0)));
        assert_eq!(parse("1,2,3", "0,1,3"), Err("3 columns, but column 3, counted from 0, was chosen".into()));
        assert_eq!(parse("1,,3", "0,1"), Err("column 1, counted from 0, is empty".into()));
        assert_eq!(parse("\"1,2", "0,1"), Err("a quote does not end".into()));
        assert_eq!(parse("1,2,", "0,1"), Ok((1, 2, 1.0)));
    }

    #[test]
    fn names_are_where_vertices_are() {
        let has_names = |line: &str| Table::new("1,2".parse().unwrap(), line.as_bytes()).has_names(line.as_bytes());
        assert!(has_names(",source,target") && has_names("0,\"a\",_b") && has_names("x y z"));
        assert!(!has_names("a,1,b") && !has_names("a,b") && !has_names("a,,b"));
    }

    #[test]
    fn columns_of_an_edge_are_different() {
        for columns in ["0", "0,1,2,3", "a,b", "", "0,0", "0,1,1"] {
            assert!(columns.parse::<EdgeColumns>().is_err(), "{columns}");
        }
    }
}
