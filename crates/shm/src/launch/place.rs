//! Which core each rank is pinned to.
//!
//! Ranks that share cores evenly are pinned too, neighbours to the same core. Left to itself the kernel spreads them as they
//! happen to be started, mostly unevenly and with neighbours apart, and sees no reason to change that as all of them are
//! always ready: on 2 cores, 8 ranks then took 1.5 to 2 times as long for most collective operations, in every other job,
//! for as long as it lived. Putting them onto their cores only at first did not help: they are moved while they start.
//! Ranks that cannot be shared out evenly are left free, as each core but some would have less to do.

use std::fs;

use rustix::thread::{CpuSet, sched_getaffinity};

use super::Pin;

/// A core for each rank, or nothing if the ranks are not to be pinned: they cannot be shared out evenly, or it is unknown
/// which cores the launcher may use.
pub(super) fn places(ranks: u32, pin: Pin) -> Option<Vec<usize>> {
    if pin == Pin::Never {
        return None;
    }
    let allowed = sched_getaffinity(None).ok()?;
    let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    share_out(ranks as usize, &spread(&allowed, siblings))
}

/// The ranks on these cores.
fn share_out(ranks: usize, cores: &[usize]) -> Option<Vec<usize>> {
    if ranks <= cores.len() {
        return Some(cores[..ranks].to_vec());
    }
    let share = ranks / cores.len();
    ranks.is_multiple_of(cores.len()).then(|| (0..ranks).map(|rank| cores[rank / share]).collect())
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
    fn ranks_have_cores_of_their_own_or_share_them_evenly() {
        assert_eq!(places(1, Pin::Never), None);
        assert_eq!(share_out(2, &[4, 6, 8]), Some(vec![4, 6]));
        assert_eq!(share_out(8, &[3, 5]), Some(vec![3, 3, 3, 3, 5, 5, 5, 5]));
        assert_eq!(share_out(5, &[0, 1]), None);
    }
}
