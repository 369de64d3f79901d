//! The project's own benchmarks with plain MPI, compiled for one run.

use std::fs::{self, DirBuilder, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;

use super::super::job::{HANGS_AFTER, Job};

/// What all of them include.
const HEADER: &str = include_str!("peer.h");

const COMPILED_WITHIN: Duration = HANGS_AFTER;

/// A program in C.
pub(super) struct Source {
    pub(super) name: &'static str,
    pub(super) text: &'static str,
}

/// The compiled program. Its file has no name any more: nothing is left of it when this process ends, in whatever way.
pub(super) struct Peer(File);

impl Peer {
    /// Compiles the program.
    pub(super) fn compile(mpicc: &Path, source: &Source) -> anyhow::Result<Self> {
        let directory = Temporary::new()?;
        let write = |name: &str, text: &str| {
            let path = directory.0.join(name);
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display())).map(|()| path)
        };
        write("peer.h", HEADER)?;
        let (source, program) = (write(&format!("{}.c", source.name), source.text)?, directory.0.join(source.name));
        let compiler = Job::new([mpicc]).with(["-std=c99", "-O2"]).with([&source]).with(["-o"]).with([&program]);
        compiler.output(COMPILED_WITHIN)?;
        let program = File::open(&program).with_context(|| format!("{} wrote no program", mpicc.display()))?;
        Ok(Self(program))
    }

    /// Where it can be started from, while this value exists.
    pub(super) fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()).into()
    }
}

/// A directory of this process alone, removed with all it holds at the end.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> anyhow::Result<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let path = std::env::temp_dir().join(format!("treepie-{}-{now}", std::process::id()));
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.with_context(|| format!("cannot make the directory {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // There is nobody to tell, and the system clears its temporary directory.
        let _ = fs::remove_dir_all(&self.0);
    }
}
