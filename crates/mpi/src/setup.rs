//! Compiles the shim with an MPI's compiler, once per MPI and version of the shim, and starts the engine with it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use treepie_base::environment;
use treepie_fabric::Fabric;

use crate::cache;
use crate::engine::MpiFabric;
use crate::launcher::Launcher;
use crate::shim::{SOURCE, Shim};
use crate::{Flavor, Installation, SetupError};

/// How much of a compiler's complaint an error repeats.
const COMPLAINT_LINES: usize = 4;

/// A compiled shim.
#[derive(Clone, Debug)]
pub struct Installed {
    /// The shared object.
    pub path: PathBuf,
    /// The MPI that it was compiled for.
    pub installation: Installation,
    /// Whether it was compiled just now; otherwise it was there.
    pub built: bool,
}

/// Compiles the shim with `mpicc`, or with the one that [`start`] would use, unless that has been done before.
pub fn setup(mpicc: Option<&Path>) -> Result<Installed, SetupError> {
    let installation = match mpicc {
        Some(mpicc) => Installation::named(mpicc)?,
        None => choose()?,
    };
    setup_in(&cache::directories(), installation)
}

/// Starts MPI and returns this rank's engine. All ranks do this together, each once.
pub fn start() -> Result<Box<dyn Fabric>, SetupError> {
    static STARTED: AtomicBool = AtomicBool::new(false);
    let shim = Shim::load(&shim_path()?)?;
    if STARTED.swap(true, Ordering::Relaxed) {
        return Err(SetupError::Again);
    }
    let world = shim.begin().ok_or(SetupError::Again)?;
    let expected = Launcher::find().and_then(|launcher| launcher.size).unwrap_or(1);
    if expected > 1 && world.size == 1 {
        let library = shim.library();
        shim.end();
        return Err(SetupError::WrongMpi { size: expected, library });
    }
    Ok(Box::new(MpiFabric::new(shim, world)))
}

/// The MPI to use: `TREEPIE_MPICC`, else the one whose launcher started this process, else the first.
fn choose() -> Result<Installation, SetupError> {
    match environment::path(environment::MPICC) {
        Some(mpicc) => Installation::named(&mpicc),
        None => Installation::of(wanted()),
    }
}

fn wanted() -> Flavor {
    Launcher::find().map_or(Flavor::Unknown, |launcher| launcher.flavor)
}

fn shim_path() -> Result<PathBuf, SetupError> {
    let directories = cache::directories();
    match choose() {
        Ok(installation) => Ok(setup_in(&directories, installation)?.path),
        // A compute node may have no compiler. What was set up elsewhere for this MPI and shared by the cache will do.
        Err(error @ (SetupError::NoMpicc | SetupError::NoMpiccOf { .. })) => {
            let flavors = match wanted() {
                Flavor::Unknown => vec![Flavor::OpenMpi, Flavor::Mpich, Flavor::Unknown],
                known => vec![known],
            };
            let prefixes: Vec<String> = flavors.into_iter().map(shim_prefix).collect();
            let is_shim = |name: &str| name.ends_with(".so") && prefixes.iter().any(|prefix| name.starts_with(prefix));
            cache::find(&directories, is_shim).ok_or(error)
        }
        Err(error) => Err(error),
    }
}

fn setup_in(directories: &[PathBuf], installation: Installation) -> Result<Installed, SetupError> {
    let name = shim_name(&installation);
    let (path, built) = cache::obtain(directories, &name, |path| compile(&installation.mpicc, path))?;
    Ok(Installed { path, installation, built })
}

fn shim_name(installation: &Installation) -> String {
    let (mpicc, flavor, version) = installation.identity();
    let mpi = fnv1a(&[mpicc.as_os_str().as_encoded_bytes(), version.as_bytes()]);
    format!("{}{mpi:016x}.so", shim_prefix(flavor))
}

/// How the names of shims of this source, for this kind of processor and MPI, begin.
fn shim_prefix(flavor: Flavor) -> String {
    let flavor = match flavor {
        Flavor::OpenMpi => "openmpi",
        Flavor::Mpich => "mpich",
        Flavor::Unknown => "mpi",
    };
    format!("{flavor}-{:016x}-", fnv1a(&[SOURCE.as_bytes(), std::env::consts::ARCH.as_bytes()]))
}

fn compile(mpicc: &Path, shim: &Path) -> Result<(), SetupError> {
    let (Some(directory), Some(name)) = (shim.parent(), shim.file_name()) else {
        unreachable!("the cache gives a file in a directory");
    };
    std::fs::write(directory.join("shim.c"), SOURCE).map_err(|error| SetupError::cache(directory, error))?;
    let mut command = Command::new(mpicc);
    command.args(["-std=gnu99", "-O2", "-fPIC", "-shared", "shim.c", "-o"]).arg(name);
    command.current_dir(directory).stdin(Stdio::null());
    let output =
        command.output().map_err(|error| SetupError::NotRunnable { mpicc: mpicc.into(), reason: error.to_string() })?;
    if output.status.success() && shim.is_file() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut output: Vec<_> = lines.take(COMPLAINT_LINES).map(str::to_string).collect();
    if output.is_empty() {
        output.push("it said nothing and wrote no file".into());
    }
    Err(SetupError::Compile { mpicc: mpicc.into(), output: output.join(" | ") })
}

/// A hash that stays the same in every build of Treepie; not meant against an adversary.
fn fnv1a(parts: &[&[u8]]) -> u64 {
    // The length before each part keeps the border between parts significant.
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
            let first = setup_in(&directories, installation.clone()).unwrap();
            let second = setup_in(&directories, installation.clone()).unwrap();
            assert!(first.built && !second.built);
            assert_eq!(first.path, second.path);
            let prefix = shim_prefix(installation.flavor);
            assert_eq!(cache::find(&directories, |name| name.starts_with(&prefix)), Some(first.path));
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
            let mpicc = Installation::named(Path::new(program)).unwrap();
            setup_in(&[scratch.path().to_path_buf()], mpicc).unwrap_err().to_string()
        };
        let complaint = fail("cp");
        assert!(complaint.contains("cp could not compile the MPI shim: ") && !complaint.contains('\n'), "{complaint}");
        assert!(fail("true").ends_with("it said nothing and wrote no file"));
        assert!(cache::find(&[scratch.path().to_path_buf()], |name| name != "lock").is_none());
    }
}
