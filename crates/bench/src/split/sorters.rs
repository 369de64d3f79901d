//! The parallel sort on real ranks, one per sorter.
//!
//! They share the cores of this machine, so the CPU time of each within the protocol counts. Ranks take turns: those of
//! a large machine have separate caches and memory.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::ensure;
use treepie::{Comm, Result};
use treepie_base::Bytes;
use treepie_comm::split::{ParallelSort, SortProgress, SplitEntry, SplitterOptions};
use treepie_fabric::{PeerDependency, Reactor, Transmit};
use treepie_sim::noise::SplitMix64;

use super::cost::{Cost, HockneyModel};
use super::tables;
use crate::harness::launch::on_threads;

/// Cost of the sort: splitters, exchange, merge.
pub(super) struct SortCost {
    /// Means over all ranks.
    pub(super) phases: [Cost; 3],
    /// Seconds of the slowest rank.
    pub(super) slowest: f64,
    /// Maximum number of pivots of a splitter.
    pub(super) rounds: u32,
}

/// Sorts `entries` entries on `sorters` ranks.
pub(super) fn sort(entries: u32, sorters: u32, seed: u64, model: &HockneyModel) -> anyhow::Result<SortCost> {
    let turn = Mutex::new(());
    let ranks = on_threads(sorters, |comm| sort_on_rank(comm, entries, seed, &turn))?;
    let mut phases = [Cost::default(); 3];
    for (costs, _) in &ranks {
        phases.iter_mut().zip(costs).for_each(|(phase, cost)| *phase += *cost);
    }
    let seconds = |costs: &[Cost; 3]| costs.iter().map(|cost| cost.seconds(model)).sum();
    Ok(SortCost {
        phases: phases.map(|phase| phase.divided_by(f64::from(sorters))),
        slowest: ranks.iter().map(|(costs, _)| seconds(costs)).fold(0.0, f64::max),
        rounds: ranks.iter().map(|(_, rounds)| *rounds).max().unwrap_or(0),
    })
}

fn sort_on_rank(comm: &Comm, entries: u32, seed: u64, turn: &Mutex<()>) -> anyhow::Result<([Cost; 3], u32)> {
    let (rank, block) = (comm.rank() as u32, entries / comm.size() as u32);
    let starts: Vec<u64> = (0..comm.size() as u64).map(|rank| rank * u64::from(block)).collect();
    let mut random = SplitMix64::new(seed << 32 | u64::from(rank));
    let table = tables::sorted(&mut random, rank * block..(rank + 1) * block);
    comm.barrier()?;
    let mut costs = [Cost::default(); 3];
    let sorting = {
        let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        costs[0].time(|| ParallelSort::new(rank, &starts, table, SplitterOptions::EXACT))
    };
    let timed = TimedSort { sorting, costs, early_runs: Vec::new(), turn };
    let TimedSort { sorting, costs, .. } = comm.run_protocol(timed, align_of::<SplitEntry>(), |_| ())?;
    let rounds = sorting.rounds();
    let rows = sorting.finish();
    ensure!(rows.len() == block as usize && rows.is_sorted(), "the part of rank {rank} is not sorted");
    Ok((costs, rounds))
}

/// A sort whose calls are timed by phase.
struct TimedSort<'a> {
    sorting: ParallelSort,
    costs: [Cost; 3],
    /// Runs received before the splitters were known: delivered immediately, exchange and merge would be one call.
    early_runs: Vec<(u32, u32, Bytes)>,
    turn: &'a Mutex<()>,
}

impl TimedSort<'_> {
    fn deliver(&mut self, now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut cost = Cost::default();
        let result = cost.time(|| self.sorting.on_message(now, from, tag, bytes));
        // The call that ends a phase also starts the next: it copies all runs, or merges them.
        self.costs[self.sorting.progress() as usize] += cost;
        result
    }
}

impl Reactor for TimedSort<'_> {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        let transmit = self.sorting.poll_transmit()?;
        let phase = if transmit.tag == ParallelSort::RUN { SortProgress::Exchange } else { SortProgress::Splitters };
        self.costs[phase as usize].add_message(transmit.bytes.as_slice().len());
        Some(transmit)
    }

    fn on_message(&mut self, now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        if self.sorting.progress() == SortProgress::Splitters && tag == ParallelSort::RUN {
            self.early_runs.push((from, tag, bytes));
            return Ok(());
        }
        self.deliver(now, from, tag, bytes)?;
        if self.sorting.progress() > SortProgress::Splitters {
            for (from, tag, bytes) in std::mem::take(&mut self.early_runs) {
                self.deliver(now, from, tag, bytes)?;
            }
        }
        Ok(())
    }

    fn dependency_on(&self, rank: u32) -> PeerDependency {
        let is_early = self.early_runs.iter().any(|(from, ..)| *from == rank);
        match self.sorting.dependency_on(rank) {
            PeerDependency::Required if !is_early => PeerDependency::Required,
            _ => PeerDependency::Possible,
        }
    }

    fn is_done(&self) -> bool {
        self.sorting.is_done()
    }
}
