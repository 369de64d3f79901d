//! The engine under real MPIs: this program starts itself by each MPI's launcher and checks how the job ends.

mod planted;
mod program;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

use treepie_base::{hang_limit, hang_message};
use treepie_mpi::{Flavor, Installation};

/// The variable that names the program of a started process.
const PROGRAM: &str = "TREEPIE_MPI_TEST";

/// The variable that names a directory of the job, where ranks can signal each other without MPI.
const SIDE_CHANNEL: &str = "MPI_TEST_BESIDE";

fn main() -> ExitCode {
    if let Ok(name) = std::env::var(PROGRAM) {
        return program::run(&name);
    }
    if std::env::args().any(|argument| argument == "--list") {
        println!("ranks: test");
        return ExitCode::SUCCESS;
    }
    let cache = std::env::temp_dir().join(format!("treepie-ranks-{}", std::process::id()));
    let result = std::panic::catch_unwind(|| run_all(&cache));
    std::fs::remove_dir_all(&cache).ok();
    if result.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run_all(cache: &Path) {
    let installations = treepie_mpi::installations();
    let jobs: Vec<Job> = [Flavor::OpenMpi, Flavor::Mpich]
        .into_iter()
        .filter_map(|flavor| {
            let job = installations
                .iter()
                .find(|found| found.flavor == flavor)
                .and_then(|found| Job::for_installation(found, cache));
            if job.is_none() {
                eprintln!("SKIPPED: no mpirun of {flavor} here");
            }
            job
        })
        .collect();
    for job in &jobs {
        // The first job finds an empty cache: one of its four ranks compiles, the others wait.
        for ranks in [4, 3, 2, 1] {
            job.succeeds("exchange", ranks);
        }
        for ranks in [2, 4] {
            job.succeeds("segment", ranks);
        }
        // Without it on one rank, no rank has it.
        job.with("TREEPIE_SHARED_SEGMENT", "off").succeeds("no-segment", 3);
        job.with("MPI_TEST_NO_SEGMENT_ON", "1").succeeds("no-segment", 3);
        if job.flavor == Flavor::Mpich {
            // MPICH can take odd ranks and even ones for those of two hosts, and each rank for one of its own.
            job.with("MPIR_CVAR_ODD_EVEN_CLIQUES", "1").succeeds("segment-of-two-hosts", 5);
            job.with("MPIR_CVAR_NOLOCAL", "1").succeeds("no-segment", 3);
        }
        job.fails("fail", 3, Some(101), "");
        job.fails("vanish", 2, None, "");
        job.fails("forget", 2, None, "treepie: rank 1 exited without finalizing");
        job.fails("exit", 3, Some(3), "treepie: rank 1 exited with status 3");
        job.fails("die", 2, None, "");
        job.succeeds("again", 2);
        // The cached shim is found where there is no compiler.
        let no_compiler = Job { has_compiler: false, ..job.clone() };
        no_compiler.succeeds("again", 2);
        let nothing = Job { cache: cache.join("empty"), ..no_compiler };
        nothing.fails("again", 2, None, "no mpicc found in PATH: install");
    }
    for job in &jobs {
        planted::run_all(job);
    }
    if let [open_mpi, mpich] = &jobs[..] {
        for (job, other, name) in [(open_mpi, mpich, "MPICH"), (mpich, open_mpi, "Open MPI")] {
            let message = format!("the launcher started 2 processes, but {name}");
            let wrong = Job { chosen: Some(other.mpicc.clone()), ..job.clone() };
            wrong.fails("exchange", 2, None, &message);
        }
    }
    let shims = std::fs::read_dir(cache).into_iter().flatten().flatten().filter(|entry| {
        assert!(!entry.file_name().to_string_lossy().starts_with("build-"), "a build was left behind");
        entry.path().extension().is_some_and(|extension| extension == "so")
    });
    assert_eq!(shims.count(), jobs.len(), "each MPI has one shim");
}

/// How to start a job of one MPI.
#[derive(Clone)]
struct Job {
    flavor: Flavor,
    mpicc: PathBuf,
    mpirun: PathBuf,
    cache: PathBuf,
    /// A compiler named by the user.
    chosen: Option<PathBuf>,
    /// Whether the ranks find a compiler.
    has_compiler: bool,
    /// Other variables to set, or to remove.
    environment: Vec<(&'static str, Option<PathBuf>)>,
}

impl Job {
    fn for_installation(installation: &Installation, cache: &Path) -> Option<Self> {
        let name = installation.mpicc.file_name()?.to_str()?.replace("mpicc", "mpirun");
        let mpirun = installation.mpicc.with_file_name(name);
        let (flavor, mpicc) = (installation.flavor, installation.mpicc.clone());
        mpirun.is_file().then(|| Self {
            flavor,
            mpicc,
            mpirun,
            cache: cache.into(),
            chosen: None,
            has_compiler: true,
            environment: Vec::new(),
        })
    }

    /// The job with another variable.
    fn with(&self, name: &'static str, value: &str) -> Self {
        let mut job = self.clone();
        job.environment.push((name, Some(value.into())));
        job
    }

    fn succeeds(&self, program: &str, ranks: u32) {
        let (output, time) = self.run(program, ranks);
        let text = String::from_utf8_lossy(&output.stdout);
        let name = format!("{program} on {ranks} ranks of {}", self.flavor);
        assert!(
            output.status.success(),
            "{name}: {}\n{text}{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        for rank in 0..ranks {
            let line = format!("rank {rank} of {ranks} is done");
            assert!(text.lines().any(|found| found == line), "{name}: no {line:?} in\n{text}");
        }
        eprintln!("{name}: ok in {time:.1?}");
    }

    fn fails(&self, program: &str, ranks: u32, code: Option<i32>, message: &str) {
        let (output, time) = self.run(program, ranks);
        let text = String::from_utf8_lossy(&output.stderr);
        let name = format!("{program} on {ranks} ranks of {}", self.flavor);
        assert!(!output.status.success(), "{name} should fail");
        assert!(code.is_none() || output.status.code() == code, "{name}: {}, not {code:?}\n{text}", output.status);
        assert!(text.contains(message), "{name}: no {message:?} in\n{text}");
        eprintln!("{name}: fails as it should, in {time:.1?}");
    }

    fn run(&self, program: &str, ranks: u32) -> (Output, Duration) {
        let mut command = Command::new(&self.mpirun);
        if self.flavor == Flavor::OpenMpi {
            command.args(treepie_mpi::OPENMPI_TEST_OPTIONS);
        }
        command.args(["-n", &ranks.to_string()]);
        if !self.has_compiler {
            command.args(["env", "PATH=/nonexistent"]);
        }
        command.arg(std::env::current_exe().expect("this program has a path"));
        let side_channel = self.cache.with_extension("beside");
        std::fs::create_dir_all(&side_channel).expect("a directory for the job");
        command
            .env(PROGRAM, program)
            .env(SIDE_CHANNEL, &side_channel)
            .env("TREEPIE_CACHE_DIR", &self.cache)
            .env_remove("TREEPIE_MPICC");
        command.envs(self.chosen.iter().map(|mpicc| ("TREEPIE_MPICC", mpicc)));
        for (name, value) in &self.environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let start = Instant::now();
        let mut job =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("mpirun starts");
        let pid = rustix::process::Pid::from_child(&job);
        let (finished, watched) = std::sync::mpsc::channel::<()>();
        let watchdog = std::thread::spawn(move || {
            if watched.recv_timeout(hang_limit()) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                eprintln!("{}", hang_message("the end of an MPI job, which is ended now"));
                rustix::process::kill_process(pid, rustix::process::Signal::TERM).ok();
            }
        });
        let (mut out, mut err) = (job.stdout.take(), job.stderr.take());
        let errors = std::thread::spawn(move || read_all(err.as_mut()));
        let output = read_all(out.as_mut());
        let status = job.wait().expect("mpirun is a child");
        drop(finished);
        watchdog.join().ok();
        std::fs::remove_dir_all(&side_channel).expect("the directory of the job");
        (Output { status, stdout: output, stderr: errors.join().unwrap_or_default() }, start.elapsed())
    }
}

fn read_all(pipe: Option<&mut impl std::io::Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    pipe.map(|pipe| pipe.read_to_end(&mut bytes));
    bytes
}
