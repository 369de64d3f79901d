//! `treepie run`: launches a program as ranks on this machine.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::ensure;
use clap::ValueEnum;
use treepie_shm::launch::{Label, Launch, Pin};

/// Launch a program as ranks (processes) on this machine
///
/// Each rank finds TREEPIE_RANK and TREEPIE_SIZE in its environment. When one fails, all are ended, and the status is
/// that of the one that failed.
#[derive(clap::Args)]
pub(crate) struct Run {
    /// How many ranks
    #[arg(short = 'n', long, value_name = "P", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: u32,
    /// Do not bind each rank to a core; otherwise they are bound if there is a core for each, or the same number of ranks for each
    #[arg(long)]
    no_pin: bool,
    /// Whether lines of output begin with `[rank]`; auto: if they go to a terminal
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    label: When,
    /// Let ranks write straight to this command's output: at once, without labels, and with lines of several ranks mixed
    #[arg(long, conflicts_with = "label")]
    unbuffered: bool,
    /// What to launch, and its arguments
    #[arg(required = true, trailing_var_arg = true, value_names = ["PROGRAM", "ARGS"])]
    program: Vec<OsString>,
}

#[derive(Clone, Copy, ValueEnum)]
enum When {
    Always,
    Never,
    Auto,
}

/// Refuses more ranks than the system can have processes, and networks of another number of ranks, in the environment.
pub(super) fn ensure_possible(ranks: u32) -> anyhow::Result<()> {
    let most =
        std::fs::read_to_string("/proc/sys/kernel/pid_max").ok().and_then(|most| most.trim().parse::<u32>().ok());
    let most = most.unwrap_or(u32::MAX >> 1);
    ensure!(ranks <= most, "{ranks} ranks are too many: this system has at most {most} processes (kernel.pid_max)");
    Ok(treepie::environment::check(Some(ranks))?)
}

impl Run {
    pub(super) fn ensure_possible(&self) -> anyhow::Result<()> {
        ensure_possible(self.ranks)
    }

    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let (program, args) = self.program.split_first().expect("the command line has at least the program");
        let mut launch = Launch::new(self.ranks, program);
        launch.args = args.to_vec();
        launch.pin = if self.no_pin { Pin::Never } else { Pin::Auto };
        launch.label = match self.label {
            When::Always => Label::Always,
            When::Never => Label::Never,
            When::Auto => Label::Auto,
        };
        launch.unbuffered = self.unbuffered;
        let outcome = launch.run()?;
        if !outcome.is_success() {
            super::complain(&outcome.to_string());
        }
        Ok(ExitCode::from(u8::try_from(outcome.status()).unwrap_or(u8::MAX)))
    }
}
