//! Files that are written all or not at all.

use std::fmt;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use treepie_base::AtomicFile;

/// A file while text is written to it. It appears when all of it is there.
pub(super) struct Whole<'a> {
    path: &'a Path,
    out: BufWriter<AtomicFile>,
}

impl<'a> Whole<'a> {
    /// Opens it, so that a place that cannot be written is known before anything is simulated.
    pub(super) fn create(path: &'a Path) -> anyhow::Result<Self> {
        let file = AtomicFile::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path, out: BufWriter::new(file) })
    }

    /// Writes all of it.
    pub(super) fn write(mut self, text: impl FnOnce(&mut dyn fmt::Write) -> fmt::Result) -> anyhow::Result<()> {
        let mut streamed = Streamed { out: &mut self.out, failed: None };
        let told = text(&mut streamed);
        let written = match streamed.failed {
            Some(error) => Err(error),
            None => told.map_err(io::Error::other),
        };
        let finished = written.and_then(|()| self.out.into_inner().map_err(io::IntoInnerError::into_error));
        let placed = finished.and_then(AtomicFile::commit);
        placed.map(drop).with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// Text to a file, without a copy of all of it. Why it failed is kept, as text has no place for it.
struct Streamed<'a> {
    out: &'a mut BufWriter<AtomicFile>,
    failed: Option<io::Error>,
}

impl fmt::Write for Streamed<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.out.write_all(text.as_bytes()).map_err(|error| {
            self.failed = Some(error);
            fmt::Error
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_not_finished_leaves_what_was_there() {
        let directory = std::env::temp_dir().join(format!("treepie-whole-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("file");
        fs::write(&path, "before").unwrap();
        drop(Whole::create(&path).unwrap());
        assert!(Whole::create(&path).unwrap().write(|_| Err(fmt::Error)).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        Whole::create(&path).unwrap().write(|out| out.write_str("after")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "after");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "nothing else is left");
        assert!(Whole::create(&directory).is_err());
        fs::remove_dir_all(&directory).unwrap();
    }
}
