//! The five tasks of the book (docs/tasks.md): the same output on every engine, from programs that the book shows.

use std::path::PathBuf;
use std::process::Command;

use treepie_bench::mpi::Launcher;

use super::{Scratch, run, succeeds};

/// Edges of a grid of 12 by 12 vertices, as a text file.
fn grid() -> String {
    let edge = |a: u32, b: u32| format!("{a} {b}\n");
    let vertices = (0..12).flat_map(|i| (0..12).map(move |j| (i, j)));
    let edges = vertices.map(|(i, j)| {
        let at = 12 * i + j;
        (if j < 11 { edge(at, at + 1) } else { String::new() })
            + &(if i < 11 { edge(at, at + 12) } else { String::new() })
    });
    edges.collect()
}

/// Three words, of which the second is the most frequent; other words once.
fn words() -> String {
    (0..60).map(|i| format!("{} the word{i} {}\n", if i % 3 == 0 { "a" } else { "the" }, "of ".repeat(i % 2))).collect()
}

/// Example, contents of the file that it reads, more arguments, and a line of its output.
fn tasks() -> [(&'static str, Option<String>, Option<&'static str>, &'static str); 5] {
    [
        ("heat", None, None, "1376 steps, residual 0.009988"),
        ("sample_sort", None, None, "12000 keys from 0 to 999957, median 499102"),
        ("word_count", Some(words()), None, "the 100"),
        ("particles", None, None, "rank 0: all 1000 particles are there, the sum of their ids is 499500"),
        ("bfs", Some(grid()), Some("0"), "144 vertices reached from 0, by level"),
    ]
}

/// The program with its arguments, if it was built.
fn command_line(example: &str, file: Option<&Scratch>, argument: Option<&str>) -> Option<Vec<String>> {
    let folder = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("examples");
    let program: PathBuf = folder.join(example);
    if !program.is_file() {
        eprintln!("SKIPPED: {} was not built; `cargo build -p treepie --examples` builds it", program.display());
        return None;
    }
    let words = [Some(program.to_str().unwrap()), file.map(Scratch::path), argument];
    Some(words.into_iter().flatten().map(str::to_owned).collect())
}

/// The programs in C that the book shows, in its order.
fn programs_in_c() -> Vec<String> {
    let book = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tasks.md");
    let book = std::fs::read_to_string(book).unwrap();
    book.split("```").filter_map(|block| block.strip_prefix("c\n")).map(str::to_owned).collect()
}

/// Lines in a fixed order: those of different ranks come in any.
fn sorted(output: &str) -> Vec<String> {
    let mut lines: Vec<String> = output.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn the_tasks_of_the_book_have_the_same_output_on_every_engine() {
    let mpis: Vec<Launcher> = treepie_mpi::installations().iter().filter_map(Launcher::from_installation).collect();
    if mpis.len() < 2 {
        eprintln!("SKIPPED: the tasks under {} of the two MPIs", 2 - mpis.len());
    }
    for (example, contents, argument, line) in tasks() {
        let file = contents.map(|contents| {
            let file = Scratch::with_extension("txt");
            std::fs::write(file.path(), contents).unwrap();
            file
        });
        let Some(program) = command_line(example, file.as_ref(), argument) else { continue };
        let words: Vec<&str> = program.iter().map(String::as_str).collect();
        let alone = succeeds(Command::new(words[0]).args(&words[1..]).output().unwrap());
        assert!(alone.lines().any(|found| found.starts_with(line)), "{example} alone: {alone}");
        let expected = sorted(&succeeds(run(&[&["run", "-n", "4"], &words[..]].concat())));
        assert!(expected.iter().any(|found| found.starts_with(line)), "{example} as processes: {expected:?}");
        for engine in [["--threads", "4"], ["--sim", "torus:2x2"]] {
            let output = succeeds(run(&[&["run"], &engine[..], &words[..]].concat()));
            assert_eq!(sorted(&output), expected, "{example} with {engine:?}");
        }
        for mpi in &mpis {
            let output = mpi.job(4).args(&words).output(treepie_bench::job::HANG_TIMEOUT).unwrap();
            assert_eq!(sorted(&output), expected, "{example} under {}", mpi.name());
        }
    }
}

/// The book compares programs that do the same.
#[test]
fn the_programs_in_c_have_the_same_output() {
    let programs = programs_in_c();
    assert_eq!(programs.len(), 2);
    for installation in treepie_mpi::installations() {
        let Some(mpi) = Launcher::from_installation(&installation) else { continue };
        for (source, (example, _, _, line)) in programs.iter().zip(tasks()) {
            let (file, program) = (Scratch::new(), Scratch::new());
            std::fs::write(file.path(), source).unwrap();
            let compiler = Command::new(&installation.mpicc)
                .args(["-O1", "-x", "c", file.path(), "-lm", "-o", program.path()])
                .output();
            succeeds(compiler.unwrap());
            // MPICH's ranks spin while they wait: with 4 on 2 cores the first program takes 16 s.
            let output = mpi.job(2).args([program.path()]).output(treepie_bench::job::HANG_TIMEOUT).unwrap();
            assert_eq!(output.trim_end(), line, "{example} in C with {}", mpi.name());
        }
    }
}
