//! Input formats, by extension.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use super::compression::Compression;
use crate::{Error, Result};

/// The format of an input file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InputFormat {
    /// Edge list: a line for each edge with source, target and optionally a weight.
    Text,
    /// Matrix Market coordinate format.
    MatrixMarket,
    /// METIS graph: a line for each vertex.
    Metis,
    /// Shortest-path format of the 9th DIMACS challenge.
    Dimacs,
    /// Packed edges of Graph 500, 12 bytes each.
    Packed,
    /// A saved graph, in CSR form.
    Treepie,
}

/// All formats, their names and extensions.
const FORMATS: [(InputFormat, &str, &[&str]); 6] = [
    (InputFormat::Text, "text", &["txt", "el", "edges", "csv", "tsv", "wel"]),
    (InputFormat::MatrixMarket, "matrix-market", &["mtx"]),
    (InputFormat::Metis, "metis", &["graph", "metis"]),
    (InputFormat::Dimacs, "dimacs", &["gr"]),
    (InputFormat::Packed, "packed", &["packed", "bin"]),
    (InputFormat::Treepie, "tpg", &["tpg"]),
];

impl InputFormat {
    /// The format by the extension of a file, before that of its compression.
    pub fn guess(file: &Path) -> Result<Self> {
        let extension = Compression::strip_extension(file).extension().unwrap_or_default();
        let extension = extension.to_string_lossy().to_ascii_lowercase();
        let found = FORMATS.iter().find(|(_, _, extensions)| extensions.contains(&&*extension));
        found.map(|(format, ..)| *format).ok_or_else(|| {
            let extensions: Vec<_> = FORMATS.iter().flat_map(|(_, _, extensions)| *extensions).copied().collect();
            let why = format!("unknown extension, expected one of .{}", extensions.join(", ."));
            Error::File { file: file.to_owned(), why }
        })
    }
}

impl fmt::Display for InputFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = FORMATS.iter().find(|(format, ..)| format == self).map_or("", |(_, name, _)| name);
        f.pad(name)
    }
}

impl FromStr for InputFormat {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = FORMATS.iter().find(|(_, name, _)| *name == text);
        found.map(|(format, ..)| *format).ok_or_else(|| {
            let names: Vec<_> = FORMATS.iter().map(|(_, name, _)| *name).collect();
            Error::Input(format!("unknown format `{text}`, expected one of {}", names.join(", ")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for (format, name, extensions) in FORMATS {
            assert_eq!((format.to_string().as_str(), name.parse()), (name, Ok(format)));
            for extension in extensions {
                for file in [
                    format!("a/b.{extension}"),
                    format!("b.x.{extension}.gz"),
                    format!("B.{}.GZ", extension.to_uppercase()),
                    format!("b.{extension}.zst"),
                    format!("b.{extension}.bz2"),
                ] {
                    assert_eq!(InputFormat::guess(Path::new(&file)), Ok(format), "{file}");
                }
            }
        }
    }

    #[test]
    fn unknown_names_are_refused_in_one_sentence() {
        let refused = InputFormat::guess(Path::new("edges.gz")).expect_err("no format is known").to_string();
        assert!(refused.starts_with("edges.gz: unknown extension, expected one of .txt, .el"), "{refused}");
        assert!(InputFormat::guess(Path::new("txt")).is_err() && InputFormat::guess(Path::new("..")).is_err());
        let refused = "xml".parse::<InputFormat>().expect_err("not a format").to_string();
        assert_eq!(refused, "unknown format `xml`, expected one of text, matrix-market, metis, dimacs, packed, tpg");
    }
}
