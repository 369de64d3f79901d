//! README and book agree with the sources: programs, environment variables, tests.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use treepie::prelude::*;
use treepie_base::environment::{RANK_VARIABLES, TEST_VARIABLES, VARIABLES};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate is two levels below the workspace")
        .to_path_buf()
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_program_of_the_readme_is_the_example() {
    let (readme, example) = (text("README.md"), text("examples/ring.rs"));
    let listing = readme.split("```rust,no_run\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a program");
    let start = example.find("use treepie").expect("a program");
    assert_eq!(listing, &example[start..]);
}

/// The programs of the book's tasks are the examples, and are not longer than those beside them.
#[test]
fn the_tasks_of_the_book_are_the_examples() {
    let book = text("docs/tasks.md");
    let listings: Vec<&str> = book.split("```").skip(1).step_by(2).filter(|block| !block.starts_with("sh\n")).collect();
    let examples = ["heat", "sample_sort", "word_count", "particles", "bfs"];
    assert_eq!(listings.len(), 2 * examples.len());
    let lines = |program: &str| program.lines().skip(1).filter(|line| !line.trim().is_empty()).count();
    for (name, pair) in examples.iter().zip(listings.chunks(2)) {
        let example = text(&format!("examples/{name}.rs"));
        let start = example.find("\nuse ").expect("a program") + 1;
        assert_eq!(pair[0].strip_prefix("rust,no_run\n"), Some(&example[start..]), "{name}");
        let (ours, theirs) = (lines(pair[0]), lines(pair[1]));
        assert!(ours <= theirs, "{name}: {ours} and {theirs} lines");
        assert!(book.contains(&format!("| {ours} | {theirs} (")), "{name}: {ours} and {theirs} lines in the table");
    }
}

/// Names of Treepie's environment variables in a text. A bare prefix is not a name.
fn names(text: &str) -> BTreeSet<String> {
    let word = |rest: &str| rest.chars().take_while(|letter| letter.is_ascii_uppercase() || *letter == '_').collect();
    let names = text.split("TREEPIE_").skip(1).map(|rest| -> String { word(rest) });
    names.filter(|name| !name.is_empty()).map(|name| format!("TREEPIE_{name}")).collect()
}

fn sources(folder: &Path, into: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            into.push((path.clone(), fs::read_to_string(path).expect("a source")));
        }
    }
}

/// Every variable named in a source is in the table of known variables, and every variable of the table is in the book.
#[test]
fn all_variables_are_known_and_in_the_book() {
    let known: BTreeSet<String> = VARIABLES
        .iter()
        .map(|variable| variable.name)
        .chain(RANK_VARIABLES)
        .chain(TEST_VARIABLES)
        .map(str::to_owned)
        .collect();
    assert_eq!(names(&text("docs/environment.md")), known, "docs/environment.md, and base/src/environment.rs");
    let mut all = Vec::new();
    sources(&root().join("crates"), &mut all);
    sources(&root().join("examples"), &mut all);
    let (mut in_sources, mut direct) = (BTreeSet::new(), Vec::new());
    for (path, source) in all {
        // These contain mistyped names on purpose.
        if path.ends_with("tests/cli/mistakes.rs") || path.ends_with("base/src/environment.rs") {
            continue;
        }
        let unknown: Vec<String> = names(&source).difference(&known).cloned().collect();
        assert!(unknown.is_empty(), "{}: {unknown:?} are not in base/src/environment.rs", path.display());
        in_sources.extend(names(&source));
        let is_library =
            path.components().any(|part| part.as_os_str() == "src") && !path.to_string_lossy().contains("conformance");
        let reads =
            |line: &str| line.contains("env::var") && VARIABLES.iter().any(|variable| line.contains(variable.name));
        if is_library && source.lines().any(reads) {
            direct.push(path);
        }
    }
    assert!(direct.is_empty(), "read variables by base::environment, not here: {direct:?}");
    assert!(RANK_VARIABLES.iter().chain(&TEST_VARIABLES).all(|name| in_sources.contains(*name)), "{in_sources:?}");
}

/// Every row of the book's limits names its evidence: a test function, or a case of the conformance suite.
#[test]
fn every_limit_names_tests_that_exist() {
    let mut all = Vec::new();
    sources(&root().join("crates"), &mut all);
    let all: String = all.into_iter().map(|(_, source)| source).collect();
    let book = text("docs/limits.md");
    let rows = book.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| what |"));
    let mut count = 0;
    for row in rows {
        let column = row.trim_end_matches('|').rsplit('|').next().expect("a column");
        let tests: Vec<&str> = column.split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty(), "no test: {row}");
        for test in tests {
            let exists = if test.contains('/') { format!("Case::new(\"{test}\"") } else { format!("fn {test}(") };
            assert!(all.contains(&exists), "there is no test {test}: {row}");
        }
        count += 1;
    }
    assert!(count > 30, "{count} rows were found");
}

/// Starts a world on each engine. The next test runs this one with invalid variables.
#[test]
fn worlds_begin() {
    let machine = treepie::simulate::LogGP { latency: 4.0, overhead: 1.0, gap: 2.0, per_byte: 0.001 };
    let simulated = treepie::simulate(&treepie::Network::flat(1), &machine.into(), |world| Ok(world.size()));
    let results = [treepie::init().map(drop), treepie::launch(1, |_| Ok(())).map(drop), simulated.map(drop)];
    assert_eq!(results, [Ok(()), Ok(()), Ok(())]);
}

/// As `docs/environment.md` states: the test above, with values that are not accepted.
#[test]
fn no_world_begins_with_a_value_that_is_not_accepted() {
    for (name, value) in [
        ("TREEPIE_ALGORITHM", "allgather/none"),
        ("TREEPIE_AM", "routing=none"),
        ("TREEPIE_CHECKED", "maybe"),
        ("TREEPIE_ENGINE", "fibers:4"),
        ("TREEPIE_LOG", "debug"),
        ("TREEPIE_PROFILE", "/nowhere.toml"),
        ("TREEPIE_RULES", "/nowhere.toml"),
        ("TREEPIE_SINGLE_COPY", "never"),
        ("TREEPIE_STALL_SECS", "abc"),
        ("TREEPIE_TMPFILE", "maybe"),
    ] {
        let program = std::env::current_exe().unwrap();
        let output = Command::new(program).args(["--exact", "worlds_begin"]).env(name, value).output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        let refusal = format!("{name}={value}: ");
        assert!(!output.status.success() && stdout.matches(&refusal).count() == 3, "{name}={value}: {stdout}");
    }
}

/// As `docs/communicators.md` states.
#[test]
fn simulated_ranks_know_their_network() {
    let network = treepie::Network::clusters(&[2, 4]).unwrap();
    let machine = treepie::simulate::LogGP { latency: 4.0, overhead: 1.0, gap: 2.0, per_byte: 0.001 };
    let simulated =
        treepie::simulate(&network, &machine.into(), |world| Ok(world.split_type(SplitType::Cluster, 0)?.size()));
    assert_eq!(simulated.unwrap().into_results(), [2, 2, 4, 4, 4, 4]);
}

/// As `docs/messages.md` states.
#[test]
fn a_receive_dropped_in_a_scope_is_waited_for() {
    let got = treepie::launch(2, |world| {
        let mut got = [0u64];
        if world.rank() == 0 {
            world.scope(|scope| scope.irecv(&mut got, 1, 0).map(drop))?;
        } else {
            world.send(&[7u64], 0, 0)?;
        }
        Ok(got[0])
    });
    assert_eq!(got, Ok(vec![7, 0]));
}
