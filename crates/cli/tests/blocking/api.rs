//! The public API: every `pub fn` of the library's crates that returns a `Result`, read from the sources. Each is
//! either in the table or listed here because it is local, that is, it waits for no other rank.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::table::table;

/// The crates whose functions programs call.
const CRATES: [&str; 6] = ["comm", "sparse", "am", "graph", "apps", "treepie"];

/// Local functions, and why they are local.
const LOCAL: &[(&str, &[&str])] = &[
    ("they read local state", &["Comm::translate_rank", "Cartesian::coords", "Window::len", "Request::cancel"]),
    (
        "they create a handle, choose, or read a file or the environment",
        &[
            "AlgorithmRules::load",
            "AlgorithmRules::parse",
            "Comm::candidates",
            "Comm::chosen_algorithm",
            "Comm::chosen_split_algorithm",
            "Comm::prediction",
            "Comm::with_algorithm",
            "Comm::with_candidate",
            "Comm::with_network",
            "Comm::network",
            "Comm::on_network",
            "check_environment",
            "treepie::requested_engine",
        ],
    ),
    ("they compare settings with a number of ranks", &["RandomAccess::check"]),
    ("they convert objects to bytes and back", &["encode", "decode"]),
    (
        "they allocate memory",
        &[
            "graph::bitmap::Bitmap::try_new",
            "graph::bfs::result::BfsResult::new",
            "graph::betweenness::Betweenness::scores",
            "graph::property_map::PropertyMap::new",
            "graph::scc::SccSearch::into_components",
            "graph::sssp::DeltaStepping::distances",
            "graph::triangles::Triangles::clustering",
        ],
    ),
    (
        "they start worlds: tests/termination.rs, faults.rs and leaked_handles.rs test how these end",
        &[
            "treepie::main",
            "treepie::init",
            "treepie::launch",
            "treepie::launch_emulated",
            "treepie::simulate",
            "treepie::simulate_with",
            "treepie::check",
            "treepie::check_all_but_links",
        ],
    ),
    (
        "protocols of other crates use them, and the calls of those are in the table",
        &[
            "Comm::requested_protocol",
            "Comm::run_protocol",
            "Comm::begin_protocol",
            "Comm::begin_untagged",
            "ProtocolRun::step",
            "AllreduceWave::on_message",
            "SplitAlgorithm::parse",
        ],
    ),
    ("they write or read a file of the calling rank", &["ActiveMessages::write_trace", "graph::write::write"]),
    (
        "they describe edges; each rank reads or generates its part",
        &[
            "graph::edge::EdgeSource::read_part",
            "graph::edge::EdgeSource::read_vertex_ids",
            "graph::edge::EdgeSource::read_rows",
            "graph::edge::EdgeSource::check_edge_count",
            "graph::generate::balanced::Balanced::new",
            "graph::generate::erdos_renyi::ErdosRenyi::with_degree",
            "graph::generate::erdos_renyi::ErdosRenyi::with_probability",
            "graph::generate::grid::Grid::new",
            "graph::generate::kronecker::Kronecker::new",
            "graph::generate::watts_strogatz::WattsStrogatz::new",
            "graph::read::EdgeFiles::open",
            "graph::read::EdgeFiles::open_columns",
            "graph::read::format::InputFormat::guess",
            "graph::write::OutputFormat::guess",
        ],
    ),
];

pub(crate) fn all_are_listed() -> Result<(), String> {
    let found = functions();
    let mut listed: BTreeSet<&str> = table().iter().flat_map(|call| call.covers).copied().collect();
    listed.extend(LOCAL.iter().flat_map(|(_, names)| *names));
    let missing: Vec<&String> = found.iter().filter(|name| !listed.contains(name.as_str())).collect();
    // Rows with more than a name are about a function in a certain use.
    let unknown: Vec<&&str> =
        listed.iter().filter(|name| !name.contains([',', ' ']) && !found.contains(**name)).collect();
    if found.len() < 150 {
        return Err(format!("only {} functions were found in the sources", found.len()));
    }
    if !missing.is_empty() || !unknown.is_empty() {
        return Err(format!("functions that are not in the table: {missing:?}; rows of no function: {unknown:?}"));
    }
    Ok(())
}

/// `Type::function`; in `graph`, where modules share type names, prefixed with the module path.
fn functions() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for name in CRATES {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
        let mut files = Vec::new();
        collect(&source, &mut files);
        for file in files {
            let text = std::fs::read_to_string(&file).expect("a source can be read");
            let module = file.strip_prefix(&source).expect("inside").with_extension("");
            let module: Vec<String> = module.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            let prefix = match name {
                "graph" => format!("graph::{}::", module.join("::")),
                "treepie" => "treepie::".to_owned(),
                _ => String::new(),
            };
            found.extend(functions_of(&text).into_iter().map(|function| format!("{prefix}{function}")));
        }
    }
    found
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs") {
            files.push(path);
        }
    }
}

/// The public functions of a source file that return a `Result`.
fn functions_of(text: &str) -> Vec<String> {
    let text = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let (mut found, mut owner, mut in_trait) = (Vec::new(), String::new(), false);
    let lines: Vec<&str> = text.lines().collect();
    for (i, line) in lines.iter().enumerate() {
        if line.starts_with("impl") || line.starts_with("pub trait ") {
            in_trait = line.starts_with("pub trait ");
            owner = type_name(line);
        } else if *line == "}" {
            owner.clear();
            in_trait = false;
        }
        let rest = if let Some(rest) = line.strip_prefix("pub fn ") {
            Some((rest, String::new()))
        } else if let Some(rest) = line.strip_prefix("    pub fn ") {
            (!owner.is_empty()).then(|| (rest, format!("{owner}::")))
        } else {
            line.strip_prefix("    fn ").filter(|_| in_trait).map(|rest| (rest, format!("{owner}::")))
        };
        let Some((rest, owner)) = rest else { continue };
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let mut signature = String::new();
        for line in &lines[i..] {
            signature.push_str(line);
            if line.ends_with('{') || line.ends_with(';') {
                break;
            }
        }
        // Bounds may have arrows too.
        let signature = signature.split("where").next().unwrap_or_default();
        if signature.rsplit_once("->").is_some_and(|(_, result)| result.contains("Result<")) {
            found.push(format!("{owner}{name}"));
        }
    }
    found
}

/// The type of `impl<T> Trait for Type<..>` or `impl Type`, or the name of a trait.
fn type_name(line: &str) -> String {
    let line = line.strip_prefix("pub trait ").unwrap_or_else(|| {
        let rest = &line["impl".len()..];
        // Skip the generic parameters.
        let mut depth = 0;
        let end = rest.char_indices().find(|(_, c)| {
            depth += i32::from(*c == '<') - i32::from(*c == '>');
            depth == 0
        });
        rest[end.map_or(0, |(at, c)| at + c.len_utf8())..].trim_start()
    });
    // A trait's functions are listed with the trait.
    if line.contains(" for ") {
        return String::new();
    }
    line.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}
