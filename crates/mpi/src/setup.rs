//! Compiles the shim with an MPI's compiler, once per MPI and version of the shim, and starts the engine with it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use treepie_base::environment;
use treepie_fabric::Fabric;

use crate::cache::{self, CacheDirs, CachedShim};
use crate::engine::MpiFabric;
use crate::launcher::{Launcher, is_node_leader};
use crate::shim::{SOURCE, Shim};
use crate::trust::TrustedDirectory;
use crate::{Flavor, Installation, SetupError};

/// The number of lines of a compiler's output that an error repeats.
const MAX_ERROR_LINES: usize = 4;

/// A compiled shim.
#[derive(Clone, Debug)]
pub struct InstalledShim {
    /// The shared object.
    pub path: PathBuf,
    /// The MPI that it was compiled for.
    pub installation: Installation,
    /// Whether it was compiled just now; otherwise it was cached.
    pub built: bool,
}

/// Compiles the shim with `mpicc`, or with the one that [`start`] would use, unless that has been done before.
pub fn setup(mpicc: Option<&Path>) -> Result<InstalledShim, SetupError> {
    let installation = match mpicc {
        Some(mpicc) => Installation::from_mpicc(mpicc)?,
        None => select_installation()?,
    };
    let (shim, installation, built) =
        with_warnings(|refused| setup_in(&CacheDirs::from_environment().directories, installation, refused))?;
    Ok(InstalledShim { path: shim.path().into(), installation, built })
}

/// Initializes MPI and returns this rank's engine. Collective; each rank calls it once.
pub fn start() -> Result<Box<dyn Fabric>, SetupError> {
    static STARTED: AtomicBool = AtomicBool::new(false);
    if STARTED.load(Ordering::Relaxed) {
        return Err(SetupError::AlreadyStarted);
    }
    let shim = Shim::load(with_warnings(get_or_build_shim)?)?;
    if STARTED.swap(true, Ordering::Relaxed) {
        return Err(SetupError::AlreadyStarted);
    }
    let world = shim.init().ok_or(SetupError::AlreadyStarted)?;
    let expected = Launcher::detect().and_then(|launcher| launcher.size).unwrap_or(1);
    if expected > 1 && world.size == 1 {
        let library = shim.library_version();
        shim.finalize();
        return Err(SetupError::WrongMpi { size: expected, library });
    }
    Ok(Box::new(MpiFabric::new(shim, world)))
}

/// The MPI to use: `TREEPIE_MPICC`, else the one whose launcher started this process, else the first.
fn select_installation() -> Result<Installation, SetupError> {
    match environment::path(environment::MPICC) {
        Some(mpicc) => Installation::from_mpicc(&mpicc),
        None => Installation::for_flavor(launcher_flavor()),
    }
}

fn launcher_flavor() -> Flavor {
    Launcher::detect().map_or(Flavor::Unknown, |launcher| launcher.flavor)
}

/// Prints, one per line, the untrusted files and directories that were skipped.
fn with_warnings<T>(work: impl FnOnce(&mut Vec<SetupError>) -> Result<T, SetupError>) -> Result<T, SetupError> {
    let mut refused = Vec::new();
    let result = work(&mut refused);
    let mut lines: Vec<String> = refused.iter().map(SetupError::to_string).collect();
    lines.dedup();
    // A returned error is reported by the caller.
    lines.retain(|line| result.as_ref().err().is_none_or(|error| *line != error.to_string()));
    static PRINTED: AtomicBool = AtomicBool::new(false);
    if !lines.is_empty() && is_node_leader() && !PRINTED.swap(true, Ordering::Relaxed) {
        lines.iter().for_each(|line| eprintln!("treepie: {line}"));
    }
    result
}

/// Finds or builds the shim to load.
fn get_or_build_shim(refused: &mut Vec<SetupError>) -> Result<CachedShim, SetupError> {
    let cache_dirs = CacheDirs::from_environment();
    match select_installation() {
        Ok(installation) => match setup_in(&cache_dirs.directories, installation.clone(), refused) {
            // Compiling takes about a second at each start, but works.
            Err(error @ (SetupError::Cache { .. } | SetupError::Untrusted { .. })) if !cache_dirs.is_user_specified => {
                refused.push(error);
                let name = shim_name(&installation);
                cache::build_uncached(&name, |directory| compile(&installation.mpicc, directory, &name))
            }
            other => other.map(|(shim, ..)| shim),
        },
        // A compute node may have no compiler. A shim that was built elsewhere for this MPI and is in a shared cache
        // will do.
        Err(error @ (SetupError::NoMpicc | SetupError::NoMatchingMpicc { .. })) => {
            let flavors = match launcher_flavor() {
                Flavor::Unknown => vec![Flavor::OpenMpi, Flavor::Mpich, Flavor::Unknown],
                known => vec![known],
            };
            let prefixes: Vec<String> = flavors.into_iter().map(shim_prefix).collect();
            let is_shim = |name: &str| name.ends_with(".so") && prefixes.iter().any(|prefix| name.starts_with(prefix));
            cache::find(&cache_dirs.directories, is_shim, refused).ok_or(error)
        }
        Err(error) => Err(error),
    }
}

fn setup_in(
    directories: &[PathBuf],
    installation: Installation,
    refused: &mut Vec<SetupError>,
) -> Result<(CachedShim, Installation, bool), SetupError> {
    let name = shim_name(&installation);
    let make = |directory: &TrustedDirectory| compile(&installation.mpicc, directory, &name);
    let (shim, built) = cache::get_or_build(directories, &name, make, refused)?;
    Ok((shim, installation, built))
}

fn shim_name(installation: &Installation) -> String {
    let (mpicc, flavor, version) = installation.identity();
    let mpi = fnv1a(&[mpicc.as_os_str().as_encoded_bytes(), version.as_bytes()]);
    format!("{}{mpi:016x}.so", shim_prefix(flavor))
}

/// The prefix of the names of shims of this source, for this architecture and MPI.
fn shim_prefix(flavor: Flavor) -> String {
    let flavor = match flavor {
        Flavor::OpenMpi => "openmpi",
        Flavor::Mpich => "mpich",
        Flavor::Unknown => "mpi",
    };
    format!("{flavor}-{:016x}-", fnv1a(&[SOURCE.as_bytes(), std::env::consts::ARCH.as_bytes()]))
}

/// Compiles the shim into a private directory.
fn compile(mpicc: &Path, directory: &TrustedDirectory, name: &str) -> Result<(), SetupError> {
    let failed = |error: std::io::Error| SetupError::cache(directory.name(), error);
    let source = directory.create("shim.c").map_err(|refusal| SetupError::refused(directory.name(), refusal));
    source?.write_all(SOURCE.as_bytes()).map_err(failed)?;
    let mut command = Command::new(mpicc);
    command.args(["-std=gnu99", "-O2", "-fPIC", "-shared", "shim.c", "-o"]).arg(name);
    // The compiler's temporary files stay in the same directory: others may write to the usual one.
    command.current_dir(directory.path()).env("TMPDIR", ".").stdin(Stdio::null());
    let output =
        command.output().map_err(|error| SetupError::NotRunnable { mpicc: mpicc.into(), reason: error.to_string() })?;
    if output.status.success() && directory.path().join(name).is_file() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut output: Vec<_> = lines.take(MAX_ERROR_LINES).map(str::to_string).collect();
    if output.is_empty() {
        output.push("the compiler printed nothing and wrote no file".into());
    }
    Err(SetupError::Compile { mpicc: mpicc.into(), output: output.join(" | ") })
}

/// FNV-1a: a hash that is the same in every build of Treepie; not cryptographic.
fn fnv1a(parts: &[&[u8]]) -> u64 {
    // The length before each part keeps the boundary between parts significant.
    let lengths = parts.iter().map(|part| (part.len() as u64).to_le_bytes());
    let bytes = parts.iter().zip(lengths).flat_map(|(part, length)| length.into_iter().chain(part.iter().copied()));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::tests::Scratch;

    #[test]
    fn a_shim_is_compiled_once_and_can_be_loaded_by_name() {
        let found = crate::installations();
        if found.is_empty() {
            eprintln!("SKIPPED: no mpicc, so nothing can be set up");
        }
        for installation in found {
            let scratch = Scratch::new();
            let directories = [scratch.path().to_path_buf()];
            let mut refused = Vec::new();
            let (first, _, is_first_built) = setup_in(&directories, installation.clone(), &mut refused).unwrap();
            let (second, _, is_second_built) = setup_in(&directories, installation.clone(), &mut refused).unwrap();
            assert!(is_first_built && !is_second_built);
            assert_eq!(first.path(), second.path());
            let prefix = shim_prefix(installation.flavor);
            let found = cache::find(&directories, |name| name.starts_with(&prefix), &mut refused).unwrap();
            assert_eq!(found.path(), first.path());
            assert!(refused.is_empty(), "{refused:?}");
        }
    }

    #[test]
    fn another_version_of_an_mpi_gets_another_shim() {
        let name = |mpicc: &str, version: &str| {
            shim_name(&Installation { mpicc: mpicc.into(), flavor: Flavor::Mpich, version: version.into() })
        };
        assert_eq!(name("/opt/a/mpicc", "4.0"), name("/opt/a/mpicc", "4.0"));
        assert_ne!(name("/opt/a/mpicc", "4.0"), name("/opt/a/mpicc", "4.1"));
        assert_ne!(name("/opt/a/mpicc", "4.0"), name("/opt/b/mpicc", "4.0"));
    }

    #[test]
    fn a_compiler_that_fails_is_quoted_in_one_line() {
        let scratch = Scratch::new();
        let fail = |program: &str| {
            let mpicc = Installation::from_mpicc(Path::new(program)).unwrap();
            setup_in(&[scratch.path().to_path_buf()], mpicc, &mut Vec::new()).unwrap_err().to_string()
        };
        let complaint = fail("cp");
        assert!(complaint.contains("cp could not compile the MPI shim: ") && !complaint.contains('\n'), "{complaint}");
        assert!(fail("true").ends_with("the compiler printed nothing and wrote no file"));
        let left = cache::find(&[scratch.path().to_path_buf()], |name| name != "lock", &mut Vec::new());
        assert!(left.is_none(), "{left:?}");
    }
}
