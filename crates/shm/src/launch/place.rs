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
    share_out(ranks as usize, &allowed, siblings)
}

/// The ranks on these processors.
fn share_out(ranks: usize, allowed: &[usize], core_of: impl Fn(usize) -> String) -> Option<Vec<usize>> {
    let turns = turns(allowed, core_of);
    if ranks <= allowed.len() {
        // Those first that are the first of their physical core: two ranks share a core's units only when each core has one.
        let mut spread = turns;
        spread.sort_unstable_by_key(|&(turn, _, cpu)| (turn, cpu));
        return Some(spread[..ranks].iter().map(|&(_, _, cpu)| cpu).collect());
    }
    // Processors of one physical core beside each other, as neighbours are to be near.
    let mut near = turns;
    near.sort_unstable_by_key(|&(turn, core, _)| (core, turn));
    let share = ranks / allowed.len();
    ranks.is_multiple_of(allowed.len()).then(|| (0..ranks).map(|rank| near[rank / share].2).collect())
}

/// Of each processor: the how manieth it is of its physical core, the number of that core, and itself.
fn turns(allowed: &[usize], core_of: impl Fn(usize) -> String) -> Vec<(usize, usize, usize)> {
    let mut cores: Vec<(String, usize)> = Vec::new();
    let turn = |&cpu: &usize| {
        let core = core_of(cpu);
        let place = cores.iter().position(|(known, _)| *known == core).unwrap_or_else(|| {
            cores.push((core, 0));
            cores.len() - 1
        });
        cores[place].1 += 1;
        (cores[place].1, place, cpu)
    };
    allowed.iter().map(turn).collect()
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
        assert_eq!(share_out(6, &[0, 1, 2, 3, 4, 5], neighbours), Some(vec![0, 2, 4, 1, 3, 5]));
        assert_eq!(share_out(3, &[1, 2, 3], neighbours), Some(vec![1, 2, 3]));
        let far = |cpu: usize| (cpu % 3).to_string();
        assert_eq!(share_out(4, &[0, 1, 2, 3, 4, 5], far), Some(vec![0, 1, 2, 3]));
    }

    #[test]
    fn processors_are_shared_evenly_or_not_at_all() {
        let alone = |cpu: usize| cpu.to_string();
        assert_eq!(share_out(8, &[3, 5], alone), Some(vec![3, 3, 3, 3, 5, 5, 5, 5]));
        assert_eq!(share_out(5, &[0, 1], alone), None);
        let far = |cpu: usize| (cpu % 2).to_string();
        assert_eq!(share_out(8, &[0, 1, 2, 3], far), Some(vec![0, 0, 2, 2, 1, 1, 3, 3]), "neighbours share a core");
        assert_eq!(places(1, Pin::Never), None);
    }
}
