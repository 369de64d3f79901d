//! The program that ranks run, prepared so that starting it takes only system calls, and a rank's life from fork to exec.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::{mem, ptr};

use rustix::process::Rlimit;
use treepie_base::atomic_file::TEMPORARIES;

use super::super::Launch;
use super::children::decimal;
use crate::{ARENA, RANK, SIZE};

/// Where programs are looked for if nothing says.
const PATHS: &str = "/bin:/usr/bin";

/// Everything that exec wants, as the C library has it.
pub(super) struct Program {
    /// Where the program may be, in this order.
    paths: Vec<CString>,
    /// Its arguments, its own name first, behind that of a shell, which runs what has no `#!`: `sh path arguments`.
    arguments: Vec<*const libc::c_char>,
    environment: Vec<*const libc::c_char>,
    /// `TREEPIE_RANK=` and room for the number.
    rank: Vec<u8>,
    arena: i32,
    descriptors: Option<libc::rlimit>,
    /// What the pointers point to.
    _texts: Vec<CString>,
}

/// The program's own arguments begin there.
const OWN: usize = 1;

impl Program {
    pub(super) fn new(
        launch: &Launch,
        arena: i32,
        temporaries: &Path,
        descriptors: Option<Rlimit>,
    ) -> io::Result<Self> {
        let own = [&launch.program].into_iter().chain(&launch.args);
        let arguments: Vec<CString> = own.map(|text| c_string(text.clone())).collect::<io::Result<_>>()?;
        let variables = variables(launch, arena, temporaries);
        let path = variables.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
        let paths = paths(&launch.program, path).into_iter().map(c_string).collect::<io::Result<_>>()?;
        let environment = variables.iter().map(|(name, value)| {
            let mut text = name.clone();
            text.push("=");
            text.push(value);
            c_string(text)
        });
        let environment: Vec<CString> = environment.collect::<io::Result<_>>()?;
        let mut rank = format!("{RANK}=").into_bytes();
        rank.extend([0; 11]);
        let null = [ptr::null()];
        let pointers = |texts: &[CString]| texts.iter().map(|text| text.as_ptr()).collect::<Vec<_>>();
        Ok(Self {
            paths,
            arguments: [c"sh".as_ptr()].into_iter().chain(pointers(&arguments)).chain(null).collect(),
            environment: [rank.as_ptr().cast()].into_iter().chain(pointers(&environment)).chain(null).collect(),
            rank,
            arena,
            descriptors: descriptors.map(|limit| libc::rlimit {
                rlim_cur: limit.current.unwrap_or(libc::RLIM_INFINITY),
                rlim_max: limit.maximum.unwrap_or(libc::RLIM_INFINITY),
            }),
            _texts: arguments.into_iter().chain(environment).collect(),
        })
    }

    /// The descriptor of the shared memory.
    pub(super) fn arena(&self) -> i32 {
        self.arena
    }

    fn write_rank(&mut self, rank: u32) {
        let mut digits = [0; 10];
        let digits = decimal(rank, &mut digits).iter().chain(&[0]);
        for (place, digit) in self.rank.iter_mut().skip(RANK.len() + 1).zip(digits) {
            *place = *digit;
        }
    }
}

/// The environment of the ranks but for their number.
fn variables(launch: &Launch, arena: i32, temporaries: &Path) -> Vec<(OsString, OsString)> {
    let job: [(&str, OsString); 3] = [
        (SIZE, launch.ranks.to_string().into()),
        (ARENA, arena.to_string().into()),
        (TEMPORARIES, temporaries.as_os_str().to_owned()),
    ];
    let job = job.map(|(name, value)| (OsString::from(name), value));
    let mut variables: Vec<(OsString, OsString)> = Vec::new();
    for (name, value) in std::env::vars_os().chain(launch.env.iter().cloned()).chain(job) {
        if name == RANK {
            continue;
        }
        match variables.iter_mut().find(|(known, _)| *known == name) {
            Some(known) => known.1 = value,
            None => variables.push((name, value)),
        }
    }
    variables
}

/// A path is itself; a name is looked up.
fn paths(program: &OsStr, path: Option<&OsStr>) -> Vec<OsString> {
    if program.as_bytes().contains(&b'/') {
        return vec![program.to_owned()];
    }
    let folders = path.unwrap_or(OsStr::new(PATHS)).as_bytes().split(|byte| *byte == b':');
    let joined = folders.map(|folder| {
        // An empty one is the current folder.
        let mut joined = if folder.is_empty() { b".".to_vec() } else { folder.to_vec() };
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

/// Starts a rank and returns its process, or the number of the error. Async-signal-safe.
pub(super) fn start(program: &mut Program, rank: u32, core: i32, streams: [i32; 3]) -> Result<i32, i32> {
    program.write_rank(rank);
    let mut failure = [-1; 2];
    // SAFETY: system calls on descriptors and memory of this process. The child only calls `become_rank`, which is made
    // for it. Its error comes through a pipe that exec closes.
    unsafe {
        if libc::pipe2(failure.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(*libc::__errno_location());
        }
        let guardian = libc::getpid();
        let pid = libc::fork();
        if pid == 0 {
            let error = become_rank(program, guardian, core, streams);
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

/// Becomes the program, or returns the number of the error. Async-signal-safe.
fn become_rank(program: &mut Program, guardian: i32, core: i32, streams: [i32; 3]) -> i32 {
    // SAFETY: system calls on descriptors and memory of this process, which has one thread. The arrays end with null, and
    // what they point to is kept by `program`.
    unsafe {
        libc::setpgid(0, 0);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != guardian {
            // The guardian died before the kernel knew that this is to follow it.
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
        if let Some(limit) = &program.descriptors
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
            libc::execve(path, program.arguments.as_ptr().add(OWN), program.environment.as_ptr());
            match *libc::__errno_location() {
                // As execvp: what is not there, or on a file system that is not.
                libc::ENOENT | libc::ENOTDIR | libc::ESTALE | libc::ENODEV | libc::ETIMEDOUT => {}
                libc::EACCES => failure = libc::EACCES,
                // A script that does not say what runs it: as execvp does.
                libc::ENOEXEC => {
                    if let Some(place) = program.arguments.get_mut(OWN) {
                        *place = path;
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
        let found = |program: &str, path: Option<&str>| paths(OsStr::new(program), path.map(OsStr::new));
        assert_eq!(found("./a", Some("/b")), ["./a"]);
        assert_eq!(found("a", Some("/b::c")), ["/b/a", "./a", "c/a"]);
        assert_eq!(found("a", None), ["/bin/a", "/usr/bin/a"]);
    }

    #[test]
    fn a_job_s_variables_win() {
        let mut launch = Launch::new(3, "true");
        launch.env = vec![(SIZE.into(), "9".into()), ("PATH".into(), "/here".into()), (RANK.into(), "9".into())];
        let variables = variables(&launch, 5, Path::new("list"));
        let of = |name: &str| variables.iter().filter(|(n, _)| n == name).map(|(_, v)| v.clone()).collect::<Vec<_>>();
        assert_eq!(
            (of(SIZE), of(ARENA), of("PATH"), of(RANK)),
            (vec!["3".into()], vec!["5".into()], vec!["/here".into()], vec![])
        );
    }
}
