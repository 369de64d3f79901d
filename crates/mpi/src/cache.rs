//! Where compiled shims are kept, so that each is compiled once although many ranks want it at the same moment.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock};

use crate::SetupError;

/// How long a rank waits for another one that compiles. Then it compiles too, which costs time but harms nothing.
const PATIENCE: Duration = Duration::from_secs(60);

/// Age at which what a killed build left behind is swept away.
const ABANDONED: Duration = Duration::from_secs(3600);

const BUILD: &str = "build-";

/// Directories that may hold shims, the preferred one first. What `TREEPIE_CACHE_DIR` names is the only one.
pub(crate) fn directories() -> Vec<PathBuf> {
    places(|name| std::env::var_os(name).map(PathBuf::from))
}

fn places(variable: impl Fn(&str) -> Option<PathBuf>) -> Vec<PathBuf> {
    if let Some(chosen) = variable("TREEPIE_CACHE_DIR").filter(|path| !path.as_os_str().is_empty()) {
        return vec![chosen];
    }
    let absolute = |path: Option<PathBuf>| path.filter(|path| path.is_absolute());
    let user = absolute(variable("XDG_CACHE_HOME")).or_else(|| Some(absolute(variable("HOME"))?.join(".cache")));
    let user = user.map(|directory| directory.join("treepie"));
    // A home that cannot be written, as on many compute nodes, must not be the end.
    let temporary = std::env::temp_dir().join(format!("treepie-{}", rustix::process::getuid().as_raw()));
    user.into_iter().chain([temporary]).collect()
}

/// Anybody may make a directory in the shared temporary place; code is loaded from there only if it is our own.
fn is_trusted(directory: &Path) -> bool {
    let is_ours = |found: fs::Metadata| {
        found.is_dir() && found.uid() == rustix::process::getuid().as_raw() && found.mode() & 0o022 == 0
    };
    !directory.starts_with(std::env::temp_dir()) || fs::symlink_metadata(directory).is_ok_and(is_ours)
}

/// A file in one of the directories whose name is accepted.
pub(crate) fn find(directories: &[PathBuf], accepts: impl Fn(&str) -> bool) -> Option<PathBuf> {
    let trusted = directories.iter().filter(|directory| is_trusted(directory));
    let entries = trusted.flat_map(|directory| fs::read_dir(directory).into_iter().flatten().flatten());
    entries.map(|entry| entry.path()).find(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(&accepts))
}

/// The file `name` in the first directory that has it. Otherwise `make` is called, by one process at a time, to write
/// it to a new path, and it is put into the first directory that can be written; true says that this happened.
pub(crate) fn obtain(
    directories: &[PathBuf],
    name: &str,
    make: impl Fn(&Path) -> Result<(), SetupError>,
) -> Result<(PathBuf, bool), SetupError> {
    if let Some(path) = find(directories, |file| file == name) {
        return Ok((path, false));
    }
    let mut refused = SetupError::cache(Path::new(""), "there is none");
    for directory in directories {
        match obtain_in(directory, name, &make) {
            Err(error @ SetupError::Cache { .. }) => refused = error,
            other => return other,
        }
    }
    Err(refused)
}

fn obtain_in(
    directory: &Path,
    name: &str,
    make: impl Fn(&Path) -> Result<(), SetupError>,
) -> Result<(PathBuf, bool), SetupError> {
    let refused = |error| SetupError::cache(directory, error);
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(refused)?;
    if !is_trusted(directory) {
        return Err(SetupError::cache(directory, "it belongs to or can be written by somebody else"));
    }
    let path = directory.join(name);
    let turn = wait_for_turn(directory).map_err(refused)?;
    if path.is_file() {
        return Ok((path, false));
    }
    sweep(directory);
    let build = Build::new(directory).map_err(refused)?;
    let made = build.0.join(name);
    make(&made)?;
    // Within one directory tree a rename is atomic: nobody ever sees half a file.
    fs::rename(&made, &path).map_err(refused)?;
    drop(turn);
    Ok((path, true))
}

/// Holds the directory's lock until it is dropped, if locks work there and it comes free in time.
fn wait_for_turn(directory: &Path) -> std::io::Result<File> {
    let lock = File::options().create(true).append(true).open(directory.join("lock"))?;
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
fn sweep(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let is_build = entry.file_name().to_str().is_some_and(|name| name.starts_with(BUILD));
        let age = entry.metadata().and_then(|found| found.modified()).ok().and_then(|time| time.elapsed().ok());
        if is_build && age.is_some_and(|age| age > ABANDONED) {
            // It is only tidier without it.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// A directory of one build alone, removed with all it holds at the end.
struct Build(PathBuf);

impl Build {
    fn new(within: &Path) -> std::io::Result<Self> {
        // Nodes that share the directory may have the same process number, hence the time.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let directory = within.join(format!("{BUILD}{}-{now}", std::process::id()));
        fs::create_dir(&directory)?;
        Ok(Self(directory))
    }
}

impl Drop for Build {
    fn drop(&mut self) {
        // A later build sweeps it away if it cannot be removed now.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A directory that is gone after the test.
    pub(crate) struct Scratch(Build);

    impl Scratch {
        pub(crate) fn new() -> Self {
            Self(Build::new(&std::env::temp_dir()).unwrap())
        }

        pub(crate) fn path(&self) -> &Path {
            &self.0.0
        }
    }

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn one_of_many_makes_it_and_all_get_it() {
        let scratch = Scratch::new();
        let directory = [scratch.path().join("cache")];
        let made = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let (path, _) = obtain(&directory, "thing", |path| {
                        made.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(Duration::from_millis(20));
                        fs::write(path, "whole").map_err(|error| SetupError::cache(path, error))
                    })
                    .unwrap();
                    assert_eq!(fs::read_to_string(path).unwrap(), "whole");
                });
            }
        });
        assert_eq!(made.load(Ordering::Relaxed), 1);
        assert_eq!(names(&directory[0]), ["lock", "thing"]);
    }

    #[test]
    fn a_failed_build_leaves_nothing() {
        let scratch = Scratch::new();
        let directory = [scratch.path().to_path_buf()];
        let failure = obtain(&directory, "thing", |path| {
            fs::write(path, "half").unwrap();
            Err(SetupError::NoMpicc)
        });
        assert!(matches!(failure, Err(SetupError::NoMpicc)));
        assert_eq!(names(&directory[0]), ["lock"]);
    }

    #[test]
    fn the_next_directory_is_taken_when_one_cannot_be_made() {
        let scratch = Scratch::new();
        let file = scratch.path().join("file");
        fs::write(&file, "").unwrap();
        let directories = [file.join("below a file"), scratch.path().join("good")];
        let make = |path: &Path| fs::write(path, "whole").map_err(|error| SetupError::cache(path, error));
        assert_eq!(obtain(&directories, "thing", make).unwrap(), (directories[1].join("thing"), true));
        assert_eq!(obtain(&directories, "thing", make).unwrap(), (directories[1].join("thing"), false));
        assert!(matches!(obtain(&directories[..1], "thing", make), Err(SetupError::Cache { .. })));
    }

    #[test]
    fn places_follow_the_environment() {
        let set = |variables: &'static [(&str, &str)]| {
            places(|name| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into()))
        };
        assert_eq!(set(&[("TREEPIE_CACHE_DIR", "here"), ("HOME", "/home/me")]), [PathBuf::from("here")]);
        assert_eq!(set(&[("XDG_CACHE_HOME", "/xdg"), ("HOME", "/home/me")])[0], PathBuf::from("/xdg/treepie"));
        assert_eq!(
            set(&[("XDG_CACHE_HOME", "relative"), ("HOME", "/home/me")])[0],
            PathBuf::from("/home/me/.cache/treepie")
        );
        assert!(set(&[])[0].starts_with(std::env::temp_dir()));
    }

    #[test]
    fn a_directory_that_others_can_write_is_not_trusted() {
        let scratch = Scratch::new();
        assert!(is_trusted(scratch.path()));
        fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(!is_trusted(scratch.path()));
        fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::symlink(scratch.path(), scratch.path().join("link")).unwrap();
        assert!(!is_trusted(&scratch.path().join("link")));
    }
}
