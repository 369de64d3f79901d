//! The MPI installations of this machine, found by their compilers.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Flavor, SetupError};

/// An MPI with a compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// Its C compiler, by the path to call it with: Open MPI's wrapper depends on the name that it is called by.
    pub mpicc: PathBuf,
    /// Which MPI it is.
    pub flavor: Flavor,
    /// Its version, as `4.1.4`; empty if unknown.
    pub version: String,
}

impl std::fmt::Display for Installation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let space = if self.version.is_empty() { "" } else { " " };
        write!(f, "{}{space}{} ({})", self.flavor, self.version, self.mpicc.display())
    }
}

/// All MPIs in `PATH`, in its order; one with several names is listed once.
pub fn installations() -> Vec<Installation> {
    let mut found: Vec<Installation> = Vec::new();
    for installation in candidates(Flavor::Unknown).filter_map(|mpicc| Installation::identify(&mpicc).ok()) {
        if !found.iter().any(|other| other.identity() == installation.identity()) {
            found.push(installation);
        }
    }
    found
}

impl Installation {
    /// The installation that a user names: by path, or by a name in `PATH`.
    pub(crate) fn from_mpicc(mpicc: &Path) -> Result<Self, SetupError> {
        let is_name = mpicc.components().count() == 1 && !mpicc.is_absolute();
        let in_path = directories().map(|directory| directory.join(mpicc)).find(|path| is_name && path.is_file());
        // It is called from another directory later.
        let path = in_path.map_or_else(|| std::path::absolute(mpicc), Ok);
        let not_runnable =
            |error: io::Error| SetupError::NotRunnable { mpicc: mpicc.into(), reason: error.to_string() };
        path.and_then(|path| Self::identify(&path)).map_err(not_runnable)
    }

    /// The first installation in `PATH` that belongs to a launcher; any, if the launcher serves several.
    pub(crate) fn for_flavor(wanted: Flavor) -> Result<Self, SetupError> {
        let mut others = Vec::new();
        for installation in candidates(wanted).filter_map(|mpicc| Self::identify(&mpicc).ok()) {
            if wanted == Flavor::Unknown || installation.flavor == wanted {
                return Ok(installation);
            }
            others.push(installation);
        }
        // An MPI of unknown flavor may be the right one.
        if let Some(unknown) = others.iter().find(|other| other.flavor == Flavor::Unknown) {
            return Ok(unknown.clone());
        }
        match others.first() {
            None => Err(SetupError::NoMpicc),
            Some(other) => Err(SetupError::NoMatchingMpicc { wanted, found: other.to_string() }),
        }
    }

    /// Its identity, whatever name it is called by.
    pub(crate) fn identity(&self) -> (PathBuf, Flavor, &str) {
        (self.mpicc.canonicalize().unwrap_or_else(|_| self.mpicc.clone()), self.flavor, &self.version)
    }

    fn identify(mpicc: &Path) -> io::Result<Self> {
        let installation = |flavor, version| Self { mpicc: mpicc.into(), flavor, version };
        if let Some(version) = open_mpi_version(&output(mpicc, "--showme:version")?) {
            return Ok(installation(Flavor::OpenMpi, version));
        }
        Ok(match mpich_version(&output(mpicc, "-v")?) {
            Some(version) => installation(Flavor::Mpich, version),
            None => installation(Flavor::Unknown, String::new()),
        })
    }
}

/// Files in `PATH` that look like MPI compilers. In each directory the name for the wanted flavor comes before the
/// neutral one, which often is another flavor where several are installed.
fn candidates(wanted: Flavor) -> impl Iterator<Item = PathBuf> {
    let names = match wanted {
        Flavor::OpenMpi => ["mpicc.openmpi", "mpicc", "mpicc.mpich"],
        Flavor::Mpich => ["mpicc.mpich", "mpicc", "mpicc.openmpi"],
        Flavor::Unknown => ["mpicc", "mpicc.openmpi", "mpicc.mpich"],
    };
    directories().flat_map(move |directory| names.map(|name| directory.join(name))).filter(|path| path.is_file())
}

fn directories() -> impl Iterator<Item = PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).filter(|directory| directory.is_absolute()).collect::<Vec<_>>().into_iter()
}

fn output(mpicc: &Path, argument: &str) -> io::Result<String> {
    let output = Command::new(mpicc).arg(argument).stdin(Stdio::null()).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
}

/// From a line as `mpicc: Open MPI 4.1.4 (Language: C)`.
fn open_mpi_version(output: &str) -> Option<String> {
    let (_, rest) = output.lines().next()?.split_once(": Open MPI ")?;
    Some(rest.split_whitespace().next().unwrap_or_default().to_string())
}

/// From a line as `mpicc for MPICH version 4.0.2` or `mpigcc for the Intel(R) MPI Library 2021.5 for Linux*`.
fn mpich_version(output: &str) -> Option<String> {
    let line = output.lines().find(|line| {
        line.contains(" for ") && ["MPICH", "MVAPICH", "Intel(R) MPI"].into_iter().any(|name| line.contains(name))
    })?;
    let number = line.split_whitespace().find(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    Some(number.unwrap_or_default().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(open_mpi_version("mpicc.openmpi: Open MPI 4.1.4 (Language: C)\n").as_deref(), Some("4.1.4"));
        assert_eq!(open_mpi_version("gcc: error: unrecognized command-line option"), None);
        assert_eq!(mpich_version("mpicc for MPICH version 4.0.2\nUsing built-in specs.").as_deref(), Some("4.0.2"));
        let intel = "mpigcc for the Intel(R) MPI Library 2021.5 for Linux*";
        assert_eq!(mpich_version(intel).as_deref(), Some("2021.5"));
        assert_eq!(mpich_version("Using built-in specs.\nCOLLECT_GCC=gcc"), None);
    }

    #[test]
    fn each_installation_is_listed_once_and_can_be_named() {
        let found = installations();
        for (at, one) in found.iter().enumerate() {
            assert!(found[at + 1..].iter().all(|other| other.identity() != one.identity()));
            assert_eq!(Installation::from_mpicc(&one.mpicc).unwrap(), *one);
            assert_eq!(Installation::for_flavor(one.flavor).unwrap().flavor, one.flavor);
        }
        assert!(matches!(Installation::from_mpicc(Path::new("no-such-mpicc")), Err(SetupError::NotRunnable { .. })));
    }
}
