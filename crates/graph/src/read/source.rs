//! An input file: readers from any offset, and the line numbers of errors.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::compression::Compression;
use super::lines::Lines;
use crate::{Error, Result};

/// An input file, compressed or not.
#[derive(Debug)]
pub(super) struct SourceFile {
    file: PathBuf,
    compression: Option<Compression>,
    /// Bytes of the file, as stored.
    length: u64,
}

impl SourceFile {
    pub(super) fn open(file: &Path) -> Result<Self> {
        Self::open_as(file, Compression::of_extension(file))
    }

    /// The same; a file of text that has no extension is compressed if it begins like that.
    pub(super) fn open_text(file: &Path) -> Result<Self> {
        Self::open_as(file, None).map(|source| Self { compression: Compression::of(file), ..source })
    }

    fn open_as(file: &Path, compression: Option<Compression>) -> Result<Self> {
        let file_error = |why: String| Error::File { file: file.to_owned(), why };
        let metadata = std::fs::metadata(file).map_err(|error| file_error(error.to_string()))?;
        if !metadata.is_file() {
            return Err(file_error("not a regular file, and parts of others cannot be read".into()));
        }
        Ok(Self { file: file.to_owned(), compression, length: metadata.len() })
    }

    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    pub(super) fn is_compressed(&self) -> bool {
        self.compression.is_some()
    }

    pub(super) fn compression(&self) -> Option<Compression> {
        self.compression
    }

    /// The number of bytes, unless the file is compressed: then it is unknown.
    pub(super) fn length(&self) -> Option<u64> {
        (!self.is_compressed()).then_some(self.length)
    }

    /// The range of all bytes; of a compressed file an upper bound.
    pub(super) fn full_range(&self) -> Range<u64> {
        0..self.length().unwrap_or(u64::MAX)
    }

    /// A reader from a byte on. All before it is decompressed, too, if the file is compressed.
    pub(super) fn reader(&self, from: u64) -> Result<Box<dyn Read>> {
        let open = || -> io::Result<Box<dyn Read>> {
            let mut file = File::open(&self.file)?;
            let Some(compression) = self.compression else {
                file.seek(SeekFrom::Start(from))?;
                return Ok(Box::new(file));
            };
            let mut decompressed = compression.reader(file);
            io::copy(&mut decompressed.by_ref().take(from), &mut io::sink())?;
            Ok(decompressed)
        };
        open().map_err(|error| self.io_error(&error))
    }

    /// Refuses large declared counts that cannot fit into the file; each comes with the least bytes of one item. Small
    /// ones do no harm, and are checked against the actual counts later.
    pub(super) fn check_declared_size(&self, at: u64, claims: &[(u64, u64, &str)]) -> Result<()> {
        const LARGE: u64 = 1 << 24;
        let most = self.compression.map_or(self.length, |compression| {
            let ratio = compression.max_ratio();
            self.length.saturating_mul(ratio).saturating_add(ratio)
        });
        match claims.iter().find(|(count, bytes, _)| *count > LARGE && count.saturating_mul(*bytes) > most + bytes) {
            Some((count, _, what)) => {
                let length = self.length;
                Err(self.line_error(at, format!("{count} {what} cannot be in a file of {length} bytes")))
            }
            None => Ok(()),
        }
    }

    /// The lines that begin in a byte range, but not before `body_offset`, where a line begins.
    pub(super) fn lines(&self, range: Range<u64>, body_offset: u64) -> Result<Lines<'_>> {
        if range.start <= body_offset {
            return Ok(Lines::new(self, self.reader(body_offset)?, body_offset, range.end));
        }
        // A line begins at the start of the range only if a newline precedes it.
        let mut lines = Lines::new(self, self.reader(range.start - 1)?, range.start - 1, range.end);
        lines.skip_partial_line()?;
        Ok(lines)
    }

    /// The error of a file that cannot be read or decompressed.
    pub(super) fn io_error(&self, error: &io::Error) -> Error {
        // Errors of the system have a code, those of the decompression library have none.
        let is_decompressing = self.is_compressed() && error.raw_os_error().is_none();
        self.file_error(if is_decompressing {
            format!("it cannot be decompressed: {error}")
        } else {
            error.to_string()
        })
    }

    /// An error of the file as a whole.
    pub(super) fn file_error(&self, why: String) -> Error {
        Error::File { file: self.file.clone(), why }
    }

    /// An error in the line that begins at an offset. Counts the lines before it.
    pub(super) fn line_error(&self, at: u64, what: String) -> Error {
        match self.line_number(at) {
            Ok(line) => Error::Line { file: self.file.clone(), line, what },
            Err(error) => error,
        }
    }

    /// The number of the line that begins at an offset.
    pub(super) fn line_number(&self, at: u64) -> Result<u64> {
        let mut before = self.reader(0)?.take(at);
        let mut buffer = vec![0; 1 << 16];
        let mut line = 1;
        loop {
            match read_full(&mut before, &mut buffer).map_err(|error| self.io_error(&error))? {
                0 => return Ok(line),
                read => line += buffer[..read].iter().filter(|byte| **byte == b'\n').count() as u64,
            }
        }
    }
}

/// Reads until the buffer is full or the file ends. Returns the number of bytes.
pub(super) fn read_full(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that returns one byte at a time, and is interrupted before each.
    struct Slow<'a>(&'a [u8], bool);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let most = buffer.len().min(1);
            self.0.read(&mut buffer[..most])
        }
    }

    #[test]
    fn buffers_are_filled_whatever_a_read_gives() {
        let mut slow = Slow(b"abcdefg", false);
        let mut buffer = [0; 5];
        assert_eq!((read_full(&mut slow, &mut buffer).ok(), &buffer), (Some(5), b"abcde"));
        assert_eq!((read_full(&mut slow, &mut buffer).ok(), &buffer[..2]), (Some(2), &b"fg"[..]));
        assert_eq!(read_full(&mut slow, &mut buffer).ok(), Some(0));
    }

    #[test]
    fn what_is_not_a_file_is_refused() {
        let refused = SourceFile::open(Path::new("/")).expect_err("a directory").to_string();
        assert_eq!(refused, "/: not a regular file, and parts of others cannot be read");
        let refused = SourceFile::open(Path::new("/no/such.txt")).expect_err("not there").to_string();
        assert!(refused.starts_with("/no/such.txt: No such file"), "{refused}");
    }
}
