//! Which core each rank is pinned to.

use std::fs;

use rustix::thread::{CpuSet, sched_getaffinity};

use super::Pin;

/// A core for each rank, or nothing if the ranks are not to be pinned: there are more of them than cores that the
/// launcher may use, or these are unknown.
pub(super) fn places(ranks: u32, pin: Pin) -> Option<Vec<usize>> {
    if pin == Pin::Never {
        return None;
    }
    let allowed = sched_getaffinity(None).ok()?;
    let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    let ranks = ranks as usize;
    (ranks <= allowed.len()).then(|| spread(&allowed, siblings)[..ranks].to_vec())
}

/// The set that holds one processor.
pub(super) fn only(cpu: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(cpu);
    set
}

/// The processors, those first that are the first of their physical core, then the second ones: two ranks share a core's
/// units only when every core has one.
fn spread(allowed: &[usize], core_of: impl Fn(usize) -> String) -> Vec<usize> {
    let mut seen = Vec::new();
    let mut turns: Vec<(usize, usize)> = Vec::new();
    for &cpu in allowed {
        let core = core_of(cpu);
        turns.push((seen.iter().filter(|&other| *other == core).count(), cpu));
        seen.push(core);
    }
    turns.sort_unstable();
    turns.into_iter().map(|(_, cpu)| cpu).collect()
}

/// The processors of a processor's physical core, as the kernel writes them; where it does not, a name of its own.
fn siblings(cpu: usize) -> String {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    fs::read_to_string(path).unwrap_or_else(|_| format!("cpu{cpu}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_come_before_their_second_threads() {
        let neighbours = |cpu: usize| (cpu / 2).to_string();
        assert_eq!(spread(&[0, 1, 2, 3, 4, 5], neighbours), [0, 2, 4, 1, 3, 5]);
        assert_eq!(spread(&[1, 2, 3], neighbours), [1, 2, 3]);
        let far = |cpu: usize| (cpu % 3).to_string();
        assert_eq!(spread(&[0, 1, 2, 3, 4, 5], far), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn more_ranks_than_cores_are_not_pinned() {
        assert_eq!(places(CpuSet::MAX_CPU as u32 + 1, Pin::Auto), None);
        assert_eq!(places(1, Pin::Never), None);
        assert_eq!(places(1, Pin::Auto).map(|places| places.len()), Some(1));
    }
}
