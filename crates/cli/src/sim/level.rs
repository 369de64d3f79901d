//! Levels of detail of a simulation, and the default choice.

use anyhow::{anyhow, ensure};
use treepie_schedule::{RoundList, Schedule, ScheduleOp};
use treepie_sim::CostModel;

/// Level of detail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Level {
    /// events if that takes seconds, else one-rank if the schedule is symmetric, else rounds if the network has links
    #[default]
    Auto,
    /// Discrete-event simulation of every message
    Events,
    /// Every message of one rank; the schedule must be symmetric
    OneRank,
    /// Lockstep rounds, timed by the most loaded link
    Rounds,
    /// Closed-form cost
    Formula,
}

/// With more messages than this, the event simulation takes more than a few seconds.
const MAX_EVENT_MESSAGES: f64 = 8e6;

/// With more than this, the lockstep simulation takes more than a few minutes,
const MAX_ROUND_MESSAGES: f64 = 1e10;

/// and with more lanes than this, possibly more memory than available.
const MAX_ROUND_LANES: u32 = 1 << 24;

impl Level {
    /// The levels to try in order, until one is applicable.
    pub(super) fn candidates(self, schedule: &dyn Schedule, costs: &CostModel) -> Vec<Self> {
        if self != Level::Auto {
            return vec![self];
        }
        let messages = estimate_messages(schedule);
        let in_rounds = matches!(costs, CostModel::Links(_))
            && messages <= MAX_ROUND_MESSAGES
            && max_lanes(schedule) <= MAX_ROUND_LANES;
        if messages <= MAX_EVENT_MESSAGES {
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

/// Why none of the levels to try is applicable.
pub(super) fn refusal(requested: Level, id: &str, schedule: &dyn Schedule, costs: &CostModel) -> anyhow::Error {
    if requested != Level::Auto {
        return anyhow!("the schedule of {id} is not symmetric here");
    }
    let messages = estimate_messages(schedule);
    let level = if matches!(costs, CostModel::Links(_)) && max_lanes(schedule) <= MAX_ROUND_LANES {
        "rounds"
    } else {
        "events"
    };
    anyhow!("{id} has about {messages:.1e} messages and is not symmetric; --level {level} simulates it anyway")
}

/// Rejects output of every message where there are too many.
pub(super) fn ensure_few_messages(what: &str, id: &str, schedule: &dyn Schedule) -> anyhow::Result<()> {
    let messages = estimate_messages(schedule);
    ensure!(
        messages <= MAX_EVENT_MESSAGES,
        "{what} is for up to {} million messages, and {id} has about {messages:.1e}",
        MAX_EVENT_MESSAGES / 1e6
    );
    Ok(())
}

/// The maximum number of lanes of a phase.
fn max_lanes(schedule: &dyn Schedule) -> u32 {
    (0..schedule.phases()).map(|phase| schedule.phase(phase).lanes).max().unwrap_or(0)
}

/// Estimates the number of messages from a sample of ranks, lanes and rounds.
fn estimate_messages(schedule: &dyn Schedule) -> f64 {
    let sample = |count: u32, max: u32| (0..count).step_by(count.div_ceil(max).max(1) as usize);
    let ranks = schedule.ranks();
    let mut ops = RoundList::new();
    let (mut sends, mut sampled_ranks) = (0.0, 0u32);
    for rank in sample(ranks, 16) {
        sampled_ranks += 1;
        for phase in 0..schedule.phases() {
            let lanes = schedule.phase(phase).lanes;
            let (mut lane_sends, mut sampled_lanes) = (0.0, 0u32);
            for lane in sample(lanes, 512) {
                sampled_lanes += 1;
                let rounds = schedule.rounds(rank, phase, lane);
                let few = rounds.min(8);
                ops.clear();
                schedule.emit(rank, phase, lane, 0..few, &mut ops);
                let sent = ops.iter().flatten().filter(|op| matches!(op, ScheduleOp::Send { .. })).count() as f64;
                lane_sends += sent * f64::from(rounds) / f64::from(few.max(1));
            }
            sends += lane_sends * f64::from(lanes) / f64::from(sampled_lanes.max(1));
        }
    }
    sends / f64::from(sampled_ranks.max(1)) * f64::from(ranks)
}

#[cfg(test)]
mod tests {
    use treepie_collectives::registry::{CollectiveSpec, build};
    use treepie_model::PaperMachine;
    use treepie_schedule::Operation;
    use treepie_sim::costs::LinkCosts;
    use treepie_topology::Network;

    use super::*;

    #[test]
    fn messages_are_estimated() {
        for (id, operation, right) in [
            ("allgather/ring", Operation::Allgather, 64.0 * 63.0),
            ("allgather/distance_doubling", Operation::Allgather, 64.0 * 6.0),
            ("alltoall/linear", Operation::Alltoall, 64.0 * 63.0),
            // More lanes than can be enumerated.
            ("bcast/chain:segments=4000000000", Operation::Bcast { root: 0 }, 63.0 * 4e9),
        ] {
            let network = Network::flat(64);
            let schedule = build(id, &CollectiveSpec::new(operation, &network)).unwrap();
            let off = estimate_messages(&*schedule) / right;
            assert!((0.9..1.1).contains(&off), "{id}: {off}");
        }
    }

    #[test]
    fn auto_avoids_long_simulations() {
        let links = CostModel::Links(LinkCosts::new(6.29, 0.0025));
        let loggp = CostModel::LogGp(PaperMachine::Intrepid.loggp().unwrap());
        let (few, many) = ([Level::Events].to_vec(), [Level::OneRank, Level::Rounds].to_vec());
        let candidates = |id, ranks, costs| {
            let network = Network::flat(ranks);
            let schedule = build(id, &CollectiveSpec::new(Operation::Alltoall, &network)).unwrap();
            Level::Auto.candidates(&*schedule, costs)
        };
        assert_eq!(
            [64, 4096, 1 << 20].map(|ranks| candidates("alltoall/linear", ranks, &links)),
            [few.clone(), many, vec![Level::OneRank]]
        );
        assert_eq!([64, 4096].map(|ranks| candidates("alltoall/linear", ranks, &loggp)), [few, vec![Level::OneRank]]);
    }
}
