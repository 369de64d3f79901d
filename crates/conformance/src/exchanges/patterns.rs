//! Who sends how much to whom.

use treepie::{Comm, Rank};

use super::{Plan, each, exchange, exchange_of, some_of, subset};
use crate::check::Outcome;
use crate::payload::{Element, Particle};

/// From nobody to everybody; all of the numbers between where there are few ranks.
pub(super) fn neighbours(comm: &Comm) -> Outcome {
    let size = comm.size();
    let mut counts: Vec<usize> = (0..=size).collect();
    if size > 8 {
        counts = vec![0, 1, 6, size / 2, size - 1, size];
    }
    each(comm, |comm| {
        for count in &counts {
            exchange(comm, *count, &|from| subset(from, *count, size, *count))?;
        }
        // Each rank another number.
        exchange(comm, size, &|from| subset(from, 1000, size, from * 5 % (size + 1)))
    })
}

/// Around the numbers that protocols have room for in places of their own.
pub(super) fn several(comm: &Comm) -> Outcome {
    let size = comm.size();
    each(comm, |comm| {
        for count in [2, 62, 63, 64, 130] {
            exchange(comm, count, &|from| {
                // Few have many, so that this takes no longer for many ranks.
                let to = (from + 1) % size;
                let count = if from < 2 { count } else { 3 };
                let mut plan: Plan = (0..count).map(|number| (to, number % 7)).collect();
                // Others between them.
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
    each(comm, |comm| {
        for one in some_of(comm, vec![size / 2, 0, size - 1]) {
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
    each(comm, |comm| {
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

/// To the next rank and to itself; short ones before and behind, to the same and to others.
pub(super) fn large(comm: &Comm) -> Outcome {
    let size = comm.size();
    each(comm, |comm| {
        exchange(comm, 1, &|from| {
            let next = (from + 1) % size;
            let mut plan = vec![(next, 3), (0, from), ((from + size / 2) % size, 5000), (next, 0)];
            // Few, so that this takes no longer for many ranks.
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
    each(comm, |comm| {
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
    exchange_of::<T>(comm, 3, &plan_of, |seed, len| (0..len as u64).map(|i| T::of((seed >> 12) + i)).collect())
}
