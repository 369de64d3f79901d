//! Formats of files, by name.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use crate::{Error, Result};

/// How edges are written in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// A line for each edge: from, to, and perhaps a weight.
    Text,
    /// Matrix Market coordinates.
    MatrixMarket,
    /// METIS adjacency: a line for each vertex.
    Metis,
    /// Arcs of the ninth DIMACS challenge.
    Dimacs,
    /// Packed edges of Graph 500, 12 bytes each.
    Packed,
    /// A graph that was saved, as its rows.
    Treepie,
}

/// All formats: what they are called, and how names of files in them end.
const FORMATS: [(Format, &str, &[&str]); 6] = [
    (Format::Text, "text", &["txt", "el", "edges", "csv", "tsv", "wel"]),
    (Format::MatrixMarket, "matrix-market", &["mtx"]),
    (Format::Metis, "metis", &["graph", "metis"]),
    (Format::Dimacs, "dimacs", &["gr"]),
    (Format::Packed, "packed", &["packed", "bin"]),
    (Format::Treepie, "tpg", &["tpg"]),
];

impl Format {
    /// What the name of a file says about its format; `.gz` at its end says nothing.
    pub fn guess(file: &Path) -> Result<Self> {
        let name = file.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let name = name.strip_suffix(".gz").unwrap_or(&name);
        let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
        let found = FORMATS.iter().find(|(_, _, endings)| endings.contains(&ending));
        found.map(|(format, ..)| *format).ok_or_else(|| {
            let endings: Vec<_> = FORMATS.iter().flat_map(|(_, _, endings)| *endings).copied().collect();
            let why = format!("its name does not tell its format: it ends in none of .{}", endings.join(", ."));
            Error::File { file: file.to_owned(), why }
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = FORMATS.iter().find(|(format, ..)| format == self).map_or("", |(_, name, _)| name);
        f.pad(name)
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = FORMATS.iter().find(|(_, name, _)| *name == text);
        found.map(|(format, ..)| *format).ok_or_else(|| {
            let names: Vec<_> = FORMATS.iter().map(|(_, name, _)| *name).collect();
            Error::Input(format!("unknown format `{text}`, expected one of {}", names.join(", ")))
        })
    }
}

/// Whether a file is compressed, which only its name says.
pub(super) fn is_compressed(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gz"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for (format, name, endings) in FORMATS {
            assert_eq!((format.to_string().as_str(), name.parse()), (name, Ok(format)));
            for ending in endings {
                for file in
                    [format!("a/b.{ending}"), format!("b.x.{ending}.gz"), format!("B.{}.GZ", ending.to_uppercase())]
                {
                    assert_eq!(Format::guess(Path::new(&file)), Ok(format), "{file}");
                }
            }
        }
    }

    #[test]
    fn unknown_names_are_refused_in_one_sentence() {
        let refused = Format::guess(Path::new("edges.gz")).expect_err("what is in it is not known").to_string();
        assert!(
            refused.starts_with("edges.gz: its name does not tell its format: it ends in none of .txt, .el"),
            "{refused}"
        );
        assert!(Format::guess(Path::new("txt")).is_err() && Format::guess(Path::new("..")).is_err());
        let refused = "xml".parse::<Format>().expect_err("not a format").to_string();
        assert_eq!(refused, "unknown format `xml`, expected one of text, matrix-market, metis, dimacs, packed, tpg");
    }

    #[test]
    fn only_the_last_ending_says_that_a_file_is_compressed() {
        assert!(is_compressed(Path::new("a.txt.gz")) && is_compressed(Path::new("a.GZ")));
        assert!(!is_compressed(Path::new("a.gz.txt")) && !is_compressed(Path::new("gz")));
    }
}
