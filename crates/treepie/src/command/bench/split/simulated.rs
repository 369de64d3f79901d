//! A split in the simulator: all ranks with their data, or one group of them.

use std::rc::Rc;

use treepie_comm::split::{Entry, Outcome, Phase, Splitting, Table, Way};
use treepie_sim::noise::Random;
use treepie_sim::{Settings, reactors};
use treepie_topology::Network;

use super::super::super::machine;
use super::group::{Member, group};
use super::tables;
use super::watched::Watched;

/// How much of it is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// All ranks.
    All,
    /// Those of one group, and all others do the same.
    Group,
}

/// What a phase has cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Spent {
    /// Of all ranks.
    pub(super) messages: u64,
    pub(super) bytes: u64,
    /// From when the last rank was through the phase before to when the last one is through this.
    pub(super) micros: f64,
}

/// What came out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) phases: [Spent; Phase::ALL.len()],
    /// Until the last rank was done.
    pub(super) micros: f64,
    /// The most bytes of tables that a rank held, beside messages.
    pub(super) during: usize,
    /// What a rank holds afterwards, at most.
    pub(super) after: usize,
}

impl Seen {
    pub(super) fn messages(&self) -> u64 {
        self.phases.iter().map(|phase| phase.messages).sum()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.phases.iter().map(|phase| phase.bytes).sum()
    }

    pub(super) fn phase(&self, phase: Phase) -> Spent {
        self.phases[phase as usize]
    }
}

/// Memory and messages with which a simulation of all ranks ends within minutes.
const MOST_MEMORY: f64 = 10e9;
const MOST_MESSAGES: f64 = 200e6;

/// How much of it can be simulated, if anything.
pub(super) fn extent(way: Way, ranks: u32) -> Option<Extent> {
    let (n, sorters) = (f64::from(ranks), way.sorters().map(f64::from));
    let is_whole = !way.shares();
    let table = if is_whole { n } else { n / sorters.unwrap_or(1.0) };
    // Tables, and as much on its way.
    let memory = n * table * 2.0 * size_of::<Entry>() as f64;
    let rounds = n.log2() + 3.0;
    let messages = match way {
        Way::AllgatherSort | Way::Merge => n * n.log2(),
        Way::Quick { .. } => n * rounds * 4.0,
        _ => n * (n.log2() + 2.0 * rounds * sorters.unwrap_or(1.0)),
    };
    let there = machine::memory("MemAvailable").map_or(f64::MAX, |bytes| bytes as f64 / 2.0);
    match memory <= MOST_MEMORY.min(there) && messages <= MOST_MESSAGES {
        true => Some(Extent::All),
        // Of a quicksort all ranks are one group.
        false => (!matches!(way, Way::Quick { .. })).then_some(Extent::Group),
    }
}

/// Splits so many ranks with random keys, all of one colour. Ranks and sorters are powers of two.
pub(super) fn simulate(way: Way, ranks: u32, extent: Extent, settings: &Settings) -> anyhow::Result<Seen> {
    let entries: Rc<[Entry]> = tables::random(&mut Random::new(u64::from(ranks)), 0..ranks, 1).into();
    match extent {
        Extent::All => {
            let begin = |rank: u32| {
                let splitting = Splitting::new(way, rank, ranks, entries[rank as usize], [0, 0]);
                Watched::new(splitting, settings.work)
            };
            let ran = reactors::run(&Network::flat(ranks), settings, (0..ranks).map(begin).collect(), 0.0)?;
            let micros = ran.micros();
            Ok(seen(ran.reactors, 1, micros))
        }
        Extent::Group => {
            let members = group(way, &entries, settings.work);
            let groups = u64::from(ranks) / members.len() as u64;
            let ran = reactors::run(&Network::flat(members.len() as u32), settings, members, 0.0)?;
            let micros = ran.micros();
            Ok(seen(ran.reactors.into_iter().map(|Member { watched, .. }| watched).collect(), groups, micros))
        }
    }
}

fn seen(ranks: Vec<Watched>, times: u64, micros: f64) -> Seen {
    let mut phases = [Spent::default(); Phase::ALL.len()];
    let mut during = 0;
    let mut before = 0.0;
    for (i, phase) in phases.iter_mut().enumerate() {
        let spent = || ranks.iter().map(|rank| &rank.splitting().spent()[i]);
        let end = ranks.iter().map(|rank| rank.ends()[i]).fold(before, f64::max);
        *phase = Spent {
            messages: spent().map(|spent| spent.messages).sum::<u64>() * times,
            bytes: spent().map(|spent| spent.bytes).sum::<u64>() * times,
            micros: end - before,
        };
        before = end;
    }
    for rank in &ranks {
        during = during.max(rank.splitting().most_memory());
    }
    let after = ranks.into_iter().map(|rank| held(&rank.finish())).max().unwrap_or(0);
    Seen { phases, micros, during, after }
}

/// Bytes of the table of a communicator.
fn held(outcome: &Outcome) -> usize {
    let words = match &outcome.table {
        Table::Whole(table) => table.len(),
        Table::Shared { rows, starts, holders } => rows.len() + starts.len() + holders.len(),
    };
    words * size_of::<u32>()
}

#[cfg(test)]
mod tests {
    use treepie_model::machines::Machine;

    use super::*;

    fn settings() -> Settings {
        Settings { work: 0.002, ..Machine::Intrepid.loggp().unwrap().into() }
    }

    #[test]
    fn one_group_stands_for_all() {
        for ranks in [256, 4096] {
            for way in Way::all(16) {
                if matches!(way, Way::Quick { .. }) || !way.shares() && ranks > 256 {
                    continue;
                }
                let [all, one] = [Extent::All, Extent::Group].map(|extent| simulate(way, ranks, extent, &settings()));
                let (all, one) = (all.unwrap(), one.unwrap());
                // Exact ones send the same; others find their splitters in the order of messages.
                let is_exact = !matches!(way, Way::Overlapped { .. });
                for phase in Phase::ALL {
                    let (all, one) = (all.phase(phase), one.phase(phase));
                    if phase != Phase::Find && is_exact {
                        assert_eq!((all.messages, all.bytes), (one.messages, one.bytes), "{way} {phase:?}");
                    }
                    let apart = (all.micros - one.micros).abs();
                    assert!(apart <= 0.02 * all.micros + 20.0, "{way} {phase:?}: {} and {}", all.micros, one.micros);
                }
                assert!((0.99..1.01).contains(&(all.micros / one.micros)), "{way}: {} and {}", all.micros, one.micros);
                assert!(all.messages().abs_diff(one.messages()) <= u64::from(ranks), "{way}");
                if is_exact {
                    assert_eq!((all.during, all.after), (one.during, one.after), "{way}");
                }
            }
        }
    }

    #[test]
    fn shared_tables_are_as_large_as_the_ranks_over_the_sorters() {
        for (ranks, sorters) in [(1 << 12, 4), (1 << 12, 64), (1 << 16, 64), (1 << 20, 16), (1 << 20, 64)] {
            let seen = simulate(Way::Distributed { sorters }, ranks, Extent::Group, &settings()).unwrap();
            let rows = (ranks / sorters) as usize;
            assert_eq!((seen.during, seen.after), (rows * 16, (rows + 2 * sorters as usize + 1) * 4));
        }
        for way in [Way::Merge, Way::AllgatherSort] {
            let seen = simulate(way, 1 << 14, Extent::Group, &settings()).unwrap();
            assert_eq!((seen.during, seen.after), (16 << 14, 4 << 14));
        }
    }

    #[test]
    fn what_is_too_much_is_not_simulated_as_a_whole() {
        let extent = |way, ranks| extent(way, ranks);
        assert_eq!(extent(Way::Distributed { sorters: 16 }, 1 << 12), Some(Extent::All));
        assert_eq!(extent(Way::Distributed { sorters: 64 }, 1 << 20), Some(Extent::Group));
        assert_eq!(extent(Way::Distributed { sorters: 2 }, 1 << 16), Some(Extent::Group));
        assert_eq!(
            (extent(Way::Merge, 1 << 10), extent(Way::Merge, 1 << 16)),
            (Some(Extent::All), Some(Extent::Group))
        );
        assert_eq!(extent(Way::Quick { sorters: 64 }, 1 << 20), None);
    }
}
