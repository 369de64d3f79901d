//! Where compiled shims are kept, so that each is compiled once although many ranks want it at the same moment.
//!
//! A shim is code that every rank runs, so it is loaded only from where no other user can have put it (`trust`): a
//! directory that cannot be trusted is passed over, a file in it that cannot is made anew.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock, renameat};

use crate::SetupError;
use crate::trust::{Directory, Refusal, descriptor_path, keep_private};

/// How long a rank waits for another one that compiles. Then it compiles too, which costs time but harms nothing.
const PATIENCE: Duration = Duration::from_secs(60);

/// Age at which what a killed build left behind is swept away.
const ABANDONED: Duration = Duration::from_secs(3600);

const BUILD: &str = "build-";

/// Where shims may be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    /// Directories, the preferred one first.
    pub(crate) directories: Vec<PathBuf>,
    /// Whether the user has named the only one, so that another would be a surprise.
    pub(crate) is_chosen: bool,
}

impl Places {
    /// Those of this user. What `TREEPIE_CACHE_DIR` names is the only one.
    pub(crate) fn find() -> Self {
        Self::read(|name| std::env::var_os(name).map(PathBuf::from))
    }

    fn read(variable: impl Fn(&str) -> Option<PathBuf>) -> Self {
        if let Some(chosen) = variable("TREEPIE_CACHE_DIR").filter(|path| !path.as_os_str().is_empty()) {
            return Self { directories: vec![chosen], is_chosen: true };
        }
        let absolute = |path: Option<PathBuf>| path.filter(|path| path.is_absolute());
        let user = absolute(variable("XDG_CACHE_HOME")).or_else(|| Some(absolute(variable("HOME"))?.join(".cache")));
        let user = user.map(|directory| directory.join("treepie"));
        // A home that cannot be written, as on many compute nodes, must not be the end.
        let temporary = std::env::temp_dir().join(format!("treepie-{}", rustix::process::getuid().as_raw()));
        Self { directories: user.into_iter().chain([temporary]).collect(), is_chosen: false }
    }
}

/// A compiled shim that no other user can have written, held open so that what is loaded is what was looked at.
#[derive(Debug)]
pub(crate) struct Kept {
    file: File,
    path: PathBuf,
}

impl Kept {
    fn open(directory: &Directory, name: &OsStr) -> Result<Self, Refusal> {
        Ok(Self { file: directory.file(name)?, path: directory.name().join(name) })
    }

    /// The name that it is kept under.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of the open file: nobody can put another one there.
    pub(crate) fn loadable(&self) -> PathBuf {
        descriptor_path(&self.file)
    }
}

/// A file in one of the directories whose name is accepted. What is passed over is told to `refused`.
pub(crate) fn find(
    directories: &[PathBuf],
    accepts: impl Fn(&str) -> bool,
    refused: &mut Vec<SetupError>,
) -> Option<Kept> {
    directories.iter().find_map(|place| match Directory::open(place, false) {
        Ok(directory) => find_in(&directory, &accepts, refused),
        Err(error) => {
            tell(place, error, refused);
            None
        }
    })
}

/// What is not there, or cannot be read, is nobody's attack.
fn tell(path: &Path, refusal: Refusal, refused: &mut Vec<SetupError>) {
    if let Refusal::Untrusted(_) = refusal {
        refused.push(SetupError::refused(path, refusal));
    }
}

fn find_in(directory: &Directory, accepts: impl Fn(&str) -> bool, refused: &mut Vec<SetupError>) -> Option<Kept> {
    let entries = fs::read_dir(directory.path()).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let mut names = entries.filter(|name| name.to_str().is_some_and(&accepts));
    names.find_map(|name| match Kept::open(directory, &name) {
        Ok(kept) => Some(kept),
        Err(error) => {
            tell(&directory.name().join(&name), error, refused);
            None
        }
    })
}

/// The file `name` in the first directory that has it. Otherwise `make` is called, by one process at a time, to write
/// it into a directory that is its own, and it is put into the first directory that can be written; true says that this
/// happened. What is passed over is told to `refused`.
pub(crate) fn obtain(
    directories: &[PathBuf],
    name: &str,
    make: impl Fn(&Directory) -> Result<(), SetupError>,
    refused: &mut Vec<SetupError>,
) -> Result<(Kept, bool), SetupError> {
    if let Some(kept) = find(directories, |file| file == name, refused) {
        return Ok((kept, false));
    }
    let mut last = SetupError::cache(Path::new(""), "there is none");
    for place in directories {
        match obtain_in(place, name, &make) {
            Err(error @ (SetupError::Cache { .. } | SetupError::Untrusted { .. })) => last = error,
            other => return other,
        }
    }
    Err(last)
}

fn obtain_in(
    place: &Path,
    name: &str,
    make: impl Fn(&Directory) -> Result<(), SetupError>,
) -> Result<(Kept, bool), SetupError> {
    let refused = |error: Refusal| SetupError::refused(place, error);
    let directory = Directory::open(place, true).map_err(refused)?;
    let turn = wait_for_turn(&directory).map_err(refused)?;
    // One that cannot be trusted is replaced.
    if let Ok(kept) = Kept::open(&directory, name.as_ref()) {
        return Ok((kept, false));
    }
    sweep(&directory);
    let build = Build::new(directory).map_err(refused)?;
    let kept = build.make(name, make)?;
    // Within one directory tree a rename is atomic: nobody ever sees half a file.
    renameat(&build.own, name, &build.within, name).map_err(|error| refused(error.into()))?;
    drop(turn);
    Ok((Kept { path: build.within.name().join(name), ..kept }, true))
}

/// What `make` writes, for this process alone and under no name that lasts.
pub(crate) fn make_unnamed(
    name: &str,
    make: impl Fn(&Directory) -> Result<(), SetupError>,
) -> Result<Kept, SetupError> {
    let temporary = std::env::temp_dir();
    let build = Build::temporary().map_err(|error| SetupError::refused(&temporary, error))?;
    build.make(name, make)
}

/// Holds the directory's lock until it is dropped, if locks work there and it comes free in time.
fn wait_for_turn(directory: &Directory) -> Result<File, Refusal> {
    let lock = directory.create("lock")?;
    let deadline = Instant::now() + PATIENCE;
    while flock(&lock, FlockOperation::NonBlockingLockExclusive) == Err(rustix::io::Errno::WOULDBLOCK) {
        if Instant::now() > deadline {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(lock)
}

/// Removes what builds that were killed have left.
fn sweep(directory: &Directory) {
    for entry in fs::read_dir(directory.path()).into_iter().flatten().flatten() {
        let is_build = entry.file_name().to_str().is_some_and(|name| name.starts_with(BUILD));
        let age = entry.metadata().and_then(|found| found.modified()).ok().and_then(|time| time.elapsed().ok());
        if is_build && age.is_some_and(|age| age > ABANDONED) {
            // It is only tidier without it.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// A directory of one build alone, removed with all it holds at the end.
struct Build {
    within: Directory,
    own: Directory,
    name: String,
}

impl Build {
    fn new(within: Directory) -> Result<Self, Refusal> {
        // Nodes that share the directory may have the same process number, hence the time.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let name = format!("{BUILD}{}-{now}", std::process::id());
        Ok(Self { own: within.subdirectory(&name)?, within, name })
    }

    fn temporary() -> Result<Self, Refusal> {
        Self::new(Directory::temporary()?)
    }

    /// Has a file made here. It is for this user only, whatever the umask of the compiler.
    fn make(&self, name: &str, make: impl Fn(&Directory) -> Result<(), SetupError>) -> Result<Kept, SetupError> {
        make(&self.own)?;
        let path = self.own.name().join(name);
        // The directory is private, so whatever mode it has it was not written by others.
        let file = File::open(self.own.path().join(name)).and_then(|file| keep_private(&file).map(|()| file));
        let file = file.map_err(|error| SetupError::cache(self.own.name(), error))?;
        Ok(Kept { file, path })
    }
}

impl Drop for Build {
    fn drop(&mut self) {
        // A later build sweeps it away if it cannot be removed now.
        let _ = fs::remove_dir_all(self.within.path().join(&self.name));
    }
}

#[cfg(test)]
pub(crate) mod tests;
