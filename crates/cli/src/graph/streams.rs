//! Input from pipes: rank 0 reads them into files without a name, which the ranks of its machine can open in parts.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use treepie::Comm;
use treepie_base::{AtomicFile, STANDARD_STREAM};

use crate::run;

/// The input files of a command.
pub(super) struct InputFiles {
    /// Where ranks find them.
    pub(super) paths: Vec<PathBuf>,
    /// What a user calls them.
    pub(super) names: Vec<String>,
    /// What rank 0 has read from pipes.
    _spooled: Vec<AtomicFile>,
}

impl InputFiles {
    /// Reads those that are pipes. Collective.
    pub(super) fn new(world: &Comm, files: &[PathBuf]) -> anyhow::Result<Self> {
        let names = files.iter().map(|file| name(file)).collect();
        let (mut paths, mut spooled) = (files.to_vec(), Vec::new());
        for path in &mut paths {
            // Only rank 0 has the standard input of the launcher, and what a shell substitutes.
            let read = if world.rank() == 0 && is_stream(path) { spool(path).map(Some) } else { Ok(None) };
            let file = run::agree(world, read)?;
            let there: Option<PathBuf> = world.bcast_object(Some(file.as_ref().map(AtomicFile::path)), 0)?;
            *path = there.unwrap_or_else(|| path.clone());
            spooled.extend(file);
        }
        Ok(Self { paths, names, _spooled: spooled })
    }

    /// Whether none of them has a name of its own.
    pub(super) fn are_streams(&self) -> bool {
        self.paths.iter().zip(&self.names).all(|(path, name)| path.display().to_string() != *name)
    }

    /// The text of an error with the names of the user.
    pub(super) fn rename(&self, mut text: String) -> String {
        for (path, name) in self.paths.iter().zip(&self.names) {
            let path = path.display().to_string();
            if path != *name {
                text = text.replace(&path, name);
            }
        }
        text
    }
}

fn name(file: &Path) -> String {
    if file == Path::new(STANDARD_STREAM) { "standard input".to_owned() } else { file.display().to_string() }
}

/// Whether a file is standard input, a pipe or a device: it can be read once, from its beginning.
pub(super) fn is_stream(file: &Path) -> bool {
    file == Path::new(STANDARD_STREAM)
        || file.metadata().is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

/// Copies a pipe into a file without a name.
fn spool(file: &Path) -> anyhow::Result<AtomicFile> {
    let copy = || -> io::Result<AtomicFile> {
        let mut spooled = AtomicFile::create(&std::env::temp_dir().join("treepie-input"))?;
        if file == Path::new(STANDARD_STREAM) {
            io::copy(&mut io::stdin().lock(), &mut spooled)?;
        } else {
            io::copy(&mut File::open(file)?, &mut spooled)?;
        }
        Ok(spooled)
    };
    copy().with_context(|| format!("cannot read {}", name(file)))
}

/// Refuses several uses of standard input.
pub(super) fn check(files: &[PathBuf]) -> anyhow::Result<()> {
    let standard = files.iter().filter(|file| file.as_path() == Path::new(STANDARD_STREAM)).count();
    ensure!(standard < 2, "standard input (`-`) can only be read once");
    Ok(())
}
