//! Facts of this machine.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::getppid;
use rustix::thread::{sched_getaffinity, sched_setaffinity};

/// Processors that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get())
}

/// Processors that the job of this process may use. A rank may be bound to one of them; its launcher is not.
pub(crate) fn cores_of_job() -> usize {
    let launcher = if is_rank() { getppid() } else { None };
    let Some(allowed) = launcher.and_then(|launcher| sched_getaffinity(Some(launcher)).ok()) else { return cores() };
    // A thread that may run where the launcher may counts what the launcher would, limits of its group among it.
    let counted = std::thread::spawn(move || sched_setaffinity(None, &allowed).map(|()| cores()));
    counted.join().ok().and_then(Result::ok).unwrap_or_else(cores)
}

/// Whether this process was started as a rank.
pub(crate) fn is_rank() -> bool {
    std::env::var_os(treepie_shm::RANK).is_some() || treepie_mpi::running_under_mpi().is_some()
}

/// Processors that there are.
pub(crate) fn all_cores() -> usize {
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    count_of_list(&online).unwrap_or_else(cores)
}

/// How many numbers a list as `0-3,8` has.
fn count_of_list(list: &str) -> Option<usize> {
    let count = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(last.parse::<usize>().ok()?.checked_sub(first.parse().ok()?)? + 1)
    };
    list.trim().split(',').map(count).sum()
}

/// An entry of /proc/meminfo, as `MemTotal`, in bytes.
pub(crate) fn memory(entry: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(entry)?.strip_prefix(':'))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

/// The most memory that this process had at once, in bytes.
pub(crate) fn peak_memory() -> Option<u64> {
    own_status("VmHWM:").map(|peak| peak.max(FORGOTTEN.load(Ordering::Relaxed)))
}

/// The highest of the peaks that the system was told to forget.
static FORGOTTEN: AtomicU64 = AtomicU64::new(0);

/// How much memory this process has for itself alone, at most, while something is done. Nothing if the system cannot tell.
pub(crate) fn memory_during<T>(run: impl FnOnce() -> T) -> (T, Option<u64>) {
    // Of its own memory alone the system keeps no peak; what comes with a run is its own.
    const FORGET_PEAK: &str = "5";
    FORGOTTEN.fetch_max(own_status("VmHWM:").unwrap_or(0), Ordering::Relaxed);
    let forgotten = fs::write("/proc/self/clear_refs", FORGET_PEAK).is_ok();
    let before = own_memory().zip(own_status("VmRSS:"));
    let done = run();
    let peak = own_status("VmHWM:").filter(|_| forgotten);
    (done, before.zip(peak).map(|((own, all), peak)| own + peak.saturating_sub(all)))
}

/// The memory that this process has for itself alone, in bytes.
pub(crate) fn own_memory() -> Option<u64> {
    own_status("RssAnon:")
}

fn own_status(entry: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(entry))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

/// The machine in a few words, for records: processor, cores, system.
pub(crate) fn describe() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| Some(line.strip_prefix("model name")?.split_once(':')?.1.trim()));
    let model = model.unwrap_or(std::env::consts::ARCH);
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = cores_of_job();
    let plural = if cores == 1 { "" } else { "s" };
    format!("{model}, {cores} core{plural}, Linux {}", release.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_counted() {
        assert_eq!(count_of_list("0-3,8\n"), Some(5));
        assert_eq!(count_of_list("0"), Some(1));
        assert_eq!(count_of_list(""), None);
        assert_eq!(count_of_list("3-1"), None);
    }

    #[test]
    fn memory_is_counted_while_something_is_done() {
        let (kept, most) = memory_during(|| {
            let passing = std::hint::black_box(vec![1u8; 64 << 20]);
            std::hint::black_box(vec![passing[5]; 1000])
        });
        let (least, own) = (64 << 20, own_memory().unwrap());
        assert!(most.is_none_or(|most| (least..own + (80 << 20)).contains(&most)), "{most:?} {own} {}", kept.len());
    }

    #[test]
    fn this_machine_has_something() {
        assert!(cores() > 0 && all_cores() >= cores());
        assert_eq!(cores_of_job(), cores());
        assert!(memory("MemTotal").unwrap() > memory("MemAvailable").unwrap());
        assert!(describe().contains("core"));
    }
}
