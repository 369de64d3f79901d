//! The program `hpcc` of the distribution as the baseline: its MPI RandomAccess on a table of the same size, alternating.
//!
//! `hpcc` runs all benchmarks of HPCC, with sizes that follow from that of its linear system: the table has the
//! largest power of two of words that does not exceed the matrix.

use std::fs;
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::harness::figure::BATCHES;
use crate::harness::output;
use crate::harness::peer::TempDir;
use crate::harness::progress::Progress;
use crate::harness::table::{print_header, print_record};
use crate::job::{HANG_TIMEOUT, Job};
use crate::mpi::Launcher;
use crate::record::{Better, PeerResult, Record, Records};
use crate::{ComparisonOptions, Engine};

/// Default number of pairs, which take minutes each.
const PAIRS: u32 = 3;

/// A run with a large table takes minutes.
const RUN_TIMEOUT: Duration = Duration::from_secs(6 * HANG_TIMEOUT.as_secs());

/// Runs Treepie's case and `hpcc` alternately, prints the rates and writes them as `name`.
pub(super) fn compare(
    options: &ComparisonOptions,
    ranks: u32,
    table_log2: u32,
    (name, case): (&str, &str),
) -> anyhow::Result<()> {
    ensure!(options.fabric == Engine::Shm && options.links.parsed()?.is_none(), "--against hpcc is for --fabric shm");
    let has_program = |folder: std::path::PathBuf| folder.join("hpcc").is_file();
    let is_found = std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(has_program));
    ensure!(is_found, "there is no hpcc in PATH (Debian: apt install hpcc)");
    let mpi = Launcher::find(options.mpirun.as_deref())?;
    let mut records = Records::create(options.json.as_deref())?;
    let repeat = options.repeat.unwrap_or(PAIRS);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let progress = Progress::new(repeat as usize);
    for turn in 0..repeat {
        progress.show(turn as usize);
        for is_ours in [turn % 2 == 0, turn % 2 == 1] {
            if is_ours {
                let job = Job::ranks(ranks, ["randomaccess-rank"])?.args([case]);
                let printed = output::parse(&job.output(RUN_TIMEOUT)?, &[case.to_owned()])?;
                // Microseconds per update.
                ours.push(1e-3 / printed.micros()[0]);
            } else {
                theirs.push(run_hpcc(&mpi, ranks, table_log2)?);
            }
        }
    }
    progress.clear();
    let peer = format!("hpcc, {}", mpi.name());
    let better = Better::High;
    let against = Some(PeerResult::new(&peer, &ours, &theirs, better, 9));
    let record = Record::measured(format!("{name}/hpcc"), "shm", ranks, &ours, ("GUP/s", better));
    let record = Record { against, ..record };
    say!(
        "RandomAccess, a table of 2^{table_log2} words, {ranks} ranks; medians of {repeat} runs, each of {BATCHES} batches or of one run of hpcc"
    );
    print_header(Some(&peer));
    print_record(&record);
    records.write(&record)
}

/// The rate of one run, in GUP/s.
fn run_hpcc(mpi: &Launcher, ranks: u32, table_log2: u32) -> anyhow::Result<f64> {
    let directory = TempDir::new()?;
    fs::write(directory.path().join("hpccinf.txt"), input(ranks, table_log2)).context("cannot write hpcc's input")?;
    let job = mpi.job(ranks).args(["-wdir"]).args([directory.path()]).args(["hpcc"]);
    job.output(RUN_TIMEOUT).context("hpcc did not run")?;
    let results = fs::read_to_string(directory.path().join("hpccoutf.txt")).context("hpcc wrote no results")?;
    let value = |name: &str| -> anyhow::Result<f64> {
        let line = results.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.with_context(|| format!("hpcc printed no {name}"))?.trim().parse().context(name.to_owned())
    };
    let words = value("MPIRandomAccess_N")?;
    ensure!(
        words == (1u64 << table_log2) as f64,
        "hpcc's table had {words} words instead of 2^{table_log2}: is it built with {}?",
        mpi.name()
    );
    let errors = value("MPIRandomAccess_ErrorsFraction")?;
    ensure!(errors <= 0.01, "hpcc's table had {}% wrong words", 100.0 * errors);
    value("MPIRandomAccess_GUPs")
}

/// The input file: a matrix that is a little larger than the table, on a grid of one row, and nothing else to vary.
fn input(ranks: u32, table_log2: u32) -> String {
    let order = (1.1 * (1u64 << table_log2) as f64).sqrt().ceil() as u64;
    let lines = [
        "HPCC",
        "input",
        "HPL.out",
        "8 device out",
        "1 # of problem sizes",
        &format!("{order} Ns"),
        "1 # of NBs",
        "80 NBs",
        "0 PMAP",
        "1 # of process grids",
        "1 Ps",
        &format!("{ranks} Qs"),
        "16.0 threshold",
        "1 # of panel fact",
        "2 PFACTs",
        "1 # of recursive stopping criterium",
        "4 NBMINs",
        "1 # of panels in recursion",
        "2 NDIVs",
        "1 # of recursive panel fact.",
        "1 RFACTs",
        "1 # of broadcast",
        "1 BCASTs",
        "1 # of lookahead depth",
        "1 DEPTHs",
        "2 SWAP",
        "64 swapping threshold",
        "0 L1",
        "0 U",
        "1 Equilibration",
        "8 memory alignment",
        "",
        "0 number of additional problem sizes for PTRANS",
        "1200 values of N",
        "0 number of additional blocking sizes for PTRANS",
        "40 values of NB",
    ];
    lines.map(|line| format!("{line}\n")).concat()
}
