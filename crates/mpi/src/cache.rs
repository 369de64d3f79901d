//! The cache of compiled shims, so that each is compiled once although many ranks need it at the same time.
//!
//! A shim is code that every rank runs, so it is loaded only from where no other user can have written it (`trust`): an
//! untrusted directory is skipped, an untrusted file in it is rebuilt.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock, renameat};

use crate::SetupError;
use crate::trust::{TrustError, TrustedDirectory, descriptor_path, make_file_private};

/// How long a rank waits for another one that compiles. Then it compiles too, which costs time but does no harm.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);

/// Age at which the remains of a killed build are removed.
const STALE_AGE: Duration = Duration::from_secs(3600);

const BUILD_PREFIX: &str = "build-";

/// The directories of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CacheDirs {
    /// Directories, the preferred one first.
    pub(crate) directories: Vec<PathBuf>,
    /// Whether the user has specified the directory, so that no other may be used.
    pub(crate) is_user_specified: bool,
}

impl CacheDirs {
    /// The directories of this user; `TREEPIE_CACHE_DIR` replaces them.
    pub(crate) fn from_environment() -> Self {
        Self::from_variables(|name| std::env::var_os(name).map(PathBuf::from))
    }

    fn from_variables(variable: impl Fn(&str) -> Option<PathBuf>) -> Self {
        if let Some(chosen) = variable("TREEPIE_CACHE_DIR").filter(|path| !path.as_os_str().is_empty()) {
            return Self { directories: vec![chosen], is_user_specified: true };
        }
        let absolute = |path: Option<PathBuf>| path.filter(|path| path.is_absolute());
        let user = absolute(variable("XDG_CACHE_HOME")).or_else(|| Some(absolute(variable("HOME"))?.join(".cache")));
        let user = user.map(|directory| directory.join("treepie"));
        // A read-only home, as on many compute nodes, must not be fatal.
        let temporary = std::env::temp_dir().join(format!("treepie-{}", rustix::process::getuid().as_raw()));
        Self { directories: user.into_iter().chain([temporary]).collect(), is_user_specified: false }
    }
}

/// A compiled shim that no other user can have written, held open so that the file that was checked is the one loaded.
#[derive(Debug)]
pub(crate) struct CachedShim {
    file: File,
    path: PathBuf,
}

impl CachedShim {
    fn open(directory: &TrustedDirectory, name: &OsStr) -> Result<Self, TrustError> {
        Ok(Self { file: directory.file(name)?, path: directory.name().join(name) })
    }

    /// Its path in the cache.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of the open file, which nobody can replace.
    pub(crate) fn fd_path(&self) -> PathBuf {
        descriptor_path(&self.file)
    }
}

/// Finds a file whose name `accepts` matches. Reports untrusted files and directories in `refused`.
pub(crate) fn find(
    directories: &[PathBuf],
    accepts: impl Fn(&str) -> bool,
    refused: &mut Vec<SetupError>,
) -> Option<CachedShim> {
    directories.iter().find_map(|path| match TrustedDirectory::open(path, false) {
        Ok(directory) => find_in(&directory, &accepts, refused),
        Err(error) => {
            note_untrusted(path, error, refused);
            None
        }
    })
}

/// A missing or unreadable file is not an attack.
fn note_untrusted(path: &Path, refusal: TrustError, refused: &mut Vec<SetupError>) {
    if let TrustError::Untrusted(_) = refusal {
        refused.push(SetupError::refused(path, refusal));
    }
}

fn find_in(
    directory: &TrustedDirectory,
    accepts: impl Fn(&str) -> bool,
    refused: &mut Vec<SetupError>,
) -> Option<CachedShim> {
    let entries = fs::read_dir(directory.path()).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let mut names = entries.filter(|name| name.to_str().is_some_and(&accepts));
    names.find_map(|name| match CachedShim::open(directory, &name) {
        Ok(shim) => Some(shim),
        Err(error) => {
            note_untrusted(&directory.name().join(&name), error, refused);
            None
        }
    })
}

/// Returns the file `name` from the first directory that has it. Otherwise one process at a time calls `make` to write
/// it into a private directory, and moves it to the first writable directory; the result is then true. Reports
/// untrusted files and directories in `refused`.
pub(crate) fn get_or_build(
    directories: &[PathBuf],
    name: &str,
    make: impl Fn(&TrustedDirectory) -> Result<(), SetupError>,
    refused: &mut Vec<SetupError>,
) -> Result<(CachedShim, bool), SetupError> {
    if let Some(shim) = find(directories, |file| file == name, refused) {
        return Ok((shim, false));
    }
    let mut last = SetupError::cache(Path::new(""), "there is none");
    for path in directories {
        match get_or_build_in(path, name, &make) {
            Err(error @ (SetupError::Cache { .. } | SetupError::Untrusted { .. })) => last = error,
            other => return other,
        }
    }
    Err(last)
}

fn get_or_build_in(
    path: &Path,
    name: &str,
    make: impl Fn(&TrustedDirectory) -> Result<(), SetupError>,
) -> Result<(CachedShim, bool), SetupError> {
    let refused = |error: TrustError| SetupError::refused(path, error);
    let directory = TrustedDirectory::open(path, true).map_err(refused)?;
    let lock = lock_directory(&directory).map_err(refused)?;
    // An untrusted file is replaced.
    if let Ok(shim) = CachedShim::open(&directory, name.as_ref()) {
        return Ok((shim, false));
    }
    remove_stale_builds(&directory);
    let build = Build::new(directory).map_err(refused)?;
    let shim = build.make(name, make)?;
    // Within one directory tree a rename is atomic: nobody ever sees a partial file.
    renameat(&build.directory, name, &build.parent, name).map_err(|error| refused(error.into()))?;
    drop(lock);
    Ok((CachedShim { path: build.parent.name().join(name), ..shim }, true))
}

/// Builds a shim for this process alone, in a temporary directory that is removed.
pub(crate) fn build_uncached(
    name: &str,
    make: impl Fn(&TrustedDirectory) -> Result<(), SetupError>,
) -> Result<CachedShim, SetupError> {
    let temporary = std::env::temp_dir();
    let build = Build::temporary().map_err(|error| SetupError::refused(&temporary, error))?;
    build.make(name, make)
}

/// Locks the directory until the result is dropped, if locks work there and it becomes free in time.
fn lock_directory(directory: &TrustedDirectory) -> Result<File, TrustError> {
    let lock = directory.create("lock")?;
    let deadline = Instant::now() + LOCK_TIMEOUT;
    while flock(&lock, FlockOperation::NonBlockingLockExclusive) == Err(rustix::io::Errno::WOULDBLOCK) {
        if Instant::now() > deadline {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(lock)
}

/// Removes the remains of killed builds.
fn remove_stale_builds(directory: &TrustedDirectory) {
    for entry in fs::read_dir(directory.path()).into_iter().flatten().flatten() {
        let is_build = entry.file_name().to_str().is_some_and(|name| name.starts_with(BUILD_PREFIX));
        let age = entry.metadata().and_then(|found| found.modified()).ok().and_then(|time| time.elapsed().ok());
        if is_build && age.is_some_and(|age| age > STALE_AGE) {
            // Failure to remove it does no harm.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The private directory of one build, removed on drop.
struct Build {
    parent: TrustedDirectory,
    directory: TrustedDirectory,
    name: String,
}

impl Build {
    fn new(within: TrustedDirectory) -> Result<Self, TrustError> {
        // Nodes that share the directory may have the same pid, hence the time.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let name = format!("{BUILD_PREFIX}{}-{now}", std::process::id());
        Ok(Self { directory: within.subdirectory(&name)?, parent: within, name })
    }

    fn temporary() -> Result<Self, TrustError> {
        Self::new(TrustedDirectory::temporary()?)
    }

    /// Builds a file here, private to this user whatever the umask of the compiler.
    fn make(
        &self,
        name: &str,
        make: impl Fn(&TrustedDirectory) -> Result<(), SetupError>,
    ) -> Result<CachedShim, SetupError> {
        make(&self.directory)?;
        let path = self.directory.name().join(name);
        // The directory is private, so others cannot have written the file whatever its mode.
        let file =
            File::open(self.directory.path().join(name)).and_then(|file| make_file_private(&file).map(|()| file));
        let file = file.map_err(|error| SetupError::cache(self.directory.name(), error))?;
        Ok(CachedShim { file, path })
    }
}

impl Drop for Build {
    fn drop(&mut self) {
        // A later build removes it if this fails.
        let _ = fs::remove_dir_all(self.parent.path().join(&self.name));
    }
}

#[cfg(test)]
pub(crate) mod tests;
