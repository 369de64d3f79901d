//! `treepie run`: launches a program as ranks on this machine.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::ensure;
use clap::ValueEnum;
use treepie_shm::launch::{CorePinning, LabelMode, Launch};

/// Launch a program as ranks (processes) on this machine
///
/// Sets TREEPIE_RANK and TREEPIE_SIZE in the environment of each rank. If a rank fails, the launcher terminates all
/// others and exits with the status of the failed rank.
#[derive(clap::Args)]
pub(crate) struct RunCommand {
    /// Number of ranks
    #[arg(short = 'n', long, value_name = "P", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: u32,
    /// Do not bind ranks to cores. By default each rank is bound to a core if all cores get the same number of ranks or
    /// at most one
    #[arg(long)]
    no_pin: bool,
    /// Prefix output lines with `[rank]`; auto: if the output is a terminal
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    label: LabelWhen,
    /// Let ranks write directly to this command's output: unbuffered and unlabelled, so lines of several ranks may mix
    #[arg(long, conflicts_with = "label")]
    unbuffered: bool,
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

/// Rejects more ranks than the system's process limit, and a network in the environment with another number of ranks.
pub(super) fn check_limits(ranks: u32) -> anyhow::Result<()> {
    let limit =
        std::fs::read_to_string("/proc/sys/kernel/pid_max").ok().and_then(|limit| limit.trim().parse::<u32>().ok());
    let limit = limit.unwrap_or(u32::MAX >> 1);
    ensure!(
        ranks <= limit,
        "{ranks} ranks are too many: this system allows at most {limit} processes (kernel.pid_max)"
    );
    Ok(treepie::environment::check(Some(ranks))?)
}

impl RunCommand {
    pub(super) fn check_limits(&self) -> anyhow::Result<()> {
        check_limits(self.ranks)
    }

    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let (program, args) = self.program.split_first().expect("the command line has at least the program");
        let mut launch = Launch::new(self.ranks, program);
        launch.args = args.to_vec();
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
