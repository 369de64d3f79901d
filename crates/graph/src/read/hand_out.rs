//! Compressed text: the rank that decompresses a file hands blocks of lines to the ranks that ask for them.
//!
//! Decompression takes one core, and what is done with the lines may take several. Each rank decompresses its files, parses
//! blocks that no other rank waits for, and then asks the ranks that still decompress. [`ASKED_AHEAD`] requests of each rank
//! wait at a decompressor, so the next block arrives while one is parsed.
//!
//! A block is a message: its lines, the offset of the first one in the decompressed file, and its row. An empty message is the
//! answer to a request that came after the last block. So each rank gets [`ASKED_AHEAD`] of these from each decompressor, which
//! is how both know that no message is left.

use std::io::{Cursor, Read};

use treepie_base::{ANY_SOURCE, Tag};
use treepie_comm::{Comm, Request};

use super::lines::Lines;
use super::source::read_full;
use super::{InputFile, TextReader};
use crate::Result;
use crate::edge_batcher::EdgeBatcher;

const REQUEST: Tag = 1;
const BLOCK: Tag = 2;

/// Bytes of a block, unless a line is longer: many per rank, but each takes longer to parse than to send.
const BLOCK_BYTES: usize = 1 << 18;

/// Blocks that a rank has asked for.
const ASKED_AHEAD: usize = 2;

/// Blocks on their way, at most.
const MAX_SENDS: usize = 64;

/// Lines of a file.
struct Block {
    /// Its file, by position.
    file: usize,
    /// The offset and the row of its first line.
    offset: u64,
    row: u64,
    text: Vec<u8>,
}

/// Bytes of a message besides the lines.
const TRAILER_BYTES: usize = 24;

impl Block {
    fn into_message(self) -> Vec<u8> {
        let mut message = self.text;
        [self.file as u64, self.offset, self.row].iter().for_each(|word| message.extend(word.to_le_bytes()));
        message
    }

    /// `None` for an empty message.
    fn from_message(mut message: Vec<u8>) -> Option<Self> {
        let length = message.len().checked_sub(TRAILER_BYTES)?;
        let word = |index: usize| {
            let begin = length + 8 * index;
            u64::from_le_bytes(message[begin..begin + 8].try_into().expect("eight bytes"))
        };
        let (file, offset, row) = (word(0) as usize, word(1), word(2));
        message.truncate(length);
        Some(Self { file, offset, row, text: message })
    }
}

/// The blocks of a file.
struct Blocks<'a> {
    file: usize,
    input: &'a InputFile,
    text: &'a dyn TextReader,
    reader: Box<dyn Read>,
    /// The beginning of the next line.
    rest: Vec<u8>,
    offset: u64,
    row: u64,
    is_eof: bool,
}

impl<'a> Blocks<'a> {
    fn new(file: usize, input: &'a InputFile, text: &'a dyn TextReader) -> Result<Self> {
        let offset = text.body_offset();
        let reader = input.source.reader(offset)?;
        Ok(Self { file, input, text, reader, rest: Vec::new(), offset, row: 0, is_eof: false })
    }

    /// The next block: whole lines.
    fn next(&mut self) -> Result<Option<Block>> {
        let mut text = Vec::with_capacity(BLOCK_BYTES + self.rest.len() + TRAILER_BYTES);
        text.append(&mut self.rest);
        while !self.is_eof {
            let begin = text.len();
            text.resize(begin + BLOCK_BYTES, 0);
            let read = read_full(&mut self.reader, &mut text[begin..]);
            let read = read.map_err(|error| self.input.source.io_error(&error))?;
            self.is_eof = read < BLOCK_BYTES;
            text.truncate(begin + read);
            if let Some(newline) = text[begin..].iter().rposition(|byte| *byte == b'\n') {
                self.rest = text[begin + newline + 1..].to_vec();
                text.truncate(begin + newline + 1);
                break;
            }
            // Who parses it refuses it.
            if text.len() > self.text.max_line_bytes() {
                break;
            }
        }
        if self.is_eof && text.is_empty() {
            text.append(&mut self.rest);
        }
        if text.is_empty() {
            self.text.check_rows(&self.input.source, self.row)?;
            return Ok(None);
        }
        let block = Block { file: self.file, offset: self.offset, row: self.row, text };
        self.offset += block.text.len() as u64;
        self.row += self.text.num_rows(&block.text);
        Ok(Some(block))
    }
}

/// The files that a rank decompresses, one after the other.
struct OwnFiles<'a> {
    files: Vec<(usize, &'a InputFile, &'a dyn TextReader)>,
    blocks: Option<Blocks<'a>>,
}

impl OwnFiles<'_> {
    fn next(&mut self) -> Result<Option<Block>> {
        loop {
            if let Some(blocks) = &mut self.blocks {
                if let Some(block) = blocks.next()? {
                    return Ok(Some(block));
                }
                self.blocks = None;
            }
            let Some((file, input, text)) = self.files.pop() else { return Ok(None) };
            self.blocks = Some(Blocks::new(file, input, text)?);
        }
    }
}

/// Reads files of compressed text; rank i decompresses files i, i + P, and so on. All ranks call it, with a communicator of its
/// own.
pub(super) fn read(files: &[(&InputFile, &dyn TextReader)], comm: &Comm, batcher: &mut EdgeBatcher<'_>) -> Result<()> {
    let (rank, ranks) = (comm.rank(), comm.size());
    let own = files.iter().enumerate().skip(rank).step_by(ranks);
    let files_of_rank = own.map(|(index, (input, text))| (index, *input, *text)).rev().collect();
    let mut own = OwnFiles { files: files_of_rank, blocks: None };
    let decompressors = files.len().min(ranks);
    // Each rank begins with another one.
    let mut others = (0..decompressors).map(|turn| (rank + turn) % decompressors).filter(|other| *other != rank);
    let mut asked = others.next();
    let (mut has_asked, mut ends_received) = (false, 0);
    let mut ends_to_send = if rank < decompressors { ASKED_AHEAD * (ranks - 1) } else { 0 };
    let mut sends: Vec<Request<'static, Vec<u8>>> = Vec::new();
    let (mut fault, mut is_exhausted) = (Ok(()), false);
    // Edges of each file on this rank. More than are declared are refused before they exhaust the memory.
    let mut edges = vec![0; files.len()];
    let mut parse = |block: Block, fault: &mut Result<()>, batcher: &mut EdgeBatcher<'_>| {
        if fault.is_ok() {
            let (input, text) = files[block.file];
            let before = batcher.num_edges();
            let (offset, end) = (block.offset, block.offset + block.text.len() as u64);
            let lines = Lines::new(&input.source, Box::new(Cursor::new(block.text)), offset, end);
            *fault = text.read_lines(&input.source, lines, block.row, batcher);
            edges[block.file] += batcher.num_edges() - before;
            if let (Ok(()), Some(declared)) = (&fault, input.reader.metadata().declared) {
                *fault = declared.check_limit(&input.source, edges[block.file]);
            }
        }
    };
    let mut next = |fault: &mut Result<()>| {
        let block = if fault.is_ok() { own.next() } else { Ok(None) };
        block.unwrap_or_else(|error| {
            *fault = Err(error);
            None
        })
    };
    loop {
        for index in (0..sends.len()).rev() {
            if let Some(sent) = sends[index].test() {
                sent?;
                drop(sends.swap_remove(index));
            }
        }
        let request = if sends.len() < MAX_SENDS { comm.improbe(ANY_SOURCE, REQUEST)? } else { None };
        if let Some(request) = request {
            let from = request.status().source;
            request.recv_vec::<u8>()?;
            let block = if is_exhausted { None } else { next(&mut fault) };
            is_exhausted = block.is_none();
            ends_to_send -= usize::from(is_exhausted);
            sends.push(comm.isend(block.map_or_else(Vec::new, Block::into_message), from, BLOCK)?);
        } else if !is_exhausted {
            match next(&mut fault) {
                Some(block) => parse(block, &mut fault, batcher),
                None => is_exhausted = true,
            }
        } else if let Some(other) = asked {
            if !has_asked {
                (0..ASKED_AHEAD).try_for_each(|_| comm.send::<u8>(&[], other, REQUEST))?;
                (has_asked, ends_received) = (true, 0);
            }
            match comm.improbe(other, BLOCK)? {
                Some(message) => match Block::from_message(message.recv_vec::<u8>()?) {
                    Some(block) => {
                        comm.send::<u8>(&[], other, REQUEST)?;
                        parse(block, &mut fault, batcher);
                    }
                    None => {
                        ends_received += 1;
                        if ends_received == ASKED_AHEAD {
                            (asked, has_asked) = (others.next(), false);
                        }
                    }
                },
                None => batcher.idle(),
            }
        } else if ends_to_send > 0 || !sends.is_empty() {
            batcher.idle();
        } else {
            return fault;
        }
    }
}
