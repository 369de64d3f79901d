//! Cores on networks, direct exchanges and all-to-alls: verified by the checker, and counted where a paper gives the
//! cost.

mod allgathers;
mod allreduces;
mod alltoalls;
mod multiport;
mod symbolic;

use treepie_schedule::check::{CheckOptions, CheckReport, check};
use treepie_schedule::count::ScheduleCost;
use treepie_schedule::{BlockLayout, BlockLayouts, Schedule};
use treepie_topology::Network;

fn uniform(each: usize, blocks: u32) -> impl Fn(u32) -> BlockLayouts {
    move |_| BlockLayouts::symmetric(BlockLayout::uniform(each, blocks))
}

fn vector(elements: usize, blocks: u32) -> impl Fn(u32) -> BlockLayouts {
    move |_| BlockLayouts::symmetric(BlockLayout::Even { total: elements, blocks })
}

fn irregular(blocks: u32) -> impl Fn(u32) -> BlockLayouts {
    let counts: Vec<usize> = (0..blocks as usize).map(|block| block * 5 % 7 * usize::from(block % 4 != 2)).collect();
    move |_| BlockLayouts::symmetric(BlockLayout::from_counts(&counts))
}

/// Checks the schedule for many lengths, in place and not. Returns whether it is rank-ordered in all checks.
fn prove(schedule: &dyn Schedule, name: &str, irregular_too: bool) -> bool {
    let (ranks, blocks) = (schedule.ranks(), schedule.blocks());
    let mut ordered = true;
    let mut one = |layouts: &dyn Fn(u32) -> BlockLayouts, what: &str| {
        for in_place in [false, true] {
            let CheckReport { rank_ordered: this, .. } = check(schedule, layouts, CheckOptions { in_place })
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

/// The cost of the core in an allgather: all phases but the first, which is the shuffle.
fn core_cost(counted: &ScheduleCost) -> (u64, f64) {
    let core = &counted.phases[1..];
    (core.iter().map(|phase| phase.messages).sum(), core.iter().map(|phase| phase.time).sum())
}
