//! Abnormal ends of programs, as users see them: one whole line for each rank's error, and one of the launcher that
//! names the rank and the reason.
//!
//! This program is both the test and, started by the launcher, a rank: `abnormal_exit rank FAULT`.

use std::process::{Command, Output, Stdio};

use treepie::Error;

const TRUNCATED: &str = "a message of 8 bytes does not fit a receive of 4 bytes; it can still be received";
const LOST: &str = "rank 1 was lost: it ended before it did what this operation waits for";

fn main() -> treepie::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    match &args[..] {
        [_, role, fault] if role == "rank" => rank_main(fault),
        // Other arguments are the test runner's; there is nothing to select here.
        _ => {
            let tests: [(&str, fn()); 9] = [
                ("an_error_of_main_is_one_line_with_the_rank", an_error_of_main_is_one_line_with_the_rank),
                (
                    "a_rank_that_returns_an_error_waits_for_no_receiver",
                    a_rank_that_returns_an_error_waits_for_no_receiver,
                ),
                ("errors_of_all_ranks_are_whole_lines", errors_of_all_ranks_are_whole_lines),
                ("the_rank_that_left_first_is_named", the_rank_that_left_first_is_named),
                ("panics_exits_and_aborts_are_named", panics_exits_and_aborts_are_named),
                ("a_process_that_forgot_its_world_has_left_it", a_process_that_forgot_its_world_has_left_it),
                ("errors_of_other_crates_print_their_text", errors_of_other_crates_print_their_text),
                ("threads_name_the_rank_that_failed", threads_name_the_rank_that_failed),
                ("output_that_cannot_be_written_is_an_error", output_that_cannot_be_written_is_an_error),
            ];
            for (name, test) in tests {
                test();
                println!("test {name} ... ok");
            }
            Ok(())
        }
    }
}

/// Rank 1 injects the fault; the others wait for it.
fn rank_main(fault: &str) -> treepie::Result<()> {
    if fault == "pending" {
        return treepie::main(|world| {
            if world.rank() != 1 {
                return world.recv(&mut [0u8], treepie::ANY_SOURCE, 1).map(drop);
            }
            let _pending = world.isend(vec![0u8; 10_000_000], 0, 0)?;
            Err(Error::Cancelled)
        });
    }
    let world = treepie::init()?;
    if fault == "all" {
        world.send(&[0u64], (world.rank() + 1) % world.size(), 0)?;
        return world.recv(&mut [0u32], treepie::ANY_SOURCE, 0).map(drop);
    }
    if world.rank() != 1 {
        return world.recv(&mut [0u32], 1, 0).map(drop);
    }
    match fault {
        "err" => {
            world.send(&[0u64], 1, 0)?;
            world.recv(&mut [0u32], 1, 0).map(drop)
        }
        "late" => {
            // The others detect it, and have mostly ended before this one.
            drop(world);
            std::thread::sleep(std::time::Duration::from_millis(20));
            Err(Error::Truncated { got: 8, room: 4 })
        }
        "panic" => panic!("the fault that this test is about"),
        "exit" => std::process::exit(3),
        "abort" => std::process::abort(),
        _ => {
            std::mem::forget(world);
            Ok(())
        }
    }
}

fn job(ranks: u32, fault: &str) -> (Option<i32>, Vec<String>) {
    let output = Command::new(env!("CARGO_BIN_EXE_treepie"))
        .args(["run", "-n", &ranks.to_string()])
        .arg(std::env::current_exe().unwrap())
        .args(["rank", fault])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (output.status.code(), lines(&output))
}

fn lines(output: &Output) -> Vec<String> {
    String::from_utf8(output.stderr.clone()).unwrap().lines().map(str::to_owned).collect()
}

fn an_error_of_main_is_one_line_with_the_rank() {
    let (status, stderr) = job(3, "err");
    assert_eq!(status, Some(1), "{stderr:?}");
    assert_eq!(stderr.iter().filter(|line| **line == format!("Error: rank 1: {TRUNCATED}")).count(), 1, "{stderr:?}");
    assert!(stderr.last().unwrap().starts_with("treepie: rank 1 exited with status 1"), "{stderr:?}");
    let others =
        |line: &&String| **line == format!("Error: rank 0: {LOST}") || **line == format!("Error: rank 2: {LOST}");
    // The launcher may have ended the others before they printed it.
    assert_eq!(stderr.iter().filter(others).count() + 2, stderr.len(), "{stderr:?}");
}

fn a_rank_that_returns_an_error_waits_for_no_receiver() {
    let (status, stderr) = job(3, "pending");
    assert_eq!(status, Some(1), "{stderr:?}");
    assert!(stderr.contains(&"Error: rank 1: the receive was cancelled".to_owned()), "{stderr:?}");
    assert!(stderr.last().unwrap().starts_with("treepie: rank 1 exited with status 1"), "{stderr:?}");
}

fn errors_of_all_ranks_are_whole_lines() {
    for _ in 0..5 {
        let (_, mut stderr) = job(8, "all");
        assert!(stderr.pop().unwrap().starts_with("treepie: rank "), "{stderr:?}");
        let expected = |line: &String| {
            let text = line.strip_prefix("Error: rank ").and_then(|rest| rest.split_once(": "));
            text.is_some_and(|(rank, text)| rank.parse::<u32>().is_ok_and(|rank| rank < 8) && !text.contains("Error"))
        };
        assert!(stderr.iter().all(expected), "{stderr:#?}");
        assert!(stderr.iter().any(|line| line.ends_with(TRUNCATED)), "{stderr:#?}");
    }
}

fn the_rank_that_left_first_is_named() {
    let (status, stderr) = job(3, "late");
    assert_eq!(status, Some(1));
    assert!(stderr.last().unwrap().starts_with("treepie: rank 1 exited with status 1"), "{stderr:?}");
}

fn panics_exits_and_aborts_are_named() {
    for (fault, status, reason) in [
        ("panic", 101, "exited with status 101 (a panic)"),
        ("exit", 3, "exited with status 3"),
        ("abort", 134, "was killed by signal 6 (SIGABRT)"),
    ] {
        let (code, stderr) = job(3, fault);
        assert_eq!(code, Some(status), "{stderr:?}");
        assert!(stderr.last().unwrap().starts_with(&format!("treepie: rank 1 {reason}")), "{stderr:?}");
    }
}

fn a_process_that_forgot_its_world_has_left_it() {
    let (status, stderr) = job(2, "forget");
    assert_eq!((status, stderr.len()), (Some(1), 2), "{stderr:?}");
    assert_eq!(stderr[0], format!("Error: rank 0: {LOST}"));
}

fn errors_of_other_crates_print_their_text() {
    let graph = treepie::graph::Error::from(Error::Cancelled);
    let network = "torus:0x3".parse::<treepie::Network>().unwrap_err();
    assert_eq!(format!("{graph:?}"), "the receive was cancelled");
    assert_eq!(format!("{network:?}"), network.to_string());
    assert_eq!(
        format!("{:?}", Error::Rank { rank: 3, error: Error::Cancelled.into() }),
        "rank 3: the receive was cancelled"
    );
}

fn threads_name_the_rank_that_failed() {
    let error = treepie::launch(3, |world| match world.rank() {
        1 => Err(Error::Truncated { got: 8, room: 4 }),
        _ => world.recv(&mut [0u32], 1, 0).map(drop),
    });
    assert_eq!(format!("{:?}", error.unwrap_err()), format!("rank 1: {TRUNCATED}"));
    // Errors on a thread that is a rank name the rank.
    let stderr = treepie::launch(2, |_| Ok(format!("{:?}", Error::Cancelled))).unwrap();
    assert_eq!(stderr, ["rank 0: the receive was cancelled", "rank 1: the receive was cancelled"]);
}

fn output_that_cannot_be_written_is_an_error() {
    for waits in ["true", "sleep 60"] {
        let output = Command::new(env!("CARGO_BIN_EXE_treepie"))
            .args(["run", "-n", "2", "sh", "-c", &format!("echo something; {waits}")])
            .stdout(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap())
            .output()
            .unwrap();
        let stderr = lines(&output);
        assert_eq!(output.status.code(), Some(1), "{stderr:?}");
        let [line] = &stderr[..] else { panic!("{stderr:?}") };
        assert!(line.starts_with("treepie: cannot write the ranks' output: No space left on device"), "{line}");
    }
}
