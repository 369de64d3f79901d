//! Who sends how much to whom.

use treepie::{Comm, Rank};

use super::{Plan, exchange, exchange_of, first_few, for_each_protocol, subset};
use crate::check::Outcome;
use crate::payload::{Element, Particle};

/// Each rank sends to 0 to P ranks; with many ranks only some of these numbers.
pub(super) fn neighbors(comm: &Comm) -> Outcome {
    let size = comm.size();
    let mut counts: Vec<usize> = (0..=size).collect();
    if size > 8 {
        counts = vec![0, 1, 6, size / 2, size - 1, size];
    }
    for_each_protocol(comm, |comm| {
        for count in &counts {
            exchange(comm, *count, &|from| subset(from, *count, size, *count))?;
        }
        // Each rank has a different number of destinations.
        exchange(comm, size, &|from| subset(from, 1000, size, from * 5 % (size + 1)))
    })
}

/// Numbers of messages around the capacity of the protocols' counters.
pub(super) fn several(comm: &Comm) -> Outcome {
    let size = comm.size();
    for_each_protocol(comm, |comm| {
        for count in [2, 62, 63, 64, 130] {
            exchange(comm, count, &|from| {
                // Only two ranks send many, so that the time does not grow with the number of ranks.
                let to = (from + 1) % size;
                let count = if from < 2 { count } else { 3 };
                let mut plan: Plan = (0..count).map(|number| (to, number % 7)).collect();
                // Messages to other ranks in between.
                plan.insert(count / 2, ((from + 2) % size, 9));
                plan.insert(1, (from, 5));
                plan.push(((from + 2) % size, 0));
                plan
            })?;
        }
        Ok(())
    })
}

pub(super) fn skewed(comm: &Comm) -> Outcome {
    let size = comm.size();
    for_each_protocol(comm, |comm| {
        for one in first_few(comm, vec![size / 2, 0, size - 1]) {
            let all = |len: usize| -> Plan { (0..size).map(|to| (to, len)).collect() };
            exchange(comm, 1, &|from| vec![(one, 10 * from); 3])?;
            exchange(comm, 2, &|from| if from == one { all(20) } else { Vec::new() })?;
            exchange(comm, 3, &|from| if from == one { Vec::new() } else { vec![(one, 20_000)] })?;
            exchange(comm, 4, &|from| if from == one { all(9000) } else { vec![(one, 3)] })?;
        }
        Ok(())
    })
}

pub(super) fn nothing(comm: &Comm) -> Outcome {
    let size = comm.size();
    for_each_protocol(comm, |comm| {
        exchange(comm, 0, &|_| Vec::new())?;
        exchange(comm, 1, &|from| vec![(from, 100)])?;
        exchange(comm, 2, &|from| vec![(from, 0), (from, 5), (from, 0)])?;
        exchange(comm, 3, &|from| if from == 0 { vec![(0, 70_000)] } else { Vec::new() })?;
        exchange(comm, 4, &|from| vec![((from + 1) % size, 0)])?;
        exchange(comm, 5, &|from| vec![((from + 1) % size, 0), ((from + 1) % size, 7), ((from + 1) % size, 0)])?;
        exchange(comm, 6, &|_| (0..size).map(|to| (to, 0)).collect())?;
        exchange(comm, 7, &|_| Vec::new())
    })
}

const VERY_LARGE: usize = 2 << 20;

/// Very large messages to the next rank and to itself, between short ones to the same and to other ranks.
pub(super) fn large(comm: &Comm) -> Outcome {
    let size = comm.size();
    for_each_protocol(comm, |comm| {
        exchange(comm, 1, &|from| {
            let next = (from + 1) % size;
            let mut plan = vec![(next, 3), (0, from), ((from + size / 2) % size, 5000), (next, 0)];
            // From two ranks, so that the time does not grow with the number of ranks.
            if from == 0 || from + 1 == size {
                plan.insert(1, (next, VERY_LARGE + from));
            }
            if from == 0 {
                plan.push((0, VERY_LARGE));
            }
            plan
        })
    })
}

pub(super) fn elements(comm: &Comm) -> Outcome {
    for_each_protocol(comm, |comm| {
        of::<u8>(comm)?;
        of::<u64>(comm)?;
        of::<[i32; 3]>(comm)?;
        of::<Particle>(comm)
    })
}

fn of<T: Element>(comm: &Comm) -> Outcome {
    let size = comm.size();
    let plan_of = |from: Rank| -> Plan {
        let mut plan = subset(from, 7, size, size.min(3));
        plan.iter_mut().for_each(|(_, len)| *len %= 600);
        plan.push(((from + 1) % size, 2));
        plan
    };
    exchange_of::<T>(comm, 3, &plan_of, |seed, len| (0..len as u64).map(|i| T::from_number((seed >> 12) + i)).collect())
}
