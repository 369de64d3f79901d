//! Simulated splits: all ranks with their data, or one group of them.

use std::rc::Rc;

use treepie_comm::split::{RankTable, SplitAlgorithm, SplitEntry, SplitPhase, SplitProtocol, SplitResult};
use treepie_sim::noise::SplitMix64;
use treepie_sim::{Settings, reactors};
use treepie_topology::Network;

use super::group::{GroupMember, group};
use super::tables;
use super::timed_split::TimedSplit;
use crate::machine;

/// The simulated part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// All ranks.
    All,
    /// One group; all others behave alike.
    Group,
}

/// Cost of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct SplitPhaseTime {
    /// Sum over all ranks.
    pub(super) messages: u64,
    pub(super) bytes: u64,
    /// From the end of the previous phase to the end of this one, on the last rank.
    pub(super) micros: f64,
}

/// The result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SimulatedSplit {
    pub(super) phases: [SplitPhaseTime; SplitPhase::ALL.len()],
    /// Completion time of the last rank.
    pub(super) micros: f64,
    /// Peak bytes of a rank's tables, without messages.
    pub(super) peak_bytes: usize,
    /// Bytes that a rank holds afterwards, maximum over ranks.
    pub(super) final_bytes: usize,
}

impl SimulatedSplit {
    pub(super) fn messages(&self) -> u64 {
        self.phases.iter().map(|phase| phase.messages).sum()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.phases.iter().map(|phase| phase.bytes).sum()
    }

    pub(super) fn phase(&self, phase: SplitPhase) -> SplitPhaseTime {
        self.phases[phase as usize]
    }
}

/// Limits of memory and messages for a simulation of all ranks within minutes.
const MAX_MEMORY: f64 = 10e9;
const MAX_MESSAGES: f64 = 200e6;

/// The part that can be simulated, if any.
pub(super) fn extent(algorithm: SplitAlgorithm, ranks: u32) -> Option<Extent> {
    let (n, sorters) = (f64::from(ranks), algorithm.sorters().map(f64::from));
    let is_full = !algorithm.shares_table();
    let table = if is_full { n } else { n / sorters.unwrap_or(1.0) };
    // Tables, and the same amount in flight.
    let memory = n * table * 2.0 * size_of::<SplitEntry>() as f64;
    let rounds = n.log2() + 3.0;
    let messages = match algorithm {
        SplitAlgorithm::AllgatherSort | SplitAlgorithm::Merge => n * n.log2(),
        SplitAlgorithm::Quick { .. } => n * rounds * 4.0,
        _ => n * (n.log2() + 2.0 * rounds * sorters.unwrap_or(1.0)),
    };
    match memory <= MAX_MEMORY.min(machine::usable_memory()) && messages <= MAX_MESSAGES {
        true => Some(Extent::All),
        // In a quicksort all ranks are one group.
        false => (!matches!(algorithm, SplitAlgorithm::Quick { .. })).then_some(Extent::Group),
    }
}

/// Splits `ranks` ranks with random keys, all of one color. Ranks and sorters are powers of two.
pub(super) fn simulate(
    algorithm: SplitAlgorithm,
    ranks: u32,
    extent: Extent,
    settings: &Settings,
) -> anyhow::Result<SimulatedSplit> {
    let entries: Rc<[SplitEntry]> = tables::random(&mut SplitMix64::new(u64::from(ranks)), 0..ranks, 1).into();
    match extent {
        Extent::All => {
            let begin = |rank: u32| {
                let splitting = SplitProtocol::new(algorithm, rank, ranks, entries[rank as usize], [0, 0]);
                TimedSplit::new(splitting, settings.work_unit_time)
            };
            let ran = reactors::run(&Network::flat(ranks), settings, (0..ranks).map(begin).collect(), 0.0)?;
            let micros = ran.micros();
            Ok(summarize(ran.reactors, 1, micros))
        }
        Extent::Group => {
            let members = group(algorithm, &entries, settings.work_unit_time);
            let groups = u64::from(ranks) / members.len() as u64;
            let ran = reactors::run(&Network::flat(members.len() as u32), settings, members, 0.0)?;
            let micros = ran.micros();
            Ok(summarize(ran.reactors.into_iter().map(|GroupMember { split, .. }| split).collect(), groups, micros))
        }
    }
}

fn summarize(ranks: Vec<TimedSplit>, groups: u64, micros: f64) -> SimulatedSplit {
    let mut phases = [SplitPhaseTime::default(); SplitPhase::ALL.len()];
    let mut peak_bytes = 0;
    let mut before = 0.0;
    for (i, phase) in phases.iter_mut().enumerate() {
        let spent = || ranks.iter().map(|rank| &rank.splitting().phase_costs()[i]);
        let end = ranks.iter().map(|rank| rank.phase_ends()[i]).fold(before, f64::max);
        *phase = SplitPhaseTime {
            messages: spent().map(|spent| spent.messages).sum::<u64>() * groups,
            bytes: spent().map(|spent| spent.bytes).sum::<u64>() * groups,
            micros: end - before,
        };
        before = end;
    }
    for rank in &ranks {
        peak_bytes = peak_bytes.max(rank.splitting().max_memory_bytes());
    }
    let final_bytes = ranks.into_iter().map(|rank| table_bytes(&rank.finish())).max().unwrap_or(0);
    SimulatedSplit { phases, micros, peak_bytes, final_bytes }
}

/// Bytes of a communicator's rank table.
fn table_bytes(outcome: &SplitResult) -> usize {
    let words = match &outcome.table {
        RankTable::Full(table) => table.len(),
        RankTable::Shared { rows, starts, holders } => rows.len() + starts.len() + holders.len(),
    };
    words * size_of::<u32>()
}

#[cfg(test)]
mod tests {
    use treepie_model::machines::PaperMachine;

    use super::*;

    fn settings() -> Settings {
        Settings { work_unit_time: 0.002, ..PaperMachine::Intrepid.loggp().unwrap().into() }
    }

    #[test]
    fn one_group_stands_for_all() {
        for ranks in [256, 4096] {
            for algorithm in SplitAlgorithm::all(16) {
                if matches!(algorithm, SplitAlgorithm::Quick { .. }) || !algorithm.shares_table() && ranks > 256 {
                    continue;
                }
                let [all, one] =
                    [Extent::All, Extent::Group].map(|extent| simulate(algorithm, ranks, extent, &settings()));
                let (all, one) = (all.unwrap(), one.unwrap());
                // Exact algorithms send the same; others find their splitters in message order.
                let is_exact = !matches!(algorithm, SplitAlgorithm::Overlapped { .. });
                for phase in SplitPhase::ALL {
                    let (all, one) = (all.phase(phase), one.phase(phase));
                    if phase != SplitPhase::Find && is_exact {
                        assert_eq!((all.messages, all.bytes), (one.messages, one.bytes), "{algorithm} {phase:?}");
                    }
                    let apart = (all.micros - one.micros).abs();
                    assert!(
                        apart <= 0.02 * all.micros + 20.0,
                        "{algorithm} {phase:?}: {} and {}",
                        all.micros,
                        one.micros
                    );
                }
                assert!(
                    (0.99..1.01).contains(&(all.micros / one.micros)),
                    "{algorithm}: {} and {}",
                    all.micros,
                    one.micros
                );
                assert!(all.messages().abs_diff(one.messages()) <= u64::from(ranks), "{algorithm}");
                if is_exact {
                    assert_eq!((all.peak_bytes, all.final_bytes), (one.peak_bytes, one.final_bytes), "{algorithm}");
                }
            }
        }
    }

    #[test]
    fn distributed_tables_hold_ranks_over_sorters_rows() {
        for (ranks, sorters) in [(1 << 12, 4), (1 << 12, 64), (1 << 16, 64), (1 << 20, 16), (1 << 20, 64)] {
            let split = simulate(SplitAlgorithm::Distributed { sorters }, ranks, Extent::Group, &settings()).unwrap();
            let rows = (ranks / sorters) as usize;
            assert_eq!((split.peak_bytes, split.final_bytes), (rows * 16, (rows + 2 * sorters as usize + 1) * 4));
        }
        for algorithm in [SplitAlgorithm::Merge, SplitAlgorithm::AllgatherSort] {
            let split = simulate(algorithm, 1 << 14, Extent::Group, &settings()).unwrap();
            assert_eq!((split.peak_bytes, split.final_bytes), (16 << 14, 4 << 14));
        }
    }

    #[test]
    fn large_splits_are_simulated_by_one_group() {
        assert_eq!(extent(SplitAlgorithm::Distributed { sorters: 16 }, 1 << 12), Some(Extent::All));
        assert_eq!(extent(SplitAlgorithm::Distributed { sorters: 64 }, 1 << 20), Some(Extent::Group));
        assert_eq!(extent(SplitAlgorithm::Distributed { sorters: 2 }, 1 << 16), Some(Extent::Group));
        assert_eq!(
            (extent(SplitAlgorithm::Merge, 1 << 10), extent(SplitAlgorithm::Merge, 1 << 16)),
            (Some(Extent::All), Some(Extent::Group))
        );
        assert_eq!(extent(SplitAlgorithm::Quick { sorters: 64 }, 1 << 20), None);
    }
}
