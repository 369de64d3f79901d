//! Files of edges, one or many, of which each rank reads a part.
//!
//! Parts are ranges of bytes of all files one after the other, and a line belongs to the part in which it begins. So
//! each rank reads little more than its share, nobody has to hand lines to others, and all parts together have each
//! line once.

mod dimacs;
mod format;
mod lines;
mod matrix_market;
mod metis;
mod number;
mod packed;
mod partition;
mod saved;
mod source;
mod text;

use std::fmt::Debug;
use std::ops::Range;
use std::path::{Path, PathBuf};

pub use format::Format;
use number::Parsed;
pub(crate) use partition::{parts_of_vertices, wrong_count};
use source::Source;

use crate::outlet::Outlet;
use crate::{Edge, Edges, Error, Orientation, Result, Weights, share};

/// Edges in files that people have.
///
/// Text, Matrix Market, METIS, DIMACS and Graph 500 files, and saved graphs, see [`Format`]. All files that are read
/// together have the same format, say the same about the number of vertices and the orientation, and either all have
/// weights or none.
///
/// Formats that count vertices from 1 (Matrix Market, METIS, DIMACS) are read so that the first is vertex 0.
///
/// Weights are finite and not negative in all formats: shortest paths need that. Whole weights are below 2^32.
///
/// # Compressed files
/// Files whose names end in `.gz` are unpacked as they are read. They cannot be split: the first goes to part 0, the
/// second to part 1, and so on in turn. So if there is only one, then part 0 reads it alone, and the others nothing.
///
/// # Numbers of edges
/// Some formats say how many edges there are. A part that has all of a file checks that. If a file is split, no part
/// can: whoever adds up the edges of all parts hands the sum to [`check`](Edges::check).
#[derive(Debug)]
pub struct Files {
    files: Vec<Opened>,
    format: Format,
    vertices: Option<u64>,
    orientation: Orientation,
    weights: Weights,
    /// Bytes of all files that can be split.
    bytes: u64,
}

#[derive(Debug)]
struct Opened {
    source: Source,
    content: Box<dyn Content>,
}

/// What is in a file, as far as its head says. It is found when the file is opened.
trait Content: Debug + Send + Sync {
    fn facts(&self) -> Facts;

    /// Reads what begins in a range of bytes. A compressed file is always read as a whole.
    fn read(&self, source: &Source, range: Range<u64>, outlet: &mut Outlet<'_>) -> Result<()>;

    /// The same of names, if the file has names of vertices besides those of edges.
    fn names(&self, _source: &Source, _range: Range<u64>, _sink: &mut dyn FnMut(&[u64])) -> Result<()> {
        Ok(())
    }

    /// The same as a file of rows, if it is one.
    fn rows(&self) -> Option<&saved::Saved> {
        None
    }
}

struct Facts {
    vertices: Option<u64>,
    orientation: Orientation,
    /// Not known of a file without lines.
    weights: Option<Weights>,
    announced: Option<Announced>,
}

/// How many edges there have to be.
#[derive(Clone, Copy, Debug)]
struct Announced {
    edges: u64,
    /// What they are called where that is said.
    unit: &'static str,
    /// The line that says so.
    line: u64,
}

impl Announced {
    /// Refuses more edges than there have to be, before there are so many that they fill the memory.
    fn check_most(&self, source: &Source, edges: u64) -> Result<()> {
        // If there are only some more, they are counted and told.
        const SOME: u64 = 1 << 16;
        if edges <= self.edges.saturating_add(SOME) {
            return Ok(());
        }
        let what = format!("{} {} are announced here, but there are more", self.edges, self.unit);
        Err(Error::Line { file: source.file().to_owned(), line: self.line, what })
    }
}

impl Files {
    /// Opens files and reads their heads. The format is guessed from their names unless it is given.
    pub fn open(paths: &[PathBuf], format: Option<Format>) -> Result<Self> {
        let Some(first) = paths.first() else { return Err(Error::Input("no files to read edges from".into())) };
        let format_of = |path: &PathBuf| format.map_or_else(|| Format::guess(path), Ok);
        let format = format_of(first)?;
        let mut all = Self {
            files: Vec::with_capacity(paths.len()),
            format,
            vertices: None,
            orientation: Orientation::Directed,
            weights: Weights::None,
            bytes: 0,
        };
        let mut weights = None;
        for path in paths {
            let other = format_of(path)?;
            if other != format {
                return Err(all.unlike_first(
                    path,
                    &format!("its format is {other}"),
                    &format!("that of {{}} is {format}"),
                ));
            }
            let source = Source::open(path)?;
            let content: Box<dyn Content> = match format {
                Format::Text => Box::new(text::Text::open(&source)?),
                Format::MatrixMarket => Box::new(matrix_market::MatrixMarket::open(&source)?),
                Format::Metis => Box::new(metis::Metis::open(&source)?),
                Format::Dimacs => Box::new(dimacs::Dimacs::open(&source)?),
                Format::Packed => Box::new(packed::Packed::open(&source)?),
                Format::Treepie => Box::new(saved::Saved::open(&source)?),
            };
            all.agree(path, &content.facts(), &mut weights)?;
            all.bytes = all.bytes.saturating_add(source.length().unwrap_or(0));
            all.files.push(Opened { source, content });
        }
        all.weights = weights.unwrap_or(Weights::None);
        Ok(all)
    }

    /// The format of the files.
    pub fn format(&self) -> Format {
        self.format
    }

    /// How many edges all parts have together, if all files say that. The edges of METIS files are in them twice, and
    /// counted so.
    pub fn expected_edges(&self) -> Option<u64> {
        let mut edges = self.files.iter().map(|file| file.content.facts().announced.map(|announced| announced.edges));
        edges.try_fold(0, |sum: u64, edges| sum.checked_add(edges?))
    }

    /// What one of so many parts has of each file of which it has anything.
    fn ranges(&self, part: usize, parts: usize) -> Result<Vec<(&Opened, Range<u64>)>> {
        if part >= parts {
            return Err(Error::Input(format!("there is no part {part} of {parts}")));
        }
        let mine = share(self.bytes, part, parts);
        let (mut begin, mut turn) = (0, 0);
        let ranges = self.files.iter().map(|file| {
            let all = file.source.all();
            if file.source.is_compressed() {
                turn += 1;
                return (file, if (turn - 1) % parts == part { all } else { 0..0 });
            }
            let here = begin;
            begin += all.end;
            (file, mine.start.clamp(here, begin) - here..mine.end.clamp(here, begin) - here)
        });
        Ok(ranges.filter(|(_, range)| !range.is_empty()).collect())
    }

    /// The only file, if it is one of rows with as many names as numbers below that, and can be read from anywhere.
    fn in_rows(&self) -> Option<(&Source, &saved::Saved)> {
        match self.files.as_slice() {
            [file] if self.vertices.is_some() && !file.source.is_compressed() => {
                Some((&file.source, file.content.rows()?))
            }
            _ => None,
        }
    }

    fn check_sum(&self, edges: u64) -> Result<()> {
        match (self.expected_edges(), self.files.as_slice()) {
            (Some(expected), [file]) if expected != edges => file.check_edges(edges),
            (Some(expected), _) if expected != edges => Err(Error::Input(format!(
                "the {} files from {} on have to have {expected} edges together, but there are {edges}",
                self.files.len(),
                self.files[0].source.file().display()
            ))),
            _ => Ok(()),
        }
    }

    /// Takes up what one more file says, if that agrees with the others.
    fn agree(&mut self, path: &Path, facts: &Facts, weights: &mut Option<Weights>) -> Result<()> {
        if self.files.is_empty() {
            (self.vertices, self.orientation) = (facts.vertices, facts.orientation);
        }
        if self.vertices != facts.vertices {
            let number = |vertices: Option<u64>| vertices.map_or("no number of".into(), |count| count.to_string());
            let (here, there) = (number(facts.vertices), number(self.vertices));
            return Err(self.unlike_first(path, &format!("it has {here} vertices"), &format!("{{}} has {there}")));
        }
        if self.orientation != facts.orientation {
            let (here, there) = (facts.orientation, self.orientation);
            return Err(self.unlike_first(
                path,
                &format!("its edges are {here:?}"),
                &format!("those of {{}} are {there:?}"),
            ));
        }
        *weights = match (*weights, facts.weights) {
            (None, either) | (either, None) => either,
            (Some(there), Some(here)) if there == here => Some(here),
            (Some(Weights::None), Some(_)) => {
                return Err(self.unlike_first(path, "its edges have weights", "those of {} have none"));
            }
            (Some(_), Some(Weights::None)) => {
                return Err(self.unlike_first(path, "its edges have no weights", "those of {} have some"));
            }
            (Some(_), Some(_)) => Some(Weights::Real),
        };
        Ok(())
    }

    /// A file says something else than the first one, which stands for `{}`.
    fn unlike_first(&self, path: &Path, here: &str, there: &str) -> Error {
        let first = self.files.first().map(|file| file.source.file().display().to_string()).unwrap_or_default();
        Error::File { file: path.to_owned(), why: format!("{here}, but {}", there.replace("{}", &first)) }
    }
}

impl Opened {
    fn check_edges(&self, edges: u64) -> Result<()> {
        let Some(announced) = self.content.facts().announced else { return Ok(()) };
        if announced.edges == edges {
            return Ok(());
        }
        let what = format!("{} {} are announced here, but there are {edges}", announced.edges, announced.unit);
        Err(Error::Line { file: self.source.file().to_owned(), line: announced.line, what })
    }
}

impl Edges for Files {
    fn vertices(&self) -> Option<u64> {
        self.vertices
    }

    fn orientation(&self) -> Orientation {
        self.orientation
    }

    fn weights(&self) -> Weights {
        self.weights
    }

    fn check(&self, edges: u64) -> Result<()> {
        self.check_sum(edges)
    }

    fn part(&self, part: usize, parts: usize, sink: &mut dyn FnMut(&[Edge])) -> Result<()> {
        let mut outlet = Outlet::new(sink);
        for (file, range) in self.ranges(part, parts)? {
            let before = outlet.given();
            file.content.read(&file.source, range.clone(), &mut outlet)?;
            if range == file.source.all() {
                file.check_edges(outlet.given() - before)?;
            }
        }
        outlet.finish();
        Ok(())
    }

    fn names(&self, part: usize, parts: usize, sink: &mut dyn FnMut(&[u64])) -> Result<()> {
        let mut ranges = self.ranges(part, parts)?.into_iter();
        ranges.try_for_each(|(file, range)| file.content.names(&file.source, range, sink))
    }

    fn is_in_rows(&self) -> bool {
        self.in_rows().is_some()
    }

    fn rows(&self, vertices: Range<u64>, sink: &mut dyn FnMut(&[Edge])) -> Result<()> {
        let Some((source, saved)) = self.in_rows() else { return Ok(()) };
        let mut outlet = Outlet::new(sink);
        saved.rows(source, vertices, &mut outlet)?;
        outlet.finish();
        Ok(())
    }
}

/// Reads the lines that begin in a range of bytes, each an edge, or nothing.
fn read_lines(
    source: &Source,
    range: Range<u64>,
    body: u64,
    announced: Option<Announced>,
    outlet: &mut Outlet<'_>,
    edge: impl Fn(&[u8]) -> Parsed<Option<Edge>>,
) -> Result<()> {
    let before = outlet.given();
    let mut lines = source.lines(range, body)?;
    while let Some((at, line)) = lines.next()? {
        match edge(line) {
            Ok(Some(edge)) => {
                outlet.put(edge);
                announced.map_or(Ok(()), |announced| announced.check_most(source, outlet.given() - before))?;
            }
            Ok(None) => {}
            Err(what) => return Err(source.wrong(at, what)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_files_are_refused() {
        assert_eq!(Files::open(&[], None).expect_err("none").to_string(), "no files to read edges from");
    }
}
