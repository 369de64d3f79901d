//! `treepie doctor`: what this machine offers, and what would be used now.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::process::{Resource, getrlimit};
use serde_json::{Map, Value, json};
use treepie_mpi::Installation;

use super::mpi::{HOW_TO_GET, Launcher};
use super::record::Records;
use super::{machine, single_copy};

/// Show what this machine offers: cores, memory, limits, MPIs, and what would be used now
#[derive(clap::Args)]
pub(crate) struct Doctor {
    /// Also write it as one JSON object to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Doctor {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let mut records = self.json.as_deref().map(Records::create).transpose()?;
        let mut findings = Findings::default();
        machine_facts(&mut findings);
        shared_memory(&mut findings);
        limits(&mut findings);
        mpis(&mut findings);
        choice(&mut findings);
        if let Some(records) = &mut records {
            records.write(&findings.facts)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Prints what is found, and keeps it for JSON.
#[derive(Default)]
struct Findings {
    facts: Map<String, Value>,
}

impl Findings {
    fn heading(&self, text: &str) {
        say!("{text}");
    }

    /// `key` in JSON, with `value`; `name` and `text` for people.
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
    let (total, available) = (machine::memory("MemTotal"), machine::memory("MemAvailable"));
    let text = format!("{} available, of {}", size(available), size(total));
    findings.fact("memory_available", json!(available), "memory", &text);
    findings.facts.insert("memory".into(), json!(total));
    // Containers are held to less than the machine has.
    let limit = read_number("/sys/fs/cgroup/memory.max");
    if limit.is_some() {
        findings.fact("memory_limit", json!(limit), "memory of this group", &format!("at most {}", size(limit)));
    }
}

fn shared_memory(findings: &mut Findings) {
    findings.heading("Shared memory");
    let made = memfd_create("treepie-doctor", MemfdFlags::CLOEXEC).and_then(|file| ftruncate(&file, 1 << 20));
    let text = made.map_or_else(|e| format!("not possible, so no ranks: {e}"), |()| "possible".to_owned());
    findings.fact("memfd", json!(made.is_ok()), "anonymous files", &text);
    let permitted = single_copy::is_permitted();
    let text = match &permitted {
        Ok(true) => "permitted: large messages take one copy".to_owned(),
        Ok(false) => "not permitted (process_vm_readv): large messages go through rings".to_owned(),
        Err(error) => format!("could not be tried: {}", super::one_line(&super::complaint::with_causes(error))),
    };
    findings.fact("single_copy", json!(permitted.ok()), "single copy", &text);
    let scope = read_number("/proc/sys/kernel/yama/ptrace_scope");
    let text = match scope {
        None => "no such restriction here".to_owned(),
        Some(0) => "0: processes of one user reach each other".to_owned(),
        Some(1) => "1: only where a process allows it, as ranks do".to_owned(),
        Some(more) => format!("{more}: only for administrators, so no single copy"),
    };
    findings.fact("ptrace_scope", json!(scope), "yama ptrace_scope", &text);
}

fn limits(findings: &mut Findings) {
    findings.heading("Limits");
    let rows = [
        ("processes", Resource::Nproc, "each rank is one"),
        ("files", Resource::Nofile, "the launcher raises its own; labelled output takes two a rank"),
        ("memlock", Resource::Memlock, "only networks under MPI need it"),
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
    if let Some(most) = tasks {
        findings.fact("limit_tasks", json!(tasks), "tasks of this group", &most.to_string());
    }
}

fn mpis(findings: &mut Findings) {
    findings.heading("MPI");
    let found = treepie_mpi::installations();
    if found.is_empty() {
        say!("  none: no mpicc in PATH, and nothing else needs it ({HOW_TO_GET})");
    }
    let found: Vec<Value> = found.iter().map(describe_mpi).collect();
    findings.facts.insert("mpi".to_owned(), Value::Array(found));
}

/// Says what an MPI has. Its shim is compiled if it was not: whether that works is what one wants to know.
fn describe_mpi(installation: &Installation) -> Value {
    let launcher = Launcher::of(installation).map(|launcher| launcher.job(1).to_string());
    let launcher_text = launcher.as_deref().unwrap_or("no mpirun beside its mpicc");
    let (shim, shim_text) = match treepie_mpi::setup(Some(&installation.mpicc)) {
        Ok(shim) => {
            let when = if shim.built { "compiled just now" } else { "compiled before" };
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

/// The same decision as that of `treepie::init`.
fn choice(findings: &mut Findings) {
    findings.heading("Used by treepie::init() now");
    let (engine, why) =
        if let (Ok(rank), true) = (std::env::var(treepie_shm::RANK), std::env::var_os(treepie_shm::ARENA).is_some()) {
            ("shm", format!("this is rank {rank} of treepie run"))
        } else if let Some(mpi) = treepie_mpi::running_under_mpi() {
            ("mpi", format!("this process was started by {mpi}"))
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
    let refused = treepie::environment::check(None).err().map(|error| format!("not accepted: {error}"));
    for problem in refused.into_iter().chain(treepie_base::environment::unknown()) {
        say!("  {:<22} {problem}", "WRONG");
    }
    findings.facts.insert("environment".into(), Value::Object(set.into_iter().map(|(n, v)| (n, v.into())).collect()));
}

fn read_number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// A number of bytes for people.
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
