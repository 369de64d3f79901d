//! Graphs that were saved: see [`saved`](crate::saved) for how the file looks.
//!
//! A part has whole rows, those that begin in its share of vertices and arcs together; where that is, is searched for
//! among the offsets. Everything is read by blocks, whose checksums are looked at before anything in them is believed.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use super::packed::{at_byte, checked};
use super::source::{Source, fill};
use super::{Announced, Content, Facts};
use crate::outlet::Outlet;
use crate::saved::{BLOCK, HEAD, Head, Section, checksum, half, whole};
use crate::{Edge, Error, Result, Weights};

#[derive(Debug)]
pub(super) struct Saved {
    head: Head,
    /// Checksums of blocks.
    sums: Vec<u64>,
}

impl Saved {
    pub(super) fn open(source: &Source) -> Result<Self> {
        let mut reader = source.reader(0)?;
        let mut bytes = [0; HEAD];
        let read = fill(&mut reader, &mut bytes).map_err(|error| source.failed(&error))?;
        if read < HEAD {
            return Err(source.refused(format!("it ends within its head, after {read} of {HEAD} bytes")));
        }
        let head = Head::read(&bytes).map_err(|why| source.refused(why))?;
        let expected = head.bytes().unwrap_or(u64::MAX);
        if let Some(length) = source.length().filter(|length| *length != expected) {
            let (vertices, arcs) = (head.vertices, head.arcs);
            let why = format!("it has {length} bytes, but {vertices} vertices and {arcs} arcs have {expected}");
            return Err(source.refused(why));
        }
        source.check_room(0, &[(expected, 1, "bytes")])?;
        // How long a compressed file is, is not known: no room is made for what it only says.
        let mut bytes = bytes.to_vec();
        reader.take(8 * head.blocks()).read_to_end(&mut bytes).map_err(|error| source.failed(&error))?;
        if (bytes.len() as u64) < head.start() {
            return Err(source.refused(format!("it ends within its head, after {} bytes", bytes.len())));
        }
        if !Head::is_whole(&bytes) {
            return Err(source.refused("its head is not what was written: the checksum differs".into()));
        }
        let sums = bytes[HEAD..].chunks_exact(8).map(|sum| whole(sum, 0)).collect();
        Ok(Self { head, sums })
    }

    /// Gives the arcs of some rows.
    pub(super) fn rows(&self, source: &Source, rows: Range<u64>, outlet: &mut Outlet<'_>) -> Result<()> {
        // Without any rows there still is an offset, where they end.
        if rows.is_empty() && self.head.vertices > 0 {
            return Ok(());
        }
        let head = &self.head;
        let mut offsets = self.cursor(source, Section::Offsets, rows.start)?;
        let mut begin = offsets.whole()?;
        if begin > head.arcs || rows.start == 0 && begin != 0 {
            return Err(offsets.wrong(format!("rows begin at arc {begin}, which cannot be")));
        }
        let mut targets = self.cursor(source, Section::Targets, begin)?;
        let mut weights = match head.weights {
            Weights::None => None,
            kind => Some((kind, self.cursor(source, Section::Weights, begin)?)),
        };
        let mut names = if head.listed { Some(self.cursor(source, Section::Names, rows.start)?) } else { None };
        for row in rows.clone() {
            let end = offsets.whole()?;
            if end < begin || end > head.arcs {
                let last = head.arcs;
                return Err(offsets.wrong(format!("a row from arc {begin} to arc {end} of {last}, which cannot be")));
            }
            let from = names.as_mut().map_or(Ok(row), Cursor::whole)?;
            let mut before = (0, 0.0);
            for _ in begin..end {
                let to = if head.wide { targets.whole()? } else { u64::from(targets.half()?) };
                if to >= head.vertices && !head.listed {
                    return Err(targets.wrong(format!("an arc to vertex {to}, but there are {}", head.vertices)));
                }
                let weight = match &mut weights {
                    None => 1.0,
                    Some((kind, weights)) => weight(*kind, weights)?,
                };
                if (to, weight) < before {
                    return Err(targets.wrong(format!("arcs of vertex {from} are not in order")));
                }
                before = (to, weight);
                outlet.put(Edge { from, to, weight });
            }
            begin = end;
        }
        if rows.end == head.vertices && begin != head.arcs {
            return Err(offsets.wrong(format!("rows end with arc {begin}, but there are {}", head.arcs)));
        }
        Ok(())
    }

    /// The rows that belong to a range of bytes.
    fn rows_of(&self, source: &Source, range: Range<u64>) -> Result<Range<u64>> {
        let Some(length) = source.length() else { return Ok(0..self.head.vertices) };
        let file = File::open(source.file()).map_err(|error| source.failed(&error))?;
        let weight = |row: u64| -> Result<u128> {
            let mut bytes = [0; 8];
            let at = self.head.start() + self.head.at(Section::Offsets, row);
            file.read_exact_at(&mut bytes, at).map_err(|error| source.failed(&error))?;
            // Not believed: who reads this row finds out whether it is right.
            Ok(u128::from(u64::from_le_bytes(bytes)) + u128::from(row))
        };
        let all = u128::from(self.head.vertices) + u128::from(self.head.arcs);
        let bound = |byte: u64| -> Result<u64> {
            let (mut low, mut high) = (0, self.head.vertices);
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

    fn cursor<'a>(&'a self, source: &'a Source, section: Section, index: u64) -> Result<Cursor<'a>> {
        let at = self.head.at(section, index);
        let block = at / BLOCK;
        let reader = source.reader(self.head.start() + block * BLOCK)?;
        let (width, skipped) = (self.head.width(section) as usize, (at % BLOCK) as usize);
        Ok(Cursor { saved: self, source, reader, width, block, skipped, at: 0, buffer: Vec::new() })
    }
}

impl Content for Saved {
    fn facts(&self) -> Facts {
        let head = &self.head;
        Facts {
            vertices: (!head.listed).then_some(head.vertices),
            orientation: head.orientation(),
            weights: Some(head.weights),
            announced: Some(Announced { edges: head.arcs, unit: "arcs", line: 0 }),
        }
    }

    fn read(&self, source: &Source, range: Range<u64>, outlet: &mut Outlet<'_>) -> Result<()> {
        self.rows(source, self.rows_of(source, range)?, outlet)?;
        if source.is_compressed() {
            let end = self.head.start() + self.head.body();
            if fill(&mut source.reader(end)?, &mut [0]).map_err(|error| source.failed(&error))? > 0 {
                return Err(source.refused(format!("there is more than the {end} bytes that it says it has")));
            }
        }
        Ok(())
    }

    fn names(&self, source: &Source, range: Range<u64>, sink: &mut dyn FnMut(&[u64])) -> Result<()> {
        if !self.head.listed {
            return Ok(());
        }
        let rows = self.rows_of(source, range)?;
        let mut names = self.cursor(source, Section::Names, rows.start)?;
        rows.into_iter().try_for_each(|_| names.whole().map(|name| sink(&[name])))
    }

    fn rows(&self) -> Option<&Saved> {
        Some(self)
    }
}

#[inline]
fn weight(kind: Weights, weights: &mut Cursor<'_>) -> Result<f64> {
    let bits = weights.half()?;
    if kind == Weights::Whole {
        return Ok(f64::from(bits));
    }
    checked(f32::from_bits(bits)).map_err(|what| weights.wrong(what))
}

/// Numbers of one part of the file, one after the other.
struct Cursor<'a> {
    saved: &'a Saved,
    source: &'a Source,
    reader: Box<dyn Read>,
    /// Bytes of a number.
    width: usize,
    /// The block that is read next.
    block: u64,
    /// Bytes of the first block that are of no interest.
    skipped: usize,
    /// Where in the buffer, which is a block, the next number is.
    at: usize,
    buffer: Vec<u8>,
}

impl Cursor<'_> {
    #[inline]
    fn whole(&mut self) -> Result<u64> {
        let at = self.take()?;
        Ok(whole(&self.buffer, at))
    }

    #[inline]
    fn half(&mut self) -> Result<u32> {
        let at = self.take()?;
        Ok(half(&self.buffer, at))
    }

    /// Where in the buffer the next number is. None lies across blocks.
    #[inline]
    fn take(&mut self) -> Result<usize> {
        if self.at == self.buffer.len() {
            self.read_block()?;
        }
        self.at += self.width;
        Ok(self.at - self.width)
    }

    #[cold]
    fn read_block(&mut self) -> Result<()> {
        let begin = self.block * BLOCK;
        let length = BLOCK.min(self.saved.head.body() - begin) as usize;
        self.buffer.resize(length, 0);
        let read = fill(&mut self.reader, &mut self.buffer).map_err(|error| self.source.failed(&error))?;
        let first = self.saved.head.start() + begin;
        if read < length {
            return Err(self.source.refused(format!("it ends at byte {}, within its rows", first + read as u64)));
        }
        if checksum(begin, &self.buffer) != self.saved.sums[self.block as usize] {
            let last = first + length as u64 - 1;
            let why = format!("bytes {first} to {last} are not what was written: the checksum differs");
            return Err(self.source.refused(why));
        }
        self.block += 1;
        self.at = std::mem::take(&mut self.skipped);
        Ok(())
    }

    /// The number that was read last is wrong.
    #[cold]
    fn wrong(&self, what: String) -> Error {
        let block = self.saved.head.start() + (self.block - 1) * BLOCK;
        at_byte(self.source, block + (self.at - self.width) as u64, what)
    }
}
