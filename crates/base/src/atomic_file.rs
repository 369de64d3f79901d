//! Files that appear whole or not at all, however the processes that write them end.
//!
//! A file is written without a name in its directory (`O_TMPFILE`), and gets one when it is complete: its own if nothing
//! is there, else a temporary one, under which it is renamed over what is there. What is interrupted has no name and
//! vanishes with the last process that has it open. Where the file system has no files without names (NFS, many parallel
//! ones), or `TREEPIE_TMPFILE=off`, the temporary name is there from the beginning; it is removed on errors by the
//! writer, and where the writer is killed by the launcher or its guardian, who have a list of such names
//! ([`Temporaries`]).

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

use temporaries::Entry;
pub use temporaries::{TEMPORARIES, Temporaries};

/// How many links lead to a file at most, as for the kernel.
const LINKS: usize = 40;

/// How many temporary names are tried: others may use the same directory with the same process number.
const NAMES: usize = 100;

/// How much of a file's name its temporary name repeats, in characters.
const NAME_LENGTH: usize = 40;

/// A file while it is written. Unless it is [committed](Self::commit), nothing is left of it.
///
/// What is not a regular file, such as `/dev/stdout` or a FIFO, is written to directly.
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
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Written to directly.
    Stream,
    /// It has no name yet.
    Unnamed { target: PathBuf },
    /// It has a temporary one.
    Named { target: PathBuf, temporary: Temporary },
}

impl AtomicFile {
    /// Begins a file that is to replace what is at `path`, if that can be written. A link stays, and what it leads to is
    /// replaced; owner and mode stay, too, and those of a new file follow the umask.
    pub fn create(path: &Path) -> io::Result<Self> {
        let target = match resolve(path)? {
            Target::Stream(file) => return Ok(Self { file, kind: Kind::Stream }),
            Target::File(target) => target,
        };
        match unnamed(&target)? {
            Some(file) => Self { file, kind: Kind::Unnamed { target } }.like_target(),
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

    fn named(target: PathBuf) -> io::Result<Self> {
        // What is to replace a file that others may not read is never theirs to read, not even before it has that one's mode.
        let mode = if target.exists() { 0o600 } else { 0o666 };
        let make = |name: &Path| File::options().read(true).write(true).create_new(true).mode(mode).open(name);
        let (file, temporary) = Temporary::choose(&target, make)?;
        Self { file, kind: Kind::Named { target, temporary } }.like_target()
    }

    /// Gives the file what is there already has.
    fn like_target(self) -> io::Result<Self> {
        if let Some(found) = self.target().and_then(|target| rustix::fs::stat(target).ok()) {
            // Only root can give a file away. Others keep what they can.
            let (owner, group) = (rustix::fs::Uid::from_raw(found.st_uid), rustix::fs::Gid::from_raw(found.st_gid));
            let given = fchown(&self.file, Some(owner), Some(group)).or_else(|_| fchown(&self.file, None, Some(group)));
            // What one group may do is not for another.
            let kept = if given.is_ok() { 0o777 } else { 0o707 };
            fchmod(&self.file, Mode::from_raw_mode(found.st_mode & kept))?;
        }
        Ok(self)
    }

    fn target(&self) -> Option<&Path> {
        match &self.kind {
            Kind::Stream => None,
            Kind::Unnamed { target } | Kind::Named { target, .. } => Some(target),
        }
    }

    /// Whether it is a regular file, which can be written at any place.
    pub fn is_regular(&self) -> bool {
        !matches!(self.kind, Kind::Stream)
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// A path by which others can open it while this value exists: processes of this machine, and if it has a
    /// [temporary name](Self::create_named) all that see the directory.
    pub fn path(&self) -> PathBuf {
        match &self.kind {
            Kind::Named { temporary, .. } => temporary.path.clone(),
            _ => format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into(),
        }
    }

    /// The file is complete: puts it in its place once the disk has it. What is returned is still open.
    pub fn commit(self) -> io::Result<File> {
        match self.kind {
            Kind::Stream => {}
            Kind::Unnamed { target } => {
                self.file.sync_all()?;
                match link(&self.file, &target) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                        let ((), temporary) = Temporary::choose(&target, |name| link(&self.file, name))?;
                        temporary.rename(&target)?;
                    }
                    linked => linked?,
                }
            }
            Kind::Named { target, temporary } => {
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

/// What a path leads to.
enum Target {
    /// Something to write to directly.
    Stream(File),
    /// The place of a regular file, which may be there or not.
    File(PathBuf),
}

/// Follows links, also where nothing is at their end, and refuses what cannot be written.
fn resolve(path: &Path) -> io::Result<Target> {
    let mut place = path.to_owned();
    for _ in 0..LINKS {
        let found = match fs::symlink_metadata(&place) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound && place.file_name().is_some() => {
                return Ok(Target::File(place));
            }
            Err(error) => return Err(error),
        };
        if found.is_symlink() {
            if let Some(stream) = descriptor(&place)? {
                return Ok(Target::Stream(stream));
            }
            let leads_to = fs::read_link(&place)?;
            place = place.parent().unwrap_or(Path::new("")).join(leads_to);
        } else if found.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        } else if found.is_file() {
            // The directory may let a file be replaced that may not be written. Old kernels cannot say.
            return match accessat(CWD, &place, Access::WRITE_OK, AtFlags::EACCESS) {
                Err(error @ (Errno::ACCESS | Errno::PERM | Errno::ROFS)) => Err(error.into()),
                _ => Ok(Target::File(place)),
            };
        } else {
            return Ok(Target::Stream(File::options().write(true).open(&place)?));
        }
    }
    Err(Errno::LOOP.into())
}

/// If a link is one of those that stand for open files, as `/dev/stdout` leads to: that file. A redirection of the shell
/// leads to a regular file there, which must be gone on with and not replaced.
fn descriptor(link: &Path) -> io::Result<Option<File>> {
    let directory = match link.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let directory = fs::canonicalize(directory)?;
    if !(directory.starts_with("/proc") && directory.ends_with("fd")) {
        return Ok(None);
    }
    let is_own = directory == Path::new(&format!("/proc/{}/fd", std::process::id()));
    let number = link.file_name().and_then(|name| name.to_str());
    // These share the position with what else this process writes.
    let shared = match number {
        Some("1") if is_own => io::stdout().as_fd().try_clone_to_owned()?.into(),
        Some("2") if is_own => io::stderr().as_fd().try_clone_to_owned()?.into(),
        _ => File::options().append(true).open(link)?,
    };
    Ok(Some(shared))
}

/// A file without a name in the directory of another, unless the file system has no such files.
fn unnamed(target: &Path) -> io::Result<Option<File>> {
    if !crate::environment::tmpfile().map_err(io::Error::other)? {
        return Ok(None);
    }
    let directory = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mode = Mode::from_raw_mode(0o666);
    match openat(CWD, directory, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, mode) {
        // Without /proc it could not be given a name.
        Ok(file) => Ok(fs::metadata(own_path(&file)).is_ok().then(|| file.into())),
        // The last is what old kernels say.
        Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS | Errno::ISDIR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn own_path(file: &impl AsFd) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()).into()
}

fn link(file: &File, name: &Path) -> io::Result<()> {
    Ok(linkat(CWD, own_path(file), CWD, name, AtFlags::SYMLINK_FOLLOW)?)
}

/// A name that is gone when this is dropped, or the whole job.
#[derive(Debug)]
struct Temporary {
    path: PathBuf,
    is_renamed: bool,
    // After the name, so that it is never there without being listed.
    _listed: Option<Entry>,
}

impl Temporary {
    /// A name beside `target` under which a file is made that was not there.
    fn choose<T>(target: &Path, make: impl Fn(&Path) -> io::Result<T>) -> io::Result<(T, Self)> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let name: String = name.chars().take(NAME_LENGTH).collect();
        let mut result = Err(io::ErrorKind::AlreadyExists.into());
        for _ in 0..NAMES {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = target.with_file_name(format!(".{name}.{}.{number}.part", std::process::id()));
            let mut listed = Entry::new(&path);
            match make(&path) {
                Ok(made) => return Ok((made, Self { path, is_renamed: false, _listed: listed })),
                Err(error) => {
                    // Somebody else's, if it is there.
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

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_renamed {
            // The first error is the one to tell.
            let _ = fs::remove_file(&self.path);
        }
    }
}
