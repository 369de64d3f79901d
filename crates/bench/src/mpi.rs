//! `treepie mpi setup`, and MPI launchers.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use treepie_mpi::{Flavor, Installation};

use super::job::{HANG_TIMEOUT, Job};
use super::machine::cores;

/// Longer than a launcher takes to print its version, even on a busy machine.
const VERSION_TIMEOUT: Duration = HANG_TIMEOUT;

/// How to install an MPI.
pub const INSTALL_HINT: &str = "Debian: apt install libopenmpi-dev openmpi-bin, or libmpich-dev mpich";

/// Set up Treepie for the MPI of this machine
#[derive(clap::Args)]
pub struct Mpi {
    #[command(subcommand)]
    command: MpiCommand,
}

#[derive(clap::Subcommand)]
enum MpiCommand {
    /// Compile the shim through which Treepie calls an MPI (otherwise compiled on first use)
    Setup {
        /// The MPI's C compiler wrapper, as a path or a name [default: every mpicc in PATH]
        #[arg(long, value_name = "PATH")]
        mpicc: Option<PathBuf>,
    },
}

impl Mpi {
    /// Runs it.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let MpiCommand::Setup { mpicc } = &self.command;
        match mpicc {
            Some(mpicc) => setup(Some(mpicc))?,
            None => {
                let found = treepie_mpi::installations();
                if found.is_empty() {
                    setup(None)?;
                }
                for installation in found {
                    setup(Some(&installation.mpicc))?;
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn setup(mpicc: Option<&Path>) -> anyhow::Result<()> {
    let installed = treepie_mpi::setup(mpicc)?;
    let how = if installed.built { "compiled" } else { "already compiled" };
    say!("{}: {how}: {}", installed.installation, installed.path.display());
    Ok(())
}

/// An MPI installation and its launcher.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// The installation.
    pub installation: Installation,
    /// The user's command before `-n P PROGRAM`, if given.
    user_command: Option<Vec<OsString>>,
    mpirun: PathBuf,
}

impl Launcher {
    /// The launcher of an installation, if it has one.
    pub fn from_installation(installation: &Installation) -> Option<Self> {
        let flavor = installation.flavor;
        let flavor_name = match flavor {
            Flavor::OpenMpi => Some("mpirun.openmpi"),
            Flavor::Mpich => Some("mpirun.mpich"),
            Flavor::Unknown => None,
        };
        let directory = installation.mpicc.parent()?;
        let matches_flavor =
            |path: &PathBuf| path.is_file() && (flavor == Flavor::Unknown || detect_flavor(path) == flavor);
        let mpirun = flavor_name
            .into_iter()
            .chain(["mpirun", "mpiexec"])
            .map(|name| directory.join(name))
            .find(matches_flavor)?;
        Some(Self { installation: installation.clone(), user_command: None, mpirun })
    }

    /// The first MPI with a launcher, or the MPI of the launcher that the user names in `mpirun`.
    pub fn find(mpirun: Option<&str>) -> anyhow::Result<Self> {
        let found = treepie_mpi::installations();
        if found.is_empty() {
            bail!("no mpicc found in PATH: install an MPI with its compiler ({INSTALL_HINT})");
        }
        let Some(command) = mpirun else {
            let launcher = found.iter().find_map(Self::from_installation);
            return launcher.with_context(|| format!("no mpirun found next to {}", found[0].mpicc.display()));
        };
        let given: Vec<OsString> = command.split_whitespace().map(OsString::from).collect();
        let mpirun = PathBuf::from(given.first().context("--mpirun is empty")?);
        // With all its options: a script may start one or the other MPI by them.
        let flavor = flavor_of(&Job::new(&given).args(["--version"]).output(VERSION_TIMEOUT)?);
        let matches_flavor = |installation: &&Installation| flavor == Flavor::Unknown || installation.flavor == flavor;
        let installation = found.iter().find(matches_flavor).with_context(|| {
            format!(
                "{command} belongs to {flavor}, but the only mpicc in PATH to {}: install the mpicc of {flavor}",
                found[0]
            )
        })?;
        Ok(Self { installation: installation.clone(), user_command: Some(given), mpirun })
    }

    /// Name and version: `Open MPI 4.1.4`.
    pub fn name(&self) -> String {
        format!("{} {}", self.installation.flavor, self.installation.version).trim_end().to_owned()
    }

    /// The command line up to the program: each rank bound to a core or, if oversubscribed, unbound and yielding when
    /// idle as far as this MPI supports it.
    pub fn job(&self, ranks: u32) -> Job {
        let count = ranks.to_string();
        if let Some(given) = &self.user_command {
            return Job::new(given).args(["-n", &count]);
        }
        let oversubscribed = ranks as usize > cores();
        let mut job = Job::new([&self.mpirun]);
        match self.installation.flavor {
            Flavor::OpenMpi => {
                if rustix::process::geteuid().is_root() {
                    job = job.args(["--allow-run-as-root"]);
                }
                job = if oversubscribed {
                    job.args(["--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "--bind-to", "none"])
                } else {
                    job.args(["--bind-to", "core"])
                };
            }
            Flavor::Mpich => job = job.args(["-bind-to", if oversubscribed { "none" } else { "core" }]),
            Flavor::Unknown => {}
        }
        job.args(["-n", &count])
    }
}

/// The flavor of a launcher.
fn detect_flavor(mpirun: &Path) -> Flavor {
    flavor_of(&Job::new([mpirun]).args(["--version"]).output(VERSION_TIMEOUT).unwrap_or_default())
}

/// The flavor of a launcher that prints this about its version.
fn flavor_of(version: &str) -> Flavor {
    if version.contains("Open MPI") || version.contains("OpenRTE") {
        Flavor::OpenMpi
    } else if ["HYDRA", "MPICH", "Intel(R) MPI"].into_iter().any(|name| version.contains(name)) {
        Flavor::Mpich
    } else {
        Flavor::Unknown
    }
}
