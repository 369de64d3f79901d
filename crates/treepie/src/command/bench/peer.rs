//! The project's own benchmarks with plain MPI, compiled for one run.

use std::fs::{self, DirBuilder, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use rustix::fs::{Mode, OFlags};

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
            let path = directory.path().join(name);
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display())).map(|()| path)
        };
        write("peer.h", HEADER)?;
        let (source, program) =
            (write(&format!("{}.c", source.name), source.text)?, directory.path().join(source.name));
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
struct Temporary {
    name: PathBuf,
    open: File,
}

impl Temporary {
    fn new() -> anyhow::Result<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let name = std::env::temp_dir().join(format!("treepie-{}-{now}", std::process::id()));
        let open = || -> std::io::Result<File> {
            DirBuilder::new().mode(0o700).create(&name)?;
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let open = File::from(rustix::fs::open(&name, flags, Mode::empty())?);
            // Where temporary files go others may put another one in its place.
            let about = open.metadata()?;
            let is_own = about.uid() == rustix::process::geteuid().as_raw() && about.mode() & 0o077 == 0;
            is_own.then_some(open).ok_or_else(|| std::io::Error::other("another user has replaced it"))
        };
        let open = open().with_context(|| format!("cannot make the directory {}", name.display()))?;
        Ok(Self { name, open })
    }

    /// Leads to the directory that was made, whoever moves it, and for other processes, too.
    fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.open.as_raw_fd()).into()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // There is nobody to tell, and the system clears its temporary directory.
        let _ = fs::remove_dir_all(&self.name);
    }
}
