//! Oversubscription, many more ranks than cores: they start, communicate and end, and an idle world takes little
//! memory.
//!
//! This program is both the test and, started by the launcher, a rank: `oversubscription rank talk`, `oversubscription
//! rank idle`.

use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use treepie::Comm;

/// Memory limit of an idle rank of 256, everything included.
const IDLE_LIMIT_KIB: u64 = 1024;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    match args.get(1).map(String::as_str) {
        Some("rank") => {
            let world = treepie::init().expect("a rank of the launcher");
            match args.get(2).map(String::as_str) {
                Some("idle") => idle(&world),
                _ => talk(&world),
            }
            ExitCode::SUCCESS
        }
        _ => test(),
    }
}

fn test() -> ExitCode {
    let mut failed = 0;
    let mut report = |name: &str, result: Result<String, String>| match result {
        Ok(what) => println!("test {name} ... ok ({what})"),
        Err(why) => {
            failed += 1;
            println!("test {name} ... FAILED\n    {why}");
        }
    };
    report("512 ranks talk", launch(512, "talk"));
    report("1024 ranks talk", launch(1024, "talk"));
    report("256 ranks are idle", launch(256, "idle"));
    println!("\ntest result: {}. {} passed; {failed} failed", if failed == 0 { "ok" } else { "FAILED" }, 3 - failed);
    ExitCode::from(u8::from(failed > 0))
}

fn launch(ranks: usize, what: &str) -> Result<String, String> {
    let start = Instant::now();
    let output = Command::new(env!("CARGO_BIN_EXE_treepie"))
        .args(["run", "-n", &ranks.to_string()])
        .arg(std::env::current_exe().map_err(|e| e.to_string())?)
        .args(["rank", what])
        .stdin(Stdio::null())
        .output()
        .map_err(|e| e.to_string())?;
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        let tail: Vec<&str> = stderr.lines().rev().take(5).collect();
        return Err(format!("{}: {tail:?}", output.status));
    }
    Ok(format!("{}, {:.1} s", stdout.trim(), start.elapsed().as_secs_f64()))
}

/// A token around the ring, and barriers before and after.
fn talk(world: &Comm) {
    let (rank, size) = (world.rank(), world.size());
    world.barrier().expect("a barrier");
    let mut token = [0u64];
    if rank == 0 {
        world.send(&[1u64], 1, 0).expect("a send");
        world.recv(&mut token, size - 1, 0).expect("a receive");
        assert_eq!(token[0], size as u64, "every rank has added one");
    } else {
        world.recv(&mut token, rank - 1, 0).expect("a receive");
        world.send(&[token[0] + 1], (rank + 1) % size, 0).expect("a send");
    }
    world.barrier().expect("a barrier");
    if rank == 0 {
        println!("the token has returned");
    }
}

/// Rank 0 sums the memory of all ranks: private memory, their share of shared memory, and page tables.
fn idle(world: &Comm) {
    world.barrier().expect("a barrier");
    let window = world.window::<u64>(1).expect("a window");
    window.put(world.rank(), 0, &[memory_kib()]).expect("a put");
    window.fence().expect("a fence");
    if world.rank() == 0 {
        let each = (0..world.size()).map(|rank| window.get_one(rank, 0).expect("a get"));
        let total: u64 = each.sum();
        let mean = total / world.size() as u64;
        assert!(mean < IDLE_LIMIT_KIB, "{mean} KiB per rank");
        println!("{mean} KiB per rank");
    }
    std::thread::sleep(Duration::from_millis(1));
    window.free().expect("the end of the window");
}

/// Proportional set size and page tables of this process.
fn memory_kib() -> u64 {
    let field = |file: &str, name: &str| -> u64 {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0)
    };
    field("/proc/self/smaps_rollup", "Pss:") + field("/proc/self/status", "VmPTE:")
}
