//! `treepie tune`: measures what communication costs on this machine, and writes it as a profile.

mod report;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use treepie_base::AtomicFile;
use treepie_bench::EmulationOption;
use treepie_bench::job::{HANG_TIMEOUT, Job};
use treepie_bench::machine;
use treepie_bench::record::Records;
use treepie_comm::Comm;
use treepie_model::Profile;
use treepie_tune::{TuneConfig, measure};

/// Measure what communication costs on this machine: latency, overheads and gap of messages (P-LogP), and memory
///
/// Without a launcher it starts processes on this machine. Under mpirun and srun, the processes of the job are the
/// ranks.
#[derive(clap::Args)]
pub(crate) struct Tune {
    /// Number of ranks [default: the number of cores, and at least 2; under mpirun that of the job]
    #[arg(short = 'n', long, value_name = "P", value_parser = clap::value_parser!(u32).range(2..))]
    ranks: Option<u32>,
    #[command(flatten)]
    links: EmulationOption,
    /// Also measure the MPI library's own collective operations, so that they can be chosen
    #[arg(long)]
    collectives: bool,
    /// Write the profile to this file, as TOML
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the curves to this file, as JSON lines
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Tune {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        if !machine::is_rank() {
            ensure!(!self.collectives, "--collectives: only a job of mpirun or srun has an MPI library to measure");
            let clusters = self.links.parsed()?.map(|emulation| emulation.network().ranks());
            let ranks = self.ranks.or(clusters).unwrap_or(machine::cores().max(2) as u32);
            super::run::check_limits(ranks, &self.links)?;
            let files = OutputFiles::create(self)?;
            let text = self.links.apply(Job::ranks(ranks, ["tune-rank"])?).output(HANG_TIMEOUT)?;
            files.write(&Profile::parse(&text)?)?;
            return Ok(ExitCode::SUCCESS);
        }
        ensure!(
            self.links.variable().is_none(),
            "--emulate: links are emulated between ranks of Treepie's own launcher"
        );
        let world = treepie::init()?;
        let ranks = self.ranks.map_or(world.size(), |ranks| ranks as usize);
        ensure!(ranks == world.size(), "-n {ranks}: the job has {} ranks", world.size());
        // An unwritable path is an error before anything is measured.
        let files = (world.rank() == 0).then(|| OutputFiles::create(self)).transpose()?;
        let profile = measure_world(&world, self.collectives)?;
        files.map_or(Ok(()), |files| files.write(&profile))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn measure_world(world: &Comm, collectives: bool) -> anyhow::Result<Profile> {
    let config = TuneConfig { machine: machine::describe(), collectives, ..TuneConfig::for_comm(world) };
    Ok(measure(world, &config)?)
}

/// One rank: rank 0 prints the profile.
pub(crate) fn rank() -> anyhow::Result<ExitCode> {
    let world = treepie::init()?;
    let profile = measure_world(&world, false)?;
    if world.rank() == 0 {
        say!("{}", profile.to_toml());
    }
    Ok(ExitCode::SUCCESS)
}

/// Where the results go.
struct OutputFiles<'a> {
    tune: &'a Tune,
    profile: Option<AtomicFile>,
    records: Records,
}

impl<'a> OutputFiles<'a> {
    fn create(tune: &'a Tune) -> anyhow::Result<Self> {
        let create = |path: &PathBuf| AtomicFile::create(path).with_context(|| cannot_write(path));
        let profile = tune.output.as_ref().map(create).transpose()?;
        Ok(Self { tune, profile, records: Records::create(tune.json.as_deref())? })
    }

    fn write(mut self, profile: &Profile) -> anyhow::Result<()> {
        report::print(profile);
        report::records(profile).iter().try_for_each(|record| self.records.write(record))?;
        if let (Some(mut file), Some(path)) = (self.profile, &self.tune.output) {
            let written = file.write_all(profile.to_toml().as_bytes()).and_then(|()| file.commit());
            written.with_context(|| cannot_write(path))?;
            say!("\nThe profile is in {}.", path.display());
        }
        Ok(())
    }
}

fn cannot_write(path: &std::path::Path) -> String {
    format!("cannot write {}", path.display())
}
