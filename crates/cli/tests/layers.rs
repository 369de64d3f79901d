//! Crates depend downwards only, and `unsafe` stays where it is allowed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates each crate may depend on, besides the dependencies of those.
const LAYERS: [(&str, &[&str]); 21] = [
    ("treepie-base", &[]),
    ("treepie-derive", &[]),
    ("treepie-topology", &[]),
    ("treepie-schedule", &["treepie-topology"]),
    ("treepie-collectives", &["treepie-schedule"]),
    ("treepie-model", &["treepie-schedule"]),
    ("treepie-fabric", &["treepie-base"]),
    ("treepie-shm", &["treepie-fabric"]),
    ("treepie-mpi", &["treepie-shm"]),
    ("treepie-comm", &["treepie-fabric", "treepie-collectives", "treepie-model"]),
    ("treepie-sim", &["treepie-fabric", "treepie-model", "treepie-schedule"]),
    ("treepie-emulation", &["treepie-sim"]),
    ("treepie-sparse", &["treepie-comm"]),
    ("treepie-am", &["treepie-comm"]),
    ("treepie-graph", &["treepie-sparse", "treepie-am"]),
    ("treepie-apps", &["treepie-am"]),
    ("treepie-tune", &["treepie-comm"]),
    (
        "treepie",
        &[
            "treepie-shm",
            "treepie-mpi",
            "treepie-emulation",
            "treepie-graph",
            "treepie-apps",
            "treepie-tune",
            "treepie-derive",
        ],
    ),
    ("treepie-bench", &["treepie"]),
    ("treepie-cli", &["treepie-bench"]),
    ("treepie-conformance", &["treepie"]),
];

/// Crates of the command, and what only these may depend on: crates for command lines and error reports.
const COMMANDS: [&str; 2] = ["treepie-bench", "treepie-cli"];
const OF_COMMANDS: [&str; 2] = ["clap", "anyhow"];

/// Crates that may contain `unsafe`.
const UNSAFE: [&str; 4] = ["base", "shm", "mpi", "sim"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate is two levels below the workspace")
        .to_path_buf()
}

fn allowed(name: &str) -> BTreeSet<String> {
    let (_, direct) = LAYERS.iter().find(|(layer, _)| *layer == name).unwrap_or_else(|| panic!("{name} has no layer"));
    direct.iter().flat_map(|below| allowed(below).into_iter().chain([(*below).to_string()])).collect()
}

#[test]
fn crates_depend_downwards_only() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo metadata runs");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("a name").to_string();
        let dependencies = package["dependencies"].as_array().expect("dependencies");
        let internal = dependencies.iter().filter(|d| d["kind"].is_null()).filter_map(|d| d["name"].as_str());
        let (mut of_commands, is_command) =
            (internal.clone().filter(|d| OF_COMMANDS.contains(d)), COMMANDS.contains(&name.as_str()));
        assert!(is_command || of_commands.next().is_none(), "{name}: only {COMMANDS:?} depend on {OF_COMMANDS:?}");
        found.insert(name, internal.filter(|d| d.starts_with("treepie")).map(str::to_string).collect());
    }
    assert_eq!(found.len(), LAYERS.len(), "every crate has a layer: {:?}", found.keys());
    for (name, dependencies) in found {
        let allowed = allowed(&name);
        for dependency in dependencies {
            assert!(allowed.contains(&dependency), "{name} must not depend on {dependency}");
        }
    }
}

#[test]
fn unsafe_only_where_it_is_allowed() {
    for entry in std::fs::read_dir(root().join("crates")).expect("crates") {
        let folder = entry.expect("an entry").path();
        let name = folder.file_name().expect("a name").to_string_lossy().to_string();
        let root =
            ["lib.rs", "main.rs"].map(|root| folder.join("src").join(root)).into_iter().find(|root| root.exists());
        let root = std::fs::read_to_string(root.expect("each crate has a root")).expect("a source");
        assert_eq!(
            root.contains("#![forbid(unsafe_code)]"),
            !UNSAFE.contains(&name.as_str()),
            "crates/{name}/src: forbid(unsafe_code) in all crates but {UNSAFE:?}"
        );
        // Binaries and tests are separate crates, which the root of the library does not cover.
        if !UNSAFE.contains(&name.as_str()) {
            each_source(&folder, &mut |file, text| {
                let is_unsafe = |line: &str| ["{", "impl", "fn", "extern"].iter().any(|what| begins(line, what));
                let found = text.lines().map(str::trim_start).find(|line| is_unsafe(line));
                assert_eq!(found, None, "{}", file.display());
            });
        }
    }
}

/// Whether a line of code has this after the `unsafe` keyword.
fn begins(line: &str, what: &str) -> bool {
    !line.starts_with("//") && line.contains(&format!("{} {what}", "unsafe"))
}

/// Calls `visit` for each source file below a folder.
fn each_source(folder: &Path, visit: &mut dyn FnMut(&Path, &str)) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            each_source(&path, visit);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            visit(&path, &std::fs::read_to_string(&path).expect("a source"));
        }
    }
}
