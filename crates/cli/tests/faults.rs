//! A rank that dies or leaves while others wait for it: they get an error, all end, and nothing is left. The time is
//! printed; the test only requires that it is not a hang.
//!
//! This program is both the test and, started by the launcher, a rank: `faults rank FAULT WAIT`.

use std::collections::BTreeSet;
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use treepie::{ANY_SOURCE, ActiveMessages, Comm, Error, SparseExchange, Sum};

const FAULTS: [&str; 4] = ["killed", "panic", "exit", "return"];
const WAITS: [&str; 15] = [
    "recv",
    "recv-any",
    "ssend",
    "large-send",
    "barrier",
    "probe",
    "irecv",
    "window",
    "full-ring",
    "bcast",
    "allgather",
    "allgather-long",
    "allreduce",
    "allreduce-long",
    "iallreduce",
];

/// Repeated exchanges, in the middle of one of which the victim fails.
const EXCHANGES: [&str; 9] = [
    "exchange/auto",
    "exchange/pex",
    "exchange/pcx",
    "exchange/rsx",
    "exchange/nbx",
    "exchange/nbx:condition=1",
    "exchange/nbx:condition=2",
    "exchange/crystal",
    NONBLOCKING,
];

/// Splits that the victim does not call, and operations on communicators whose distributed table it holds a part of.
const SPLITS: [&str; 8] = [
    "split/allgather_sort",
    "split/merge",
    "split/parallel_sort:sorters=2",
    "split/distributed:sorters=2",
    "split/overlapped:sorters=3",
    "split/quick:sorters=2",
    "shared-allreduce",
    "shared-recv",
];

/// Epochs of active messages, in a handler of one of which the victim fails.
const EPOCHS: &str = "epochs";

/// Nonblocking exchanges.
const NONBLOCKING: &str = "iexchange";

/// Exchanges or epochs before the one in which the victim fails.
const CALLS_BEFORE_FAULT: usize = 5;

/// The panic message of the victim.
const FAULT: &str = "the fault that this test is about";

/// The rank that fails; the others wait for it.
const VICTIM: usize = 1;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if let [_, role, fault, wait] = &args[..]
        && role == "rank"
    {
        let world = treepie::init().expect("a rank of the launcher");
        return rank_main(&world, fault, wait);
    }
    // Other arguments are the test runner's; there is nothing to select here.
    let mut failed = 0;
    let mut cases = 0;
    for wait in WAITS.into_iter().chain(EXCHANGES).chain(SPLITS).chain([EPOCHS]) {
        // Two ranks that receive from any source after the third has left in order wait for each other: no peer is
        // lost.
        let endless = |fault: &&str| !(*fault == "return" && wait == "recv-any");
        for fault in FAULTS.into_iter().filter(endless) {
            cases += 1;
            failed += usize::from(!report(&format!("shm {fault} {wait}"), processes(fault, wait)));
        }
        for fault in ["panic", "return"].into_iter().filter(endless) {
            cases += 1;
            failed += usize::from(!report(&format!("threads {fault} {wait}"), threads(fault, wait)));
        }
    }
    println!(
        "\ntest result: {}. {} passed; {failed} failed",
        if failed == 0 { "ok" } else { "FAILED" },
        cases - failed
    );
    ExitCode::from(u8::from(failed > 0))
}

fn report(name: &str, result: Result<Duration, String>) -> bool {
    match &result {
        Ok(time) => println!("test {name} ... ok ({} ms)", time.as_millis()),
        Err(why) => println!("test {name} ... FAILED\n    {why}"),
    }
    result.is_ok()
}

/// The body of a rank: the victim fails, the others wait and print the outcome.
fn rank_main(world: &Comm, fault: &str, wait: &str) -> ExitCode {
    println!("rank {} pid {}", world.rank(), std::process::id());
    world.barrier().expect("all have started");
    let world = &with_shared_table(world, wait);
    if world.rank() == VICTIM {
        // By then the others mostly wait; the test must hold in either case.
        std::thread::sleep(Duration::from_millis(20));
        if EXCHANGES.contains(&wait) {
            fail_in_an_exchange(world, wait, || fail(fault));
        } else if wait == EPOCHS {
            epochs(world, fault).expect("all take part");
        } else {
            fail(fault);
        }
        return ExitCode::SUCCESS;
    }
    let outcome = wait_for_victim(world, wait);
    println!("rank {} outcome {outcome:?}", world.rank());
    ExitCode::from(if outcome == Err(Error::PeerLost { rank: VICTIM }) { 7 } else { 8 })
}

/// A communicator of the same ranks with a distributed table, if the wait needs one. The victim keeps its rank.
fn with_shared_table(world: &Comm, wait: &str) -> Comm {
    if !wait.starts_with("shared-") {
        return world.clone();
    }
    // An order without a formula that leaves the victim's rank unchanged.
    let key = [2, 1, 0, 3][world.rank() % 4];
    let world = world.with_algorithm("split/distributed:sorters=2").expect("a known id");
    let part = world.split(0, key).expect("all take part").expect("every rank has a color");
    assert_eq!(part.rank_table_kind(), "shared table");
    // A holder of a part of the table answers lookups until it fails; the barrier ensures that all have their parts.
    part.barrier().expect("all take part");
    part
}

/// Injects the fault; returns if the fault is to return.
fn fail(fault: &str) {
    match fault {
        "killed" => {
            let kill = Command::new("kill").args(["-KILL", &std::process::id().to_string()]).status();
            unreachable!("still running after {kill:?}");
        }
        "panic" => panic!("{FAULT}"),
        "exit" => std::process::exit(3),
        _ => {}
    }
}

/// Takes part in some exchanges, then fails while it handles received messages, or after it has posted a nonblocking
/// one.
fn fail_in_an_exchange(world: &Comm, id: &str, fail: impl Fn()) {
    for round in 0..CALLS_BEFORE_FAULT {
        exchange(world, id, round).expect("all take part");
    }
    if id == NONBLOCKING {
        drop(world.iexchange(messages(world, CALLS_BEFORE_FAULT)).expect("it is posted"));
    } else {
        world
            .with_algorithm(id)
            .expect("a known id")
            .exchange_with(messages(world, CALLS_BEFORE_FAULT), |_, _| fail())
            .expect("all take part");
    }
    fail();
}

/// Runs epochs. The victim fails in a handler, or after that epoch if it only leaves; the others go on.
fn epochs(world: &Comm, fault: &str) -> Result<(), Error> {
    let fault = fault.to_owned();
    let mut build = ActiveMessages::<usize>::builder(world);
    let update = build.port::<u32>("update");
    build.on(update, move |round: &mut usize, cx, _| {
        if cx.rank() == VICTIM && *round == CALLS_BEFORE_FAULT {
            fail(&fault);
        }
    });
    let mut am = build.start()?;
    let rounds = if world.rank() == VICTIM { CALLS_BEFORE_FAULT + 1 } else { CALLS_BEFORE_FAULT + 2 };
    for mut round in 0..rounds {
        am.epoch_for(&mut round, 0..100_u32, |cx, _, i| cx.send(update, i as usize % cx.ranks(), i))?;
    }
    Ok(())
}

/// Messages to all ranks: short and long in turn.
fn messages(world: &Comm, round: usize) -> Vec<(usize, Vec<u8>)> {
    (0..world.size()).map(|to| (to, vec![0; if round.is_multiple_of(2) { 30 } else { 100_000 }])).collect()
}

fn exchange(world: &Comm, id: &str, round: usize) -> Result<(), Error> {
    let received = match id {
        NONBLOCKING => world.iexchange(messages(world, round))?.wait()?,
        _ => world.with_algorithm(id)?.exchange(messages(world, round))?,
    };
    assert_eq!(received.len(), world.size(), "messages from all");
    Ok(())
}

fn wait_for_victim(world: &Comm, wait: &str) -> Result<(), Error> {
    match wait {
        "recv" => world.recv(&mut [0u8; 4], VICTIM, 5).map(drop),
        "recv-any" => {
            // The other waiting rank may leave before the victim's failure is detected.
            let result = world.recv(&mut [0u8; 4], ANY_SOURCE, 5).map(drop);
            result.map_err(|_| Error::PeerLost { rank: VICTIM })
        }
        "ssend" => world.ssend(&[0u8; 4], VICTIM, 5),
        "large-send" => world.send(&vec![0u8; 3 << 20], VICTIM, 5),
        "barrier" => world.barrier().map_err(|_| Error::PeerLost { rank: VICTIM }),
        "probe" => world.probe(VICTIM, 5).map(drop),
        "irecv" => world.irecv(vec![0u8; 4], VICTIM, 5)?.wait().map(drop),
        "window" => {
            let window = world.window::<u64>(1).map_err(|_| Error::PeerLost { rank: VICTIM })?;
            window.fence()
        }
        "bcast" => world.bcast(&mut [0u8; 4], VICTIM).map_err(any_is_lost),
        "allgather" => world.allgather(&[0u8; 4]).map(drop).map_err(any_is_lost),
        "allgather-long" => world.allgather(&vec![0u8; 1 << 20]).map(drop).map_err(any_is_lost),
        "allreduce" => world.allreduce(&[0u64; 4], Sum).map(drop).map_err(any_is_lost),
        "allreduce-long" => world.allreduce(&vec![0u64; 100_000], Sum).map(drop).map_err(any_is_lost),
        "iallreduce" => world.iallreduce(vec![0u64; 4], Sum)?.wait().map(drop).map_err(any_is_lost),
        "shared-allreduce" => world.allreduce(&[0u64; 4], Sum).map(drop).map_err(any_is_lost),
        "shared-recv" => world.recv(&mut [0u8; 4], VICTIM, 5).map(drop),
        EPOCHS => epochs(world, "return").map_err(|error| match error {
            // A rank whose handler panics aborts its epoch; its end, as the panic is not caught, may be detected later.
            Error::Aborted { rank: VICTIM } => Error::PeerLost { rank: VICTIM },
            error => any_is_lost(error),
        }),
        id if SPLITS.contains(&id) => world.with_algorithm(id)?.split(0, 0).map(drop).map_err(any_is_lost),
        id if EXCHANGES.contains(&id) => {
            // The victim may have sent all messages of the last exchange before it fails.
            (0..CALLS_BEFORE_FAULT + 2).try_for_each(|round| exchange(world, id, round)).map_err(any_is_lost)
        }
        _ => loop {
            world.send(&[0u8; 1000], VICTIM, 5)?;
        },
    }
}

/// In a collective the other waiting rank may leave before the victim's failure is detected, and be reported as lost.
fn any_is_lost(error: Error) -> Error {
    if matches!(error, Error::PeerLost { .. }) { Error::PeerLost { rank: VICTIM } } else { error }
}

/// The number of ranks: splits and their tables need more than one rank per part.
fn ranks(wait: &str) -> usize {
    if SPLITS.contains(&wait) { 4 } else { 3 }
}

fn processes(fault: &str, wait: &str) -> Result<Duration, String> {
    let before = shared_memory();
    let start = Instant::now();
    let job = Command::new(env!("CARGO_BIN_EXE_treepie"))
        .args(["run", "-n", &ranks(wait).to_string()])
        .arg(std::env::current_exe().map_err(|e| e.to_string())?)
        .args(["rank", fault, wait])
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| e.to_string())?;
    let (output, is_over) = output(job)?;
    let time = start.elapsed();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let fail = |why: &str| Err(format!("{why} (after {} ms)\n{stdout}{stderr}", time.as_millis()));
    if !is_over {
        return fail(&treepie_base::hang_message("the end of the job"));
    }
    // A rank that returns is no failure of the job; those that waited for it fail.
    let status = match fault {
        "killed" => 128 + 9,
        "panic" => 101,
        "exit" => 3,
        _ => 7,
    };
    // On a busy machine a panic takes time. The launcher waits a limited time for the cause after a rank has failed
    // with PeerLost, and then names that rank. Both have failed, and the panic is on standard error in any case.
    let names_another = fault == "panic" && output.status.code() == Some(7) && stderr.contains("panicked");
    if output.status.code() != Some(status) && !names_another {
        return fail(&format!("exit status {:?}, not {status}", output.status.code()));
    }
    if fault == "killed" && !stderr.contains("rank 1 was killed by signal 9 (SIGKILL)") {
        return fail("the launcher does not name rank and signal");
    }
    if fault == "panic" && wait == EPOCHS && !stderr.contains("rank 1: the handler of `update` panicked") {
        return fail("the rank and the type of the handler are not named");
    }
    if fault == "return" && !stdout.contains("rank 1 was lost") {
        return fail("no rank got PeerLost");
    }
    if stdout.contains("outcome Ok") {
        return fail("a wait succeeded");
    }
    for pid in stdout.lines().filter_map(|line| line.split(" pid ").nth(1)) {
        if std::path::Path::new("/proc").join(pid.trim()).exists() {
            return fail(&format!("process {pid} is left"));
        }
    }
    if shared_memory() != before {
        return fail("something is left under /dev/shm");
    }
    Ok(time)
}

/// The output of a job, and whether it ended by itself. A hung job is terminated, and its launcher terminates the
/// ranks.
fn output(job: Child) -> Result<(Output, bool), String> {
    let pid = rustix::process::Pid::from_child(&job);
    let (done, watched) = channel::<()>();
    let watch = std::thread::spawn(move || {
        let is_over = watched.recv_timeout(treepie_base::hang_limit()) != Err(RecvTimeoutError::Timeout);
        if !is_over {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        is_over
    });
    let output = job.wait_with_output().map_err(|e| e.to_string());
    drop(done);
    let is_over = watch.join().expect("it only waits");
    Ok((output?, is_over))
}

fn shared_memory() -> BTreeSet<String> {
    let entries = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().to_string()).filter(|n| n.contains("treepie")).collect()
}

fn threads(fault: &str, wait: &str) -> Result<Duration, String> {
    let _guard = treepie_base::HangGuard::new(&format!("threads {fault} {wait}"));
    let start = Instant::now();
    let outcomes = std::sync::Mutex::new(Vec::new());
    let quiet = std::panic::take_hook();
    let others = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let recorded = others.clone();
    std::panic::set_hook(Box::new(move |info| {
        let text = info.to_string();
        if !text.contains(FAULT) {
            recorded.lock().expect("only this locks it").push(text);
        }
    }));
    let result = std::panic::catch_unwind(|| {
        treepie::launch(ranks(wait), |world| {
            world.barrier().expect("all have started");
            let world = with_shared_table(&world, wait);
            if world.rank() == VICTIM {
                std::thread::sleep(Duration::from_millis(20));
                if EXCHANGES.contains(&wait) {
                    fail_in_an_exchange(&world, wait, || fail(fault));
                }
                if wait == EPOCHS {
                    epochs(&world, fault).expect("all take part");
                    return Ok(());
                }
                fail(fault);
                return Ok(());
            }
            let outcome = wait_for_victim(&world, wait);
            outcomes.lock().expect("not poisoned").push(outcome);
            Ok(())
        })
    });
    std::panic::set_hook(quiet);
    let time = start.elapsed();
    let outcomes = outcomes.into_inner().expect("not poisoned");
    let others = others.lock().expect("all have ended");
    if !others.is_empty() {
        return Err(others.join("; "));
    }
    if result.is_err() != (fault == "panic") {
        return Err(format!("the launch ended with {result:?}"));
    }
    if outcomes != vec![Err(Error::PeerLost { rank: VICTIM }); ranks(wait) - 1] {
        return Err(format!("outcomes {outcomes:?}"));
    }
    Ok(time)
}
