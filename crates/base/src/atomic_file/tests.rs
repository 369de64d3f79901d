use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use rustix::fs::FileType;

use super::*;

/// An empty directory that is removed on drop.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("treepie-atomic-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

/// Both kinds of files.
fn both(check: impl Fn(fn(&Path) -> io::Result<AtomicFile>)) {
    check(AtomicFile::create);
    check(AtomicFile::create_named);
}

#[test]
fn a_file_appears_whole() {
    both(|create| {
        let directory = Directory::new();
        let path = directory.0.join("result");
        for text in ["first", "second"] {
            let before = path.exists().then(|| read(&path));
            let mut file = create(&path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
            assert_eq!(path.exists().then(|| read(&path)), before);
            file.commit().unwrap();
            assert_eq!((read(&path), directory.names()), (text.into(), vec!["result".into()]));
        }
    });
}

#[test]
fn what_is_not_committed_leaves_nothing() {
    both(|create| {
        let directory = Directory::new();
        let path = directory.file("result", "old");
        let mut file = create(&path).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!((read(&path), directory.names()), ("old".into(), vec!["result".into()]));
    });
}

#[test]
fn an_unfinished_file_has_no_name() {
    let directory = Directory::new();
    let mut file = AtomicFile::create(&directory.0.join("result")).unwrap();
    if matches!(file.kind, FileKind::Named { .. }) {
        eprintln!("SKIPPED: the file system of {} has no files without names", directory.0.display());
        return;
    }
    file.write_all(b"half").unwrap();
    assert_eq!((read(&file.path()), directory.names().len()), ("half".into(), 0));
    // A file created meanwhile is replaced, too.
    let path = directory.file("result", "other");
    file.commit().unwrap();
    assert_eq!((read(&path), directory.names().len()), ("half".into(), 1));
}

#[test]
fn modes_and_owners_stay() {
    both(|create| {
        let directory = Directory::new();
        let path = directory.file("result", "old");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            std::os::unix::fs::chown(&path, Some(54321), Some(54321)).unwrap();
        }
        create(&path).unwrap().commit().unwrap();
        let found = fs::metadata(&path).unwrap();
        assert_eq!(found.mode() & 0o7777, 0o640);
        assert!(!is_root || (found.uid(), found.gid()) == (54321, 54321));
        // A new file has the default mode.
        let (new, plain) = (directory.0.join("new"), directory.file("plain", ""));
        create(&new).unwrap().commit().unwrap();
        assert_eq!(fs::metadata(&new).unwrap().mode(), fs::metadata(&plain).unwrap().mode());
    });
}

#[test]
fn links_stay_links() {
    both(|create| {
        let directory = Directory::new();
        let (there, link, chain) = (directory.0.join("there"), directory.0.join("link"), directory.0.join("chain"));
        symlink("there", &link).unwrap();
        symlink(&link, &chain).unwrap();
        // At first it is dangling.
        for _ in 0..2 {
            let mut file = create(&chain).unwrap();
            file.write_all(b"new").unwrap();
            file.commit().unwrap();
            assert_eq!(read(&there), "new");
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        }
        assert_eq!(directory.names(), ["chain", "link", "there"]);
        symlink("loop", directory.0.join("loop")).unwrap();
        assert!(create(&directory.0.join("loop")).is_err());
    });
}

#[test]
fn what_cannot_be_written_is_refused_at_once() {
    both(|create| {
        let directory = Directory::new();
        assert_eq!(create(&directory.0).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        assert_eq!(create(&directory.0.join("no/file")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(create(Path::new("")).is_err());
        assert!(create(&directory.0.join("..")).is_err());
        assert!(create(&directory.file("file", "").join("below")).is_err());
    });
    assert!(AtomicFile::create_named(Path::new("/dev/null")).is_err());
}

#[test]
fn devices_and_pipes_are_written_to() {
    AtomicFile::create(Path::new("/dev/null")).unwrap().commit().unwrap();
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
    let directory = Directory::new();
    let fifo = directory.0.join("fifo");
    rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let reader = std::thread::spawn({
        let fifo = fifo.clone();
        move || read(&fifo)
    });
    let mut file = AtomicFile::create(&fifo).unwrap();
    assert!(!file.is_regular());
    file.write_all(b"through").unwrap();
    drop(file.commit().unwrap());
    assert_eq!(reader.join().unwrap(), "through");
    assert_eq!(directory.names(), ["fifo"]);
}

#[test]
fn a_descriptor_of_a_regular_file_is_continued() {
    let directory = Directory::new();
    let path = directory.file("log", "begun\n");
    let open = File::options().append(true).open(&path).unwrap();
    let number = format!("/dev/fd/{}", open.as_raw_fd());
    let mut file = AtomicFile::create(Path::new(&number)).unwrap();
    file.write_all(b"more\n").unwrap();
    file.commit().unwrap();
    (&open).write_all(b"end\n").unwrap();
    assert_eq!(read(&path), "begun\nmore\nend\n");
}

#[test]
fn files_of_killed_writers_are_removed() {
    let directory = Directory::new();
    let list = TemporaryFileList::new().unwrap();
    let (left, renamed, other) =
        (directory.file("left", ""), directory.file("renamed", ""), directory.file("other", ""));
    let entry = |path: &Path| TemporaryFileEntry::in_list(&list.path(), path).unwrap();
    // As if the writer had been killed: nothing is dropped.
    std::mem::forget(entry(&left));
    drop(entry(&renamed));
    std::mem::forget(entry(&directory.0.join("gone")));
    assert!(TemporaryFileEntry::in_list(&other, &renamed).is_none(), "another file is no list");
    list.remove_files();
    assert_eq!(directory.names(), ["other", "renamed"]);
}

#[test]
fn long_names_have_temporary_names_too() {
    let directory = Directory::new();
    let path = directory.0.join("ü".repeat(120));
    AtomicFile::create_named(&path).unwrap().commit().unwrap();
    AtomicFile::create(&path).unwrap().commit().unwrap();
    assert_eq!(directory.names().len(), 1);
}
