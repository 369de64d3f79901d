//! Crates depend downwards only, and `unsafe` stays where it is allowed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What each crate may use of the others, besides what those may use.
const LAYERS: [(&str, &[&str]); 16] = [
    ("treepie-base", &[]),
    ("treepie-derive", &[]),
    ("treepie-topology", &[]),
    ("treepie-schedule", &["treepie-topology"]),
    ("treepie-collectives", &["treepie-schedule"]),
    ("treepie-model", &["treepie-schedule"]),
    ("treepie-fabric", &["treepie-base"]),
    ("treepie-shm", &["treepie-fabric"]),
    ("treepie-mpi", &["treepie-fabric"]),
    ("treepie-comm", &["treepie-fabric", "treepie-collectives", "treepie-model"]),
    ("treepie-sim", &["treepie-fabric", "treepie-model", "treepie-schedule"]),
    ("treepie-sparse", &["treepie-comm"]),
    ("treepie-am", &["treepie-comm"]),
    ("treepie-graph", &["treepie-sparse", "treepie-am"]),
    ("treepie", &["treepie-shm", "treepie-mpi", "treepie-sim", "treepie-graph", "treepie-derive"]),
    ("treepie-conformance", &["treepie"]),
];

/// Crates that may contain `unsafe`.
const UNSAFE: [&str; 4] = ["base", "shm", "mpi", "sim"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/treepie lies two below").to_path_buf()
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
    let mut seen: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("a name").to_string();
        let dependencies = package["dependencies"].as_array().expect("dependencies");
        let own = dependencies.iter().filter(|d| d["kind"].is_null()).filter_map(|d| d["name"].as_str());
        seen.insert(name, own.filter(|d| d.starts_with("treepie")).map(str::to_string).collect());
    }
    assert_eq!(seen.len(), LAYERS.len(), "every crate has a layer: {:?}", seen.keys());
    for (name, dependencies) in seen {
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
        let lib = std::fs::read_to_string(folder.join("src/lib.rs")).expect("each crate has a lib.rs");
        assert_eq!(
            lib.contains("#![forbid(unsafe_code)]"),
            !UNSAFE.contains(&name.as_str()),
            "crates/{name}/src/lib.rs: forbid(unsafe_code) in all crates but {UNSAFE:?}"
        );
        // Programs and tests of a crate are crates of their own, of which its lib.rs says nothing.
        if !UNSAFE.contains(&name.as_str()) {
            each_source(&folder, &mut |file, text| {
                let is_unsafe = |line: &str| ["{", "impl", "fn", "extern"].iter().any(|what| begins(line, what));
                let found = text.lines().map(str::trim_start).find(|line| is_unsafe(line));
                assert_eq!(found, None, "{}", file.display());
            });
        }
    }
}

/// Whether a line of code has this behind the word that makes it unsafe.
fn begins(line: &str, what: &str) -> bool {
    !line.starts_with("//") && line.contains(&format!("{} {what}", "unsafe"))
}

/// Calls for each source in a folder and those below.
fn each_source(folder: &Path, tell: &mut dyn FnMut(&Path, &str)) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            each_source(&path, tell);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            tell(&path, &std::fs::read_to_string(&path).expect("a source"));
        }
    }
}
