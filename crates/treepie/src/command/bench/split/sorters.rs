//! The parallel sort by real ranks, as many as sort.
//!
//! They share the cores of this machine, so what counts is the CPU time of each within the protocol. Ranks take turns at it:
//! those of a large machine have caches and memory of their own.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::ensure;
use treepie::{Comm, Result};
use treepie_base::Bytes;
use treepie_comm::split::{Entry, Manner, Part, Progress, Sorting};
use treepie_fabric::{Needs, Reactor, Transmit};
use treepie_sim::noise::Random;

use super::cost::{Cost, Transfer};
use super::tables;

/// What sorting has cost: splitters, exchange, merge.
pub(super) struct Sorted {
    /// Means of all ranks.
    pub(super) phases: [Cost; 3],
    /// Seconds of the rank that took longest.
    pub(super) slowest: f64,
    /// Pivots of the splitter that took most.
    pub(super) rounds: u32,
}

/// Sorts so many entries by so many ranks.
pub(super) fn sort(entries: u32, sorters: u32, seed: u64, transfer: &Transfer) -> anyhow::Result<Sorted> {
    let turn = Mutex::new(());
    let ranks = treepie::launch(sorters as usize, |comm| sort_on_rank(&comm, entries, seed, &turn))?;
    let ranks = ranks.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let mut phases = [Cost::default(); 3];
    for (costs, _) in &ranks {
        phases.iter_mut().zip(costs).for_each(|(phase, cost)| *phase += *cost);
    }
    let seconds = |costs: &[Cost; 3]| costs.iter().map(|cost| cost.seconds(transfer)).sum();
    Ok(Sorted {
        phases: phases.map(|phase| phase.over(f64::from(sorters))),
        slowest: ranks.iter().map(|(costs, _)| seconds(costs)).fold(0.0, f64::max),
        rounds: ranks.iter().map(|(_, rounds)| *rounds).max().unwrap_or(0),
    })
}

fn sort_on_rank(comm: &Comm, entries: u32, seed: u64, turn: &Mutex<()>) -> anyhow::Result<([Cost; 3], u32)> {
    let (rank, block) = (comm.rank() as u32, entries / comm.size() as u32);
    let starts: Vec<u64> = (0..comm.size() as u64).map(|rank| rank * u64::from(block)).collect();
    let mut random = Random::new(seed << 32 | u64::from(rank));
    let table = tables::sorted(&mut random, rank * block..(rank + 1) * block);
    comm.barrier()?;
    let mut costs = [Cost::default(); 3];
    let sorting = {
        let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        costs[0].time(|| Sorting::new(rank, &starts, table, Manner::EXACT))
    };
    let timed = Timed { sorting, costs, early: Vec::new(), turn };
    let Timed { sorting, costs, .. } = comm.run_protocol(timed, align_of::<Entry>(), |_| ())?;
    let rounds = sorting.rounds();
    let rows = sorting.finish();
    ensure!(rows.len() == block as usize && rows.is_sorted(), "rank {rank} has not sorted");
    Ok((costs, rounds))
}

/// A sort whose calls are timed, by what they are for.
struct Timed<'a> {
    sorting: Sorting,
    costs: [Cost; 3],
    /// Runs that came before the splitters were known: handed in at once, the exchange and the merge would be one call.
    early: Vec<(u32, u32, Bytes)>,
    turn: &'a Mutex<()>,
}

impl Timed<'_> {
    fn hand_in(&mut self, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut cost = Cost::default();
        let taken = cost.time(|| self.sorting.on_message(from, tag, bytes));
        // The call that ends a phase does what the next one begins with: copies all runs, or merges them.
        self.costs[self.sorting.progress() as usize] += cost;
        taken
    }
}

impl Reactor for Timed<'_> {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        let (to, tag, bytes) = self.sorting.poll_transmit()?;
        let phase = if tag == Sorting::RUN { Progress::Exchange } else { Progress::Splitters };
        self.costs[phase as usize].sends(bytes.as_slice().len());
        Some(Transmit::new(to, tag, bytes))
    }

    fn on_message(&mut self, _: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        if self.sorting.progress() == Progress::Splitters && tag == Sorting::RUN {
            self.early.push((from, tag, bytes));
            return Ok(());
        }
        self.hand_in(from, tag, bytes)?;
        if self.sorting.progress() > Progress::Splitters {
            for (from, tag, bytes) in std::mem::take(&mut self.early) {
                self.hand_in(from, tag, bytes)?;
            }
        }
        Ok(())
    }

    fn needs(&self, rank: u32) -> Needs {
        let is_early = self.early.iter().any(|(from, ..)| *from == rank);
        if self.sorting.expects(rank) && !is_early { Needs::Message } else { Needs::Perhaps }
    }

    fn is_done(&self) -> bool {
        self.sorting.is_done()
    }
}
