//! Writers of results: the values of each vertex under its external id.
//!
//! Files are replaced atomically, so a partial file is never visible ([`AtomicFile`]). Rows are sorted by vertex, so
//! the file does not depend on the distribution of vertices over ranks.

mod npy;
mod text;

use std::fmt;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use treepie_base::AtomicFile;

use crate::{Error, Result};

/// The format of an output file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputFormat {
    /// A line for each vertex: its id and its values, separated by blanks.
    Text,
    /// Comma-separated values, with a header line.
    Csv,
    /// A NumPy array: a value for each vertex, or a row of several, as `f64` if they have different types. Unless vertices are 0 to n-1, their ids are
    /// in a second array, `scores.ids.npy` for `scores.npy`.
    Npy,
}

/// All formats, their names and extensions.
const FORMATS: [(OutputFormat, &str, &str); 3] =
    [(OutputFormat::Text, "text", "txt"), (OutputFormat::Csv, "csv", "csv"), (OutputFormat::Npy, "npy", "npy")];

impl OutputFormat {
    /// The format by the extension of a file.
    pub fn guess(file: &Path) -> Result<Self> {
        let extension = file.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let found = FORMATS.iter().find(|(_, _, known)| *known == extension);
        found.map(|(format, ..)| *format).ok_or_else(|| {
            let why = "unknown extension, expected one of .txt, .csv, .npy".into();
            Error::File { file: file.to_owned(), why }
        })
    }
}

impl fmt::Display for OutputFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(FORMATS.iter().find(|(format, ..)| format == self).map_or("", |(_, name, _)| name))
    }
}

impl FromStr for OutputFormat {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = FORMATS.iter().find(|(_, name, _)| *name == text);
        let unknown = || Error::Input(format!("unknown format `{text}`, expected one of text, csv, npy"));
        found.map(|(format, ..)| *format).ok_or_else(unknown)
    }
}

/// A column: a value of each vertex.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The name of the column.
    pub name: String,
    /// The values, in the order of the vertices.
    pub values: Values,
}

/// Values of one type.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Unsigned integers of 32 bits.
    U32(Vec<u32>),
    /// Unsigned integers of 64 bits.
    U64(Vec<u64>),
    /// Signed integers of 64 bits.
    I64(Vec<i64>),
    /// Floating-point numbers of 32 bits.
    F32(Vec<f32>),
    /// Floating-point numbers of 64 bits.
    F64(Vec<f64>),
}

impl Values {
    /// The number of values.
    pub fn len(&self) -> usize {
        match self {
            Values::U32(values) => values.len(),
            Values::U64(values) => values.len(),
            Values::I64(values) => values.len(),
            Values::F32(values) => values.len(),
            Values::F64(values) => values.len(),
        }
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Writes values of vertices with these external ids to a file, sorted by id.
///
/// An existing file is replaced atomically when all is written, and is unchanged if that fails. A file that is not
/// regular, such as `/dev/stdout`, is written directly.
///
/// ```
/// use treepie_graph::{Column, OutputFormat, Values, write};
///
/// let file = std::env::temp_dir().join(format!("treepie-levels-{}.csv", std::process::id()));
/// let levels = Column { name: "level".into(), values: Values::I64(vec![0, -1, 1]) };
/// write(&file, OutputFormat::guess(&file)?, &[3, 9, 5], &[levels])?;
/// assert_eq!(std::fs::read_to_string(&file)?, "vertex,level\n3,0\n5,1\n9,-1\n");
/// # std::fs::remove_file(&file)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write(file: &Path, format: OutputFormat, ids: &[u64], columns: &[Column]) -> Result<()> {
    if let Some(column) = columns.iter().find(|column| column.values.len() != ids.len()) {
        let (name, values) = (&column.name, column.values.len());
        return Err(Error::Input(format!("column `{name}` has {values} values, but there are {} vertices", ids.len())));
    }
    let order = sorted_order(ids);
    let failed = |file: &Path, error: io::Error| Error::File { file: file.to_owned(), why: error.to_string() };
    if format == OutputFormat::Npy {
        npy::check(columns)?;
        if order.iter().enumerate().any(|(row, index)| ids[*index] != row as u64) {
            let ids_file = ids_file(file)?;
            let column = Column { name: "vertex".to_owned(), values: Values::U64(ids.to_vec()) };
            let mut rows = |out: &mut dyn Write| npy::write(out, &order, std::slice::from_ref(&column));
            write_atomically(&ids_file, &mut rows).map_err(|error| failed(&ids_file, error))?;
        } else if let Ok(ids_file) = ids_file(file) {
            // Those of an earlier result would be taken for these.
            let _ = std::fs::remove_file(ids_file);
        }
    }
    let mut rows = |out: &mut dyn Write| match format {
        OutputFormat::Npy => npy::write(out, &order, columns),
        OutputFormat::Csv => text::write_csv(out, ids, &order, columns),
        OutputFormat::Text => text::write(out, ids, &order, columns),
    };
    write_atomically(file, &mut rows).map_err(|error| failed(file, error))
}

/// The file of the ids of vertices whose values are in a NumPy file.
fn ids_file(file: &Path) -> Result<PathBuf> {
    // A pipe or a device has no file beside it.
    if file.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        let why = "vertices do not count from 0, and their ids cannot be written beside this file";
        return Err(Error::File { file: file.to_owned(), why: why.to_owned() });
    }
    Ok(file.with_extension("ids.npy"))
}

/// The permutation that sorts the vertices by id.
fn sorted_order(ids: &[u64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..ids.len()).collect();
    // Stable: sorted input takes one pass.
    order.sort_by_key(|index| ids[*index]);
    order
}

/// Writes a file atomically.
fn write_atomically(file: &Path, rows: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 18, AtomicFile::create(file)?);
    rows(&mut out)?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?.commit().map(drop)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A temporary directory.
    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("treepie-graph-write-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).expect("a directory");
            Self(path)
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).expect("it is there");
            let mut names: Vec<_> =
                entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name")).collect();
            names.sort();
            names
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn ranks() -> Column {
        Column { name: "rank".into(), values: Values::F64(vec![0.5, 0.25, 1e-9]) }
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for (format, name, extension) in FORMATS {
            assert_eq!((format.to_string().as_str(), name.parse()), (name, Ok(format)));
            assert_eq!(OutputFormat::guess(Path::new(&format!("a.b.{}", extension.to_uppercase()))), Ok(format));
        }
        let refused = "xml".parse::<OutputFormat>().expect_err("not a format").to_string();
        assert_eq!(refused, "unknown format `xml`, expected one of text, csv, npy");
        let refused = OutputFormat::guess(Path::new("a")).expect_err("no ending").to_string();
        assert_eq!(refused, "a: unknown extension, expected one of .txt, .csv, .npy");
    }

    #[test]
    fn files_are_replaced_and_nothing_is_left_beside_them() {
        let directory = Directory::new("replace");
        let file = directory.0.join("ranks.txt");
        for _ in 0..2 {
            write(&file, OutputFormat::Text, &[7, 1, 4], &[ranks()]).expect("it is written");
            assert_eq!(fs::read_to_string(&file).expect("it is there"), "1 0.25\n4 1e-9\n7 0.5\n");
            assert_eq!(directory.names(), ["ranks.txt"]);
        }
    }

    #[test]
    fn ids_with_gaps_are_beside_a_numpy_file() {
        let directory = Directory::new("npy");
        let file = directory.0.join("ranks.npy");
        write(&file, OutputFormat::Npy, &[2, 0, 1], &[ranks()]).expect("it is written");
        assert_eq!(directory.names(), ["ranks.npy"]);
        for ids in [[3, 1, 2], [0, 1, 1 << 40]] {
            write(&file, OutputFormat::Npy, &ids, &[ranks()]).expect("it is written");
            assert_eq!(directory.names(), ["ranks.ids.npy", "ranks.npy"]);
            let bytes = fs::read(directory.0.join("ranks.ids.npy")).expect("it is there");
            let found: Vec<u64> =
                bytes[128..].chunks(8).map(|id| u64::from_le_bytes(id.try_into().expect("8 bytes"))).collect();
            let mut sorted = ids;
            sorted.sort_unstable();
            assert_eq!(found, sorted);
        }
        write(&file, OutputFormat::Npy, &[2, 0, 1], &[ranks()]).expect("it is written");
        assert_eq!(directory.names(), ["ranks.npy"]);
        let refused = write(Path::new("/dev/null"), OutputFormat::Npy, &[7, 1, 4], &[ranks()]).expect_err("a device");
        assert!(refused.to_string().contains("their ids cannot be written beside"), "{refused}");
    }

    #[test]
    fn what_fails_leaves_all_as_it_was() {
        let directory = Directory::new("fail");
        let file = directory.0.join("ranks.txt");
        fs::write(&file, "old").expect("it is written");
        let error = write_atomically(&file, &mut |out| {
            out.write_all(&[b'x'; 1 << 20])?;
            Err(io::Error::other("no more"))
        });
        assert_eq!(error.expect_err("it fails").to_string(), "no more");
        assert_eq!(
            (fs::read_to_string(&file).expect("it is there"), directory.names()),
            ("old".into(), vec!["ranks.txt".into()])
        );
        let error = write(&directory.0.join("no/ranks.txt"), OutputFormat::Text, &[], &[]).expect_err("no directory");
        assert!(matches!(error, Error::File { .. }), "{error}");
    }

    #[test]
    fn links_stay_links() {
        let directory = Directory::new("link");
        let (file, link) = (directory.0.join("there.txt"), directory.0.join("here.txt"));
        fs::write(&file, "old").expect("it is written");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        write(&link, OutputFormat::Text, &[1], &[]).expect("it is written");
        assert_eq!(fs::read_to_string(&file).expect("it is there"), "1\n");
        assert!(fs::symlink_metadata(&link).expect("it is there").is_symlink());
    }

    #[test]
    fn devices_are_written_to() {
        write(Path::new("/dev/null"), OutputFormat::Text, &[7, 1, 4], &[ranks()]).expect("it is written");
        assert!(!fs::metadata("/dev/null").expect("it is there").is_file());
    }

    #[test]
    fn columns_have_a_value_for_each_vertex() {
        let refused =
            write(Path::new("/dev/null"), OutputFormat::Csv, &[1, 2], &[ranks()]).expect_err("3 values").to_string();
        assert_eq!(refused, "column `rank` has 3 values, but there are 2 vertices");
    }
}
