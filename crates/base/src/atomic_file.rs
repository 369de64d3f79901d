//! Files that appear whole or not at all, however the processes that write them end.
//!
//! A file is written without a name in its directory (`O_TMPFILE`), and gets one when it is complete: the target's if
//! that does not exist, else a temporary one that is renamed over the target. An interrupted file has no name and
//! vanishes with the last process that has it open. Where the file system has no `O_TMPFILE` (NFS, many parallel ones),
//! or with `TREEPIE_TMPFILE=off`, it has the temporary name from the beginning. The writer removes it on errors; if the
//! writer is killed, the launcher or its supervisor does, by a list of such names ([`TemporaryFileList`]).

mod temporaries;
#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, accessat, fchmod, fchown, linkat, openat};
use rustix::io::Errno;

use temporaries::TemporaryFileEntry;
pub use temporaries::{TEMPORARIES_VAR, TemporaryFileList};

/// The path of standard output, or of standard input where a file is read. A file of this name is `./-`.
pub const STANDARD_STREAM: &str = "-";

/// The limit of symbolic links, as the kernel's.
const MAX_SYMLINKS: usize = 40;

/// The number of temporary names to try: others may use the same directory with the same pid.
const MAX_NAME_ATTEMPTS: usize = 100;

/// The number of characters of the file's name in its temporary name.
const MAX_NAME_CHARS: usize = 40;

/// A file that is being written. Unless it is [committed](Self::commit), nothing is left of it.
///
/// What is not a regular file, such as `/dev/stdout` or a FIFO, is written to directly; `-` is standard output.
///
/// ```
/// use std::io::Write;
/// use treepie_base::AtomicFile;
///
/// let path = std::env::temp_dir().join(format!("treepie-result-{}", std::process::id()));
/// let mut file = AtomicFile::create(&path)?;
/// file.write_all(b"all of it")?;
/// assert!(!path.exists());
/// file.commit()?;
/// assert_eq!(std::fs::read(&path)?, b"all of it");
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct AtomicFile {
    file: File,
    kind: FileKind,
}

#[derive(Debug)]
enum FileKind {
    /// Written to directly.
    Stream,
    /// It has no name yet.
    Unnamed { target: PathBuf },
    /// It has a temporary name.
    Named { target: PathBuf, temporary: TemporaryName },
}

impl AtomicFile {
    /// Begins a file that will replace `path`, if that can be written. A symbolic link stays, and its target is
    /// replaced; owner and mode stay, too, and those of a new file follow the umask.
    pub fn create(path: &Path) -> io::Result<Self> {
        if path == Path::new(STANDARD_STREAM) {
            let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
            return Ok(Self { file, kind: FileKind::Stream });
        }
        let target = match resolve(path)? {
            Target::Stream(file) => return Ok(Self { file, kind: FileKind::Stream }),
            Target::File(target) => target,
        };
        match open_tmpfile(&target)? {
            Some(file) => Self { file, kind: FileKind::Unnamed { target } }.copy_attributes(),
            None => Self::named(target),
        }
    }

    /// As [`create`](Self::create), but the file has a temporary name from the beginning, so that processes on other
    /// machines can open it. What is not a regular file is refused.
    pub fn create_named(path: &Path) -> io::Result<Self> {
        match resolve(path)? {
            Target::Stream(_) => Err(io::Error::other("it is not a regular file")),
            Target::File(target) => Self::named(target),
        }
    }

    /// A file in a directory that no one else reads, and that is never committed.
    pub fn scratch(directory: &Path) -> io::Result<Self> {
        let target = directory.join("treepie");
        if let Some(file) = open_tmpfile(&target)? {
            fchmod(&file, Mode::from_raw_mode(0o600))?;
            return Ok(Self { file, kind: FileKind::Unnamed { target } });
        }
        let make = |name: &Path| File::options().read(true).write(true).create_new(true).mode(0o600).open(name);
        let (file, temporary) = TemporaryName::create_unique(&target, make)?;
        Ok(Self { file, kind: FileKind::Named { target, temporary } })
    }

    fn named(target: PathBuf) -> io::Result<Self> {
        // The replacement of a file that others may not read is never readable to them, not even before it gets that
        // mode.
        let mode = if target.exists() { 0o600 } else { 0o666 };
        let make = |name: &Path| File::options().read(true).write(true).create_new(true).mode(mode).open(name);
        let (file, temporary) = TemporaryName::create_unique(&target, make)?;
        Self { file, kind: FileKind::Named { target, temporary } }.copy_attributes()
    }

    /// Copies owner and mode of the existing target.
    fn copy_attributes(self) -> io::Result<Self> {
        if let Some(found) = self.target().and_then(|target| rustix::fs::stat(target).ok()) {
            // Only root can chown a file. Others set the group, if they can.
            let (owner, group) = (rustix::fs::Uid::from_raw(found.st_uid), rustix::fs::Gid::from_raw(found.st_gid));
            let chowned =
                fchown(&self.file, Some(owner), Some(group)).or_else(|_| fchown(&self.file, None, Some(group)));
            // The permissions of one group are not for another.
            let mode_mask = if chowned.is_ok() { 0o777 } else { 0o707 };
            fchmod(&self.file, Mode::from_raw_mode(found.st_mode & mode_mask))?;
        }
        Ok(self)
    }

    fn target(&self) -> Option<&Path> {
        match &self.kind {
            FileKind::Stream => None,
            FileKind::Unnamed { target } | FileKind::Named { target, .. } => Some(target),
        }
    }

    /// Whether it is a regular file, which can be written at any offset.
    pub fn is_regular(&self) -> bool {
        !matches!(self.kind, FileKind::Stream)
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// A path by which others can open it while this value exists: processes of this machine, and if it has a
    /// [temporary name](Self::create_named) all that see the directory.
    pub fn path(&self) -> PathBuf {
        match &self.kind {
            FileKind::Named { temporary, .. } => temporary.path.clone(),
            _ => format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into(),
        }
    }

    /// Moves the complete file to its target after syncing it to disk. Returns the open file.
    pub fn commit(self) -> io::Result<File> {
        match self.kind {
            FileKind::Stream => {}
            FileKind::Unnamed { target } => {
                self.file.sync_all()?;
                match link(&self.file, &target) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                        let ((), temporary) = TemporaryName::create_unique(&target, |name| link(&self.file, name))?;
                        temporary.rename(&target)?;
                    }
                    linked => linked?,
                }
            }
            FileKind::Named { target, temporary } => {
                self.file.sync_all()?;
                temporary.rename(&target)?;
            }
        }
        Ok(self.file)
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The target of a path.
enum Target {
    /// A file to write to directly.
    Stream(File),
    /// The path of a regular file, which may or may not exist.
    File(PathBuf),
}

/// Follows links, also dangling ones, and refuses what cannot be written.
fn resolve(path: &Path) -> io::Result<Target> {
    let mut current = path.to_owned();
    for _ in 0..MAX_SYMLINKS {
        let found = match fs::symlink_metadata(&current) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound && current.file_name().is_some() => {
                return Ok(Target::File(current));
            }
            Err(error) => return Err(error),
        };
        if found.is_symlink() {
            if let Some(stream) = open_descriptor_link(&current)? {
                return Ok(Target::Stream(stream));
            }
            let leads_to = fs::read_link(&current)?;
            current = current.parent().unwrap_or(Path::new("")).join(leads_to);
        } else if found.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        } else if found.is_file() {
            // The directory may permit replacing a file that may not be written. Old kernels cannot tell.
            return match accessat(CWD, &current, Access::WRITE_OK, AtFlags::EACCESS) {
                Err(error @ (Errno::ACCESS | Errno::PERM | Errno::ROFS)) => Err(error.into()),
                _ => Ok(Target::File(current)),
            };
        } else {
            return Ok(Target::Stream(File::options().write(true).open(&current)?));
        }
    }
    Err(Errno::LOOP.into())
}

/// Opens a link to an open file, as `/dev/stdout` is. A redirection of the shell may lead to a regular file there,
/// which must be continued and not replaced.
fn open_descriptor_link(link: &Path) -> io::Result<Option<File>> {
    let directory = match link.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let directory = fs::canonicalize(directory)?;
    if !(directory.starts_with("/proc") && directory.ends_with("fd")) {
        return Ok(None);
    }
    let is_this_process = directory == Path::new(&format!("/proc/{}/fd", std::process::id()));
    let number = link.file_name().and_then(|name| name.to_str());
    // These share the offset with other output of this process.
    let shared = match number {
        Some("1") if is_this_process => io::stdout().as_fd().try_clone_to_owned()?.into(),
        Some("2") if is_this_process => io::stderr().as_fd().try_clone_to_owned()?.into(),
        _ => File::options().append(true).open(link)?,
    };
    Ok(Some(shared))
}

/// An unnamed file in the directory of `target`, unless the file system has none.
fn open_tmpfile(target: &Path) -> io::Result<Option<File>> {
    if !crate::environment::tmpfile().map_err(io::Error::other)? {
        return Ok(None);
    }
    let directory = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mode = Mode::from_raw_mode(0o666);
    match openat(CWD, directory, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, mode) {
        // Without /proc it could not be linked.
        Ok(file) => Ok(fs::metadata(fd_path(&file)).is_ok().then(|| file.into())),
        // The last is the error of old kernels.
        Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS | Errno::ISDIR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn fd_path(file: &impl AsFd) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()).into()
}

fn link(file: &File, name: &Path) -> io::Result<()> {
    Ok(linkat(CWD, fd_path(file), CWD, name, AtFlags::SYMLINK_FOLLOW)?)
}

/// A temporary name that is removed when this is dropped, or at the end of the job.
#[derive(Debug)]
struct TemporaryName {
    path: PathBuf,
    is_renamed: bool,
    // Dropped after the name is removed, so that no name is ever unlisted.
    _listed: Option<TemporaryFileEntry>,
}

impl TemporaryName {
    /// Creates a file with a new name beside `target`.
    fn create_unique<T>(target: &Path, make: impl Fn(&Path) -> io::Result<T>) -> io::Result<(T, Self)> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let name: String = name.chars().take(MAX_NAME_CHARS).collect();
        let mut result = Err(io::ErrorKind::AlreadyExists.into());
        for _ in 0..MAX_NAME_ATTEMPTS {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = target.with_file_name(format!(".{name}.{}.{number}.part", std::process::id()));
            let mut listed = TemporaryFileEntry::new(&path);
            match make(&path) {
                Ok(made) => return Ok((made, Self { path, is_renamed: false, _listed: listed })),
                Err(error) => {
                    // If it exists, it is another writer's.
                    listed.take();
                    let is_taken = error.kind() == io::ErrorKind::AlreadyExists;
                    result = Err(error);
                    if !is_taken {
                        break;
                    }
                }
            }
        }
        result
    }

    fn rename(mut self, target: &Path) -> io::Result<()> {
        fs::rename(&self.path, target)?;
        self.is_renamed = true;
        Ok(())
    }
}

impl Drop for TemporaryName {
    fn drop(&mut self) {
        if !self.is_renamed {
            // The first error is the one to report.
            let _ = fs::remove_file(&self.path);
        }
    }
}
