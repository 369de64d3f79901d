//! Files that are written all or not at all.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, ensure};

/// A file while it is written: under another name until all of it is there. What is not finished is removed.
pub(super) struct Whole<'a> {
    path: &'a Path,
    /// The other name; none where there is no file, as for a pipe.
    partial: Option<OsString>,
    out: BufWriter<File>,
}

impl<'a> Whole<'a> {
    /// Opens it, so that a place that cannot be written is known before anything is simulated.
    pub(super) fn create(path: &'a Path) -> anyhow::Result<Self> {
        let name = path.display();
        ensure!(!path.is_dir(), "cannot write {name}: it is a directory");
        let is_file = fs::metadata(path).map_or(true, |found| found.is_file());
        let partial = is_file.then(|| {
            let mut partial = path.as_os_str().to_owned();
            partial.push(".partial");
            partial
        });
        let file = match &partial {
            Some(partial) => File::create(partial),
            None => File::options().write(true).open(path),
        };
        let out = BufWriter::new(file.with_context(|| format!("cannot write {name}"))?);
        Ok(Self { path, partial, out })
    }

    /// Writes all of it.
    pub(super) fn write(mut self, text: impl FnOnce(&mut dyn fmt::Write) -> fmt::Result) -> anyhow::Result<()> {
        let mut streamed = Streamed { out: &mut self.out, failed: None };
        let told = text(&mut streamed);
        let mut written = match streamed.failed {
            Some(error) => Err(error),
            None => told.map_err(io::Error::other).and_then(|()| self.out.flush()),
        };
        if written.is_ok()
            && let Some(partial) = &self.partial
        {
            written = fs::rename(partial, self.path);
            if written.is_ok() {
                self.partial = None;
            }
        }
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

impl Drop for Whole<'_> {
    fn drop(&mut self) {
        if let Some(partial) = &self.partial {
            // It may not be removable either; whoever could not write has told why.
            let _ = fs::remove_file(partial);
        }
    }
}

/// Text to a file, without a copy of all of it. Why it failed is kept, as text has no place for it.
struct Streamed<'a> {
    out: &'a mut BufWriter<File>,
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
