//! `treepie mpi setup`, and how jobs of an MPI are started.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use treepie_mpi::{Flavor, Installation};

use super::job::{HANGS_AFTER, Job};
use super::machine::cores;

/// More than a launcher takes to say its version, even on a busy machine.
const VERSION_WITHIN: Duration = HANGS_AFTER;

/// How to get an MPI where there is none.
pub(crate) const HOW_TO_GET: &str = "Debian: apt install libopenmpi-dev openmpi-bin, or libmpich-dev mpich";

/// Prepare Treepie for the MPI of this machine
#[derive(clap::Args)]
pub(crate) struct Mpi {
    #[command(subcommand)]
    command: MpiCommand,
}

#[derive(clap::Subcommand)]
enum MpiCommand {
    /// Compile the shim through which Treepie calls an MPI; otherwise this is done on first use
    Setup {
        /// The MPI's C compiler, by path or by name [default: that of each MPI in PATH]
        #[arg(long, value_name = "PATH")]
        mpicc: Option<PathBuf>,
    },
}

impl Mpi {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
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
    let how = if installed.built { "compiled" } else { "was compiled before" };
    say!("{}: {how}: {}", installed.installation, installed.path.display());
    Ok(())
}

/// An MPI and the launcher that belongs to it.
#[derive(Clone, Debug)]
pub(crate) struct Launcher {
    pub(crate) installation: Installation,
    /// The command before `-n P PROGRAM`, if the user has given it.
    given: Option<Vec<OsString>>,
    mpirun: PathBuf,
}

impl Launcher {
    /// The launcher of an installation, unless there is none.
    pub(crate) fn of(installation: &Installation) -> Option<Self> {
        let flavor = installation.flavor;
        let own_name = match flavor {
            Flavor::OpenMpi => Some("mpirun.openmpi"),
            Flavor::Mpich => Some("mpirun.mpich"),
            Flavor::Unknown => None,
        };
        let directory = installation.mpicc.parent()?;
        let is_its = |path: &PathBuf| path.is_file() && (flavor == Flavor::Unknown || flavor_of(path) == flavor);
        let mpirun = own_name.into_iter().chain(["mpirun", "mpiexec"]).map(|name| directory.join(name)).find(is_its)?;
        Some(Self { installation: installation.clone(), given: None, mpirun })
    }

    /// The first MPI that has a launcher, or the one that belongs to the launcher that the user names in `mpirun`.
    pub(crate) fn find(mpirun: Option<&str>) -> anyhow::Result<Self> {
        let found = treepie_mpi::installations();
        if found.is_empty() {
            bail!("no mpicc found in PATH: install an MPI with its compiler ({HOW_TO_GET})");
        }
        let Some(command) = mpirun else {
            let launcher = found.iter().find_map(Self::of);
            return launcher.with_context(|| format!("no mpirun found beside {}", found[0].mpicc.display()));
        };
        let given: Vec<OsString> = command.split_whitespace().map(OsString::from).collect();
        let mpirun = PathBuf::from(given.first().context("--mpirun is empty")?);
        Job::new([&mpirun]).with(["--version"]).output(VERSION_WITHIN)?;
        let flavor = flavor_of(&mpirun);
        let fits = |installation: &&Installation| flavor == Flavor::Unknown || installation.flavor == flavor;
        let installation = found.iter().find(fits).with_context(|| {
            format!("{command} is of {flavor}, but the only mpicc in PATH is of {}: install that of {flavor}", found[0])
        })?;
        Ok(Self { installation: installation.clone(), given: Some(given), mpirun })
    }

    /// As people know it: `Open MPI 4.1.4`.
    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.installation.flavor, self.installation.version).trim_end().to_owned()
    }

    /// A job of so many ranks, up to the program: each on a core, or, if there are more of them than cores, free to
    /// move and as willing to yield as this MPI can be made.
    pub(crate) fn job(&self, ranks: u32) -> Job {
        let count = ranks.to_string();
        if let Some(given) = &self.given {
            return Job::new(given).with(["-n", &count]);
        }
        let crowded = ranks as usize > cores();
        let mut job = Job::new([&self.mpirun]);
        match self.installation.flavor {
            Flavor::OpenMpi => {
                if rustix::process::geteuid().is_root() {
                    job = job.with(["--allow-run-as-root"]);
                }
                job = if crowded {
                    job.with(["--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "--bind-to", "none"])
                } else {
                    job.with(["--bind-to", "core"])
                };
            }
            Flavor::Mpich => job = job.with(["-bind-to", if crowded { "none" } else { "core" }]),
            Flavor::Unknown => {}
        }
        job.with(["-n", &count])
    }
}

/// Whose launcher this is, by what it says of itself.
fn flavor_of(mpirun: &Path) -> Flavor {
    let version = Job::new([mpirun]).with(["--version"]).output(VERSION_WITHIN).unwrap_or_default();
    if version.contains("Open MPI") || version.contains("OpenRTE") {
        Flavor::OpenMpi
    } else if ["HYDRA", "MPICH", "Intel(R) MPI"].into_iter().any(|name| version.contains(name)) {
        Flavor::Mpich
    } else {
        Flavor::Unknown
    }
}
