//! At which level something is simulated, and which of them is taken without being asked for.

use treepie_schedule::{Op, Rounds, Schedule};
use treepie_sim::Costs;

/// How it is found out how long something takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Level {
    /// By events if that takes seconds, else from one rank if all do the same, else in rounds
    #[default]
    Auto,
    /// Every message
    Events,
    /// Every message of one rank, where all do the same
    OneRank,
    /// Rounds that all ranks begin together, by the load of links
    Rounds,
    /// The closed form
    Formula,
}

/// With more messages than this the simulation of each takes more than some seconds.
const MANY_MESSAGES: f64 = 8e6;

impl Level {
    /// The levels to try in order, until one can be used.
    pub(super) fn to_try(self, schedule: &dyn Schedule, costs: &Costs) -> Vec<Self> {
        match self {
            Level::Auto if messages(schedule) <= MANY_MESSAGES => vec![Level::Events],
            Level::Auto if matches!(costs, Costs::Links(_)) => vec![Level::OneRank, Level::Rounds],
            Level::Auto => vec![Level::OneRank, Level::Events],
            asked => vec![asked],
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Level::Auto => "auto",
            Level::Events => "events",
            Level::OneRank => "one rank",
            Level::Rounds => "rounds",
            Level::Formula => "formula",
        }
    }
}

/// About how many messages there are: from some of the ranks.
fn messages(schedule: &dyn Schedule) -> f64 {
    let ranks = schedule.ranks();
    let step = (ranks / 16).max(1);
    let mut ops = Rounds::new();
    let (mut sends, mut looked_at) = (0u64, 0u32);
    for rank in (0..ranks).step_by(step as usize) {
        looked_at += 1;
        for phase in 0..schedule.phases() {
            for lane in 0..schedule.phase(phase).lanes {
                let rounds = schedule.rounds(rank, phase, lane);
                let few = rounds.min(8);
                ops.clear();
                schedule.emit(rank, phase, lane, 0..few, &mut ops);
                let sent = ops.iter().flatten().filter(|op| matches!(op, Op::Send { .. })).count() as u64;
                sends += if few == 0 { 0 } else { sent * u64::from(rounds) / u64::from(few) };
            }
        }
    }
    sends as f64 / f64::from(looked_at) * f64::from(ranks)
}

#[cfg(test)]
mod tests {
    use treepie_collectives::registry::{Request, build};
    use treepie_schedule::Operation;
    use treepie_topology::Network;

    use super::*;

    #[test]
    fn messages_are_estimated() {
        for (id, operation, right) in [
            ("allgather/ring", Operation::Allgather, 64.0 * 63.0),
            ("allgather/distance_doubling", Operation::Allgather, 64.0 * 6.0),
            ("alltoall/linear", Operation::Alltoall, 64.0 * 63.0),
        ] {
            let network = Network::flat(64);
            let schedule = build(id, &Request::new(operation, &network)).unwrap();
            let off = messages(&*schedule) / right;
            assert!((0.9..1.1).contains(&off), "{id}: {off}");
        }
    }
}
