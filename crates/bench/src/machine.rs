//! Facts about this machine.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::getppid;
use rustix::thread::{sched_getaffinity, sched_setaffinity};

/// Cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get())
}

/// Cores that the job of this process may use. A rank may be bound to one of them; its launcher is not.
pub fn job_cores() -> usize {
    let launcher = if is_rank() { getppid() } else { None };
    let Some(allowed) = launcher.and_then(|launcher| sched_getaffinity(Some(launcher)).ok()) else { return cores() };
    // A thread with the launcher's affinity counts what the launcher would, cgroup limits included.
    let counted = std::thread::spawn(move || sched_setaffinity(None, &allowed).map(|()| cores()));
    counted.join().ok().and_then(Result::ok).unwrap_or_else(cores)
}

/// Whether this process was started as a rank.
pub fn is_rank() -> bool {
    std::env::var_os(treepie_shm::RANK_VAR).is_some() || treepie_mpi::running_under_mpi().is_some()
}

/// Online cores of the machine.
pub fn all_cores() -> usize {
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    cpulist_len(&online).unwrap_or_else(cores)
}

/// The number of entries of a list like `0-3,8`.
fn cpulist_len(list: &str) -> Option<usize> {
    let count = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(last.parse::<usize>().ok()?.checked_sub(first.parse().ok()?)? + 1)
    };
    list.trim().split(',').map(count).sum()
}

/// An entry of /proc/meminfo, such as `MemTotal`, in bytes.
pub fn meminfo(entry: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(entry)?.strip_prefix(':'))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

/// The part of the free memory that a benchmark may use.
pub(crate) const USABLE: f64 = 0.5;

/// That part, in bytes.
pub(crate) fn usable_memory() -> f64 {
    meminfo("MemAvailable").map_or(f64::MAX, |bytes| USABLE * bytes as f64)
}

/// Refuses what needs more bytes than this part of the free memory.
pub fn ensure_memory(what: &str, needed: f64, part: f64) -> anyhow::Result<()> {
    let free = meminfo("MemAvailable").map_or(f64::MAX, |bytes| bytes as f64);
    let of = if part < 1.0 { format!("{:.0}% of ", 100.0 * part) } else { String::new() };
    let [needed, all] = [needed / 1e6, free / 1e6];
    anyhow::ensure!(
        needed <= part * all,
        "not enough memory: {what} need {needed:.0} MB, more than {of}the {all:.0} MB that are free"
    );
    Ok(())
}

/// Peak resident memory of this process, in bytes.
pub fn peak_memory() -> Option<u64> {
    proc_status("VmHWM:").map(|peak| peak.max(PEAK_BEFORE_RESET.load(Ordering::Relaxed)))
}

/// The highest peak before the kernel's counter was reset.
static PEAK_BEFORE_RESET: AtomicU64 = AtomicU64::new(0);

/// Runs something and returns the peak of this process's private memory meanwhile, or `None` if the system cannot tell.
pub fn memory_during<T>(run: impl FnOnce() -> T) -> (T, Option<u64>) {
    // The kernel tracks no peak of private memory; what a run adds to the resident set counts as private.
    const RESET_PEAK: &str = "5";
    PEAK_BEFORE_RESET.fetch_max(proc_status("VmHWM:").unwrap_or(0), Ordering::Relaxed);
    let was_reset = fs::write("/proc/self/clear_refs", RESET_PEAK).is_ok();
    let before = private_memory().zip(proc_status("VmRSS:"));
    let result = run();
    let peak = proc_status("VmHWM:").filter(|_| was_reset);
    (result, before.zip(peak).map(|((private, resident), peak)| private + peak.saturating_sub(resident)))
}

/// Private (anonymous) memory of this process, in bytes.
pub fn private_memory() -> Option<u64> {
    proc_status("RssAnon:")
}

fn proc_status(entry: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(entry))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

/// A one-line description for records: processor, cores, system.
pub fn describe() -> String {
    let model = treepie_base::processor_name();
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = job_cores();
    let plural = if cores == 1 { "" } else { "s" };
    format!("{model}, {cores} core{plural}, Linux {}", release.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_counted() {
        assert_eq!(cpulist_len("0-3,8\n"), Some(5));
        assert_eq!(cpulist_len("0"), Some(1));
        assert_eq!(cpulist_len(""), None);
        assert_eq!(cpulist_len("3-1"), None);
    }

    /// In a process of its own: other tests would use memory meanwhile.
    #[test]
    fn temporary_memory_counts_towards_the_peak() {
        let this = std::env::current_exe().unwrap();
        let alone = ["--exact", "machine::tests::peak_memory_of_a_process", "--ignored"];
        let output = std::process::Command::new(this).args(alone).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
    }

    #[test]
    #[ignore = "the test above runs it"]
    fn peak_memory_of_a_process() {
        let (result, peak) = memory_during(|| {
            let temporary = std::hint::black_box(vec![1u8; 64 << 20]);
            std::hint::black_box(vec![temporary[5]; 1000])
        });
        let (least, now) = (64 << 20, private_memory().unwrap());
        assert!(peak.is_none_or(|peak| (least..now + (80 << 20)).contains(&peak)), "{peak:?} {now} {}", result.len());
    }

    #[test]
    fn this_machine_has_cores_and_memory() {
        assert!(cores() > 0 && all_cores() >= cores());
        assert_eq!(job_cores(), cores());
        assert!(meminfo("MemTotal").unwrap() > meminfo("MemAvailable").unwrap());
        assert!(describe().contains("core"));
    }
}
