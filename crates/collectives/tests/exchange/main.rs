//! Cores on networks, direct exchanges and all-to-alls: proved by the checker, counted where a paper says what they cost.

mod allgathers;
mod allreduces;
mod alltoalls;
mod made;
mod multiport;

use treepie_schedule::check::{Mode, Proof, check};
use treepie_schedule::count::Count;
use treepie_schedule::{Layout, Layouts, Schedule};
use treepie_topology::Network;

fn uniform(each: usize, blocks: u32) -> impl Fn(u32) -> Layouts {
    move |_| Layouts::both(Layout::uniform(each, blocks))
}

fn vector(elements: usize, blocks: u32) -> impl Fn(u32) -> Layouts {
    move |_| Layouts::both(Layout::Even { total: elements, blocks })
}

fn irregular(blocks: u32) -> impl Fn(u32) -> Layouts {
    let counts: Vec<usize> = (0..blocks as usize).map(|block| block * 5 % 7 * usize::from(block % 4 != 2)).collect();
    move |_| Layouts::both(Layout::of_counts(&counts))
}

/// Proves it for many lengths, in place and not. Returns whether all proofs found it ordered.
fn prove(schedule: &dyn Schedule, name: &str, irregular_too: bool) -> bool {
    let (ranks, blocks) = (schedule.ranks(), schedule.blocks());
    let mut ordered = true;
    let mut one = |layouts: &dyn Fn(u32) -> Layouts, what: &str| {
        for in_place in [false, true] {
            let Proof { ordered: this, .. } = check(schedule, layouts, Mode { in_place })
                .unwrap_or_else(|fault| panic!("{name}, {ranks} ranks, {what}, in place {in_place}: {fault}"));
            ordered &= this;
        }
    };
    for each in [0, 1, 7] {
        one(&uniform(each, blocks), &format!("{each} each"));
    }
    if irregular_too {
        one(&vector(23, blocks), "23 in all");
        one(&irregular(blocks), "irregular");
    }
    ordered
}

fn network(text: &str) -> Network {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The phases of the core in an allgather: the first one brings blocks to their keepers.
fn core_cost(counted: &Count) -> (u64, f64) {
    let core = &counted.phases[1..];
    (core.iter().map(|phase| phase.messages).sum(), core.iter().map(|phase| phase.time).sum())
}
