//! The core that each rank is pinned to.
//!
//! Ranks that share cores evenly are pinned too, neighboring ranks to the same core. Otherwise the kernel distributes
//! them as they happen to be started, mostly unevenly and with neighbors apart, and does not rebalance as all of them
//! are always runnable: on 2 cores, 8 ranks then took 1.5 to 2 times as long for most collective operations, in every
//! other job, for its whole run. Assigning cores only at the start did not help: the kernel migrates ranks while they
//! start. Ranks that cannot be distributed evenly are not pinned, as some cores would have less to do.

use std::fs;

use rustix::thread::{CpuSet, sched_getaffinity};

use super::CorePinning;

/// A core for each rank, or none if the ranks are not to be pinned: they cannot be distributed evenly, or the
/// launcher's affinity is unknown.
pub(super) fn assign_cores(ranks: u32, pin: CorePinning) -> Option<Vec<usize>> {
    if pin == CorePinning::Never {
        return None;
    }
    let allowed = sched_getaffinity(None).ok()?;
    let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    distribute_ranks(ranks as usize, &allowed, thread_siblings)
}

/// Distributes ranks over the allowed CPUs.
fn distribute_ranks(ranks: usize, allowed: &[usize], core_of: impl Fn(usize) -> String) -> Option<Vec<usize>> {
    let order = sibling_order(allowed, core_of);
    if ranks <= allowed.len() {
        // One CPU of each physical core first: two ranks share a core's units only when each core has one.
        let mut spread = order;
        spread.sort_unstable_by_key(|&(position, _, cpu)| (position, cpu));
        return Some(spread[..ranks].iter().map(|&(_, _, cpu)| cpu).collect());
    }
    // CPUs of one physical core beside each other, as neighboring ranks should be near.
    let mut near = order;
    near.sort_unstable_by_key(|&(position, core, _)| (core, position));
    let per_cpu = ranks / allowed.len();
    ranks.is_multiple_of(allowed.len()).then(|| (0..ranks).map(|rank| near[rank / per_cpu].2).collect())
}

/// For each CPU: its position among those of its physical core, the index of that core, and the CPU.
fn sibling_order(allowed: &[usize], core_of: impl Fn(usize) -> String) -> Vec<(usize, usize, usize)> {
    let mut cores: Vec<(String, usize)> = Vec::new();
    let position = |&cpu: &usize| {
        let core = core_of(cpu);
        let index = cores.iter().position(|(known, _)| *known == core).unwrap_or_else(|| {
            cores.push((core, 0));
            cores.len() - 1
        });
        cores[index].1 += 1;
        (cores[index].1, index, cpu)
    };
    allowed.iter().map(position).collect()
}

/// The CPUs of a CPU's physical core, as the kernel lists them; a name of its own where it does not.
fn thread_siblings(cpu: usize) -> String {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    fs::read_to_string(path).unwrap_or_else(|_| format!("cpu{cpu}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_come_before_their_second_threads() {
        let neighbors = |cpu: usize| (cpu / 2).to_string();
        assert_eq!(distribute_ranks(6, &[0, 1, 2, 3, 4, 5], neighbors), Some(vec![0, 2, 4, 1, 3, 5]));
        assert_eq!(distribute_ranks(3, &[1, 2, 3], neighbors), Some(vec![1, 2, 3]));
        let far = |cpu: usize| (cpu % 3).to_string();
        assert_eq!(distribute_ranks(4, &[0, 1, 2, 3, 4, 5], far), Some(vec![0, 1, 2, 3]));
    }

    #[test]
    fn processors_are_shared_evenly_or_not_at_all() {
        let alone = |cpu: usize| cpu.to_string();
        assert_eq!(distribute_ranks(8, &[3, 5], alone), Some(vec![3, 3, 3, 3, 5, 5, 5, 5]));
        assert_eq!(distribute_ranks(5, &[0, 1], alone), None);
        let far = |cpu: usize| (cpu % 2).to_string();
        assert_eq!(
            distribute_ranks(8, &[0, 1, 2, 3], far),
            Some(vec![0, 0, 2, 2, 1, 1, 3, 3]),
            "neighbors share a core"
        );
        assert_eq!(assign_cores(1, CorePinning::Never), None);
    }
}
