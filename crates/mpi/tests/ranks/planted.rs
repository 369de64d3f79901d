//! Another user's code under the name of a shim: it must not run, and the job continues or reports why not.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Job;

/// Some other user.
const STRANGER: u32 = 54321;

/// Runs as soon as it is loaded.
const PLANTED: &str = r#"
#include <stdio.h>
#include <stdlib.h>
__attribute__((constructor)) static void run(void)
{
    FILE *mark = fopen(getenv("PLANTED_SHIM_MARK"), "w");
    if (mark)
        fclose(mark);
}
"#;

/// All attacks on the jobs of one MPI, whose cache holds its shim.
pub(crate) fn run_all(job: &Job) {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can plant files of other users");
        return;
    }
    let attack = Attack::new(job);
    attack.is_an_attack();
    attack.in_the_users_cache();
    attack.in_a_chosen_directory();
    attack.in_the_temporary_directory();
    attack.of_a_careless_umask();
    eprintln!("planted shims of {}: none was loaded", job.flavor);
}

struct Attack<'a> {
    job: &'a Job,
    /// The directory of the test.
    directory: PathBuf,
    /// The name of the shim.
    name: String,
    mark: PathBuf,
}

impl Drop for Attack<'_> {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.directory).ok();
    }
}

impl<'a> Attack<'a> {
    fn new(job: &'a Job) -> Self {
        let directory = std::env::temp_dir().join(format!("treepie-planted-{}", std::process::id()));
        make(&directory, 0o755);
        let prefix = if job.flavor == treepie_mpi::Flavor::OpenMpi { "openmpi-" } else { "mpich-" };
        let entries = fs::read_dir(&job.cache).expect("a cache").flatten();
        let name =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).find(|name| name.starts_with(prefix));
        let name = name.expect("jobs before have compiled the shim");
        let source = directory.join("planted.c");
        fs::write(&source, PLANTED).expect("it is written");
        let mut compiler = Command::new(&job.mpicc);
        compiler.args(["-shared", "-fPIC", "-o"]).arg(directory.join("planted.so")).arg(&source);
        assert!(compiler.status().expect("the compiler runs").success());
        Self { job, mark: directory.join("mark"), directory, name }
    }

    /// Puts the planted file into a directory, owned by another user.
    fn plant(&self, directory: &Path) {
        let file = directory.join(&self.name);
        fs::copy(self.directory.join("planted.so"), &file).expect("it is copied");
        set_mode(&file, 0o755);
        give(&file);
    }

    fn job(&self, environment: &[(&'static str, Option<PathBuf>)]) -> Job {
        // The directories of the attacks are outside the temporary directory, unless an attack sets it.
        let elsewhere = self.directory.join("elsewhere");
        fs::create_dir_all(&elsewhere).expect("a directory");
        let mut environment = [&[("TMPDIR", Some(elsewhere))], environment].concat();
        environment.push(("PLANTED_SHIM_MARK", Some(self.mark.clone())));
        Job { environment, ..self.job.clone() }
    }

    #[track_caller]
    fn goes_on(&self, environment: &[(&'static str, Option<PathBuf>)], line: &str) {
        let job = self.job(environment);
        let (output, _) = job.run("again", 2);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!self.mark.exists(), "another user's code has run");
        assert!(output.status.success(), "{text}");
        assert_eq!(text.lines().filter(|found| found.contains(line)).count(), 1, "no line {line:?} in\n{text}");
    }

    #[track_caller]
    fn is_refused(&self, directory: PathBuf, line: &str) {
        let job = self.job(&[("TREEPIE_CACHE_DIR", Some(directory))]);
        let (output, _) = job.run("again", 2);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!self.mark.exists(), "another user's code has run");
        assert!(!output.status.success() && text.contains(line), "no line {line:?} in\n{text}");
    }

    /// Planted by the user it runs: so the tests below would detect it.
    fn is_an_attack(&self) {
        let own = self.directory.join("own");
        make(&own, 0o700);
        fs::copy(self.directory.join("planted.so"), own.join(&self.name)).expect("it is copied");
        let (output, _) = self.job(&[("TREEPIE_CACHE_DIR", Some(own))]).run("again", 2);
        assert!(!output.status.success() && self.mark.exists());
        fs::remove_file(&self.mark).expect("it is there");
    }

    fn in_the_users_cache(&self) {
        let open = self.directory.join("xdg");
        make(&open, 0o777);
        make(&open.join("treepie"), 0o755);
        self.plant(&open.join("treepie"));
        give(&open.join("treepie"));
        let temporary = self.directory.join("tmp");
        make(&temporary, 0o1777);
        let environment =
            [("TREEPIE_CACHE_DIR", None), ("XDG_CACHE_HOME", Some(open.clone())), ("TMPDIR", Some(temporary.clone()))];
        let line = format!(
            "treepie: {0}/treepie is not used for MPI shims, since other users may have written to it: \
             {0} can be written by other users (mode 0777); set TREEPIE_CACHE_DIR to",
            open.display()
        );
        self.goes_on(&environment, &line);
        assert!(temporary.join(format!("treepie-0/{}", self.name)).is_file(), "the next directory is taken");
    }

    fn in_a_chosen_directory(&self) {
        let (open, good) = (self.directory.join("open"), self.directory.join("good"));
        make(&open, 0o777);
        make(&good, 0o755);
        self.plant(&open);
        symlink(&open, good.join("link")).expect("a link");
        let why = format!("{} can be written by other users (mode 0777)", open.display());
        for directory in [open.clone(), good.join("../open"), good.join("link")] {
            self.is_refused(directory, &why);
        }
        // Where the directory is trusted, the file is rebuilt.
        self.plant(&good);
        let file = good.join(&self.name);
        self.goes_on(&[("TREEPIE_CACHE_DIR", Some(good))], &format!("{} belongs to user 54321", file.display()));
    }

    /// The directory belongs to another user, so there is no cache for a shim.
    fn in_the_temporary_directory(&self) {
        let temporary = self.directory.join("taken");
        let theirs = temporary.join("treepie-0");
        make(&temporary, 0o1777);
        make(&theirs, 0o777);
        self.plant(&theirs);
        give(&theirs);
        let nowhere = self.directory.join("planted.c/home");
        let environment =
            [("TREEPIE_CACHE_DIR", None), ("XDG_CACHE_HOME", Some(nowhere)), ("TMPDIR", Some(temporary.clone()))];
        self.goes_on(&environment, &format!("{} belongs to user 54321", theirs.display()));
        let left = fs::read_dir(&temporary).expect("it is there").flatten().map(|entry| entry.file_name());
        let left: Vec<_> = left.filter(|name| name.to_string_lossy().starts_with("build-")).collect();
        assert!(left.is_empty(), "{left:?}");
    }

    fn of_a_careless_umask(&self) {
        let cache = self.directory.join("careless/cache");
        let careless = ["-c", "umask 000; exec \"$0\" \"$@\""];
        let mut command = Command::new("sh");
        command.args(careless).arg(&self.job.mpirun);
        if self.job.flavor == treepie_mpi::Flavor::OpenMpi {
            command.args(treepie_mpi::OPENMPI_TEST_OPTIONS);
        }
        command.args(["-n", "2", "sh"]).args(careless).arg(std::env::current_exe().expect("this program has a path"));
        command.env(crate::PROGRAM, "again").env("TREEPIE_CACHE_DIR", &cache);
        assert!(command.output().expect("mpirun starts").status.success());
        for (path, mode) in [
            (self.directory.join("careless"), 0o700),
            (cache.clone(), 0o700),
            (cache.join("lock"), 0o600),
            (cache.join(&self.name), 0o600),
        ] {
            let found = fs::metadata(&path).expect("it is there").permissions().mode() & 0o7777;
            assert_eq!(found, mode, "{}: {found:o}", path.display());
        }
    }
}

fn make(directory: &Path, mode: u32) {
    fs::DirBuilder::new().mode(mode).create(directory).expect("a directory");
    set_mode(directory, mode);
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
}

fn give(path: &Path) {
    chown(path, Some(STRANGER), Some(STRANGER)).expect("root may");
}
