//! The `treepie` command: launch, demo, doctor, setup and benchmarks.
#![forbid(unsafe_code)]

mod command;

use std::process::ExitCode;

fn main() -> ExitCode {
    command::main()
}
