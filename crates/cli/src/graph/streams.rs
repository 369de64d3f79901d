//! Input from pipes: rank 0 reads them into files without a name, which the ranks of its machine can open in parts.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
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
    /// Lists directories, and reads those that are pipes. Collective.
    pub(super) fn new(world: &Comm, files: &[PathBuf]) -> anyhow::Result<Self> {
        // Only rank 0 has the standard input of the launcher, and what a shell substitutes.
        let is_first = world.rank() == 0;
        let listed = run::agree(world, if is_first { list(files) } else { Ok(Vec::new()) })?;
        // Paths need not be UTF-8.
        let bytes = |path: &PathBuf| path.as_os_str().as_bytes().to_vec();
        let listed: Vec<Vec<u8>> = listed.iter().map(bytes).collect();
        let listed = world.bcast_object(is_first.then_some(listed), 0)?;
        let mut paths: Vec<PathBuf> = listed.into_iter().map(|bytes| OsString::from_vec(bytes).into()).collect();
        let names = paths.iter().map(|file| name(file)).collect();
        let mut spooled = Vec::new();
        for path in &mut paths {
            let read = if is_first && is_stream(path) { spool(path).map(Some) } else { Ok(None) };
            let file = run::agree(world, read)?;
            // By its number rather than a temporary name, if it has one: without an extension its first bytes tell what it is.
            let there = file.as_ref().map(|file| (std::process::id(), file.file().as_raw_fd()));
            if let Some((pid, fd)) = world.bcast_object(Some(there), 0)? {
                *path = format!("/proc/{pid}/fd/{fd}").into();
            }
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

/// The files, with those of a directory in its place, in the order of their names. Hidden ones are not for readers.
fn list(files: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut listed = Vec::new();
    for file in files {
        if !file.is_dir() {
            listed.push(file.clone());
            continue;
        }
        let entries = fs::read_dir(file).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
        let mut inside: Vec<PathBuf> = entries.with_context(|| format!("cannot read {}", file.display()))?;
        let is_hidden = |file: &PathBuf| file.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        // The weights of a Graph 500 file are read with it.
        let has_weights = |file: &PathBuf| file.to_string_lossy().contains(".packed.weights");
        inside.retain(|file| file.is_file() && !is_hidden(file) && !has_weights(file));
        ensure!(!inside.is_empty(), "{}: there are no files in this directory", file.display());
        inside.sort();
        listed.append(&mut inside);
    }
    Ok(listed)
}

fn name(file: &Path) -> String {
    if file == Path::new(STANDARD_STREAM) { "standard input".to_owned() } else { file.display().to_string() }
}

/// Whether a file is standard input, a pipe or a device: it can be read once, from its beginning.
pub(super) fn is_stream(file: &Path) -> bool {
    // Other ranks have other files under these names.
    let is_descriptor =
        file == Path::new("/dev/stdin") || file.starts_with("/dev/fd") || file.starts_with("/proc/self");
    file == Path::new(STANDARD_STREAM)
        || is_descriptor
        || file.metadata().is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

/// Copies a pipe into a file without a name.
fn spool(file: &Path) -> anyhow::Result<AtomicFile> {
    let copy = || -> io::Result<AtomicFile> {
        let mut spooled = AtomicFile::scratch(&std::env::temp_dir())?;
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
