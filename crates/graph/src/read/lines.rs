//! Lines of a file, one after the other, in a buffer that grows if one is longer.

use std::io::{self, Read};

use super::source::Source;
use crate::{Error, Result};

/// So much is read at a time: enough that the system call does not count, little enough for the second cache.
const BLOCK: usize = 1 << 18;

/// Lines may be so long, unless a format has longer ones: a file without lines is not to fill the memory.
const LONGEST: usize = 1 << 20;

/// Bytes of a word and what parts it from the next: twice as many as the longest number has.
const WORD: u64 = 40;

/// Lines that begin before a byte. Not an iterator: a line lies in the buffer, and only until the next is asked for.
pub(super) struct Lines<'a> {
    source: &'a Source,
    reader: Box<dyn Read>,
    buffer: Vec<u8>,
    /// Bytes of the buffer that were read.
    filled: usize,
    /// Where in the buffer the next line begins.
    next: usize,
    /// Where in the file it does.
    at: u64,
    /// Lines that begin here or later are not given.
    end: u64,
    longest: usize,
    has_ended: bool,
}

impl<'a> Lines<'a> {
    /// Lines of a reader that is at byte `at` of the file.
    pub(super) fn new(source: &'a Source, reader: Box<dyn Read>, at: u64, end: u64) -> Self {
        Self { source, reader, buffer: Vec::new(), filled: 0, next: 0, at, end, longest: LONGEST, has_ended: false }
    }

    /// Lines may be longer than usual: they have so many words.
    pub(super) fn of_words(mut self, words: u64) -> Self {
        let longest = words.saturating_mul(WORD).saturating_add(LONGEST as u64);
        self.longest = usize::try_from(longest).unwrap_or(usize::MAX);
        self
    }

    /// The next line, without what ends it, and the byte of the file where it begins.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<(u64, &[u8])>> {
        if self.at >= self.end {
            return Ok(None);
        }
        let mut length = newline(&self.buffer[self.next..self.filled]);
        if length.is_none() {
            length = self.read_on()?;
        }
        let Some(length) = length else { return Ok(None) };
        if length > self.longest {
            return Err(self.too_long());
        }
        let (at, next) = (self.at, self.next);
        // The last line of a file may have no end.
        self.next = self.filled.min(next + length + 1);
        self.at += (self.next - next) as u64;
        Ok(Some((at, &self.buffer[next..next + length])))
    }

    /// The byte of the file where the next line begins.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Leaves out what belongs to the line before the first, without keeping it.
    pub(super) fn skip_one(&mut self) -> Result<()> {
        loop {
            if let Some(length) = newline(&self.buffer[self.next..self.filled]) {
                self.next += length + 1;
                self.at += length as u64 + 1;
                return Ok(());
            }
            self.at += (self.filled - self.next) as u64;
            self.next = self.filled;
            self.read_block()?;
            if self.has_ended {
                return Ok(());
            }
        }
    }

    /// The line that begins in the buffer does not end in it. Reads until it does. Returns its length if there is one.
    #[cold]
    fn read_on(&mut self) -> Result<Option<usize>> {
        loop {
            let searched = self.filled - self.next;
            if searched > self.longest {
                return Err(self.too_long());
            }
            self.read_block()?;
            if self.has_ended {
                return Ok((searched > 0).then_some(searched));
            }
            if let Some(length) = newline(&self.buffer[self.next + searched..self.filled]) {
                return Ok(Some(searched + length));
            }
        }
    }

    #[cold]
    fn too_long(&self) -> Error {
        self.source.wrong(self.at, format!("a line of more than {} bytes", self.longest))
    }

    /// Reads behind what is in the buffer, and drops the lines in it that were given.
    fn read_block(&mut self) -> Result<()> {
        self.buffer.copy_within(self.next..self.filled, 0);
        self.filled -= self.next;
        self.next = 0;
        if self.buffer.len() < self.filled + BLOCK / 2 {
            let more = self.buffer.len().max(BLOCK);
            // A line may be long because the file says so.
            if self.buffer.try_reserve_exact(more).is_err() {
                return Err(self
                    .source
                    .wrong(self.at, format!("a line of more than {} bytes: no memory", self.filled)));
            }
            self.buffer.resize(self.buffer.len() + more, 0);
        }
        loop {
            match self.reader.read(&mut self.buffer[self.filled..]) {
                Ok(read) => {
                    self.filled += read;
                    self.has_ended = read == 0;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.source.failed(&error)),
            }
        }
    }
}

#[inline]
fn newline(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == b'\n')
}
