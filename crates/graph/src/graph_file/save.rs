//! The writer of saved graphs: each rank writes the rows of its local vertices.
//!
//! Rows are in the order of global ids. If external ids are 0 to n-1, or 1 to n, in another order, the graph is rebuilt with block
//! distribution and then written.

use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use treepie_base::AtomicFile;
use treepie_comm::{Comm, Max, Xor};

use super::{BLOCK_BYTES, GraphFileHeader, Section, checksum, word_checksum};
use crate::agree::agree;
use crate::hash::hash_words;
use crate::{BuildOptions, Edge, EdgeSource, EdgeWeight, Error, Graph, Orientation, Result, WeightKind};

impl<W: EdgeWeight> Graph<W> {
    /// Saves the graph to a file, which [`read`](Graph::read) loads on any number of ranks. The file is replaced
    /// atomically when all is written, and is unchanged if that fails. All ranks call it, and must share the directory.
    pub fn save(&self, file: impl AsRef<Path>) -> Result<()> {
        let (comm, file) = (self.comm(), file.as_ref());
        self.require_unsplit_rows("saving a graph")?;
        let local_ids = self.local_vertices().map(|local_index| self.external_id(local_index));
        let bound = local_ids.clone().max().map_or(0, |max_id| max_id.saturating_add(1));
        let has_zero = local_ids.clone().any(|id| id == 0);
        // External ids that count from 0 or from 1 are global ids in this distribution.
        let is_unordered = [0, 1].map(|first_id| {
            let in_order = self.first_global_id() + first_id..;
            local_ids.clone().zip(in_order).any(|(external_id, expected)| external_id != expected)
        });
        let [no_zero_based_order, no_one_based_order] = is_unordered.map(u64::from);
        let maxima = comm.allreduce(&[bound, u64::from(has_zero), no_zero_based_order, no_one_based_order], Max)?;
        let (bound, has_zero) = (maxima[0], maxima[1] == 1);
        // Ids are distinct, so they are 0 to n-1 unless one is n or more, and 1 to n without 0 unless one is more.
        let is_one_based = bound == self.num_vertices() + 1 && !has_zero;
        let has_explicit_ids = bound > self.num_vertices() && !is_one_based;
        let is_ordered = maxima[2 + usize::from(is_one_based)] == 0;
        let view_ids = self.view_external_ids()?;
        let has_wide_targets = bound > 1 << 32;
        let (vertices, arcs) = (self.num_vertices(), self.num_arcs());
        let header = GraphFileHeader {
            vertices,
            arcs,
            weights: W::KIND,
            symmetric: self.is_symmetric(),
            has_explicit_ids,
            has_wide_targets,
            is_one_based,
        };
        if is_ordered || has_explicit_ids {
            return write_file(self, &view_ids, &header, file);
        }
        let options = BuildOptions { store_in_edges: false, ..BuildOptions::default() };
        let edges = LocalEdges { graph: self, external_ids: &view_ids, first_id: header.first_id() };
        let rebuilt = Self::build_weighted_with(comm, &edges, &options)?;
        let view_ids = rebuilt.view_external_ids()?;
        write_file(&rebuilt, &view_ids, &header, file)
    }

    /// The external id of the vertex at each index of the view. All ranks call it.
    fn view_external_ids(&self) -> Result<Vec<u64>> {
        self.with_ghosts(self.local_vertices().map(|local_index| self.external_id(local_index)))
    }
}

/// An edge source of the arcs of a graph: each rank has those of its local vertices.
struct LocalEdges<'a, W> {
    graph: &'a Graph<W>,
    external_ids: &'a [u64],
    first_id: u64,
}

impl<W: EdgeWeight> EdgeSource for LocalEdges<'_, W> {
    fn num_vertices(&self) -> Option<u64> {
        Some(self.graph.num_vertices())
    }

    fn first_id(&self) -> u64 {
        self.first_id
    }

    fn orientation(&self) -> Orientation {
        Orientation::Directed
    }

    fn weights(&self) -> WeightKind {
        W::KIND
    }

    fn read_part(&self, _: usize, _: usize, sink: &mut dyn FnMut(&[Edge])) -> Result<()> {
        let mut batcher = crate::edge_batcher::EdgeBatcher::new(sink);
        for row in self.graph.local_vertices() {
            let from = self.graph.external_id(row);
            for arc in self.graph.out_edges().row(row) {
                let weight = match W::KIND {
                    WeightKind::None => 1.0,
                    WeightKind::Integer => f64::from(arc.weight.bits()),
                    WeightKind::Real => f64::from(f32::from_bits(arc.weight.bits())),
                };
                batcher.push(Edge { from, to: self.external_ids[arc.target as usize], weight });
            }
        }
        batcher.finish();
        Ok(())
    }
}

/// Writes a graph to a file atomically. All ranks call it.
fn write_file<W: EdgeWeight>(graph: &Graph<W>, view_ids: &[u64], header: &GraphFileHeader, file: &Path) -> Result<()> {
    let failed = |error: io::Error| Error::File { file: file.to_owned(), why: error.to_string() };
    let comm = graph.comm();
    let is_first = comm.rank() == 0;
    let counts = comm.allgather(&[graph.out_edges().num_arcs()])?;
    let before: u64 = counts[..comm.rank()].iter().sum();
    let (atomic, shared) = open_shared(comm, file, header)?;

    let rows = || -> io::Result<Vec<u64>> {
        let mut out = BlockWriter::new(shared, header);
        write_rows(&mut out, graph, view_ids, header, before)?;
        if is_first {
            header
                .padding_words()
                .for_each(|word| out.checksums[(4 * word / BLOCK_BYTES) as usize] ^= word_checksum(word, 0));
        }
        out.file.sync_all()?;
        Ok(out.checksums)
    };
    let mut checksums = agree(comm, rows().map_err(failed))?;
    comm.allreduce_in_place(&mut checksums, Xor)?;
    let committed = atomic.map_or(Ok(()), |atomic| commit(atomic, &header.to_bytes(&checksums)));
    agree(comm, committed.map_err(failed))
}

/// Opens a file of the final length on all ranks; rank 0 commits it. All ranks call it.
///
/// On one machine it has no name yet, so nothing is left of it if the ranks are killed. Ranks on other machines need a
/// name.
fn open_shared(comm: &Comm, file: &Path, header: &GraphFileHeader) -> Result<(Option<AtomicFile>, File)> {
    let failed = |error: io::Error| Error::File { file: file.to_owned(), why: error.to_string() };
    let is_first = comm.rank() == 0;
    let mut attempts = [AtomicFile::create, AtomicFile::create_named].into_iter().peekable();
    while let Some(create) = attempts.next() {
        let created = if is_first { preallocate(create(file), header).map(Some) } else { Ok(None) };
        let created = agree(comm, created.map_err(failed))?;
        let path = bcast_path(comm, created.as_ref().map(|(atomic, _)| atomic.path()).unwrap_or_default())?;
        let mut mark = [created.as_ref().map_or(0, |(_, mark)| *mark)];
        comm.bcast(&mut mark, 0)?;
        let shared = File::options().read(true).write(true).open(&path).and_then(|shared| check_mark(shared, mark[0]));
        let atomic = created.map(|(atomic, _)| atomic);
        let is_missing = comm.allreduce(&[u64::from(shared.is_err())], Max)?[0] == 1;
        if !is_missing || attempts.peek().is_none() {
            return agree(comm, shared.map_err(failed)).map(|shared| (atomic, shared));
        }
    }
    unreachable!("the last attempt returns")
}

/// Sets the length of the file, and marks it: on another machine the same path may be another file.
fn preallocate(file: io::Result<AtomicFile>, header: &GraphFileHeader) -> io::Result<(AtomicFile, u64)> {
    let file = file?;
    if !file.is_regular() {
        return Err(io::Error::other("not a regular file, and ranks write parts of it"));
    }
    file.file().set_len(header.file_bytes().ok_or_else(|| io::Error::other("the file would be too long"))?)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let mark = hash_words([now, std::process::id().into()]);
    // The header is written last, over the mark.
    file.file().write_all_at(&mark.to_le_bytes(), 0)?;
    Ok((file, mark))
}

/// Checks that a file is the one that rank 0 has created.
fn check_mark(file: File, mark: u64) -> io::Result<File> {
    let mut found = [0; 8];
    file.read_exact_at(&mut found, 0)?;
    let is_same = u64::from_le_bytes(found) == mark;
    is_same.then_some(file).ok_or_else(|| io::Error::other("ranks see different files under the same path"))
}

/// Writes the header and commits the file.
fn commit(file: AtomicFile, header: &[u8]) -> io::Result<()> {
    file.file().write_all_at(header, 0)?;
    file.commit().map(drop)
}

/// Broadcasts the path of rank 0. All ranks call it.
fn bcast_path(comm: &Comm, path: PathBuf) -> Result<PathBuf> {
    let mut length = [path.as_os_str().len() as u64];
    comm.bcast(&mut length, 0)?;
    let mut bytes = path.as_os_str().as_bytes().to_vec();
    bytes.resize(length[0] as usize, 0);
    comm.bcast(&mut bytes, 0)?;
    Ok(std::ffi::OsString::from_vec(bytes).into())
}

/// Writes the rows of this rank; `before` is the number of arcs of lower ranks.
fn write_rows<W: EdgeWeight>(
    out: &mut BlockWriter,
    graph: &Graph<W>,
    view_ids: &[u64],
    header: &GraphFileHeader,
    before: u64,
) -> io::Result<()> {
    let (layout, rows) = (graph.layout(), graph.out_edges());
    let first = graph.first_global_id();
    let mut offsets = SectionWriter::new(header, Section::Offsets, first);
    let mut targets = SectionWriter::new(header, Section::Targets, before);
    let mut weights = SectionWriter::new(header, Section::Weights, before);
    let mut vertex_ids = SectionWriter::new(header, Section::VertexIds, first);
    let mut offset = before;
    let mut sorted: Vec<(u64, u32)> = Vec::new();
    for row in 0..rows.len() {
        offsets.push(out, offset)?;
        offset += rows.degree(row);
        if header.has_explicit_ids {
            vertex_ids.push(out, layout.external_id(row))?;
        }
        sorted.clear();
        sorted.extend(rows.row(row).iter().map(|arc| (view_ids[arc.target as usize], arc.weight.bits())));
        // Mostly one or two sorted runs, which this sort detects.
        sorted.sort();
        for (to, bits) in &sorted {
            targets.push(out, *to)?;
            if header.weights != WeightKind::None {
                weights.push(out, u64::from(*bits))?;
            }
        }
    }
    if layout.rank() + 1 == layout.num_ranks() {
        offsets.push(out, offset)?;
    }
    [offsets, targets, weights, vertex_ids].iter_mut().try_for_each(|section| section.flush(out))
}

/// The file, and this rank's contribution to its checksums.
struct BlockWriter {
    file: File,
    body_offset: u64,
    checksums: Vec<u64>,
}

impl BlockWriter {
    fn new(file: File, header: &GraphFileHeader) -> Self {
        Self { file, body_offset: header.body_offset(), checksums: vec![0; header.num_blocks() as usize] }
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let at = at + (bytes.len() - rest.len()) as u64;
            let (now, later) = rest.split_at(rest.len().min((BLOCK_BYTES - at % BLOCK_BYTES) as usize));
            self.checksums[(at / BLOCK_BYTES) as usize] ^= checksum(at, now);
            rest = later;
        }
        self.file.write_all_at(bytes, self.body_offset + at)
    }
}

/// A buffered writer of the numbers of a section.
struct SectionWriter {
    /// The offset of the buffer in the body.
    at: u64,
    width: usize,
    buffer: Vec<u8>,
}

impl SectionWriter {
    fn new(header: &GraphFileHeader, section: Section, index: u64) -> Self {
        Self { at: header.offset(section, index), width: header.width(section) as usize, buffer: Vec::new() }
    }

    #[inline]
    fn push(&mut self, out: &mut BlockWriter, number: u64) -> io::Result<()> {
        self.buffer.extend_from_slice(&number.to_le_bytes()[..self.width]);
        if self.buffer.len() as u64 >= BLOCK_BYTES { self.flush(out) } else { Ok(()) }
    }

    fn flush(&mut self, out: &mut BlockWriter) -> io::Result<()> {
        out.write(self.at, &self.buffer)?;
        self.at += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}
