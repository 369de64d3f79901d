//! The reader of saved graphs, whose format is in [`graph_file`](crate::graph_file).
//!
//! A part has whole rows, balanced by vertices plus arcs; its bounds are found by binary search in the offsets. Data is
//! read in blocks, whose checksums are verified before their contents are used.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use super::packed::{byte_error, check_weight};
use super::source::{SourceFile, read_full};
use super::{DeclaredEdges, FormatReader, Metadata};
use crate::edge_batcher::EdgeBatcher;
use crate::graph_file::{BLOCK_BYTES, GraphFileHeader, HEADER_BYTES, Section, checksum, read_u32, read_u64};
use crate::{Edge, Error, Result, WeightKind};

#[derive(Debug)]
pub(super) struct GraphFile {
    header: GraphFileHeader,
    /// Checksums of the blocks.
    checksums: Vec<u64>,
}

impl GraphFile {
    pub(super) fn open(source: &SourceFile) -> Result<Self> {
        let mut reader = source.reader(0)?;
        let mut bytes = [0; HEADER_BYTES];
        let read = read_full(&mut reader, &mut bytes).map_err(|error| source.io_error(&error))?;
        if read < HEADER_BYTES {
            return Err(source.file_error(format!("it ends within its header, after {read} of {HEADER_BYTES} bytes")));
        }
        let header = GraphFileHeader::parse(&bytes).map_err(|why| source.file_error(why))?;
        let expected = header.file_bytes().unwrap_or(u64::MAX);
        if let Some(length) = source.length().filter(|length| *length != expected) {
            let (vertices, arcs) = (header.vertices, header.arcs);
            let why = format!("it has {length} bytes, but {vertices} vertices and {arcs} arcs have {expected}");
            return Err(source.file_error(why));
        }
        source.check_declared_size(0, &[(expected, 1, "bytes")])?;
        // The length of a compressed file is unknown: no memory is reserved for what it only declares.
        let mut bytes = bytes.to_vec();
        reader.take(8 * header.num_blocks()).read_to_end(&mut bytes).map_err(|error| source.io_error(&error))?;
        if (bytes.len() as u64) < header.body_offset() {
            return Err(source.file_error(format!("it ends within its header, after {} bytes", bytes.len())));
        }
        if !GraphFileHeader::has_valid_checksum(&bytes) {
            return Err(source.file_error("its header is not what was written: the checksum differs".into()));
        }
        let checksums = bytes[HEADER_BYTES..].chunks_exact(8).map(|sum| read_u64(sum, 0)).collect();
        Ok(Self { header, checksums })
    }

    /// Reads the arcs of some rows.
    pub(super) fn read_rows(&self, source: &SourceFile, rows: Range<u64>, batcher: &mut EdgeBatcher<'_>) -> Result<()> {
        // Without vertices there still is one offset, the end.
        if rows.is_empty() && self.header.vertices > 0 {
            return Ok(());
        }
        let header = &self.header;
        let mut offsets = self.cursor(source, Section::Offsets, rows.start)?;
        let mut begin = offsets.read_u64()?;
        if begin > header.arcs || rows.start == 0 && begin != 0 {
            return Err(offsets.error(format!("rows begin at arc {begin}, which is impossible")));
        }
        let mut targets = self.cursor(source, Section::Targets, begin)?;
        let mut weights = match header.weights {
            WeightKind::None => None,
            kind => Some((kind, self.cursor(source, Section::Weights, begin)?)),
        };
        let mut vertex_ids =
            if header.has_explicit_ids { Some(self.cursor(source, Section::VertexIds, rows.start)?) } else { None };
        let first_id = header.first_id();
        for row in rows.clone() {
            let end = offsets.read_u64()?;
            if end < begin || end > header.arcs {
                let last = header.arcs;
                return Err(
                    offsets.error(format!("a row from arc {begin} to arc {end} of {last}, which is impossible"))
                );
            }
            let from = vertex_ids.as_mut().map_or(Ok(first_id + row), SectionReader::read_u64)?;
            let mut before = (0, 0.0);
            for _ in begin..end {
                let to = if header.has_wide_targets { targets.read_u64()? } else { u64::from(targets.read_u32()?) };
                if !header.has_explicit_ids && to.checked_sub(first_id).is_none_or(|vertex| vertex >= header.vertices) {
                    return Err(targets.error(format!("an arc to vertex {to}, but there are {}", header.vertices)));
                }
                let weight = match &mut weights {
                    None => 1.0,
                    Some((kind, weights)) => read_weight(*kind, weights)?,
                };
                if (to, weight) < before {
                    return Err(targets.error(format!("arcs of vertex {from} are not in order")));
                }
                before = (to, weight);
                batcher.push(Edge { from, to, weight });
            }
            begin = end;
        }
        if rows.end == header.vertices && begin != header.arcs {
            return Err(offsets.error(format!("rows end with arc {begin}, but there are {}", header.arcs)));
        }
        Ok(())
    }

    /// The rows of the part with a byte range.
    fn rows_of_range(&self, source: &SourceFile, range: Range<u64>) -> Result<Range<u64>> {
        let Some(length) = source.length() else { return Ok(0..self.header.vertices) };
        let file = File::open(source.file()).map_err(|error| source.io_error(&error))?;
        let weight = |row: u64| -> Result<u128> {
            let mut bytes = [0; 8];
            let at = self.header.body_offset() + self.header.offset(Section::Offsets, row);
            file.read_exact_at(&mut bytes, at).map_err(|error| source.io_error(&error))?;
            // Not verified here: the part that reads this row verifies it.
            Ok(u128::from(u64::from_le_bytes(bytes)) + u128::from(row))
        };
        let all = u128::from(self.header.vertices) + u128::from(self.header.arcs);
        let bound = |byte: u64| -> Result<u64> {
            let (mut low, mut high) = (0, self.header.vertices);
            if byte == length {
                return Ok(high);
            }
            let before = u128::from(byte) * all / u128::from(length.max(1));
            while low < high {
                let middle = low + (high - low) / 2;
                if weight(middle)? < before { low = middle + 1 } else { high = middle }
            }
            Ok(low)
        };
        Ok(bound(range.start)?..bound(range.end)?)
    }

    fn cursor<'a>(&'a self, source: &'a SourceFile, section: Section, index: u64) -> Result<SectionReader<'a>> {
        let at = self.header.offset(section, index);
        let block = at / BLOCK_BYTES;
        let reader = source.reader(self.header.body_offset() + block * BLOCK_BYTES)?;
        let (width, skipped) = (self.header.width(section) as usize, (at % BLOCK_BYTES) as usize);
        Ok(SectionReader { file: self, source, reader, width, block, skipped, at: 0, buffer: Vec::new() })
    }
}

impl FormatReader for GraphFile {
    fn metadata(&self) -> Metadata {
        let header = &self.header;
        Metadata {
            vertices: (!header.has_explicit_ids).then_some(header.vertices),
            first_id: header.first_id(),
            orientation: header.orientation(),
            weights: Some(header.weights),
            declared: Some(DeclaredEdges { edges: header.arcs, unit: "arcs", line: 0 }),
        }
    }

    fn read_edges(&self, source: &SourceFile, range: Range<u64>, batcher: &mut EdgeBatcher<'_>) -> Result<()> {
        self.read_rows(source, self.rows_of_range(source, range)?, batcher)?;
        if source.is_compressed() {
            let end = self.header.body_offset() + self.header.body_bytes();
            if read_full(&mut source.reader(end)?, &mut [0]).map_err(|error| source.io_error(&error))? > 0 {
                return Err(source.file_error(format!("it has more than the {end} bytes that its header declares")));
            }
        }
        Ok(())
    }

    fn read_vertex_ids(&self, source: &SourceFile, range: Range<u64>, sink: &mut dyn FnMut(&[u64])) -> Result<()> {
        if !self.header.has_explicit_ids {
            return Ok(());
        }
        let rows = self.rows_of_range(source, range)?;
        let mut vertex_ids = self.cursor(source, Section::VertexIds, rows.start)?;
        rows.into_iter().try_for_each(|_| vertex_ids.read_u64().map(|vertex_id| sink(&[vertex_id])))
    }

    fn as_graph_file(&self) -> Option<&GraphFile> {
        Some(self)
    }
}

#[inline]
fn read_weight(kind: WeightKind, weights: &mut SectionReader<'_>) -> Result<f64> {
    let bits = weights.read_u32()?;
    if kind == WeightKind::Integer {
        return Ok(f64::from(bits));
    }
    check_weight(f32::from_bits(bits)).map_err(|what| weights.error(what))
}

/// A sequential reader of the numbers of a section.
struct SectionReader<'a> {
    file: &'a GraphFile,
    source: &'a SourceFile,
    reader: Box<dyn Read>,
    /// Bytes of a number.
    width: usize,
    /// The next block to read.
    block: u64,
    /// Bytes of the first block to skip.
    skipped: usize,
    /// The position of the next number in the buffer, which is one block.
    at: usize,
    buffer: Vec<u8>,
}

impl SectionReader<'_> {
    #[inline]
    fn read_u64(&mut self) -> Result<u64> {
        let at = self.advance()?;
        Ok(read_u64(&self.buffer, at))
    }

    #[inline]
    fn read_u32(&mut self) -> Result<u32> {
        let at = self.advance()?;
        Ok(read_u32(&self.buffer, at))
    }

    /// The position of the next number in the buffer. No number crosses blocks.
    #[inline]
    fn advance(&mut self) -> Result<usize> {
        if self.at == self.buffer.len() {
            self.read_block()?;
        }
        self.at += self.width;
        Ok(self.at - self.width)
    }

    #[cold]
    fn read_block(&mut self) -> Result<()> {
        let begin = self.block * BLOCK_BYTES;
        let length = BLOCK_BYTES.min(self.file.header.body_bytes() - begin) as usize;
        self.buffer.resize(length, 0);
        let read = read_full(&mut self.reader, &mut self.buffer).map_err(|error| self.source.io_error(&error))?;
        let first = self.file.header.body_offset() + begin;
        if read < length {
            return Err(self.source.file_error(format!("it ends at byte {}, within its rows", first + read as u64)));
        }
        if checksum(begin, &self.buffer) != self.file.checksums[self.block as usize] {
            let last = first + length as u64 - 1;
            let why = format!("bytes {first} to {last} are not what was written: the checksum differs");
            return Err(self.source.file_error(why));
        }
        self.block += 1;
        self.at = std::mem::take(&mut self.skipped);
        Ok(())
    }

    /// An error at the number that was read last.
    #[cold]
    fn error(&self, what: String) -> Error {
        let block = self.file.header.body_offset() + (self.block - 1) * BLOCK_BYTES;
        byte_error(self.source, block + (self.at - self.width) as u64, what)
    }
}
