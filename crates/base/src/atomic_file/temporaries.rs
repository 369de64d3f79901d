//! A list of temporary names that is kept by the launcher of a job, and outlives the processes that write it.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, MemfdFlags, flock, memfd_create};

/// Name of the variable that says where the list is.
pub const TEMPORARIES: &str = "TREEPIE_TEMPORARIES";

/// What the first entry holds: the path of a launcher that is gone may lead to anything.
const MAGIC: &[u8] = b"treepie: temporary names\0";

/// The list, on the launcher's side: shared memory of entries of [`Temporaries::ENTRY`] bytes, each an absolute path that
/// ends with a zero byte, or empty. The first one only says what it is.
#[derive(Debug)]
pub struct Temporaries(File);

impl Temporaries {
    /// The bytes of an entry: the longest path that the kernel takes.
    pub const ENTRY: usize = 4096;

    /// An empty list.
    pub fn new() -> io::Result<Self> {
        let file = File::from(memfd_create("treepie-temporaries", MemfdFlags::CLOEXEC)?);
        file.write_all_at(&entry(MAGIC), 0)?;
        Ok(Self(file))
    }

    /// What [`TEMPORARIES`] is to be for the processes of the job.
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()).into()
    }

    /// Removes the files that are listed. Nobody may write any more.
    pub fn sweep(&self) {
        let mut bytes = [0; Self::ENTRY];
        let mut at = Self::ENTRY as u64;
        while self.0.read_exact_at(&mut bytes, at).is_ok() {
            let path = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
            if !path.is_empty() {
                // It may be gone by itself.
                let _ = fs::remove_file(Path::new(std::ffi::OsStr::from_bytes(path)));
            }
            at += Self::ENTRY as u64;
        }
    }
}

impl AsFd for Temporaries {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A name in the list, until it is dropped.
#[derive(Debug)]
pub(super) struct Entry {
    list: File,
    at: u64,
}

impl Entry {
    /// Lists a name, if there is a list. Without one, or if it cannot be written, a writer that is killed leaves its file.
    pub(super) fn new(path: &Path) -> Option<Self> {
        Self::in_list(Path::new(&std::env::var_os(TEMPORARIES)?), path)
    }

    pub(super) fn in_list(list: &Path, path: &Path) -> Option<Self> {
        let path = std::path::absolute(path).ok()?;
        let path = path.as_os_str().as_bytes();
        if path.len() >= Temporaries::ENTRY {
            return None;
        }
        let list = File::options().read(true).write(true).open(list).ok()?;
        let mut magic = [0; MAGIC.len()];
        list.read_exact_at(&mut magic, 0).ok().filter(|()| magic == MAGIC)?;
        flock(&list, FlockOperation::LockExclusive).ok()?;
        let at = free_entry(&list)?;
        let written = list.write_all_at(&entry(path), at);
        flock(&list, FlockOperation::Unlock).ok()?;
        written.ok().map(|()| Self { list, at })
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // A name that stays in the list is looked for in vain.
        let _ = self.list.write_all_at(&[0], self.at);
    }
}

/// Where the next name goes: an entry that was given up, or the end. The first entry only says what the list is.
fn free_entry(list: &File) -> Option<u64> {
    let len = list.metadata().ok()?.len();
    let step = Temporaries::ENTRY as u64;
    let is_free = |at: &u64| {
        let mut first = [1];
        list.read_exact_at(&mut first, *at).is_ok() && first == [0]
    };
    (step..len).step_by(Temporaries::ENTRY).find(is_free).or(Some(len))
}

fn entry(text: &[u8]) -> [u8; Temporaries::ENTRY] {
    let mut bytes = [0; Temporaries::ENTRY];
    bytes[..text.len()].copy_from_slice(text);
    bytes
}
