//! Parallel readers of edge files: each rank reads a part.
//!
//! Parts are byte ranges of the concatenated files, and a line belongs to the part in which it begins. So each rank
//! reads little more than its part, no lines are exchanged, and each line is in exactly one part.

mod compression;
mod dimacs;
mod format;
mod graph_file;
mod hand_out;
mod lines;
mod matrix_market;
mod metis;
mod packed;
mod parse;
mod partition;
mod source;
mod table;
mod text;

use std::fmt::Debug;
use std::ops::Range;
use std::path::{Path, PathBuf};

pub use format::InputFormat;
use lines::{Lines, MAX_LINE_BYTES};
use parse::ParseResult;
pub(crate) use partition::{line_count_mismatch, read_partition};
use source::SourceFile;
pub use table::EdgeColumns;

use treepie_comm::Comm;

use crate::edge_batcher::EdgeBatcher;
use crate::{Edge, EdgeSource, Error, Orientation, Result, WeightKind, block_range};

/// An edge source that reads files.
///
/// Text, Matrix Market, METIS, DIMACS and Graph 500 files, and saved graphs, see [`InputFormat`]. All files that are
/// read together must have the same format, number of vertices and orientation, and either all have weights or none.
///
/// Vertices have the ids of the file: Matrix Market, METIS and DIMACS count them from 1.
///
/// Weights must be finite and non-negative in all formats, as shortest paths require. Integer weights are below 2^32.
///
/// # Compressed files
/// Files with the extension `.gz`, `.bz2` or `.zst` are decompressed as they are read. They cannot be split: the first goes to part 0,
/// the second to part 1, and so on round-robin. Ranks that read together hand each other lines of compressed text, so that only
/// decompression is left to one of them.
///
/// # Numbers of edges
/// Some formats declare the number of edges. A part that has all of a file checks it. If a file is split, the caller
/// sums the edges of all parts and calls [`check_edge_count`](EdgeSource::check_edge_count), which checks the sum over all files.
#[derive(Debug)]
pub struct EdgeFiles {
    files: Vec<InputFile>,
    format: InputFormat,
    vertices: Option<u64>,
    first_id: u64,
    orientation: Orientation,
    weights: WeightKind,
    /// Total bytes of the files that can be split.
    bytes: u64,
}

#[derive(Debug)]
struct InputFile {
    source: SourceFile,
    reader: Box<dyn FormatReader>,
}

/// The reader of a format, with the metadata of a file's header, which is read when the file is opened.
trait FormatReader: Debug + Send + Sync {
    fn metadata(&self) -> Metadata;

    /// Reads the edges that begin in a byte range. A compressed file is always read as a whole.
    fn read_edges(&self, source: &SourceFile, range: Range<u64>, batcher: &mut EdgeBatcher<'_>) -> Result<()>;

    /// Reads the vertex ids of a byte range, if the file has ids of isolated vertices.
    fn read_vertex_ids(&self, _source: &SourceFile, _range: Range<u64>, _sink: &mut dyn FnMut(&[u64])) -> Result<()> {
        Ok(())
    }

    /// The reader of lines, if the format has them.
    fn as_text(&self) -> Option<&dyn TextReader> {
        None
    }

    /// The saved graph, if the file is one.
    fn as_graph_file(&self) -> Option<&graph_file::GraphFile> {
        None
    }
}

/// The reader of a format of lines, each of which has edges by itself.
trait TextReader {
    /// The offset of the first line after a header.
    fn body_offset(&self) -> u64;

    /// The longest line.
    fn max_line_bytes(&self) -> usize {
        MAX_LINE_BYTES
    }

    /// Reads lines; `first_row` is the number of rows before them.
    fn read_lines(
        &self,
        source: &SourceFile,
        lines: Lines<'_>,
        first_row: u64,
        batcher: &mut EdgeBatcher<'_>,
    ) -> Result<()>;

    /// The number of rows of some lines, if the number of its row says what a line means.
    fn num_rows(&self, _text: &[u8]) -> u64 {
        0
    }

    /// Checks the number of rows of a file.
    fn check_rows(&self, _source: &SourceFile, _rows: u64) -> Result<()> {
        Ok(())
    }
}

struct Metadata {
    vertices: Option<u64>,
    /// The id of the first vertex, if their number is known.
    first_id: u64,
    orientation: Orientation,
    /// Unknown for a file without lines.
    weights: Option<WeightKind>,
    declared: Option<DeclaredEdges>,
}

/// The number of edges that a file declares.
#[derive(Clone, Copy, Debug)]
struct DeclaredEdges {
    edges: u64,
    /// What the format calls them.
    unit: &'static str,
    /// The line of the declaration.
    line: u64,
}

impl DeclaredEdges {
    /// Refuses more edges than declared, before they exhaust the memory.
    fn check_limit(&self, source: &SourceFile, edges: u64) -> Result<()> {
        // Small excesses are counted and reported at the end.
        const SLACK: u64 = 1 << 16;
        if edges <= self.edges.saturating_add(SLACK) {
            return Ok(());
        }
        let what = format!("{} {} are declared here, but there are more", self.edges, self.unit);
        Err(Error::Line { file: source.file().to_owned(), line: self.line, what })
    }
}

impl EdgeFiles {
    /// Opens files and reads their headers. The format is taken from the extension unless it is given.
    pub fn open(paths: &[PathBuf], format: Option<InputFormat>) -> Result<Self> {
        Self::open_columns(paths, format, None)
    }

    /// The same; of each line of an edge list only some columns are read.
    ///
    /// # Errors
    /// Those of [`open`](Self::open), and [`Error::Input`] if the format has no columns.
    pub fn open_columns(paths: &[PathBuf], format: Option<InputFormat>, columns: Option<EdgeColumns>) -> Result<Self> {
        let Some(first) = paths.first() else { return Err(Error::Input("no files to read edges from".into())) };
        let format_of = |path: &PathBuf| format.map_or_else(|| InputFormat::guess(path), Ok);
        let format = format_of(first)?;
        let mut files = Self {
            files: Vec::with_capacity(paths.len()),
            format,
            vertices: None,
            first_id: 0,
            orientation: Orientation::Directed,
            weights: WeightKind::None,
            bytes: 0,
        };
        if columns.is_some() && format != InputFormat::Text {
            return Err(Error::Input(format!("columns are chosen of edge lists, not of the format {format}")));
        }
        let mut weights = None;
        for path in paths {
            let file_format = format_of(path)?;
            if file_format != format {
                return Err(files.mismatch(
                    path,
                    &format!("its format is {file_format}"),
                    &format!("that of {{}} is {format}"),
                ));
            }
            let source = match format {
                InputFormat::Packed | InputFormat::Treepie => SourceFile::open(path)?,
                _ => SourceFile::open_text(path)?,
            };
            let reader: Box<dyn FormatReader> = match format {
                InputFormat::Text => Box::new(text::Text::open(&source, columns)?),
                InputFormat::MatrixMarket => Box::new(matrix_market::MatrixMarket::open(&source)?),
                InputFormat::Metis => Box::new(metis::Metis::open(&source)?),
                InputFormat::Dimacs => Box::new(dimacs::Dimacs::open(&source)?),
                InputFormat::Packed => Box::new(packed::Packed::open(&source)?),
                InputFormat::Treepie => Box::new(graph_file::GraphFile::open(&source)?),
            };
            files.merge_metadata(path, &reader.metadata(), &mut weights)?;
            files.bytes = files.bytes.saturating_add(source.length().unwrap_or(0));
            files.files.push(InputFile { source, reader });
        }
        files.weights = weights.unwrap_or(WeightKind::None);
        Ok(files)
    }

    /// The format of the files.
    pub fn format(&self) -> InputFormat {
        self.format
    }

    /// The number of edges of all parts, if all files declare it. Edges of METIS files are listed twice, and counted
    /// twice.
    pub fn expected_edges(&self) -> Option<u64> {
        let mut edges = self.files.iter().map(|file| file.reader.metadata().declared.map(|declared| declared.edges));
        edges.try_fold(0, |sum: u64, edges| sum.checked_add(edges?))
    }

    /// The byte range of part `part` of `parts` in each file, if it is not empty.
    fn ranges(&self, part: usize, parts: usize) -> Result<Vec<(&InputFile, Range<u64>)>> {
        if part >= parts {
            return Err(Error::Input(format!("there is no part {part} of {parts}")));
        }
        let part_range = block_range(self.bytes, part, parts);
        let (mut begin, mut turn) = (0, 0);
        let ranges = self.files.iter().map(|file| {
            let all = file.source.full_range();
            if file.source.is_compressed() {
                turn += 1;
                return (file, if (turn - 1) % parts == part { all } else { 0..0 });
            }
            let here = begin;
            begin += all.end;
            (file, part_range.start.clamp(here, begin) - here..part_range.end.clamp(here, begin) - here)
        });
        Ok(ranges.filter(|(_, range)| !range.is_empty()).collect())
    }

    /// The only file, if it is a saved graph with consecutive ids that is not compressed.
    fn sorted_file(&self) -> Option<(&SourceFile, &graph_file::GraphFile)> {
        match self.files.as_slice() {
            [file] if self.vertices.is_some() && !file.source.is_compressed() => {
                Some((&file.source, file.reader.as_graph_file()?))
            }
            _ => None,
        }
    }

    fn check_total(&self, edges: u64) -> Result<()> {
        match (self.expected_edges(), self.files.as_slice()) {
            (Some(expected), [file]) if expected != edges => file.check_edges(edges),
            (Some(expected), _) if expected != edges => Err(Error::Input(format!(
                "the {} files from {} on must have {expected} edges together, but there are {edges}",
                self.files.len(),
                self.files[0].source.file().display()
            ))),
            _ => Ok(()),
        }
    }

    /// Merges the metadata of one more file, if it agrees with the others.
    fn merge_metadata(&mut self, path: &Path, metadata: &Metadata, weights: &mut Option<WeightKind>) -> Result<()> {
        if self.files.is_empty() {
            (self.vertices, self.first_id) = (metadata.vertices, metadata.first_id);
            self.orientation = metadata.orientation;
        }
        if self.vertices != metadata.vertices {
            let count = |vertices: Option<u64>| vertices.map_or("no number of".into(), |count| count.to_string());
            let (here, there) = (count(metadata.vertices), count(self.vertices));
            return Err(self.mismatch(path, &format!("it has {here} vertices"), &format!("{{}} has {there}")));
        }
        if self.first_id != metadata.first_id {
            let (here, there) = (metadata.first_id, self.first_id);
            let here = format!("its vertices are counted from {here}");
            return Err(self.mismatch(path, &here, &format!("those of {{}} from {there}")));
        }
        if self.orientation != metadata.orientation {
            let (here, there) = (metadata.orientation, self.orientation);
            return Err(self.mismatch(
                path,
                &format!("its edges are {here:?}"),
                &format!("those of {{}} are {there:?}"),
            ));
        }
        *weights = match (*weights, metadata.weights) {
            (None, either) | (either, None) => either,
            (Some(there), Some(here)) if there == here => Some(here),
            (Some(WeightKind::None), Some(_)) => {
                return Err(self.mismatch(path, "its edges have weights", "those of {} have none"));
            }
            (Some(_), Some(WeightKind::None)) => {
                return Err(self.mismatch(path, "its edges have no weights", "those of {} have some"));
            }
            (Some(_), Some(_)) => Some(WeightKind::Real),
        };
        Ok(())
    }

    /// The error of a file that disagrees with the first one, whose name replaces `{}`.
    fn mismatch(&self, path: &Path, here: &str, there: &str) -> Error {
        let first = self.files.first().map(|file| file.source.file().display().to_string()).unwrap_or_default();
        Error::File { file: path.to_owned(), why: format!("{here}, but {}", there.replace("{}", &first)) }
    }
}

impl InputFile {
    /// The reader of its lines, if it is compressed and has lines.
    fn compressed_text(&self) -> Option<&dyn TextReader> {
        if self.source.is_compressed() { self.reader.as_text() } else { None }
    }

    /// Reads the edges of a byte range.
    fn read_edges(&self, range: Range<u64>, batcher: &mut EdgeBatcher<'_>) -> Result<()> {
        let before = batcher.num_edges();
        self.reader.read_edges(&self.source, range.clone(), batcher)?;
        if range == self.source.full_range() { self.check_edges(batcher.num_edges() - before) } else { Ok(()) }
    }

    fn check_edges(&self, edges: u64) -> Result<()> {
        let Some(declared) = self.reader.metadata().declared else { return Ok(()) };
        if declared.edges == edges {
            return Ok(());
        }
        let what = format!("{} {} are declared here, but there are {edges}", declared.edges, declared.unit);
        Err(Error::Line { file: self.source.file().to_owned(), line: declared.line, what })
    }
}

impl EdgeSource for EdgeFiles {
    fn num_vertices(&self) -> Option<u64> {
        self.vertices
    }

    fn first_id(&self) -> u64 {
        self.first_id
    }

    fn orientation(&self) -> Orientation {
        self.orientation
    }

    fn weights(&self) -> WeightKind {
        self.weights
    }

    fn check_edge_count(&self, edges: u64) -> Result<()> {
        self.check_total(edges)
    }

    fn read_part(&self, part: usize, parts: usize, sink: &mut dyn FnMut(&[Edge])) -> Result<()> {
        let mut batcher = EdgeBatcher::new(sink);
        for (file, range) in self.ranges(part, parts)? {
            file.read_edges(range, &mut batcher)?;
        }
        batcher.finish();
        Ok(())
    }

    fn read_together(&self, comm: &Comm, sink: &mut dyn FnMut(&[Edge])) -> Result<()> {
        let (rank, ranks) = (comm.rank(), comm.size());
        let compressed_text: Vec<(&InputFile, &dyn TextReader)> =
            self.files.iter().filter_map(|file| Some((file, file.compressed_text()?))).collect();
        if ranks == 1 || compressed_text.is_empty() {
            return self.read_part(rank, ranks, sink);
        }
        // Before any rank passes edges on, which others would have to receive while they wait here.
        let own_comm = comm.dup()?;
        let mut batcher = EdgeBatcher::new(sink);
        let mut ranges = self.ranges(rank, ranks)?.into_iter().filter(|(file, _)| file.compressed_text().is_none());
        let plain = ranges.try_for_each(|(file, range)| file.read_edges(range, &mut batcher));
        // Even if this rank has failed, others ask it for lines.
        let handed_out = hand_out::read(&compressed_text, &own_comm, &mut batcher);
        batcher.finish();
        plain.and(handed_out)
    }

    fn read_vertex_ids(&self, part: usize, parts: usize, sink: &mut dyn FnMut(&[u64])) -> Result<()> {
        let mut ranges = self.ranges(part, parts)?.into_iter();
        ranges.try_for_each(|(file, range)| file.reader.read_vertex_ids(&file.source, range, sink))
    }

    fn is_sorted(&self) -> bool {
        self.sorted_file().is_some()
    }

    fn read_rows(&self, vertices: Range<u64>, sink: &mut dyn FnMut(&[Edge])) -> Result<()> {
        let Some((source, graph_file)) = self.sorted_file() else { return Ok(()) };
        let mut batcher = EdgeBatcher::new(sink);
        graph_file.read_rows(source, vertices, &mut batcher)?;
        batcher.finish();
        Ok(())
    }
}

/// Reads lines, each with an edge or none.
fn parse_lines(
    source: &SourceFile,
    mut lines: Lines<'_>,
    declared: Option<DeclaredEdges>,
    batcher: &mut EdgeBatcher<'_>,
    parse_edge: impl Fn(&[u8]) -> ParseResult<Option<Edge>>,
) -> Result<()> {
    let before = batcher.num_edges();
    while let Some((at, line)) = lines.next()? {
        match parse_edge(line) {
            Ok(Some(edge)) => {
                batcher.push(edge);
                declared.map_or(Ok(()), |declared| declared.check_limit(source, batcher.num_edges() - before))?;
            }
            Ok(None) => {}
            Err(what) => return Err(source.line_error(at, what)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_files_are_refused() {
        assert_eq!(EdgeFiles::open(&[], None).expect_err("none").to_string(), "no files to read edges from");
    }
}
