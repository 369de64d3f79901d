//! A list of temporary files that the launcher of a job owns, and that outlives the processes that write it.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, MemfdFlags, flock, memfd_create};

/// The environment variable with the path of the list.
pub const TEMPORARIES_VAR: &str = "TREEPIE_TEMPORARIES";

/// The first entry: the path of a launcher that is gone may lead to any file.
const MAGIC: &[u8] = b"treepie: temporary names\0";

/// The list, on the launcher's side: shared memory of entries of [`TemporaryFileList::ENTRY_BYTES`] bytes, each an
/// absolute path that ends with a zero byte, or empty. The first one is a magic number.
#[derive(Debug)]
pub struct TemporaryFileList(File);

impl TemporaryFileList {
    /// The bytes of an entry: the longest path that the kernel accepts.
    pub const ENTRY_BYTES: usize = 4096;

    /// An empty list.
    pub fn new() -> io::Result<Self> {
        let file = File::from(memfd_create("treepie-temporaries", MemfdFlags::CLOEXEC)?);
        file.write_all_at(&encode_entry(MAGIC), 0)?;
        Ok(Self(file))
    }

    /// The value of [`TEMPORARIES_VAR`] for the processes of the job.
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()).into()
    }

    /// Removes the listed files. Nobody may write to the list any more.
    pub fn remove_files(&self) {
        let mut bytes = [0; Self::ENTRY_BYTES];
        let mut at = Self::ENTRY_BYTES as u64;
        while self.0.read_exact_at(&mut bytes, at).is_ok() {
            let path = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
            if !path.is_empty() {
                // It may have been removed already.
                let _ = fs::remove_file(Path::new(std::ffi::OsStr::from_bytes(path)));
            }
            at += Self::ENTRY_BYTES as u64;
        }
    }
}

impl AsFd for TemporaryFileList {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A name in the list, until it is dropped.
#[derive(Debug)]
pub(super) struct TemporaryFileEntry {
    list: File,
    at: u64,
}

impl TemporaryFileEntry {
    /// Lists a name, if there is a list. Without one, or if it cannot be written, a killed writer leaves its file.
    pub(super) fn new(path: &Path) -> Option<Self> {
        Self::in_list(Path::new(&std::env::var_os(TEMPORARIES_VAR)?), path)
    }

    pub(super) fn in_list(list: &Path, path: &Path) -> Option<Self> {
        let path = std::path::absolute(path).ok()?;
        let path = path.as_os_str().as_bytes();
        if path.len() >= TemporaryFileList::ENTRY_BYTES {
            return None;
        }
        let list = File::options().read(true).write(true).open(list).ok()?;
        let mut magic = [0; MAGIC.len()];
        list.read_exact_at(&mut magic, 0).ok().filter(|()| magic == MAGIC)?;
        flock(&list, FlockOperation::LockExclusive).ok()?;
        let at = find_free_entry(&list)?;
        let written = list.write_all_at(&encode_entry(path), at);
        flock(&list, FlockOperation::Unlock).ok()?;
        written.ok().map(|()| Self { list, at })
    }
}

impl Drop for TemporaryFileEntry {
    fn drop(&mut self) {
        // An entry that stays in the list does no harm.
        let _ = self.list.write_all_at(&[0], self.at);
    }
}

/// The offset of a free entry, or the end. The first entry is the magic number.
fn find_free_entry(list: &File) -> Option<u64> {
    let len = list.metadata().ok()?.len();
    let step = TemporaryFileList::ENTRY_BYTES as u64;
    let is_free = |at: &u64| {
        let mut first = [1];
        list.read_exact_at(&mut first, *at).is_ok() && first == [0]
    };
    (step..len).step_by(TemporaryFileList::ENTRY_BYTES).find(is_free).or(Some(len))
}

fn encode_entry(text: &[u8]) -> [u8; TemporaryFileList::ENTRY_BYTES] {
    let mut bytes = [0; TemporaryFileList::ENTRY_BYTES];
    bytes[..text.len()].copy_from_slice(text);
    bytes
}
