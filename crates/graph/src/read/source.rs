//! One file, from any byte on, and where in it something is wrong.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use super::format::is_compressed;
use super::lines::Lines;
use crate::{Error, Result};

/// A byte of a compressed file becomes less than so many: two bits for 258 bytes are the best that deflate can do.
const RATIO: u64 = 1040;

/// A file with edges, perhaps a compressed one.
#[derive(Debug)]
pub(super) struct Source {
    file: PathBuf,
    is_compressed: bool,
    /// Bytes of the file. How many come out of a compressed one is not known before they do.
    length: u64,
}

impl Source {
    pub(super) fn open(file: &Path) -> Result<Self> {
        let wrong = |why: String| Error::File { file: file.to_owned(), why };
        let about = std::fs::metadata(file).map_err(|error| wrong(error.to_string()))?;
        if !about.is_file() {
            return Err(wrong("not a regular file, and parts of others cannot be read".into()));
        }
        Ok(Self { file: file.to_owned(), is_compressed: is_compressed(file), length: about.len() })
    }

    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    pub(super) fn is_compressed(&self) -> bool {
        self.is_compressed
    }

    /// The length of what is read, unless that is compressed.
    pub(super) fn length(&self) -> Option<u64> {
        (!self.is_compressed).then_some(self.length)
    }

    /// Everything there is to read. It ends earlier if the file does.
    pub(super) fn all(&self) -> Range<u64> {
        0..self.length().unwrap_or(u64::MAX)
    }

    /// What is in the file, from a byte on. In a compressed one all before it is unpacked, too.
    pub(super) fn reader(&self, from: u64) -> Result<Box<dyn Read>> {
        let open = || -> io::Result<Box<dyn Read>> {
            let mut file = File::open(&self.file)?;
            if !self.is_compressed {
                file.seek(SeekFrom::Start(from))?;
                return Ok(Box::new(file));
            }
            let mut unpacked = MultiGzDecoder::new(io::BufReader::with_capacity(1 << 16, file));
            io::copy(&mut unpacked.by_ref().take(from), &mut io::sink())?;
            Ok(Box::new(unpacked))
        };
        open().map_err(|error| self.failed(&error))
    }

    /// Refuses large numbers that the file cannot have room for, each with the bytes that one of its things takes at
    /// least. Small ones harm nobody, and are refused with what was found instead.
    pub(super) fn check_room(&self, at: u64, claims: &[(u64, u64, &str)]) -> Result<()> {
        const LARGE: u64 = 1 << 24;
        let most =
            if self.is_compressed { self.length.saturating_mul(RATIO).saturating_add(RATIO) } else { self.length };
        match claims.iter().find(|(count, bytes, _)| *count > LARGE && count.saturating_mul(*bytes) > most + bytes) {
            Some((count, _, what)) => {
                let length = self.length;
                Err(self.wrong(at, format!("{count} {what} cannot be in a file of {length} bytes")))
            }
            None => Ok(()),
        }
    }

    /// The lines that begin in a range of bytes, but not before `body`, where a line begins.
    pub(super) fn lines(&self, range: Range<u64>, body: u64) -> Result<Lines<'_>> {
        if range.start <= body {
            return Ok(Lines::new(self, self.reader(body)?, body, range.end));
        }
        // A line begins with the range only if another ends just before it.
        let mut lines = Lines::new(self, self.reader(range.start - 1)?, range.start - 1, range.end);
        lines.skip_one()?;
        Ok(lines)
    }

    /// The file cannot be read, or not be unpacked.
    pub(super) fn failed(&self, error: &io::Error) -> Error {
        // Errors of the system have a number, those of the library that unpacks have none.
        let is_unpacking = self.is_compressed && error.raw_os_error().is_none();
        self.refused(if is_unpacking { format!("it cannot be unpacked: {error}") } else { error.to_string() })
    }

    /// The file as a whole is wrong.
    pub(super) fn refused(&self, why: String) -> Error {
        Error::File { file: self.file.clone(), why }
    }

    /// Something is wrong in the line that begins at a byte. Lines before it are only counted now.
    pub(super) fn wrong(&self, at: u64, what: String) -> Error {
        match self.line(at) {
            Ok(line) => Error::Line { file: self.file.clone(), line, what },
            Err(error) => error,
        }
    }

    /// The number of the line that begins at a byte.
    pub(super) fn line(&self, at: u64) -> Result<u64> {
        let mut before = self.reader(0)?.take(at);
        let mut buffer = vec![0; 1 << 16];
        let mut line = 1;
        loop {
            match fill(&mut before, &mut buffer).map_err(|error| self.failed(&error))? {
                0 => return Ok(line),
                read => line += buffer[..read].iter().filter(|byte| **byte == b'\n').count() as u64,
            }
        }
    }
}

/// Reads until the buffer is full or the file ends. Returns how much there was.
pub(super) fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
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

    /// A reader that gives one byte at a time, and is interrupted before each.
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
        assert_eq!((fill(&mut slow, &mut buffer).ok(), &buffer), (Some(5), b"abcde"));
        assert_eq!((fill(&mut slow, &mut buffer).ok(), &buffer[..2]), (Some(2), &b"fg"[..]));
        assert_eq!(fill(&mut slow, &mut buffer).ok(), Some(0));
    }

    #[test]
    fn what_is_not_a_file_is_refused() {
        let refused = Source::open(Path::new("/")).expect_err("a directory").to_string();
        assert_eq!(refused, "/: not a regular file, and parts of others cannot be read");
        let refused = Source::open(Path::new("/no/such.txt")).expect_err("not there").to_string();
        assert!(refused.starts_with("/no/such.txt: No such file"), "{refused}");
    }
}
