//! Trust in files: code is loaded only from where no other user could have written it.
//!
//! A path is resolved one component after the other, `..` and links included, each opened below the directory that was
//! checked before. Every directory and link on the path must belong to this user or to root, and nobody else may write
//! to a directory unless it is sticky, so that others cannot rename what is not theirs. The file that is opened is the
//! one that was checked, whatever happens to the names meanwhile.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, chmod, fchmod, fstat, mkdirat, openat, readlinkat};
use rustix::io::Errno;

/// Modes of what this process creates: private to its user, whatever its umask.
const PRIVATE_DIRECTORY: u32 = 0o700;
const PRIVATE_FILE: u32 = 0o600;

/// The limit of symbolic links, as the kernel's.
const MAX_SYMLINKS: u32 = 40;

/// Why a file or directory is not used.
#[derive(Debug)]
pub(crate) enum TrustError {
    /// Another user has, or may have, written it.
    Untrusted(String),
    /// A system call failed.
    System(io::Error),
}

impl From<Errno> for TrustError {
    fn from(error: Errno) -> Self {
        Self::System(error.into())
    }
}

impl From<io::Error> for TrustError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl fmt::Display for TrustError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Untrusted(why) => f.write_str(why),
            Self::System(error) => error.fmt(f),
        }
    }
}

/// An open directory that only this user, or root, can change.
#[derive(Debug)]
pub(crate) struct TrustedDirectory {
    fd: OwnedFd,
    name: PathBuf,
}

impl TrustedDirectory {
    /// Opens a directory. If `create`, missing ones are created.
    pub(crate) fn open(path: &Path, create: bool) -> Result<Self, TrustError> {
        let absolute = std::path::absolute(path)?;
        let mut at = Walk::at_root()?;
        let mut ahead: VecDeque<OsString> = components(&absolute);
        let mut links = 0;
        while let Some(name) = ahead.pop_front() {
            match at.step(&name, create)? {
                Step::Into(next) => at = next,
                Step::Link(target) => {
                    links += 1;
                    if links > MAX_SYMLINKS {
                        return Err(Errno::LOOP.into());
                    }
                    if target.is_absolute() {
                        at = Walk::at_root()?;
                    }
                    components(&target).into_iter().rev().for_each(|name| ahead.push_front(name));
                }
            }
        }
        // Where others may create names, they could take those of files here.
        if let Some(why) = writable_by_others(&at.stat) {
            return Err(untrusted(&at.path, &why));
        }
        Ok(Self { fd: at.fd, name: path.into() })
    }

    /// The path that it was opened by.
    pub(crate) fn name(&self) -> &Path {
        &self.name
    }

    /// A path of this directory while this value exists, in this process and in its children before they call exec.
    pub(crate) fn path(&self) -> PathBuf {
        descriptor_path(&self.fd)
    }

    /// Opens a file in this directory, if only this user or root can have written it.
    pub(crate) fn file(&self, name: &OsStr) -> Result<File, TrustError> {
        // A FIFO must not block this.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let path = self.name.join(name);
        let file = match openat(&self.fd, name, flags, Mode::empty()) {
            Err(Errno::LOOP) => return Err(untrusted(&path, "is a symbolic link")),
            opened => opened?,
        };
        let stat = fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(untrusted(&path, "is not a regular file"));
        }
        match owned_by_another(&stat).or_else(|| writable_by_others(&stat)) {
            Some(why) => Err(untrusted(&path, &why)),
            None => Ok(file.into()),
        }
    }

    /// Opens or creates a file in this directory, private to this user.
    pub(crate) fn create(&self, name: &str) -> Result<File, TrustError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = openat(&self.fd, name, flags, Mode::from_raw_mode(PRIVATE_FILE))?;
        Ok(file.into())
    }

    /// Creates a directory here for this process alone. It is accessed by its [`path`](Self::path), so that it does not
    /// matter who can rename it.
    pub(crate) fn subdirectory(&self, name: &str) -> Result<Self, TrustError> {
        mkdirat(&self.fd, name, Mode::from_raw_mode(PRIVATE_DIRECTORY))?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(&self.fd, name, flags, Mode::empty())?;
        let directory = Self { fd, name: self.name.join(name) };
        // A user who may write here can have exchanged it since: by their own, or by one of this user's with something
        // in it.
        if let Some(why) = owned_by_another(&fstat(&directory.fd)?) {
            return Err(untrusted(&directory.name, &why));
        }
        make_directory_private(&directory.fd)?;
        let is_empty = std::fs::read_dir(descriptor_path(&directory.fd))?.next().is_none();
        if is_empty { Ok(directory) } else { Err(untrusted(&directory.name, "it is not empty, although just created")) }
    }

    /// The directory of temporary files, whoever may write there: only for a [`subdirectory`](Self::subdirectory).
    pub(crate) fn temporary() -> Result<Self, TrustError> {
        let name = std::env::temp_dir();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { fd: openat(CWD, &name, flags, Mode::empty())?, name })
    }
}

impl AsFd for TrustedDirectory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The /proc path of an open file.
pub(crate) fn descriptor_path(fd: &impl AsFd) -> PathBuf {
    format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd()).into()
}

/// Removes all permissions of others from a file that this process has created.
pub(crate) fn make_file_private(file: &File) -> io::Result<()> {
    Ok(fchmod(file, Mode::from_raw_mode(PRIVATE_FILE))?)
}

/// Sets the mode of a directory: the umask may have removed permissions that this user needs.
fn make_directory_private(fd: &OwnedFd) -> io::Result<()> {
    // An `O_PATH` descriptor cannot be changed itself.
    Ok(chmod(descriptor_path(fd), Mode::from_raw_mode(PRIVATE_DIRECTORY))?)
}

/// A directory on the path.
struct Walk {
    fd: OwnedFd,
    stat: Stat,
    /// Without links and `..`, for messages.
    path: PathBuf,
}

enum Step {
    Into(Walk),
    Link(PathBuf),
}

impl Walk {
    fn at_root() -> Result<Self, TrustError> {
        let fd = openat(CWD, "/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Self::checked(fd, "/".into())
    }

    fn step(&self, name: &OsStr, create: bool) -> Result<Step, TrustError> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || openat(&self.fd, name, flags, Mode::empty());
        let mut path = self.path.clone();
        if name == ".." {
            path.pop();
        } else {
            path.push(name);
        }
        let fd = match open() {
            Err(Errno::NOENT) if create => {
                let made = match mkdirat(&self.fd, name, Mode::from_raw_mode(PRIVATE_DIRECTORY)) {
                    // Another rank has just created it.
                    Err(Errno::EXIST) => false,
                    made => made.map(|()| true)?,
                };
                let fd = open()?;
                if made {
                    make_directory_private(&fd)?;
                }
                fd
            }
            opened => opened?,
        };
        let stat = fstat(&fd)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            return Ok(Step::Into(Self::checked(fd, path)?));
        }
        match owned_by_another(&stat) {
            Some(why) => Err(untrusted(&path, &why)),
            None => Ok(Step::Link(OsString::from_vec(readlinkat(&fd, "", Vec::new())?.into_bytes()).into())),
        }
    }

    fn checked(fd: OwnedFd, path: PathBuf) -> Result<Self, TrustError> {
        let stat = fstat(&fd)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return Err(Errno::NOTDIR.into());
        }
        let is_sticky = stat.st_mode & Mode::SVTX.as_raw_mode() != 0;
        let why = owned_by_another(&stat).or_else(|| writable_by_others(&stat).filter(|_| !is_sticky));
        match why {
            Some(why) => Err(untrusted(&path, &why)),
            None => Ok(Self { fd, stat, path }),
        }
    }
}

/// The components of a path below its root.
fn components(path: &Path) -> VecDeque<OsString> {
    let components =
        path.components().filter(|component| matches!(component, Component::Normal(_) | Component::ParentDir));
    components.map(|component| component.as_os_str().to_owned()).collect()
}

fn owned_by_another(stat: &Stat) -> Option<String> {
    let euid = rustix::process::geteuid().as_raw();
    (stat.st_uid != 0 && stat.st_uid != euid).then(|| format!("belongs to user {}", stat.st_uid))
}

fn writable_by_others(stat: &Stat) -> Option<String> {
    let mode = stat.st_mode & 0o7777;
    (mode & 0o022 != 0).then(|| format!("can be written by other users (mode {mode:04o})"))
}

fn untrusted(path: &Path, why: &str) -> TrustError {
    TrustError::Untrusted(format!("{} {why}", path.display()))
}
