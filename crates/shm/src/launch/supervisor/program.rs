//! The program that ranks run, prepared so that starting it takes only system calls, and a rank from fork to exec.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::{mem, ptr};

use rustix::process::Rlimit;
use treepie_base::atomic_file::TEMPORARIES_VAR;

use super::super::Launch;
use super::children::format_decimal;
use crate::{ARENA_VAR, RANK_VAR, SIZE_VAR};

/// The search path if `PATH` is not set.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// The arguments of exec, as C strings.
pub(super) struct Program {
    /// Candidate paths of the program, in this order.
    paths: Vec<CString>,
    /// `sh`, the program and its arguments. The shell runs a script without `#!`: `sh path arguments`.
    arguments: Vec<*const libc::c_char>,
    environment: Vec<*const libc::c_char>,
    /// `TREEPIE_RANK=` and space for the number.
    rank: Vec<u8>,
    arena: i32,
    fd_limit: Option<libc::rlimit>,
    /// The strings that the pointers point to.
    _strings: Vec<CString>,
}

/// The index of the program in `arguments`.
const ARGV_START: usize = 1;

impl Program {
    pub(super) fn new(launch: &Launch, arena: i32, temporaries: &Path, fd_limit: Option<Rlimit>) -> io::Result<Self> {
        let arguments = [&launch.program].into_iter().chain(&launch.args);
        let arguments: Vec<CString> = arguments.map(|text| c_string(text.clone())).collect::<io::Result<_>>()?;
        let variables = rank_environment(launch, arena, temporaries);
        let path = variables.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
        let paths = search_paths(&launch.program, path).into_iter().map(c_string).collect::<io::Result<_>>()?;
        let environment = variables.iter().map(|(name, value)| {
            let mut text = name.clone();
            text.push("=");
            text.push(value);
            c_string(text)
        });
        let environment: Vec<CString> = environment.collect::<io::Result<_>>()?;
        let mut rank = format!("{RANK_VAR}=").into_bytes();
        rank.extend([0; 11]);
        let null = [ptr::null()];
        let pointers = |texts: &[CString]| texts.iter().map(|text| text.as_ptr()).collect::<Vec<_>>();
        Ok(Self {
            paths,
            arguments: [c"sh".as_ptr()].into_iter().chain(pointers(&arguments)).chain(null).collect(),
            environment: [rank.as_ptr().cast()].into_iter().chain(pointers(&environment)).chain(null).collect(),
            rank,
            arena,
            fd_limit: fd_limit.map(|limit| libc::rlimit {
                rlim_cur: limit.current.unwrap_or(libc::RLIM_INFINITY),
                rlim_max: limit.maximum.unwrap_or(libc::RLIM_INFINITY),
            }),
            _strings: arguments.into_iter().chain(environment).collect(),
        })
    }

    /// The descriptor of the shared memory.
    pub(super) fn arena(&self) -> i32 {
        self.arena
    }

    fn write_rank(&mut self, rank: u32) {
        let mut digits = [0; 10];
        let digits = format_decimal(rank, &mut digits).iter().chain(&[0]);
        for (byte, digit) in self.rank.iter_mut().skip(RANK_VAR.len() + 1).zip(digits) {
            *byte = *digit;
        }
    }
}

/// The environment of the ranks without `TREEPIE_RANK`.
fn rank_environment(launch: &Launch, arena: i32, temporaries: &Path) -> Vec<(OsString, OsString)> {
    let job: [(&str, OsString); 3] = [
        (SIZE_VAR, launch.ranks.to_string().into()),
        (ARENA_VAR, arena.to_string().into()),
        (TEMPORARIES_VAR, temporaries.as_os_str().to_owned()),
    ];
    let job = job.map(|(name, value)| (OsString::from(name), value));
    let mut variables: Vec<(OsString, OsString)> = Vec::new();
    for (name, value) in std::env::vars_os().chain(launch.env.iter().cloned()).chain(job) {
        if name == RANK_VAR {
            continue;
        }
        match variables.iter_mut().find(|(known, _)| *known == name) {
            Some(known) => known.1 = value,
            None => variables.push((name, value)),
        }
    }
    variables
}

/// The candidate paths of a program: a path itself, or a name in each directory of `PATH`.
fn search_paths(program: &OsStr, path: Option<&OsStr>) -> Vec<OsString> {
    if program.as_bytes().contains(&b'/') {
        return vec![program.to_owned()];
    }
    let directories = path.unwrap_or(OsStr::new(DEFAULT_PATH)).as_bytes().split(|byte| *byte == b':');
    let joined = directories.map(|directory| {
        // An empty one is the current directory.
        let mut joined = if directory.is_empty() { b".".to_vec() } else { directory.to_vec() };
        joined.push(b'/');
        joined.extend_from_slice(program.as_bytes());
        OsString::from_vec(joined)
    });
    joined.collect()
}

fn c_string(text: OsString) -> io::Result<CString> {
    CString::new(text.into_vec())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "an argument or a variable has a zero byte in it"))
}

/// Starts a rank and returns its pid or an `errno`. Async-signal-safe.
pub(super) fn spawn_rank(program: &mut Program, rank: u32, core: i32, streams: [i32; 3]) -> Result<i32, i32> {
    program.write_rank(rank);
    let mut failure = [-1; 2];
    // SAFETY: system calls on descriptors and memory of this process. The child only calls `exec_rank`, which is made
    // for it. Its error comes through a pipe that exec closes.
    unsafe {
        if libc::pipe2(failure.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(*libc::__errno_location());
        }
        let supervisor = libc::getpid();
        let pid = libc::fork();
        if pid == 0 {
            let error = exec_rank(program, supervisor, core, streams);
            libc::write(failure[1], ptr::from_ref(&error).cast(), mem::size_of_val(&error));
            libc::_exit(127);
        }
        let forked = *libc::__errno_location();
        libc::close(failure[1]);
        let mut error = 0_i32;
        let mut read = -1;
        if pid > 0 {
            loop {
                read = libc::read(failure[0], ptr::from_mut(&mut error).cast(), mem::size_of_val(&error));
                if read >= 0 || *libc::__errno_location() != libc::EINTR {
                    break;
                }
            }
        }
        libc::close(failure[0]);
        if pid < 0 {
            return Err(forked);
        }
        if read as usize == mem::size_of_val(&error) {
            while libc::waitpid(pid, ptr::null_mut(), 0) < 0 && *libc::__errno_location() == libc::EINTR {}
            return Err(error);
        }
        Ok(pid)
    }
}

/// Executes the program, or returns an `errno`. Async-signal-safe.
fn exec_rank(program: &mut Program, supervisor: i32, core: i32, streams: [i32; 3]) -> i32 {
    // SAFETY: system calls on descriptors and memory of this process, which has one thread. The arrays end with null,
    // and `program` owns what they point to.
    unsafe {
        libc::setpgid(0, 0);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != supervisor {
            // The supervisor died before the parent-death signal was set.
            return libc::ESRCH;
        }
        for (number, stream) in (0..).zip(streams) {
            if libc::dup2(stream, number) < 0 {
                return *libc::__errno_location();
            }
        }
        if libc::fcntl(program.arena, libc::F_SETFD, 0) < 0 {
            return *libc::__errno_location();
        }
        if let Ok(core @ 0..1024) = usize::try_from(core) {
            let mut set: libc::cpu_set_t = mem::zeroed();
            libc::CPU_SET(core, &mut set);
            // Cores may have been taken away meanwhile; a rank that runs elsewhere is better than none.
            libc::sched_setaffinity(0, mem::size_of_val(&set), &set);
        }
        if let Some(limit) = &program.fd_limit
            && libc::setrlimit(libc::RLIMIT_NOFILE, limit) != 0
        {
            return *libc::__errno_location();
        }
        let mut none: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &none, ptr::null_mut());
        // The launcher's process ignores it, as programs in Rust do.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        let mut failure = libc::ENOENT;
        for path in &program.paths {
            let path = path.as_ptr();
            libc::execve(path, program.arguments.as_ptr().add(ARGV_START), program.environment.as_ptr());
            match *libc::__errno_location() {
                // As execvp: not found, or on a file system that is unavailable.
                libc::ENOENT | libc::ENOTDIR | libc::ESTALE | libc::ENODEV | libc::ETIMEDOUT => {}
                libc::EACCES => failure = libc::EACCES,
                // A script without `#!`: as execvp does.
                libc::ENOEXEC => {
                    if let Some(argument) = program.arguments.get_mut(ARGV_START) {
                        *argument = path;
                    }
                    libc::execve(c"/bin/sh".as_ptr(), program.arguments.as_ptr(), program.environment.as_ptr());
                    return libc::ENOEXEC;
                }
                error => return error,
            }
        }
        failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_up_and_paths_are_not() {
        let found = |program: &str, path: Option<&str>| search_paths(OsStr::new(program), path.map(OsStr::new));
        assert_eq!(found("./a", Some("/b")), ["./a"]);
        assert_eq!(found("a", Some("/b::c")), ["/b/a", "./a", "c/a"]);
        assert_eq!(found("a", None), ["/bin/a", "/usr/bin/a"]);
    }

    #[test]
    fn a_job_s_variables_win() {
        let mut launch = Launch::new(3, "true");
        launch.env =
            vec![(SIZE_VAR.into(), "9".into()), ("PATH".into(), "/here".into()), (RANK_VAR.into(), "9".into())];
        let variables = rank_environment(&launch, 5, Path::new("list"));
        let of = |name: &str| variables.iter().filter(|(n, _)| n == name).map(|(_, v)| v.clone()).collect::<Vec<_>>();
        assert_eq!(
            (of(SIZE_VAR), of(ARENA_VAR), of("PATH"), of(RANK_VAR)),
            (vec!["3".into()], vec!["5".into()], vec!["/here".into()], vec![])
        );
    }
}
