//! Tests that the commands in README, book, examples, sources and help texts exist.

use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap::error::ErrorKind;

use super::Arguments;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate is two levels below the workspace")
        .to_path_buf()
}

/// All files with this extension below a folder.
fn texts(folder: &Path, ending: &str, into: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            texts(&path, ending, into);
        } else if path.extension().is_some_and(|found| found == ending) {
            into.push((path.display().to_string(), std::fs::read_to_string(&path).expect("a text")));
        }
    }
}

/// The `--help` texts of a command and its subcommands.
fn help_texts(command: &clap::Command, path: &str, into: &mut Vec<(String, String)>) {
    into.push((format!("{path} --help"), command.clone().render_long_help().to_string()));
    for sub in command.get_subcommands() {
        help_texts(sub, &format!("{path} {}", sub.get_name()), into);
    }
}

/// Commands in a text: in `sh` blocks at the start of a line, possibly after a launcher or variables; elsewhere in
/// backquotes. In sources this covers comments and strings.
fn commands(text: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut shell = false;
    for line in text.lines() {
        let bare = line.trim_start_matches(['/', '!', ' ']);
        if bare.starts_with("```") {
            shell = !shell && (bare.starts_with("```sh") || bare.starts_with("```text"));
        } else if shell {
            found.extend(command(bare));
        } else {
            found.extend(line.split('`').skip(1).step_by(2).filter_map(command));
        }
    }
    found
}

/// The words of a shell's command line: what is quoted is one.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut quote) = (Vec::new(), None);
    for letter in line.chars() {
        let is_new = quote.is_none() && letter.is_whitespace();
        match (quote, letter) {
            (Some(open), close) if open == close => quote = None,
            (None, '\'' | '"') => quote = Some(letter),
            _ if is_new => words.push(String::new()),
            _ => match words.last_mut() {
                Some(word) => word.push(letter),
                None => words.push(letter.to_string()),
            },
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The arguments of a `treepie` command line, or of `bench ...`, as lists of benchmarks have it.
fn command(line: &str) -> Option<Vec<String>> {
    // Strip shell comments, explanations in tables, pipes.
    let line = line.split(" # ").next()?.split("  ").next()?.split(" | ").next()?.trim();
    let all = words(line);
    let words: Vec<&str> = all.iter().map(String::as_str).collect();
    let after = |at: usize| all[at + 1..].to_vec();
    if line.starts_with("cargo run") {
        return words.iter().position(|word| *word == "--").map(after);
    }
    if words.first() == Some(&"bench") && words.len() > 1 {
        return Some(words.iter().map(|word| (*word).to_owned()).collect());
    }
    let is_before = |word: &&str| word.contains('=') && word.starts_with("TREEPIE_");
    let start = words.iter().take_while(|word| is_before(word)).count();
    let launched = words.get(start).is_some_and(|word| ["mpirun", "srun", "mpiexec"].contains(word));
    let at = if launched { words.iter().position(|word| *word == "treepie") } else { Some(start) };
    at.filter(|at| words.get(*at) == Some(&"treepie")).map(after)
}

/// The error if this is not a valid command. Omitted arguments and placeholders are accepted.
fn problem(words: &[String]) -> Option<String> {
    let is_placeholder =
        |word: &String| word.len() > 1 && word.chars().all(|letter| letter.is_ascii_uppercase()) || word == "...";
    let value = |word: &String| match word.as_str() {
        "P" | "N" | "SCALE" => "4".to_owned(),
        "KERNEL" => "bfs".to_owned(),
        word => word.to_owned(),
    };
    let line = std::iter::once("treepie".to_owned()).chain(words.iter().map(value));
    let error = Arguments::command().try_get_matches_from(line).err()?;
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        | ErrorKind::MissingRequiredArgument
        | ErrorKind::MissingSubcommand => None,
        ErrorKind::InvalidValue | ErrorKind::ValueValidation if words.iter().any(is_placeholder) => None,
        _ => Some(error.to_string().lines().next().unwrap_or_default().to_owned()),
    }
}

#[test]
fn documented_commands_exist() {
    let root = root();
    let mut all = Vec::new();
    for name in ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"] {
        all.push((name.to_owned(), std::fs::read_to_string(root.join(name)).expect("a document")));
    }
    texts(&root.join("docs"), "md", &mut all);
    texts(&root.join("examples"), "rs", &mut all);
    texts(&root.join("crates"), "rs", &mut all);
    // This file contains invalid commands on purpose.
    all.retain(|(name, _)| !name.ends_with("documents.rs"));
    help_texts(&Arguments::command(), "treepie", &mut all);
    let mut count = 0;
    for (name, text) in &all {
        for words in commands(text) {
            count += 1;
            assert_eq!(problem(&words), None, "{name}: treepie {}", words.join(" "));
        }
    }
    assert!(count > 80, "only {count} commands were found");
}

/// Words after `treepie` in messages that are not subcommands.
const NO_COMMANDS: [&str; 2] = ["world", "is"];

/// Words after `treepie` in the string literals of a source.
fn words_in_messages(source: &str) -> Vec<&str> {
    let lines = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    let strings = lines.flat_map(|line| line.split('"').skip(1).step_by(2));
    let after_name = strings.flat_map(|string| string.split("treepie ").skip(1));
    after_name
        .map(|rest| rest.split(|letter: char| !letter.is_ascii_lowercase()).next().unwrap_or_default())
        .filter(|word| !word.is_empty())
        .collect()
}

#[test]
fn messages_name_commands_that_exist() {
    let mut all = Vec::new();
    texts(&root().join("crates"), "rs", &mut all);
    all.retain(|(name, _)| name.contains("/src/") && !name.ends_with("documents.rs"));
    let arguments = Arguments::command();
    for (name, text) in &all {
        for word in words_in_messages(text) {
            let exists = arguments.find_subcommand(word).is_some() || NO_COMMANDS.contains(&word);
            assert!(exists, "{name}: there is no `treepie {word}`");
        }
    }
    assert_eq!(words_in_messages("    bail!(\"no such one: treepie list names them\");"), ["list"]);
}

#[test]
fn invalid_commands_are_found() {
    let text = "Say `treepie list`, or `bench nothing`.\n```sh\ntreepie run -n 4 ./program --its=own   # all\n\
                TREEPIE_LOG=choices treepie sim bcast --netwrk flat:4\nmpirun -n 4 treepie graph bfs F\n```\n";
    let found = commands(text);
    assert_eq!(found.len(), 5, "{found:?}");
    let wrong: Vec<bool> = found.iter().map(|words| problem(words).is_some()).collect();
    assert_eq!(wrong, [true, true, false, true, false]);
}
