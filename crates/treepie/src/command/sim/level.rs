//! At which level something is simulated, and which of them is taken without being asked for.

use anyhow::{anyhow, ensure};
use treepie_schedule::{Op, Rounds, Schedule};
use treepie_sim::Costs;

/// How it is found out how long something takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Level {
    /// By events if that takes seconds, else from one rank if all do the same, else in rounds if there are links
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

/// With more than this, rounds take more than some minutes,
const TOO_MANY_MESSAGES: f64 = 1e10;

/// and with more lanes than this they take more memory than there may be.
const MANY_LANES: u32 = 1 << 24;

impl Level {
    /// The levels to try in order, until one can be used.
    pub(super) fn to_try(self, schedule: &dyn Schedule, costs: &Costs) -> Vec<Self> {
        if self != Level::Auto {
            return vec![self];
        }
        let messages = messages(schedule);
        let in_rounds =
            matches!(costs, Costs::Links(_)) && messages <= TOO_MANY_MESSAGES && lanes(schedule) <= MANY_LANES;
        if messages <= MANY_MESSAGES {
            vec![Level::Events]
        } else if in_rounds {
            vec![Level::OneRank, Level::Rounds]
        } else {
            vec![Level::OneRank]
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

/// Why none of the levels could be used that were to be tried.
pub(super) fn refusal(asked: Level, id: &str, schedule: &dyn Schedule, costs: &Costs) -> anyhow::Error {
    if asked != Level::Auto {
        return anyhow!("not all ranks of {id} do the same here");
    }
    let messages = messages(schedule);
    let level = if matches!(costs, Costs::Links(_)) && lanes(schedule) <= MANY_LANES { "rounds" } else { "events" };
    anyhow!(
        "{id} has about {messages:.1e} messages, and not all ranks do the same; --level {level} tries it all the same"
    )
}

/// Refuses to write down every message where there are many.
pub(super) fn ensure_few(what: &str, id: &str, schedule: &dyn Schedule) -> anyhow::Result<()> {
    let messages = messages(schedule);
    ensure!(
        messages <= MANY_MESSAGES,
        "{what} is for up to {} million messages, and {id} has about {messages:.1e}",
        MANY_MESSAGES / 1e6
    );
    Ok(())
}

/// The most lanes of a phase.
fn lanes(schedule: &dyn Schedule) -> u32 {
    (0..schedule.phases()).map(|phase| schedule.phase(phase).lanes).max().unwrap_or(0)
}

/// About how many messages there are: from some of the ranks, and from some lanes and rounds of each.
fn messages(schedule: &dyn Schedule) -> f64 {
    let some = |count: u32, most: u32| (0..count).step_by(count.div_ceil(most).max(1) as usize);
    let ranks = schedule.ranks();
    let mut ops = Rounds::new();
    let (mut sends, mut looked_at) = (0.0, 0u32);
    for rank in some(ranks, 16) {
        looked_at += 1;
        for phase in 0..schedule.phases() {
            let lanes = schedule.phase(phase).lanes;
            let (mut of_lanes, mut looked_at) = (0.0, 0u32);
            for lane in some(lanes, 512) {
                looked_at += 1;
                let rounds = schedule.rounds(rank, phase, lane);
                let few = rounds.min(8);
                ops.clear();
                schedule.emit(rank, phase, lane, 0..few, &mut ops);
                let sent = ops.iter().flatten().filter(|op| matches!(op, Op::Send { .. })).count() as f64;
                of_lanes += sent * f64::from(rounds) / f64::from(few.max(1));
            }
            sends += of_lanes * f64::from(lanes) / f64::from(looked_at.max(1));
        }
    }
    sends / f64::from(looked_at.max(1)) * f64::from(ranks)
}

#[cfg(test)]
mod tests {
    use treepie_collectives::registry::{Request, build};
    use treepie_model::Machine;
    use treepie_schedule::Operation;
    use treepie_sim::costs::Links;
    use treepie_topology::Network;

    use super::*;

    #[test]
    fn messages_are_estimated() {
        for (id, operation, right) in [
            ("allgather/ring", Operation::Allgather, 64.0 * 63.0),
            ("allgather/distance_doubling", Operation::Allgather, 64.0 * 6.0),
            ("alltoall/linear", Operation::Alltoall, 64.0 * 63.0),
            // More lanes than could be looked at one by one.
            ("bcast/chain:segments=4000000000", Operation::Bcast { root: 0 }, 63.0 * 4e9),
        ] {
            let network = Network::flat(64);
            let schedule = build(id, &Request::new(operation, &network)).unwrap();
            let off = messages(&*schedule) / right;
            assert!((0.9..1.1).contains(&off), "{id}: {off}");
        }
    }

    #[test]
    fn what_would_take_long_is_not_begun_unasked() {
        let links = Costs::Links(Links::new(6.29, 0.0025));
        let loggp = Costs::LogGp(Machine::Intrepid.loggp().unwrap());
        let (few, many) = ([Level::Events].to_vec(), [Level::OneRank, Level::Rounds].to_vec());
        let unasked = |id, ranks, costs| {
            let network = Network::flat(ranks);
            let schedule = build(id, &Request::new(Operation::Alltoall, &network)).unwrap();
            Level::Auto.to_try(&*schedule, costs)
        };
        assert_eq!(
            [64, 4096, 1 << 20].map(|ranks| unasked("alltoall/linear", ranks, &links)),
            [few.clone(), many, vec![Level::OneRank]]
        );
        assert_eq!([64, 4096].map(|ranks| unasked("alltoall/linear", ranks, &loggp)), [few, vec![Level::OneRank]]);
    }
}
