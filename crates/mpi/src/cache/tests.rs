use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// Some other user.
const STRANGER: u32 = 54321;

/// A directory that is removed after the test.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("treepie-cache-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        set_mode(&path, 0o755);
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn make(text: &str) -> impl Fn(&TrustedDirectory) -> Result<(), SetupError> {
    move |directory| {
        let path = directory.path().join("thing");
        fs::write(&path, text).map_err(|error| SetupError::cache(&path, error))
    }
}

fn text(shim: &CachedShim) -> String {
    fs::read_to_string(shim.fd_path()).unwrap()
}

/// Builds a file in a directory, or returns why that is refused.
fn attempt(directory: &Path) -> Result<(String, bool), String> {
    let obtained = get_or_build(&[directory.to_path_buf()], "thing", make("mine"), &mut Vec::new());
    obtained.map(|(shim, built)| (text(&shim), built)).map_err(|error| error.to_string())
}

#[track_caller]
fn refused(directory: &Path, offender: &Path, why: &str) {
    let line = attempt(directory).unwrap_err();
    let expected = format!("{} is not used for MPI shims", directory.display());
    assert!(line.starts_with(&expected) && line.contains("set TREEPIE_CACHE_DIR to"), "{line}");
    assert!(line.contains(&format!("{} {why}", offender.display())) && !line.contains('\n'), "{line}");
    assert!(find(&[directory.to_path_buf()], |name| name == "thing", &mut Vec::new()).is_none());
}

/// Whether this process may chown files, as some attacks need.
fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("SKIPPED: only root can make files of other users");
    }
    is_root
}

#[test]
fn one_of_many_makes_it_and_all_get_it() {
    let scratch = Scratch::new();
    let directory = [scratch.path().join("cache")];
    let made = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let slowly = |directory: &TrustedDirectory| {
                    made.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(20));
                    make("whole")(directory)
                };
                let (shim, _) = get_or_build(&directory, "thing", slowly, &mut Vec::new()).unwrap();
                assert_eq!(text(&shim), "whole");
            });
        }
    });
    assert_eq!(made.load(Ordering::Relaxed), 1);
    assert_eq!(names(&directory[0]), ["lock", "thing"]);
}

#[test]
fn a_failed_build_leaves_nothing() {
    let scratch = Scratch::new();
    let failing = |directory: &TrustedDirectory| make("half")(directory).and(Err(SetupError::NoMpicc));
    let failure = get_or_build(&[scratch.path().to_path_buf()], "thing", failing, &mut Vec::new());
    assert!(matches!(failure, Err(SetupError::NoMpicc)));
    assert_eq!(names(scratch.path()), ["lock"]);
}

#[test]
fn the_next_directory_is_taken_when_one_cannot_be_made() {
    let scratch = Scratch::new();
    let file = scratch.path().join("file");
    fs::write(&file, "").unwrap();
    let directories = [file.join("below a file"), scratch.path().join("good")];
    for is_new in [true, false] {
        let (shim, built) = get_or_build(&directories, "thing", make("whole"), &mut Vec::new()).unwrap();
        assert_eq!((shim.path(), built), (&*directories[1].join("thing"), is_new));
    }
    let failure = get_or_build(&directories[..1], "thing", make("whole"), &mut Vec::new());
    assert!(matches!(failure, Err(SetupError::Cache { .. })));
}

#[test]
fn places_follow_the_environment() {
    let set = |variables: &'static [(&str, &str)]| {
        CacheDirs::from_variables(|name| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into()))
    };
    let chosen = CacheDirs { directories: vec!["here".into()], is_user_specified: true };
    assert_eq!(set(&[("TREEPIE_CACHE_DIR", "here"), ("HOME", "/home/me")]), chosen);
    let first = |variables| set(variables).directories[0].clone();
    assert_eq!(first(&[("XDG_CACHE_HOME", "/xdg"), ("HOME", "/home/me")]), Path::new("/xdg/treepie"));
    assert_eq!(first(&[("XDG_CACHE_HOME", "relative"), ("HOME", "/home/me")]), Path::new("/home/me/.cache/treepie"));
    assert!(first(&[]).starts_with(std::env::temp_dir()));
    assert!(!set(&[]).is_user_specified);
}

#[test]
fn directories_that_others_can_write_are_refused_wherever_they_are() {
    let scratch = Scratch::new();
    let (open, good) = (scratch.path().join("open"), scratch.path().join("good"));
    let below = open.join("below");
    for path in [&open, &good, &below] {
        fs::create_dir(path).unwrap();
        set_mode(path, 0o755);
    }
    assert_eq!(attempt(&below), Ok(("mine".into(), true)));
    for mode in [0o777, 0o775, 0o757] {
        set_mode(&open, mode);
        let why = format!("can be written by other users (mode {mode:04o})");
        refused(&open, &open, &why);
        refused(&below, &open, &why);
        refused(&good.join("../open"), &open, &why);
        refused(&good.join("../open/below"), &open, &why);
        refused(&open.join("not yet"), &open, &why);
    }
    symlink(&open, good.join("link")).unwrap();
    symlink("../open/below", good.join("relative")).unwrap();
    refused(&good.join("link"), &open, "can be written");
    refused(&good.join("link/below"), &open, "can be written");
    refused(&good.join("relative"), &open, "can be written");
    // Below a sticky directory others cannot rename what is ours; in it they can create any name.
    set_mode(&open, 0o1777);
    refused(&open, &open, "can be written by other users (mode 1777)");
    assert_eq!(attempt(&below), Ok(("mine".into(), false)));
    assert_eq!(attempt(&good.join("relative")), Ok(("mine".into(), false)));
    symlink("loop", good.join("loop")).unwrap();
    assert!(attempt(&good.join("loop")).unwrap_err().contains("symbolic links"));
}

#[test]
fn directories_and_links_of_others_are_refused() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let (sticky, mine) = (scratch.path().join("sticky"), scratch.path().join("mine"));
    let (theirs, link) = (sticky.join("treepie-0"), sticky.join("link"));
    for path in [&sticky, &mine, &theirs] {
        fs::create_dir(path).unwrap();
        set_mode(path, 0o755);
    }
    set_mode(&sticky, 0o1777);
    symlink(&mine, &link).unwrap();
    assert_eq!(attempt(&link), Ok(("mine".into(), true)));
    std::os::unix::fs::lchown(&link, Some(STRANGER), Some(STRANGER)).unwrap();
    chown(&theirs, Some(STRANGER), Some(STRANGER)).unwrap();
    refused(&link, &link, "belongs to user 54321");
    refused(&theirs, &theirs, "belongs to user 54321");
    refused(&theirs.join("below"), &theirs, "belongs to user 54321");
}

#[test]
fn files_of_others_are_made_anew() {
    let scratch = Scratch::new();
    let thing = scratch.path().join("thing");
    let plant: [(&str, &dyn Fn()); 4] = [
        ("can be written by other users (mode 0666)", &|| {
            fs::write(&thing, "planted").unwrap();
            set_mode(&thing, 0o666);
        }),
        ("is a symbolic link", &|| {
            fs::write(scratch.path().join("elsewhere"), "planted").unwrap();
            symlink("elsewhere", &thing).unwrap();
        }),
        ("is not a regular file", &|| {
            rustix::fs::mknodat(rustix::fs::CWD, &thing, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        }),
        ("belongs to user 54321", &|| {
            fs::write(&thing, "planted").unwrap();
            chown(&thing, Some(STRANGER), Some(STRANGER)).unwrap();
        }),
    ];
    for (why, plant) in plant.iter().take(if is_root() { 4 } else { 3 }) {
        let _ = fs::remove_file(&thing);
        plant();
        let directories = [scratch.path().to_path_buf()];
        let mut refused = Vec::new();
        assert!(find(&directories, |name| name == "thing", &mut refused).is_none(), "{why}");
        assert!(refused[0].to_string().contains(&format!("{} {why}", thing.display())), "{}", refused[0]);
        assert_eq!(attempt(scratch.path()), Ok(("mine".into(), true)), "{why}");
        assert_eq!(attempt(scratch.path()), Ok(("mine".into(), false)), "{why}");
    }
}

#[test]
fn what_was_looked_at_is_what_is_loaded() {
    let scratch = Scratch::new();
    attempt(scratch.path()).unwrap();
    let (shim, _) = get_or_build(&[scratch.path().to_path_buf()], "thing", make("other"), &mut Vec::new()).unwrap();
    fs::rename(scratch.path().join("thing"), scratch.path().join("moved")).unwrap();
    fs::write(scratch.path().join("thing"), "planted").unwrap();
    assert_eq!(text(&shim), "mine");
}

#[test]
fn an_unnamed_build_is_private_and_leaves_nothing() {
    let seen = std::cell::Cell::new(0);
    let looking = |directory: &TrustedDirectory| {
        seen.set(mode(directory.name()));
        make("mine")(directory)
    };
    let shim = build_uncached("thing", looking).unwrap();
    assert_eq!((text(&shim), seen.get()), ("mine".into(), 0o700));
    assert!(!shim.path().parent().unwrap().exists());
}
