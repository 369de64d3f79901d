//! Text files that are written atomically: completely or not at all.

use std::fmt;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use treepie_base::AtomicFile;

/// A text file being written. It appears under its name once complete.
pub(super) struct AtomicTextFile<'a> {
    path: &'a Path,
    out: BufWriter<AtomicFile>,
}

impl<'a> AtomicTextFile<'a> {
    /// Opens it, so that an unwritable path is an error before anything is simulated.
    pub(super) fn create(path: &'a Path) -> anyhow::Result<Self> {
        let file = AtomicFile::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path, out: BufWriter::new(file) })
    }

    /// Writes the text and commits the file.
    pub(super) fn write(mut self, text: impl FnOnce(&mut dyn fmt::Write) -> fmt::Result) -> anyhow::Result<()> {
        let mut streamed = FmtAdapter { out: &mut self.out, error: None };
        let formatted = text(&mut streamed);
        let written = match streamed.error {
            Some(error) => Err(error),
            None => formatted.map_err(io::Error::other),
        };
        let finished = written.and_then(|()| self.out.into_inner().map_err(io::IntoInnerError::into_error));
        let committed = finished.and_then(AtomicFile::commit);
        committed.map(drop).with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// Streams `fmt::Write` output to the file. Stores the I/O error, which `fmt::Error` cannot carry.
struct FmtAdapter<'a> {
    out: &'a mut BufWriter<AtomicFile>,
    error: Option<io::Error>,
}

impl fmt::Write for FmtAdapter<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.out.write_all(text.as_bytes()).map_err(|error| {
            self.error = Some(error);
            fmt::Error
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_unfinished_write_leaves_the_existing_file() {
        let directory = std::env::temp_dir().join(format!("treepie-whole-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("file");
        fs::write(&path, "before").unwrap();
        drop(AtomicTextFile::create(&path).unwrap());
        assert!(AtomicTextFile::create(&path).unwrap().write(|_| Err(fmt::Error)).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        AtomicTextFile::create(&path).unwrap().write(|out| out.write_str("after")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "after");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "nothing else is left");
        assert!(AtomicTextFile::create(&directory).is_err());
        fs::remove_dir_all(&directory).unwrap();
    }
}
