//! The MPI counterparts of the benchmarks in C, compiled for one run.

use std::fs::{self, DirBuilder, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use rustix::fs::{Mode, OFlags};

use crate::job::{HANG_TIMEOUT, Job};

/// The common header.
const HEADER: &str = include_str!("peer.h");

const COMPILE_TIMEOUT: Duration = HANG_TIMEOUT;

/// A C program.
pub(crate) struct Source {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
}

/// The compiled program. Its file is already unlinked, so nothing is left when this process ends.
pub(crate) struct Peer(File);

impl Peer {
    /// Compiles the program.
    pub(crate) fn compile(mpicc: &Path, source: &Source) -> anyhow::Result<Self> {
        let directory = TempDir::new()?;
        let write = |name: &str, text: &str| {
            let path = directory.path().join(name);
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display())).map(|()| path)
        };
        write("peer.h", HEADER)?;
        let (source, program) =
            (write(&format!("{}.c", source.name), source.text)?, directory.path().join(source.name));
        let compiler = Job::new([mpicc]).args(["-std=c99", "-O2"]).args([&source]).args(["-o"]).args([&program]);
        compiler.output(COMPILE_TIMEOUT)?;
        let program = File::open(&program).with_context(|| format!("{} wrote no program", mpicc.display()))?;
        Ok(Self(program))
    }

    /// The path to start it from, valid while this value exists.
    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()).into()
    }
}

/// A private temporary directory, removed on drop.
pub(crate) struct TempDir {
    name: PathBuf,
    handle: File,
}

impl TempDir {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let name = std::env::temp_dir().join(format!("treepie-{}-{now}", std::process::id()));
        let open = || -> std::io::Result<File> {
            DirBuilder::new().mode(0o700).create(&name)?;
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let open = File::from(rustix::fs::open(&name, flags, Mode::empty())?);
            // Other users may replace it in the temporary directory.
            let metadata = open.metadata()?;
            let is_private = metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & 0o077 == 0;
            is_private.then_some(open).ok_or_else(|| std::io::Error::other("another user has replaced it"))
        };
        let handle = open().with_context(|| format!("cannot create the directory {}", name.display()))?;
        Ok(Self { name, handle })
    }

    /// A path to the created directory even if it is moved, valid in other processes too.
    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.handle.as_raw_fd()).into()
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // Errors are ignored: the system clears its temporary directory.
        let _ = fs::remove_dir_all(&self.name);
    }
}
