//! Buffered lines of a file; the buffer grows for long lines.

use std::io::{self, Read};

use super::source::SourceFile;
use crate::{Error, Result};

/// Bytes of a read: enough to amortize the system call, few enough for the L2 cache.
const BLOCK_BYTES: usize = 1 << 18;

/// The longest line, unless the format has longer ones: a file without newlines must not exhaust the memory.
pub(super) const MAX_LINE_BYTES: usize = 1 << 20;

/// Bytes of a token and its separator: twice those of the longest number.
const TOKEN_BYTES: u64 = 40;

/// Lines that begin before a byte offset. Not an iterator: a line borrows the buffer until the next call.
pub(super) struct Lines<'a> {
    source: &'a SourceFile,
    reader: Box<dyn Read>,
    buffer: Vec<u8>,
    /// Valid bytes of the buffer.
    filled: usize,
    /// The start of the next line in the buffer.
    next: usize,
    /// Its offset in the file.
    offset: u64,
    /// Lines that begin at this offset or later are not returned.
    end: u64,
    max_line_bytes: usize,
    is_eof: bool,
}

/// Bytes of a line of up to `max_tokens` tokens.
pub(super) fn bytes_of_tokens(max_tokens: u64) -> usize {
    let bytes = max_tokens.saturating_mul(TOKEN_BYTES).saturating_add(MAX_LINE_BYTES as u64);
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

impl<'a> Lines<'a> {
    /// Lines of a reader that is at `offset` of the file.
    pub(super) fn new(source: &'a SourceFile, reader: Box<dyn Read>, offset: u64, end: u64) -> Self {
        Self {
            source,
            reader,
            buffer: Vec::new(),
            filled: 0,
            next: 0,
            offset,
            end,
            max_line_bytes: MAX_LINE_BYTES,
            is_eof: false,
        }
    }

    /// Allows longer lines.
    pub(super) fn with_max_line_bytes(self, max_line_bytes: usize) -> Self {
        Self { max_line_bytes, ..self }
    }

    /// The next line, without its newline, and its offset in the file.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<(u64, &[u8])>> {
        if self.offset >= self.end {
            return Ok(None);
        }
        let mut length = find_newline(&self.buffer[self.next..self.filled]);
        if length.is_none() {
            length = self.read_to_newline()?;
        }
        let Some(length) = length else { return Ok(None) };
        if length > self.max_line_bytes {
            return Err(self.line_too_long());
        }
        let (offset, next) = (self.offset, self.next);
        // The last line of a file may have no newline.
        self.next = self.filled.min(next + length + 1);
        self.offset += (self.next - next) as u64;
        Ok(Some((offset, &self.buffer[next..next + length])))
    }

    /// What the buffer has from the next line on, and the bytes of it in which lines may begin. The last line may be incomplete.
    #[inline]
    pub(super) fn buffered(&self) -> (&[u8], usize) {
        let bytes = &self.buffer[self.next..self.filled];
        let left = self.end.saturating_sub(self.offset);
        (bytes, usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len())))
    }

    /// Skips complete lines of the buffer.
    #[inline]
    pub(super) fn skip_buffered(&mut self, bytes: usize) {
        self.next += bytes;
        self.offset += bytes as u64;
    }

    /// The offset of the next line in the file.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Skips the rest of a line that began before, without buffering it.
    pub(super) fn skip_partial_line(&mut self) -> Result<()> {
        loop {
            if let Some(length) = find_newline(&self.buffer[self.next..self.filled]) {
                self.next += length + 1;
                self.offset += length as u64 + 1;
                return Ok(());
            }
            self.offset += (self.filled - self.next) as u64;
            self.next = self.filled;
            self.read_block()?;
            if self.is_eof {
                return Ok(());
            }
        }
    }

    /// Reads until the line that begins in the buffer ends in it. Returns its length, or `None` at the end of the file.
    #[cold]
    fn read_to_newline(&mut self) -> Result<Option<usize>> {
        loop {
            let searched = self.filled - self.next;
            if searched > self.max_line_bytes {
                return Err(self.line_too_long());
            }
            self.read_block()?;
            if self.is_eof {
                return Ok((searched > 0).then_some(searched));
            }
            if let Some(length) = find_newline(&self.buffer[self.next + searched..self.filled]) {
                return Ok(Some(searched + length));
            }
        }
    }

    #[cold]
    fn line_too_long(&self) -> Error {
        self.source.line_error(self.offset, format!("a line of more than {} bytes", self.max_line_bytes))
    }

    /// Appends a block to the buffer, after dropping the lines that were returned.
    fn read_block(&mut self) -> Result<()> {
        self.buffer.copy_within(self.next..self.filled, 0);
        self.filled -= self.next;
        self.next = 0;
        if self.buffer.len() < self.filled + BLOCK_BYTES / 2 {
            let more = self.buffer.len().max(BLOCK_BYTES);
            // The file declares how long lines may be, so memory may run out.
            if self.buffer.try_reserve_exact(more).is_err() {
                return Err(self
                    .source
                    .line_error(self.offset, format!("a line of more than {} bytes: no memory", self.filled)));
            }
            self.buffer.resize(self.buffer.len() + more, 0);
        }
        loop {
            match self.reader.read(&mut self.buffer[self.filled..]) {
                Ok(read) => {
                    self.filled += read;
                    self.is_eof = read == 0;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.source.io_error(&error)),
            }
        }
    }
}

#[inline]
fn find_newline(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == b'\n')
}
