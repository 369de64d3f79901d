//! `treepie doctor`: the machine's resources and limits, and the engine that would be used.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::process::{Resource, getrlimit};
use serde_json::{Map, Value, json};
use treepie_mpi::Installation;

use treepie_bench::mpi::{INSTALL_HINT, Launcher};
use treepie_bench::record::Records;
use treepie_bench::{machine, single_copy};

/// Show this machine's cores, memory, limits and MPIs, and the engine that would be used
#[derive(clap::Args)]
pub(crate) struct Doctor {
    /// Also write the findings to this file, as one JSON object
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Doctor {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let mut records = Records::create(self.json.as_deref())?;
        let mut findings = Findings::default();
        machine_facts(&mut findings);
        shared_memory(&mut findings);
        limits(&mut findings);
        mpis(&mut findings);
        choice(&mut findings);
        records.write(&findings.facts)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The findings: printed, and collected for JSON.
#[derive(Default)]
struct Findings {
    facts: Map<String, Value>,
}

impl Findings {
    fn heading(&self, text: &str) {
        say!("{text}");
    }

    /// Adds `key: value` to the JSON and prints `name` and `text`.
    fn fact(&mut self, key: &str, value: Value, name: &str, text: &str) {
        say!("  {name:<22} {text}");
        self.facts.insert(key.to_owned(), value);
    }
}

fn machine_facts(findings: &mut Findings) {
    findings.heading("Machine");
    findings.fact("version", json!(env!("CARGO_PKG_VERSION")), "treepie", env!("CARGO_PKG_VERSION"));
    let machine = machine::describe();
    findings.fact("machine", json!(machine), "machine", &machine);
    let (allowed, all) = (machine::cores(), machine::all_cores());
    findings.fact("cores_allowed", json!(allowed), "cores", &format!("{allowed} allowed to this process, of {all}"));
    findings.facts.insert("cores".into(), json!(all));
    let (total, available) = (machine::meminfo("MemTotal"), machine::meminfo("MemAvailable"));
    let text = format!("{} available, of {}", size(available), size(total));
    findings.fact("memory_available", json!(available), "memory", &text);
    findings.facts.insert("memory".into(), json!(total));
    // A container may be limited to less than the machine has.
    let limit = read_number("/sys/fs/cgroup/memory.max");
    if limit.is_some() {
        findings.fact("memory_limit", json!(limit), "memory of this cgroup", &format!("at most {}", size(limit)));
    }
}

fn shared_memory(findings: &mut Findings) {
    findings.heading("Shared memory");
    let made = memfd_create("treepie-doctor", MemfdFlags::CLOEXEC).and_then(|file| ftruncate(&file, 1 << 20));
    let text = made.map_or_else(|e| format!("not available, so no ranks: {e}"), |()| "available".to_owned());
    findings.fact("memfd", json!(made.is_ok()), "anonymous files", &text);
    let permitted = single_copy::is_permitted();
    let text = match &permitted {
        Ok(true) => "permitted: large messages are copied once".to_owned(),
        Ok(false) => "not permitted (process_vm_readv): large messages are copied through rings".to_owned(),
        Err(error) => format!(
            "could not be tested: {}",
            treepie_bench::diagnostics::one_line(&treepie_bench::diagnostics::with_causes(error))
        ),
    };
    findings.fact("single_copy", json!(permitted.ok()), "single copy", &text);
    let scope = read_number("/proc/sys/kernel/yama/ptrace_scope");
    let text = match scope {
        None => "not present, no restriction".to_owned(),
        Some(0) => "0: processes of one user may access each other".to_owned(),
        Some(1) => "1: only where a process permits it, as ranks do".to_owned(),
        Some(more) => format!("{more}: only for administrators, so no single copy"),
    };
    findings.fact("ptrace_scope", json!(scope), "yama ptrace_scope", &text);
}

fn limits(findings: &mut Findings) {
    findings.heading("Limits");
    let rows = [
        ("processes", Resource::Nproc, "one per rank"),
        ("files", Resource::Nofile, "the launcher raises its own; labelled output takes two per rank"),
        ("memlock", Resource::Memlock, "only MPI over a network needs it"),
    ];
    for (name, resource, why) in rows {
        let limit = getrlimit(resource).current;
        let text = match (limit, resource) {
            (None, _) => "unlimited".to_owned(),
            (limit, Resource::Memlock) => size(limit),
            (Some(limit), _) => limit.to_string(),
        };
        findings.fact(&format!("limit_{name}"), json!(limit), name, &format!("{text} ({why})"));
    }
    let tasks = read_number("/sys/fs/cgroup/pids.max");
    if let Some(max) = tasks {
        findings.fact("limit_tasks", json!(tasks), "tasks of this cgroup", &max.to_string());
    }
}

fn mpis(findings: &mut Findings) {
    findings.heading("MPI");
    let found = treepie_mpi::installations();
    if found.is_empty() {
        say!("  none: no mpicc in PATH; MPI is optional ({INSTALL_HINT})");
    }
    let found: Vec<Value> = found.iter().map(describe_mpi).collect();
    findings.facts.insert("mpi".to_owned(), Value::Array(found));
}

/// Prints an MPI. Compiles its shim if needed, to show whether that works.
fn describe_mpi(installation: &Installation) -> Value {
    let launcher = Launcher::from_installation(installation).map(|launcher| launcher.job(1).to_string());
    let launcher_text = launcher.as_deref().unwrap_or("no mpirun next to its mpicc");
    let (shim, shim_text) = match treepie_mpi::setup(Some(&installation.mpicc)) {
        Ok(shim) => {
            let when = if shim.built { "compiled just now" } else { "already compiled" };
            (Some(shim.path.display().to_string()), format!("{when}: {}", shim.path.display()))
        }
        Err(error) => (None, format!("cannot be used: {error}")),
    };
    let name = format!("{} {}", installation.flavor, installation.version);
    say!("  {:<22} {}", name.trim_end(), installation.mpicc.display());
    say!("  {:<22} started by {launcher_text} PROGRAM", "");
    say!("  {:<22} shim {shim_text}", "");
    json!({
        "name": installation.flavor.to_string(),
        "version": installation.version,
        "mpicc": installation.mpicc,
        "mpirun": launcher,
        "shim": shim,
    })
}

/// The engine that `treepie::main` would select.
fn choice(findings: &mut Findings) {
    findings.heading("Engine of treepie::main()");
    let (engine, why) = if let (Ok(rank), true) =
        (std::env::var(treepie_shm::RANK_VAR), std::env::var_os(treepie_shm::ARENA_VAR).is_some())
    {
        ("shm", format!("this is rank {rank} of treepie run"))
    } else if let Some(mpi) = treepie_mpi::running_under_mpi() {
        ("mpi", format!("this process was started by {mpi}"))
    } else if let Ok(Some(engine)) = treepie::environment::requested_engine() {
        let name = match engine {
            treepie::environment::RequestedEngine::Threads(_) => "threads",
            treepie::environment::RequestedEngine::Simulator(_) => "sim",
        };
        (name, "TREEPIE_ENGINE is set".to_owned())
    } else {
        ("alone", "a world of one: this process was not started by treepie run, mpirun or srun".to_owned())
    };
    findings.fact("engine", json!(engine), engine, &why);
    let set = std::env::vars_os().filter_map(|(name, value)| {
        let (name, value) = (name.into_string().ok()?, value.to_string_lossy().into_owned());
        name.starts_with("TREEPIE_").then_some((name, value))
    });
    let set: Vec<(String, String)> = set.collect();
    for (name, value) in &set {
        say!("  {:<22} {name}={value}", "set");
    }
    let refused = treepie::environment::check(None).err().map(|error| format!("invalid: {error}"));
    for problem in refused.into_iter().chain(treepie_base::environment::unknown_variables()) {
        say!("  {:<22} {problem}", "WRONG");
    }
    findings.facts.insert("environment".into(), Value::Object(set.into_iter().map(|(n, v)| (n, v.into())).collect()));
}

fn read_number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// A number of bytes, human-readable.
fn size(bytes: Option<u64>) -> String {
    let Some(bytes) = bytes else { return "unknown".to_owned() };
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.into_iter().find(|(shift, _)| bytes >> shift > 0) {
        Some((shift, unit)) => format!("{:.1} {unit}", bytes as f64 / (1u64 << shift) as f64),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_readable() {
        assert_eq!(size(Some(8 << 20)), "8.0 MiB");
        assert_eq!(size(Some(24 << 30)), "24.0 GiB");
        assert_eq!(size(Some(100)), "100 bytes");
        assert_eq!(size(None), "unknown");
    }
}
