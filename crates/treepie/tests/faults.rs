//! A rank that dies or leaves while others wait for it: they hear of it, all end, nothing is left. How long that takes is
//! printed; nothing is said about it but that it is no hang.
//!
//! This program is both the test and, started by the launcher, a rank: `faults RANK-PROGRAM fault wait`.

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
    "all_gather",
    "all_gather-long",
    "all_reduce",
    "all_reduce-long",
    "iall_reduce",
];

/// Exchanges that go on and on, in the middle of one of which the victim fails.
const EXCHANGES: [&str; 9] = [
    "exchange/auto",
    "exchange/pex",
    "exchange/pcx",
    "exchange/rsx",
    "exchange/nbx",
    "exchange/nbx:condition=1",
    "exchange/nbx:condition=2",
    "exchange/crystal",
    BEGUN,
];

/// Splits that the victim does not come to, and operations of communicators whose table it has a part of.
const SPLITS: [&str; 8] = [
    "split/allgather_sort",
    "split/merge",
    "split/parallel_sort:sorters=2",
    "split/distributed:sorters=2",
    "split/overlapped:sorters=3",
    "split/quick:sorters=2",
    "shared-all_reduce",
    "shared-recv",
];

/// Epochs of active messages, in a handler of one of which the victim fails.
const EPOCHS: &str = "epochs";

/// Nonblocking ones.
const BEGUN: &str = "iexchange";

/// Exchanges or epochs before the one in which the victim fails.
const BEFORE: usize = 5;

/// What it says when it panics.
const FAULT: &str = "the fault that this test is about";

/// The one that fails; the others wait for it.
const VICTIM: usize = 1;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if let [_, role, fault, wait] = &args[..]
        && role == "rank"
    {
        let world = treepie::init().expect("a rank of the launcher");
        return be_rank(&world, fault, wait);
    }
    // Other arguments are the test runner's; there is nothing to select here.
    let mut failed = 0;
    let mut cases = 0;
    for wait in WAITS.into_iter().chain(EXCHANGES).chain(SPLITS).chain([EPOCHS]) {
        // Two that wait for anybody after a third has left in order wait for each other: nobody is lost then.
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

/// What a rank does: the victim its fault, the others their wait. They say what became of it.
fn be_rank(world: &Comm, fault: &str, wait: &str) -> ExitCode {
    println!("rank {} pid {}", world.rank(), std::process::id());
    world.barrier().expect("all are there");
    let world = &with_shared_table(world, wait);
    if world.rank() == VICTIM {
        // So that the others wait already, mostly; it must hold in any case.
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

/// A communicator of the same ranks with a table that they share, if the wait is about one. The victim is the same.
fn with_shared_table(world: &Comm, wait: &str) -> Comm {
    if !wait.starts_with("shared-") {
        return world.clone();
    }
    // In an order that is no formula, and that leaves the victim where it is.
    let key = [2, 1, 0, 3][world.rank() % 4];
    let world = world.using("split/distributed:sorters=2").expect("it is known");
    let part = world.split(0, key).expect("all take part").expect("every rank has a colour");
    assert_eq!(part.representation(), "shared table");
    // Whoever has its part of the table answers others until it fails; before that, all have theirs.
    part.barrier().expect("all have made it");
    part
}

/// Returns if that is the fault.
fn fail(fault: &str) {
    match fault {
        "killed" => {
            let kill = Command::new("kill").args(["-KILL", &std::process::id().to_string()]).status();
            unreachable!("still there after {kill:?}");
        }
        "panic" => panic!("{FAULT}"),
        "exit" => std::process::exit(3),
        _ => {}
    }
}

/// Takes part in some, and fails while it handles what came in one, or after it has begun one that nobody waits for.
fn fail_in_an_exchange(world: &Comm, id: &str, fail: impl Fn()) {
    for round in 0..BEFORE {
        exchange(world, id, round).expect("all take part");
    }
    if id == BEGUN {
        drop(world.iexchange(messages(world, BEFORE)).expect("it begins"));
    } else {
        world
            .using(id)
            .expect("it is known")
            .exchange_with(messages(world, BEFORE), |_, _| fail())
            .expect("all take part");
    }
    fail();
}

/// Takes part in some. The victim fails in a handler, or behind that epoch if it only leaves; the others go on.
fn epochs(world: &Comm, fault: &str) -> Result<(), Error> {
    let fault = fault.to_owned();
    let mut build = ActiveMessages::<usize>::builder(world);
    let update = build.port::<u32>("update");
    build.on(update, move |round: &mut usize, cx, _| {
        if cx.rank() == VICTIM && *round == BEFORE {
            fail(&fault);
        }
    });
    let mut am = build.start()?;
    let rounds = if world.rank() == VICTIM { BEFORE + 1 } else { BEFORE + 2 };
    for mut round in 0..rounds {
        am.epoch_for(&mut round, 0..100_u32, |cx, _, i| cx.send(update, i as usize % cx.ranks(), i))?;
    }
    Ok(())
}

/// To everybody: short and long.
fn messages(world: &Comm, round: usize) -> Vec<(usize, Vec<u8>)> {
    (0..world.size()).map(|to| (to, vec![0; if round.is_multiple_of(2) { 30 } else { 100_000 }])).collect()
}

fn exchange(world: &Comm, id: &str, round: usize) -> Result<(), Error> {
    let received = match id {
        BEGUN => world.iexchange(messages(world, round))?.wait()?,
        _ => world.using(id)?.exchange(messages(world, round))?,
    };
    assert_eq!(received.len(), world.size(), "messages from all");
    Ok(())
}

fn wait_for_victim(world: &Comm, wait: &str) -> Result<(), Error> {
    match wait {
        "recv" => world.recv(&mut [0u8; 4], VICTIM, 5).map(drop),
        "recv-any" => {
            // The other rank that waits may leave before the victim is noticed.
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
        "all_gather" => world.all_gather(&[0u8; 4]).map(drop).map_err(any_is_lost),
        "all_gather-long" => world.all_gather(&vec![0u8; 1 << 20]).map(drop).map_err(any_is_lost),
        "all_reduce" => world.all_reduce(&[0u64; 4], Sum).map(drop).map_err(any_is_lost),
        "all_reduce-long" => world.all_reduce(&vec![0u64; 100_000], Sum).map(drop).map_err(any_is_lost),
        "iall_reduce" => world.iall_reduce(vec![0u64; 4], Sum)?.wait().map(drop).map_err(any_is_lost),
        "shared-all_reduce" => world.all_reduce(&[0u64; 4], Sum).map(drop).map_err(any_is_lost),
        "shared-recv" => world.recv(&mut [0u8; 4], VICTIM, 5).map(drop),
        EPOCHS => epochs(world, "return").map_err(|error| match error {
            // Whose handler panics gives up its epoch; that it ends, as nobody catches the panic, may be known only later.
            Error::GaveUp { rank: VICTIM } => Error::PeerLost { rank: VICTIM },
            error => any_is_lost(error),
        }),
        id if SPLITS.contains(&id) => world.using(id)?.split(0, 0).map(drop).map_err(any_is_lost),
        id if EXCHANGES.contains(&id) => {
            // The victim may have sent everything of the last one before it fails.
            (0..BEFORE + 2).try_for_each(|round| exchange(world, id, round)).map_err(any_is_lost)
        }
        _ => loop {
            world.send(&[0u8; 1000], VICTIM, 5)?;
        },
    }
}

/// In a collective the other rank that waits may leave before the victim is noticed, and is what this one misses.
fn any_is_lost(error: Error) -> Error {
    if matches!(error, Error::PeerLost { .. }) { Error::PeerLost { rank: VICTIM } } else { error }
}

/// So many are there: splits and their tables are of interest with more than one in a part.
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
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let fail = |why: &str| Err(format!("{why} (after {} ms)\n{said}{errors}", time.as_millis()));
    if !is_over {
        return fail(&treepie_base::hang_message("the end of the job"));
    }
    // A rank that merely returned is no failure of the job; those who waited for it fail then.
    let status = match fault {
        "killed" => 128 + 9,
        "panic" => 101,
        "exit" => 3,
        _ => 7,
    };
    // A panic takes its time on a busy machine, and the launcher waits only so long for a cause after it has seen somebody
    // fail who lost a peer; then it names that one. Both have failed, and the panic is on standard error in any case.
    let names_another = fault == "panic" && output.status.code() == Some(7) && errors.contains("panicked");
    if output.status.code() != Some(status) && !names_another {
        return fail(&format!("exit status {:?}, not {status}", output.status.code()));
    }
    if fault == "killed" && !errors.contains("rank 1 was killed by signal 9 (SIGKILL)") {
        return fail("the launcher does not name rank and signal");
    }
    if fault == "panic" && wait == EPOCHS && !errors.contains("rank 1: the handler of `update` panicked") {
        return fail("nobody names the rank and the type of the handler");
    }
    if fault == "return" && !said.contains("rank 1 was lost") {
        return fail("nobody got PeerLost");
    }
    if said.contains("outcome Ok") {
        return fail("a wait succeeded");
    }
    for pid in said.lines().filter_map(|line| line.split(" pid ").nth(1)) {
        if std::path::Path::new("/proc").join(pid.trim()).exists() {
            return fail(&format!("process {pid} is left"));
        }
    }
    if shared_memory() != before {
        return fail("something is left under /dev/shm");
    }
    Ok(time)
}

/// What a job said, and whether it ended by itself; one that hangs is ended, which its launcher does with its ranks.
fn output(job: Child) -> Result<(Output, bool), String> {
    let pid = rustix::process::Pid::from_child(&job);
    let (over, watched) = channel::<()>();
    let watch = std::thread::spawn(move || {
        let is_over = watched.recv_timeout(treepie_base::hang_limit()) != Err(RecvTimeoutError::Timeout);
        if !is_over {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        is_over
    });
    let output = job.wait_with_output().map_err(|e| e.to_string());
    drop(over);
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
    let noted = others.clone();
    std::panic::set_hook(Box::new(move |info| {
        let text = info.to_string();
        if !text.contains(FAULT) {
            noted.lock().expect("only this locks it").push(text);
        }
    }));
    let result = std::panic::catch_unwind(|| {
        treepie::launch(ranks(wait), |world| {
            world.barrier().expect("all are there");
            let world = with_shared_table(&world, wait);
            if world.rank() == VICTIM {
                std::thread::sleep(Duration::from_millis(20));
                if EXCHANGES.contains(&wait) {
                    fail_in_an_exchange(&world, wait, || fail(fault));
                }
                if wait == EPOCHS {
                    return epochs(&world, fault).expect("all take part");
                }
                fail(fault);
                return;
            }
            let outcome = wait_for_victim(&world, wait);
            outcomes.lock().expect("nobody panics with it").push(outcome);
        })
    });
    std::panic::set_hook(quiet);
    let time = start.elapsed();
    let outcomes = outcomes.into_inner().expect("nobody panics with it");
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
