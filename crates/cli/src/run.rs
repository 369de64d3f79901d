//! `treepie run`: launches a program as ranks on this machine.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use clap::ValueEnum;
use treepie_base::environment::ENGINE;
use treepie_bench::EmulationOption;
use treepie_shm::launch::{CorePinning, LabelMode, Launch};
use treepie_topology::Network;

/// Launch a program as ranks on this machine: processes, threads, or simulated ranks
///
/// Processes find TREEPIE_RANK and TREEPIE_SIZE in their environment. If one fails, the launcher terminates all
/// others and exits with the status of the failed rank.
#[derive(clap::Args)]
pub(crate) struct RunCommand {
    /// Number of ranks
    #[arg(short = 'n', long, value_name = "P", value_parser = clap::value_parser!(u32).range(1..))]
    #[arg(required_unless_present_any = ["threads", "sim", "emulate"])]
    ranks: Option<u32>,
    /// Run the ranks as threads of one process (the program calls treepie::main)
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u32).range(1..), conflicts_with_all = ["ranks", "sim"])]
    threads: Option<u32>,
    /// Simulate the ranks of a network, e.g. torus:4x4, in virtual time (the program calls treepie::main)
    #[arg(long, value_name = "NETWORK", conflicts_with_all = ["ranks", "emulate"])]
    sim: Option<String>,
    /// Do not bind ranks to cores. By default each rank is bound to a core if all cores get the same number of ranks or
    /// at most one
    #[arg(long, conflicts_with_all = ["threads", "sim"])]
    no_pin: bool,
    /// Prefix output lines with `[rank]`; auto: if the output is a terminal
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN", conflicts_with_all = ["threads", "sim"])]
    label: LabelWhen,
    /// Let ranks write directly to this command's output: unbuffered and unlabelled, so lines of several ranks may mix
    #[arg(long, conflicts_with_all = ["label", "threads", "sim"])]
    unbuffered: bool,
    #[command(flatten)]
    links: EmulationOption,
    /// Program to launch, and its arguments
    #[arg(required = true, trailing_var_arg = true, value_names = ["PROGRAM", "ARGS"])]
    program: Vec<OsString>,
}

#[derive(Clone, Copy, ValueEnum)]
enum LabelWhen {
    Always,
    Never,
    Auto,
}

/// Rejects more ranks than the system's process limit, and networks or emulated links with another number of ranks.
pub(super) fn check_limits(ranks: u32, links: &EmulationOption) -> anyhow::Result<()> {
    let limit =
        std::fs::read_to_string("/proc/sys/kernel/pid_max").ok().and_then(|limit| limit.trim().parse::<u32>().ok());
    let limit = limit.unwrap_or(u32::MAX >> 1);
    ensure!(
        ranks <= limit,
        "{ranks} ranks are too many: this system allows at most {limit} processes (kernel.pid_max)"
    );
    match links.checked(ranks)? {
        Some(_) => Ok(treepie::environment::check_all_but_links(Some(ranks))?),
        None => Ok(treepie::environment::check(Some(ranks))?),
    }
}

impl RunCommand {
    /// The number of ranks: as given, or that of emulated clusters. None for that of a simulated network.
    fn num_ranks(&self) -> anyhow::Result<Option<u32>> {
        let clusters = || Ok(self.links.parsed()?.map(|emulation| emulation.network().ranks()));
        self.ranks.or(self.threads).map_or_else(clusters, |ranks| Ok(Some(ranks)))
    }

    pub(super) fn check_limits(&self) -> anyhow::Result<()> {
        match (&self.sim, self.num_ranks()?) {
            (Some(network), _) => {
                let network = Network::load(network).context("--sim")?;
                ensure!(network.ranks() > 0, "--sim: the number of ranks is missing: use a network such as flat:64");
                Ok(treepie::environment::check(None)?)
            }
            (None, ranks) => check_limits(ranks.expect("one of the three is required"), &self.links),
        }
    }

    /// Replaces this process by the program, whose ranks share one process. Returns only if that fails.
    fn exec_program(&self, engine: &str) -> anyhow::Error {
        let (program, args) = self.program.split_first().expect("the command line has at least the program");
        let mut command = std::process::Command::new(program);
        // It is no rank of a launcher further out.
        for name in [treepie_shm::RANK_VAR, treepie_shm::SIZE_VAR, treepie_shm::ARENA_VAR] {
            command.env_remove(name);
        }
        command.args(args).env(ENGINE.name, engine).envs(self.links.variable());
        let error = command.exec();
        anyhow::Error::new(error).context(format!("cannot run {}", program.display()))
    }

    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let ranks = match (self.threads, &self.sim, self.num_ranks()?) {
            (Some(threads), ..) => return Err(self.exec_program(&format!("threads:{threads}"))),
            (_, Some(network), _) => return Err(self.exec_program(&format!("sim:{network}"))),
            (.., ranks) => ranks.expect("one of them is required"),
        };
        let (program, args) = self.program.split_first().expect("the command line has at least the program");
        let mut launch = Launch::new(ranks, program);
        launch.args = args.to_vec();
        launch.env = self.links.variable().map(|(name, value)| (name.into(), value.into())).into_iter().collect();
        launch.pin = if self.no_pin { CorePinning::Never } else { CorePinning::Auto };
        launch.label = match self.label {
            LabelWhen::Always => LabelMode::Always,
            LabelWhen::Never => LabelMode::Never,
            LabelWhen::Auto => LabelMode::Auto,
        };
        launch.unbuffered = self.unbuffered;
        let outcome = launch.run()?;
        if !outcome.is_success() {
            treepie_bench::diagnostics::print_error(&outcome.to_string());
        }
        Ok(ExitCode::from(u8::try_from(outcome.status()).unwrap_or(u8::MAX)))
    }
}

/// Exit status of ranks whose error is already printed.
pub(super) const ERROR_REPORTED_STATUS: u8 = 1;

/// The value of this rank, if all ranks have one. Otherwise all have the error of the first rank that has none.
pub(super) fn agree<T>(world: &treepie::Comm, result: anyhow::Result<T>) -> anyhow::Result<T> {
    let result = result.map_err(|error| treepie::graph::Error::Input(treepie_bench::diagnostics::with_causes(&error)));
    Ok(treepie::graph::agree(world, result)?)
}

/// Launches this command on `ranks` ranks, which may write directly to its output.
pub(super) fn launch_this_command(ranks: u32, unbuffered: bool) -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let mut launch = Launch::new(ranks, program);
    let mut words = std::env::args_os().skip(1).peekable();
    while let Some(word) = words.next() {
        // The ranks get their number from the launcher.
        let text = word.to_string_lossy().into_owned();
        if text == "-n" || text == "--ranks" {
            words.next();
        } else if !(text.starts_with("--ranks=") || text.starts_with("-n") && !text.starts_with("--")) {
            launch.args.push(word);
        }
    }
    launch.label = LabelMode::Never;
    launch.unbuffered = unbuffered;
    let outcome = launch.run()?;
    // A rank that exits by itself has printed its error.
    if !outcome.is_success() && outcome.status() != i32::from(ERROR_REPORTED_STATUS) {
        treepie_bench::diagnostics::print_error(&outcome.to_string());
    }
    Ok(ExitCode::from(u8::try_from(outcome.status()).unwrap_or(u8::MAX)))
}
